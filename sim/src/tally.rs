//! What a simulation went through.

use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub crashes: u64,
    pub worker_deaths: u64,
    /// Messages that came again, by themselves or because a queue delivered them twice.
    pub duplicates: u64,
    pub lost_messages: u64,
    pub tasks_settled: u64,
    pub jobs: u64,
    pub replays: u64,
    pub audits: u64,
}

/// Of one seed, or of many added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub steps: u64,
    pub jobs: u64,
    pub crashes: u64,
    pub worker_deaths: u64,
    /// Operations of which the caller was not told whether they happened.
    pub lost_answers: u64,
    pub duplicates: u64,
    pub lost_messages: u64,
    pub replays: u64,
    pub tasks_settled: u64,
    pub audits: u64,
    /// Of the trace; of many, of all their traces in any order.
    #[serde(skip)]
    pub trace_hash: u64,
}

impl Summary {
    pub fn new(tally: &Tally, steps: u64, lost_answers: u64, trace_hash: u64) -> Summary {
        Summary {
            steps,
            jobs: tally.jobs,
            crashes: tally.crashes,
            worker_deaths: tally.worker_deaths,
            lost_answers,
            duplicates: tally.duplicates,
            lost_messages: tally.lost_messages,
            replays: tally.replays,
            tasks_settled: tally.tasks_settled,
            audits: tally.audits,
            trace_hash,
        }
    }

    #[must_use]
    pub fn plus(self, other: Summary) -> Summary {
        Summary {
            steps: self.steps + other.steps,
            jobs: self.jobs + other.jobs,
            crashes: self.crashes + other.crashes,
            worker_deaths: self.worker_deaths + other.worker_deaths,
            lost_answers: self.lost_answers + other.lost_answers,
            duplicates: self.duplicates + other.duplicates,
            lost_messages: self.lost_messages + other.lost_messages,
            replays: self.replays + other.replays,
            tasks_settled: self.tasks_settled + other.tasks_settled,
            audits: self.audits + other.audits,
            trace_hash: self.trace_hash ^ other.trace_hash,
        }
    }
}
