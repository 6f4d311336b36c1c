//! Nothing that a caller keeps secret is stored in the clear (SPEC 13): every file of the data directory is searched.

use crate::world::{Answer, KEY, World};
use conveyor_domain::{Params, Secret, headers};
use conveyor_store::port::RunKey;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const CANARY: &str = "canary-7f3a9c51";

fn with_headers(n: usize) -> Value {
    let headers = json!({"Cookie": format!("{CANARY}-{n}")});
    json!({"url": format!("https://site.example/{n}"), "zenrows_params": {"custom_headers": headers}})
}

/// Files under this one that hold the text.
fn holding(text: &str, path: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            holding(text, &entry.path(), found);
        } else if fs::read(entry.path()).unwrap().windows(text.len()).any(|bytes| bytes == text.as_bytes()) {
            found.push(entry.path().display().to_string());
        }
    }
}

fn nothing_holds(world: &World, text: &str) {
    let mut found = Vec::new();
    holding(text, world.files().parent().unwrap(), &mut found);
    assert!(found.is_empty(), "{text} is in {found:?}");
}

async fn opened(world: &World, key: RunKey, index: u32) -> Params {
    let mut params = world.claim(key, index).await.input.params;
    headers::open(&Secret::new(crate::world::SECRET), &key.job, &mut params).unwrap();
    params
}

#[tokio::test]
async fn headers_and_keys_are_not_found_in_the_data_directory() {
    let world = World::new().await;
    let job = json!({
        "status": "open",
        "zenrows_params": {"custom_headers": format!("{{\"Authorization\": \"{CANARY}\"}}"), "wait": 5},
        "tasks": [with_headers(0), {"url": "https://site.example/plain"}],
    });
    let key = world.submitted(job).await;
    let added = world.post(&format!("/v1/jobs/{}/tasks", key.job), json!({"tasks": [with_headers(2)]})).await;
    assert_eq!(added.status, 200, "{:?}", added.body);
    let list = format!("{}\n", with_headers(3));
    nothing_holds(&world, CANARY);
    nothing_holds(&world, KEY);
    // A worker reads what was sent.
    assert_eq!(opened(&world, key, 0).await["custom_headers"], format!(r#"{{"Cookie":"{CANARY}-0"}}"#));
    assert_eq!(opened(&world, key, 2).await["custom_headers"], format!(r#"{{"Cookie":"{CANARY}-2"}}"#));
    assert!(opened(&world, key, 1).await.is_empty(), "the job's own are the job's");
    let spec = world.backend.store.job(None, key.job).await.unwrap().unwrap().job.spec;
    let mut params = spec.params.clone();
    headers::open(&Secret::new(crate::world::SECRET), &key.job, &mut params).unwrap();
    assert_eq!(params["custom_headers"], format!("{{\"Authorization\": \"{CANARY}\"}}"));
    // And nobody is shown it.
    let shown = world.get(&format!("/v1/jobs/{}", key.job)).await.json();
    assert_eq!(shown["zenrows_params"], json!({"custom_headers": "***", "wait": "5"}));
    // A list that a caller uploads is stored as it was sent; its rows are not.
    let upload = world.staged(json!({"type": "jsonl"}), list).await;
    let key = world.submitted(json!({"file_input_id": upload})).await;
    assert_eq!(opened(&world, key, 0).await["custom_headers"], format!(r#"{{"Cookie":"{CANARY}-3"}}"#));
    fs::remove_dir_all(world.files().join("uploads")).unwrap();
    nothing_holds(&world, CANARY);
}

#[tokio::test]
async fn headers_of_a_list_that_is_staged_by_us_are_sealed_in_it() {
    let world = World::new().await;
    let tasks: Vec<Value> = (0..10_000).map(with_headers).collect();
    let answer: Answer = world.post("/v1/jobs", json!({"tasks": tasks})).await;
    assert_eq!(answer.status, 202, "{:?}", answer.body);
    nothing_holds(&world, CANARY);
}

/// A text that looks sealed is no object of headers.
#[tokio::test]
async fn nobody_sends_sealed_headers() {
    let world = World::new().await;
    let task = json!({"url": "https://a.example", "zenrows_params": {"custom_headers": "sealed:abc"}});
    let refused = world.post("/v1/jobs", json!({"tasks": [task]})).await;
    refused.refused(400, "invalid_argument");
}
