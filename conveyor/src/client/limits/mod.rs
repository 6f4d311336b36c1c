//! `conveyor limits`: how fast a job may go, what it waits for, and other limits while it runs.

mod table;

use super::args::LimitsArgs;
use super::failure::Failure;
use super::print::{self, Output};
use super::progress::ctrl_c;
use conveyor_client::Client;
use conveyor_client::wire::{ChangeLimits, Decimal, Job, RateBody, RetryBody, WaitingReason};
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

const REPAINT_EVERY: Duration = Duration::from_secs(1);

pub async fn run(api: &Client, args: &LimitsArgs, output: Output) -> Result<ExitCode, Failure> {
    if let Some(changes) = changes(api, args).await? {
        api.change_limits(&args.job, &changes).await?;
    }
    if args.watch {
        tokio::select! {
            biased;
            () = ctrl_c() => return Err(Failure::interrupted(&args.job)),
            watched = watch(api, &args.job, output) => watched?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let answer = api.limits(&args.job).await?;
    print::line(&if output.json { answer.text } else { table::text(&answer.document) })?;
    Ok(ExitCode::SUCCESS)
}

/// Why nothing of a job is started now; `None` if that is not so, or cannot be learned. Whoever asks wants to see more than
/// this, and a server may be too old to know.
pub async fn why_waiting(api: &Client, job: impl Display) -> Option<String> {
    let waiting = api.limits(job).await.ok()?.document.waiting;
    (waiting.reason != WaitingReason::Working).then(|| table::waiting(&waiting))
}

/// What the flags ask for, if they ask for anything. Where they name only a part of something, the job is asked for the rest.
async fn changes(api: &Client, args: &LimitsArgs) -> Result<Option<ChangeLimits>, Failure> {
    let LimitsArgs { max_inflight, rate, burst, max_failure_ratio, attempts_max, .. } = *args;
    let is_number_given = max_inflight.is_some() || rate.is_some() || max_failure_ratio.is_some();
    if !is_number_given
        && burst.is_none()
        && attempts_max.is_none()
        && !args.no_rate
        && !args.no_max_failure_ratio
    {
        return Ok(None);
    }
    let mut changes = ChangeLimits {
        max_inflight: max_inflight.map(Into::into),
        rate_limit: rate.map(|rate| Some(rate_limit(rate, burst))),
        max_failure_ratio: max_failure_ratio.map(|ratio| Some(Decimal(ratio))),
        ..ChangeLimits::default()
    };
    if args.no_rate {
        changes.rate_limit = Some(None);
    }
    if args.no_max_failure_ratio {
        changes.max_failure_ratio = Some(None);
    }
    let burst = burst.filter(|_| rate.is_none());
    if burst.is_some() || attempts_max.is_some() {
        let Job { rate_limit: rate, retry, .. } = api.job(&args.job).await?.document;
        if burst.is_some() {
            let rate = rate.ok_or_else(|| Failure::usage("--burst needs --rate: the job has none"))?;
            changes.rate_limit = Some(Some(rate_limit(rate.per_second, burst)));
        }
        changes.retry = attempts_max.map(|attempts_max| {
            let (base_ms, cap_ms) = (retry.base_ms.map(Into::into), retry.cap_ms.map(Into::into));
            Some(RetryBody { attempts_max: Some(attempts_max.into()), base_ms, cap_ms })
        });
    }
    Ok(Some(changes))
}

pub fn rate_limit(per_second: f64, burst: Option<u32>) -> RateBody {
    RateBody { per_second: Decimal(per_second), burst: burst.map(Into::into) }
}

/// Shows the limits until the run has ended.
async fn watch(api: &Client, job: &str, output: Output) -> Result<(), Failure> {
    let mut painted = 0;
    loop {
        let answer = api.limits(job).await?;
        let limits = &answer.document;
        if output.json {
            // Written anew: what was sent may have line breaks.
            let value: Value =
                serde_json::from_str(&answer.text).map_err(|e| Failure::not_understood(e.to_string()))?;
            print::line(&value.to_string())?;
        } else {
            let text = table::text(limits);
            print::line(&over(painted, &text))?;
            painted = text.lines().count();
        }
        if limits.waiting.reason == WaitingReason::Ended {
            return Ok(());
        }
        tokio::time::sleep(REPAINT_EVERY).await;
    }
}

/// The text in the place of one of so many lines, on a terminal; elsewhere below it.
fn over(lines: usize, text: &str) -> String {
    match (lines, io::stdout().is_terminal()) {
        (0, _) => text.to_owned(),
        (lines, true) => format!("\x1b[{lines}A\x1b[J{text}"),
        (_, false) => format!("\n{text}"),
    }
}
