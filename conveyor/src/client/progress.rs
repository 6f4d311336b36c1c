//! Following a run to its end: its list is read, its tasks are done.

use super::failure::Failure;
use super::ingest;
use super::print::Output;
use conveyor_client::wire::{Ingest, Job, Run, Stats};
use conveyor_client::{Answer, Client};
use conveyor_domain::RunStatus;
use futures::TryStreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::process::ExitCode;

const READING: &str = "reading {bar:24} {percent}%, eta {eta}, {wide_msg}";
/// For a list whose end is not known.
const READING_ON: &str = "reading for {elapsed}, {wide_msg}";
const DRAINING: &str = "{bar:24} {pos}/{len} {rate}, eta {eta}, {wide_msg}";

/// Polls the job until its latest run is over, and gives the last answer. Ctrl-C ends the watching, not the job.
pub async fn watch(api: &Client, job: &str, output: Output) -> Result<Answer<Job>, Failure> {
    tokio::select! {
        biased;
        () = ctrl_c() => Err(Failure::interrupted(job)),
        last = poll(api, job, output) => last,
    }
}

/// The exit code of a command that waited for a run: failed tasks are results, a run that did not complete is not.
pub fn exit_code(job: &Job) -> ExitCode {
    match &job.latest_run {
        Some(run) if run.is_over() && run.status != RunStatus::Completed => ExitCode::FAILURE,
        Some(_) | None => ExitCode::SUCCESS,
    }
}

async fn poll(api: &Client, job: &str, output: Output) -> Result<Answer<Job>, Failure> {
    let mut phases = Phases::new(output);
    let mut looks = api.watch(job);
    while let Some(answer) = looks.try_next().await? {
        phases.say_paused(job, answer.latest_run.as_ref().is_some_and(Run::is_paused));
        match &answer.latest_run {
            Some(run) if run.is_over() => return Ok(answer),
            Some(run) if run.is_ingesting() => match ingest::find(api, answer.job_id, run.run_id).await? {
                Some(ingest) => phases.show_ingest(run, &ingest),
                None => phases.show_drain(run),
            },
            Some(run) => phases.show_drain(run),
            None => {}
        }
    }
    Err(Failure::not_understood(format!("job {job} has no run that ends")))
}

/// The bar of the phase that the run is in.
struct Phases {
    output: Output,
    current: Option<(&'static str, ProgressBar)>,
    /// What was last said about an ingest that does not go on.
    trouble: Option<String>,
    paused: bool,
}

impl Phases {
    fn new(output: Output) -> Phases {
        Phases { output, current: None, trouble: None, paused: false }
    }

    fn show_ingest(&mut self, run: &Run, ingest: &Ingest) {
        self.say_trouble(ingest);
        let rate = ingest.rows_per_second.map(|rate| format!(", {rate:.0} rows/s")).unwrap_or_default();
        let message = format!("{}{rate}, {} done", ingest::rows(ingest), run.stats.completed);
        match ingest::share(ingest) {
            Some((read, size)) => self.show(READING, read, size, message),
            None => self.show(READING_ON, 0, 0, message),
        }
    }

    fn show_drain(&mut self, run: &Run) {
        let Stats { successful, failed, .. } = run.stats;
        let paused = if run.is_paused() { ", paused" } else { "" };
        let message = format!("{successful} ok, {failed} failed{paused}");
        self.show(DRAINING, run.stats.completed.into(), run.stats.total.into(), message);
    }

    fn show(&mut self, template: &'static str, position: u64, length: u64, message: String) {
        let is_new = self.current.as_ref().is_none_or(|(current, _)| *current != template);
        if is_new {
            // The old one goes first, and takes its line along.
            self.current = None;
        }
        let (_, bar) = self.current.get_or_insert_with(|| (template, hidden_bar(template)));
        bar.set_length(length);
        bar.set_position(position);
        bar.set_message(message);
        if is_new {
            // What was done before we looked says nothing about the speed.
            bar.reset_eta();
            reveal(bar, self.output);
        }
    }

    /// Once for each thing that is wrong: on a pipe nothing else would tell why nothing happens.
    fn say_trouble(&mut self, ingest: &Ingest) {
        let trouble = ingest::trouble(ingest);
        if let Some(trouble) = trouble.as_ref().filter(|_| trouble != self.trouble) {
            self.say(&format!("the list is {}: {trouble}", ingest.state));
        }
        self.trouble = trouble;
    }

    /// Once for each time: it may take for ever.
    fn say_paused(&mut self, job: &str, paused: bool) {
        if paused && !self.paused {
            self.say(&format!("the run is paused; `conveyor resume {job}` goes on with it"));
        }
        self.paused = paused;
    }

    fn say(&self, text: &str) {
        match &self.current {
            Some((_, bar)) => bar.suspend(|| self.output.remark(text)),
            None => self.output.remark(text),
        }
    }
}

/// A bar on standard error that disappears with its value, or one that is never seen.
pub fn bar(output: Output, template: &str) -> ProgressBar {
    let bar = hidden_bar(template);
    reveal(&bar, output);
    bar
}

fn reveal(bar: &ProgressBar, output: Output) {
    if output.shows_progress() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
}

fn hidden_bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
    let rate = |state: &ProgressState, w: &mut dyn Write| {
        let _ = write!(w, "{:.0}/s", state.per_sec());
    };
    // A template is a constant of this program; should one be wrong, the plain bar still serves.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.with_key("rate", rate).progress_chars("#>."));
    bar
}

/// Polled before the work that it interrupts, so that there is somebody to hear the signal once that work can be seen.
pub async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the signal ends the process by itself.
        std::future::pending().await
    }
}

/// `None` if Ctrl-C comes first. All that a command does goes into one of these: afterwards the signal alone ends nothing.
pub async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = ctrl_c() => None,
        done = work => Some(done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_one() {
        for template in [READING, READING_ON, DRAINING] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
