//! The tasks of a run, a page at a time.

use crate::trouble::Trouble;
use conveyor_domain::{Task, TaskId, limits};
use conveyor_store::Store;
use conveyor_store::port::{RunKey, StatusFilter, TasksQuery};
use futures::{Stream, TryStreamExt, stream};
use std::sync::Arc;

pub(crate) fn tasks(
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
