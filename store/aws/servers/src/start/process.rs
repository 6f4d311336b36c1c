//! A process that ends, with all that it started, when its owner drops it or is gone.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Becomes the server, and leaves a watcher beside it, in the same process group. The watcher reads from a pipe to which
/// nobody ever writes: its end says that the owner is gone, by whatever death. Then it ends the server, removes the
/// state that the owner can no longer remove, and ends whatever is left of the group, itself included.
///
/// Localstack keeps a file open for each larger object, hence the limit.
///
/// While the watcher lives the group exists, so that its number cannot come to mean another's.
const WATCHED: &str = r#"
state=$1
shift
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)"
exec 3<&0
(
    trap '' HUP INT TERM
    while read -r _ <&3; do :; done
    kill -KILL $$
    rm -rf -- "$state"
    kill -KILL 0
) &
exec "$@" 3<&- </dev/null
"#;
/// Servers see nothing of our environment but this: what is in it (a proxy, credentials, an endpoint) would change them.
const PASSED_ON: [&str; 2] = ["PATH", "LANG"];
const LOG_TAIL_LINES: usize = 40;

#[derive(Debug)]
pub struct Process {
    /// The server itself; holds our end of the pipe.
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Runs a command with its output in a file, and a folder for a home.
    pub fn spawn(command: &Command, state: &Path, log: &Path) -> Result<Process> {
        let output = File::create(log).with_context(|| log.display().to_string())?;
        let mut watched = Command::new("sh");
        watched.args([OsStr::new("-c"), OsStr::new(WATCHED), OsStr::new("watched")]).arg(state);
        watched.arg(command.get_program()).args(command.get_args());
        watched.current_dir(command.get_current_dir().unwrap_or(state));
        watched.env_clear().env("HOME", state).env("TMPDIR", state);
        watched.envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        watched.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        // A group of its own, also so that Ctrl-C in a terminal is for the owner to act on.
        watched.process_group(0);
        watched.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output);
        let child = watched.spawn().context("cannot run sh")?;
        Ok(Process { child, log: log.to_owned() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot ask for the state of a child process")
    }

    /// The last of what it wrote, for an error message.
    pub fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
        if tail.is_empty() { "it wrote nothing".to_owned() } else { tail.join("\n") }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if nothing is left to end.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::start::until;
    use std::time::Duration;

    const WITHIN: Duration = Duration::from_secs(10);
    const EVERY: Duration = Duration::from_millis(5);

    /// A process with children of its own that would all outlive the test.
    fn family() -> (Process, tempfile::TempDir) {
        let state = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & sleep 1000 & echo $HOME > started; wait"]);
        let process = Process::spawn(&command, state.path(), &state.path().join("log")).unwrap();
        let started = || Ok(fs::read(state.path().join("started")).ok().filter(|text| !text.is_empty()));
        assert!(until(WITHIN, EVERY, started).unwrap().is_some(), "{}", process.log_tail());
        (process, state)
    }

    fn is_gone(group: u32) -> bool {
        until(WITHIN, EVERY, || Ok((members(group) == 0).then_some(()))).unwrap().is_some()
    }

    /// How many processes of a group run. Whoever has inherited the dead may take its time to bury them.
    fn members(group: u32) -> usize {
        let stats = fs::read_dir("/proc").unwrap().flatten();
        let stats = stats.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
        let lives_in_group = |stat: &String| {
            // The name before it, in brackets, may be anything.
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            matches!(fields[..], [state, _parent, its_group, ..] if state != "Z" && its_group == group.to_string())
        };
        stats.filter(lives_in_group).count()
    }

    #[test]
    fn a_dropped_process_takes_its_children_with_it() {
        let (process, _state) = family();
        let group = process.child.id();
        assert_eq!(members(group), 4, "the process, its children and the watcher");
        drop(process);
        assert!(is_gone(group));
    }

    #[test]
    fn an_owner_that_is_gone_takes_everything_with_it() {
        let (mut process, state) = family();
        // What the system does for an owner that was killed.
        drop(process.child.stdin.take());
        let ended = until(WITHIN, EVERY, || process.ended()).unwrap();
        assert!(ended.is_some_and(|status| !status.success()));
        assert!(is_gone(process.child.id()));
        assert!(!state.path().exists());
    }
}
