//! The bodies that result objects hold, by the tasks that they are the answers to.

use super::Rebuilder;
use super::failure::{Failure, patiently};
use conveyor_domain::export::result_index::{Label, TRAILER_BYTES};
use conveyor_domain::{IndexEntry, Outcome, ResultRef, RunId, TaskId, WorkerId, limits, result_index};
use conveyor_store::port::{BlobKey, Listed, RunKey};
use conveyor_store::{Blobs, Error};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeMap;

const LIST_PAGE: usize = 1_000;
const READS_AT_ONCE: usize = 16;

/// By index, because an id says no more than that within its run. Some 60 bytes each.
#[derive(Default)]
pub struct Bodies {
    found: BTreeMap<u32, Body>,
    pub objects: u64,
    /// Objects that do not say whose bodies they hold: of earlier versions.
    pub unlabelled: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Body {
    object: ObjectName,
    entry: IndexEntry,
    whole: bool,
}

/// Which object of which worker incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectName {
    worker: WorkerId,
    n: u64,
}

impl Bodies {
    pub fn len(&self) -> usize {
        self.found.len()
    }

    pub fn has(&self, task: TaskId) -> bool {
        self.found.contains_key(&task.index())
    }

    /// A task that needs none any more.
    pub fn forget(&mut self, task: TaskId) {
        self.found.remove(&task.index());
    }

    /// How a task ended, if there is a body of it.
    pub fn end_of(&self, key: RunKey, task: TaskId) -> Option<Outcome> {
        let body = self.found.get(&task.index())?;
        let (ObjectName { worker, n }, label) = (body.object, body.entry.label);
        let object = match body.whole {
            true => BlobKey::whole_result(key.job, key.run, worker, n, &label.to_string()),
            false => BlobKey::results(key.job, key.run, worker, n),
        };
        Some(Outcome::Successful(ResultRef {
            object: Some(object.to_string()),
            whole: body.whole,
            offset: body.entry.offset,
            length: body.entry.length,
            format: label.format,
            http_status: label.http_status,
            crc32: label.crc32,
        }))
    }

    fn add(&mut self, seed: RunId, body: Body) {
        let task = body.entry.label.task;
        if !task.belongs_to(seed) {
            return;
        }
        let better = self.found.get(&task.index()).is_none_or(|other| body.rank() > other.rank());
        if better {
            self.found.insert(task.index(), body);
        }
    }
}

impl Body {
    /// Of two bodies of a task the later attempt's counts. Two of one attempt, by a worker that was taken for dead and the
    /// one that took over, are as good as each other; the choice is the same every time.
    fn rank(&self) -> (u32, ObjectName) {
        (self.entry.label.attempt, self.object)
    }
}

/// What an object's name says.
enum Name {
    Shared(ObjectName),
    Whole(ObjectName, Label),
}

fn parse(name: &str) -> Option<Name> {
    let (worker, rest) = name.split_once('-')?;
    let (n, label) = match rest.split_once('.') {
        Some((n, label)) => (n, Some(label.parse().ok()?)),
        None => (rest, None),
    };
    let object = ObjectName { worker: worker.parse().ok()?, n: n.parse().ok()? };
    Some(label.map_or(Name::Shared(object), |label| Name::Whole(object, label)))
}

impl Rebuilder {
    /// Reads what every result object of a run says about itself.
    pub async fn bodies(&self, key: RunKey, seed: RunId) -> Result<Bodies, Failure> {
        let bar = self.progress.bar("reading results", 0);
        let prefix = BlobKey::results_prefix(key.job, key.run);
        let mut bodies = Bodies::default();
        let mut after: Option<BlobKey> = None;
        loop {
            let page = patiently(|| self.backend.blobs.list(&prefix, after.as_ref(), LIST_PAGE)).await?;
            let Some(last) = page.last() else { return Ok(bodies) };
            after = Some(last.key.clone());
            let said = stream::iter(&page)
                .map(|listed| said_by(&*self.backend.blobs, listed))
                .buffer_unordered(READS_AT_ONCE);
            let said: Vec<Option<Vec<Body>>> = said.try_collect().await?;
            for object in said {
                bodies.objects += 1;
                match object {
                    Some(said) => said.into_iter().for_each(|body| bodies.add(seed, body)),
                    None => bodies.unlabelled += 1,
                }
            }
            bar.inc(page.len() as u64);
        }
    }
}

/// The bodies that an object says it holds; `None` if it does not say.
async fn said_by(blobs: &dyn Blobs, listed: &Listed) -> Result<Option<Vec<Body>>, Failure> {
    let name = listed.key.as_str().rsplit('/').next().unwrap_or_default();
    match parse(name) {
        None => Ok(None),
        Some(Name::Whole(object, label)) => {
            let entry = IndexEntry { label, offset: 0, length: listed.size };
            Ok(Some(vec![Body { object, entry, whole: true }]))
        }
        Some(Name::Shared(object)) => {
            let entries = index_of(blobs, listed).await?;
            let body = |entry| Body { object, entry, whole: false };
            Ok(entries.map(|entries| entries.into_iter().map(body).collect()))
        }
    }
}

async fn index_of(blobs: &dyn Blobs, listed: &Listed) -> Result<Option<Vec<IndexEntry>>, Failure> {
    // As much as the longest index that a worker writes: one read.
    let likely = result_index::bytes_of(limits::SETTLE_GROUP_MAX) as u64;
    let mut tail = listed.size.min(likely);
    loop {
        let read = patiently(|| async {
            match blobs.get(&listed.key, listed.size - tail, tail).await {
                // Its worker found that nobody needs it.
                Err(Error::NotFound | Error::Corrupt(_)) => Ok(None),
                read => read.map(Some),
            }
        });
        let Some(bytes) = read.await? else { return Ok(None) };
        let Some(trailer) = bytes.last_chunk::<TRAILER_BYTES>() else { return Ok(None) };
        let Ok(begin) = result_index::entries_begin(listed.size, trailer) else { return Ok(None) };
        let needed = listed.size - begin;
        if needed > tail {
            tail = needed;
            continue;
        }
        let skipped = usize::try_from(tail - needed).unwrap_or(bytes.len());
        return Ok(result_index::decode(begin, &bytes[skipped..]).ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::Format;

    fn body(worker: u8, n: u64, attempt: u32) -> Body {
        let task = TaskId::of(RunId::from_bytes([2; 16]), 5);
        let label = Label { task, attempt, http_status: 200, format: Format::Html, crc32: Some(7) };
        let object = ObjectName { worker: WorkerId::from_bytes([worker; 16]), n };
        Body { object, entry: IndexEntry { label, offset: 0, length: 9 }, whole: true }
    }

    #[test]
    fn of_two_bodies_the_later_attempt_counts_in_whatever_order_they_are_found() {
        let all = [body(3, 1, 1), body(1, 7, 2), body(2, 1, 2), body(1, 9, 1)];
        for first in 0..all.len() {
            let mut bodies = Bodies::default();
            let order = (0..all.len()).map(|n| all[(first + n) % all.len()]);
            order.for_each(|body| bodies.add(RunId::from_bytes([2; 16]), body));
            assert_eq!(bodies.found[&5], all[2]);
        }
    }

    #[test]
    fn a_body_of_another_run_is_nobodys() {
        let mut bodies = Bodies::default();
        bodies.add(RunId::from_bytes([9; 16]), body(1, 1, 1));
        assert_eq!(bodies.len(), 0);
    }

    #[test]
    fn a_name_is_read_back_as_it_was_written() {
        let (job, run) = (conveyor_domain::JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        let Body { object, entry, .. } = body(3, 17, 2);
        let last = |key: BlobKey| key.as_str().rsplit('/').next().unwrap().to_owned();
        let whole = BlobKey::whole_result(job, run, object.worker, object.n, &entry.label.to_string());
        assert!(matches!(parse(&last(whole)), Some(Name::Whole(o, l)) if (o, l) == (object, entry.label)));
        let shared = BlobKey::results(job, run, object.worker, object.n);
        assert!(matches!(parse(&last(shared)), Some(Name::Shared(o)) if o == object));
        for other in ["", "x", "x-1", "01ARZ3NDEKTSV4RRFFQ69G5FAV-1.html", "01ARZ3NDEKTSV4RRFFQ69G5FAV-x"] {
            assert!(parse(other).is_none(), "{other}");
        }
    }
}
