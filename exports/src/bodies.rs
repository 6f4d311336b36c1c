//! Bodies of tasks, read ahead of whoever writes them: so many at once, and so many bytes together.

use crate::trouble::Trouble;
use crate::zip::Entry;
use bytes::Bytes;
use conveyor_domain::export::too_large;
use conveyor_domain::{BodyFault, Problem, Task, damage, limits};
use conveyor_store::{Blobs, read_body};
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
                    Ok(body) => body,
                    Err(problem) => {
                        task.result = None;
                        // The others are worth having, and none is left out silently.
                        serde_json::to_vec(&problem).unwrap_or_default().into()
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

/// Or what the file says in its place, if its row or what is stored of it is damaged.
async fn read(blobs: &dyn Blobs, task: &Task) -> Result<Result<Bytes, Problem>, Trouble> {
    let id = task.id;
    let Some(result) = &task.result else {
        tracing::error!(task = %id, "the row of a result cannot be read; the export says so in its place");
        let marker = task.error.clone().filter(Problem::is_damage);
        return Ok(Err(marker.unwrap_or_else(|| damage::problem("result"))));
    };
    // The whole key: an inherited result is among those of an earlier run.
    match read_body(blobs, id, result).await? {
        Ok(body) => Ok(Ok(body)),
        Err(BodyFault::Missing) => Err(Trouble::Final(format!("the result of task {id} is no longer kept"))),
        Err(BodyFault::Truncated | BodyFault::Damaged) => Ok(Err(damage::problem_of_body(id))),
    }
}
