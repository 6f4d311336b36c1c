//! Dead letters sent again, or let go: each by itself, so that one that cannot be does not keep the others.

use super::selected;
use crate::client::args::{DlqPurgeArgs, DlqRedriveArgs, Selection};
use crate::client::failure::Failure;
use crate::client::print::{self, Output, clean};
use crate::client::progress::{self, unless_interrupted};
use conveyor_client::wire::{Became, Decimal, LetterOutcome, RedriveLetters, Redriven};
use conveyor_client::{Client, Error};
use futures::TryStreamExt;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// What became of a letter: what the server says, or that it refused.
#[derive(Debug, Serialize)]
struct Done {
    letter_id: String,
    outcome: String,
    /// Why it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Done {
    fn new(letter: &str, outcome: &str, error: Option<String>) -> Done {
        Done { letter_id: letter.to_owned(), outcome: outcome.to_owned(), error }
    }

    fn is_done(&self) -> bool {
        matches!(self.outcome.as_str(), "sent" | "acknowledged" | "purged" | "gone")
    }
}

impl From<Became> for Done {
    fn from(became: Became) -> Done {
        Done::new(&became.letter_id.to_string(), &became.outcome.to_string(), became.error)
    }
}

const BAR: &str = "{bar:24} {pos}/{len} {rate}, eta {eta}";

pub async fn redrive(api: &Client, args: &DlqRedriveArgs, output: Output) -> Result<ExitCode, Failure> {
    let bar = progress::bar(output, BAR);
    let mut done = Vec::new();
    let ended = unless_interrupted(redrive_selected(api, args, output, &bar, &mut done)).await;
    bar.finish_and_clear();
    ended.unwrap_or_else(|| Err(interrupted("redriven", &done)))?;
    report("redriven", &done, output)
}

async fn redrive_selected(
    api: &Client,
    args: &DlqRedriveArgs,
    output: Output,
    bar: &ProgressBar,
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    let mut pace = Pace::new(args.rate);
    if args.selection.ids.is_empty() {
        if output.shows_progress() {
            bar.set_length(found(api, &args.selection).await?.len() as u64);
        }
        redrive_found(api, args, &mut pace, bar, done).await
    } else {
        bar.set_length(args.selection.ids.len() as u64);
        for letter in &args.selection.ids {
            pace.wait().await;
            done.push(redrive_one(api, letter).await?);
            pace.sent();
            bar.inc(1);
        }
        Ok(())
    }
}

/// All that fit, as many in a request as the server takes.
async fn redrive_found(
    api: &Client,
    args: &DlqRedriveArgs,
    pace: &mut Pace,
    bar: &ProgressBar,
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    let Selection { all, job, run, error, .. } = &args.selection;
    let mut which = RedriveLetters {
        all: all.then_some(true),
        job_id: id_of("job", job)?,
        run_id: id_of("run", run)?,
        error: error.clone(),
        per_second: args.rate.map(Decimal),
        ..RedriveLetters::default()
    };
    loop {
        pace.wait().await;
        let Redriven { dead_letters, more, next_cursor } = api.redrive_many(&which).await?.document;
        pace.sent();
        bar.inc(dead_letters.len() as u64);
        done.extend(dead_letters.into_iter().map(Done::from));
        if !more || next_cursor.is_none() || next_cursor == which.cursor {
            return Ok(());
        }
        which.cursor = next_cursor;
    }
}

fn id_of<T: FromStr>(what: &str, id: &Option<String>) -> Result<Option<T>, Failure> {
    let id = id
        .as_ref()
        .map(|id| id.parse().map_err(|_| Failure::usage(format!("--{what} {id}: not a valid id"))));
    id.transpose()
}

async fn redrive_one(api: &Client, letter: &str) -> Result<Done, Failure> {
    match api.redrive(letter).await {
        Ok(answer) => Ok(answer.document.into()),
        Err(error) => not_done(letter, error),
    }
}

pub async fn purge(api: &Client, args: &DlqPurgeArgs, output: Output) -> Result<ExitCode, Failure> {
    let bar = progress::bar(output, BAR);
    let mut done = Vec::new();
    let ended = unless_interrupted(purge_selected(api, args, &bar, &mut done)).await;
    bar.finish_and_clear();
    ended.unwrap_or_else(|| Err(interrupted("purged", &done)))?;
    report("purged", &done, output)
}

async fn purge_selected(
    api: &Client,
    args: &DlqPurgeArgs,
    bar: &ProgressBar,
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    let ids = match args.selection.ids.is_empty() {
        true => found(api, &args.selection).await?,
        false => args.selection.ids.clone(),
    };
    bar.set_length(ids.len() as u64);
    for letter in &ids {
        done.push(match api.purge(letter).await {
            Ok(_) => Done::new(letter, LetterOutcome::Purged.as_str(), None),
            Err(error) => not_done(letter, error)?,
        });
        bar.inc(1);
    }
    Ok(())
}

fn interrupted(what: &str, done: &[Done]) -> Failure {
    let count = done.iter().filter(|became| became.is_done()).count();
    Failure::stopped(format!("{count} {what} so far, and perhaps what was just asked for"))
}

/// An answer about this letter is no reason to end; a server that is gone, or that wants another key, is.
fn not_done(letter: &str, error: Error) -> Result<Done, Failure> {
    let outcome = match error.is_not_found() {
        true => "not_found",
        false if error.has_code("redrive_limit") || error.has_code("conflict") => "refused",
        false => return Err(error.into()),
    };
    Ok(Done::new(letter, outcome, Some(Failure::from(error).line())))
}

/// The ids of all that fit.
async fn found(api: &Client, selection: &Selection) -> Result<Vec<String>, Failure> {
    let Selection { job, run, error, .. } = selection;
    let letters = selected(api, job, run, error).items();
    Ok(letters.map_ok(|letter| letter.letter_id.to_string()).try_collect().await?)
}

fn report(what: &str, done: &[Done], output: Output) -> Result<ExitCode, Failure> {
    let failed = done.iter().filter(|became| !became.is_done()).count();
    if output.json {
        print::line(&json!({ what: done }).to_string())?;
    } else {
        for Done { letter_id, outcome, error } in done {
            let error = error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            print::line(&clean(&format!("{letter_id} {outcome}{error}")))?;
        }
        let failed = if failed > 0 { format!(", {failed} not") } else { String::new() };
        output.remark(&format!("{} {what}{failed}", done.iter().filter(|became| became.is_done()).count()));
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One after the other, no faster than asked for.
struct Pace {
    next: Instant,
    every: Duration,
}

impl Pace {
    fn new(rate: Option<f64>) -> Pace {
        let every = rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
        Pace { next: Instant::now(), every }
    }

    async fn wait(&self) {
        sleep_until(self.next).await;
    }

    /// The last of what was sent went out just now.
    fn sent(&mut self) {
        self.next = Instant::now() + self.every;
    }
}
