//! What callers may have, of whom no operator said otherwise with `conveyor keys`, and how fast they may ask.

use clap::{Args, value_parser};
use conveyor_domain::{Quotas, RequestRate, limits};

#[derive(Clone, Copy, Debug, Args)]
pub struct CallerArgs {
    /// Jobs of a caller with a run that has not ended; by default as many as it likes
    #[arg(long, env = "CONVEYOR_ACTIVE_JOBS_MAX", value_name = "N", value_parser = value_parser!(u32).range(0..=i64::from(limits::QUOTA_JOBS_MAX)), help_heading = "Callers")]
    pub active_jobs_max: Option<u32>,

    /// Jobs of a caller that have a schedule; by default as many as it likes
    #[arg(long, env = "CONVEYOR_SCHEDULED_JOBS_MAX", value_name = "N", value_parser = value_parser!(u32).range(0..=i64::from(limits::QUOTA_JOBS_MAX)), help_heading = "Callers")]
    pub scheduled_jobs_max: Option<u32>,

    /// Tasks of a caller that are not done; by default as many as it likes. `api` and `ingest` must be given the same
    #[arg(long, env = "CONVEYOR_QUEUED_TASKS_MAX", value_name = "N", value_parser = value_parser!(u64).range(0..=limits::QUOTA_TASKS_MAX), help_heading = "Callers")]
    pub queued_tasks_max: Option<u64>,

    /// Requests of a caller that this process takes in a second; 0 for as many as come
    #[arg(long, env = "CONVEYOR_REQUESTS_PER_SECOND", value_name = "N", default_value_t = limits::REQUESTS_PER_SECOND, value_parser = value_parser!(u32).range(0..=i64::from(limits::RATE_MAX)), help_heading = "Callers")]
    pub requests_per_second: u32,

    /// Requests of a caller that this process takes at once
    #[arg(long, env = "CONVEYOR_REQUESTS_BURST", value_name = "N", default_value_t = limits::REQUESTS_BURST, value_parser = value_parser!(u32).range(1..=i64::from(limits::BURST_MAX)), help_heading = "Callers")]
    pub requests_burst: u32,
}

impl CallerArgs {
    pub fn quotas(self) -> Quotas {
        Quotas {
            active_jobs: self.active_jobs_max,
            scheduled_jobs: self.scheduled_jobs_max,
            queued_tasks: self.queued_tasks_max,
        }
    }

    pub fn requests(self) -> Option<RequestRate> {
        RequestRate::new(self.requests_per_second, self.requests_burst)
    }
}
