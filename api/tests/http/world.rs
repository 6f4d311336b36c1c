use crate::reached::Reached;
use crate::repairs::Repairs;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use conveyor_api::{ApiConfig, OperatorKeys};
use conveyor_domain::{
    CallerId, ClaimToken, Clock, Command, Entropy, FailureClass, Format, JobId, KeyHash, Outcome,
    ParamPolicy, Problem, Quotas, ResultRef, RunId, Secret, Spend, TaskId, TaskRef, Timestamp, WorkerId,
    checksum, limits,
};
use conveyor_exports::{Builder, ExportConfig};
use conveyor_notify::{Notifier, Receivers};
use conveyor_store::Backend;
use conveyor_store::embedded::Embedded;
use conveyor_store::port::{BlobKey, Claim, ClaimedTask, RunKey, Settle, SettleGroup, Settled};
use conveyor_testkit::ManualClock;
use futures::TryStreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

pub const KEY: &str = "key-of-the-caller-0001";
pub const OTHER_KEY: &str = "key-of-another-00002";
/// Of an operator, and of one more.
pub const OPERATOR_KEY: &str = "key-of-an-operator-01";
pub const OTHER_OPERATOR_KEY: &str = "key-of-an-operator-02";
pub const SECRET: [u8; 32] = [7; 32];

const START: Timestamp = Timestamp(1_767_225_600_000);
const DAY_MS: i64 = 24 * 3_600_000;

/// One deployment with two callers.
pub struct World {
    pub backend: Backend,
    pub notifier: Arc<Notifier>,
    pub router: Router,
    pub shutting_down: watch::Sender<bool>,
    pub entropy: Arc<Entropy>,
    clock: Arc<ManualClock>,
    worker: WorkerId,
    objects: AtomicU64,
    dir: TempDir,
}

pub fn config() -> ApiConfig {
    ApiConfig {
        max_body_bytes: limits::MAX_BODY_BYTES,
        inline_tasks_max: limits::INLINE_TASKS_MAX,
        run_tasks_max: limits::RUN_TASKS_MAX,
        list_max_bytes: limits::LIST_MAX_BYTES,
        list_expanded_max_bytes: limits::LIST_EXPANDED_MAX_BYTES,
        // Whatever a slow server takes: what is counted in time must not depend on the machine.
        count_within: std::time::Duration::from_secs(60),
        param_policy: ParamPolicy::ZenRows,
        built_in_gateway: false,
        public_url: None,
        forward_keys: true,
        result_ttl_days: limits::RESULT_TTL_DAYS,
        result_url_ttl: limits::RESULT_URL_TTL,
        quotas: Quotas::default(),
        // The clock stands still: whoever asks often would run out.
        requests: None,
        requests_inflight_max: limits::REQUESTS_INFLIGHT_MAX,
        shares: conveyor_api::Shares::default(),
    }
}

impl World {
    pub async fn new() -> World {
        World::with(config()).await
    }

    pub async fn with(config: ApiConfig) -> World {
        World::with_metrics(config, Arc::new(|| "# metrics\n".to_owned())).await
    }

    pub async fn with_metrics(config: ApiConfig, metrics: conveyor_api::MetricsText) -> World {
        World::over(|embedded| embedded, START, config, metrics).await
    }

    /// One that has no operator.
    pub async fn without_operators() -> World {
        World::made(|embedded| embedded, START, config(), Arc::new(String::new), &[]).await
    }

    /// On a backend that is made of the embedded one.
    pub async fn over(
        backend: impl FnOnce(Backend) -> Backend,
        now: Timestamp,
        config: ApiConfig,
        metrics: conveyor_api::MetricsText,
    ) -> World {
        World::made(backend, now, config, metrics, &[OPERATOR_KEY, OTHER_OPERATOR_KEY]).await
    }

    async fn made(
        backend: impl FnOnce(Backend) -> Backend,
        now: Timestamp,
        config: ApiConfig,
        metrics: conveyor_api::MetricsText,
        operators: &[&str],
    ) -> World {
        let dir = TempDir::new().unwrap();
        let clock = Arc::new(ManualClock::at(now));
        let entropy = Arc::new(Entropy::from_number(42));
        let backend = backend(Embedded::open(dir.path(), clock.now()).unwrap().backend());
        for key in [KEY, OTHER_KEY] {
            let caller = CallerId::new(clock.now(), &entropy);
            backend.store.put_key(KeyHash::of(key), caller, clock.now()).await.unwrap();
        }
        let repairs = Repairs::new(backend.clone(), clock.clone(), CancellationToken::new());
        let notifier = Arc::new(Notifier {
            backend: backend.clone(),
            secret: Secret::new(SECRET),
            clock: clock.clone(),
            entropy: entropy.clone(),
            receivers: Receivers::new(true).unwrap(),
            machines: None,
        });
        let (shutting_down, watched) = watch::channel(false);
        let api = conveyor_api::Api {
            backend: backend.clone(),
            secret: Secret::new(SECRET),
            clock: clock.clone(),
            entropy: entropy.clone(),
            config,
            operations: Arc::new(repairs),
            webhooks: Arc::new(Reached(notifier.clone())),
            operators: OperatorKeys::new(operators.iter().copied()),
            accepted: Vec::new(),
            metrics,
            shutting_down: watched,
        };
        let router = api.router();
        let worker = WorkerId::new(clock.now(), &entropy);
        World { backend, notifier, router, shutting_down, entropy, clock, worker, objects: 0.into(), dir }
    }

    /// Does what is due about exports once.
    pub async fn build_exports(&self) {
        let config = ExportConfig::default();
        let builder = Builder::new(self.backend.clone(), self.clock.clone(), self.entropy.clone(), config);
        for record in builder.due(100).await.unwrap() {
            if let Some(taken) = builder.take(record).await.unwrap() {
                builder.attempt(taken, &CancellationToken::new()).await;
            }
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn pass(&self, time: Duration) {
        self.pass_ms(i64::try_from(time.as_millis()).unwrap());
    }

    pub fn pass_ms(&self, ms: i64) {
        self.clock.advance_ms(ms);
    }

    pub fn pass_days(&self, days: i64) {
        self.pass_ms(days * DAY_MS);
    }

    /// As an operator.
    pub async fn operate(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.call(method, &format!("/v1/admin/{path}"), Some(OPERATOR_KEY), body).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, Some(KEY), None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, Some(KEY), Some(body)).await
    }

    /// A POST without a body.
    pub async fn act(&self, path: &str) -> Answer {
        self.call("POST", path, Some(KEY), None).await
    }

    pub async fn call(&self, method: &str, path: &str, key: Option<&str>, body: Option<Value>) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "api.test:8080");
        if let Some(key) = key {
            request = request.header("x-api-key", key);
        }
        let body = match body {
            None => Body::empty(),
            Some(value) => {
                request = request.header("content-type", "application/json");
                Body::from(value.to_string())
            }
        };
        self.send(request.body(body).unwrap()).await
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let answer = Answer { status: parts.status, headers: parts.headers, body };
        answer.check_conventions(method == "HEAD");
        crate::described::check(&method, &path, &answer);
        answer
    }

    /// Submits `count` URLs and returns where their rows are.
    pub async fn submit(&self, status: &str, count: usize) -> RunKey {
        let tasks: Vec<Value> =
            (0..count).map(|i| json!({"url": format!("https://site.example/{i}")})).collect();
        self.submitted(json!({"status": status, "tasks": tasks})).await
    }

    pub async fn submitted(&self, body: Value) -> RunKey {
        let answer = self.post("/v1/jobs", body).await;
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        answer.run_key()
    }

    /// Makes an upload slot.
    pub async fn slot(&self, body: Value) -> Value {
        let answer = self.post("/v1/job_inputs", body).await;
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        answer.json()
    }

    /// Sends bytes as a target of ours says.
    pub async fn put(&self, target: &Value, bytes: impl Into<Body>) -> Answer {
        let content_type = target["headers"]["Content-Type"].as_str();
        self.put_as(target, content_type, bytes).await
    }

    pub async fn put_as(&self, target: &Value, content_type: Option<&str>, bytes: impl Into<Body>) -> Answer {
        let request = Request::builder().method("PUT").uri(path_of(target));
        let request = match content_type {
            Some(value) => request.header("content-type", value),
            None => request,
        };
        self.send(request.body(bytes.into()).unwrap()).await
    }

    /// Uploads a list and returns its `file_input_id`.
    pub async fn staged(&self, slot: Value, bytes: impl Into<Body>) -> String {
        let slot = self.slot(slot).await;
        let answer = self.put(&slot["upload"], bytes).await;
        assert_eq!(answer.status, 200, "{:?}", answer.body);
        slot["file_input_id"].as_str().unwrap().to_owned()
    }

    /// The objects that are stored under a prefix.
    pub fn objects_under(&self, prefix: &str) -> usize {
        std::fs::read_dir(self.dir.path().join("blobs").join(prefix)).map_or(0, Iterator::count)
    }

    /// What is stored, for tests that do what no process of ours does.
    pub fn files(&self) -> std::path::PathBuf {
        self.dir.path().join("blobs")
    }

    pub async fn claim(&self, key: RunKey, index: u32) -> ClaimedTask {
        match self.try_claim(key, index).await {
            Claim::Claimed(claimed) => claimed,
            Claim::Exhausted(_) | Claim::Terminal | Claim::Early(_) | Claim::Paused | Claim::Gone => {
                panic!("task {index} cannot be claimed")
            }
        }
    }

    pub async fn try_claim(&self, key: RunKey, index: u32) -> Claim {
        let task = TaskRef { task: TaskId::of(key.run, index), task_shard_count: 1 };
        let claims = vec![(task, ClaimToken::new(&self.entropy))];
        let answers = self.backend.store.claim(key, claims, limits::CLAIMS_MAX, self.now()).await.unwrap();
        answers.into_iter().next().unwrap()
    }

    /// Claims a task, works on it for 250 ms and settles it.
    pub async fn settle(&self, key: RunKey, index: u32, outcome: Outcome) {
        self.settle_at(key, index, outcome, Spend::default()).await;
    }

    /// With what it cost.
    pub async fn settle_at(&self, key: RunKey, index: u32, outcome: Outcome, spend: Spend) {
        let claimed = self.claim(key, index).await;
        self.pass_ms(250);
        let settles = vec![Settle { spend, ..Settle::new(&claimed, outcome) }];
        let group = SettleGroup { key, worker: self.worker, settles };
        let settled = self.backend.store.settle(group, self.now()).await.unwrap();
        assert_eq!(settled, [Settled::Applied]);
    }

    pub async fn succeed(&self, key: RunKey, index: u32, format: Format, body: &'static [u8]) {
        let object =
            BlobKey::results(key.job, key.run, self.worker, self.objects.fetch_add(1, Ordering::SeqCst));
        // Behind other bytes, as in a pack of several bodies.
        let stored = [b"other".as_slice(), body, b"other".as_slice()].concat();
        self.backend.blobs.put(&object, stored.into()).await.unwrap();
        let (object, length) = (Some(object.to_string()), body.len() as u64);
        let crc32 = Some(checksum::hash(body));
        let result = ResultRef { object, whole: false, offset: 5, length, format, http_status: 200, crc32 };
        self.settle(key, index, Outcome::Successful(result)).await;
    }

    /// Damages the object in which the body of a task is.
    pub async fn change_body(&self, key: RunKey, index: u32, change: impl FnOnce(&mut Vec<u8>)) {
        let task = self.backend.store.task(key, TaskId::of(key.run, index)).await.unwrap().unwrap();
        let object: BlobKey = task.result.unwrap().object.unwrap().parse().unwrap();
        let pieces: Vec<Bytes> = self.backend.blobs.read(&object).await.unwrap().try_collect().await.unwrap();
        let mut bytes = pieces.concat();
        change(&mut bytes);
        self.backend.blobs.put(&object, bytes.into()).await.unwrap();
    }

    pub async fn fail(&self, key: RunKey, index: u32) {
        let problem = problem();
        self.settle(key, index, Outcome::Failed { class: FailureClass::BadTarget, problem }).await;
    }

    pub async fn apply(&self, job: JobId, command: Command) {
        self.backend.store.apply(job, command, self.now()).await.unwrap();
    }
}

/// The path and query of a signed URL.
pub fn path_of(target: &Value) -> String {
    target["url"].as_str().unwrap().strip_prefix("http://api.test:8080").unwrap().to_owned()
}

/// What a gateway said about a task.
pub fn problem() -> Problem {
    Problem::new(404, "http_404", "Not Found").with_detail("The target answered 404.")
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The run that a submit made.
    pub fn run_key(&self) -> RunKey {
        let answer = self.json();
        let id = |v: &Value| v.as_str().unwrap().to_owned();
        let job: JobId = id(&answer["job_id"]).parse().unwrap();
        let run: RunId = id(&answer["latest_run"]["run_id"]).parse().unwrap();
        RunKey { job, run }
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn code(&self) -> (u16, String) {
        (self.status.as_u16(), self.json()["code"].as_str().unwrap_or_default().to_owned())
    }

    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> String {
        assert_eq!(self.code(), (status, code.to_owned()), "{:?}", self.body);
        self.json()["detail"].as_str().unwrap_or_default().to_owned()
    }

    /// What SPEC 10 and 11 promise of every answer, checked on every answer of every test.
    #[track_caller]
    fn check_conventions(&self, head: bool) {
        assert!(!self.header("x-request-id").is_empty());
        if self.status == 503 {
            assert!(!self.header("retry-after").is_empty());
        }
        if self.status.as_u16() < 400 || head {
            return;
        }
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["instance"], self.header("x-request-id"));
        assert_eq!(problem["type"], format!("urn:conveyor:error:{}", problem["code"].as_str().unwrap()));
        assert!(!problem["title"].as_str().unwrap().is_empty());
        // The status inside a failed task's problem is the target's.
        if self.status != 422 {
            assert_eq!(problem["status"], self.status.as_u16());
        }
    }
}

/// Compares with a golden file; ids and signatures are blanked, times are those of the test's clock.
#[track_caller]
pub fn golden(name: &str, value: &Value) {
    let mut settings = insta::Settings::clone_current();
    for (field, shown) in [
        ("job_id", "[job]"),
        ("run_id", "[run]"),
        ("task_id", "[task]"),
        ("worker", "[worker]"),
        ("instance", "[request]"),
        ("next_cursor", "[cursor]"),
        ("result_url", "[signed url]"),
        ("file_input_id", "[upload]"),
        ("export_id", "[export]"),
        ("download_url", "[signed url]"),
        ("letter_id", "[letter]"),
        ("key_id", "[key id]"),
        ("key", "[key]"),
        ("hint", "[hint]"),
        ("caller", "[caller]"),
        ("subject.id", "[subject]"),
        ("body", "[message]"),
    ] {
        settings.add_redaction(&format!(".**.{field}"), shown);
    }
    for target in [".upload.url", ".parts[].url"] {
        settings.add_redaction(target, "[signed url]");
    }
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_json_snapshot!(name, value));
}
