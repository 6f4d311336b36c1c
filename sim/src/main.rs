//! `sim`: plays seeds, and plays one again to see what it does.

use clap::{Args, Parser, Subcommand};
use conveyor_sim::{Settings, Simulation, Summary, play_many};
use serde::Serialize;
use std::ops::Range;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(
    name = "sim",
    version,
    about = "A deterministic simulation of Conveyor on its embedded store, with faults"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Play many seeds; the last line on stdout is one JSON object, and the exit status is 1 if a rule was broken
    Run {
        /// From the first to before the last, such as 0..200
        #[arg(long, value_name = "FROM..TO", value_parser = parse_range, default_value = "0..20")]
        seeds: Range<u64>,
        /// Seeds played at once; most of the time goes into waiting for the disk
        #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=64))]
        threads: u64,
        #[command(flatten)]
        options: Options,
    },
    /// Play one seed again
    Replay {
        #[arg(long, value_name = "NUMBER")]
        seed: u64,
        /// Print every event
        #[arg(long)]
        trace: bool,
        #[command(flatten)]
        options: Options,
    },
}

#[derive(Clone, Copy, Debug, Args)]
struct Options {
    /// Steps with faults; a drain without faults follows them
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000)]
    steps: u64,
    /// How likely faults are, 1 being the usual
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    fault_rate: f64,
    /// How many steps from one full audit to the next
    #[arg(long, value_name = "NUMBER", default_value_t = 25)]
    audit_every: u64,
}

impl Options {
    fn settings(self, keep_trace: bool) -> Settings {
        let usual = Settings::new(self.steps).with_fault_rate(self.fault_rate);
        Settings { audit_every: self.audit_every, keep_trace, ..usual }
    }
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed
        .filter(|range: &Range<u64>| range.start < range.end)
        .ok_or_else(|| "not of the form 0..200".to_owned())
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    seeds: u64,
    #[serde(flatten)]
    summary: Summary,
    violations: u64,
}

fn run(seeds: Range<u64>, threads: u64, settings: Settings) -> anyhow::Result<ExitCode> {
    let count = seeds.end - seeds.start;
    let (mut summary, mut violations, mut done) = (Summary::default(), 0, 0);
    play_many(seeds, threads, settings, |outcome| {
        done += 1;
        match outcome {
            Ok(played) => summary = summary.plus(played),
            Err(failure) => {
                violations += 1;
                eprintln!("{failure}");
            }
        }
        if done % 10 == 0 || done == count {
            eprintln!("{done} of {count} seeds, {} tasks, {violations} violations", summary.tasks_settled);
        }
    });
    let report = Report { bench: "sim", seeds: count, summary, violations };
    println!("{}", serde_json::to_string(&report)?);
    Ok(if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn replay(seed: u64, settings: Settings) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let mut simulation = match Simulation::new(seed, settings) {
            Ok(simulation) => simulation,
            Err(failure) => anyhow::bail!("{failure}"),
        };
        let played = simulation.run().await;
        simulation.world.trace.lines().iter().for_each(|line| println!("{line}"));
        match played {
            Ok(()) => {
                println!(
                    "seed {seed} holds; trace {:016x}; {:?}",
                    simulation.world.trace.hash(),
                    simulation.summary()
                );
                Ok(ExitCode::SUCCESS)
            }
            Err(failure) => {
                eprintln!("{failure}");
                Ok(ExitCode::FAILURE)
            }
        }
    })
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run { seeds, threads, options } => run(seeds, threads, options.settings(false)),
        Command::Replay { seed, trace, options } => replay(seed, options.settings(trace)),
    };
    done.unwrap_or_else(|error| {
        eprintln!("sim: {error:#}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn ranges_are_read_or_refused() {
        assert_eq!(parse_range("3..10"), Ok(3..10));
        for bad in ["", "3", "3..", "..4", "4..4", "5..4", "a..b"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}
