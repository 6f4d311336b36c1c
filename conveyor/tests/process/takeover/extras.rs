//! What is not part of a job's own documents: exports, idempotency keys, uploads, notifications, signing keys, limits.

use super::Taken;
use super::caller::Caller;
use super::outside::Notice;
use crate::support;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;

pub async fn of_a_fresh_image(taken: &Taken) {
    let alice = taken.caller("alice");
    exports(taken, &alice).await;
    idempotency(taken, &alice).await;
    uploads(taken, &alice).await;
    limits(taken, &alice).await;
    machine_was_told(taken).await;
    for name in ["hook_busy", "hook_due"] {
        notified(taken, &alice, taken.fixture.job_id(name)).await;
    }
    assert_eq!(taken.operator().pages("/v1/admin/dead_letters", "dead_letters").await, Vec::<Value>::new());
    signing_keys(taken, &alice).await;
    let early = taken.outside.calls().into_iter().find(|call| call.url.contains("backoff.example"));
    assert!(early.is_none(), "an hour of backoff is not over yet: {early:?}");
}

pub async fn of_an_old_image(taken: &Taken) {
    let alice = taken.caller("alice");
    for (_, upload) in taken.fixture.manifest["more"]["uploads"].as_object().unwrap() {
        let path = format!("/v1/job_inputs/{}", upload.as_str().unwrap());
        assert_eq!(alice.try_get(&path).await.status, 404, "a slot that nobody used is past its time");
    }
    for name in ["completed", "bulk"] {
        let exports = format!("{}/exports", first_run(taken, name));
        assert_eq!(
            alice.pages(&exports, "exports").await,
            Vec::<Value>::new(),
            "exports are past their time"
        );
    }
    machine_was_told(taken).await;
    signing_keys(taken, &alice).await;
    assert_eq!(taken.outside.notices().len(), 0, "nobody is told of a run that ended more than 30 days ago");
}

/// The path of the first run of a job, as it was before the crash.
fn first_run(taken: &Taken, name: &str) -> String {
    let runs = taken.fixture.documents["jobs"][name]["runs"].as_array().unwrap();
    let run = runs.last().unwrap()["run"]["run_id"].as_str().unwrap();
    format!("/v1/jobs/{}/runs/{run}", taken.fixture.job_id(name))
}

async fn exports(taken: &Taken, alice: &Caller) {
    for (name, export) in [("completed", "export_pending"), ("bulk", "export_running")] {
        let path =
            format!("{}/exports/{}", first_run(taken, name), taken.fixture.text(&format!("/more/{export}")));
        support::until(export, async || alice.get(&path).await["status"] == "completed").await;
    }
    let exports = format!("{}/exports", first_run(taken, "completed"));
    let removed = format!("{exports}/{}", taken.fixture.text("/more/export_removed"));
    assert_eq!(alice.try_get(&removed).await.status, 404);
    for export in alice.pages(&exports, "exports").await {
        let file = alice.try_get(export["download_url"].as_str().unwrap()).await;
        assert_eq!(file.status, 200, "{export}");
        match export["format"].as_str().unwrap() {
            "zip" => assert!(file.body.starts_with(b"PK"), "{export}"),
            "jsonl" => assert_eq!(file.text().lines().count(), 12, "{export}"),
            _ => assert!(file.text().starts_with("task_id,"), "{export}"),
        }
    }
}

/// The request of before the crash is answered as it was then, and makes nothing.
async fn idempotency(taken: &Taken, alice: &Caller) {
    let once = &taken.fixture.manifest["more"]["idempotency"];
    let text = |name: &str| once[name].as_str().unwrap();
    let headers = [("content-type", "application/json"), ("idempotency-key", text("key"))];
    let again = alice.send(Method::POST, "/v1/jobs", Some(text("body").to_owned()), &headers).await;
    assert_eq!((again.status, &again.json()["job_id"]), (201, &once["job_id"]), "{}", again.text());
    assert_eq!(again.headers["idempotency-replayed"], "true");
}

async fn uploads(taken: &Taken, alice: &Caller) {
    let slots = taken.fixture.manifest["more"]["uploads"].as_object().unwrap();
    for (name, upload) in slots {
        let upload = upload.as_str().unwrap();
        let (path, rows) = (
            format!("/v1/job_inputs/{upload}"),
            match name.as_str() {
                "staged" => 3,
                _ => 2,
            },
        );
        match name.as_str() {
            "empty" => {
                let target = alice.get(&path).await["upload"].take();
                let headers = target["headers"].as_object().unwrap();
                let headers: Vec<_> =
                    headers.iter().map(|(n, v)| (n.as_str(), v.as_str().unwrap())).collect();
                let list = "https://empty.example/page/0\nhttps://empty.example/page/1\n".to_owned();
                let put =
                    alice.send(Method::PUT, target["url"].as_str().unwrap(), Some(list), &headers).await;
                assert_eq!(put.status, 200, "{}", put.text());
            }
            "multipart" => {
                alice.post(&format!("{path}/complete"), &json!({})).await;
            }
            _ => {}
        }
        let made = alice.post("/v1/jobs", &json!({"file_input_id": upload})).await;
        let job = format!("/v1/jobs/{}", made["job_id"].as_str().unwrap());
        support::until(name, async || {
            let run = alice.get(&job).await["latest_run"].take();
            run["status"] == "completed" && run["stats"]["successful"] == rows
        })
        .await;
    }
}

async fn limits(taken: &Taken, alice: &Caller) {
    let limits = alice.get(&format!("/v1/jobs/{}/limits", taken.fixture.job_id("limits"))).await;
    assert_eq!(limits["max_inflight"], 8, "{limits}");
    assert_eq!(limits["rate_limit"]["per_second"].as_f64(), Some(4.0), "{limits}");
    assert_eq!(limits["rate_limit"]["burst"], 2, "{limits}");
    let job = alice.get(&format!("/v1/jobs/{}", taken.fixture.job_id("limits"))).await;
    assert_eq!(job["domain_limits"]["limited.example"]["max_inflight"], 1, "{job}");
}

/// The token was sealed by the version that made the fixture.
async fn machine_was_told(taken: &Taken) {
    support::until("the state machine is told", async || !taken.outside.machines().is_empty()).await;
    let token = taken.fixture.text("/state_machine_token");
    for told in taken.outside.machines() {
        assert_eq!(told["taskToken"], token, "{told}");
        assert!(told["output"].as_str().unwrap().contains(taken.fixture.job_id("machine")), "{told}");
    }
}

/// A notification of before the crash reaches a receiver that is there, under its own id, signed with the active key.
async fn notified(taken: &Taken, alice: &Caller, job: &str) {
    let hook = json!({"url": format!("{}/hook", taken.outside.url), "signature": true});
    alice.call(Method::PUT, &format!("/v1/jobs/{job}/webhook"), Some(&hook)).await;
    let path = format!("/v1/jobs/{job}/deliveries");
    let delivery = alice.pages(&path, "deliveries").await.remove(0);
    let event = delivery["event_id"].as_str().unwrap();
    let path = format!("{path}/{event}");
    let look = async || {
        let delivery = alice.get(&path).await;
        // An attempt on the old address may be under way: then a replay changes nothing, and is repeated.
        if delivery["state"] != "delivered" {
            alice.call(Method::POST, &format!("{path}/replay"), None).await;
        }
        delivery
    };
    support::until_fits("it is delivered", look, |delivery| delivery["state"] == "delivered").await;
    let notices = taken.outside.notices();
    let notice = notices.iter().find(|(headers, _)| headers["x-zenrows-event-id"] == event);
    is_signed(notice.unwrap(), &taken.fixture.manifest["more"]["signing"]["active"]);
}

fn is_signed((headers, body): &Notice, key: &Value) {
    let signature = headers["x-signature"].to_str().unwrap();
    let part = |name: &str| {
        let found = signature.split(',').find_map(|part| part.strip_prefix(name));
        found.unwrap_or_else(|| panic!("{signature}"))
    };
    assert_eq!(part("kid="), key["kid"].as_str().unwrap());
    let secret = STANDARD.decode(key["secret"].as_str().unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
    mac.update(format!("{}.{body}", part("t=")).as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(part("v1="), hex);
}

/// Both keys are there, and the candidate can still take over.
async fn signing_keys(taken: &Taken, alice: &Caller) {
    let keys = alice.get("/v1/hmac/keys").await;
    for name in ["active", "candidate"] {
        assert_eq!(keys[name]["kid"], taken.fixture.manifest["more"]["signing"][name]["kid"], "{keys}");
    }
    let done = alice.call(Method::POST, "/v1/hmac/keys/rotate/finalize", None).await;
    assert_eq!(done["active_kid"], keys["candidate"]["kid"]);
}
