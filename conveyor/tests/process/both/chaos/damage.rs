//! Damage for real: behind the back of everything that runs, in the database file, or in the table and the queues.

use super::runs::Expected;
use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use conveyor_aws::{Clients, Settings};
use rusqlite::{Connection, params};
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Every message of the control queue is gone.
    ControlMessages,
    /// A run's queue is gone, with whatever was in it.
    Queue,
    /// Some messages of a run are gone.
    SomeRefs,
    /// A counter row is gone, or says something else: which one depends on the run.
    Counter,
}

impl Damage {
    pub const ALL: [Damage; 4] = [Damage::ControlMessages, Damage::Queue, Damage::SomeRefs, Damage::Counter];
}

/// What becomes of a counter row.
#[derive(Clone, Copy)]
enum Blow {
    Delete,
    /// So large, or so small, that no sum of it with anything is ever the total of a run.
    Add(i64),
}

fn blow(run: &Expected) -> Blow {
    match run.key.run.to_bytes()[15] % 3 {
        0 => Blow::Delete,
        1 => Blow::Add(10_000_000),
        _ => Blow::Add(-10_000_000),
    }
}

#[async_trait]
pub trait Damager: Send + Sync {
    /// Whether anything was hit.
    async fn strike(&self, damage: Damage, run: &Expected) -> bool;
}

pub struct InTheFile {
    pub database: PathBuf,
}

const FIRST_COUNTER: &str = "run_key = (SELECT run_key FROM runs WHERE run_id = ?1) AND worker =
    (SELECT worker FROM counters WHERE run_key = (SELECT run_key FROM runs WHERE run_id = ?1)
        AND worker <> zeroblob(16) LIMIT 1)";

#[async_trait]
impl Damager for InTheFile {
    async fn strike(&self, damage: Damage, run: &Expected) -> bool {
        let connection = Connection::open(&self.database).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
        let (id, queue) = (run.key.run.to_bytes(), format!("run-{}", run.key.run));
        let of_queue =
            "DELETE FROM messages WHERE queue_key = (SELECT queue_key FROM queues WHERE name = ?1)";
        let hit = match damage {
            Damage::ControlMessages => connection.execute(of_queue, ["control"]),
            Damage::Queue => connection.execute(of_queue, [queue]),
            Damage::SomeRefs => connection.execute(
                "DELETE FROM messages WHERE (queue_key, visible_ms, seq) IN
                    (SELECT queue_key, visible_ms, seq FROM messages
                     WHERE queue_key = (SELECT queue_key FROM queues WHERE name = ?1) LIMIT 5)",
                [queue],
            ),
            Damage::Counter => match blow(run) {
                Blow::Delete => {
                    connection.execute(&format!("DELETE FROM counters WHERE {FIRST_COUNTER}"), [id])
                }
                Blow::Add(by) => connection.execute(
                    &format!("UPDATE counters SET successful = successful + ?2 WHERE {FIRST_COUNTER}"),
                    params![id, by],
                ),
            },
        };
        hit.unwrap() > 0
    }
}

pub struct InTheServices {
    pub clients: Clients,
    pub settings: Settings,
}

impl InTheServices {
    async fn queue_url(&self, name: &str) -> Option<String> {
        let name = format!("{}-{name}", self.settings.queue_prefix);
        let found = self.clients.sqs.get_queue_url().queue_name(name).send().await.ok()?;
        found.queue_url().map(str::to_owned)
    }

    /// Takes messages off a queue, at most ten in one call, as long as there are some.
    async fn take(&self, name: &str, calls: usize) -> bool {
        let Some(url) = self.queue_url(name).await else { return false };
        let mut any = false;
        for _ in 0..calls {
            let received = self.clients.sqs.receive_message().queue_url(&url).max_number_of_messages(10);
            let Ok(received) = received.send().await else { break };
            if received.messages().is_empty() {
                break;
            }
            for message in received.messages() {
                let receipt = message.receipt_handle().unwrap();
                let delete = self.clients.sqs.delete_message().queue_url(&url).receipt_handle(receipt);
                any |= delete.send().await.is_ok();
            }
        }
        any
    }

    async fn strike_counter(&self, run: &Expected) -> bool {
        let (table, pk) = (&self.settings.table, format!("Job#{}", run.key.job));
        let text = |value: &str| AttributeValue::S(value.to_owned());
        let found = self
            .clients
            .dynamodb
            .query()
            .table_name(table)
            .key_condition_expression("pk = :pk AND begins_with(sk, :sk)")
            .expression_attribute_values(":pk", text(&pk))
            .expression_attribute_values(":sk", text(&format!("C#{}#", run.key.run)))
            .send()
            .await
            .unwrap();
        let sort_keys = found.items().iter().filter_map(|item| item["sk"].as_s().ok());
        let Some(sk) = sort_keys.into_iter().find(|sk| !sk.ends_with("correction")) else { return false };
        match blow(run) {
            Blow::Delete => {
                let delete = self.clients.dynamodb.delete_item().table_name(table);
                delete.key("pk", text(&pk)).key("sk", text(sk)).send().await.is_ok()
            }
            Blow::Add(by) => {
                let update = self.clients.dynamodb.update_item().table_name(table);
                let update = update.key("pk", text(&pk)).key("sk", text(sk)).update_expression("ADD s :by");
                let by = AttributeValue::N(by.to_string());
                update.expression_attribute_values(":by", by).send().await.is_ok()
            }
        }
    }
}

#[async_trait]
impl Damager for InTheServices {
    async fn strike(&self, damage: Damage, run: &Expected) -> bool {
        let queue = format!("run-{}", run.key.run);
        match damage {
            Damage::ControlMessages => self.take("control", 10).await,
            Damage::SomeRefs => self.take(&queue, 1).await,
            Damage::Queue => match self.queue_url(&queue).await {
                Some(url) => self.clients.sqs.delete_queue().queue_url(url).send().await.is_ok(),
                None => false,
            },
            Damage::Counter => self.strike_counter(run).await,
        }
    }
}
