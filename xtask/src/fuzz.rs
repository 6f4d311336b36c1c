//! The list decoders on random bytes. The targets are a package of their own, outside the workspace: the flags that make
//! them targets are in its `.cargo/config.toml`, which cargo reads from the folder that it runs in.

use crate::exec::Log;
use crate::steps::Run;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;
use std::thread;

const PACKAGE: &str = "lists/fuzz";
const TARGETS: [&str; 2] = ["decode_split", "expand"];
/// Whichever comes first; most findings do within seconds.
const BOUNDS: [&str; 2] = ["-runs=200000", "-max_len=4096"];
const SECONDS: u64 = 15;
/// What would replace the flags of the package, and leave targets that see nothing.
const OVERRIDES: [&str; 4] =
    ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "CARGO_BUILD_TARGET"];

/// The lock file of the targets is a second one, which a new dependency of the crates under test leaves behind. Checking it
/// takes a moment, so it is checked long before the targets are built.
pub fn lock_file_fits(workspace: &Workspace, log: &Log) -> Result<()> {
    let metadata = ["metadata", "--locked", "--format-version=1"];
    log.read(workspace.cargo_in(PACKAGE).args(metadata), |_| Ok(()))
        .with_context(|| format!("`cargo update --workspace` in {PACKAGE} mends a lock file that is behind"))
}

/// Builds every target and runs all at once, from its seeds and from what earlier runs found worth keeping.
pub fn run(run: &Run) -> Result<()> {
    let targets: Vec<&str> = TARGETS
        .into_iter()
        .filter(|target| run.mode.filter.is_none_or(|part| target.contains(part)))
        .collect();
    if targets.is_empty() {
        return Ok(());
    }
    run.matched();
    run.log.run(cargo(run.workspace, "build").arg("--bins"))?;
    thread::scope(|scope| {
        let running: Vec<_> =
            targets.iter().map(|target| scope.spawn(move || run_target(run, target))).collect();
        let failed: Vec<String> = running
            .into_iter()
            .filter_map(|thread| match thread.join() {
                Ok(outcome) => outcome.err().map(|error| format!("{error:#}")),
                Err(_) => Some("a thread panicked".to_owned()),
            })
            .collect();
        if !failed.is_empty() {
            bail!("{}", failed.join("; "));
        }
        Ok(())
    })
}

fn run_target(run: &Run, target: &str) -> Result<()> {
    let workspace = run.workspace;
    let found = workspace.target.join("fuzz").join("corpus").join(target);
    let crashes = workspace.target.join("fuzz").join("crashes").join(target);
    for folder in [&found, &crashes] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    // The slash makes it a folder; otherwise it would be the beginning of a name.
    let crash_prefix = format!("-artifact_prefix={}/", crashes.display());
    let seeds = workspace.root.join(PACKAGE).join("corpus").join(target);
    let mut command = cargo(workspace, "run");
    command.args(["--quiet", "--bin", target, "--"]);
    match run.mode.soak_time {
        None => command.args(BOUNDS).arg(format!("-max_total_time={SECONDS}")),
        Some(time) => command.args([BOUNDS[1]]).arg(format!("-max_total_time={}", time.as_secs())),
    };
    command.args(["-verbosity=0", "-print_final_stats=1", &crash_prefix]);
    // New inputs are written to the first folder; the seeds are only read.
    run.log
        .run(command.args([found, seeds]))
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
