//! Messages that were received too often, and what is to become of them (SPEC 6.15).

use crate::{IngestRef, IngestState, JobId, LetterId, Run, RunId, Timestamp, limits};
use sha2::{Digest, Sha256};

/// A message that was given up, kept until somebody decides about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub id: LetterId,
    /// What was sent. Nothing that a caller wrote is in it.
    pub body: String,
    /// When it was first and last given up.
    pub first: Timestamp,
    pub last: Timestamp,
    /// How often it was sent again, if no log says so: of a message that nobody could read.
    pub redrives: u32,
}

impl DeadLetter {
    pub fn new(body: String, now: Timestamp) -> DeadLetter {
        DeadLetter { id: letter_id(&body), body, first: now, last: now, redrives: 0 }
    }

    /// The ingest that it asks for, if it is a message that this version knows.
    pub fn ingest(&self) -> Option<IngestRef> {
        self.body.parse().ok()
    }
}

/// A letter, with what the log of its ingest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterView {
    pub letter: DeadLetter,
    /// Of a message that can be read.
    pub job: Option<JobId>,
    pub run: Option<RunId>,
    /// Tries that failed since the last progress, and what the last of them said.
    pub tries: u32,
    pub last_error: Option<String>,
    /// How often it was sent again since the last progress.
    pub redrives: u32,
    /// What the next sweep does with it.
    pub verdict: Verdict,
}

/// Letters that are for this job, for this run, and whose last error has this text in it; each only if it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetterFilter {
    pub job: Option<JobId>,
    pub run: Option<RunId>,
    /// In any case of its letters.
    pub error: Option<String>,
}

impl LetterFilter {
    pub fn admits(&self, view: &LetterView) -> bool {
        let same_job = self.job.is_none_or(|job| view.job == Some(job));
        let same_run = self.run.is_none_or(|run| view.run == Some(run));
        let error = view.last_error.as_deref().unwrap_or_default().to_lowercase();
        same_job && same_run && self.error.as_ref().is_none_or(|part| error.contains(&part.to_lowercase()))
    }
}

/// A page of letters, by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LettersPage {
    pub letters: Vec<LetterView>,
    /// The last letter that was looked at, if there may be more. The page may be short, or empty, all the same.
    pub next: Option<LetterId>,
}

/// What became of a letter that an operator sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redriven {
    Sent,
    /// It is no longer needed: the letter is gone, and nothing was sent.
    Acknowledged,
    /// It was sent again as often as it may.
    Refused,
}

/// Two messages that ask for the same ingest are the same letter, however far it was when they were sent.
fn letter_id(body: &str) -> LetterId {
    let subject = match body.parse::<IngestRef>() {
        Ok(IngestRef { job, run, .. }) => ingest_subject(job, run),
        Err(_) => body.to_owned(),
    };
    let mut id = [0; 16];
    id.copy_from_slice(&Sha256::digest(subject.as_bytes())[..16]);
    LetterId::from_bytes(id)
}

fn ingest_subject(job: JobId, run: RunId) -> String {
    format!("ingest:{job}:{run}")
}

/// What is to become of a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody needs it any more: its run is over, or was deleted, or it was redriven; or nobody could read it, and it waited long enough.
    Acknowledge,
    /// It is not at fault: there was progress since it was sent, or its run ended and the ingest has only to be cut.
    SendAgain,
    /// An operator has to look.
    Keep,
    /// It was tried often enough, or waited long enough: the run fails, and says why.
    FailRun(String),
}

/// Decides about a letter by the state of the ingest that it asks for; `None` if there is no such ingest.
pub fn judge(letter: &DeadLetter, ingest: Option<(&Run, &IngestState)>, now: Timestamp) -> Verdict {
    let waited_enough = letter.first.after(limits::DEAD_LETTER_KEPT) <= now;
    let Some(message) = letter.ingest() else {
        return if waited_enough { Verdict::Acknowledge } else { Verdict::Keep };
    };
    let Some((run, state)) = ingest else { return Verdict::Acknowledge };
    // One from before the last redrive: that has sent another in its place.
    if state.phase.is_over() || message.progress < state.redriven {
        return Verdict::Acknowledge;
    }
    if run.status.is_terminal() || state.progress > message.progress {
        return Verdict::SendAgain;
    }
    if !state.dead_lettered {
        // It was sent again, and how that ends is not known yet.
        return Verdict::Keep;
    }
    let last_error = state.last_error.as_deref().unwrap_or("no ingester lived to say why");
    if state.redrives >= limits::REDRIVES_MAX {
        let tries = 1 + state.redrives;
        return Verdict::FailRun(format!(
            "given up after {tries} rounds of tries; the last said: {last_error}"
        ));
    }
    if waited_enough {
        return Verdict::FailRun(format!("nobody sent it again in time; the last try said: {last_error}"));
    }
    Verdict::Keep
}

/// Whether an operator may send it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redrive {
    Acknowledge,
    Send,
    /// It was sent again as often as it may.
    Refuse,
}

pub fn may_redrive(letter: &DeadLetter, ingest: Option<(&Run, &IngestState)>) -> Redrive {
    match (letter.ingest(), ingest) {
        (None, _) if letter.redrives >= limits::REDRIVES_MAX => Redrive::Refuse,
        (None, _) => Redrive::Send,
        (Some(_), None) => Redrive::Acknowledge,
        (Some(_), Some((_, state))) if state.phase.is_over() => Redrive::Acknowledge,
        (Some(_), Some((_, state))) if state.redrives >= limits::REDRIVES_MAX => Redrive::Refuse,
        (Some(_), Some(_)) => Redrive::Send,
    }
}

#[cfg(test)]
#[path = "dead_letter_tests.rs"]
mod tests;
