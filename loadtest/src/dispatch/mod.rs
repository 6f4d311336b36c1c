//! Experiments on dispatch: each starts a Conveyor and a gateway, runs its jobs, reads the answer from the gateway's own
//! record, prints one line of JSON, and knows what the line has to say.

pub mod cap;
pub mod domains;
mod excess;
pub mod fair;
pub mod gate;
mod job;
mod queues;
pub mod rate;
mod system;
pub mod throttle;

use crate::process::{conveyor_program, unless_stopped};
use crate::round;
use anyhow::ensure;
use clap::Args;
pub use job::submit;
use serde::Serialize;
use std::path::PathBuf;
use system::{Backend, Plan};

/// What all of them take.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The program to start; by default the `conveyor` beside this one
    #[arg(long, value_name = "PROGRAM")]
    conveyor: Option<PathBuf>,
    /// Exit with 1 if a requirement is not met
    #[arg(long)]
    check: bool,
}

impl Common {
    /// A system with one worker and no proxy.
    fn plan(&self, backend: Backend, latency_ms: u64) -> anyhow::Result<Plan> {
        let program = conveyor_program(self.conveyor.as_deref())?;
        Ok(Plan { program, backend, workers: 1, worker_flags: Vec::new(), latency_ms, proxied: false })
    }
}

/// What an experiment found.
trait Findings: Serialize {
    /// The requirements that it does not meet, in words.
    fn unmet(&self) -> Vec<String>;
}

#[derive(Serialize)]
struct Line<'a, F> {
    bench: &'static str,
    #[serde(flatten)]
    findings: &'a F,
    unmet: &'a [String],
}

/// Runs an experiment and prints its line; with `--check`, what is unmet is an error.
async fn conclude<F: Findings>(
    bench: &'static str,
    experiment: impl Future<Output = anyhow::Result<F>>,
    check: bool,
) -> anyhow::Result<()> {
    let findings = unless_stopped(experiment).await?;
    let unmet = findings.unmet();
    println!("{}", serde_json::to_string(&Line { bench, findings: &findings, unmet: &unmet })?);
    ensure!(!check || unmet.is_empty(), "not met: {}", unmet.join("; "));
    unmet.iter().for_each(|what| eprintln!("not met: {what}"));
    Ok(())
}

fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => round::seconds(f64::midpoint(sorted[even / 2 - 1], sorted[even / 2])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_far_off_does_not_move_the_median() {
        assert_eq!(median(&[9.0, 0.1, 0.3]), 0.3);
        assert_eq!(median(&[0.4, 0.1, 0.2, 9.0]), 0.3);
        assert!(median(&[]).is_nan());
    }
}
