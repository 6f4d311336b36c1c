//! Bodies of tasks, read ahead of whoever writes them: so many at once, and so many bytes together.

use crate::trouble::Trouble;
use crate::zip::Entry;
use bytes::Bytes;
use conveyor_domain::export::too_large;
use conveyor_domain::task::ResultRef;
use conveyor_domain::{Problem, Task, damage, limits};
use conveyor_store::port::BlobKey;
use conveyor_store::{Blobs, Error};
use futures::{Stream, StreamExt, TryStreamExt, future};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A body that is ready to be written. Its room is for others once it is dropped.
#[derive(Debug)]
pub(crate) struct Packed {
    pub task: Task,
    pub entry: Entry,
    _room: OwnedSemaphorePermit,
}

/// The bodies of these tasks, in their order. Fails once they come to more than `max_bytes`.
pub(crate) fn packed(
    blobs: Arc<dyn Blobs>,
    tasks: impl Stream<Item = Result<Task, Trouble>> + Send,
    ahead_max_bytes: usize,
    max_bytes: u64,
) -> impl Stream<Item = Result<Packed, Trouble>> + Send {
    let room = Room::new(ahead_max_bytes);
    let mut bytes = 0_u64;
    tasks
        .and_then(move |task| {
            let length = task.result.as_ref().map_or(0, |result| result.length);
            bytes = bytes.saturating_add(length);
            let fits = bytes <= max_bytes;
            future::ready(if fits { Ok(task) } else { Err(Trouble::Final(too_large(max_bytes))) })
        })
        // Before the read begins, and one after the other: one that waits for room behind others that wait for it to be
        // written would wait for ever.
        .and_then(move |task| room.clone().take(task))
        .map(move |next| {
            let blobs = blobs.clone();
            async move {
                let (mut task, room) = next?;
                let body = match read(&*blobs, &task).await? {
                    Some(body) => body,
                    None => {
                        task.result = None;
                        damaged(&task)
                    }
                };
                let packing = tokio::task::spawn_blocking(move || Entry::pack(body));
                let entry =
                    packing.await.map_err(|e| Trouble::Final(format!("a body cannot be packed: {e}")))?;
                Ok(Packed { task, entry, _room: room })
            }
        })
        .buffered(limits::EXPORT_READS_MAX)
}

/// Room in memory, in KiB.
#[derive(Clone, Debug)]
struct Room {
    free: Arc<Semaphore>,
    all: u32,
}

impl Room {
    fn new(bytes: usize) -> Room {
        let all = u32::try_from(bytes.div_ceil(limits::KIB)).unwrap_or(u32::MAX).max(1);
        Room { free: Arc::new(Semaphore::new(all as usize)), all }
    }

    /// One that is larger than all the room has all of it, alone.
    async fn take(self, task: Task) -> Result<(Task, OwnedSemaphorePermit), Trouble> {
        let length = task.result.as_ref().map_or(0, |result| result.length);
        let kib = u32::try_from(length.div_ceil(limits::KIB as u64)).unwrap_or(u32::MAX).clamp(1, self.all);
        let room = self.free.acquire_many_owned(kib).await;
        // Nobody closes it.
        room.map(|room| (task, room)).map_err(|_| Trouble::BrokenOff)
    }
}

/// `None` if its row is damaged.
async fn read(blobs: &dyn Blobs, task: &Task) -> Result<Option<Bytes>, Trouble> {
    let id = task.id;
    let Some(ResultRef { object, offset, length, .. }) = &task.result else { return Ok(None) };
    // The whole key: an inherited result is among those of an earlier run.
    let Some(object) = object else { return Ok(Some(Bytes::new())) };
    let Ok(key) = object.parse::<BlobKey>() else { return Ok(None) };
    match blobs.get(&key, *offset, *length).await {
        Ok(body) => Ok(Some(body)),
        Err(Error::NotFound) => Err(Trouble::Final(format!("the result of task {id} is no longer kept"))),
        Err(Error::Corrupt(_)) => {
            let damaged = "cannot be read: what is stored is damaged";
            Err(Trouble::Final(format!("the result of task {id} {damaged}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// What the file says in the place of a body that cannot be read: the others are worth having, and none is left out silently.
fn damaged(task: &Task) -> Bytes {
    let problem = task.error.clone().filter(Problem::is_damage).unwrap_or_else(|| damage::problem("result"));
    tracing::error!(task = %task.id, "a result cannot be read; the export says so in its place");
    serde_json::to_vec(&problem).unwrap_or_default().into()
}
