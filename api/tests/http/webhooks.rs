//! Webhooks of a job, and the keys that sign them.

use crate::world::{Answer, KEY, OTHER_KEY, World, golden};
use conveyor_domain::{Command, JobId};
use serde_json::{Value, json};

/// An address that resolves by itself, and that nobody is asked at: nothing here is sent.
const HOOK: &str = "https://127.0.0.1:9/hook";

impl World {
    pub async fn put_webhook(&self, job: JobId, body: Value) -> Answer {
        self.call("PUT", &format!("/v1/jobs/{job}/webhook"), Some(KEY), Some(body)).await
    }

    /// Makes a signing key and returns its answer.
    async fn signing_key(&self) -> Value {
        let made = self.act("/v1/hmac/keys/rotate").await;
        assert_eq!(made.status, 201, "{:?}", made.body);
        made.json()
    }
}

fn submit_with(webhook: Value) -> Value {
    json!({"tasks": [{"url": "https://site.example/"}], "webhook": webhook})
}

#[tokio::test]
async fn a_job_has_the_webhook_that_it_was_submitted_with() {
    let world = World::new().await;
    let answer = world.post("/v1/jobs", submit_with(json!({"url": HOOK}))).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    assert_eq!(answer.json()["webhook"], json!({"url": HOOK, "signature": false}));
    let job = answer.run_key().job;
    assert_eq!(world.get(&format!("/v1/jobs/{job}")).await.json()["webhook"], answer.json()["webhook"]);
    assert_eq!(world.get(&format!("/v1/jobs/{job}/webhook")).await.json(), answer.json()["webhook"]);
    let plain = world.submit("closed", 1).await.job;
    assert!(world.get(&format!("/v1/jobs/{plain}")).await.json().get("webhook").is_none());
    world.get(&format!("/v1/jobs/{plain}/webhook")).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_webhook_is_replaced_whole_and_taken_away() {
    let world = World::new().await;
    let job = world.submit("closed", 1).await.job;
    let path = format!("/v1/jobs/{job}/webhook");
    world.put_webhook(job, json!({"url": HOOK})).await.refused(400, "invalid_argument");
    world.put_webhook(job, json!({"signature": false})).await.refused(400, "invalid_argument");
    let set = world.put_webhook(job, json!({"url": HOOK, "signature": false})).await;
    assert_eq!((set.status.as_u16(), set.json()), (200, json!({"url": HOOK, "signature": false})));
    for _ in 0..2 {
        let gone = world.call("DELETE", &path, Some(KEY), None).await;
        assert_eq!((gone.status.as_u16(), gone.body.len()), (204, 0));
    }
    world.get(&path).await.refused(404, "not_found");
    let events = world.get(&format!("/v1/jobs/{job}/events")).await.json();
    let kinds: Vec<_> = events["events"].as_array().unwrap().iter().map(|e| e["type"].clone()).collect();
    assert_eq!(kinds, ["job.submitted", "webhook.changed", "webhook.removed"]);
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_refused_wherever_it_is_given() {
    let world = World::new().await;
    let job = world.submit("closed", 1).await.job;
    for (url, code) in [
        ("not a url", "invalid_argument"),
        ("https:///", "invalid_argument"),
        ("https://user:word@127.0.0.1/", "invalid_argument"),
        ("ftp://127.0.0.1/", "callback_url_must_be_https"),
        // With the flag, http is for loopback alone.
        ("http://10.0.0.1/", "callback_url_must_be_https"),
        ("http://no-such-host.invalid/", "callback_url_must_be_https"),
        ("https://10.0.0.1/", "callback_address_not_allowed"),
        ("https://169.254.169.254/latest", "callback_address_not_allowed"),
        ("https://no-such-host.invalid/", "callback_url_unresolvable"),
    ] {
        let hook = json!({"url": url, "signature": false});
        for answer in [
            world.put_webhook(job, hook.clone()).await,
            world.post("/v1/jobs", submit_with(hook.clone())).await,
            world.post("/v1/webhook/test", hook.clone()).await,
        ] {
            let detail = answer.refused(400, code);
            assert!(detail.contains("url"), "{detail}");
        }
    }
    for bad in [json!({}), json!({"url": 7}), json!({"url": HOOK, "nope": 1}), json!("x")] {
        world.post("/v1/jobs?strict=true", submit_with(bad)).await.refused(400, "invalid_argument");
    }
    let jobs = world.get("/v1/jobs").await.json();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "nothing was made");
}

#[tokio::test]
async fn signing_needs_a_key_that_is_active() {
    let world = World::new().await;
    let job = world.submit("closed", 1).await.job;
    let signed = json!({"url": HOOK, "signature": true});
    world.put_webhook(job, signed.clone()).await.refused(400, "webhook_signing_requires_active_key");
    world.post("/v1/webhook/test", signed.clone()).await.refused(400, "webhook_signing_requires_active_key");
    world.signing_key().await;
    assert_eq!(world.put_webhook(job, signed.clone()).await.status, 200);
    let others = world.call("POST", "/v1/webhook/test", Some(OTHER_KEY), Some(signed)).await;
    others.refused(400, "webhook_signing_requires_active_key");
}

#[tokio::test]
async fn keys_rotate_in_two_steps_and_show_their_secret_once() {
    let world = World::new().await;
    assert_eq!(world.get("/v1/hmac/keys").await.json(), json!({}));
    world.act("/v1/hmac/keys/rotate/finalize").await.refused(409, "no_candidate");
    let cancel = async || world.call("DELETE", "/v1/hmac/keys/rotate", Some(KEY), None).await;
    assert_eq!(cancel().await.status, 204, "there is nothing to cancel");
    let first = world.signing_key().await;
    assert_eq!(
        world.get("/v1/hmac/keys").await.json(),
        json!({"active": {"kid": first["kid"], "created_at": first["created_at"]}}),
        "the first key is active at once"
    );
    world.act("/v1/hmac/keys/rotate/finalize").await.refused(409, "no_candidate");
    assert_eq!(first["secret"].as_str().unwrap().len(), 44, "32 bytes in base64");
    let second = world.act("/v1/hmac/keys/rotate").await.json();
    world.act("/v1/hmac/keys/rotate").await.refused(409, "candidate_pending");
    let keys = world.get("/v1/hmac/keys").await;
    assert_eq!(
        (&keys.json()["active"]["kid"], &keys.json()["candidate"]["kid"]),
        (&first["kid"], &second["kid"])
    );
    assert!(!keys.text().contains(second["secret"].as_str().unwrap()));
    assert_eq!(cancel().await.status, 204);
    assert_eq!(world.get("/v1/hmac/keys").await.json()["active"]["kid"], first["kid"]);
    let third = world.act("/v1/hmac/keys/rotate").await.json();
    let done = world.act("/v1/hmac/keys/rotate/finalize").await.json();
    assert_eq!((&done["active_kid"], &done["created_at"]), (&third["kid"], &third["created_at"]));
    assert_eq!(world.call("GET", "/v1/hmac/keys", Some(OTHER_KEY), None).await.json(), json!({}));
}

#[tokio::test]
async fn a_disabled_webhook_says_so_until_it_is_set_anew() {
    let world = World::new().await;
    let job = world.submitted(submit_with(json!({"url": HOOK}))).await.job;
    let disable = |url: &str| Command::DisableWebhook { url: url.to_owned(), reason: "gone".to_owned() };
    world.apply(job, disable("https://another.example/")).await;
    let path = format!("/v1/jobs/{job}/webhook");
    assert!(world.get(&path).await.json().get("disabled").is_none());
    world.apply(job, disable(HOOK)).await;
    golden("webhook_disabled", &world.get(&path).await.json());
    let set = world.put_webhook(job, json!({"url": HOOK, "signature": false})).await.json();
    assert!(set.get("disabled").is_none());
}

#[tokio::test]
async fn a_task_token_is_refused_where_nobody_would_answer_it() {
    let world = World::new().await;
    let body = |token: &str| json!({"tasks": [{"url": "https://site.example/"}], "sfn_task_token": token});
    let detail = world.post("/v1/jobs", body("AAAA")).await.refused(400, "invalid_argument");
    assert!(detail.contains("sfn_task_token"), "{detail}");
    for bad in ["", &"x".repeat(2_049)] {
        world.post("/v1/jobs", body(bad)).await.refused(400, "invalid_argument");
    }
}
