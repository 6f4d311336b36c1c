//! Environments of Python with pinned packages.

use super::system::{self, Need};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const PACKAGES: [&str; 2] = ["python3", "python3-venv"];
const NAMES: [&str; 3] = ["python3", "python3.13", "python3.14"];

pub fn install(folder: &Path, requirements: &str, at_least: (u32, u32)) -> Result<()> {
    let python = system_python(at_least)?;
    system::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(folder))?;
    let list = folder.join("requirements.txt");
    fs::write(&list, requirements).with_context(|| list.display().to_string())?;
    let mut pip = Command::new(interpreter(folder));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--requirement",
    ]);
    system::run(pip.arg(list))
}

/// The interpreter of an environment, beside which its programs are.
pub fn interpreter(folder: &Path) -> PathBuf {
    folder.join("bin").join("python")
}

/// The interpreter is a link into the system, which may have moved on, to nowhere or to a version that looks for its
/// packages elsewhere.
pub fn works(folder: &Path) -> bool {
    system::works(Command::new(interpreter(folder)).args(["-c", "import pip"]))
}

fn system_python(at_least: (u32, u32)) -> Result<PathBuf> {
    let (major, minor) = at_least;
    let what = format!("Python {major}.{minor} or later with its venv module");
    let need = Need { what: &what, packages: &PACKAGES };
    need.meet(|| find(at_least).is_some())?;
    find(at_least).context(what)
}

fn find((major, minor): (u32, u32)) -> Option<PathBuf> {
    // Some distributions sell Python and what it takes to make an environment apart.
    let check = format!("import sys, venv, ensurepip; sys.exit(sys.version_info < ({major}, {minor}))");
    let named = NAMES.iter().map(PathBuf::from);
    named.chain(pyenv()).find(|python| system::works(Command::new(python).args(["-c", &check])))
}

/// What pyenv has beside the version that it puts on the path.
fn pyenv() -> Vec<PathBuf> {
    let root = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(env::home_dir()?.join(".pyenv")));
    let versions = root.and_then(|root| fs::read_dir(root.join("versions")).ok());
    let pythons = versions.into_iter().flatten().flatten();
    let mut pythons: Vec<PathBuf> =
        pythons.map(|version| version.path().join("bin").join("python3")).collect();
    pythons.sort();
    pythons
}
