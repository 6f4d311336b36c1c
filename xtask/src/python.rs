//! Python for the steps that need it: an environment of its own under the target directory, with pinned packages.

use crate::workspace::{Workspace, done, works};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const REQUIREMENTS: &str = "xtask/requirements.txt";
const SYSTEM_PACKAGES: [&str; 2] = ["python3", "python3-venv"];

/// A command that runs the environment's Python. Installs what is missing, and says so.
pub fn prepare(workspace: &Workspace) -> Result<Command> {
    let environment = Environment::at(workspace.target.join("xtask").join("venv"));
    let requirements = fs::read_to_string(workspace.root.join(REQUIREMENTS)).context(REQUIREMENTS)?;
    if !environment.holds(&requirements) {
        install_python(workspace)?;
        environment.create(workspace, &requirements)?;
    }
    Ok(workspace.command(&environment.python))
}

struct Environment {
    folder: PathBuf,
    python: PathBuf,
    /// The requirements that were installed, word for word. Written last: half an installation has none.
    stamp: PathBuf,
}

impl Environment {
    fn at(folder: PathBuf) -> Environment {
        let python = folder.join("bin").join("python");
        let stamp = folder.join("requirements.txt");
        Environment { folder, python, stamp }
    }

    fn holds(&self, requirements: &str) -> bool {
        // The interpreter is a link into the system, which may have moved on.
        fs::read_to_string(&self.stamp).is_ok_and(|installed| installed == requirements)
            && works(Command::new(&self.python).args(["-c", "import pytest, schemathesis, zenrows.batch"]))
    }

    fn create(&self, workspace: &Workspace, requirements: &str) -> Result<()> {
        println!("installing the packages of {REQUIREMENTS} into {}", shown(&self.folder, &workspace.root));
        done(workspace.command("python3").args(["-m", "venv", "--clear"]).arg(&self.folder))?;
        let pip =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", REQUIREMENTS];
        done(workspace.command(&self.python).args(pip))?;
        fs::write(&self.stamp, requirements).with_context(|| self.stamp.display().to_string())
    }
}

/// Python with what it takes to make an environment. Some distributions sell the two apart.
fn install_python(workspace: &Workspace) -> Result<()> {
    let there = || works(workspace.command("python3").args(["-c", "import venv, ensurepip"]));
    if there() {
        return Ok(());
    }
    let packages = SYSTEM_PACKAGES.join(" and ");
    ensure!(
        is_root() && works(Command::new("apt-get").arg("--version")),
        "python3 with its venv module is needed for this step: install {packages} (the names on Debian and Ubuntu)"
    );
    println!("python3 or its venv module is missing: installing {packages} with apt-get");
    let install = |command: &str, rest: &[&str]| {
        done(
            workspace
                .command("apt-get")
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args([command, "-y"])
                .args(rest),
        )
    };
    // An image without package lists can install nothing; with them, updating is only slow.
    if install("install", &SYSTEM_PACKAGES).is_err() {
        install("update", &[])?;
        install("install", &SYSTEM_PACKAGES)?;
    }
    ensure!(there(), "python3 has no venv module although {packages} are installed");
    Ok(())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

fn shown<'a>(path: &'a Path, root: &Path) -> std::path::Display<'a> {
    path.strip_prefix(root).unwrap_or(path).display()
}
