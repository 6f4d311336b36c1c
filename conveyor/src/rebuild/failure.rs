//! How a rebuild ends when it does not come to its end. Whatever was done by then stays, and a repeat goes on from there.

use conveyor_domain::{Exponential, ListFault, Problem};
use conveyor_ingest::Trouble;
use conveyor_store::Error;
use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const NOT_FOUND: &str = "not_found";
const NOT_REBUILDABLE: &str = "not_rebuildable";

const TRIES_MAX: u32 = 6;
const PAUSE: Exponential = Exponential::new(Duration::from_millis(500), Duration::from_secs(8));

#[derive(Debug)]
pub struct Failure {
    exit: u8,
    code: &'static str,
    title: &'static str,
    detail: String,
    /// What is to be done about a run that a rebuild paused.
    if_paused: &'static str,
}

impl Failure {
    fn new(code: &'static str, title: &'static str, detail: impl Into<String>) -> Failure {
        let if_paused = "; the run stays paused until a rebuild comes to its end: repeat it";
        Failure { exit: FAILED, code, title, detail: detail.into(), if_paused }
    }

    pub fn usage(detail: impl Into<String>) -> Failure {
        Failure { exit: USAGE, ..Failure::new("usage", "Bad input", detail) }
    }

    /// What is needed to make it anew was never kept, or may not be used.
    pub fn not_rebuildable(detail: impl Into<String>) -> Failure {
        Failure { if_paused: "", ..Failure::new(NOT_REBUILDABLE, "The job cannot be rebuilt", detail) }
    }

    /// What is missing of it may have been done long ago, and removed since.
    pub fn past_its_time() -> Failure {
        let detail = "rows of the run may be past their time (30 days): what is missing may have been done and counted, and \
                      would be done again";
        let if_paused = "; an earlier rebuild left the run paused: resume it";
        Failure { if_paused, ..Failure::not_rebuildable(detail) }
    }

    pub fn source_missing() -> Failure {
        let detail = "the list that it was made of is not there";
        Failure::new("source_missing", "The list is missing", detail)
    }

    pub fn source_changed() -> Failure {
        let detail = "the list is not the one that was accepted: other bytes would give other tasks";
        Failure::new("source_changed", "The list has changed", detail)
    }

    /// The backend cannot be used at all.
    pub fn unopened(error: anyhow::Error) -> Failure {
        Failure::new("unavailable", "Cannot open the backend", format!("{error:#}"))
    }

    pub fn unavailable(detail: impl Into<String>) -> Failure {
        Failure::new("unavailable", "The storage does not answer", detail)
    }

    /// A signal came.
    pub fn interrupted(dry_run: bool) -> Failure {
        let detail = match dry_run {
            true => "nothing was changed",
            false => {
                "what was done stays, and the run may be left paused: repeat the command, it goes on from there"
            }
        };
        Failure::new("interrupted", "Stopped", detail)
    }

    pub fn no_data(dir: &Path) -> Failure {
        let detail = format!("there is neither a database nor an object in {}", dir.display());
        Failure::new(NOT_FOUND, "Not found", detail)
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    pub fn is_not_found(&self) -> bool {
        self.code == NOT_FOUND
    }

    /// Names what is left to be undone.
    #[must_use]
    pub fn with_paused_run(mut self) -> Failure {
        self.detail += self.if_paused;
        self
    }

    pub fn say(&self, json: bool) -> ExitCode {
        if json {
            let mut document =
                serde_json::json!(Problem::new(0, self.code, self.title).with_detail(&self.detail));
            // No server reported it.
            if let Some(fields) = document.as_object_mut() {
                fields.remove("status");
            }
            eprintln!("{document}");
        } else {
            eprintln!("error: {}: {} ({})", self.title, self.detail, self.code);
        }
        ExitCode::from(self.exit)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let detail = error.to_string();
        match error {
            Error::Unavailable(_) | Error::Missing(_) => Failure::unavailable(detail),
            Error::Full(_) => Failure::new("storage_full", "There is no room", detail),
            Error::Changed => Failure::source_changed(),
            Error::Conflict(_) | Error::Refused(_) => {
                Failure::new("conflict", "Somebody else changed it", detail)
            }
            Error::NotFound => Failure::new(NOT_FOUND, "Something of the job went away meanwhile", detail),
            Error::Corrupt(_) => Failure::new("internal", "Stored data cannot be read", detail),
        }
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Failure {
        match trouble {
            Trouble::List { fault: ListFault::SourceChanged, .. } => Failure::source_changed(),
            Trouble::List { fault, detail, .. } => {
                Failure::new(fault.as_str(), "The list cannot be read", detail)
            }
            Trouble::Passing(detail) => Failure::unavailable(detail),
        }
    }
}

/// A step that may be repeated, for as long as there is hope that the storage answers.
pub async fn patiently<T, F>(step: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = conveyor_store::Result<T>>,
{
    for failures in 1..TRIES_MAX {
        match step().await {
            Err(Error::Unavailable(_)) => tokio::time::sleep(PAUSE.delay(failures)).await,
            done => return Ok(done?),
        }
    }
    Ok(step().await?)
}
