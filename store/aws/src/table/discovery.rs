//! Runs as the second index has them (SPEC 5.3): by what there is to do with them, and there by when they changed. Whatever
//! is found here may be old, and is read from the table before anybody hears of it, but for what cannot have changed.

use super::Table;
use super::circuits::is_unavailable;
use super::counters::Counted;
use super::item::{Item, Row, corrupt, readable_items, text};
use super::keys::{self, GSI2, GSI2_SK};
use super::read::Range;
use super::rows::RunRow;
use super::transact::Condition;
use conveyor_domain::{JobId, RunId, RunStats, RunStatus, Storage, Timestamp};
use conveyor_store::port::{ActiveRun, Answers, ChangedRuns, Reads, RunKey, read_each};
use conveyor_store::{Error, Result};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// In the order in which a run goes through them: one that moves on meanwhile is found in the next.
const RUNNING: [&str; 2] = ["running+ingesting", "running"];
pub const ENDED: [&str; 2] = ["ended", "ended+ingesting"];
pub const INGESTING: [&str; 3] = ["running+ingesting", "ended+ingesting", "ingesting"];
/// Neither running nor with a queue, and not done with: lists that have to be cut, and, because both are few and soon over,
/// runs that were deleted and have to be removed. A place of their own would cost every look one more query.
const UNFINISHED: &str = INGESTING[2];
/// Nothing to do; only those look here who worked on a run and want to know what became of it.
const RESTING: &str = "resting";
/// Whatever is kept of a run, it is in one of these.
const PLACES: [&str; 6] = [RUNNING[0], RUNNING[1], ENDED[0], ENDED[1], INGESTING[2], RESTING];

/// How much later than it ended a run is written for the last time, usually.
const WRITTEN_AFTER_THE_END: Duration = Duration::from_secs(60);
/// Old runs that are looked at in one step.
const OLD_AT_ONCE: u32 = 500;
/// Runs that could not be read, and are looked at again.
const UNREAD_MAX: usize = 1_024;

/// Where those find a run who look for something to do with it. `None` if there will never be anything to do.
pub fn place(row: &RunRow) -> Option<&'static str> {
    if !row.is_run() {
        return None;
    }
    let ended = row.run.status.is_terminal() && !row.queue_removed;
    let deleted = row.run.status == RunStatus::Deleted;
    // Nobody goes on with the list of one that was deleted.
    let ingesting = row.run.is_ingesting() && !deleted;
    match (row.run.status == RunStatus::Running, ended, ingesting) {
        (true, _, true) => Some(RUNNING[0]),
        (true, _, false) => Some(RUNNING[1]),
        // Its queue is found by it, whatever else is gone.
        (false, true, false) => Some(ENDED[0]),
        (false, true, true) => Some(ENDED[1]),
        (false, false, _) => match row.run.storage {
            Storage::Removed => None,
            Storage::Kept | Storage::Expired if deleted => Some(UNFINISHED),
            Storage::Expired => None,
            Storage::Kept if ingesting => Some(UNFINISHED),
            Storage::Kept => Some(RESTING),
        },
    }
}

/// Runs in their place, those that changed last at the end. Earlier versions wrote the id of the run and nothing else: that
/// sorts behind all of these, so whoever looks for changes finds those as well.
pub fn sort_key(run: RunId, changed: Timestamp) -> String {
    format!("{}#{run}", changed_at(changed))
}

fn changed_at(changed: Timestamp) -> String {
    format!("#{:013}", changed.0.max(0))
}

/// Gives the row of a run that is written now a sort key of now, unless it has a later one. Other rows stay as they are.
pub fn stamp(item: &mut Item, now: Timestamp) {
    let row = Row(item);
    let run = row.text(keys::SK).ok().and_then(|sk| sk.strip_prefix(keys::RUNS)?.parse().ok());
    let Some(key) = run.map(|run| sort_key(run, now)) else { return };
    if row.text(GSI2_SK).is_ok_and(|earlier| earlier < key.as_str()) {
        item.insert(GSI2_SK.to_owned(), text(key));
    }
}

/// A run that the index has.
#[derive(Clone, Debug)]
struct Found {
    key: RunKey,
    /// Where it was found. It may have moved on.
    place: &'static str,
    sort_key: String,
}

impl Found {
    fn decode(item: &Item, place: &'static str) -> Result<Found> {
        let row = Row(item);
        let job = keys::job_of(row.text(keys::PK)?).ok_or_else(|| corrupt("job of a run"))?;
        let run = row.text(keys::SK)?.strip_prefix(keys::RUNS).and_then(|id| id.parse().ok());
        let run = run.ok_or_else(|| corrupt("run id"))?;
        Ok(Found { key: RunKey { job, run }, place, sort_key: row.text(GSI2_SK)?.to_owned() })
    }

    /// Its key does not say when it changed.
    fn is_outdated(&self) -> bool {
        !self.sort_key.starts_with('#')
    }
}

/// Runs that a look could not read: the next look at what changed looks at them again, whether they change or not.
#[derive(Debug, Default)]
pub struct Unread {
    runs: Mutex<HashMap<RunId, Found>>,
}

impl Unread {
    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Found>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Found> {
        self.runs().values().cloned().collect()
    }

    /// Adds those that there is room for.
    fn add(&self, unread: Vec<Found>) {
        let mut runs = self.runs();
        for found in unread {
            if runs.len() < UNREAD_MAX || runs.contains_key(&found.key.run) {
                runs.insert(found.key.run, found);
            }
        }
    }

    fn remove(&self, read: &[RunId]) {
        let mut runs = self.runs();
        read.iter().for_each(|run| drop(runs.remove(run)));
    }
}

/// What a look told, of which runs it did, and which could not be read.
struct Looked {
    told: ChangedRuns,
    read: Vec<RunId>,
    unread: Vec<Found>,
}

/// The partition of a run, and its name.
fn place_of(key: &RunKey) -> (String, String) {
    (key.job.to_string(), key.run.to_string())
}

/// What the table says of a run that was found.
enum Look {
    Active(Box<ActiveRun>),
    Gone(RunKey),
}

impl Table {
    /// At least `enough` runs of a place, if it has so many.
    async fn found(
        &self,
        place: &'static str,
        since: Option<Timestamp>,
        enough: usize,
    ) -> Result<Vec<Found>> {
        let range = match since {
            Some(since) => Range::from(place.to_owned(), changed_at(since)),
            None => Range::everything(place.to_owned()),
        };
        let items = self.first(&range.in_index(GSI2), enough).await?;
        readable_items("run", &items, |item| Found::decode(item, place))
    }

    /// Runs of a place, those first that did not change for the longest time.
    pub async fn discovered(&self, place: &'static str, enough: usize) -> Result<Vec<RunKey>> {
        Ok(self.found(place, None, enough).await?.into_iter().map(|found| found.key).collect())
    }

    /// Runs of all places in which a list is read, by their ids.
    pub async fn discovered_ingesting(&self) -> Result<Vec<RunKey>> {
        let mut keys = Vec::new();
        for place in INGESTING {
            keys.extend(self.discovered(place, usize::MAX).await?);
        }
        keys.sort_by_key(|key| key.run);
        keys.dedup();
        Ok(keys)
    }

    /// Runs that were deleted and are not removed yet, whatever became of their jobs.
    pub async fn discovered_deleted(&self) -> Result<Vec<RunKey>> {
        let mut found = Vec::new();
        for place in [ENDED[0], UNFINISHED] {
            found.extend(self.found(place, None, usize::MAX).await?);
        }
        let rows = self.runs_at(found.into_iter().map(|found| found.key)).await.found()?;
        let is_left =
            |row: &RunRow| row.run.status == RunStatus::Deleted && row.run.storage != Storage::Removed;
        let deleted = rows.into_iter().filter(|(_, row)| row.as_ref().is_some_and(is_left));
        let mut keys: Vec<RunKey> = deleted.map(|(key, _)| key).collect();
        keys.sort_by_key(|key| key.run);
        keys.dedup();
        Ok(keys)
    }

    /// Runs that ended before a moment and are kept, those first that did not change for the longest time.
    pub async fn discovered_expired(&self, ended_before: Timestamp, enough: usize) -> Result<Vec<RunKey>> {
        let (mut keys, mut answers) = (Vec::new(), Answers::default());
        for place in [RESTING, ENDED[0], ENDED[1], UNFINISHED] {
            // They are written again after they ended, when their queue is removed.
            let until = format!("{}~", changed_at(ended_before.after(WRITTEN_AFTER_THE_END)));
            let range = Range::up_to(place.to_owned(), until).in_index(GSI2).by(OLD_AT_ONCE);
            let mut from = None;
            loop {
                let step = self.step(&range, from).await?;
                let mut found = readable_items("run", &step.items, |item| Found::decode(item, place))?;
                found.retain(|found| self.unended.recall(&found.key.run).as_ref() != Some(&found.sort_key));
                let sort_keys: HashMap<RunId, String> =
                    found.iter().map(|found| (found.key.run, found.sort_key.clone())).collect();
                let reads = self.runs_at(found.into_iter().map(|found| found.key)).await;
                answers.add(reads.answers);
                for (key, row) in reads.found.into_iter().filter_map(|(key, row)| Some((key, row?))) {
                    if row.has_expired(ended_before) {
                        keys.push(key);
                    } else if let Some(sort_key) = sort_keys.get(&key.run)
                        && !row.run.status.is_terminal()
                    {
                        // An open job may rest for years. It need not be read again before it changes.
                        self.unended.remember(key.run, sort_key.clone());
                    }
                }
                from = step.next;
                if from.is_none() || keys.len() >= enough {
                    break;
                }
            }
            if keys.len() >= enough {
                break;
            }
        }
        answers.any().map(|()| keys)
    }

    /// The rows of these runs as they are.
    pub async fn runs_at(&self, runs: impl IntoIterator<Item = RunKey>) -> Reads<RunKey, Option<RunRow>> {
        let reads = runs.into_iter().map(|key| (key, self.find_run(key).boxed()));
        read_each("run", place_of, reads.collect()).await
    }

    /// Jobs with a run that somebody has something to do with.
    pub async fn discovered_jobs(&self) -> Result<Vec<JobId>> {
        let mut jobs = Vec::new();
        for place in PLACES.into_iter().filter(|place| *place != RESTING) {
            jobs.extend(self.discovered(place, usize::MAX).await?.into_iter().map(|key| key.job));
        }
        Ok(jobs)
    }

    pub async fn running(&self, now: Timestamp) -> Result<ChangedRuns> {
        let mut found = Vec::new();
        for place in RUNNING {
            found.extend(self.found(place, None, usize::MAX).await?);
        }
        let Looked { mut told, unread, .. } = self.look_at(found, now).await?;
        told.gone.clear();
        // For a worker of this process that does not look at everything again: only `changed_since` takes them out, as others
        // (the sweeper) look at all runs as well.
        self.unread.add(unread);
        Ok(told)
    }

    /// All places are asked at once. A run that moves between them meanwhile may be missed: it changed, so the next look,
    /// which goes back further, finds it.
    pub async fn changed_since(&self, since: Timestamp, now: Timestamp) -> Result<ChangedRuns> {
        let asked = PLACES.map(|place| self.found(place, Some(since), usize::MAX));
        let found: Vec<Vec<Found>> = stream::iter(asked).buffered(PLACES.len()).try_collect().await?;
        let found = found.into_iter().flatten().chain(self.unread.all()).collect();
        let Looked { told, read, unread } = self.look_at(found, now).await?;
        // A look that failed has told nobody anything.
        self.unread.remove(&read);
        self.unread.add(unread);
        Ok(told)
    }

    async fn look_at(&self, mut found: Vec<Found>, now: Timestamp) -> Result<Looked> {
        // One that moves from one place to another meanwhile is found in both.
        found.sort_by_key(|found| found.key.run);
        found.dedup_by_key(|found| found.key.run);
        let looks = found.into_iter().map(|found| {
            let at = found.clone();
            (found, async move { self.look_unless_paused(&at).await }.boxed())
        });
        let looks = read_each("run", |found: &Found| place_of(&found.key), looks.collect()).await;
        let unread = looks.silent.iter().map(|found| found.key).collect();
        let told = ChangedRuns { unread, ..ChangedRuns::none(now) };
        let mut looked = Looked { told, read: Vec::new(), unread: looks.silent };
        looked.read.extend(looks.damaged.iter().map(|found| found.key.run));
        for (found, look) in looks.found {
            looked.read.push(found.key.run);
            match look {
                Look::Active(active) => looked.told.active.push(*active),
                Look::Gone(key) => looked.told.gone.push(key),
            }
        }
        // Nothing could be read, or too many not: it is not one run's partition, and whoever asks should know.
        looks.answers.any()?;
        match looked.unread.len() > UNREAD_MAX {
            true => Err(Error::Unavailable(format!("{} runs cannot be read", looked.unread.len()))),
            false => Ok(looked),
        }
    }

    /// A run whose job's claims and settles fail is not read meanwhile: a read that waits would delay the others.
    async fn look_unless_paused(&self, found: &Found) -> Result<Look> {
        let call = self.circuits.pass(found.key.job)?;
        let look = self.look(found).await;
        // That it can be read does not mean that it can be written.
        if look.as_ref().err().is_some_and(is_unavailable) {
            self.circuits.note(call, true, &self.entropy);
        }
        look
    }

    async fn look(&self, found: &Found) -> Result<Look> {
        let key = found.key;
        if found.is_outdated() {
            self.renew_sort_key(key).await?;
        }
        // An end is for ever, wherever it moved on to.
        if ENDED.contains(&found.place) {
            return Ok(Look::Gone(key));
        }
        if !RUNNING.contains(&found.place) {
            // Looks overlap, so most of them find what the one before found. Had it begun to run, its key would be another.
            if self.rested.recall(&key.run).as_ref() == Some(&found.sort_key) {
                return Ok(Look::Gone(key));
            }
            // It is hardly ever running again: its counts are not worth reading.
            if self.find_run(key).await?.is_none_or(|row| row.run.status != RunStatus::Running) {
                self.rested.remember(key.run, found.sort_key.clone());
                return Ok(Look::Gone(key));
            }
        }
        let active = self.active(key).await?;
        Ok(active.map_or(Look::Gone(key), |active| Look::Active(Box::new(active))))
    }

    async fn active(&self, key: RunKey) -> Result<Option<ActiveRun>> {
        let Counted { counts, spend } = self.counted(key).await?;
        let run = self.find_run(key).await?.map(|row| row.run);
        let Some(run) = run.filter(|run| run.status == RunStatus::Running) else { return Ok(None) };
        // Behind the run, which changes together with the limits of its job: they are never older than it is.
        let Some(row) = self.find_job(key.job).await? else { return Ok(None) };
        let stats = RunStats { total: run.total, counts: run.counted(counts), spend };
        Ok(Some(ActiveRun { job: row.job, run, stats }))
    }

    /// Writes a run of an earlier version again, or every look at what changed would find it.
    async fn renew_sort_key(&self, key: RunKey) -> Result<()> {
        let Some(mut row) = self.find_run(key).await? else { return Ok(()) };
        let seen = Condition::version(row.version);
        row.version += 1;
        // Whoever else wrote it did the same.
        self.put_if(row.encode()?, seen).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_a_run_is_found_by_when_it_is_written_and_other_rows_stay() {
        let (job, run) = (conveyor_domain::JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        let at = |key: &keys::RowKey, changed| {
            let mut item = key.attributes();
            item.insert(GSI2_SK.to_owned(), text(sort_key(run, Timestamp(changed))));
            stamp(&mut item, Timestamp(2_000));
            Row(&item).text(GSI2_SK).unwrap().to_owned()
        };
        for (changed, stamped) in [(1_000, 2_000), (2_000, 2_000), (3_000, 3_000)] {
            assert_eq!(at(&keys::run(job, run), changed), sort_key(run, Timestamp(stamped)));
            assert_eq!(at(&keys::job(job), changed), sort_key(run, Timestamp(changed)));
        }
    }

    #[test]
    fn a_run_is_found_for_as_long_as_there_is_something_to_do_with_it() {
        use conveyor_domain::job::run::IngestStatus::Pending;
        use conveyor_domain::{CallerId, JobId, lifecycle};
        let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        let (caller, spec) = (CallerId::from_bytes([3; 16]), conveyor_domain::JobSpec::default());
        let new = RunRow::new(&lifecycle::submit(job, run, caller, spec, false, 1, Timestamp(0)).run, 1);
        let at = |status, ingest, queue_removed, storage| {
            let mut row = RunRow { queue_removed, ..new.clone() };
            (row.run.status, row.run.ingest, row.run.storage) = (status, ingest, storage);
            place(&row)
        };
        use RunStatus::{Completed, Deleted, Running, Stopped};
        use Storage::{Expired, Kept, Removed};
        assert_eq!(at(Running, Some(Pending), false, Kept), Some("running+ingesting"));
        assert_eq!(at(Stopped, Some(Pending), false, Kept), Some("ended+ingesting"));
        assert_eq!(at(Stopped, Some(Pending), true, Kept), Some("ingesting"));
        assert_eq!(at(Completed, None, true, Kept), Some("resting"));
        assert_eq!(at(Completed, None, true, Expired), None);
        assert_eq!(at(Deleted, Some(Pending), false, Kept), Some("ended"), "its queue has to go");
        assert_eq!(at(Deleted, Some(Pending), true, Kept), Some("ingesting"), "and then its rows");
        assert_eq!(at(Deleted, None, true, Expired), Some("ingesting"), "of which some may be left");
        assert_eq!(at(Deleted, None, true, Removed), None);
        // A queue is found by its run, in whatever order they go.
        assert_eq!(at(Deleted, None, false, Removed), Some("ended"));
        assert_eq!(at(Completed, None, false, Expired), Some("ended"));
    }

    #[test]
    fn changes_since_a_moment_are_behind_it_and_so_are_keys_of_earlier_versions() {
        let run = RunId::from_bytes([1; 16]);
        for (changed, since, found) in
            [(5, 6, false), (6, 6, true), (1_800_000_000_000, 999_999_999_999, true)]
        {
            assert_eq!(sort_key(run, Timestamp(changed)) >= changed_at(Timestamp(since)), found, "{changed}");
        }
        for id in [[0; 16], [0xff; 16]] {
            assert!(RunId::from_bytes(id).to_string() >= changed_at(Timestamp(i64::MAX)));
        }
    }
}
