//! `loadtest cap`: whether several workers together keep to a job's cap, and use all of it.

use super::job::{self, missing};
use super::system::{Backend, Plan, System};
use super::{Common, Findings, conclude};
use crate::history::Span;
use crate::round;
use anyhow::ensure;
use clap::Args;
use reqwest::Url;
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Of the cap, while there is enough to start.
const AVERAGE_MIN_SHARE: f64 = 0.975;
/// What was killed is written off after the 30 s of a grant.
const BACK_WITHIN_SECONDS: f64 = 31.0;
/// Full speed is this share of the cap over a second: far above what the survivors have, below any usual gap.
const FULL_SPEED_SHARE: f64 = 0.95;
const FULL_SPEED_WINDOW: Duration = Duration::from_secs(1);
/// How long workers may take to share the permits among them before some of them are killed.
const SHARE_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the gateway, which costs nothing, is looked at.
const GLANCE_EVERY: Duration = Duration::from_millis(20);

/// Let several workers share a job's max_inflight, and print what the gateway saw of it
///
/// One job on the AWS backend, with AWS-compatible servers, one API and --workers workers. The gateway records every
/// change of what is in flight: `max_in_flight` is the most at once, `average_in_flight` is weighted with time, from the
/// first moment at the cap to the one when fewer tasks than that were left to start.
///
/// Then, on fresh processes, another job, and --kill of the workers are killed with SIGKILL while it is at its cap: those
/// with the most in flight. `held` is what they had, `max_in_flight_after` the most at once since then, and
/// `back_seconds` is from the kill until the cap is reached and the average of a second is 95% of it.
///
/// --check wants: never more than the cap, on average 97.5% of it (19.5 of 20), after the kill never more than the cap
/// and what was held, and full speed within 31 s.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    #[command(flatten)]
    common: Common,
    /// How many tasks the first job has
    #[arg(long, value_name = "NUMBER", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    tasks: u64,
    /// The max_inflight of the jobs
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cap: u32,
    /// How many workers share it
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// How long a call of the gateway takes
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    latency_ms: u64,
    /// How many of the workers are killed during the second job; 0 leaves it out
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    kill: u32,
    /// How long the rest is watched after that
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    watch_seconds: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    cap: u32,
    workers: u32,
    latency_ms: u64,
    #[serde(flatten)]
    steady: Steady,
    #[serde(skip_serializing_if = "Option::is_none")]
    kill: Option<Killed>,
}

#[derive(Clone, Debug, Serialize)]
struct Steady {
    tasks: u64,
    completed: u64,
    failed: u64,
    elapsed_seconds: f64,
    max_in_flight: u64,
    average_in_flight: Option<f64>,
    /// How long the average is of.
    saturated_seconds: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Killed {
    workers: u32,
    in_flight_of_each: Vec<u64>,
    held: u64,
    in_flight_before: u64,
    max_in_flight_after: u64,
    back_seconds: Option<f64>,
    watched_seconds: f64,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    ensure!(settings.kill < settings.workers, "--kill leaves at least one of --workers");
    conclude("cap", take(&settings), settings.common.check).await
}

async fn take(settings: &Settings) -> anyhow::Result<Report> {
    let steady = hold(settings).await?;
    let kill = if settings.kill > 0 { Some(kill(settings).await?) } else { None };
    let Settings { cap, workers, latency_ms, .. } = *settings;
    Ok(Report { cap, workers, latency_ms, steady, kill })
}

async fn start(settings: &Settings) -> anyhow::Result<System> {
    let plan = settings.common.plan(Backend::Aws, settings.latency_ms)?;
    eprintln!("starting servers and {} workers", settings.workers);
    System::start(&Plan { workers: settings.workers, ..plan }).await
}

/// How long so many tasks take at full speed.
fn at_full_speed(settings: &Settings, tasks: u64) -> Duration {
    Duration::from_millis(tasks.saturating_mul(settings.latency_ms) / u64::from(settings.cap))
}

async fn hold(settings: &Settings) -> anyhow::Result<Steady> {
    let (cap, tasks) = (u64::from(settings.cap), settings.tasks);
    let mut system = start(settings).await?;
    let conveyor = system.caller()?;
    let begin = Instant::now();
    let deadline = begin + 2 * at_full_speed(settings, tasks) + Duration::from_secs(120);
    let (job_id, _) = job::submit(&conveyor, tasks, settings.cap, system.scratch()).await?;
    let run = job::watch(&mut system, &conveyor, job_id, LOOK_EVERY, deadline).await?;
    let elapsed = begin.elapsed().as_secs_f64();
    let (history, _) = system.gateway.history()?;
    let span = history.saturation(cap, tasks);
    let steady = Steady {
        tasks,
        completed: run.stats.completed.into(),
        failed: run.stats.failed.into(),
        elapsed_seconds: round::seconds(elapsed),
        max_in_flight: history.max_since(0),
        average_in_flight: span.and_then(|span| history.average(span)).map(round::ratio),
        saturated_seconds: span.map(Span::seconds).map(round::seconds),
    };
    eprintln!("at most {} in flight, on average {:?}", steady.max_in_flight, steady.average_in_flight);
    system.stop().await?;
    Ok(steady)
}

async fn kill(settings: &Settings) -> anyhow::Result<Killed> {
    let (cap, watch_for) = (u64::from(settings.cap), Duration::from_secs(settings.watch_seconds));
    let mut system = start(settings).await?;
    let conveyor = system.caller()?;
    let busy_for = SHARE_WITHIN + watch_for + Duration::from_secs(10);
    let tasks = cap * u64::try_from(busy_for.as_millis())?.div_ceil(settings.latency_ms);
    job::submit(&conveyor, tasks, settings.cap, system.scratch()).await?;
    wait_for_cap(&mut system, cap).await?;

    let victims = choose_victims(&mut system, settings.kill as usize).await?;
    // At the cap, and not just below it: then whatever is missing afterwards is missing because of the kill.
    let in_flight_before = wait_for_cap(&mut system, cap).await?;
    let (_, killed_us) = system.gateway.history()?;
    for (worker, _) in &victims {
        system.kill(worker)?;
    }
    let held = victims.iter().map(|(_, in_flight)| in_flight).sum();
    eprintln!("killed {} workers with {held} in flight", victims.len());
    sleep(watch_for).await;

    system.expect_running()?;
    let (history, now_us) = system.gateway.history()?;
    let begun = history.arrivals_us().len() as u64;
    ensure!(begun + cap <= tasks, "{tasks} tasks were too few to keep the workers busy");
    let full_speed = cap as f64 * FULL_SPEED_SHARE;
    let back_us = history.full_speed_since(killed_us, cap, FULL_SPEED_WINDOW, full_speed, now_us);
    Ok(Killed {
        workers: settings.kill,
        in_flight_of_each: victims.iter().map(|(_, in_flight)| *in_flight).collect(),
        held,
        in_flight_before,
        max_in_flight_after: history.max_since(killed_us),
        back_seconds: back_us.map(|back_us| round::seconds((back_us - killed_us) as f64 / 1e6)),
        watched_seconds: round::seconds((now_us - killed_us) as f64 / 1e6),
    })
}

async fn wait_for_cap(system: &mut System, cap: u64) -> anyhow::Result<u64> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let in_flight = system.gateway.counts().in_flight;
        if in_flight >= cap {
            return Ok(in_flight);
        }
        system.expect_running()?;
        ensure!(Instant::now() < deadline, "the cap was not reached: {in_flight} of {cap} are in flight");
        sleep(GLANCE_EVERY).await;
    }
}

/// Those with the most in flight, once there are more than so many who have something: killing all that work would only
/// measure how the others take over from nothing.
async fn choose_victims(system: &mut System, count: usize) -> anyhow::Result<Vec<(Url, u64)>> {
    let deadline = Instant::now() + SHARE_WITHIN;
    loop {
        let mut workers = system.metric_of_each("conveyor_tasks_inflight").await?;
        let busy = workers.iter().filter(|(_, in_flight)| *in_flight > 0).count();
        if busy > count || Instant::now() >= deadline {
            workers.sort_by_key(|(_, in_flight)| std::cmp::Reverse(*in_flight));
            workers.truncate(count);
            return Ok(workers);
        }
        sleep(GLANCE_EVERY).await;
    }
}

impl Findings for Report {
    fn unmet(&self) -> Vec<String> {
        let mut unmet = self.steady.unmet(u64::from(self.cap));
        unmet.extend(self.kill.iter().flat_map(|kill| kill.unmet(u64::from(self.cap))));
        unmet
    }
}

impl Steady {
    fn unmet(&self, cap: u64) -> Vec<String> {
        let mut unmet: Vec<String> = missing(self.completed, self.failed, self.tasks).into_iter().collect();
        if self.max_in_flight > cap {
            unmet.push(format!("{} were in flight, and the cap is {cap}", self.max_in_flight));
        }
        let average_min = cap as f64 * AVERAGE_MIN_SHARE;
        match self.average_in_flight {
            Some(average) if average >= average_min => {}
            Some(average) => {
                unmet.push(format!("{average} in flight on average, and {average_min} is the least"));
            }
            None => unmet.push(format!("the cap of {cap} was not reached while there was enough to start")),
        }
        unmet
    }
}

impl Killed {
    fn unmet(&self, cap: u64) -> Vec<String> {
        let mut unmet = Vec::new();
        // Workers that did nothing leave nothing behind.
        if self.held == 0 {
            unmet.push("the killed workers held nothing".to_owned());
        }
        let most = cap + self.held;
        if self.max_in_flight_after > most {
            unmet.push(format!(
                "{} in flight after the kill, and {most} is the most",
                self.max_in_flight_after
            ));
        }
        match self.back_seconds {
            Some(seconds) if seconds <= BACK_WITHIN_SECONDS => {}
            Some(seconds) => {
                unmet.push(format!(
                    "full speed {seconds} s after the kill, and {BACK_WITHIN_SECONDS} s is the most"
                ));
            }
            None => unmet.push(format!("no full speed within {} s after the kill", self.watched_seconds)),
        }
        unmet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady() -> Steady {
        Steady {
            tasks: 100,
            completed: 100,
            failed: 0,
            elapsed_seconds: 5.0,
            max_in_flight: 20,
            average_in_flight: Some(19.5),
            saturated_seconds: Some(4.0),
        }
    }

    fn killed() -> Killed {
        Killed {
            workers: 2,
            in_flight_of_each: vec![6, 4],
            held: 10,
            in_flight_before: 20,
            max_in_flight_after: 30,
            back_seconds: Some(31.0),
            watched_seconds: 60.0,
        }
    }

    #[test]
    fn the_cap_is_kept_and_used_or_named() {
        assert!(steady().unmet(20).is_empty());
        assert!(Steady { max_in_flight: 21, ..steady() }.unmet(20)[0].contains("21 were in flight"));
        let idle = Steady { average_in_flight: Some(19.499), ..steady() };
        assert!(idle.unmet(20)[0].contains("19.5 is the least"));
        assert!(Steady { average_in_flight: None, ..steady() }.unmet(20)[0].contains("not reached"));
        assert!(Steady { completed: 99, ..steady() }.unmet(20)[0].contains("99 of 100"));
    }

    #[test]
    fn after_a_kill_the_survivors_take_over_or_it_is_named() {
        assert!(killed().unmet(20).is_empty());
        assert!(Killed { max_in_flight_after: 31, ..killed() }.unmet(20)[0].contains("30 is the most"));
        assert!(Killed { back_seconds: Some(31.1), ..killed() }.unmet(20)[0].contains("31.1 s"));
        assert!(Killed { back_seconds: None, ..killed() }.unmet(20)[0].contains("within 60 s"));
        let idle = Killed { held: 0, max_in_flight_after: 20, ..killed() };
        assert_eq!(idle.unmet(20), ["the killed workers held nothing"]);
    }

    #[test]
    fn both_parts_count() {
        let report =
            Report { cap: 20, workers: 4, latency_ms: 1_000, steady: steady(), kill: Some(killed()) };
        assert!(report.unmet().is_empty());
        let slow = Killed { back_seconds: None, ..killed() };
        assert_eq!(Report { kill: Some(slow), ..report.clone() }.unmet().len(), 1);
        assert_eq!(
            Report { cap: 19, ..report }.unmet().len(),
            2,
            "too many at once, and too many after the kill"
        );
    }
}
