//! A caller of the API.

use super::KEY;
use conveyor_testkit::{Process, until_fits};
use reqwest::Method;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Calls of patient clients, each under an idempotency key of its own.
static CALLS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    pub url: String,
    key: String,
    is_patient: bool,
}

impl Client {
    pub fn new(server: &Process) -> Client {
        Client::with_key(server, KEY)
    }

    pub fn with_key(server: &Process, key: &str) -> Client {
        // Longer than any answer takes on a busy machine, shorter than what a test waits for.
        let http = conveyor_outbound::client_builder().no_proxy().timeout(Duration::from_secs(60)).build();
        Client {
            http: http.expect("a client"),
            url: server.url.clone(),
            key: key.to_owned(),
            is_patient: false,
        }
    }

    /// Repeats what is refused with 503, as a caller does whose server has services that fail.
    pub fn patient(self) -> Client {
        Client { is_patient: true, ..self }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> reqwest::Result<(u16, Value)> {
        if !self.is_patient {
            return self.call_once(method, path, body, None).await;
        }
        // A write that was refused with 503 may be committed, or still under way: its key tells.
        let key =
            (method == Method::POST).then(|| format!("patient-{}", CALLS.fetch_add(1, Ordering::Relaxed)));
        let is_final = |answer: &reqwest::Result<(u16, Value)>| match answer {
            Ok((status, answer)) => *status != 503 && answer["code"] != "idempotency_key_conflict",
            Err(_) => true,
        };
        let call = async || self.call_once(method.clone(), path, body, key.as_deref()).await;
        until_fits("an answer that is final", call, is_final).await
    }

    async fn call_once(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        idempotency_key: Option<&str>,
    ) -> reqwest::Result<(u16, Value)> {
        let mut request =
            self.http.request(method, format!("{}{path}", self.url)).header("X-API-Key", &self.key);
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(key) = idempotency_key {
            request = request.header("Idempotency-Key", key);
        }
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        Ok((status, answer.json().await?))
    }

    /// Once, however patient the client is.
    pub async fn try_submit(&self, body: &Value) -> reqwest::Result<(u16, Value)> {
        self.call_once(Method::POST, "/v1/jobs", Some(body), None).await
    }

    /// Uploads a list of so many lines, and submits it: accepted, and ingested later.
    pub async fn submit_lines(&self, lines: String, more: Value) -> String {
        let upload = self.upload(&serde_json::json!({"type": "lines"}), lines.into_bytes()).await;
        let mut body = serde_json::json!({"status": "closed", "file_input_id": upload});
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        let (status, answer) = self.post_json("/v1/jobs", &body).await;
        assert_eq!((status, &answer["latest_run"]["ingest_status"]), (202, &"pending".into()), "{answer}");
        answer["job_id"].as_str().expect("a job id").to_owned()
    }

    pub async fn submit(&self, urls: &[String]) -> String {
        let (status, body) = self.post_json("/v1/jobs", &list(urls)).await;
        assert_eq!(status, 201, "{body}");
        body["job_id"].as_str().expect("a job id").to_owned()
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.call(Method::GET, path, None).await.expect("an answer")
    }

    /// For a server that may be gone.
    pub async fn try_get(&self, path: &str) -> reqwest::Result<(u16, Value)> {
        self.call(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str) -> (u16, Value) {
        self.call(Method::POST, path, None).await.expect("an answer")
    }

    pub async fn post_json(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call(Method::POST, path, Some(body)).await.expect("an answer")
    }

    pub async fn delete(&self, path: &str) -> (u16, Value) {
        self.call(Method::DELETE, path, None).await.expect("an answer")
    }

    /// Stages a list under a slot that is made with `slot`, and returns its id.
    pub async fn upload(&self, slot: &Value, bytes: Vec<u8>) -> String {
        let (status, made) = self.post_json("/v1/job_inputs", slot).await;
        assert_eq!(status, 201, "{made}");
        let mut put = self.http.put(made["upload"]["url"].as_str().expect("a URL")).body(bytes);
        for (name, value) in made["upload"]["headers"].as_object().expect("headers") {
            put = put.header(name, value.as_str().expect("text"));
        }
        let answer = put.send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 200, "{}", answer.text().await.unwrap_or_default());
        made["file_input_id"].as_str().expect("an id").to_owned()
    }

    pub async fn text(&self, url: &str) -> (u16, String) {
        let answer = self.http.get(url).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    }

    pub async fn job(&self, job: &str) -> Value {
        let (status, body) = self.get(&format!("/v1/jobs/{job}")).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Whether the server has begun to shut down: it says so, or takes no connections any more.
    pub async fn is_shutting_down(&self) -> bool {
        match self.http.get(format!("{}/readyz", self.url)).send().await {
            // A service that is slow is another reason not to be ready.
            Ok(answer) => answer.text().await.is_ok_and(|text| text.contains("shutting down")),
            Err(error) => !error.is_timeout(),
        }
    }

    /// Waits until the job's run has one of the statuses.
    pub async fn wait_for(&self, job: &str, statuses: &[&str]) -> Value {
        let is_one_of = |view: &Value| statuses.iter().any(|status| view["latest_run"]["status"] == *status);
        until_fits(&format!("the run is {statuses:?}"), async || self.job(job).await, is_one_of).await
    }

    /// Every result of the job, page by page.
    pub async fn results(&self, job: &str) -> Vec<Value> {
        self.results_by(job, 37).await
    }

    pub async fn results_by(&self, job: &str, limit: u32) -> Vec<Value> {
        self.every_page(job, "results", limit).await
    }

    /// Everything that a list of a job has (`results`, `events`), page after page.
    pub async fn every_page(&self, job: &str, list: &str, limit: u32) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let more = cursor.map(|c| format!("&cursor={c}")).unwrap_or_default();
            let (status, page) = self.get(&format!("/v1/jobs/{job}/{list}?limit={limit}{more}")).await;
            assert_eq!(status, 200, "{page}");
            all.extend(page[list].as_array().expect("a page").iter().cloned());
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return all;
            }
        }
    }
}

pub fn list(urls: &[String]) -> Value {
    let tasks: Vec<Value> = urls.iter().map(|u| serde_json::json!({ "url": u })).collect();
    serde_json::json!({ "tasks": tasks })
}

/// Distinct targets that the load test's gateway answers with a page.
pub fn urls(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("https://example.com/{prefix}/{i}")).collect()
}
