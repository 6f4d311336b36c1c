use super::{Error, Result};
use conveyor_domain::{
    Damage, FailureClass, InheritedFrom, Problem, ResultRef, Task, TaskId, TaskInput, TaskStatus, Timestamp,
};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Leaves a row that cannot be read out of a list, so that the others are served. It is counted and logged with its id.
pub fn readable<T>(what: &'static str, id: impl FnOnce() -> String, read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(row) => Ok(Some(row)),
        Err(Error::Corrupt(detail)) => {
            metrics::counter!("conveyor_damaged_rows_total", "what" => what).increment(1);
            tracing::error!(what, id = id(), detail, "a stored row cannot be read and is left out");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The documents of a task row. One that cannot be read costs only itself.
#[derive(Debug)]
pub struct Documents {
    pub result: Option<ResultRef>,
    pub damage: Damage,
    input: TaskInput,
    error: Option<Problem>,
    inherited: Option<InheritedFrom>,
}

impl Documents {
    /// As they were read, each.
    pub fn of(
        input: Result<TaskInput>,
        result: Result<Option<ResultRef>>,
        error: Result<Option<Problem>>,
        inherited: Result<Option<InheritedFrom>>,
    ) -> Documents {
        let mut damage = Damage::default();
        Documents {
            input: damage.read("input", input).unwrap_or_else(TaskInput::damaged),
            result: damage.read("result", result).flatten(),
            error: damage.read("error", error).flatten(),
            inherited: damage.read("source run", inherited).flatten(),
            damage,
        }
    }

    /// The task, when it was created and when it was last updated.
    pub fn task(
        self,
        id: TaskId,
        status: TaskStatus,
        class: Option<FailureClass>,
        (created, updated): (Timestamp, Timestamp),
    ) -> Task {
        let Documents { result, damage, input, error, inherited } = self;
        let error = error.or_else(|| damage.problem());
        Task { id, status, created, updated, error, input, result, class, inherited }
    }
}

/// Reads at once.
const READS_INFLIGHT: usize = 16;
/// After so long without a single answer the rest is not asked for: then it is not one partition.
const SILENCE_MAX: Duration = Duration::from_secs(20);

const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// What reads of many things found, each for itself.
#[derive(Debug)]
pub struct Reads<K, T> {
    pub found: Vec<(K, T)>,
    /// These cannot be read, now or later.
    pub damaged: Vec<K>,
    /// These were not answered. The next look may be.
    pub silent: Vec<K>,
    pub answers: Answers,
}

impl<K, T> Default for Reads<K, T> {
    fn default() -> Self {
        Reads { found: Vec::new(), damaged: Vec::new(), silent: Vec::new(), answers: Answers::default() }
    }
}

impl<K, T> Reads<K, T> {
    /// What was found, unless nothing at all was answered.
    pub fn found(self) -> Result<Vec<(K, T)>> {
        self.answers.any().map(|()| self.found)
    }
}

/// Whether reads were answered.
#[derive(Debug, Default)]
pub struct Answers {
    some: bool,
    error: Option<Error>,
}

impl Answers {
    pub fn add(&mut self, other: Answers) {
        self.some |= other.some;
        self.error = self.error.take().or(other.error);
    }

    /// An error if there were reads and none was answered: whoever asks should know.
    pub fn any(self) -> Result<()> {
        self.error.filter(|_| !self.some).map_or(Ok(()), Err)
    }
}

/// Reads things, some at once, in their order. One that cannot be read, or whose partition does not answer, costs only
/// itself (SPEC 6.17); a partition that did not answer is not asked again here. `place` names the partition of a thing, and
/// the thing.
pub async fn read_each<'a, K, T>(
    what: &'static str,
    place: fn(&K) -> (String, String),
    reads: Vec<(K, BoxFuture<'a, Result<T>>)>,
) -> Reads<K, T> {
    let silence = Mutex::new((HashSet::new(), Instant::now()));
    let lock = || silence.lock().unwrap_or_else(PoisonError::into_inner);
    let each = |(key, read): (K, BoxFuture<'a, Result<T>>)| {
        let ((partition, name), lock) = (place(&key), &lock);
        async move {
            let is_asked = {
                let (partitions, heard) = &*lock();
                !partitions.contains(&partition) && heard.elapsed() < SILENCE_MAX
            };
            if !is_asked {
                return (
                    key,
                    name,
                    Err(Error::Unavailable("the reads before it were not answered".to_owned())),
                );
            }
            let read = read.await;
            match &read {
                Ok(_) | Err(Error::Corrupt(_)) => lock().1 = Instant::now(),
                Err(_) => drop(lock().0.insert(partition)),
            }
            (key, name, read)
        }
    };
    let reads: Vec<_> = reads.into_iter().map(each).collect();
    let mut reads = stream::iter(reads).buffered(READS_INFLIGHT);
    let mut told = Reads::default();
    while let Some((key, name, read)) = reads.next().await {
        match readable(what, || name.clone(), read) {
            Ok(Some(thing)) => told.found.push((key, thing)),
            Ok(None) => told.damaged.push(key),
            Err(error) => {
                tracing::debug!(what, name, %error, "cannot be read now and is left to the next look");
                told.silent.push(key);
                told.answers.error.get_or_insert(error);
            }
        }
    }
    told.answers.some = !told.found.is_empty() || !told.damaged.is_empty();
    if let Some(error) = &told.answers.error
        && may_log(what)
    {
        let (silent, read) = (told.silent.len(), told.found.len());
        tracing::warn!(what, silent, read, %error, "some cannot be read now and are left to the next look");
    }
    told
}

/// Looks are repeated every second, by several roles: a line now and then says enough.
fn may_log(what: &'static str) -> bool {
    static LOGGED: Mutex<Vec<(&str, Instant)>> = Mutex::new(Vec::new());
    let (mut logged, now) = (LOGGED.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
    logged.retain(|(_, at)| now.saturating_duration_since(*at) < LOGGED_EVERY);
    let may = logged.iter().all(|(known, _)| *known != what);
    if may {
        logged.push((what, now));
    }
    may
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::future::ready;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn silent() -> Result<()> {
        Err(Error::Unavailable("throttled".to_owned()))
    }

    fn place((partition, n): &(&'static str, u32)) -> (String, String) {
        ((*partition).to_owned(), n.to_string())
    }

    #[tokio::test]
    async fn a_partition_that_does_not_answer_costs_only_itself_and_is_asked_once_a_place() {
        let asked = AtomicU32::new(0);
        let ask = |told: Result<()>| {
            let asked = &asked;
            async move {
                tokio::task::yield_now().await;
                asked.fetch_add(1, Ordering::Relaxed);
                told
            }
            .boxed()
        };
        let throttled = (0..1_000).map(|n| (("throttled", n), ask(silent())));
        let others = (0..3).map(|n| {
            let told = if n == 1 { Err(Error::Corrupt("garbage".to_owned())) } else { Ok(()) };
            (("other", n), ask(told))
        });
        let told = read_each("thing", place, throttled.chain(others).collect()).await;
        assert_eq!(told.silent.len(), 1_000);
        assert_eq!(told.damaged, [("other", 1)]);
        assert_eq!(asked.into_inner(), READS_INFLIGHT as u32 + 3);
        assert_eq!(told.found(), Ok(vec![(("other", 0), ()), (("other", 2), ())]));
    }

    #[tokio::test]
    async fn only_where_nothing_is_answered_it_is_an_error() {
        let read = async |told: Vec<Result<()>>| {
            let told = told.into_iter().map(|told| (("a", 1), ready(told).boxed()));
            read_each("thing", place, told.collect()).await
        };
        assert_eq!(read(vec![silent(), silent()]).await.found(), Err(silent().unwrap_err()));
        assert_eq!(read(vec![]).await.found(), Ok(vec![]));
        let mut answers = read(vec![silent()]).await.answers;
        answers.add(Answers::default());
        answers.add(read(vec![Ok(())]).await.answers);
        assert_eq!(answers.any(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_storage_that_is_down_is_not_asked_for_all() {
        let asked = AtomicU32::new(0);
        let reads = (0..1_000).map(|n| {
            let asked = &asked;
            let read = async move {
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(SILENCE_MAX).await;
                silent()
            };
            (n, read.boxed())
        });
        let told = read_each("thing", |n: &u32| (n.to_string(), n.to_string()), reads.collect()).await;
        assert_eq!((told.silent.len(), asked.into_inner()), (1_000, READS_INFLIGHT as u32));
    }
}
