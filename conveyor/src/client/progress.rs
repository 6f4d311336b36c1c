//! Following a run to its end.

use super::document::{Job, Stats};
use super::failure::Failure;
use super::http::{Answer, Api};
use super::print::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

const POLL_FIRST: Duration = Duration::from_millis(100);
const POLL_MAX: Duration = Duration::from_secs(1);

/// Polls the job until its latest run is over, and gives the last answer. Ctrl-C ends the watching, not the job.
pub async fn watch(api: &Api, job: &str, output: Output) -> Result<Answer<Job>, Failure> {
    tokio::select! {
        last = poll(api, job, output) => last,
        () = ctrl_c() => Err(Failure::interrupted(job)),
    }
}

/// The exit code of a command that waited for a run: failed tasks are results, a run that did not complete is not.
pub fn exit_code(job: &Job) -> ExitCode {
    match &job.latest_run {
        Some(run) if run.is_over() && !run.is_completed() => ExitCode::FAILURE,
        Some(_) | None => ExitCode::SUCCESS,
    }
}

async fn poll(api: &Api, job: &str, output: Output) -> Result<Answer<Job>, Failure> {
    let bar = bar(output, "{bar:24} {pos}/{len} {rate}, eta {eta}, {msg}");
    let mut wait = POLL_FIRST;
    let mut first = true;
    loop {
        let answer: Answer<Job> = api.get(api.url(&["jobs", job])).await?;
        match &answer.document.latest_run {
            Some(run) if run.is_over() => return Ok(answer),
            Some(run) => show(&bar, &run.stats),
            None => {}
        }
        if first {
            // What was done before we looked says nothing about the speed.
            bar.reset_eta();
            first = false;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 5 / 4).min(POLL_MAX);
    }
}

fn show(bar: &ProgressBar, stats: &Stats) {
    bar.set_length(stats.total);
    bar.set_position(stats.completed);
    bar.set_message(format!("{} ok, {} failed", stats.successful, stats.failed));
}

/// A bar on standard error that disappears with its value, or one that is never seen.
pub fn bar(output: Output, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
    if output.shows_progress() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    let rate = |state: &ProgressState, w: &mut dyn Write| {
        let _ = write!(w, "{:.0}/s", state.per_sec());
    };
    // A template is a constant of this program; should one be wrong, the plain bar still serves.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.with_key("rate", rate).progress_chars("#>."));
    bar
}

async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the signal ends the process by itself.
        std::future::pending().await
    }
}
