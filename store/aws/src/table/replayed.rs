//! Rows of a run that replays another (SPEC 6.19): to be done again, or written with the end that an earlier run brought about.

use super::insert::{CALLS_INFLIGHT, RowPlace, STATEMENTS_MAX};
use super::item::{json, number, text};
use super::jobs::READS_INFLIGHT;
use super::outcome::settled_until;
use super::tasks::{decode_task, status_number};
use super::{Table, keys};
use aws_sdk_dynamodb::types::{AttributeValue, BatchStatementRequest};
use conveyor_domain::job::rerun::Inherited;
use conveyor_domain::{FailureClass, InheritedEnd, ReplayedTask, Task, TaskId, TaskStatus, Timestamp};
use conveyor_store::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};

impl Table {
    /// Writes the rows that are not there yet, and returns all of them as they are there: what somebody else wrote before
    /// stays, and is what counts.
    pub async fn insert_replayed(
        &self,
        place: RowPlace,
        tasks: Vec<ReplayedTask>,
        now: Timestamp,
    ) -> Result<Vec<ReplayedTask>> {
        let statements: Vec<BatchStatementRequest> =
            tasks.iter().map(|task| self.replayed_statement(place, task, now)).collect::<Result<_>>()?;
        let calls: Vec<_> = statements.chunks(STATEMENTS_MAX).map(<[_]>::to_vec).collect();
        let answers: Vec<Vec<usize>> =
            stream::iter(calls.into_iter().map(|batch| self.insert_or_find(batch)))
                .buffered(CALLS_INFLIGHT)
                .try_collect()
                .await?;
        let found = answers
            .into_iter()
            .enumerate()
            .flat_map(|(call, places)| places.into_iter().map(move |at| call * STATEMENTS_MAX + at));
        let mut tasks = tasks;
        let reads = found.map(|at| {
            let index = tasks[at].index;
            async move { Ok::<_, Error>((at, self.replayed_row(place, index).await?)) }
        });
        let reads: Vec<_> = reads.collect();
        let found: Vec<(usize, ReplayedTask)> =
            stream::iter(reads).buffered(READS_INFLIGHT).try_collect().await?;
        for (at, task) in found {
            tasks[at] = task;
        }
        Ok(tasks)
    }

    async fn replayed_row(&self, place: RowPlace, index: u32) -> Result<ReplayedTask> {
        let RowPlace { key, seed, shards } = place;
        let item = self.get(&keys::task(key.job, shards, key.run, TaskId::of(seed, index))).await?;
        let item = item.ok_or_else(|| Error::Unavailable("a row is not there any more".to_owned()))?;
        as_replayed(decode_task(&item)?)
    }

    fn replayed_statement(
        &self,
        place: RowPlace,
        task: &ReplayedTask,
        now: Timestamp,
    ) -> Result<BatchStatementRequest> {
        let RowPlace { key, seed, shards } = place;
        let row = keys::task(key.job, shards, key.run, TaskId::of(seed, task.index));
        let mut attributes: Vec<(&str, AttributeValue)> = vec![
            ("pk", text(row.pk)),
            ("sk", text(row.sk)),
            ("att", number(0)),
            ("cl", number(0)),
            ("nb", number(0)),
            ("ca", number(now.0)),
            ("inp", json(&task.input)?),
        ];
        match &task.inherited {
            None => attributes.push(("st", number(0))),
            Some(Inherited { from, end }) => {
                let status = status_number(end.outcome().status());
                attributes.extend([
                    ("st", number(status)),
                    ("inh", json(from)?),
                    ("ttl", settled_until(now)),
                ]);
                match end {
                    InheritedEnd::Successful(result) => attributes.push(("res", json(result)?)),
                    InheritedEnd::Failed { class, problem } => {
                        attributes.extend([("err", json(problem)?), ("fc", number(*class as usize))]);
                    }
                }
            }
        }
        let names: Vec<String> = attributes.iter().map(|(name, _)| format!("'{name}': ?")).collect();
        let values = attributes.into_iter().map(|(_, value)| value).collect();
        BatchStatementRequest::builder()
            .statement(format!("INSERT INTO \"{}\" VALUE {{{}}}", self.name, names.join(", ")))
            .set_parameters(Some(values))
            .build()
            .map_err(|e| Error::Corrupt(e.to_string()))
    }
}

/// A row that is there. One that was begun in the meantime is one that is done again.
fn as_replayed(task: Task) -> Result<ReplayedTask> {
    let index = task.id.index();
    let inherited = match (task.inherited, task.status, task.result, task.error) {
        (None, _, _, _) => None,
        (Some(from), TaskStatus::Successful, Some(result), _) => {
            Some(Inherited { from, end: InheritedEnd::Successful(result) })
        }
        (Some(from), TaskStatus::Failed, _, Some(problem)) => {
            let class = task.class.unwrap_or(FailureClass::Other);
            Some(Inherited { from, end: InheritedEnd::Failed { class, problem } })
        }
        (Some(_), _, _, _) => return Err(Error::Corrupt("an inherited row without its end".to_owned())),
    };
    Ok(ReplayedTask { index, input: task.input, inherited })
}
