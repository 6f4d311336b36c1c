//! Every document that callers can read about a job; the same as `tests/fixtures/documents.py` reads.

use super::caller::Caller;
use futures::stream::{self, StreamExt};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

const TEXT_MAX: usize = 200;
const READS_MAX: usize = 16;

pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Times and signed URLs are replaced by a word, long texts by their digest. Until when URLs are good is left out: earlier
/// versions did not say it.
pub fn steady(value: Value) -> Value {
    steady_under("", value)
}

fn steady_under(name: &str, value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(name, _)| !name.ends_with("_url_expires_at"));
            let fields = fields.map(|(name, value)| {
                let value = steady_under(&name, value);
                (name, value)
            });
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(values) => values.into_iter().map(steady).collect(),
        Value::String(_) if matches!(name, "result_url" | "download_url") => json!("URL"),
        Value::String(text) if is_time(&text) => json!("TIME"),
        Value::String(text) if text.chars().count() > TEXT_MAX => {
            json!(format!("sha256:{}", digest(text.as_bytes())))
        }
        other => other,
    }
}

fn is_time(text: &str) -> bool {
    let shape = text.bytes().map(|b| if b.is_ascii_digit() { b'0' } else { b });
    text.ends_with('Z') && shape.take(11).eq(*b"0000-00-00T")
}

/// Everything about a job. Results that have expired are left out.
pub async fn read(caller: &Caller, job: &str) -> Value {
    let mut found = json!({"job": caller.get(&format!("/v1/jobs/{job}")).await, "runs": []});
    for run in caller.pages(&format!("/v1/jobs/{job}/runs"), "runs").await {
        if run["status"] == "deleted" {
            continue;
        }
        let document = read_run(caller, run).await;
        found["runs"].as_array_mut().unwrap().push(document);
    }
    found["events"] = caller.pages(&format!("/v1/jobs/{job}/events"), "events").await.into();
    found["deliveries"] = caller.pages(&format!("/v1/jobs/{job}/deliveries"), "deliveries").await.into();
    if found["job"].get("webhook").is_some() {
        found["webhook"] = caller.get(&format!("/v1/jobs/{job}/webhook")).await;
    }
    steady(found)
}

async fn read_run(caller: &Caller, run: Value) -> Value {
    let text = |name: &str| run[name].as_str().unwrap();
    let at = format!("/v1/jobs/{}/runs/{}", text("job_id"), text("run_id"));
    let mut document = json!({"exports": caller.pages(&format!("{at}/exports"), "exports").await});
    if caller.try_get(&format!("{at}/results")).await.status != 410 {
        let tasks = caller.pages(&format!("{at}/results"), "results").await;
        let tasks = stream::iter(tasks).map(|task| read_task(caller, &at, task));
        document["results"] = tasks.buffered(READS_MAX).collect::<Vec<_>>().await.into();
    }
    let ingest = caller.try_get(&format!("{at}/ingest")).await;
    if ingest.status == 200 {
        document["ingest"] = ingest.json();
        let rejected = caller.try_get(&format!("{at}/ingest/rejected")).await;
        if rejected.status != 410 {
            let lines = rejected.text();
            document["rejected"] =
                lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
        }
    }
    document["run"] = run;
    document
}

async fn read_task(caller: &Caller, at: &str, mut task: Value) -> Value {
    let at = format!("{at}/tasks/{}", task["task_id"].as_str().unwrap());
    task["history"] = caller.get(&format!("{at}/history")).await["events"].take();
    if task.get("result_url").is_some() {
        let content = caller.try_get(&format!("{at}/content")).await;
        assert_eq!(content.status, 200, "{task}");
        task["content"] = json!(digest(&content.body));
    }
    task
}
