//! Real programs on real sockets: started, signalled, killed.

use crate::wait::{DEADLINE, poll_blocking};
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::Instant;

/// A program without the settings that the developer's own shell exports: they must not decide a test.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CONVEYOR_")) {
        command.env_remove(name);
    }
    command
}

/// How often a program that is about to end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Runs a program that is expected to end by itself, and returns all that it printed.
pub fn run(mut command: Command) -> Output {
    Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())).output()
}

/// Reads a pipe to its end, so that a full pipe never blocks the program.
fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    let mut bytes = Vec::new();
    std::thread::spawn(move || {
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).expect("the pipe can be read");
        }
        bytes
    })
}

/// Runs a server that must refuse to start with exit code 1, and returns what it wrote to stderr.
pub async fn refused(mut command: Command) -> String {
    let mut process = Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let text = read(process.child.stderr.take());
    let status = process.wait(DEADLINE).await;
    let text = String::from_utf8(text.join().expect("the reader ends")).expect("UTF-8");
    assert_eq!(status.code(), Some(1), "{text}");
    text
}

/// A running program that ends with the test: dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Where it listens: what it printed after `listening on `.
    pub url: String,
    /// Where it takes orders: what it printed after `control on `. Empty unless it has the flag `--control`.
    pub control: String,
}

impl Process {
    /// Starts a server and waits until it prints `listening on URL` and, with the flag `--control`, `control on URL`.
    pub fn start(mut command: Command) -> Process {
        let mut process = Process::spawn(command.stdout(Stdio::piped()));
        let stdout = process.child.stdout.take().expect("piped");
        let (found, addresses) = channel();
        // Reads to the end: a program that cannot write to its stdout fails.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let listening = line.strip_prefix("listening on ").map(|url| (false, url));
                let control = || line.strip_prefix("control on ").map(|url| (true, url));
                if let Some((is_control, url)) = listening.or_else(control) {
                    let _ = found.send((is_control, url.to_owned()));
                }
            }
        });
        let with_control = command.get_args().any(|argument| argument == "--control");
        while process.url.is_empty() || (with_control && process.control.is_empty()) {
            match addresses.recv_timeout(DEADLINE) {
                Ok((true, url)) => process.control = url,
                Ok((false, url)) => process.url = url,
                Err(RecvTimeoutError::Timeout) => panic!("{command:?} did not print where it listens"),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{command:?} ended before it printed where it listens")
                }
            }
        }
        process
    }

    /// Starts a program and waits for nothing.
    pub fn spawn(command: &mut Command) -> Process {
        let child = command.spawn().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
        Process { child, url: String::new(), control: String::new() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// kill -9: no destructor, no flush.
    pub fn kill(mut self) {
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process ends");
    }

    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(id, signal).expect("the process can be signalled");
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the process can be asked").is_some()
    }

    /// Waits until it ends by itself.
    pub async fn wait(mut self, deadline: Duration) -> ExitStatus {
        let until = Instant::now() + deadline;
        loop {
            if let Some(status) = self.child.try_wait().expect("the process can be asked") {
                return status;
            }
            assert!(Instant::now() < until, "the process did not end within {} s", deadline.as_secs());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until it ends by itself, and returns all that it printed to its pipes.
    pub fn output(mut self) -> Output {
        let (stdout, stderr) = (read(self.child.stdout.take()), read(self.child.stderr.take()));
        let mut status = None;
        poll_blocking("the program ends", LOOK_EVERY, || {
            status = self.child.try_wait().expect("the process can be asked");
            status.is_some()
        });
        let [stdout, stderr] = [stdout, stderr].map(|pipe| pipe.join().expect("the reader ends"));
        Output { status: status.expect("it ended"), stdout, stderr }
    }

    /// SIGTERM, after which a server finishes its work and exits with 0.
    pub async fn stop(self) {
        self.signal(Signal::TERM);
        let status = self.wait(DEADLINE).await;
        assert!(status.success(), "a graceful stop exits with 0, not with {status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = command("sh");
        shell.args(["-c", script]);
        shell
    }

    #[tokio::test]
    async fn a_server_is_started_when_it_says_where_it_listens() {
        // The trap comes first: the test signals as soon as it knows the addresses.
        let script = "trap 'exit 0' TERM; echo begins; echo control on c; echo listening on u; \
                      while :; do sleep 0.01; done";
        let mut with_control = shell(script);
        with_control.arg("--control");
        let process = Process::start(with_control);
        assert_eq!((&*process.url, &*process.control), ("u", "c"));
        process.stop().await;
    }

    #[tokio::test]
    async fn what_a_server_says_when_it_refuses_to_start_is_returned() {
        assert_eq!(refused(shell("echo no >&2; exit 1")).await, "no\n");
    }

    #[test]
    #[should_panic(expected = "ended before it printed where it listens")]
    fn a_server_that_ends_early_is_not_waited_for() {
        Process::start(shell("true"));
    }

    #[test]
    fn a_program_is_run_to_its_end() {
        let output = run(shell("echo out; echo err >&2"));
        assert_eq!((&*output.stdout, &*output.stderr), (&b"out\n"[..], &b"err\n"[..]));
    }

    #[test]
    fn more_than_a_pipe_holds_is_read() {
        let output = run(shell("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2"));
        assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 300_000));
    }
}
