//! A dump of a table and a bucket. No message of any queue is loaded: rows are truth, queues are hints (SPEC 3.4).

use super::embedded::RECORDS;
use super::fixture::{Age, Fixture};
use super::outside::Outside;
use super::times::moved;
use super::{Taken, everything_is_there};
use crate::support::{self, Process};
use aws_sdk_dynamodb::config::{Credentials, Region};
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use conveyor_aws::{Clients, Settings, Timeouts};
use conveyor_aws_servers::{Combination, Environment};
use futures::stream::{self, StreamExt};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

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
    let clients = clients(&environment).await;
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

fn has_every_kind(fixture: &Fixture) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for row in rows(fixture, 0) {
        *counts.entry(kind(&row)).or_default() += 1;
    }
    // Every row of the table in SPEC 5.3. Parts of an upload are in the bucket alone, and no dump has them.
    let jobs =
        ["Job.A", "Job.R", "Job.C", "Job.C.correction", "Job.E", "Job.T", "Job.H", "Job.M", "Job.A.gone"];
    let others = ["Budget", "Budgets", "Keys", "Letters", "Upload.A", "Upload.J"].map(str::to_owned);
    let records = RECORDS.map(|kind| format!("Rec.{kind}"));
    let spread = ["Job.T.sharded", "Job.R.hole"].map(str::to_owned);
    for kind in jobs.map(str::to_owned).into_iter().chain(others).chain(records).chain(spread) {
        assert!(counts.contains_key(&kind), "no {kind} among {counts:?}");
    }
}

/// What a row is.
fn kind(row: &Value) -> String {
    let text = |name: &str| row[name]["S"].as_str().unwrap();
    let (pk, sk) = (text("pk").split('#').collect::<Vec<_>>(), text("sk").split('#').collect::<Vec<_>>());
    match (pk[0], sk[0]) {
        ("Rec", _) => format!("Rec.{}", pk[1]),
        ("Job", "C") if sk[2] == "correction" => "Job.C.correction".to_owned(),
        ("Job", "A") if row.get("gone").is_some() => "Job.A.gone".to_owned(),
        ("Job", "R") if row.get("holes").is_some() => "Job.R.hole".to_owned(),
        ("Job", "T") if pk.len() > 2 => "Job.T.sharded".to_owned(),
        (first @ ("Job" | "Upload"), second) => format!("{first}.{second}"),
        (first, _) => first.to_owned(),
    }
}

/// The rows of the dump, as of another time.
fn rows(fixture: &Fixture, by_ms: i64) -> Vec<Value> {
    let dump = std::fs::read_to_string(fixture.path("table.jsonl")).unwrap();
    let row = |line: &str| {
        let mut row: Value = serde_json::from_str(&moved(line, fixture.made_ms(), by_ms)).unwrap();
        // The time to live is in seconds.
        if let Some(seconds) = row["ttl"]["N"].as_str().and_then(|n| n.parse::<i64>().ok()) {
            row["ttl"]["N"] = (seconds + by_ms / 1000).to_string().into();
        } else {
            row.as_object_mut().unwrap().remove("ttl");
        }
        row
    };
    dump.lines().map(row).collect()
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

/// Clients of the servers, with the HTTP client of the product: the SDK has none of its own here.
async fn clients(environment: &Environment) -> Clients {
    let settings = Settings {
        table: String::new(),
        queue_prefix: String::new(),
        bucket: String::new(),
        task_shards_min: 1,
        queue_empty_after: Duration::ZERO,
        timeouts: Timeouts::default(),
    };
    let Clients { dynamodb, sqs, s3 } = Clients::connect(&settings).await;
    let (id, secret) = (Environment::ACCESS_KEY_ID, Environment::SECRET_ACCESS_KEY);
    let credentials = || Credentials::new(id, secret, None, None, "tests");
    let region = || Region::new(Environment::REGION);
    let table = dynamodb.config().to_builder().endpoint_url(&environment.dynamodb_url);
    let table = table.credentials_provider(credentials()).region(region());
    let bucket = s3.config().to_builder().endpoint_url(&environment.s3_url).force_path_style(true);
    let bucket = bucket.credentials_provider(credentials()).region(region());
    Clients {
        dynamodb: aws_sdk_dynamodb::Client::from_conf(table.build()),
        sqs,
        s3: aws_sdk_s3::Client::from_conf(bucket.build()),
    }
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

#[test]
fn a_table_dump_has_every_kind_of_row() {
    has_every_kind(&Fixture::aws());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_taken_over_after_a_crash_and_the_loss_of_every_message() {
    take_over(Age::Fresh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_was_left_alone_for_a_year_is_taken_over() {
    take_over(Age::Old).await;
}
