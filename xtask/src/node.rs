//! Packages of npm for the steps that need them: in a folder of their own under the target directory, as the lock file names
//! them, and without their scripts.

use crate::exec::quiet;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

const MANIFEST: &str = "package.json";
/// Names every package with its digest, and no registry: that is for npm to know.
const LOCK: &str = "package-lock.json";

/// The folder that holds the packages. Installs what is missing, and says so.
pub fn install(workspace: &Workspace) -> Result<PathBuf> {
    let (folder, ours) = (workspace.own("node"), workspace.root.join("xtask"));
    let lock = fs::read_to_string(ours.join(LOCK)).context(LOCK)?;
    // Written last: half an installation has none.
    let stamp = folder.join("installed.json");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(folder);
    }
    println!("installing the npm packages of xtask/{MANIFEST} into target/xtask/node");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for name in [MANIFEST, LOCK] {
        fs::copy(ours.join(name), folder.join(name)).context(name)?;
    }
    let mut npm = workspace.command("npm");
    npm.current_dir(&folder).arg("ci");
    npm.args(["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"]);
    quiet(&mut npm)?;
    fs::write(&stamp, lock).with_context(|| stamp.display().to_string())?;
    Ok(folder)
}
