//! A dump of a table and a bucket. No message of any queue is loaded: rows are truth, queues are hints (SPEC 3.4).

use super::dump::rows;
use super::fixture::{Age, Fixture};
use super::outside::Outside;
use super::{Taken, everything_is_there};
use crate::support::{self, Process, stored};
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use conveyor_aws::Settings;
use conveyor_aws_servers::{Combination, Environment};
use futures::stream::{self, StreamExt};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROLES: [&str; 4] = ["api", "ingest", "worker", "sweeper"];
/// What `BatchWriteItem` takes at once.
const BATCH: usize = 25;
const WRITES_MAX: usize = 8;

async fn take_over(age: Age) {
    let environment = tokio::task::spawn_blocking(|| Environment::shared(Combination::Default)).await;
    let environment = environment.unwrap().unwrap();
    let fixture = Fixture::aws();
    let name = format!("takeover-{age:?}-{}", std::process::id()).to_lowercase();
    let place = ["--aws-table", &name, "--aws-queue-prefix", &name, "--aws-bucket", &name];
    let mut provision = support::conveyor();
    provision.arg("provision").args(place).envs(environment.variables());
    let provisioned = support::run(provision);
    assert!(provisioned.status.success(), "{provisioned:?}");
    let clients = stored::clients(&environment, &Settings::named(&name)).await;
    load_rows(&clients.dynamodb, &fixture, age, &name).await;
    load_objects(&clients.s3, &fixture, &name).await;
    let outside = Outside::start().await;
    let start = |role: &str| {
        let mut command = support::conveyor();
        command.args([role, "--backend", "aws", "--listen", "127.0.0.1:0"]).args(place);
        command.arg("--data-dir").arg(fixture.path("data")).envs(environment.variables());
        command.args(["--secret-key", fixture.text("/settings/secret_key")]);
        command.args([
            "--api-key",
            fixture.text("/keys/alice"),
            "--operator-key",
            fixture.text("/operator_key"),
        ]);
        command.args(["--gateway-url", &outside.url, "--allow-http-webhooks"]);
        command.args(["--visibility-ms", "4000", "--aws-queue-empty-after-ms", "2000"]);
        command.env("CONVEYOR_LOG", "error").env("AWS_ENDPOINT_URL_SFN", &outside.url);
        command
    };
    let commands: Vec<Command> = ROLES.iter().map(|role| start(role)).collect();
    let started = || commands.into_iter().map(Process::start).collect::<Vec<_>>();
    let roles = tokio::task::block_in_place(started);
    let taken = Taken { fixture, age, outside, url: roles[0].url.clone() };
    everything_is_there(&taken).await;
}

fn attribute(value: &Value) -> AttributeValue {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    let text = || value.as_str().unwrap().to_owned();
    match kind.as_str() {
        "S" => AttributeValue::S(text()),
        "N" => AttributeValue::N(text()),
        "BOOL" => AttributeValue::Bool(value.as_bool().unwrap()),
        "NULL" => AttributeValue::Null(true),
        "L" => AttributeValue::L(value.as_array().unwrap().iter().map(attribute).collect()),
        "M" => AttributeValue::M(item(value)),
        other => panic!("an attribute of kind {other}"),
    }
}

fn item(row: &Value) -> HashMap<String, AttributeValue> {
    row.as_object().unwrap().iter().map(|(name, value)| (name.clone(), attribute(value))).collect()
}

async fn load_rows(client: &aws_sdk_dynamodb::Client, fixture: &Fixture, age: Age, table: &str) {
    let rows = rows(fixture, fixture.shift_ms(age));
    let write = |row: &Value| {
        let put = PutRequest::builder().set_item(Some(item(row))).build().unwrap();
        WriteRequest::builder().put_request(put).build()
    };
    let batches = rows.chunks(BATCH).map(|rows| rows.iter().map(write).collect::<Vec<_>>());
    stream::iter(batches)
        .for_each_concurrent(WRITES_MAX, |mut batch| async {
            while !batch.is_empty() {
                let answer = client.batch_write_item().request_items(table, batch).send().await.unwrap();
                batch = answer.unprocessed_items.and_then(|mut left| left.remove(table)).unwrap_or_default();
            }
        })
        .await;
}

async fn load_objects(client: &aws_sdk_s3::Client, fixture: &Fixture, bucket: &str) {
    let root = fixture.path("objects");
    stream::iter(files(&root))
        .for_each_concurrent(WRITES_MAX, |path| {
            let root = &root;
            async move {
                let key = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                let body = std::fs::read(&path).unwrap();
                client.put_object().bucket(bucket).key(key).body(body.into()).send().await.unwrap();
            }
        })
        .await;
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_taken_over_after_a_crash_and_the_loss_of_every_message() {
    take_over(Age::Fresh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_was_left_alone_for_a_year_is_taken_over() {
    take_over(Age::Old).await;
}
