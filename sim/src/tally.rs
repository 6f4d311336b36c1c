//! What a simulation went through.

use serde::Serialize;

/// Of one seed, or of many added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub steps: u64,
    pub jobs: u64,
    pub crashes: u64,
    pub worker_deaths: u64,
    pub ingester_deaths: u64,
    /// Jobs that were made of a staged list.
    pub lists: u64,
    /// Lists that were written over behind everybody's back.
    pub tampered: u64,
    /// Lists that were left to an operator.
    pub given_up: u64,
    /// Steps of an ingest that another took first.
    pub lost_steps: u64,
    /// How lists ended, and in how many chunks.
    pub lists_read: u64,
    pub lists_failed: u64,
    pub lists_cut: u64,
    pub chunks: u64,
    /// Operations of which the caller was not told whether they happened.
    pub lost_answers: u64,
    /// Messages that came again, by themselves or because a queue delivered them twice.
    pub duplicates: u64,
    pub lost_messages: u64,
    pub pauses: u64,
    pub limits_changed: u64,
    pub runs_deleted: u64,
    /// Submits of jobs that were gone by then.
    pub late_submits: u64,
    /// Starts that workers were told of.
    pub starts: u64,
    pub replays: u64,
    pub tasks_settled: u64,
    pub audits: u64,
    /// Of the trace; of many, of all their traces in any order.
    #[serde(skip)]
    pub trace_hash: u64,
}

impl Summary {
    #[must_use]
    pub fn plus(self, other: Summary) -> Summary {
        Summary {
            steps: self.steps + other.steps,
            jobs: self.jobs + other.jobs,
            crashes: self.crashes + other.crashes,
            worker_deaths: self.worker_deaths + other.worker_deaths,
            ingester_deaths: self.ingester_deaths + other.ingester_deaths,
            lists: self.lists + other.lists,
            tampered: self.tampered + other.tampered,
            given_up: self.given_up + other.given_up,
            lost_steps: self.lost_steps + other.lost_steps,
            lists_read: self.lists_read + other.lists_read,
            lists_failed: self.lists_failed + other.lists_failed,
            lists_cut: self.lists_cut + other.lists_cut,
            chunks: self.chunks + other.chunks,
            lost_answers: self.lost_answers + other.lost_answers,
            duplicates: self.duplicates + other.duplicates,
            lost_messages: self.lost_messages + other.lost_messages,
            pauses: self.pauses + other.pauses,
            limits_changed: self.limits_changed + other.limits_changed,
            runs_deleted: self.runs_deleted + other.runs_deleted,
            late_submits: self.late_submits + other.late_submits,
            starts: self.starts + other.starts,
            replays: self.replays + other.replays,
            tasks_settled: self.tasks_settled + other.tasks_settled,
            audits: self.audits + other.audits,
            trace_hash: self.trace_hash ^ other.trace_hash,
        }
    }
}
