//! Running commands: their output goes to a log, and to the terminal where it is not mixed with another's; the CPU time of a
//! command and of everything it waited for is measured.

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Where the commands of one step write, and what they cost.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: Mutex<File>,
    /// Also show every line as it comes.
    live: bool,
    cpu_ms: AtomicU64,
    /// Tests that passed, by the closing lines of libtest and pytest.
    tests: AtomicU64,
}

impl Log {
    pub fn create(path: PathBuf, live: bool) -> Result<Log> {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).context("the folder for logs")?;
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        Ok(Log { path, file: Mutex::new(file), live, cpu_ms: AtomicU64::new(0), tests: AtomicU64::new(0) })
    }

    pub fn cpu(&self) -> Duration {
        Duration::from_millis(self.cpu_ms.load(Ordering::Relaxed))
    }

    pub fn tests(&self) -> u64 {
        self.tests.load(Ordering::Relaxed)
    }

    pub fn is_live(&self) -> bool {
        self.live
    }

    /// All that was written.
    pub fn text(&self) -> String {
        fs::read(&self.path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    pub fn say(&self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    fn write(&self, line: &[u8]) {
        if let Some(count) = tests_passed(&String::from_utf8_lossy(line)) {
            self.tests.fetch_add(count, Ordering::Relaxed);
        }
        if let Ok(mut file) = self.file.lock() {
            // A full disk costs the log, not the run.
            let _ = file.write_all(line);
        }
        if self.live {
            let _ = io::stdout().lock().write_all(line);
        }
    }

    /// Runs a command; anything but success is an error.
    pub fn run(&self, command: &mut Command) -> Result<()> {
        let shown = shown(command);
        let status = self.status(command)?;
        if !status.success() {
            bail!("{shown}: {status}");
        }
        Ok(())
    }

    /// Runs a command and says how it ended.
    pub fn status(&self, command: &mut Command) -> Result<ExitStatus> {
        self.say(&format!("$ {}", shown(command)));
        let (reader, writer) = io::pipe().context("a pipe")?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn();
        // The command holds our ends of the pipe; the reader would wait for them for ever.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = child.with_context(|| format!("cannot run {}", shown(command)))?;
        thread::scope(|scope| {
            scope.spawn(|| self.copy(reader));
            self.end(child)
        })
    }

    /// Runs a command whose standard output is read by `read`; the rest is logged. An error of `read` is one of the command.
    pub fn read(&self, command: &mut Command, mut read: impl FnMut(&str) -> Result<()>) -> Result<()> {
        let shown = shown(command);
        self.say(&format!("$ {shown}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {shown}"))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        thread::scope(|scope| {
            if let Some(stderr) = stderr {
                scope.spawn(|| self.copy(stderr));
            }
            let mut outcome = Ok(());
            for line in BufReader::new(stdout.context("piped")?).lines() {
                // To the end, or a full pipe would stop the command.
                outcome = outcome.and(read(&line?));
            }
            let status = self.end(child)?;
            outcome?;
            if !status.success() {
                bail!("{shown}: {status}");
            }
            Ok(())
        })
    }

    fn copy(&self, from: impl Read) {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            self.write(&line);
            line.clear();
        }
    }

    /// Waits for a child. What it used is read while it is dead but not yet buried: the kernel adds up what it waited for.
    fn end(&self, mut child: Child) -> Result<ExitStatus> {
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let ended = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            if ended.is_ok() {
                self.add_cpu(cpu_of(child.id()));
            }
        }
        child.wait().context("cannot wait for a command")
    }

    pub fn add_cpu(&self, cpu: Duration) {
        self.cpu_ms.fetch_add(u64::try_from(cpu.as_millis()).unwrap_or(0), Ordering::Relaxed);
    }
}

/// CPU time of a process and of those it waited for; zero where the system does not tell.
pub fn cpu_of(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let ticks = ticks(&stat).unwrap_or(0);
    Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// utime, stime, cutime and cstime: the 14th to 17th field. The second is a name in parentheses that may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

/// How many tests passed, if this is the closing line of a test runner.
fn tests_passed(line: &str) -> Option<u64> {
    let line = line.trim();
    let counts = match line.strip_prefix("test result: ") {
        Some(rest) => rest,
        // `==== 82 passed, 1 skipped in 30.2s ====`, with colours or without.
        None if line.contains(" passed") && line.contains(" in ") && line.contains("=====") => line,
        None => return None,
    };
    let mut words = counts.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut before = words.next()?;
    for word in words {
        if word == "passed" {
            return before.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok();
        }
        before = word;
    }
    None
}

/// Whether a command runs and succeeds, without its output.
pub fn works(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
}

/// Runs a command whose output is shown only if it fails.
pub fn quiet(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}", shown(command)))?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(output.status.success(), "{}: {}\n{}", shown(command), output.status, text.join("\n").trim());
    Ok(())
}

pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> (tempfile::TempDir, Log) {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::create(folder.path().join("log"), false).unwrap();
        (folder, log)
    }

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_failure_are_kept() {
        let (_folder, log) = log();
        log.run(&mut sh("echo out; echo err >&2")).unwrap();
        assert!(log.text().contains("out\n") && log.text().contains("err\n"));
        let error = log.run(&mut sh("exit 3")).unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        let mut lines = Vec::new();
        log.read(&mut sh("echo a; echo b; echo c >&2"), |line| {
            lines.push(line.to_owned());
            Ok(())
        })
        .unwrap();
        assert_eq!(lines, ["a", "b"]);
        assert!(log.read(&mut sh("echo a"), |_| bail!("no")).is_err());
    }

    #[test]
    fn the_cpu_time_of_grandchildren_counts() {
        let (_folder, log) = log();
        log.run(&mut sh("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; true")).unwrap();
        assert!(log.cpu() > Duration::ZERO);
    }

    #[test]
    fn fields_are_counted_from_behind_the_name() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0";
        assert_eq!(ticks(stat), Some(127));
        assert_eq!(ticks("42 (sh) S"), None);
    }

    #[test]
    fn closing_lines_are_counted() {
        assert_eq!(tests_passed("test result: ok. 17 passed; 0 failed; 0 ignored"), Some(17));
        assert_eq!(tests_passed("test result: FAILED. 3 passed; 1 failed"), Some(3));
        assert_eq!(tests_passed("======= 82 passed, 1 skipped in 30.21s ======="), Some(82));
        assert_eq!(tests_passed("test a_password_passed ... ok"), None);
        assert_eq!(tests_passed("17 passed, 0 failed"), None);
    }
}
