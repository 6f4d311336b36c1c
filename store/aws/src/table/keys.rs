//! Where every row is: partition and sort keys of the table (SPEC 5.3).

use conveyor_domain::dispatch::grant::Scope;
use conveyor_domain::{
    CallerId, JobId, KeyHash, LetterId, RecordKey, RecordKind, RunId, TaskId, Timestamp, UploadId, WorkerId,
};

/// The attributes of the table's own key and of its two indexes.
pub const PK: &str = "pk";
pub const SK: &str = "sk";
pub const GSI1: &str = "gsi1";
pub const GSI1_PK: &str = "g1pk";
pub const GSI1_SK: &str = "g1sk";
pub const GSI2: &str = "gsi2";
pub const GSI2_PK: &str = "g2pk";
pub const GSI2_SK: &str = "g2sk";
/// Seconds since 1970; a row that has it goes some time after that.
pub const TTL: &str = "ttl";

/// The whole key of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowKey {
    pub pk: String,
    pub sk: String,
}

fn key(pk: String, sk: impl Into<String>) -> RowKey {
    RowKey { pk, sk: sk.into() }
}

pub fn job_partition(job: JobId) -> String {
    format!("Job#{job}")
}

pub fn job(job: JobId) -> RowKey {
    key(job_partition(job), "A")
}

/// Says that rows of a submit are being written that nobody can see yet.
pub fn submitting(job: JobId) -> RowKey {
    key(job_partition(job), "M")
}

pub const RUNS: &str = "R#";

pub fn run(job: JobId, run: RunId) -> RowKey {
    key(job_partition(job), format!("{RUNS}{run}"))
}

pub const COUNTERS: &str = "C#";

pub fn counters(run: RunId) -> String {
    format!("{COUNTERS}{run}#")
}

/// One worker has a row for each settle that it writes at once: two transactions never touch the same.
pub fn counter(job: JobId, run: RunId, worker: WorkerId, lane: usize) -> RowKey {
    key(job_partition(job), format!("{}{}", counters(run), counter_name(worker, lane)))
}

/// What a counter row is called among those of its run, and by the rows that it counted.
pub fn counter_name(worker: WorkerId, lane: usize) -> String {
    format!("{worker}#{lane}")
}

/// The counter row that is nobody's. No worker is called that.
pub const CORRECTION: &str = "correction";

pub fn correction(job: JobId, run: RunId) -> RowKey {
    key(job_partition(job), format!("{}{CORRECTION}", counters(run)))
}

pub const EVENTS: &str = "E#";

pub fn event(job: JobId, number: u64) -> RowKey {
    key(job_partition(job), event_sort(number))
}

pub fn event_sort(number: u64) -> String {
    format!("{EVENTS}{number:012}")
}

/// Where the rows of a job's tasks are. One partition for a small job; many, by the hash of the id, for a large one.
pub fn task_partition(job: JobId, shards: u32, task: TaskId) -> String {
    match shards {
        0 | 1 => job_partition(job),
        n => shard_partition(job, fnv32a(task.to_string().as_bytes()) % n),
    }
}

pub fn shard_partition(job: JobId, shard: u32) -> String {
    format!("Job#{job}#TS{shard}")
}

/// Every partition that can hold tasks of a job.
pub fn task_partitions(job: JobId, shards: u32) -> Vec<String> {
    match shards {
        0 | 1 => vec![job_partition(job)],
        n => (0..n).map(|shard| shard_partition(job, shard)).collect(),
    }
}

pub fn task(job: JobId, shards: u32, run: RunId, task: TaskId) -> RowKey {
    key(task_partition(job, shards, task), format!("T#{run}#{task}"))
}

/// Sort keys of the tasks with indexes from `first` to `last`, both included.
pub fn task_range(run: RunId, first: u32, last: u32) -> (String, String) {
    // An index is followed by hex digits, all of which sort before this.
    (format!("T#{run}#{first:08x}"), format!("T#{run}#{last:08x}~"))
}

pub const TASKS: &str = "T#";
pub const ATTEMPTS: &str = "H#";

/// All tasks of a run, and all attempts of them.
pub fn tasks_of(run: RunId) -> String {
    format!("{TASKS}{run}#")
}

pub fn attempts_of(run: RunId) -> String {
    format!("{ATTEMPTS}{run}#")
}

pub fn attempts(run: RunId, task: TaskId) -> String {
    format!("{ATTEMPTS}{run}#{task}#")
}

pub fn attempt(job: JobId, shards: u32, run: RunId, task: TaskId, number: u32) -> RowKey {
    key(task_partition(job, shards, task), format!("{}{number:010}", attempts(run, task)))
}

/// Each job's own in a partition of its own, as busy as its workers are; those of a caller's sites together, to be listed.
pub fn budget(scope: &Scope) -> RowKey {
    match scope {
        Scope::Job(job) => key(format!("Budget#{job}"), "A"),
        Scope::Domain(caller, domain) => key(budgets_of(*caller), domain.as_str()),
        Scope::Sweepers => key("Budget#sweepers".to_owned(), "A"),
    }
}

pub fn budgets_of(caller: CallerId) -> String {
    format!("Budgets#{caller}")
}

/// API keys are spread over 16 partitions by the first digit of the hash: every request needs one, and all can be listed
/// with 16 queries.
const KEYS_PARTITIONS: &str = "Keys#";

pub fn api_key(hash: KeyHash) -> RowKey {
    let sk = hash.to_string();
    key(format!("{KEYS_PARTITIONS}{}", &sk[..1]), sk)
}

pub fn api_key_partitions() -> impl Iterator<Item = String> {
    (0..16).map(|digit| format!("{KEYS_PARTITIONS}{digit:x}"))
}

/// Where earlier versions kept all of them.
pub const OLD_KEYS_PARTITION: &str = "Keys";

pub fn old_api_key(hash: KeyHash) -> RowKey {
    key(OLD_KEYS_PARTITION.to_owned(), hash.to_string())
}

/// All in one partition: they are few, and have to be listed.
pub const LETTERS_PARTITION: &str = "Letters";

pub fn letter(letter: LetterId) -> RowKey {
    key(LETTERS_PARTITION.to_owned(), letter.to_string())
}

pub fn upload_partition(upload: UploadId) -> String {
    format!("Upload#{upload}")
}

pub fn upload(upload: UploadId) -> RowKey {
    key(upload_partition(upload), "A")
}

pub const PARTS: &str = "P#";

pub fn part(upload: UploadId, number: u32) -> RowKey {
    key(upload_partition(upload), format!("{PARTS}{number:010}"))
}

/// A job that was made of an upload.
pub fn claim(upload: UploadId, job: JobId) -> RowKey {
    key(upload_partition(upload), format!("J#{job}"))
}

/// Records of one owner and kind.
pub fn records_of(kind: RecordKind, owner: &str) -> String {
    format!("Rec#{}#{owner}", kind.as_str())
}

pub fn record(record: &RecordKey) -> RowKey {
    key(records_of(record.kind, &record.owner), record.id.as_str())
}

/// The record that a row is.
pub fn record_of(pk: &str, sk: &str) -> Option<RecordKey> {
    let (kind, owner) = pk.strip_prefix("Rec#")?.split_once('#')?;
    Some(RecordKey { kind: kind.parse().ok()?, owner: owner.to_owned(), id: sk.to_owned() })
}

/// Where the second index has records of a kind, by when they are due.
pub fn records_due(kind: RecordKind) -> String {
    format!("due#{}", kind.as_str())
}

pub fn record_due(due: Timestamp, record: &RecordKey) -> String {
    format!("{:013}#{}#{}", due.0.max(0), record.owner, record.id)
}

/// The reverse of [`record_due`].
pub fn due_of(kind: RecordKind, sort_key: &str) -> Option<(Timestamp, RecordKey)> {
    let mut parts = sort_key.splitn(3, '#');
    let (due, owner, id) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    Some((Timestamp(due), RecordKey { kind, owner: owner.to_owned(), id: id.to_owned() }))
}

/// Sorts behind all that are due at that moment or before.
pub fn due_by(by: Timestamp) -> String {
    format!("{:013}~", by.0.max(0))
}

/// The partitions of the first index.
pub fn jobs_of(caller: CallerId) -> String {
    format!("Jobs#{caller}")
}

pub fn uploads_of(caller: CallerId) -> String {
    format!("Uploads#{caller}")
}

/// The job that a partition of the table belongs to.
pub fn job_of(pk: &str) -> Option<JobId> {
    pk.strip_prefix("Job#")?.split('#').next()?.parse().ok()
}

/// The 32-bit hash of Fowler, Noll and Vo, variant 1a: it decides where rows are, for ever.
fn fnv32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        // Test vectors of the authors.
        for (text, hash) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(fnv32a(text.as_bytes()), hash);
        }
    }

    #[test]
    fn a_range_holds_exactly_its_indexes() {
        let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        let (low, high) = task_range(run, 5, 0x1f);
        for (index, inside) in [(4, false), (5, true), (0x1f, true), (0x20, false)] {
            let sk = task(job, 1, run, TaskId::of(run, index)).sk;
            assert_eq!((low.as_str()..=high.as_str()).contains(&sk.as_str()), inside, "{index}");
        }
    }

    #[test]
    fn a_correction_is_among_the_counters_of_its_run_and_no_workers() {
        let (job, run, worker) =
            (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]), WorkerId::from_bytes([3; 16]));
        let (correction, counter) = (correction(job, run), counter(job, run, worker, 12));
        assert_eq!(correction.pk, counter.pk);
        assert_eq!(correction.sk.strip_prefix(&counters(run)), Some(CORRECTION));
        assert_eq!(counter.sk.strip_prefix(&counters(run)), Some(counter_name(worker, 12).as_str()));
        assert!(CORRECTION.parse::<WorkerId>().is_err());
    }

    #[test]
    fn what_is_removed_with_a_run_is_its_own() {
        let (job, run, other) =
            (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]), RunId::from_bytes([3; 16]));
        for (of, own) in [(run, true), (other, false)] {
            let id = TaskId::of(of, 7);
            assert_eq!(task(job, 4, of, id).sk.starts_with(&tasks_of(run)), own);
            assert_eq!(attempt(job, 4, of, id, 1).sk.starts_with(&attempts_of(run)), own);
        }
    }

    #[test]
    fn nothing_else_is_where_sweepers_and_dead_letters_are() {
        let (sweepers, of_job) =
            (budget(&Scope::Sweepers), budget(&Scope::Job(JobId::from_bytes([0xff; 16]))));
        assert_ne!(sweepers.pk, of_job.pk);
        let (low, high) = (letter(LetterId::from_bytes([1; 16])), letter(LetterId::from_bytes([2; 16])));
        assert!(low.pk == high.pk && low.sk < high.sk, "they are listed by their ids");
    }

    #[test]
    fn a_record_is_found_by_its_place_and_by_when_it_is_due() {
        let owner = JobId::from_bytes([1; 16]);
        for kind in RecordKind::ALL {
            let id = RecordKey::new(kind, owner, "abc_1-2");
            let row = record(&id);
            assert_eq!(record_of(&row.pk, &row.sk), Some(id.clone()));
            let at = |ms| record_due(Timestamp(ms), &id);
            assert!(at(999) < at(1_000) && at(1_000) <= due_by(Timestamp(1_000)));
            assert!(at(1_001) > due_by(Timestamp(1_000)));
            assert_eq!(due_of(id.kind, &at(1_001)), Some((Timestamp(1_001), id.clone())));
        }
    }

    #[test]
    fn every_api_key_is_in_a_partition_that_is_listed() {
        let listed: Vec<String> = api_key_partitions().collect();
        let used: std::collections::BTreeSet<String> =
            (0..=255).map(|byte| api_key(KeyHash([byte; 32])).pk).collect();
        assert!(listed.len() == 16 && used.iter().eq(&listed), "{used:?}");
    }

    #[test]
    fn shards_are_even() {
        let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        let mut counts = std::collections::BTreeMap::new();
        for index in 0..16_000 {
            *counts.entry(task_partition(job, 16, TaskId::of(run, index))).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 16);
        assert!(counts.values().all(|n| (800..1_200).contains(n)), "{counts:?}");
    }
}
