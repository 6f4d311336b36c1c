//! Logs to stderr, metrics to `/metrics`.

use super::args::LogFormat;
use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::io::IsTerminal;
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
const OPERATIONS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 512.0];
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// `CONVEYOR_LOG` filters by target: `warn`, or `info,conveyor_worker=debug`.
pub fn start_logs(format: LogFormat) {
    let (filter, wrong) = match std::env::var("CONVEYOR_LOG").as_deref() {
        Err(_) | Ok("") => (info(), None),
        Ok(text) => text.parse().map_or_else(|error| (info(), Some(error)), |filter| (filter, None)),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let logs = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => logs.with(lines.with_ansi(std::io::stderr().is_terminal())).init(),
        LogFormat::Json => logs.with(lines.json()).init(),
    }
    if let Some(error) = wrong {
        tracing::warn!(%error, "CONVEYOR_LOG is not a filter such as `warn` or `info,conveyor_worker=debug`; logging at info");
    }
}

fn info() -> Targets {
    Targets::new().with_default(LevelFilter::INFO)
}

/// Installs the recorder and keeps it tidy for as long as the process runs.
pub fn start_metrics() -> anyhow::Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Full("conveyor_commit_operations".to_owned()), &OPERATIONS)?
        .install_recorder()
        .context("metrics")?;
    let upkeep = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP_EVERY).await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}
