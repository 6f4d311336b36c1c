//! `loadtest domains`: how close a list over several limited domains comes to the time that their rates allow.

use super::excess::{most_at_once, worst_excess};
use super::job::{self, missing};
use super::system::{Backend, Plan, System};
use super::{Common, Findings, conclude};
use crate::round;
use anyhow::ensure;
use clap::{Args, ValueEnum};
use conveyor_client::wire::{Decimal, DomainLimitBody, DomainLimitsBody, Named, SubmitJob};
use serde::Serialize;
use std::time::Duration;
use tokio::time::Instant;

/// Of the time that the rate of one domain needs for its own tasks.
const NOMINAL_MAX: f64 = 1.5;
const MESSAGES_A_TASK_MAX: f64 = 2.0;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Run a job over several domains, each with a rate of its own, and print time and messages
///
/// Every domain has the same rate and the same number of tasks, so all of them together need as long as one alone:
/// tasks / per_second, the nominal time. `messages_a_task` is messages received over tasks completed. `worst_excess` is by
/// how much the calls of a domain passed burst + per_second * (t + lateness), in the worst window of the worst domain; at most 0 means
/// that the rate was held. A run that passes its deadline is reported as far as it came.
///
/// --check requires at most 1.5 times the nominal time, at most 2 messages a task, every task successful, and the rate
/// held.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    #[command(flatten)]
    common: Common,
    /// Select the backend
    #[arg(long, default_value = "embedded")]
    backend: Backend,
    /// Set the number of domains
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    domains: u64,
    /// Set the number of tasks of each domain
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=9_999))]
    tasks: u64,
    /// Set the order of the list
    #[arg(long, default_value = "grouped")]
    order: Order,
    /// Set the rate of each domain
    #[arg(long, value_name = "NUMBER", default_value_t = 5.0)]
    per_second: f64,
    /// Set the burst of each domain
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    burst: u32,
    /// Set the number of workers, on the AWS backend
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Set how long a call of the gateway takes
    #[arg(long, value_name = "MS", default_value_t = 50)]
    latency_ms: u64,
    /// Give up after this long
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    deadline_seconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    /// All tasks of the first domain, then all of the second
    Grouped,
    /// One task of each domain in turn
    Interleaved,
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    backend: Backend,
    workers: u32,
    order: Order,
    domains: u64,
    tasks_a_domain: u64,
    per_second: f64,
    burst: u32,
    completed: u64,
    failed: u64,
    nominal_seconds: f64,
    elapsed_seconds: f64,
    /// Elapsed over nominal.
    nominal_ratio: f64,
    messages_received: u64,
    messages_a_task: Option<f64>,
    worst_excess: Option<f64>,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    ensure!((0.1..=100_000.0).contains(&settings.per_second), "--per-second is a number from 0.1 to 100000");
    ensure!(settings.domains * settings.tasks <= 9_999, "--domains times --tasks is at most 9999");
    conclude("domains", take(&settings), settings.common.check).await
}

fn urls(domains: u64, tasks: u64, order: Order) -> Vec<String> {
    let url = |domain, task| format!("https://site-{domain}.example/{task}");
    match order {
        Order::Grouped => (0..domains).flat_map(|d| (0..tasks).map(move |t| url(d, t))).collect(),
        Order::Interleaved => (0..tasks).flat_map(|t| (0..domains).map(move |d| url(d, t))).collect(),
    }
}

async fn take(settings: &Settings) -> anyhow::Result<Report> {
    let plan = settings.common.plan(settings.backend, settings.latency_ms)?;
    let mut system = System::start(&Plan { workers: settings.workers, ..plan }).await?;
    let conveyor = system.caller()?;
    let Settings { domains, tasks, order, per_second, burst, .. } = *settings;
    let of_each = DomainLimitBody {
        per_second: Some(Decimal(per_second)),
        burst: Some(burst.into()),
        ..DomainLimitBody::default()
    };
    let domain_limits = Some(DomainLimitsBody(Named(vec![("*".to_owned(), of_each)])));
    let limits = SubmitJob { domain_limits, ..SubmitJob::default() };
    let begin = Instant::now();
    let deadline = begin + Duration::from_secs(settings.deadline_seconds);
    let submitted = conveyor.submit_limited(&urls(domains, tasks, order), 100, limits).await?;
    let run = job::watch(&mut system, &conveyor, submitted.job_id, LOOK_EVERY, deadline).await?;
    let elapsed = begin.elapsed().as_secs_f64();
    let messages_received = system.metric("conveyor_messages_received_total").await?;
    let completed = u64::from(run.stats.completed);
    let arrivals = system.gateway.arrivals_by_host()?;
    let at_once = most_at_once(per_second, burst);
    let excesses = arrivals.values().filter_map(|arrivals| worst_excess(arrivals, per_second, at_once));
    let nominal = tasks as f64 / per_second;
    let report = Report {
        backend: settings.backend,
        workers: u32::try_from(system.workers().len())?,
        order,
        domains,
        tasks_a_domain: tasks,
        per_second,
        burst,
        completed,
        failed: run.stats.failed.into(),
        nominal_seconds: round::seconds(nominal),
        elapsed_seconds: round::seconds(elapsed),
        nominal_ratio: round::ratio(elapsed / nominal),
        messages_received,
        messages_a_task: (completed > 0).then(|| round::ratio(messages_received as f64 / completed as f64)),
        worst_excess: excesses.max_by(f64::total_cmp).map(round::ratio),
    };
    system.stop().await?;
    Ok(report)
}

impl Findings for Report {
    fn unmet(&self) -> Vec<String> {
        let mut unmet = Vec::new();
        unmet.extend(missing(self.completed, self.failed, self.domains * self.tasks_a_domain));
        if self.nominal_ratio > NOMINAL_MAX {
            unmet.push(format!(
                "{} times the nominal time, and {NOMINAL_MAX} is the most",
                self.nominal_ratio
            ));
        }
        match self.messages_a_task {
            Some(messages) if messages <= MESSAGES_A_TASK_MAX => {}
            Some(messages) => {
                unmet.push(format!("{messages} messages a task, and {MESSAGES_A_TASK_MAX} is the most"));
            }
            None => unmet.push("no task was completed".to_owned()),
        }
        if self.worst_excess.is_none_or(|excess| excess > 0.0) {
            unmet.push(format!("the rate was passed by {:?}", self.worst_excess));
        }
        unmet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_requirement_is_met_or_named() {
        let met = Report {
            backend: Backend::Embedded,
            workers: 1,
            order: Order::Grouped,
            domains: 4,
            tasks_a_domain: 100,
            per_second: 5.0,
            burst: 5,
            completed: 400,
            failed: 0,
            nominal_seconds: 20.0,
            elapsed_seconds: 30.0,
            nominal_ratio: 1.5,
            messages_received: 800,
            messages_a_task: Some(2.0),
            worst_excess: Some(-0.5),
        };
        assert!(met.unmet().is_empty());
        assert!(Report { completed: 399, ..met.clone() }.unmet()[0].contains("399 of 400"));
        assert!(Report { nominal_ratio: 1.51, ..met.clone() }.unmet()[0].contains("1.51 times"));
        assert!(Report { messages_a_task: Some(2.1), ..met.clone() }.unmet()[0].contains("2.1 messages"));
        assert!(Report { worst_excess: Some(0.1), ..met.clone() }.unmet()[0].contains("passed by"));
        assert!(Report { messages_a_task: None, ..met }.unmet()[0].contains("no task"));
    }

    #[test]
    fn both_orders_have_the_same_urls() {
        let (mut grouped, mut interleaved) = (urls(3, 4, Order::Grouped), urls(3, 4, Order::Interleaved));
        assert!(grouped[1].starts_with("https://site-0.") && interleaved[1].starts_with("https://site-1."));
        grouped.sort();
        interleaved.sort();
        assert_eq!(grouped, interleaved);
    }
}
