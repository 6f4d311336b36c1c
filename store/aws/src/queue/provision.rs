//! The control queues: made once, before anything runs (SPEC 5.5).

use super::answer;
use super::names::Names;
use super::{RETENTION, attributes};
use crate::Settings;
use crate::error::unavailable;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use conveyor_domain::{QueueName, limits};
use conveyor_store::{Error, Result};
use serde_json::{Value, json};
use std::collections::HashMap;

type Attributes = HashMap<QueueAttributeName, String>;

/// Whether SQS would take the names, also those of runs.
pub fn check_names(settings: &Settings) -> Result<()> {
    Names::new(&settings.queue_prefix).check()
}

/// Safe to repeat: a queue that is there gets the attributes that it should have, and keeps its messages. Whether any had to
/// be made.
pub async fn provision(sqs: &Client, settings: &Settings) -> Result<bool> {
    let names = Names::new(&settings.queue_prefix);
    names.check()?;
    let mut created = false;
    // What is dead has to have a place before anything can die.
    for queue in [QueueName::ControlDead, QueueName::Control] {
        let mut wanted = attributes(RETENTION, limits::VISIBILITY);
        if let Some((dead, max_receives)) = queue.dead_letters() {
            let target = arn(sqs, &names.of(dead)).await?;
            let policy = json!({ "deadLetterTargetArn": target, "maxReceiveCount": max_receives });
            wanted.insert(QueueAttributeName::RedrivePolicy, policy.to_string());
        }
        created |= put(sqs, &names.of(queue), wanted).await?;
    }
    Ok(created)
}

/// Whether it had to be made.
async fn put(sqs: &Client, name: &str, wanted: Attributes) -> Result<bool> {
    if let Some(url) = find(sqs, name).await? {
        return set(sqs, &url, wanted).await.map(|()| false);
    }
    match sqs.create_queue().queue_name(name).set_attributes(Some(wanted.clone())).send().await {
        Ok(_) => Ok(true),
        // Somebody else was quicker, and wanted something else.
        Err(error) if answer::is_taken(&error) => {
            set(sqs, &must_find(sqs, name).await?, wanted).await.map(|()| false)
        }
        Err(error) => Err(unavailable("CreateQueue", &error)),
    }
}

async fn find(sqs: &Client, name: &str) -> Result<Option<String>> {
    match sqs.get_queue_url().queue_name(name).send().await {
        Ok(found) => Ok(found.queue_url),
        Err(error) if answer::is_missing(&error) => Ok(None),
        Err(error) => Err(unavailable("GetQueueUrl", &error)),
    }
}

async fn must_find(sqs: &Client, name: &str) -> Result<String> {
    let missing = || Error::Unavailable(format!("the queue {name} was made, but is not there yet"));
    find(sqs, name).await?.ok_or_else(missing)
}

async fn look(sqs: &Client, url: &str, names: Vec<QueueAttributeName>) -> Result<Attributes> {
    let look = sqs.get_queue_attributes().queue_url(url).set_attribute_names(Some(names));
    let found = look.send().await.map_err(|error| unavailable("GetQueueAttributes", &error))?;
    Ok(found.attributes.unwrap_or_default())
}

async fn arn(sqs: &Client, name: &str) -> Result<String> {
    let url = must_find(sqs, name).await?;
    let mut found = look(sqs, &url, vec![QueueAttributeName::QueueArn]).await?;
    let missing = || Error::Unavailable(format!("the queue {name} has no ARN"));
    found.remove(&QueueAttributeName::QueueArn).ok_or_else(missing)
}

/// Attributes that are as they should be are not written: a change takes a minute to reach all of SQS.
async fn set(sqs: &Client, url: &str, wanted: Attributes) -> Result<()> {
    let found = look(sqs, url, wanted.keys().cloned().collect()).await?;
    let same = |(name, value): (&QueueAttributeName, &String)| {
        found.get(name).is_some_and(|found| plain(found) == plain(value))
    };
    if wanted.iter().all(same) {
        return Ok(());
    }
    let set = sqs.set_queue_attributes().queue_url(url).set_attributes(Some(wanted));
    set.send().await.map_err(|error| unavailable("SetQueueAttributes", &error))?;
    Ok(())
}

/// A policy is JSON, with numbers as text or not, in any order.
fn plain(value: &str) -> Value {
    match serde_json::from_str(value) {
        Ok(Value::Object(fields)) => {
            let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            fields.into_iter().map(|(name, value)| (name, Value::String(text(value)))).collect()
        }
        Ok(_) | Err(_) => Value::String(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_compared_by_what_they_say() {
        let ours = json!({ "deadLetterTargetArn": "a", "maxReceiveCount": 5 }).to_string();
        assert_eq!(plain(&ours), plain(r#"{"maxReceiveCount":"5", "deadLetterTargetArn":"a"}"#));
        assert_ne!(plain(&ours), plain(r#"{"maxReceiveCount":"6", "deadLetterTargetArn":"a"}"#));
        assert_eq!(plain("60"), plain("60"));
        assert_ne!(plain("60"), plain("61"));
    }
}
