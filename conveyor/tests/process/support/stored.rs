//! Everything that a server keeps: files and rows of the embedded database, or objects and rows of the services.

use super::{DEADLINE, on_aws};
use aws_sdk_dynamodb::config::{Credentials, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use conveyor_aws::{Clients, Settings};
use conveyor_aws_servers::{Combination, Environment};
use conveyor_domain::{JobId, RunId};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::collections::HashMap;
use std::path::Path;

/// What something is called, and its bytes.
pub type Kept = Vec<(String, Vec<u8>)>;

/// All that the server of this folder keeps, on either backend.
pub async fn everything(dir: &Path) -> Kept {
    if !on_aws() {
        return files(dir);
    }
    let services = Services::of_cluster(dir).await;
    let mut kept = services.objects().await;
    kept.extend(
        services.rows().await.iter().map(|row| (format!("{:?}", row.get("sk")), text(row).into_bytes())),
    );
    kept
}

fn files(dir: &Path) -> Kept {
    let (mut files, mut kept) = (vec![dir.to_owned()], Kept::new());
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()));
        } else {
            kept.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    kept
}

/// Damages the one object that has this text in it.
pub async fn change_object(dir: &Path, text: &str, change: impl FnOnce(&mut Vec<u8>, usize)) {
    let services = if on_aws() { Some(Services::of_cluster(dir).await) } else { None };
    let kept = match &services {
        Some(services) => services.objects().await,
        None => files(&dir.join("blobs")),
    };
    let at = |bytes: &[u8]| bytes.windows(text.len()).position(|window| window == text.as_bytes());
    let mut found = kept.into_iter().filter_map(|(name, bytes)| Some((at(&bytes)?, name, bytes)));
    let (at, name, mut bytes) = found.next().expect("an object with that text");
    assert!(found.next().is_none(), "{text:?} is in several objects");
    change(&mut bytes, at);
    match services {
        Some(Services { name: bucket, clients }) => {
            clients.s3.put_object().bucket(bucket).key(name).body(bytes.into()).send().await.unwrap();
        }
        None => std::fs::write(name, bytes).unwrap(),
    }
}

/// What is left of a job that was removed, by name: rows, and files or objects. A tombstone is meant to stay.
pub async fn remains(dir: &Path, job: &str, run: &str) -> Vec<String> {
    if !on_aws() {
        let objects = Some(dir.join("blobs/jobs").join(job)).filter(|folder| folder.exists());
        let objects = objects.map(|folder| folder.display().to_string());
        return objects.into_iter().chain(database_rows(dir, job, run)).collect();
    }
    let services = Services::of_cluster(dir).await;
    let is_of_it = |text: &str| text.contains(job) || text.contains(run);
    let objects = services.objects().await.into_iter().map(|(key, _)| key).filter(|key| is_of_it(key));
    let rows = services.rows().await;
    let is_tombstone =
        |row: &Row| row.get("g2pk").is_some_and(|pk| pk.as_s().is_ok_and(|pk| pk == "tombstone"));
    let rows = rows.iter().filter(|row| !is_tombstone(row)).map(text).filter(|text| is_of_it(text));
    objects.chain(rows).collect()
}

/// Rows that name their run or queue by number, and whose run or queue is gone.
const ORPHANS: [&str; 4] = [
    "tasks WHERE task_key >> 32 NOT IN (SELECT run_key FROM runs)",
    "attempts WHERE task_key >> 32 NOT IN (SELECT run_key FROM runs)",
    "counters WHERE run_key NOT IN (SELECT run_key FROM runs)",
    "messages WHERE queue_key NOT IN (SELECT queue_key FROM queues)",
];

/// The rows of the embedded database that name a job or its run, and orphans.
fn database_rows(dir: &Path, job: &str, run: &str) -> Vec<String> {
    let database = Connection::open(dir.join("conveyor.db")).unwrap();
    database.busy_timeout(DEADLINE).unwrap();
    let job_id = job.parse::<JobId>().unwrap().to_bytes();
    let run_id = run.parse::<RunId>().unwrap().to_bytes();
    let is_of_it = |value: ValueRef<'_>| match value {
        ValueRef::Text(text) => std::str::from_utf8(text).is_ok_and(|t| t.contains(job) || t.contains(run)),
        ValueRef::Blob(bytes) => bytes == job_id || bytes == run_id,
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => false,
    };
    let tables = "SELECT name FROM sqlite_master
        WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'tombstones'";
    let mut tables = database.prepare(tables).unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    let mut found = Vec::new();
    for table in tables {
        let mut rows = database.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            if (0..columns).any(|column| is_of_it(row.get_ref_unwrap(column))) {
                found.push(format!("{table}: {row:?}"));
            }
        }
    }
    for rows in ORPHANS {
        let count = format!("SELECT count(*) FROM {rows}");
        let count: u32 = database.query_row(&count, [], |row| row.get(0)).unwrap();
        found.extend((count > 0).then(|| format!("{count} {rows}")));
    }
    found
}

type Row = HashMap<String, AttributeValue>;

fn text(row: &Row) -> String {
    format!("{row:?}")
}

/// What the table, the queues and the bucket of a cluster are called.
pub fn cluster_name(dir: &Path) -> String {
    let name = std::fs::read_to_string(dir.join("cluster-name")).unwrap();
    format!("cluster-{}", &name[..16])
}

/// The table and the bucket of a cluster.
struct Services {
    name: String,
    clients: Clients,
}

impl Services {
    async fn of_cluster(dir: &Path) -> Services {
        let name = cluster_name(dir);
        let servers = || Environment::shared(Combination::Default).unwrap();
        let environment = tokio::task::spawn_blocking(servers).await.unwrap();
        let clients = clients(&environment, &Settings::named(&name)).await;
        Services { name, clients }
    }

    async fn rows(&self) -> Vec<Row> {
        let pages = self.clients.dynamodb.scan().table_name(&self.name).into_paginator().items().send();
        pages.collect::<Result<Vec<Row>, _>>().await.unwrap()
    }

    async fn objects(&self) -> Kept {
        let s3 = &self.clients.s3;
        let mut pages = s3.list_objects_v2().bucket(&self.name).into_paginator().send();
        let mut kept = Kept::new();
        while let Some(page) = pages.next().await {
            for key in page.unwrap().contents().iter().filter_map(|object| object.key()) {
                // It may be removed between the list and the read.
                let Ok(object) = s3.get_object().bucket(&self.name).key(key).send().await else { continue };
                kept.push((key.to_owned(), object.body.collect().await.unwrap().to_vec()));
            }
        }
        kept
    }
}

/// The clients that roles have, but for whom they ask.
pub async fn clients(environment: &Environment, settings: &Settings) -> Clients {
    let Clients { dynamodb, sqs, s3 } = Clients::connect(settings).await;
    let (id, secret) = (Environment::ACCESS_KEY_ID, Environment::SECRET_ACCESS_KEY);
    let credentials = || Credentials::new(id, secret, None, None, "tests");
    let region = || Region::new(Environment::REGION);
    macro_rules! at {
        ($client:expr, $url:expr) => {{
            let config = $client.config().to_builder().endpoint_url($url);
            config.credentials_provider(credentials()).region(region())
        }};
    }
    Clients {
        dynamodb: aws_sdk_dynamodb::Client::from_conf(at!(dynamodb, &environment.dynamodb_url).build()),
        sqs: aws_sdk_sqs::Client::from_conf(at!(sqs, &environment.sqs_url).build()),
        s3: aws_sdk_s3::Client::from_conf(at!(s3, &environment.s3_url).force_path_style(true).build()),
    }
}
