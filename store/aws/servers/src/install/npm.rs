//! Packages of npm that ship a server. Node itself is not needed to run one.

use super::system::{self, Need};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

pub const NPM: Need =
    Need { what: "npm", packages: &["npm"], is_met: || system::works(Command::new("npm").arg("--version")) };

pub fn install(folder: &Path, package: &str, version: &str) -> Result<()> {
    NPM.meet()?;
    let mut npm = Command::new("npm");
    npm.arg("install").arg("--prefix").arg(folder).current_dir(folder);
    // Scripts of a package have no business here: its files are all that is wanted.
    npm.args(["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]);
    // A version never changes once it is published: what was fetched before is not asked for again.
    npm.arg("--prefer-offline");
    system::run(npm.arg(format!("{package}@{version}")))
}
