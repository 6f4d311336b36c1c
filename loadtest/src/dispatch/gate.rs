//! `loadtest gate`: what it saves to receive only what may start.

use super::job::{self, is_over, missing};
use super::system::{Backend, Plan, System};
use super::{Common, Findings, conclude};
use crate::round;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::time::Duration;
use tokio::time::Instant;

const AMPLIFICATION_MAX: f64 = 1.05;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Run the same job with and without the gate, and print how many messages were received for it
///
/// A worker with more slots than the job may have in flight either receives no more than may start (the gate is on), or
/// receives what it has slots for and gives most of it back (off). Four runs, each on a Conveyor of its own: both
/// backends, off and on. On AWS: one process of each role, on AWS-compatible servers.
///
/// The line on stdout has for each run the receive calls, the messages that they brought, `amplification` (messages
/// received over tasks completed), how long it took, and messages that became dead letters; and the ratios of off to on,
/// each for a completed task. A run that passes its deadline is reported as far as it came, and then there is no ratio of
/// the times. --check wants of every run with the gate on: at most 1.05 messages a task, every task successful, and no
/// dead letter.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    #[command(flatten)]
    common: Common,
    /// Which backends
    #[arg(long, default_value = "both")]
    backend: Backends,
    /// How many tasks the job has
    #[arg(long, value_name = "NUMBER", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=9_999))]
    tasks: u64,
    /// How many of them may be in flight
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_inflight: u32,
    /// How many the worker has room for
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    /// How long a call of the gateway takes
    #[arg(long, value_name = "MS", default_value_t = 50)]
    latency_ms: u64,
    /// Do everything so many times
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20))]
    repeat: u32,
    /// Give up on a run after this long
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    deadline_seconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backends {
    Embedded,
    Aws,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Gate {
    Off,
    On,
}

impl Gate {
    fn name(self) -> &'static str {
        match self {
            Gate::Off => "off",
            Gate::On => "on",
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    tasks: u64,
    max_inflight: u32,
    slots: u32,
    latency_ms: u64,
    runs: Vec<Measured>,
    off_to_on: Vec<Ratios>,
}

#[derive(Clone, Debug, Serialize)]
struct Measured {
    backend: Backend,
    gate: Gate,
    receives: u64,
    messages_received: u64,
    /// Of nothing completed there is none.
    amplification: Option<f64>,
    elapsed_seconds: f64,
    /// Before the deadline.
    finished: bool,
    completed: u64,
    failed: u64,
    dead_lettered: u64,
    max_in_flight: u64,
}

/// How many times as much it was without the gate.
#[derive(Debug, PartialEq, Serialize)]
struct Ratios {
    backend: Backend,
    receives_a_task: Option<f64>,
    messages_a_task: Option<f64>,
    /// Only if both finished.
    elapsed: Option<f64>,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    conclude("gate", take(&settings), settings.common.check).await
}

async fn take(settings: &Settings) -> anyhow::Result<Report> {
    let backends: &[Backend] = match settings.backend {
        Backends::Embedded => &[Backend::Embedded],
        Backends::Aws => &[Backend::Aws],
        Backends::Both => &[Backend::Embedded, Backend::Aws],
    };
    let (mut runs, mut off_to_on) = (Vec::new(), Vec::new());
    for _ in 0..settings.repeat {
        for backend in backends {
            let off = measure(settings, *backend, Gate::Off).await?;
            let on = measure(settings, *backend, Gate::On).await?;
            off_to_on.push(Ratios::of(&off, &on));
            runs.extend([off, on]);
        }
    }
    let Settings { tasks, max_inflight, slots, latency_ms, .. } = *settings;
    Ok(Report { tasks, max_inflight, slots, latency_ms, runs, off_to_on })
}

async fn measure(settings: &Settings, backend: Backend, gate: Gate) -> anyhow::Result<Measured> {
    let slots = settings.slots.to_string();
    let worker_flags = ["--slots", &slots, "--gate", gate.name()].map(str::to_owned).into();
    let plan = settings.common.plan(backend, settings.latency_ms)?;
    let mut system = System::start(&Plan { worker_flags, ..plan }).await?;
    let conveyor = system.caller()?;
    let begin = Instant::now();
    let deadline = begin + Duration::from_secs(settings.deadline_seconds);
    let (job_id, _) = job::submit(&conveyor, settings.tasks, settings.max_inflight, system.scratch()).await?;
    let run = job::watch(&mut system, &conveyor, job_id, LOOK_EVERY, deadline).await?;
    let elapsed = begin.elapsed().as_secs_f64();
    let messages_received = system.metric("conveyor_messages_received_total").await?;
    let measured = Measured {
        backend,
        gate,
        receives: system.metric("conveyor_receives_total").await?,
        messages_received,
        amplification: per_task(messages_received, run.stats.completed.into()).map(round::ratio),
        elapsed_seconds: round::seconds(elapsed),
        finished: is_over(&run)?,
        completed: run.stats.completed.into(),
        failed: run.stats.failed.into(),
        dead_lettered: system.dead_letters().await?,
        max_in_flight: system.gateway.counts().max_in_flight,
    };
    eprintln!(
        "{backend}, gate {}: {} receives brought {messages_received} messages for {} tasks in {elapsed:.1} s",
        gate.name(),
        measured.receives,
        measured.completed
    );
    system.stop().await?;
    Ok(measured)
}

fn per_task(count: u64, completed: u64) -> Option<f64> {
    (completed > 0).then(|| count as f64 / completed as f64)
}

impl Ratios {
    fn of(off: &Measured, on: &Measured) -> Ratios {
        let ratio = |count: fn(&Measured) -> u64| {
            let of = |run: &Measured| per_task(count(run), run.completed);
            Some(round::ratio(of(off)? / of(on).filter(|on| *on > 0.0)?))
        };
        let finished = off.finished && on.finished;
        Ratios {
            backend: on.backend,
            receives_a_task: ratio(|run| run.receives),
            messages_a_task: ratio(|run| run.messages_received),
            elapsed: finished.then(|| round::ratio(off.elapsed_seconds / on.elapsed_seconds)),
        }
    }
}

impl Findings for Report {
    fn unmet(&self) -> Vec<String> {
        let gated = self.runs.iter().filter(|run| run.gate == Gate::On);
        gated.flat_map(|run| run.unmet(self.tasks)).collect()
    }
}

impl Measured {
    fn unmet(&self, tasks: u64) -> Vec<String> {
        let mut unmet = Vec::new();
        // Nothing received is no proof, but a counter that is not there.
        if self.messages_received < tasks {
            unmet.push(format!("{} messages were received for {tasks} tasks", self.messages_received));
        }
        if let Some(amplification) =
            self.amplification.filter(|amplification| *amplification > AMPLIFICATION_MAX)
        {
            unmet.push(format!("{amplification} messages a task, and {AMPLIFICATION_MAX} is the most"));
        }
        unmet.extend(missing(self.completed, self.failed, tasks));
        if self.dead_lettered > 0 {
            unmet.push(format!("{} dead letters", self.dead_lettered));
        }
        unmet.into_iter().map(|what| format!("{}, gate on: {what}", self.backend)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(gate: Gate, messages_received: u64) -> Measured {
        Measured {
            backend: Backend::Embedded,
            gate,
            receives: messages_received / 5,
            messages_received,
            amplification: per_task(messages_received, 500),
            elapsed_seconds: 5.0,
            finished: true,
            completed: 500,
            failed: 0,
            dead_lettered: 0,
            max_in_flight: 5,
        }
    }

    fn unmet(on: Measured) -> Vec<String> {
        // What happens without the gate is for the reader alone.
        let runs = vec![measured(Gate::Off, 5_000), on];
        Report { tasks: 500, max_inflight: 5, slots: 50, latency_ms: 50, runs, off_to_on: Vec::new() }.unmet()
    }

    #[test]
    fn each_requirement_is_met_or_named() {
        let on = measured(Gate::On, 525);
        assert!(unmet(on.clone()).is_empty());
        assert!(unmet(measured(Gate::On, 526))[0].contains("1.052 messages a task"));
        assert!(unmet(measured(Gate::On, 0))[0].contains("0 messages were received"));
        assert!(unmet(Measured { completed: 499, ..on.clone() })[0].contains("499 of 500"));
        assert!(unmet(Measured { completed: 0, amplification: None, ..on.clone() })[0].contains("0 of 500"));
        assert!(unmet(Measured { failed: 1, ..on.clone() })[0].contains("499 of 500"));
        assert_eq!(unmet(Measured { dead_lettered: 2, ..on }), ["embedded, gate on: 2 dead letters"]);
    }

    #[test]
    fn ratios_say_how_much_more_it_was_without() {
        let (off, on) = (measured(Gate::Off, 5_000), measured(Gate::On, 500));
        let backend = Backend::Embedded;
        let ten = Some(10.0);
        let ratios = Ratios { backend, receives_a_task: ten, messages_a_task: ten, elapsed: Some(1.0) };
        assert_eq!(Ratios::of(&off, &on), ratios);
        // Half of the tasks for the same messages; and the time is only known to be longer.
        let broken_off = Measured { completed: 250, finished: false, ..off };
        let twenty = Some(20.0);
        let ratios = Ratios { backend, receives_a_task: twenty, messages_a_task: twenty, elapsed: None };
        assert_eq!(Ratios::of(&broken_off, &on), ratios);
        let nothing = Measured { completed: 0, ..broken_off };
        let ratios = Ratios { backend, receives_a_task: None, messages_a_task: None, elapsed: None };
        assert_eq!(Ratios::of(&nothing, &on), ratios);
    }
}
