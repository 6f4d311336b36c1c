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

/// What installs the packages that ship a server. Node itself is not needed to run one.
pub const NPM: Need =
    Need { what: "npm", packages: &["npm"], is_met: || works(Command::new("npm").arg("--version")) };

const JAVA_AT_LEAST: u32 = 17;

/// The distribution's default is enough wherever it is not older than the jar.
pub const JAVA: Need = Need {
    what: "Java 17 or later",
    packages: &["default-jre-headless"],
    is_met: || java_version().is_some_and(|version| version >= JAVA_AT_LEAST),
};

fn java_version() -> Option<u32> {
    let output = Command::new("java").arg("-version").output().ok()?;
    parse_java(&String::from_utf8_lossy(&output.stderr))
}

/// The first number in the first quotes: `openjdk version "17.0.15" 2025-04-15`. Before 9 it was `"1.8.0_402"`.
fn parse_java(text: &str) -> Option<u32> {
    text.split('"').nth(1)?.split(['.', '-', '+']).next()?.parse().ok()
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

/// The versions of packages that would be installed, by the package lists that are there. All in one question: apt
/// takes half a second for an answer, however long.
pub fn candidates(packages: &[&str]) -> Vec<(String, String)> {
    let output = Command::new("apt-cache").env("LC_ALL", "C").arg("policy").args(packages).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    // A name that no package has is taken for a pattern, and the answer is about other packages.
    let asked_for = |(package, _): &(String, String)| packages.contains(&package.as_str());
    parse_candidates(&text.unwrap_or_default()).into_iter().filter(asked_for).collect()
}

fn parse_candidates(policy: &str) -> Vec<(String, String)> {
    let (mut package, mut found) = ("", Vec::new());
    for line in policy.lines() {
        if let Some(title) = line.strip_suffix(':').filter(|title| !title.starts_with(' ')) {
            package = title;
        }
        let version = line.trim().strip_prefix("Candidate:").map(str::trim);
        found.extend(version.filter(|v| *v != "(none)").map(|v| (package.to_owned(), v.to_owned())));
    }
    found
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
        let policy = "python3:\n  Installed: (none)\n  Candidate: 3.11.2-1+b1\n  Version table:\n     3.11.2-1+b1 500\n\
                      python3.13:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n\
                      postgresql-plpython3-15:\n  Installed: (none)\n  Candidate: 15.18-0+deb12u1\n";
        let expected = [("python3", "3.11.2-1+b1"), ("postgresql-plpython3-15", "15.18-0+deb12u1")];
        let expected = expected.map(|(package, version)| (package.to_owned(), version.to_owned()));
        assert_eq!(parse_candidates(policy), expected);
        assert_eq!(parse_candidates(""), []);
    }

    #[test]
    fn what_is_there_is_not_installed() {
        meet("the shell", &["there-is-no-such-package"], || true).unwrap();
    }

    #[test]
    fn the_version_is_found_in_what_java_says() {
        assert_eq!(parse_java("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(parse_java("Picked up JAVA_TOOL_OPTIONS\nopenjdk version \"21\" 2023-09-19"), Some(21));
        assert_eq!(parse_java("openjdk version \"22-ea\" 2024-03-19"), Some(22));
        assert_eq!(parse_java("java version \"1.8.0_402\""), Some(1));
        assert_eq!(parse_java("The operation couldn't be completed."), None);
        assert!(JAVA.what.contains(&JAVA_AT_LEAST.to_string()));
    }
}
