//! Everything that a server keeps, byte by byte.

use super::on_aws;
use aws_sdk_dynamodb::config::{Credentials, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use conveyor_aws::{Clients, Settings};
use conveyor_aws_servers::{Combination, Environment};
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

/// What is left of a job that was removed, by name: files, or rows and objects. A tombstone is meant to stay.
pub async fn remains(dir: &Path, job: &str, run: &str) -> Vec<String> {
    if !on_aws() {
        let objects = dir.join("blobs/jobs").join(job);
        return if objects.exists() { vec![objects.display().to_string()] } else { Vec::new() };
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

type Row = HashMap<String, AttributeValue>;

fn text(row: &Row) -> String {
    format!("{row:?}")
}

/// The table and the bucket of a cluster.
struct Services {
    name: String,
    clients: Clients,
}

impl Services {
    async fn of_cluster(dir: &Path) -> Services {
        let name = std::fs::read_to_string(dir.join("cluster-name")).unwrap();
        let name = format!("cluster-{}", &name[..16]);
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
