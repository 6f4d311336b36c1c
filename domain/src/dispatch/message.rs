//! Queues and what travels in them (SPEC 7).

use crate::{InvalidId, JobId, RunId, TaskId, limits};
use std::fmt;
use std::str::FromStr;

/// The name of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueName {
    Run(RunId),
    Control,
    ControlDead,
}

impl QueueName {
    /// Where a message goes that was received too often, and how often that is.
    pub fn dead_letters(self) -> Option<(QueueName, u32)> {
        match self {
            QueueName::Control => Some((QueueName::ControlDead, limits::CONTROL_MAX_RECEIVES)),
            QueueName::Run(_) | QueueName::ControlDead => None,
        }
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueName::Run(run) => write!(f, "run-{run}"),
            QueueName::Control => f.write_str("control"),
            QueueName::ControlDead => f.write_str("control-dead"),
        }
    }
}

/// A message that says "this task may need work". Its job and run are those of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRef {
    pub task: TaskId,
    pub task_shard_count: u32,
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1:{}:{}", self.task, self.task_shard_count)
    }
}

impl FromStr for TaskRef {
    type Err = InvalidId;
    fn from_str(s: &str) -> Result<Self, InvalidId> {
        let rest = s.strip_prefix("1:").ok_or(InvalidId)?;
        let (task, shards) = rest.split_once(':').ok_or(InvalidId)?;
        Ok(TaskRef { task: task.parse()?, task_shard_count: shards.parse().map_err(|_| InvalidId)? })
    }
}

/// A message of the control queue: "this run's list may need to be read". The log on the run says how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestRef {
    pub job: JobId,
    pub run: RunId,
    /// How far the ingest was when this was sent, as its log counts progress. A message that came back although there was
    /// progress since is not at fault, and is sent anew.
    pub progress: u32,
}

impl fmt::Display for IngestRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1:ingest:{}:{}:{}", self.job, self.run, self.progress)
    }
}

impl FromStr for IngestRef {
    type Err = InvalidId;
    fn from_str(s: &str) -> Result<Self, InvalidId> {
        let mut parts = s.strip_prefix("1:ingest:").ok_or(InvalidId)?.split(':');
        let mut next = || parts.next().ok_or(InvalidId);
        let found = IngestRef {
            job: next()?.parse()?,
            run: next()?.parse()?,
            progress: next()?.parse().map_err(|_| InvalidId)?,
        };
        if parts.next().is_none() { Ok(found) } else { Err(InvalidId) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn refs_round_trip(run: [u8; 16], index: u32, shards in 1u32..65) {
            let r = TaskRef { task: TaskId::of(RunId::from_bytes(run), index), task_shard_count: shards };
            prop_assert_eq!(r.to_string().parse::<TaskRef>().unwrap(), r);
        }

        #[test]
        fn ingest_refs_round_trip(job: [u8; 16], run: [u8; 16], progress: u32) {
            let r = IngestRef { job: JobId::from_bytes(job), run: RunId::from_bytes(run), progress };
            prop_assert_eq!(r.to_string().parse::<IngestRef>().unwrap(), r);
        }

        #[test]
        fn parsing_never_panics(s in "\\PC{0,60}") {
            let _ = s.parse::<TaskRef>();
            let _ = s.parse::<IngestRef>();
        }
    }
}
