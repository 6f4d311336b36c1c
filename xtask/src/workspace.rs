//! Where things are, and how commands are run there.

use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A variable for the environment of a command.
pub type Variable = (&'static str, String);

pub struct Workspace {
    pub root: PathBuf,
    /// Where cargo builds, and where this program may put what it installs.
    pub target: PathBuf,
    cargo: PathBuf,
}

impl Workspace {
    pub fn find() -> Result<Workspace> {
        // `cargo run` says where the package is now; the checkout may have moved since it was compiled.
        let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&package).parent().context("xtask has no workspace around it")?.to_owned();
        let target =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
        let cargo = env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
        Ok(Workspace { root, target, cargo })
    }

    /// A command that runs at the root.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(&self.root);
        command
    }

    pub fn cargo(&self, args: &[&str]) -> Result<()> {
        self.cargo_with(args, &[])
    }

    /// Cargo with more in its environment.
    pub fn cargo_with(&self, args: &[&str], variables: &[Variable]) -> Result<()> {
        let variables = variables.iter().map(|(name, value)| (name, value));
        done(self.command(&self.cargo).args(args).envs(variables))
    }

    /// A cargo command that runs in a folder, under the settings that it has there.
    pub fn cargo_in(&self, folder: &str) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(self.root.join(folder));
        command
    }

    /// The names of the integration tests of the packages that are wanted, by their folders: `store`, `store/aws`.
    pub fn test_targets(&self, wanted: fn(&str) -> bool) -> Result<Vec<String>> {
        let (mut targets, mut others) = (Vec::new(), Vec::new());
        for package in packages(&self.root)? {
            let folder = package.strip_prefix(&self.root).unwrap_or(&package).to_string_lossy();
            let names = if wanted(&folder) { &mut targets } else { &mut others };
            names.extend(tests_of(&package)?);
        }
        targets.sort();
        targets.dedup();
        let ambiguous: Vec<_> = targets.iter().filter(|name| others.contains(name)).collect();
        // Cargo takes names only, and would run both.
        ensure!(ambiguous.is_empty(), "tests of other packages have the same names: {ambiguous:?}");
        Ok(targets)
    }

    pub fn binary(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(name).with_extension(env::consts::EXE_EXTENSION)
    }
}

/// The folders of packages, also of those within others.
fn packages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for package in entries(folder)?.into_iter().filter(|folder| folder.join("Cargo.toml").is_file()) {
        found.extend(packages(&package)?);
        found.push(package);
    }
    Ok(found)
}

fn tests_of(package: &Path) -> Result<Vec<String>> {
    let tests = package.join("tests");
    if !tests.is_dir() {
        return Ok(Vec::new());
    }
    let is_target =
        |path: &&PathBuf| path.extension().is_some_and(|e| e == "rs") || path.join("main.rs").is_file();
    Ok(entries(&tests)?.iter().filter(is_target).map(|path| name_of(path)).collect())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    read.map(|entry| Ok(entry?.path())).collect()
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Runs a command with its output for all to see; anything but success is an error.
pub fn done(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Whether a command runs and succeeds, without its output.
pub fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_by_the_folder_of_their_package() {
        let workspace = Workspace::find().unwrap();
        let servers = workspace.test_targets(|folder| folder == "store/aws/servers").unwrap();
        assert_eq!(servers, ["servers"]);
        let store = workspace.test_targets(|folder| folder == "store").unwrap();
        assert!(store.contains(&"embedded".to_owned()) && !store.contains(&"servers".to_owned()));
        assert_eq!(workspace.test_targets(|folder| folder == "aws").unwrap(), [""; 0]);
    }
}
