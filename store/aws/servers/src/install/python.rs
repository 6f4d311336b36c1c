//! Environments of Python with pinned packages.

use super::system;
use anyhow::{Context, Result, anyhow};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// By the names that distributions give them, the default first.
const NAMES: [&str; 4] = ["python3", "python3.13", "python3.14", "python3.15"];

pub fn install(folder: &Path, requirements: &str, at_least: (u32, u32), then: Option<&str>) -> Result<()> {
    let python = system_python(at_least)?;
    system::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(folder))?;
    let list = folder.join("requirements.txt");
    fs::write(&list, requirements).with_context(|| list.display().to_string())?;
    let mut pip = Command::new(interpreter(folder));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
    // Most modules are never imported; those that are get compiled at the first start.
    pip.arg("--no-compile");
    system::run(pip.arg("--requirement").arg(list))?;
    then.map_or(Ok(()), |script| prepare(folder, script))
}

/// Runs a script in the folder of an environment, with nothing of ours that could change what it does.
fn prepare(folder: &Path, script: &str) -> Result<()> {
    let mut python = Command::new(interpreter(folder));
    python.args(["-c", script]).current_dir(folder).env_clear().env("HOME", folder);
    system::run(python.envs(env::var_os("PATH").map(|path| ("PATH", path))))
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

/// Whether an environment can be made: such a Python is there, or the distribution has one and we may install it. Looks
/// only; the error says what was looked for.
pub fn can_be_had(at_least: (u32, u32)) -> Result<()> {
    match find(at_least).is_some() || packages(at_least).is_some() {
        true => Ok(()),
        false => Err(anyhow!("there is no {}", described(at_least))),
    }
}

fn system_python(at_least: (u32, u32)) -> Result<PathBuf> {
    let what = described(at_least);
    if let Some(python) = find(at_least) {
        return Ok(python);
    }
    let packages = packages(at_least).unwrap_or_else(|| packages_of("python3"));
    system::meet(&what, &[&packages[0], &packages[1]], || find(at_least).is_some())?;
    find(at_least).context(what)
}

fn described((major, minor): (u32, u32)) -> String {
    format!("Python {major}.{minor} or later with its venv module")
}

/// What to install for a Python that is new enough, if the distribution has one. Its default version has no number in
/// its name.
fn packages(at_least: (u32, u32)) -> Option<[String; 2]> {
    if !system::may_install() {
        return None;
    }
    let new_enough = |version: &str| parse(version).is_some_and(|version| version >= at_least);
    let candidates = system::candidates(&NAMES);
    let found = candidates.iter().find(|(_, version)| new_enough(version));
    found.map(|(package, _)| packages_of(package))
}

fn packages_of(python: &str) -> [String; 2] {
    [python.to_owned(), format!("{python}-venv")]
}

/// `3.11.2-1+b1` is 3.11.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-', '~', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn find((major, minor): (u32, u32)) -> Option<PathBuf> {
    // Some distributions package Python and what it takes to make an environment apart.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_packages_are_read() {
        assert_eq!(parse("3.11.2-1+b1"), Some((3, 11)));
        assert_eq!(parse("3.13.5-1"), Some((3, 13)));
        assert_eq!(parse("3.14~rc1"), Some((3, 14)));
        assert_eq!(parse("none"), None);
        assert!(parse("3.9.2").unwrap() < (3, 10), "numbers, not text");
    }

    #[test]
    fn the_default_version_has_no_number_in_its_name() {
        assert_eq!(NAMES[0], "python3");
        assert_eq!(packages_of("python3.13"), ["python3.13", "python3.13-venv"]);
    }
}
