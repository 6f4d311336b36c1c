//! What findings say, from rows and events.

use conveyor_domain::{FailureClass, JobEvent, Sums, TimelineEntry, Timestamp, limits};
use conveyor_store::port::RunKey;
use conveyor_store::{Backend, Error, Result};
use std::time::Duration;

/// Pages of a timeline that are read to get to its end.
const TIMELINE_PAGES_MAX: usize = 20;

/// "the last event was run.resumed 14 s ago"
pub(crate) async fn last_event(backend: &Backend, key: RunKey, now: Timestamp) -> Result<String> {
    let (mut last, mut after): (Option<TimelineEntry>, u64) = (None, 0);
    for _ in 0..TIMELINE_PAGES_MAX {
        let page = match backend.store.events(key.job, after, limits::EVENTS_PAGE_MAX).await {
            // What is found must not go unnamed for it.
            Err(Error::Corrupt(_)) => return Ok("its events cannot be read".to_owned()),
            other => other?,
        };
        let full = page.len() == limits::EVENTS_PAGE_MAX as usize;
        after = page.last().map_or(after, |entry| entry.number);
        last = page.into_iter().rfind(|entry| entry.run == key.run).or(last);
        if !full {
            break;
        }
    }
    Ok(match last {
        None => "nothing was ever logged of it".to_owned(),
        Some(entry) => format!("the last event was {} {}", event_name(&entry.event), ago(entry.at, now)),
    })
}

fn event_name(event: &JobEvent) -> String {
    match event {
        JobEvent::Lifecycle(event) => event.kind().to_owned(),
        JobEvent::Ingest(event) => format!("ingest.{}", event.name()),
    }
}

pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    format!("{} ago", span(then.until(now)))
}

pub(crate) fn span(time: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match time.as_secs() {
        s if s < 2 * MINUTE => format!("{s} s"),
        s if s < 2 * HOUR => format!("{} min", s / MINUTE),
        s if s < 2 * DAY => format!("{} h", s / HOUR),
        s => format!("{} days", s / DAY),
    }
}

/// "3 successful, 1 failed (blocked)", those that are not 0.
pub(crate) fn sums(sums: &Sums) -> String {
    let failed = FailureClass::ALL.into_iter().map(|class| (sums.failed[class as usize], class));
    let named = failed.filter(|(n, _)| *n != 0).map(|(n, class)| format!("{n} failed ({})", class.as_str()));
    let successful = (sums.successful != 0).then(|| format!("{} successful", sums.successful));
    let parts: Vec<String> = successful.into_iter().chain(named).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sums_read_as_people_say_them() {
        let of = |secs| span(Duration::from_secs(secs));
        assert_eq!(
            [of(14), of(119), of(600), of(7_300), of(345_600)],
            ["14 s", "119 s", "10 min", "2 h", "4 days"]
        );
        let wrong = Sums { successful: -2, failed: [0, 1, 0, 0, 0, 0, 0] };
        assert_eq!(sums(&wrong), "-2 successful, 1 failed (blocked)");
        assert_eq!(sums(&Sums::default()), "none");
    }
}
