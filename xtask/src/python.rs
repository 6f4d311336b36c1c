//! Python for the steps that need it: an environment of its own under the target directory, with pinned packages.

use crate::exec::{quiet, works};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const REQUIREMENTS: &str = "xtask/requirements.txt";

/// The environment's Python. Installs what is missing, and says so.
pub fn install(workspace: &Workspace) -> Result<PathBuf> {
    let environment = Environment::at(workspace.own("venv"));
    let requirements = fs::read_to_string(workspace.root.join(REQUIREMENTS)).context(REQUIREMENTS)?;
    if !environment.holds(&requirements) {
        environment.create(workspace, &requirements)?;
    }
    Ok(environment.python)
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
            && works(
                Command::new(&self.python).args(["-c", "import pytest, schemathesis, xdist, zenrows.batch"]),
            )
    }

    fn create(&self, workspace: &Workspace, requirements: &str) -> Result<()> {
        println!("installing the Python packages of {REQUIREMENTS} into target/xtask/venv");
        quiet(workspace.command("python3").args(["-m", "venv", "--clear"]).arg(&self.folder))?;
        let pip =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", REQUIREMENTS];
        quiet(workspace.command(&self.python).args(pip))?;
        fs::write(&self.stamp, requirements).with_context(|| self.stamp.display().to_string())
    }
}
