//! A circuit breaker per job (SPEC 5.4, Throttling). A claim or settle that still failed after all its attempts opens the
//! circuit of its job: until the pause is over, claims and settles of that job fail at once and send nothing. The pause
//! grows by exponential backoff with jitter, once per outage, not once per call. Other jobs do not notice.

use conveyor_domain::{Entropy, Exponential, JobId, limits};
use conveyor_store::{Error, Result};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Jobs that are remembered. Beyond it a job that fails keeps its own retries, and is not paused.
const JOBS_MAX: usize = 4_096;
const PAUSE: Exponential = Exponential::new(limits::JOB_PAUSE_MIN, limits::JOB_PAUSE_MAX);

#[derive(Debug, Default)]
pub struct Circuits(Mutex<HashMap<JobId, Circuit>>);

#[derive(Clone, Copy, Debug)]
struct Circuit {
    /// Outages in a row.
    failures: u32,
    open_until: Instant,
}

/// A call of a job that was let through.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    job: JobId,
    at: Instant,
}

impl Circuits {
    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, Circuit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call of a job through, unless its circuit is open.
    pub fn pass(&self, job: JobId) -> Result<Passed> {
        let at = Instant::now();
        match self.jobs().get(&job) {
            Some(circuit) if at < circuit.open_until => {
                let left = (circuit.open_until - at).as_millis();
                Err(Error::Unavailable(format!(
                    "calls for job {job} failed or were throttled; backing off for {left} ms"
                )))
            }
            Some(_) | None => Ok(Passed { job, at }),
        }
    }

    /// What came of the call. One that was sent before the circuit opened says nothing new.
    pub fn note(&self, call: Passed, failed: bool, entropy: &Entropy) {
        let mut jobs = self.jobs();
        let known = jobs.get(&call.job).copied();
        if known.is_some_and(|circuit| call.at < circuit.open_until) {
            return;
        }
        if !failed {
            jobs.remove(&call.job);
            return;
        }
        let now = Instant::now();
        if jobs.len() >= JOBS_MAX {
            jobs.retain(|_, circuit| now < circuit.open_until);
        }
        if jobs.len() < JOBS_MAX || known.is_some() {
            let failures = known.map_or(0, |circuit| circuit.failures).saturating_add(1);
            let open_until = now + PAUSE.jittered(failures, entropy);
            jobs.insert(call.job, Circuit { failures, open_until });
        }
    }
}

/// Throttled, or not answered. A row that cannot be read is no reason to pause its job.
pub fn is_unavailable(error: &Error) -> bool {
    matches!(error, Error::Unavailable(_) | Error::Missing(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn job(n: u8) -> JobId {
        JobId::from_bytes([n; 16])
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_one_jobs_doubles_per_outage_and_ends_with_success() {
        let (circuits, entropy) = (Circuits::default(), Entropy::from_number(1));
        let mut pause = limits::JOB_PAUSE_MIN;
        for _ in 0..8 {
            let calls = [0; 10].map(|_| circuits.pass(job(1)).unwrap());
            calls.iter().for_each(|call| circuits.note(*call, true, &entropy));
            assert!(circuits.pass(job(1)).is_err() && circuits.pass(job(2)).is_ok());
            // Sent before it opened.
            circuits.note(calls[0], false, &entropy);
            tokio::time::advance(pause / 2 - Duration::from_millis(1)).await;
            assert!(circuits.pass(job(1)).is_err(), "ten failures of one outage are one pause");
            tokio::time::advance(pause / 2 + Duration::from_millis(2)).await;
            assert!(circuits.pass(job(1)).is_ok());
            pause = (pause * 2).min(limits::JOB_PAUSE_MAX);
        }
        let call = circuits.pass(job(1)).unwrap();
        circuits.note(call, false, &entropy);
        assert!(circuits.jobs().is_empty());
        circuits.note(circuits.pass(job(1)).unwrap(), true, &entropy);
        tokio::time::advance(limits::JOB_PAUSE_MIN).await;
        assert!(circuits.pass(job(1)).is_ok(), "it begins with the shortest");
    }

    #[tokio::test(start_paused = true)]
    async fn it_remembers_so_many_and_forgets_those_that_are_over() {
        let (circuits, entropy) = (Circuits::default(), Entropy::from_number(1));
        let of = |n: usize| JobId::from_bytes((n as u128).to_be_bytes());
        let fail = |n| circuits.note(circuits.pass(of(n)).unwrap(), true, &entropy);
        (0..=JOBS_MAX).for_each(fail);
        assert_eq!(circuits.jobs().len(), JOBS_MAX);
        assert!(circuits.pass(of(JOBS_MAX)).is_ok());
        tokio::time::advance(limits::JOB_PAUSE_MIN).await;
        fail(JOBS_MAX);
        assert_eq!(circuits.jobs().len(), 1);
    }
}
