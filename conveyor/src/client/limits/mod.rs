//! `conveyor limits`: how fast a job may go, what it waits for, and other limits while it runs.

mod document;
mod table;

pub use document::{Lease, Limits};

use super::args::LimitsArgs;
use super::failure::Failure;
use super::http::{Answer, Api};
use super::print::{self, Output};
use super::progress::ctrl_c;
use document::Present;
use serde_json::{Map, Value, json};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

const REPAINT_EVERY: Duration = Duration::from_secs(1);

pub async fn run(api: &Api, args: &LimitsArgs, output: Output) -> Result<ExitCode, Failure> {
    let changes = changes(api, args).await?;
    if !changes.is_empty() {
        let _: Answer<Value> = api.patch(api.url(&["jobs", &args.job]), &Value::Object(changes)).await?;
    }
    if args.watch {
        tokio::select! {
            biased;
            () = ctrl_c() => return Err(Failure::interrupted(&args.job)),
            watched = watch(api, &args.job, output) => watched?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let answer = get(api, &args.job).await?;
    print::line(&if output.json { answer.text } else { table::text(&answer.document) })?;
    Ok(ExitCode::SUCCESS)
}

pub async fn get(api: &Api, job: &str) -> Result<Answer<Limits>, Failure> {
    api.get(api.url(&["jobs", job, "limits"])).await
}

/// Why nothing of a job is started now; `None` if that is not so, or cannot be learned. Whoever asks wants to see more than
/// this, and a server may be too old to know.
pub async fn why_waiting(api: &Api, job: &str) -> Option<String> {
    let limits = get(api, job).await.ok()?.document;
    Some(limits.waiting).filter(|waiting| !waiting.is_working()).map(|waiting| waiting.line())
}

pub fn rate_limit(per_second: f64, burst: Option<u32>) -> Value {
    let mut rate = json!({ "per_second": per_second });
    if let Some(burst) = burst {
        rate["burst"] = json!(burst);
    }
    rate
}

/// What the flags ask for. Where they name only a part of something, the job is asked for the rest.
async fn changes(api: &Api, args: &LimitsArgs) -> Result<Map<String, Value>, Failure> {
    let mut changes = Map::new();
    if let Some(max_inflight) = args.max_inflight {
        changes.insert("max_inflight".to_owned(), json!(max_inflight));
    }
    if args.no_rate {
        changes.insert("rate_limit".to_owned(), Value::Null);
    } else if let Some(rate) = args.rate {
        changes.insert("rate_limit".to_owned(), rate_limit(rate, args.burst));
    }
    if args.no_max_failure_ratio {
        changes.insert("max_failure_ratio".to_owned(), Value::Null);
    } else if let Some(ratio) = args.max_failure_ratio {
        changes.insert("max_failure_ratio".to_owned(), json!(ratio));
    }
    let burst = args.burst.filter(|_| args.rate.is_none());
    if burst.is_none() && args.attempts_max.is_none() {
        return Ok(changes);
    }
    let present: Answer<Present> = api.get(api.url(&["jobs", &args.job])).await?;
    let Present { rate_limit: rate, mut retry } = present.document;
    if let Some(burst) = burst {
        let rate = rate.ok_or_else(|| Failure::usage("--burst needs --rate: the job has none"))?;
        changes.insert("rate_limit".to_owned(), rate_limit(rate.per_second, Some(burst)));
    }
    if let Some(attempts_max) = args.attempts_max {
        retry.insert("attempts_max".to_owned(), json!(attempts_max));
        changes.insert("retry".to_owned(), Value::Object(retry));
    }
    Ok(changes)
}

/// Shows the limits until the run has ended.
async fn watch(api: &Api, job: &str, output: Output) -> Result<(), Failure> {
    let mut painted = 0;
    loop {
        let answer = get(api, job).await?;
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
        if limits.waiting.is_ended() {
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
