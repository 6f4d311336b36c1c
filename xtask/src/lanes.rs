//! Runs steps: the build that all stand on, then those that come first, then two lanes side by side.

use crate::build::{self, Built};
use crate::exec::Log;
use crate::machine;
use crate::report::Outcome;
use crate::steps::{Lane, Run, Shared, Step};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A disk that syncs takes 4 ms for every commit, and no test but those of a full disk, which mount their own, is about the
/// disk.
const MEMORY: &str = "/dev/shm";
/// What all steps at once need, with room to spare.
const FREE_MIN_BYTES: u64 = 3 << 30;

/// How steps are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode<'a> {
    pub filter: Option<&'a str>,
    pub quick: bool,
    /// At full size, and for how long what can fill any time goes on.
    pub soak_time: Option<Duration>,
}

/// Builds, and runs every step if that is well. What fails is noted, and the rest still runs.
pub fn run(workspace: &Workspace, steps: &[&'static Step], mode: Mode<'_>) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let Some(bench) = Bench::build(workspace, steps, &mut outcomes)? else {
        outcomes.extend(steps.iter().map(|step| Outcome::not_run(step, "build")));
        return Ok(outcomes);
    };
    outcomes.extend(bench.run_all(steps, mode)?);
    outcomes.extend(bench.servers());
    for note in bench.notes() {
        println!("\n{note}");
    }
    Ok(outcomes)
}

/// A finished build, and what steps share.
#[derive(Debug)]
pub struct Bench<'a> {
    workspace: &'a Workspace,
    built: Built,
    shared: Shared,
    scratch: TempDir,
    machine: machine::Report,
}

impl<'a> Bench<'a> {
    /// Builds everything; nothing comes of a build that fails. Meanwhile what the steps need is installed: that takes the
    /// network, and the build the processor.
    pub fn build(
        workspace: &'a Workspace,
        steps: &[&'static Step],
        outcomes: &mut Vec<Outcome>,
    ) -> Result<Option<Bench<'a>>> {
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        let machine = machine::check(&names)?;
        for note in &machine.notes {
            println!("{note}");
        }
        let shared = Shared::default();
        println!("\n=== build: everything builds; the other steps run what it made");
        let log = Log::create(workspace.own("logs").join("build.log"), true)?;
        let started = now();
        let built = thread::scope(|scope| {
            if steps.iter().any(|step| step.lane == Lane::Aws) {
                scope.spawn(|| shared.install_servers(workspace));
            }
            if steps.iter().any(|step| step.needs_python) {
                scope.spawn(|| shared.python(workspace));
            }
            build::run(workspace, &log)
        });
        outcomes.push(Outcome::of_build(built.is_ok(), started.elapsed(), log.cpu()));
        match built {
            Ok(built) => Ok(Some(Bench { workspace, built, shared, scratch: scratch()?, machine })),
            Err(error) => {
                println!("=== build failed: {error:#}");
                Ok(None)
            }
        }
    }

    /// Runs every step, those of the two lanes side by side. A failed step is noted, and the rest still runs.
    fn run_all(&self, steps: &[&'static Step], mode: Mode<'_>) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        let in_lane = |lane| steps.iter().copied().filter(move |step| step.lane == lane).collect::<Vec<_>>();
        for step in in_lane(Lane::First) {
            outcomes.push(self.run(step, true, mode)?);
        }
        let (embedded, aws) = (in_lane(Lane::Embedded), in_lane(Lane::Aws));
        // Output of two at once would be mixed: each is shown when it is done.
        let live = embedded.is_empty() || aws.is_empty();
        let others = Mutex::new(Vec::new());
        let lane = |steps: Vec<&'static Step>| -> Result<()> {
            for step in steps {
                let outcome = self.run(step, live, mode)?;
                if let Ok(mut others) = others.lock() {
                    others.push(outcome);
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let aws = scope.spawn(|| lane(aws));
            let embedded = lane(embedded);
            let aws = aws.join().unwrap_or_else(|_| bail!("the thread of a lane panicked"));
            embedded.and(aws)
        })?;
        outcomes.extend(others.into_inner().unwrap_or_default());
        Ok(outcomes)
    }

    /// Runs one step, its output shown as it comes or at the end.
    pub fn run(&self, step: &'static Step, live: bool, mode: Mode<'_>) -> Result<Outcome> {
        let log = Log::create(self.workspace.own("logs").join(format!("{}.log", step.name)), live)?;
        let scratch = self.scratch.path().join(step.name);
        fs::create_dir_all(&scratch)?;
        let run = Run {
            workspace: self.workspace,
            log: &log,
            built: &self.built,
            shared: &self.shared,
            scratch,
            skip: &self.machine.skip,
            mode,
            matched: AtomicBool::new(false),
        };
        Ok(one_step(step, &run))
    }

    /// What could not be tested on this machine, for the summary.
    pub fn notes(&self) -> &[String] {
        &self.machine.notes
    }

    /// What the servers used, if any were needed: they serve all steps, so it is nobody's in particular.
    pub fn servers(&self) -> Option<Outcome> {
        let servers = self.shared.started()?;
        Some(Outcome::note("(servers)", servers.describe(), servers.cpu()))
    }
}

fn one_step(step: &'static Step, run: &Run<'_>) -> Outcome {
    let title = format!("\n=== {}: {}\n", step.name, step.what);
    if run.log.is_live() {
        print!("{title}");
    } else {
        println!("... {} begins", step.name);
    }
    let started = now();
    let error = (step.run)(run).err();
    let took = started.elapsed();
    if run.mode.filter.is_some() && !run.matched.load(Ordering::Relaxed) && error.is_none() {
        return Outcome::no_match(step);
    }
    let output = if run.log.is_live() { String::new() } else { format!("{title}{}", run.log.text()) };
    let failed = error.as_ref().map(|error| format!(" failed: {error:#}")).unwrap_or_default();
    // In one piece: the other lane prints as well.
    println!("{output}=== {}{failed} ({:.1} s)", step.name, took.as_secs_f64());
    Outcome::ran(step, error.is_none(), took, run.log.cpu(), run.log.tests())
}

/// A folder for temporary data, in memory where there is room. Removed when dropped.
fn scratch() -> Result<TempDir> {
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("conveyor-test-");
        builder
    };
    if has_room(Path::new(MEMORY))
        && let Ok(folder) = builder().tempdir_in(MEMORY)
    {
        return Ok(folder);
    }
    builder().tempdir().context("no temporary folder")
}

fn has_room(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|fs| fs.f_bavail.saturating_mul(fs.f_frsize) >= FREE_MIN_BYTES)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the wall time of real processes is what is measured; nothing simulates it"
)]
pub fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &'static str, lane: Lane, run: fn(&Run) -> Result<()>) -> &'static Step {
        let (what, on, quick, needs_python) = ("a test of this program", "nothing", false, false);
        Box::leak(Box::new(Step { name, what, on, lane, quick, needs_python, run }))
    }

    fn workspace(folder: &TempDir, cargo: &str) -> Workspace {
        Workspace { root: folder.path().into(), target: folder.path().join("target"), cargo: cargo.into() }
    }

    fn results(outcomes: &[Outcome]) -> Vec<(&'static str, &'static str)> {
        let mut results: Vec<_> = outcomes.iter().map(|outcome| (outcome.step, outcome.result())).collect();
        results.sort_unstable();
        results
    }

    #[test]
    fn a_failed_step_does_not_hide_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = workspace(&folder, "cargo");
        let bench = Bench {
            workspace: &workspace,
            built: Built::default(),
            shared: Shared::default(),
            scratch: tempfile::tempdir().unwrap(),
            machine: machine::Report::default(),
        };
        let steps = [
            step("a", Lane::First, |_| bail!("no")),
            step("b", Lane::First, |_| Ok(())),
            step("c", Lane::Embedded, |_| bail!("no")),
            step("d", Lane::Embedded, |_| Ok(())),
            step("e", Lane::Aws, |_| bail!("no")),
            step("f", Lane::Aws, |_| Ok(())),
        ];
        let outcomes = bench.run_all(&steps, Mode::default()).unwrap();
        let (bad, good) = ("FAILED", "passed");
        assert_eq!(
            results(&outcomes),
            [("a", bad), ("b", good), ("c", bad), ("d", good), ("e", bad), ("f", good)]
        );
    }

    #[test]
    fn nothing_runs_on_a_broken_build() {
        let folder = tempfile::tempdir().unwrap();
        let steps =
            [step("a", Lane::First, |_| panic!("it ran")), step("b", Lane::First, |_| panic!("it ran"))];
        // A cargo that fails whatever it is asked.
        let outcomes = run(&workspace(&folder, "false"), &steps, Mode::default()).unwrap();
        assert_eq!(results(&outcomes), [("a", "skipped"), ("b", "skipped"), ("build", "FAILED")]);
        assert!(!outcomes.iter().any(Outcome::is_well));
    }
}
