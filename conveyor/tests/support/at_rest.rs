//! Everything that a server keeps, byte by byte.

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use conveyor_aws_servers::{Combination, Environment};
use std::path::Path;

/// What something is called, and its bytes.
pub type Kept = Vec<(String, Vec<u8>)>;

pub fn in_files(dir: &Path) -> Kept {
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

/// Rows and objects of the cluster of this folder.
pub async fn in_aws(dir: &Path) -> Kept {
    let name = std::fs::read_to_string(dir.join("cluster-name")).unwrap();
    let name = format!("cluster-{}", &name[..16]);
    let servers = || Environment::shared(Combination::Default).unwrap();
    let environment = tokio::task::spawn_blocking(servers).await.unwrap();
    let (id, secret) = (Environment::ACCESS_KEY_ID, Environment::SECRET_ACCESS_KEY);
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(Environment::REGION))
        .credentials_provider(Credentials::new(id, secret, None, None, "tests"))
        .endpoint_url(&environment.dynamodb_url)
        .build();
    let rows = aws_sdk_dynamodb::Client::from_conf(config).scan().table_name(&name).send().await.unwrap();
    let mut kept: Kept = rows
        .items()
        .iter()
        .map(|row| (format!("{:?}", row.get("sk")), format!("{row:?}").into_bytes()))
        .collect();
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(Environment::REGION))
        .credentials_provider(Credentials::new(id, secret, None, None, "tests"))
        .endpoint_url(&environment.s3_url)
        .force_path_style(true)
        .build();
    let s3 = aws_sdk_s3::Client::from_conf(config);
    let objects = s3.list_objects_v2().bucket(&name).send().await.unwrap();
    for key in objects.contents().iter().filter_map(|object| object.key()) {
        let body = s3.get_object().bucket(&name).key(key).send().await.unwrap().body;
        kept.push((key.to_owned(), body.collect().await.unwrap().to_vec()));
    }
    kept
}
