//! One sweep: every repair has its turn, and one that fails does not keep the others from theirs.

use crate::repair::{Fixed, Look, Pace, Repair, Scope};
use crate::repairs;
use conveyor_domain::repair::{Finding, Outcome, Subject};
use conveyor_domain::{Clock, Timestamp, limits};
use conveyor_store::{Backend, Error, Result, clock_watch};
use futures::{FutureExt, StreamExt, stream};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What repairs work with.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<'a> {
    pub backend: &'a Backend,
    pub clock: &'a dyn Clock,
    /// A sweep ends between two steps when this is cancelled; the next one goes on.
    pub stop: &'a CancellationToken,
    until: Option<Instant>,
}

impl<'a> Sweep<'a> {
    pub fn new(backend: &'a Backend, clock: &'a dyn Clock, stop: &'a CancellationToken) -> Sweep<'a> {
        Sweep { backend, clock, stop, until: None }
    }

    /// The same, for not much longer than this.
    #[must_use]
    pub fn within(self, time: Duration) -> Sweep<'a> {
        Sweep { until: Some(Instant::now() + time), ..self }
    }

    /// What everything goes by that is removed because of its age (SPEC 6.26).
    pub(crate) async fn removal_time(&self) -> Result<Timestamp> {
        clock_watch::removal_time(self.backend.store.as_ref(), self.clock.now()).await
    }

    /// Whether to end, between two steps.
    pub fn is_over(&self) -> bool {
        self.stop.is_cancelled() || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// What a sweep came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub found: u64,
    pub changed: u64,
    /// The time was up before everything was done.
    pub unfinished: bool,
}

impl Swept {
    fn add(&mut self, other: Swept) {
        self.found += other.found;
        self.changed += other.changed;
        self.unfinished |= other.unfinished;
    }
}

/// Where the turn of a repair ended because its time was up: the next one begins there, so that whatever is at the end of a
/// long list has its turn as well.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<&'static str, String>>);

impl Places {
    fn take(&self, repair: &dyn Repair) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(repair.name())
    }

    fn keep(&self, repair: &dyn Repair, place: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(repair.name(), place);
    }
}

/// Every repair once, for everything that it finds.
pub async fn sweep(sweep: &Sweep<'_>) -> Swept {
    let repairs = repairs::all();
    take_turns(repairs.iter().map(AsRef::as_ref), sweep, &Places::default(), &|_| true).await
}

/// The turns of some repairs, for what is `ours`.
pub(crate) async fn take_turns(
    repairs: impl Iterator<Item = &dyn Repair>,
    sweep: &Sweep<'_>,
    places: &Places,
    ours: &(dyn Fn(Subject) -> bool + Sync),
) -> Swept {
    let mut all = Swept::default();
    for repair in repairs {
        if sweep.stop.is_cancelled() {
            break;
        }
        // None keeps those behind it waiting for long.
        let time = match repair.about().pace {
            Pace::Promptly | Pace::Messages | Pace::Refs | Pace::Often => limits::SWEEP_TURN_WITHIN,
            Pace::Slowly => limits::SWEEP_DELETES_WITHIN,
        };
        match turn(repair, &sweep.within(time), places, ours).await {
            Ok(swept) => all.add(swept),
            Err(error) => {
                let repair = repair.name();
                tracing::warn!(repair, %error, "a sweep could not be finished; the next one goes on");
            }
        }
    }
    all
}

async fn turn(
    repair: &dyn Repair,
    sweep: &Sweep<'_>,
    places: &Places,
    ours: &(dyn Fn(Subject) -> bool + Sync),
) -> Result<Swept> {
    let look = Look::of(sweep, Scope::All, false).sharing(ours);
    let (mut swept, mut from) = (Swept::default(), places.take(repair));
    loop {
        let found = repair.find(&look, from).await?;
        let (all, mut left) = (found.findings.len(), found.findings.len());
        let due = found.findings.iter().filter(|finding| finding.fixable && ours(finding.subject));
        for fixed in fix_all(repair, sweep, due.collect()).await {
            match fixed {
                Ok(Fixed::Changed(changed)) => {
                    swept.changed += changed;
                    left -= 1;
                }
                Ok(Fixed::Unfinished) => swept.unfinished = true,
                Err(_) => {}
            }
        }
        swept.found += all as u64;
        from = found.next.map(|next| next.cursor(left));
        if from.is_none() || sweep.is_over() {
            break;
        }
    }
    swept.unfinished |= from.is_some();
    if let Some(place) = from {
        places.keep(repair, place);
    }
    metrics::gauge!("conveyor_sweep_findings", "repair" => repair.name()).set(swept.found as f64);
    Ok(swept)
}

/// Fixes the findings of a page: some at once where somebody waits, one after the other where it is costly.
async fn fix_all(repair: &dyn Repair, sweep: &Sweep<'_>, due: Vec<&Finding>) -> Vec<Result<Fixed>> {
    let at_once = match repair.about().pace {
        Pace::Promptly | Pace::Messages | Pace::Refs | Pace::Often => limits::SWEEP_FIXES_INFLIGHT,
        Pace::Slowly => 1,
    };
    let fixes = due.into_iter().map(|finding| {
        async move {
            if sweep.stop.is_cancelled() { Ok(Fixed::Unfinished) } else { fix(repair, sweep, finding).await }
        }
        .boxed()
    });
    stream::iter(fixes.collect::<Vec<_>>()).buffered(at_once).collect().await
}

/// Fixes one finding, counts it, and says so. One that cannot be fixed is reported and left for the next sweep.
pub(crate) async fn fix(repair: &dyn Repair, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
    let (name, subject) = (repair.name(), finding.subject);
    let fixed = match repair.fix(sweep, finding).await {
        Err(Error::NotFound) => Ok(Fixed::NOTHING),
        other => other,
    };
    match &fixed {
        Ok(Fixed::Changed(changed)) if *changed > 0 => {
            metrics::counter!("conveyor_swept_total", "repair" => name).increment(*changed);
            tracing::info!(repair = name, %subject, changed, why = finding.why, "swept");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(repair = name, %subject, %error, "could not be repaired this time"),
    }
    fixed
}

pub(crate) fn outcome(fixed: Result<Fixed>) -> Outcome {
    match fixed {
        Ok(Fixed::Changed(0)) => Outcome::Gone,
        Ok(Fixed::Changed(changed)) => Outcome::Fixed(changed),
        Ok(Fixed::Unfinished) => {
            Outcome::Failed("the time was up; what is left is done next time".to_owned())
        }
        Err(error) => Outcome::Failed(error.to_string()),
    }
}
