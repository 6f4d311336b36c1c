//! One object, from the first byte to the last.

use crate::bodies::packed;
use crate::meter::Meter;
use crate::rows::{Row, Writer};
use crate::sink::{Sink, pipe};
use crate::trouble::Trouble;
use crate::zip::{Archive, Aside};
use crate::{Builder, Taken};
use conveyor_domain::export::too_large;
use conveyor_domain::job::retention::{is_expired, is_over};
use conveyor_domain::{ExportFormat, Task, TaskId, TaskStatus, limits};
use conveyor_store::Store;
use conveyor_store::port::{BlobKey, RunKey, StatusFilter, Stored, TasksQuery};
use futures::{Stream, TryStreamExt, future, stream};
use std::pin::pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Builder {
    /// The object is there, whole, or not at all.
    pub(crate) async fn build(
        &self,
        taken: &Taken,
        meter: &Arc<Meter>,
        end: &CancellationToken,
    ) -> Result<(BlobKey, Stored), Trouble> {
        let key = self.new_key(&taken.export);
        let (mut sink, body) = pipe(meter.clone());
        let write = async {
            let written = end.run_until_cancelled(self.write(taken, meter, &mut sink)).await;
            let written = written.unwrap_or(Err(Trouble::BrokenOff));
            if written.is_err() {
                sink.break_off().await;
            }
            written
        };
        // Side by side: each piece is made when the last one was taken.
        match futures::join!(write, self.backend.blobs.put_stream(&key, body)) {
            (Ok(()), Ok(stored)) => Ok((key, stored)),
            (Ok(()) | Err(Trouble::Refused), Err(error)) => Err(error.into()),
            (Err(trouble), _) => Err(trouble),
        }
    }

    async fn write(&self, taken: &Taken, meter: &Meter, sink: &mut Sink) -> Result<(), Trouble> {
        match taken.export.format {
            ExportFormat::Zip => self.write_zip(taken, meter, sink).await,
            ExportFormat::Jsonl | ExportFormat::Csv => self.write_rows(taken, meter, sink).await,
        }
    }

    async fn write_zip(&self, taken: &Taken, meter: &Meter, sink: &mut Sink) -> Result<(), Trouble> {
        let seen = |task: &Task| {
            let seen = !is_over(task, taken.seen_at) && !is_expired(task, &taken.spec, taken.seen_at);
            if !seen {
                meter.add_task();
            }
            future::ready(seen && task.status == TaskStatus::Successful)
        };
        let successful = tasks(self.backend.store.clone(), key_of(taken), StatusFilter::Successful);
        let config = self.config;
        let bodies = packed(
            self.backend.blobs.clone(),
            successful.try_filter(seen),
            config.ahead_max_bytes,
            config.max_bytes,
        );
        let mut bodies = pin!(bodies);
        let mut archive = Archive::new(sink, Aside::new(self, &taken.export));
        while let Some(next) = bodies.try_next().await? {
            let task = &next.task;
            let extension = task.result.as_ref().map_or("damaged.json", |result| result.format.as_str());
            let name = format!("{}.{extension}", task.id);
            archive.add(&name, next.entry, task.ended()).await?;
            meter.add_task();
        }
        archive.finish().await
    }

    async fn write_rows(&self, taken: &Taken, meter: &Meter, sink: &mut Sink) -> Result<(), Trouble> {
        let mut tasks = pin!(tasks(self.backend.store.clone(), key_of(taken), StatusFilter::All));
        let mut rows = match taken.export.format {
            ExportFormat::Csv => Writer::csv(sink.writer()).await?,
            ExportFormat::Jsonl | ExportFormat::Zip => Writer::json_lines(sink.writer()),
        };
        while let Some(task) = tasks.try_next().await? {
            if !is_over(&task, taken.seen_at) {
                rows.write(&Row::new(&task, &taken.spec, taken.seen_at)).await?;
            }
            meter.add_task();
            if meter.progress().bytes > self.config.max_bytes {
                return Err(Trouble::Final(too_large(self.config.max_bytes)));
            }
        }
        Ok(rows.flush().await?)
    }
}

fn key_of(taken: &Taken) -> RunKey {
    RunKey { job: taken.export.job, run: taken.export.run }
}

/// The tasks of a run, a page at a time.
fn tasks(
    store: Arc<dyn Store>,
    key: RunKey,
    filter: StatusFilter,
) -> impl Stream<Item = Result<Task, Trouble>> + Send {
    let pages = stream::try_unfold(None::<TaskId>, move |after| {
        let store = store.clone();
        async move {
            let page = store
                .tasks(TasksQuery {
                    key,
                    filter,
                    after,
                    limit: limits::RESULTS_PAGE_MAX,
                    max_bytes: limits::RESULTS_PAGE_BYTES,
                })
                .await?;
            // A page may be short; only an empty one is the last.
            let last = page.last().map(|task| task.id);
            Ok::<_, Trouble>(
                last.map(|last| (stream::iter(page.into_iter().map(Ok::<_, Trouble>)), Some(last))),
            )
        }
    });
    pages.try_flatten()
}
