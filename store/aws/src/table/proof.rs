//! Rows against counters, as of one moment, while workers go on (SPEC 6.14).
//!
//! The counters are read first; what each of them had reached then is the moment. A settled row says which counter row
//! counted it and when, so that whenever it is read it can be told whether it is part of the sum.

use super::counters::{self, Counters, Reached};
use super::item::{Item, Row, number, text};
use super::jobs::READS_INFLIGHT;
use super::read::Range;
use super::rows::{JobRow, RunRow};
use super::tasks::{documents, failure_class, is_void, status, task_id};
use super::transact::Condition;
use super::{Table, keys};
use async_trait::async_trait;
use conveyor_domain::{Counts, Damage, JobId, RowCounts, RunStatus, Spend, Sums, TaskStatus, Timestamp};
use conveyor_store::port::{
    DamagePage, Damaged, DamagedRow, DamagedRows, Documents, NamedObjects, ProofStore, RunKey, Tally,
};
use conveyor_store::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::HashMap;

/// Partitions that are read at once, a megabyte of each at a time.
const PARTITIONS_AT_ONCE: usize = 8;
/// Jobs that one call looks at for damage.
const DAMAGE_PAGE: usize = 500;
const ATTRIBUTES: &str = "sk, st, cb, fc, inh, gup";
const ATTRIBUTES_AND_DOCUMENTS: &str = "sk, st, cb, fc, inh, gup, inp, res, err";

/// Settled rows.
#[derive(Clone, Debug, Default)]
struct Settled {
    counts: Counts,
    unclassified: u32,
    objects: NamedObjects,
}

impl Settled {
    fn add(&mut self, row: Row<'_>, status: TaskStatus) {
        match (status, failure_class(row).unwrap_or_default()) {
            (TaskStatus::Failed, Some(class)) => self.counts.add_failed(class),
            (TaskStatus::Failed, None) => self.unclassified += 1,
            (TaskStatus::Pending | TaskStatus::Processing | TaskStatus::Successful, _) => {
                self.counts.successful += 1;
            }
        }
    }

    fn merge(&mut self, other: Settled) {
        self.counts = self.counts.plus(other.counts);
        self.unclassified += other.unclassified;
        self.objects.merge(other.objects);
    }

    fn all(&self) -> u32 {
        self.counts.completed() + self.unclassified
    }
}

/// Rows of one counter row that had not reached them, from the earliest to the latest.
#[derive(Debug)]
struct Later {
    earliest: u64,
    latest: u64,
    settled: Settled,
}

/// What was seen of the rows.
#[derive(Debug, Default)]
struct Seen {
    pending: u32,
    processing: u32,
    settled: Settled,
    /// Rows that do not say when they were counted, or whose counter row does not say what it has counted.
    undated: Settled,
    /// By the name of the counter row.
    later: HashMap<String, Later>,
    damaged: DamagedRows,
}

impl Seen {
    fn add(&mut self, item: &Item, moment: &Counters, with_objects: bool) -> Result<()> {
        let row = Row(item);
        let mut documents = if with_objects { Some(documents(row)) } else { None };
        let mut unread = Damage::default();
        let damage = documents.as_mut().map_or(&mut unread, |documents| &mut documents.damage);
        match damage.read("status", status(row)) {
            None => {}
            Some(TaskStatus::Pending) => self.pending += 1,
            Some(TaskStatus::Processing) => self.processing += 1,
            Some(status @ (TaskStatus::Successful | TaskStatus::Failed)) => {
                let settled = self.place(row, moment)?;
                settled.add(row, status);
                if let (TaskStatus::Successful, Some(Documents { result, damage, .. })) =
                    (status, &mut documents)
                {
                    match result {
                        Some(result) => settled.objects.add(result.object.as_deref()),
                        None if damage.parts().is_some() => {}
                        None => drop(damage.read("result", Err::<(), _>(()))),
                    }
                }
            }
        }
        let damage = documents.map_or(unread, |documents| documents.damage);
        if damage.parts().is_some() {
            self.damaged.note(task_id(item)?, &damage);
        }
        Ok(())
    }

    /// Where a settled row belongs.
    fn place(&mut self, row: Row<'_>, moment: &Counters) -> Result<&mut Settled> {
        if row.find_text("inh")?.is_some() {
            // No worker counted it: it counts with its run, of which it is part since it shows.
            return Ok(&mut self.settled);
        }
        let counted = row.find_text("cb")?.and_then(|text| text.rsplit_once('#'));
        let Some((name, at)) = counted.and_then(|(name, at)| Some((name, at.parse::<u64>().ok()?))) else {
            return Ok(&mut self.undated);
        };
        Ok(match moment.reached(name) {
            Reached::Moment(reached) if at <= reached => &mut self.settled,
            Reached::Unknown => &mut self.undated,
            Reached::Moment(_) | Reached::Nothing => {
                let fresh = || Later { earliest: at, latest: at, settled: Settled::default() };
                let later = self.later.entry(name.to_owned()).or_insert_with(fresh);
                (later.earliest, later.latest) = (later.earliest.min(at), later.latest.max(at));
                &mut later.settled
            }
        })
    }

    fn merge(&mut self, other: Seen) {
        self.pending += other.pending;
        self.processing += other.processing;
        self.settled.merge(other.settled);
        self.undated.merge(other.undated);
        self.damaged.merge(other.damaged);
        for (name, theirs) in other.later {
            match self.later.entry(name) {
                std::collections::hash_map::Entry::Vacant(vacant) => drop(vacant.insert(theirs)),
                std::collections::hash_map::Entry::Occupied(mut mine) => {
                    let mine = mine.get_mut();
                    mine.earliest = mine.earliest.min(theirs.earliest);
                    mine.latest = mine.latest.max(theirs.latest);
                    mine.settled.merge(theirs.settled);
                }
            }
        }
    }

    fn is_clear(&self) -> bool {
        self.undated.all() == 0 && self.later.is_empty()
    }

    /// Decides about rows that the counters had not reached, by what these have reached since.
    fn resolve(&mut self, moment: &Counters, since: &Counters) -> Result<()> {
        if self.undated.all() > 0 && moment != since {
            let detail = "rows of an earlier version can be counted only while nothing is settled";
            return Err(Error::Unavailable(detail.to_owned()));
        }
        self.settled.merge(std::mem::take(&mut self.undated));
        for (name, later) in std::mem::take(&mut self.later) {
            match since.reached(&name) {
                // They were settled after the moment: then they were still worked on.
                Reached::Moment(reached) if later.latest <= reached => self.processing += later.settled.all(),
                // A clock that passed some of them and not others is not one that a worker moved.
                Reached::Moment(reached) if later.earliest <= reached => {
                    return Err(Error::Unavailable(format!("the counter {name} is not in order")));
                }
                // A row and its counter move together, so that was there once, and is lost: nothing counts these any more.
                Reached::Moment(_) | Reached::Unknown | Reached::Nothing => self.settled.merge(later.settled),
            }
        }
        Ok(())
    }
}

impl Table {
    async fn count_rows(&self, run: &RunRow, moment: &Counters, with_objects: bool) -> Result<Seen> {
        let (run, prefix) = (run, &keys::tasks_of(run.run.id));
        let attributes = if with_objects { ATTRIBUTES_AND_DOCUMENTS } else { ATTRIBUTES };
        let partitions = keys::task_partitions(run.run.job, run.shards).into_iter();
        let counts = partitions.map(|partition| async move {
            let range = Range::of(partition, prefix).with(attributes);
            let (mut seen, mut from) = (Seen::default(), None);
            loop {
                let step = self.step(&range, from).await?;
                for item in &step.items {
                    // Rows that nobody can see yet could not be settled before the moment either.
                    if !is_void(item) && run.shows(task_id(item)?.index()) {
                        seen.add(item, moment, with_objects)?;
                    }
                }
                from = step.next;
                if from.is_none() {
                    return Ok::<_, Error>(seen);
                }
            }
        });
        let together = |mut all: Seen, seen: Seen| async move {
            all.merge(seen);
            Ok(all)
        };
        let counts = stream::iter(counts).buffer_unordered(PARTITIONS_AT_ONCE);
        counts.try_fold(Seen::default(), together).await
    }
}

#[async_trait]
impl ProofStore for Table {
    async fn tally(&self, key: RunKey, with_objects: bool) -> Result<Option<Tally>> {
        let moment = self.counters(key).await?;
        // Behind the counters: whatever they counted, it shows.
        let run = self.find_run(key).await?.filter(RunRow::is_visible);
        let Some(run) = run else { return Ok(None) };
        let mut seen = self.count_rows(&run, &moment, with_objects).await?;
        if !seen.is_clear() {
            seen.resolve(&moment, &self.counters(key).await?)?;
        }
        let (Settled { counts, unclassified, objects }, damaged) = (seen.settled, seen.damaged);
        let rows =
            RowCounts { pending: seen.pending, processing: seen.processing, settled: counts, unclassified };
        let (counters, revision) = (moment.sums().plus(run.run.doc.inherited.into()), moment.revision);
        Ok(Some(Tally { run: run.run, rows, counters, revision, objects, damaged }))
    }

    async fn correct(&self, key: RunKey, missing: Sums, seen: u64, now: Timestamp) -> Result<bool> {
        let mut addition = counters::addition("v = :next, ua = :now", missing, Spend::default());
        addition.values.extend([(":next", number(seen + 1)), (":now", number(now.0))]);
        let unmoved = match seen {
            0 => Condition { expression: "attribute_not_exists(v)".to_owned(), values: Vec::new() },
            seen => Condition::version(seen),
        };
        // Of a run that is gone meanwhile, nothing may come back.
        let kept = Condition {
            expression: "attribute_exists(pk) AND attribute_not_exists(sto) AND st <> :deleted".to_owned(),
            values: vec![(":deleted", text(RunStatus::Deleted.as_str()))],
        };
        let writes = vec![
            self.update(&keys::correction(key.job, key.run), addition, Some(unmoved))?,
            self.check(&keys::run(key.job, key.run), kept)?,
        ];
        Ok(self.transact(writes).await?.is_ok())
    }

    async fn damage(&self, of: Damaged) -> Result<DamagePage> {
        let after = match of {
            Damaged::Behind(after) => after,
            Damaged::Of(job) => return Ok(DamagePage { rows: self.damage_of(job).await?, next: None }),
        };
        let mut jobs = self.discovered_jobs().await?;
        jobs.extend(self.damaged.keys());
        jobs.sort();
        jobs.dedup();
        jobs.retain(|job| Some(*job) > after);
        let next = jobs.get(DAMAGE_PAGE - 1).copied().filter(|_| jobs.len() > DAMAGE_PAGE);
        jobs.truncate(DAMAGE_PAGE);
        let looks = stream::iter(jobs.into_iter().map(|job| self.damage_of(job))).buffered(READS_INFLIGHT);
        let rows: Vec<Vec<DamagedRow>> = looks.try_collect().await?;
        Ok(DamagePage { rows: rows.into_iter().flatten().collect(), next })
    }
}

impl Table {
    async fn damage_of(&self, job: JobId) -> Result<Vec<DamagedRow>> {
        let Some(item) = self.get(&keys::job(job)).await? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut note = |run, why: String| found.push(DamagedRow { job, run, why });
        let row = JobRow::decode(&item);
        if let Err(error) = &row {
            note(None, error.to_string());
        }
        let mut runs = Vec::new();
        for item in self.all(&Range::of(keys::job_partition(job), keys::RUNS)).await? {
            let id = Row(&item).text(keys::SK).ok().and_then(|sk| sk.strip_prefix(keys::RUNS)?.parse().ok());
            if let Err(error) = RunRow::decode(&item) {
                note(id, error.to_string());
            }
            runs.extend(id);
        }
        if let Ok(Some(row)) = row
            && !runs.contains(&row.job.latest_run)
        {
            note(Some(row.job.latest_run), "the latest run of the job is not there".to_owned());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::Draft;
    use super::*;
    use conveyor_domain::{RunId, WorkerId};

    const JOB: [u8; 16] = [1; 16];

    fn run() -> RunId {
        RunId::from_bytes([2; 16])
    }

    /// Counter rows of one worker, by their lanes: what each counted, and until when.
    fn counters(lanes: &[(usize, i64, Option<u64>)]) -> Counters {
        let worker = WorkerId::from_bytes([3; 16]);
        let row = |(lane, successful, moment): &(usize, i64, Option<u64>)| {
            Draft::at(&keys::counter(JobId::from_bytes(JOB), run(), worker, *lane))
                .set("s", number(successful))
                .set_some("n", moment.map(number))
                .item()
        };
        Counters::decode(run(), &lanes.iter().map(row).collect::<Vec<_>>()).unwrap()
    }

    /// Rows that were settled by lanes at moments; by nobody knows whom, where there is none.
    fn seen(moment: &Counters, rows: &[Option<(usize, u64)>]) -> Seen {
        let mut seen = Seen::default();
        for counted in rows {
            let by = counted.map(|(lane, at)| {
                text(format!("{}#{at}", keys::counter_name(WorkerId::from_bytes([3; 16]), lane)))
            });
            let row = Draft::at(&keys::job(JobId::from_bytes(JOB))).set("st", number(2)).set_some("cb", by);
            seen.add(&row.item(), moment, false).unwrap();
        }
        seen
    }

    /// What is settled and what is worked on, once the counters were read again.
    fn resolved(moment: &Counters, since: &Counters, rows: &[Option<(usize, u64)>]) -> Result<(u32, u32)> {
        let mut seen = seen(moment, rows);
        seen.resolve(moment, since)?;
        Ok((seen.settled.all(), seen.processing))
    }

    #[test]
    fn a_row_belongs_to_the_moment_if_its_counter_had_reached_it() {
        let moment = counters(&[(0, 2, Some(7)), (1, 1, Some(9))]);
        let rows = [Some((0, 6)), Some((0, 7)), Some((1, 9))];
        assert!(seen(&moment, &rows).is_clear());
        let since = counters(&[(0, 3, Some(8)), (1, 1, Some(9)), (2, 1, Some(10))]);
        let later = [Some((0, 7)), Some((0, 8)), Some((2, 10))];
        assert_eq!(resolved(&moment, &since, &later), Ok((1, 2)), "two were settled since");
    }

    #[test]
    fn a_row_whose_counter_is_gone_counts() {
        let (moment, since) = (counters(&[]), counters(&[(1, 1, Some(9))]));
        assert_eq!(resolved(&moment, &since, &[Some((0, 4)), Some((1, 9))]), Ok((1, 1)));
        // As does one whose counter was set back, by whoever did it.
        let back = counters(&[(0, 5, Some(3))]);
        assert_eq!(resolved(&back, &back, &[Some((0, 3)), Some((0, 4))]), Ok((2, 0)));
    }

    #[test]
    fn nothing_is_told_while_it_cannot_be_known() {
        let (moment, since) = (counters(&[(0, 1, None)]), counters(&[(0, 2, None)]));
        for row in [None, Some((0, 4))] {
            assert_eq!(resolved(&moment, &moment, &[row]), Ok((1, 0)), "nothing moved");
            assert!(matches!(resolved(&moment, &since, &[row]), Err(Error::Unavailable(_))));
        }
        let (back, since) = (counters(&[(0, 1, Some(2))]), counters(&[(0, 2, Some(5))]));
        let rows = [Some((0, 4)), Some((0, 6))];
        assert!(matches!(resolved(&back, &since, &rows), Err(Error::Unavailable(_))));
    }
}
