//! Where things are, and how commands are built there.

use anyhow::{Context, Result};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A variable for the environment of a command.
pub type Variable = (&'static str, String);

#[derive(Debug)]
pub struct Workspace {
    pub root: PathBuf,
    /// Where cargo builds, and where this program may put what it installs.
    pub target: PathBuf,
    pub cargo: PathBuf,
}

impl Workspace {
    pub fn find() -> Result<Workspace> {
        // `cargo run` says where the package is now; the checkout may have moved since it was compiled.
        let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&package).parent().context("xtask has no workspace around it")?.to_owned();
        let target =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
        let cargo = env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
        Ok(Workspace { root, target, cargo })
    }

    /// Where this program keeps its own files.
    pub fn own(&self, name: &str) -> PathBuf {
        self.target.join("xtask").join(name)
    }

    /// A command that runs at the root.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(&self.root);
        command
    }

    pub fn cargo(&self, args: &[&str]) -> Command {
        let mut command = self.command(&self.cargo);
        command.args(args);
        command
    }

    /// A cargo command that runs in a folder, under the settings that it has there.
    pub fn cargo_in(&self, folder: &str) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(self.root.join(folder));
        command
    }

    pub fn binary(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(name).with_extension(env::consts::EXE_EXTENSION)
    }
}
