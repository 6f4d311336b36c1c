//! The schedule of a job (SPEC 6.20): its rule, when it fires next, and where the tasks of its runs come from. It is part of
//! the job, so that what it says and what is done because of it change in one step.

pub mod calendar;

use crate::ingest::Source;
use crate::job::run::Expected;
use crate::{
    IngestEvent, JobId, NewRun, NewTasks, Params, Refusal, Replay, Run, RunDoc, RunId, RunStatus, Schedule,
    Selection, Staged, Storage, Timestamp, Trigger, limits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// Fires that are that late and cover others were made by a clock that had leapt, or after nobody had looked.
const LEAP: Duration = Duration::from_secs(3600);

/// `active`: it fires. `paused`: it does not, and what it misses is skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleState {
    #[default]
    Active,
    /// Nothing fires until it is active again. What would have is not made up for.
    Paused,
}

/// Stored with the job as JSON: new fields need a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSchedule {
    pub schedule: Schedule,
    #[serde(default)]
    pub state: ScheduleState,
    /// From when on intervals are counted: when it was made, or replaced.
    pub anchor: Timestamp,
    /// What fires next, once it is time; or did not yet, although it is. `None`: nothing is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// The last fire that came more than [`LEAP`] late, or early, if it was the clock that had leapt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leapt: Option<Timestamp>,
    /// The id of the [`Template`].
    pub template: RunId,
    /// How many rows the template has. Jobs of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u32>,
    /// The list that every run reads anew, if that is where the tasks are, and not in rows of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Whether that list has been copied to where nothing is removed because of its age.
    #[serde(default)]
    pub list_kept: bool,
    /// Fires that made a run, and fires that found one that had not ended.
    #[serde(default)]
    pub fired: u32,
    #[serde(default)]
    pub skipped: u32,
    /// Goes up with every change: the version of the record by which it is found.
    #[serde(default)]
    pub changes: u32,
}

/// What becomes of a schedule, other than that it fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleChange {
    Rule(Schedule),
    State(ScheduleState),
    /// The list was copied to a place of its own.
    Kept {
        seen: Staged,
        kept: Staged,
    },
    /// A fire that was seen to be due makes no run: the one before has not ended.
    Skip {
        seen: Timestamp,
    },
    /// The clock may have been days ahead, and is right now.
    Realign,
}

/// What each fire of a scheduled job makes its run of (SPEC 6.20), beside the list and the parameters that the job names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its rows go by it, and it seeds the ids of the tasks of all runs. Before the first fire it is the `latest_run` of the job.
    pub id: RunId,
    pub job: JobId,
    /// How many rows it has: none if the tasks are in a list.
    pub rows: u32,
    pub created: Timestamp,
}

impl Template {
    /// The number of its row among the runs of its job. The first run is number 1.
    pub const SEQUENCE: u32 = 0;

    /// Its row. It never changes, and the form is frozen: earlier versions took it for a run that was stopped.
    pub fn stored(&self) -> Run {
        Run {
            id: self.id,
            job: self.job,
            sequence: Template::SEQUENCE,
            status: RunStatus::Stopped,
            total: self.rows,
            next_index: self.rows,
            latched: true,
            ingest: None,
            id_seed: self.id,
            failure: None,
            paused: false,
            sources: Vec::new(),
            storage: Storage::Kept,
            doc: RunDoc::default(),
            created: self.created,
            updated: self.created,
        }
    }
}

/// Where the tasks of a run of a scheduled job come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSource<'a> {
    /// Rows of the template with that id.
    Rows(RunId),
    List(&'a Source),
}

impl JobSchedule {
    pub fn new(schedule: Schedule, template: RunId, source: Option<Source>, now: Timestamp) -> JobSchedule {
        let next = schedule.next_after(now, now);
        let state = ScheduleState::Active;
        JobSchedule {
            schedule,
            state,
            anchor: now,
            next,
            leapt: None,
            template,
            rows: None,
            source,
            list_kept: false,
            fired: 0,
            skipped: 0,
            changes: 0,
        }
    }

    pub fn task_source(&self) -> TaskSource<'_> {
        match &self.source {
            Some(source) => TaskSource::List(source),
            None => TaskSource::Rows(self.template),
        }
    }

    /// The list that is still where lists are removed one day.
    pub fn list_to_keep(&self) -> Option<&Source> {
        self.source.as_ref().filter(|_| !self.list_kept)
    }

    /// When somebody has to look at it: at once, if its list has to be kept.
    pub fn look_at(&self) -> Option<Timestamp> {
        self.list_to_keep().map(|_| self.anchor).or_else(|| self.due())
    }

    /// When it fires next, unless it is paused.
    pub fn due(&self) -> Option<Timestamp> {
        match self.state {
            ScheduleState::Active => self.next,
            ScheduleState::Paused => None,
        }
    }

    /// The next fire as callers are told it: of one that is paused, what it would be if it went on now.
    pub fn next_shown(&self, now: Timestamp) -> Option<Timestamp> {
        match self.state {
            ScheduleState::Active => self.next,
            ScheduleState::Paused => self.schedule.next_after(self.anchor, now),
        }
    }

    /// After a change. `goes_on`: whether the latest run of the job does.
    pub fn with(
        &self,
        change: &ScheduleChange,
        goes_on: bool,
        now: Timestamp,
    ) -> Result<JobSchedule, Refusal> {
        match change {
            ScheduleChange::Rule(schedule) => Ok(self.replaced(schedule.clone(), now)),
            ScheduleChange::State(state) => Ok(self.turned(*state, now)),
            ScheduleChange::Kept { seen, kept } => match self.list_to_keep() {
                Some(source) if source.staged == *seen => {
                    let source = Some(Source { staged: kept.clone(), ..source.clone() });
                    Ok(JobSchedule { source, list_kept: true, changes: self.changes + 1, ..self.clone() })
                }
                Some(_) | None => Err(Refusal::FireIsOver),
            },
            // It ended meanwhile: there is a run to be made after all.
            ScheduleChange::Skip { .. } if !goes_on => Err(Refusal::FireIsOver),
            ScheduleChange::Skip { seen } => self.skipped(*seen, now).ok_or(Refusal::FireIsOver),
            ScheduleChange::Realign => Ok(self.realigned(now)),
        }
    }

    /// The same with another rule, from now on. Whether it is paused stays as it is.
    #[must_use]
    fn replaced(&self, schedule: Schedule, now: Timestamp) -> JobSchedule {
        let next = schedule.next_after(now, now);
        JobSchedule { schedule, anchor: now, next, changes: self.changes + 1, ..self.clone() }
    }

    /// What was missed while it was paused stays missed.
    #[must_use]
    fn turned(&self, state: ScheduleState, now: Timestamp) -> JobSchedule {
        if state == self.state {
            return self.clone();
        }
        let next = self.schedule.next_after(self.anchor, now);
        JobSchedule { state, next, changes: self.changes + 1, ..self.clone() }
    }

    /// What a clock that was days ahead has put off is computed anew. What has fired, early as it was, does not fire again, and
    /// what has nothing left stays so. What lies no further ahead than a slewed clock may have been is left alone.
    #[must_use]
    fn realigned(&self, now: Timestamp) -> JobSchedule {
        let latest = now.after(limits::NOT_BEFORE_MAX);
        let anchor = if self.anchor > latest { now } else { self.anchor };
        let early = self.leapt.filter(|fired| *fired > now && *fired <= latest);
        let most = self.schedule.next_after(anchor, early.unwrap_or(latest));
        let is_right = self.next.is_none_or(|next| most.is_none_or(|most| next <= most));
        if anchor == self.anchor && is_right {
            return self.clone();
        }
        let next = self.next.and_then(|_| self.schedule.next_after(anchor, early.unwrap_or(now)));
        JobSchedule { anchor, next, changes: self.changes + 1, ..self.clone() }
    }

    /// Past the fire that was seen to be due; `None` if it is not, or not any more. Fires that were missed meanwhile are
    /// one with it: the next one is in the future.
    fn past(&self, seen: Timestamp, now: Timestamp) -> Option<JobSchedule> {
        if self.due() != Some(seen) || seen > now {
            return None;
        }
        let next = self.schedule.next_after(self.anchor, now);
        let leapt = if now > seen.after(LEAP) { Some(seen) } else { self.leapt };
        Some(JobSchedule { next, leapt, changes: self.changes + 1, ..self.clone() })
    }

    /// The run that a fire begins, and the first event of its ingest. `latest`: the latest run of the job. Whoever sees the
    /// same fire makes the same run.
    /// `expected`: how many tasks it will have.
    pub fn run_of_fire(
        &self,
        seen: Timestamp,
        latest: RunId,
        expected: Option<Expected>,
    ) -> (NewRun, IngestEvent) {
        let digest = Sha256::digest(format!("{}:{}", self.template, self.changes));
        let mut id = [0; 16];
        id[..6].copy_from_slice(&seen.0.max(0).to_be_bytes()[2..]);
        id[6..].copy_from_slice(&digest[..10]);
        let (run, first) = self.run_of_template(RunId::from_bytes(id), latest, expected);
        (NewRun { trigger: Trigger::Scheduled, fire: Some(seen), ..run }, first)
    }

    /// A run of all tasks that somebody asked for. They are ingested, however few they are: where they come from is where
    /// any number may be.
    pub fn run_of_template(
        &self,
        id: RunId,
        latest: RunId,
        expected: Option<Expected>,
    ) -> (NewRun, IngestEvent) {
        let first = match self.task_source() {
            TaskSource::Rows(run) => {
                IngestEvent::Replaying { replay: Replay { run, selection: Selection::default() } }
            }
            TaskSource::List(source) => IngestEvent::Accepted { source: source.clone() },
        };
        let run = NewRun {
            id,
            after: latest,
            trigger: Trigger::Manual,
            fire: None,
            rerun_of: None,
            overrides: Params::new(),
            sources: Vec::new(),
            tasks: NewTasks::Ingested { expected },
        };
        (run, first)
    }

    /// After a fire that makes a run.
    #[must_use]
    pub fn fired(&self, seen: Timestamp, now: Timestamp) -> Option<JobSchedule> {
        Some(JobSchedule { fired: self.fired.saturating_add(1), ..self.past(seen, now)? })
    }

    /// After a fire that made none, because the one before has not ended.
    #[must_use]
    fn skipped(&self, seen: Timestamp, now: Timestamp) -> Option<JobSchedule> {
        Some(JobSchedule { skipped: self.skipped.saturating_add(1), ..self.past(seen, now)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::calendar::{Interval, Rule, Unit};

    const MINUTE: i64 = 60_000;

    fn every_minute() -> JobSchedule {
        let rule = Rule::Rate(Interval::new(1, Unit::Minute).unwrap());
        JobSchedule::new(Schedule { rule, timezone: None }, RunId::from_bytes([1; 16]), None, Timestamp(0))
    }

    #[test]
    fn a_fire_happens_once_and_not_before_its_time() {
        let made = every_minute();
        let first = Timestamp(MINUTE);
        assert_eq!(made.next, Some(first));
        assert_eq!(made.fired(first, Timestamp(MINUTE - 1)), None, "it is not time");
        let after = made.fired(first, Timestamp(MINUTE + 5)).unwrap();
        assert_eq!((after.next, after.fired), (Some(Timestamp(2 * MINUTE)), 1));
        assert_eq!(after.fired(first, Timestamp(MINUTE + 5)), None, "somebody was quicker");
        assert_eq!(after.skipped(first, Timestamp(3 * MINUTE)), None);
    }

    #[test]
    fn what_was_missed_fires_once_and_stays_in_step() {
        let late = every_minute().fired(Timestamp(MINUTE), Timestamp(10 * MINUTE + 7)).unwrap();
        assert_eq!((late.next, late.fired), (Some(Timestamp(11 * MINUTE)), 1));
    }

    #[test]
    fn a_paused_one_is_not_due_and_says_what_would_be_next() {
        let paused = every_minute().turned(ScheduleState::Paused, Timestamp(5));
        assert_eq!(paused.due(), None);
        assert_eq!(paused.next_shown(Timestamp(5 * MINUTE)), Some(Timestamp(6 * MINUTE)));
        assert_eq!(paused.fired(Timestamp(MINUTE), Timestamp(MINUTE)), None);
        let again = paused.turned(ScheduleState::Active, Timestamp(5 * MINUTE));
        assert_eq!(again.due(), Some(Timestamp(6 * MINUTE)), "what was missed stays missed");
        assert_eq!(again.turned(ScheduleState::Active, Timestamp(9 * MINUTE)), again);
    }

    #[test]
    fn another_rule_counts_from_now_and_leaves_the_state() {
        let rule = Rule::Rate(Interval::new(2, Unit::Hour).unwrap());
        let paused = every_minute().turned(ScheduleState::Paused, Timestamp(0));
        let other = paused.replaced(Schedule { rule, timezone: None }, Timestamp(30));
        assert_eq!((other.state, other.anchor), (ScheduleState::Paused, Timestamp(30)));
        assert_eq!(other.next, Some(Timestamp(30 + 120 * MINUTE)));
    }

    #[test]
    fn what_a_clock_put_off_that_was_days_ahead_is_computed_anew_once() {
        const DAY: i64 = 24 * 60 * MINUTE;
        let (now, ahead) = (Timestamp(10 * MINUTE + 7), Timestamp(60 * DAY));
        let made = every_minute();
        let fired = made.fired(Timestamp(MINUTE), ahead).unwrap();
        let right = fired.realigned(now);
        assert_eq!((right.next, right.anchor, right.fired), (Some(Timestamp(11 * MINUTE)), made.anchor, 1));
        assert_eq!(right.realigned(now), right, "once");
        assert_eq!(fired.realigned(Timestamp(7)).next, Some(Timestamp(2 * MINUTE)), "the first has fired");
        let again = fired.skipped(fired.next.unwrap(), Timestamp(ahead.0 + 2 * MINUTE)).unwrap();
        assert_eq!(again.realigned(Timestamp(7)).next, Some(Timestamp(2 * MINUTE)));
        let paused = fired.turned(ScheduleState::Paused, ahead).realigned(now);
        assert_eq!((paused.due(), paused.next_shown(now)), (None, Some(Timestamp(11 * MINUTE))));

        let late = JobSchedule::new(made.schedule.clone(), made.template, None, ahead).realigned(now);
        assert_eq!((late.anchor, late.next), (now, Some(Timestamp(now.0 + MINUTE))), "made meanwhile");

        // 26 hours ahead at 7 o'clock: two fires were one, of which the first was due at 8.
        let hour = 60 * MINUTE;
        let rule = Rule::Rate(Interval::new(1, Unit::Day).unwrap());
        let daily = JobSchedule {
            anchor: Timestamp(8 * hour - DAY),
            ..made.replaced(Schedule { rule, timezone: None }, now)
        };
        let daily = JobSchedule { next: Some(Timestamp(8 * hour)), ..daily };
        let fired = daily.fired(Timestamp(8 * hour), Timestamp(33 * hour)).unwrap();
        assert_eq!(fired.realigned(Timestamp(7 * hour)).next, Some(Timestamp(8 * hour + DAY)));
        assert_eq!(daily.realigned(Timestamp(7 * hour)), daily, "nothing was wrong");

        let early = made.fired(Timestamp(MINUTE), Timestamp(MINUTE + 30_000)).unwrap();
        assert_eq!(early.realigned(Timestamp(30_000)), early, "half a minute ahead: it has fired");
        assert_eq!(made.realigned(now), made, "it is due, and fires");
        let over = JobSchedule { next: None, anchor: ahead, ..made };
        assert_eq!(over.realigned(now).next, None, "it has fired");
    }

    #[test]
    fn where_the_tasks_are_is_read_from_what_was_stored_before() {
        let stored = r#"{"schedule":{"rate":{"every":5,"unit":"minute"}},"anchor":7,"template":"00000000000000000000000001"}"#;
        let read: JobSchedule = serde_json::from_str(stored).unwrap();
        assert_eq!((read.state, read.next, read.fired), (ScheduleState::Active, None, 0));
        assert_eq!(read.rows, None, "they are to be counted");
        assert_eq!(read.task_source(), TaskSource::Rows(read.template));
    }
}
