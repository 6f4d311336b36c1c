use crate::world::{KEY, OPERATOR_KEY, World, config};
use async_trait::async_trait;
use conveyor_domain::{Format, QueueName, Timestamp, limits};
use conveyor_store::port::{Around, Emptiness, Over, OverQueue};
use conveyor_store::{Backend, Error};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;
use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

#[tokio::test]
async fn probes_need_no_key() {
    let world = World::new().await;
    let health = world.call("GET", "/healthz", None, None).await;
    assert_eq!((health.status.as_u16(), health.json()), (200, json!({"status": "ok"})));
    assert_eq!(world.call("GET", "/readyz", None, None).await.status, 200);
    let metrics = world.call("GET", "/metrics", None, None).await;
    assert_eq!((metrics.status.as_u16(), &metrics.body[..]), (200, &b"# metrics\n"[..]));
    assert!(metrics.header("content-type").starts_with("text/plain"));
}

#[tokio::test]
async fn a_clock_that_jumped_is_a_warning_until_it_is_confirmed() {
    let world = World::new().await;
    let clock = world.operate("GET", "clock", None).await;
    assert_eq!(clock.json(), json!({"now": "2026-01-01T00:00:00.000Z", "removal": "running"}));
    let seen = conveyor_store::clock_watch::observe(world.backend.store.as_ref(), world.now()).await.unwrap();
    world.pass_days(60);
    let halted = json!({
        "now": "2026-03-02T00:00:00.000Z", "seen_at": seen.seen.to_string(), "removal": "halted",
        "believed_at": "2026-03-02T01:00:00.000Z",
    });
    assert_eq!(world.operate("GET", "clock", None).await.json(), halted);
    let ready = world.call("GET", "/readyz", None, None).await;
    assert_eq!(
        (ready.status.as_u16(), &ready.json()["status"]),
        (200, &json!("ready")),
        "it serves all the same"
    );
    let warning = ready.json()["warnings"][0].as_str().unwrap().to_owned();
    assert!(warning.contains("2026-01-01T00:00:00.000Z") && warning.contains("clock confirm"), "{warning}");
    let confirmed = world.operate("POST", "clock/confirm", None).await.json();
    assert_eq!((&confirmed["removal"], &confirmed["seen_at"]), (&json!("running"), &confirmed["now"]));
    world.pass(limits::READY_KEPT);
    assert_eq!(world.call("GET", "/readyz", None, None).await.json(), json!({"status": "ready"}));
}

/// A queue that counts every check of its emptiness, as SQS has to: such a check restarts the minute after which the queue
/// is believed to be empty.
struct Believing(Backend, AtomicU32);

impl Around for Believing {
    fn behind(&self) -> &Backend {
        &self.0
    }
}

#[async_trait]
impl OverQueue for Believing {
    async fn emptiness(&self, queue: QueueName, now: Timestamp) -> Result<Emptiness, Error> {
        self.1.fetch_add(1, SeqCst);
        self.0.queue.emptiness(queue, now).await
    }
}

#[tokio::test]
async fn readiness_asks_the_queue_without_a_check_of_its_emptiness() {
    let checked = OnceLock::new();
    let believing = |backend: Backend| {
        let queue = Arc::new(Believing(backend.clone(), AtomicU32::new(0)));
        let _ = checked.set(queue.clone());
        Backend { queue: Arc::new(Over(queue)), ..backend }
    };
    let world = World::over(believing, Timestamp(1_767_225_600_000), config(), Arc::new(String::new)).await;
    assert_eq!(world.call("GET", "/readyz", None, None).await.status, 200);
    let checked = checked.get().unwrap();
    assert_eq!(checked.1.load(SeqCst), 0);
    world.backend.queue.emptiness(QueueName::Control, world.now()).await.unwrap();
    assert_eq!(checked.1.load(SeqCst), 1, "the decorator is in use");
}

#[tokio::test]
async fn a_process_that_shuts_down_takes_no_more_requests() {
    let world = World::new().await;
    let key = world.submit("open", 1).await;
    world.shutting_down.send(true).unwrap();
    for path in ["/readyz".to_owned(), "/v1/jobs".into(), format!("/v1/jobs/{}/results", key.job)] {
        let answer = world.get(&path).await;
        answer.refused(503, "unavailable");
        assert_eq!(answer.header("retry-after"), "1");
    }
    world.act(&format!("/v1/jobs/{}/close", key.job)).await.refused(503, "unavailable");
    assert_eq!(world.get("/healthz").await.status, 200);
    assert_eq!(world.get("/metrics").await.status, 200);
}

/// Runs on this thread alone, so that a recorder or subscriber of this thread sees everything.
pub fn alone<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn requests_are_counted_by_route_and_not_by_path() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        alone(async {
            let world = World::new().await;
            let key = world.submit("closed", 1).await;
            world.get(&format!("/v1/jobs/{}?x=1", key.job)).await;
            world.get("/v1/jobs/unknown").await;
            world.get("/wp-login.php").await;
            world.call("BREW", "/healthz", None, None).await;
            for (method, path) in
                [("GET", "/v1/jobs"), ("PATCH", "/v1/admin/keys"), ("PUT", "/v1/webhook/test")]
            {
                world.call(method, path, Some("nobody's"), None).await.refused(401, "unauthenticated");
            }
        });
    });
    let text = handle.render();
    let counted = |labels: &str| text.contains(&format!("conveyor_http_requests_total{{{labels}}} 1"));
    assert!(counted(r#"route="/v1/jobs",method="POST",status="201""#), "{text}");
    assert!(counted(r#"route="/v1/jobs/{job}",method="GET",status="400""#), "{text}");
    assert!(counted(r#"route="/v1/jobs/{job}",method="GET",status="404""#), "{text}");
    let refused = |status| format!(r#"route="refused",method="any",status="{status}""#);
    assert!(counted(&refused(404)) && counted(&refused(405)), "strangers make few series: {text}");
    assert!(text.contains(&format!("conveyor_http_requests_total{{{}}} 3", refused(401))), "{text}");
    assert!(
        text.contains(
            r#"conveyor_http_request_seconds_count{route="/v1/jobs",method="POST",status="201"} 1"#
        )
    );
    assert!(!text.contains("wp-login") && !text.contains("BREW") && !text.contains("unknown"));
}

thread_local! {
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes to the buffer of the thread that logs. The subscriber is global, because one of a single thread is not asked
/// about log lines that another thread came across first.
struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.extend_from_slice(bytes));
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_request_leaves_one_line_and_no_secret_in_the_log() {
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    subscriber.with_writer(|| Lines).init();
    let (mut requests, mut secrets) =
        (0, vec![KEY.to_owned(), OPERATOR_KEY.to_owned(), "hunter2".to_owned()]);
    alone(async {
        let world = World::with_metrics(config(), Arc::new(|| panic!("a defect"))).await;
        let body = json!({"tasks": [{"url": "https://u:hunter2@a.example/?token=hunter2"}]});
        let key = world.submitted(body).await;
        world.succeed(key, 0, Format::Html, b"hunter2").await;
        let page = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
        let url = page["results"][0]["result_url"].as_str().unwrap().to_owned();
        let path = url.strip_prefix("http://api.test:8080").unwrap();
        world.call("GET", path, None, None).await;
        world.get("/metrics").await;
        world.operate("POST", "reconcile", Some(json!({}))).await;
        secrets.push(url.split_once("signature=").unwrap().1.to_owned());
        requests = 5;
    });
    let text = String::from_utf8(LINES.take()).unwrap();
    let ours: Vec<&str> = text.lines().filter(|line| line.contains("conveyor_api")).collect();
    assert_eq!(ours.iter().filter(|line| line.contains(" INFO ")).count(), requests, "{text}");
    assert_eq!(
        ours.iter().filter(|line| line.contains("ERROR") && line.contains("a defect")).count(),
        1,
        "{text}"
    );
    assert!(ours[0].contains(r#"method="POST" route="/v1/jobs" status=201"#), "{text}");
    assert!(ours[0].contains("request_id="), "{text}");
    for secret in secrets {
        assert!(!text.contains(&secret), "{secret} is in the log");
    }
}
