//! Commands, and what the machine itself must have.

use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Something that is installed for the whole machine.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    pub what: &'static str,
    /// The names of its packages on Debian and Ubuntu.
    pub packages: &'static [&'static str],
    /// Looks for it, and installs nothing.
    pub is_met: fn() -> bool,
}

impl Need {
    /// Installs it if it is missing and we may; otherwise says what to install.
    pub(crate) fn meet(&self) -> Result<()> {
        meet(self.what, self.packages, self.is_met)
    }
}

/// Servers are installed in parallel, but the package manager has one lock and fails at once if it is taken.
static APT: Mutex<()> = Mutex::new(());

pub fn meet(what: &str, packages: &[&str], is_met: impl Fn() -> bool) -> Result<()> {
    if is_met() {
        return Ok(());
    }
    let _one_at_a_time = APT.lock().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have installed it in the meantime.
    if is_met() {
        return Ok(());
    }
    let names = packages.join(" and ");
    ensure!(may_install(), "{what} is needed: install {names} (the names on Debian and Ubuntu)");
    eprintln!("{what} is missing: installing {names} with apt-get");
    let install = || run(apt("install").args(["--no-install-recommends"]).args(packages));
    // An image without package lists can install nothing; with them, updating is only slow.
    if install().is_err() {
        run(&mut apt("update"))?;
        install()?;
    }
    ensure!(is_met(), "{what} is needed, and {names} of this distribution are too old or incomplete");
    Ok(())
}

fn apt(command: &str) -> Command {
    let mut apt = Command::new("apt-get");
    // Another process may be installing something else.
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-o", "DPkg::Lock::Timeout=300", command, "-y"]);
    apt
}

/// Whether packages of the distribution can be installed: it is Debian or the like, and we are root.
pub fn may_install() -> bool {
    is_root() && works(Command::new("apt-get").arg("--version"))
}

/// The version of a package that would be installed, by the package lists that are there.
pub fn candidate(package: &str) -> Option<String> {
    let output = Command::new("apt-cache").env("LC_ALL", "C").args(["policy", package]).output().ok()?;
    parse_candidate(package, &String::from_utf8_lossy(&output.stdout))
}

fn parse_candidate(package: &str, policy: &str) -> Option<String> {
    let mut lines = policy.lines();
    // A name that no package has is taken for a pattern, and the answer is about other packages.
    lines.next().filter(|title| title.strip_suffix(':') == Some(package))?;
    let version = lines.find_map(|line| line.trim().strip_prefix("Candidate:"))?.trim();
    (version != "(none)").then(|| version.to_owned())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a command; its output is shown if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        bail!("{program}: {}\n{}", output.status, text.join("\n").trim());
    }
    Ok(())
}

/// Whether a command runs and succeeds, without its output.
pub fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidate_is_found_in_what_apt_says() {
        let policy = "python3:\n  Installed: (none)\n  Candidate: 3.11.2-1+b1\n  Version table:\n";
        assert_eq!(parse_candidate("python3", policy).as_deref(), Some("3.11.2-1+b1"));
        let virtual_only = "python3.13:\n  Installed: (none)\n  Candidate: (none)\n";
        assert_eq!(parse_candidate("python3.13", virtual_only), None);
        let another = "postgresql-plpython3-15:\n  Installed: (none)\n  Candidate: 15.18-0+deb12u1\n";
        assert_eq!(parse_candidate("python3.15", another), None);
        assert_eq!(parse_candidate("python3.14", ""), None);
    }

    #[test]
    fn what_is_there_is_not_installed() {
        meet("the shell", &["there-is-no-such-package"], || true).unwrap();
    }
}
