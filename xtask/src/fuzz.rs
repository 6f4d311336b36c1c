//! The list decoders on random bytes. The targets are a package of their own, outside the workspace: the flags that make
//! them targets are in its `.cargo/config.toml`, which cargo reads from the folder that it runs in.

use crate::workspace::{Workspace, done};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

const PACKAGE: &str = "lists/fuzz";
const TARGETS: [&str; 2] = ["decode_split", "expand"];
/// Whichever comes first; most findings do within seconds.
const BOUNDS: [&str; 3] = ["-runs=200000", "-max_total_time=15", "-max_len=4096"];
/// What would replace the flags of the package, and leave targets that see nothing.
const OVERRIDES: [&str; 4] =
    ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "CARGO_BUILD_TARGET"];

/// The lock file of the targets is a second one, which a new dependency of the crates under test leaves behind. Checking it
/// takes a moment, so it is checked long before the targets are built.
pub fn lock_file_fits(workspace: &Workspace) -> Result<()> {
    done(workspace.cargo_in(PACKAGE).args(["fetch", "--locked"]))
        .with_context(|| format!("`cargo update --workspace` in {PACKAGE} mends a lock file that is behind"))
}

/// Builds every target and runs each, from its seeds and from what earlier runs found worth keeping.
pub fn run(workspace: &Workspace) -> Result<()> {
    done(cargo(workspace, "build").arg("--bins"))?;
    TARGETS.iter().try_for_each(|target| run_target(workspace, target))
}

fn run_target(workspace: &Workspace, target: &str) -> Result<()> {
    let found = workspace.target.join("fuzz").join("corpus").join(target);
    let crashes = workspace.target.join("fuzz").join("crashes").join(target);
    for folder in [&found, &crashes] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    // The slash makes it a folder; otherwise it would be the beginning of a name.
    let crash_prefix = format!("-artifact_prefix={}/", crashes.display());
    let seeds = workspace.root.join(PACKAGE).join("corpus").join(target);
    let mut run = cargo(workspace, "run");
    run.args(["--bin", target, "--"]).args(BOUNDS).args([
        "-verbosity=0",
        "-print_final_stats=1",
        &crash_prefix,
    ]);
    // New inputs are written to the first folder; the seeds are only read.
    done(run.args([found, seeds]))
        .with_context(|| format!("an input that fails {target} is in {}", crashes.display()))
}

fn cargo(workspace: &Workspace, command: &str) -> Command {
    let mut cargo = workspace.cargo_in(PACKAGE);
    cargo.args([command, "--release", "--locked", "--target-dir"]).arg(workspace.target.join("fuzz"));
    for name in OVERRIDES {
        cargo.env_remove(name);
    }
    cargo
}
