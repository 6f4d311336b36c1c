use super::over::port;
use super::{Result, RunKey};
use conveyor_domain::{Damage, JobId, RowCounts, Run, RunId, Sums, TaskId, Timestamp};
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A run's rows against its counters, both as they were at one moment, although workers go on (SPEC 6.14).
#[derive(Clone, Debug)]
pub struct Tally {
    pub run: Run,
    pub rows: RowCounts,
    pub counters: Sums,
    /// Moves with every correction: whoever corrects names the one that it saw.
    pub revision: u64,
    /// Where results are. Empty unless asked for.
    pub objects: NamedObjects,
    /// Rows of which a part cannot be read. One whose status cannot be read is in none of the counts; the others are looked
    /// for only where objects are asked for.
    pub damaged: DamagedRows,
}

/// Rows of which a part cannot be read: how many, and the first of them by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamagedRows {
    pub count: u32,
    pub first: Vec<(TaskId, String)>,
}

impl DamagedRows {
    const NAMED_MAX: usize = 20;

    pub fn note(&mut self, task: TaskId, damage: &Damage) {
        let Some(parts) = damage.parts() else { return };
        self.count += 1;
        if self.first.len() < Self::NAMED_MAX {
            self.first.push((task, parts));
        }
    }

    pub fn merge(&mut self, other: DamagedRows) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.sort();
        self.first.truncate(Self::NAMED_MAX);
    }
}

/// Objects that rows name, and how many rows name each. By their hashes: a million names take ten times the room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedObjects {
    by_hash: HashMap<u64, u32>,
    places: BTreeSet<String>,
    none: u32,
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

impl NamedObjects {
    /// A row names this one; or none, because its body is empty.
    pub fn add(&mut self, name: Option<&str>) {
        let Some(name) = name else {
            self.none += 1;
            return;
        };
        *self.by_hash.entry(hash(name)).or_default() += 1;
        if let Some((place, _)) = name.rsplit_once('/')
            && !self.places.contains(place)
        {
            self.places.insert(place.to_owned());
        }
    }

    pub fn merge(&mut self, other: NamedObjects) {
        for (name, rows) in other.by_hash {
            *self.by_hash.entry(name).or_default() += rows;
        }
        self.places.extend(other.places);
        self.none += other.none;
    }

    /// It is there: the rows that name it, each of which is told once.
    pub fn take(&mut self, name: &str) -> u32 {
        self.by_hash.remove(&hash(name)).unwrap_or(0)
    }

    /// Rows whose object was not taken.
    pub fn left(&self) -> u32 {
        self.by_hash.values().sum()
    }

    /// Rows that need none.
    pub fn none(&self) -> u32 {
        self.none
    }

    /// The prefixes under which all of them are.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(String::as_str)
    }
}

/// A row of a job or of one of its runs that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRow {
    pub job: JobId,
    /// `None`: the job itself.
    pub run: Option<RunId>,
    pub why: String,
}

/// A page of a search for damaged rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamagePage {
    pub rows: Vec<DamagedRow>,
    /// The last job that was looked at, if there are more.
    pub next: Option<JobId>,
}

/// Which jobs are searched for damaged rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damaged {
    Of(JobId),
    /// A page behind this one: of all, or, where that would cost a scan, of those with a run that somebody has something to
    /// do with and those that a read of this process failed on.
    Behind(Option<JobId>),
}

port! {
    /// Counting what is there.
    pub trait ProofStore, decorated by OverProofStore over store {
        /// Counts the rows of a run. `None` if there is no such run. `Unavailable` if it cannot be told for now.
        async fn tally(&self, key: RunKey, with_objects: bool) -> Result<Option<Tally>>;

        /// Adds what is missing to the counters, unless they were corrected since the revision that was seen, or the run was
        /// deleted: then nothing is done, and the answer is false.
        async fn correct(&self, key: RunKey, missing: Sums, seen: u64, now: Timestamp) -> Result<bool>;

        /// Rows of jobs and their runs that cannot be read.
        async fn damage(&self, of: Damaged) -> Result<DamagePage>;
    }
}
