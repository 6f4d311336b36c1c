//! Packages for the steps that need them, pinned, each kind in a folder of its own under the target directory.

use crate::exec::{quiet, works};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const NPM_MANIFEST: &str = "package.json";
/// Names every package with its digest, and no registry: that is for npm to know.
const NPM_LOCK: &str = "package-lock.json";
const REQUIREMENTS: &str = "xtask/requirements.txt";

/// The folder that holds the packages of npm, which are installed without their scripts. Installs what is missing, and says
/// so.
pub fn node(workspace: &Workspace) -> Result<PathBuf> {
    let (folder, ours) = (workspace.own("node"), workspace.root.join("xtask"));
    let lock = fs::read_to_string(ours.join(NPM_LOCK)).context(NPM_LOCK)?;
    // Written last: half an installation has none.
    let stamp = folder.join("installed.json");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(folder);
    }
    println!("installing the npm packages of xtask/{NPM_MANIFEST} into target/xtask/node");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for name in [NPM_MANIFEST, NPM_LOCK] {
        fs::copy(ours.join(name), folder.join(name)).context(name)?;
    }
    let mut npm = workspace.command("npm");
    npm.current_dir(&folder).arg("ci");
    npm.args(["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"]);
    quiet(&mut npm)?;
    fs::write(&stamp, lock).with_context(|| stamp.display().to_string())?;
    Ok(folder)
}

/// The Python of an environment with the packages. Installs what is missing, and says so.
pub fn python(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.own("venv");
    let (python, stamp) = (folder.join("bin").join("python"), folder.join("requirements.txt"));
    let requirements = fs::read_to_string(workspace.root.join(REQUIREMENTS)).context(REQUIREMENTS)?;
    let imports = "import pytest, schemathesis, xdist, zenrows.batch";
    // The interpreter is a link into the system, which may have moved on.
    let complete = fs::read_to_string(&stamp).is_ok_and(|installed| installed == requirements)
        && works(Command::new(&python).args(["-c", imports]));
    if !complete {
        println!("installing the Python packages of {REQUIREMENTS} into target/xtask/venv");
        quiet(workspace.command("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let pip =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", REQUIREMENTS];
        quiet(workspace.command(&python).args(pip))?;
        // Written last: half an installation has none.
        fs::write(&stamp, requirements).with_context(|| stamp.display().to_string())?;
    }
    Ok(python)
}
