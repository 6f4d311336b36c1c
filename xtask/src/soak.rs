//! `cargo xtask soak`: what needs minutes by nature. The same tests at full size (`CONVEYOR_SOAK=1`),
//! long simulations and fuzzing, in rounds until the time is over.

use crate::lanes::{self, Bench, Mode};
use crate::report::{self, Outcome};
use crate::steps::{Run, STEPS, Step, USUAL};
use crate::times::Times;
use crate::workspace::Workspace;
use anyhow::{Result, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug, Args)]
pub struct SoakArgs {
    /// How long to go on: no round begins after that, and a step that has begun is finished. Such as 90s, 30m or 8h
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_time)]
    duration: Duration,
    /// Run only this step; can be repeated
    #[arg(long, value_name = "STEP", value_parser = names())]
    only: Vec<String>,
}

/// Those steps of the test command that have a full size.
const FULL_SIZE: [&str; 7] = ["integration", "process", "cluster", "client", "client-aws", "aws", "fuzz"];
/// Of the time that is left, what a step that can fill any time takes.
const SHARE: u32 = 8;
const FUZZ_MIN: Duration = Duration::from_secs(30);
const SEEDS_A_ROUND: u64 = 50;

static SIMULATION: Step = Step {
    name: "simulation",
    what: "seeded faults, every invariant audited; other seeds in every round",
    on: "the product's own store, ingest and sweeper",
    run: simulation,
    ..USUAL
};

fn steps() -> impl Iterator<Item = &'static Step> {
    std::iter::once(&SIMULATION).chain(STEPS.iter().filter(|step| FULL_SIZE.contains(&step.name)))
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(steps().map(|step| step.name))
}

pub fn run(args: &SoakArgs) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let chosen: Vec<_> = steps()
        .filter(|step| args.only.is_empty() || args.only.iter().any(|name| name == step.name))
        .collect();
    let started = lanes::now();
    let left = || args.duration.saturating_sub(started.elapsed());
    let mut outcomes = Vec::new();
    let bench = Bench::build(&workspace, &chosen, &mut outcomes)?;
    let Some(bench) = bench else { return Ok(ExitCode::FAILURE) };
    for round in 1_u64.. {
        for step in &chosen {
            let time = (left() / SHARE).max(FUZZ_MIN);
            let outcome = bench.run(step, true, Mode { soak_time: Some(time), ..Mode::default() })?;
            println!(
                "--- round {round}: {} {} after {} min; {} min left",
                step.name,
                outcome.result(),
                started.elapsed().as_secs() / 60,
                left().as_secs() / 60
            );
            outcomes.push(outcome);
        }
        if left().is_zero() {
            break;
        }
    }
    print!("\n{}", report::summary(&outcomes, &Times::default(), started.elapsed()));
    Ok(if outcomes.iter().all(Outcome::is_well) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Seeds that no earlier round of this process played.
fn simulation(run: &Run<'_>) -> Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let from = NEXT.fetch_add(SEEDS_A_ROUND, Ordering::Relaxed);
    let seeds = format!("{from}..{}", from + SEEDS_A_ROUND);
    let mut sim = run.workspace.command(run.workspace.binary("sim"));
    sim.args(["run", "--steps", "4000", "--seeds", &seeds]).env("TMPDIR", &run.scratch);
    run.log.run(&mut sim)
}

fn parse_time(text: &str) -> Result<Duration> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => bail!("a time is a whole number with s, m or h behind it, such as 30m"),
    };
    let number: u64 = number.parse()?;
    ensure!(number > 0, "a time is at least 1s");
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(parse_time("90s").unwrap(), Duration::from_secs(90));
        assert_eq!(parse_time("2h").unwrap(), Duration::from_secs(7_200));
        for wrong in ["", "5", "m", "0m", "-1m", "1.5h", "1d"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_step_that_has_a_full_size_exists() {
        assert_eq!(steps().count(), FULL_SIZE.len() + 1);
    }
}
