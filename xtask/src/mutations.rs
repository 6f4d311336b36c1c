//! `cargo xtask mutations`: bugs that the tests must catch, one per invariant. Each is a patch in `mutations/` that names the
//! step and the test that catch it. It is applied to a copy of the sources and tested there with the same command as always.

use crate::exec::{Log, shown, works};
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const PATCHES: &str = "mutations";

#[derive(Debug, Args)]
pub struct MutationArgs {
    /// Try only those whose names have this part
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Name the bugs and what catches them, and try none
    #[arg(long)]
    list: bool,
}

/// One bug. What stands before the diff says what it is:
///
/// ```text
/// Invariant: what it breaks, with its number in SPEC
/// Step: the step of `cargo xtask test` that catches it
/// Test: a part of the names of the tests that do
/// ```
#[derive(Debug)]
struct Mutation {
    name: String,
    patch: PathBuf,
    invariant: String,
    step: String,
    test: String,
}

impl Mutation {
    fn read(patch: PathBuf) -> Result<Mutation> {
        let text = fs::read_to_string(&patch).with_context(|| patch.display().to_string())?;
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let head = text.split("\ndiff --git ").next().unwrap_or_default();
        let field = |key: &str| {
            let found = head.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            found
                .map(str::to_owned)
                .with_context(|| format!("{name} does not say `{key}: ...` before its diff"))
        };
        let (invariant, step, test) = (field("Invariant")?, field("Step")?, field("Test")?);
        Ok(Mutation { name, patch, invariant, step, test })
    }

    fn all(workspace: &Workspace) -> Result<Vec<Mutation>> {
        let folder = workspace.root.join(PATCHES);
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
        paths.sort();
        paths.into_iter().map(Mutation::read).collect()
    }
}

/// A patch that no longer applies shows nothing. Takes a moment, so every test run does it.
pub fn all_apply(workspace: &Workspace, log: &Log) -> Result<()> {
    for mutation in Mutation::all(workspace)? {
        let mut git = git_apply(&workspace.root);
        log.run(git.arg("--check").arg(&mutation.patch)).with_context(|| {
            format!("{} no longer applies: write it again for the code as it is", mutation.name)
        })?;
    }
    Ok(())
}

pub fn run(args: &MutationArgs) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let mut mutations = Mutation::all(&workspace)?;
    mutations.retain(|mutation| args.only.as_ref().is_none_or(|part| mutation.name.contains(part)));
    ensure!(!mutations.is_empty(), "there is no such patch in {PATCHES}");
    if args.list {
        for Mutation { name, invariant, step, test, .. } in &mutations {
            println!("{name}\n    breaks     {invariant}\n    caught by  {step}: {test}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let copy = Copy::make(&workspace)?;
    // All without a bug first: that takes one build, and then every bug one.
    for mutation in &mutations {
        println!("without a bug: {} of {}", mutation.test, mutation.step);
        let log = copy.log(mutation, "without")?;
        let tested = copy.test(mutation, &log)?;
        ensure!(tested.passed, "{} fails without the bug: see {}", mutation.test, copy.logs.display());
    }
    let mut missed = 0;
    for (at, mutation) in mutations.iter().enumerate() {
        println!("[{}/{}] {}: {}", at + 1, mutations.len(), mutation.name, mutation.invariant);
        let caught = copy.catches(mutation)?;
        missed += usize::from(!caught);
        println!("    {}", if caught { "caught" } else { "NOT CAUGHT" });
    }
    println!("\n{} passed, {missed} failed", mutations.len() - missed);
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A second checkout under the target directory, with a target directory of its own in which the dependencies of the first are.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
    logs: PathBuf,
    cargo: PathBuf,
    root: PathBuf,
}

impl Copy {
    fn make(workspace: &Workspace) -> Result<Copy> {
        let folder = workspace.target.join("mutations");
        let copy = Copy {
            tree: folder.join("tree"),
            target: folder.join("target"),
            logs: folder.join("logs"),
            cargo: workspace.cargo.clone(),
            root: workspace.root.clone(),
        };
        for folder in [&copy.tree, &copy.target, &copy.logs] {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        // What is installed once serves both.
        for (of, name) in [("aws-servers", "aws-servers"), ("xtask/venv", "xtask/venv")] {
            let (from, to) = (workspace.target.join(of), copy.target.join(name));
            if from.exists() && !to.exists() {
                fs::create_dir_all(to.parent().unwrap_or(&folder))?;
                std::os::unix::fs::symlink(&from, &to).with_context(|| to.display().to_string())?;
            }
        }
        // Compiled dependencies are the same in both; with their times, or cargo would compile them again.
        let debug = workspace.target.join("debug");
        if debug.exists() && !copy.target.join("debug").exists() {
            println!("copying what is compiled already");
            let mut cp = Command::new("cp");
            ensure!(works(cp.arg("-a").arg(&debug).arg(&copy.target)), "{} failed", shown(&cp));
        }
        copy.reset()?;
        Ok(copy)
    }

    /// Makes the tree what the checkout is, touching only what differs: an unchanged file keeps its time.
    fn reset(&self) -> Result<()> {
        let mut git = Command::new("git");
        git.current_dir(&self.root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = git.output().context("cannot run git")?;
        ensure!(listed.status.success(), "{}: {}", shown(&git), String::from_utf8_lossy(&listed.stderr));
        for name in listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let name = String::from_utf8_lossy(name).into_owned();
            let (from, to) = (self.root.join(&name), self.tree.join(&name));
            // Deleted, and not committed yet.
            let Ok(bytes) = fs::read(&from) else { continue };
            if fs::read(&to).is_ok_and(|there| there == bytes) {
                continue;
            }
            fs::create_dir_all(to.parent().unwrap_or(&self.tree))?;
            fs::copy(&from, &to).with_context(|| to.display().to_string())?;
        }
        Ok(())
    }

    /// Whether the test fails with the bug.
    fn catches(&self, mutation: &Mutation) -> Result<bool> {
        self.reset()?;
        let log = self.log(mutation, "with")?;
        log.run(git_apply(&self.tree).arg(&mutation.patch)).context("the patch does not apply")?;
        let tested = self.test(mutation, &log)?;
        ensure!(tested.built, "with {} nothing compiles: see {}", mutation.name, self.logs.display());
        Ok(!tested.passed)
    }

    fn log(&self, mutation: &Mutation, which: &str) -> Result<Log> {
        Log::create(self.logs.join(format!("{}-{which}.log", mutation.name)), false)
    }

    fn test(&self, mutation: &Mutation, log: &Log) -> Result<Tested> {
        let mut xtask = Command::new(&self.cargo);
        xtask.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        // This program runs under cargo, whose variables name another checkout.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_MANIFEST"))
        {
            xtask.env_remove(name);
        }
        xtask.args(["run", "--quiet", "--package", "xtask", "--", "test"]);
        xtask.args(["--only", &mutation.step, "--filter", &mutation.test]);
        let status = log.status(&mut xtask)?;
        let built = !log.text().contains("=== build failed");
        Ok(Tested { passed: status.success(), built })
    }
}

struct Tested {
    passed: bool,
    built: bool,
}

/// In a folder that git must not take for a part of the checkout around it.
fn git_apply(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder).arg("apply");
    if let Some(above) = folder.parent() {
        git.env("GIT_CEILING_DIRECTORIES", above);
    }
    git
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::STEPS;

    #[test]
    fn every_patch_names_a_step_that_exists() {
        let mutations = Mutation::all(&Workspace::find().unwrap()).unwrap();
        assert!(mutations.len() >= 12, "{}", mutations.len());
        for mutation in mutations {
            assert!(STEPS.iter().any(|step| step.name == mutation.step), "{mutation:?}");
        }
    }
}
