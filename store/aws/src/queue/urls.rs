//! Where the queues are. SQS knows them by URL, which it is asked for once.

use super::answer;
use super::names::Names;
use super::{QUEUES_KNOWN_MAX, RETENTION, attributes};
use crate::error::{missing, unavailable};
use aws_sdk_sqs::Client;
use conveyor_domain::{QueueName, limits};
use conveyor_store::Result;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub struct Urls {
    sqs: Client,
    names: Names,
    known: Mutex<HashMap<QueueName, Arc<str>>>,
}

impl Urls {
    pub fn new(sqs: Client, names: Names) -> Urls {
        Urls { sqs, names, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<QueueName, Arc<str>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, queue: QueueName, url: String) -> Arc<str> {
        let url: Arc<str> = url.into();
        let mut known = self.known();
        if known.len() >= QUEUES_KNOWN_MAX {
            // Runs come and go, and nobody says which are over. Those that are not are asked for once more.
            known.clear();
        }
        known.insert(queue, url.clone());
        url
    }

    pub fn forget(&self, queue: QueueName) {
        self.known().remove(&queue);
    }

    /// The URL of a queue; `None` for the queue of a run that is not there.
    pub async fn find(&self, queue: QueueName) -> Result<Option<Arc<str>>> {
        if let Some(url) = self.known().get(&queue) {
            return Ok(Some(url.clone()));
        }
        match self.ask(queue).await? {
            Some(url) => Ok(Some(url)),
            None => self.gone(queue).map(|()| None),
        }
    }

    /// The queue turned out not to be there. That is how the queue of a run begins and ends; the others are made once.
    pub fn gone(&self, queue: QueueName) -> Result<()> {
        self.forget(queue);
        match queue {
            QueueName::Run(_) => Ok(()),
            QueueName::Control | QueueName::ControlDead => Err(missing("queue", &self.names.of(queue))),
        }
    }

    async fn ask(&self, queue: QueueName) -> Result<Option<Arc<str>>> {
        match self.sqs.get_queue_url().queue_name(self.names.of(queue)).send().await {
            Ok(found) => Ok(Some(self.keep(queue, found.queue_url.unwrap_or_default()))),
            Err(error) if answer::is_missing(&error) => Ok(None),
            Err(error) => Err(unavailable("GetQueueUrl", &error)),
        }
    }

    pub async fn find_or_create(&self, queue: QueueName) -> Result<Arc<str>> {
        match self.find(queue).await? {
            Some(url) => Ok(url),
            None => self.create(queue).await,
        }
    }

    /// Makes the queue of a run. Others may do so at the same time: all get the same one.
    pub async fn create(&self, queue: QueueName) -> Result<Arc<str>> {
        self.gone(queue)?;
        let create = self
            .sqs
            .create_queue()
            .queue_name(self.names.of(queue))
            .set_attributes(Some(attributes(RETENTION, limits::VISIBILITY)))
            .set_tags(tags(queue));
        let error = match create.send().await {
            Ok(created) => return Ok(self.keep(queue, created.queue_url.unwrap_or_default())),
            Err(error) => error,
        };
        // Another release made it, with other attributes. It is as good.
        if answer::is_taken(&error)
            && let Some(url) = self.ask(queue).await?
        {
            return Ok(url);
        }
        // A name that was in use less than a minute ago is refused, as the same answer.
        Err(unavailable("CreateQueue", &error))
    }
}

/// For whoever finds a queue and wonders.
fn tags(queue: QueueName) -> Option<HashMap<String, String>> {
    match queue {
        QueueName::Run(run) => Some(HashMap::from([("conveyor:run".to_owned(), run.to_string())])),
        QueueName::Control | QueueName::ControlDead => None,
    }
}
