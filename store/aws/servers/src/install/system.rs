//! Commands, and what the machine itself must have.

use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::Command;

/// Something that is installed for the whole machine.
pub struct Need<'a> {
    pub what: &'a str,
    /// The names of its packages on Debian and Ubuntu.
    pub packages: &'a [&'a str],
}

impl Need<'_> {
    /// Installs it if it is missing and we may; otherwise says what to install.
    pub fn meet(&self, is_met: impl Fn() -> bool) -> Result<()> {
        if is_met() {
            return Ok(());
        }
        let (what, packages) = (self.what, self.packages.join(" and "));
        ensure!(
            is_root() && works(Command::new("apt-get").arg("--version")),
            "{what} is needed: install {packages} (the names on Debian and Ubuntu)"
        );
        eprintln!("{what} is missing: installing {packages} with apt-get");
        // An image without package lists can install nothing; with them, updating is only slow.
        if self.apt_install().is_err() {
            run(&mut apt("update"))?;
            self.apt_install()?;
        }
        ensure!(is_met(), "{what} is needed, and {packages} of this distribution are too old or incomplete");
        Ok(())
    }

    fn apt_install(&self) -> Result<()> {
        run(apt("install").args(["--no-install-recommends"]).args(self.packages))
    }
}

fn apt(command: &str) -> Command {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args([command, "-y"]);
    apt
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0")
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
