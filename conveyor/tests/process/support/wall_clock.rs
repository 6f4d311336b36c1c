//! A wall clock that a test sets while the process runs.

use super::run;
use std::fs::{File, write};
use std::os::unix::fs::FileExt;
use std::process::Command;
use tempfile::TempDir;

pub struct WallClock {
    dir: TempDir,
    ahead: File,
}

impl WallClock {
    /// One that is ahead by so many seconds.
    pub fn ahead(seconds: i64) -> WallClock {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("ahead");
        write(&path, seconds.to_ne_bytes()).unwrap();
        let ahead = File::options().write(true).open(path).unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/support/wall_clock.c");
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]);
        let built = run({
            compiler.arg(dir.path().join("wall_clock.so")).arg(source);
            compiler
        });
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        WallClock { dir, ahead }
    }

    /// For a process that goes by it.
    pub fn wear(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.dir.path().join("wall_clock.so"));
        command.env("TEST_WALL_CLOCK", self.dir.path().join("ahead"));
    }

    pub fn set_ahead(&self, seconds: i64) {
        self.ahead.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
}
