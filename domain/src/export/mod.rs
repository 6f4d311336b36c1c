//! One file of a run's results: what state it is in, and what is to be done about it (SPEC 6.22).

pub mod checksum;
pub mod result_index;

use crate::{
    CallerId, Entropy, ExportId, JobId, Record, RecordKey, RecordKind, RecordVersion, RunId, Timestamp,
    limits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

crate::words! {
    /// `zip`: the bodies, one entry each. `jsonl`: the tasks, one JSON object a line. `csv`: the tasks, for a
    /// spreadsheet.
    #[derive(Default, JsonSchema)]
    pub enum ExportFormat as json {
        /// The bodies, one entry each.
        #[default]
        Zip = "zip",
        /// The tasks, one JSON object a line.
        Jsonl = "jsonl",
        /// The tasks, for a spreadsheet.
        Csv = "csv",
    }
}

impl ExportFormat {
    pub fn content_type(self) -> &'static str {
        match self {
            ExportFormat::Zip => "application/zip",
            ExportFormat::Jsonl => "application/x-ndjson",
            ExportFormat::Csv => "text/csv; charset=utf-8",
        }
    }
}

/// How far an export is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub tasks_done: u32,
    /// As far as that is known: a run that goes on has more of them later.
    pub tasks_total: u32,
    /// Written so far.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    Pending {
        not_before: Timestamp,
        /// Why the last try came to nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trouble: Option<String>,
    },
    /// Somebody builds it, and has it until then.
    Running {
        until: Timestamp,
    },
    Completed {
        object: String,
        size: u64,
    },
    Failed {
        error: String,
    },
    /// Its caller does not want it any more: it is to be removed, and nobody sees it.
    Removed {
        at: Timestamp,
    },
}

/// An export, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    pub id: ExportId,
    pub job: JobId,
    pub run: RunId,
    #[serde(default)]
    pub format: ExportFormat,
    pub created: Timestamp,
    /// Whose it is, and how many tasks its run had when it was asked for: hints for who takes turns with whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    #[serde(default)]
    pub tasks_expected: u32,
    #[serde(default)]
    pub tries: u32,
    #[serde(default)]
    pub progress: Progress,
    #[serde(flatten)]
    pub state: State,
}

/// What is to be done about an export that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// To be built by whoever writes this.
    Build(Export),
    /// It was tried often enough.
    GiveUp(Export),
    /// Its objects go, then its record.
    Remove,
    Wait,
}

impl Export {
    pub fn new(id: ExportId, job: JobId, run: RunId, format: ExportFormat, now: Timestamp) -> Export {
        let state = State::Pending { not_before: now, trouble: None };
        let progress = Progress::default();
        let (caller, tasks_expected) = (None, 0);
        Export { id, job, run, format, created: now, caller, tasks_expected, tries: 0, progress, state }
    }

    #[must_use]
    pub fn asked_by(self, caller: CallerId, tasks_expected: u32) -> Export {
        Export { caller: Some(caller), tasks_expected, ..self }
    }

    pub fn key(run: RunId, id: ExportId) -> RecordKey {
        RecordKey::new(RecordKind::Export, run, id)
    }

    /// As it is stored, under a version of its own.
    pub fn record(&self, entropy: &Entropy) -> Record {
        Record::new(Export::key(self.run, self.id), RecordVersion::new(entropy), self)
            .due(Some(self.due()))
            .expires(Some(self.created.after(limits::EXPORT_RECORD_KEPT)))
    }

    /// From then on it is not there.
    pub fn expires(&self) -> Timestamp {
        self.created.after(limits::EXPORT_TTL)
    }

    fn due(&self) -> Timestamp {
        match self.state {
            State::Pending { not_before, .. } => not_before.min(self.expires()),
            State::Running { until } => until.min(self.expires()),
            State::Completed { .. } | State::Failed { .. } => self.expires(),
            State::Removed { at } => at,
        }
    }

    /// Whether anybody is to see it.
    pub fn is_there(&self, now: Timestamp) -> bool {
        now < self.expires() && !matches!(self.state, State::Removed { .. })
    }

    /// Whether it is past its time by a clock that is in doubt, and not by what removals go by (SPEC 6.26).
    pub fn is_kept(&self, now: Timestamp, removal_time: Timestamp) -> bool {
        !self.is_there(now) && self.is_there(removal_time)
    }

    /// Whether it will not change any more.
    pub fn is_over(&self) -> bool {
        match self.state {
            State::Pending { .. } | State::Running { .. } => false,
            State::Completed { .. } | State::Failed { .. } | State::Removed { .. } => true,
        }
    }

    pub fn next(&self, now: Timestamp) -> Next {
        if !self.is_there(now) {
            return Next::Remove;
        }
        let trouble = match &self.state {
            State::Completed { .. } | State::Failed { .. } | State::Removed { .. } => return Next::Wait,
            // Nobody puts it off for longer than a day: then the clock was wrong when that was written.
            State::Pending { not_before: free, .. } | State::Running { until: free }
                if *free > now && *free <= now.after(limits::NOT_BEFORE_MAX) =>
            {
                return Next::Wait;
            }
            State::Pending { trouble, .. } => trouble.as_deref(),
            State::Running { .. } => None,
        };
        if self.tries >= limits::EXPORT_TRIES_MAX {
            return Next::GiveUp(self.failed(&given_up(trouble)));
        }
        let state = State::Running { until: now.after(limits::EXPORT_LEASE) };
        Next::Build(Export { tries: self.tries + 1, progress: Progress::default(), state, ..self.clone() })
    }

    /// Whoever builds it goes on.
    #[must_use]
    pub fn renewed(&self, progress: Progress, now: Timestamp) -> Export {
        Export { progress, state: State::Running { until: now.after(limits::EXPORT_LEASE) }, ..self.clone() }
    }

    #[must_use]
    pub fn completed(&self, object: String, size: u64, tasks: u32) -> Export {
        let progress = Progress { tasks_done: tasks, tasks_total: tasks, bytes: size };
        Export { progress, state: State::Completed { object, size }, ..self.clone() }
    }

    #[must_use]
    pub fn failed(&self, error: &str) -> Export {
        Export { state: State::Failed { error: error.to_owned() }, ..self.clone() }
    }

    /// A try came to nothing, for a reason that may pass.
    #[must_use]
    pub fn put_off(&self, trouble: &str, now: Timestamp) -> Export {
        if self.tries >= limits::EXPORT_TRIES_MAX {
            return self.failed(&given_up(Some(trouble)));
        }
        let not_before = now.after(limits::EXPORT_RETRY_BASE * self.tries.max(1));
        let state = State::Pending { not_before, trouble: Some(trouble.to_owned()) };
        Export { progress: Progress::default(), state, ..self.clone() }
    }

    /// Whoever builds it was asked to end: for another to take, as if this one had not begun.
    #[must_use]
    pub fn given_back(&self, now: Timestamp) -> Export {
        let state = State::Pending { not_before: now, trouble: None };
        Export { tries: self.tries.saturating_sub(1), progress: Progress::default(), state, ..self.clone() }
    }

    #[must_use]
    pub fn removed(&self, now: Timestamp) -> Export {
        Export { state: State::Removed { at: now }, ..self.clone() }
    }
}

fn given_up(trouble: Option<&str>) -> String {
    let tries = limits::EXPORT_TRIES_MAX;
    match trouble {
        Some(trouble) => format!("given up after {tries} tries: {trouble}"),
        None => format!("given up after {tries} tries: nobody who began it lived to finish it"),
    }
}

/// What an export fails with whose bodies are too much. Clients know this text.
pub fn too_large(max_bytes: u64) -> String {
    const GIB: u64 = 1024 * limits::MIB as u64;
    match max_bytes % GIB {
        0 => format!("results are larger than {} gb", max_bytes / GIB),
        _ => format!("results are larger than {:.3} gb", max_bytes as f64 / GIB as f64),
    }
}

/// Text that a spreadsheet shows and does not run: what it would take for a formula gets an apostrophe.
pub fn inert(text: &str) -> Cow<'_, str> {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
