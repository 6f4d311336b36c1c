//! Dead letters sent again, or let go: each by itself, so that one that cannot be does not keep the others.

use super::document::{Became, Page};
use super::{filtered, list, url};
use crate::client::args::{DlqPurgeArgs, DlqRedriveArgs, Selection};
use crate::client::failure::Failure;
use crate::client::http::{Answer, Api};
use crate::client::print::{self, Output, clean};
use crate::client::progress::{self, unless_interrupted};
use futures::TryStreamExt;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

const BAR: &str = "{bar:24} {pos}/{len} {rate}, eta {eta}";

pub async fn redrive(api: &Api, args: &DlqRedriveArgs, output: Output) -> Result<ExitCode, Failure> {
    let bar = progress::bar(output, BAR);
    let mut done = Vec::new();
    let ended = unless_interrupted(redrive_selected(api, args, output, &bar, &mut done)).await;
    bar.finish_and_clear();
    ended.unwrap_or_else(|| Err(interrupted("redriven", &done)))?;
    report("redriven", &done, output)
}

async fn redrive_selected(
    api: &Api,
    args: &DlqRedriveArgs,
    output: Output,
    bar: &ProgressBar,
    done: &mut Vec<Became>,
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
    api: &Api,
    args: &DlqRedriveArgs,
    pace: &mut Pace,
    bar: &ProgressBar,
    done: &mut Vec<Became>,
) -> Result<(), Failure> {
    let mut body = filter(&args.selection);
    if let Some(rate) = args.rate {
        body["per_second"] = json!(rate);
    }
    loop {
        pace.wait().await;
        // Sent once: what is redriven twice has one redrive less.
        let answer: Answer<Page> = api.post(url(api, &["redrive"]), Some(&body)).await?;
        pace.sent();
        let Page { dead_letters, more, next_cursor } = answer.document;
        bar.inc(dead_letters.len() as u64);
        done.extend(dead_letters);
        match next_cursor {
            Some(cursor) if more && body["cursor"] != json!(cursor) => body["cursor"] = json!(cursor),
            Some(_) | None => return Ok(()),
        }
    }
}

async fn redrive_one(api: &Api, letter: &str) -> Result<Became, Failure> {
    match api.post::<Became>(url(api, &[letter, "redrive"]), None).await {
        Ok(answer) => Ok(answer.document),
        Err(failure) => not_done(letter, failure),
    }
}

pub async fn purge(api: &Api, args: &DlqPurgeArgs, output: Output) -> Result<ExitCode, Failure> {
    let bar = progress::bar(output, BAR);
    let mut done = Vec::new();
    let ended = unless_interrupted(purge_selected(api, args, &bar, &mut done)).await;
    bar.finish_and_clear();
    ended.unwrap_or_else(|| Err(interrupted("purged", &done)))?;
    report("purged", &done, output)
}

async fn purge_selected(
    api: &Api,
    args: &DlqPurgeArgs,
    bar: &ProgressBar,
    done: &mut Vec<Became>,
) -> Result<(), Failure> {
    let ids = match args.selection.ids.is_empty() {
        true => found(api, &args.selection).await?,
        false => args.selection.ids.clone(),
    };
    bar.set_length(ids.len() as u64);
    for letter in &ids {
        let outcome = "purged".to_owned();
        done.push(match api.delete(url(api, &[letter])).await {
            Ok(_) => Became { letter_id: letter.clone(), outcome, error: None },
            Err(failure) => not_done(letter, failure)?,
        });
        bar.inc(1);
    }
    Ok(())
}

fn interrupted(what: &str, done: &[Became]) -> Failure {
    let count = done.iter().filter(|became| became.is_done()).count();
    Failure::stopped(format!("{count} {what} so far, and perhaps what was just asked for"))
}

/// An answer about this letter is no reason to end; a server that is gone, or that wants another key, is.
fn not_done(letter: &str, failure: Failure) -> Result<Became, Failure> {
    let about_it =
        failure.is_not_found() || failure.has_code("redrive_limit") || failure.has_code("conflict");
    match about_it {
        true => {
            let outcome = if failure.is_not_found() { "not_found" } else { "refused" }.to_owned();
            Ok(Became { letter_id: letter.to_owned(), outcome, error: Some(failure.line()) })
        }
        false => Err(failure),
    }
}

fn filter(selection: &Selection) -> Value {
    if selection.all {
        return json!({ "all": true });
    }
    let mut filter = json!({});
    let given = [("job_id", &selection.job), ("run_id", &selection.run), ("error", &selection.error)];
    for (name, value) in given {
        if let Some(value) = value {
            filter[name] = json!(value);
        }
    }
    filter
}

/// The ids of all that fit.
async fn found(api: &Api, selection: &Selection) -> Result<Vec<String>, Failure> {
    let Selection { job, run, error, .. } = selection;
    let pages = list::pages(api, filtered(api, [("job_id", job), ("run_id", run), ("error", error)]));
    let mut pages = pin!(pages);
    let mut ids = Vec::new();
    while let Some(page) = pages.try_next().await? {
        for item in &page {
            ids.push(list::read(item)?.letter_id);
        }
    }
    Ok(ids)
}

fn report(what: &str, done: &[Became], output: Output) -> Result<ExitCode, Failure> {
    let failed = done.iter().filter(|became| !became.is_done()).count();
    if output.json {
        print::line(&json!({ what: done }).to_string())?;
    } else {
        for Became { letter_id, outcome, error } in done {
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
