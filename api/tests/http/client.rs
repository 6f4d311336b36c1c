//! The client crate over real sockets: a proxy of the test loses answers and cuts streams.

use crate::world::{KEY, World};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use conveyor_client::wire::{CreateInput, ListType, SubmitJob, SubmitStatus, TaskBody};
use conveyor_client::{Client, Moved, Source};
use conveyor_domain::UploadStatus;
use futures::{StreamExt, TryStreamExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

const MIB: usize = 1024 * 1024;

/// What happens to the next answers, and what was asked.
#[derive(Clone, Default)]
struct Proxy {
    faults: Arc<Mutex<Vec<Fault>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone, Copy)]
enum Fault {
    /// The request is carried out, and its answer is lost.
    Lost,
    /// It is refused, with a `Retry-After` in seconds.
    TooEarly(u32),
    /// The body ends after so many pieces.
    Cut(usize),
}

impl Proxy {
    async fn client(&self, world: &World) -> Client {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let router = world.router.clone().layer(middleware::from_fn_with_state(self.clone(), pass));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Client::builder(server).key(KEY).build().unwrap()
    }

    fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

/// A request in a line, and whether faults are for it: for what is posted, and for streams of events.
fn line_of(request: &Request) -> (String, bool) {
    let (method, path) = (request.method(), request.uri().path());
    let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
    match last {
        Some(last) => (format!("{method} {path} {last}"), true),
        None => (format!("{method} {path}"), *method == Method::POST),
    }
}

async fn pass(State(proxy): State<Proxy>, request: Request, next: Next) -> Response {
    let (asked, has_faults) = line_of(&request);
    proxy.asked.lock().unwrap().push(asked);
    let fault = if has_faults { proxy.faults.lock().unwrap().pop() } else { None };
    match fault {
        None => next.run(request).await,
        Some(Fault::TooEarly(seconds)) => {
            let problem =
                serde_json::json!({"type": "t", "title": "T", "status": 429, "code": "rate_limited"});
            let after = [(header::RETRY_AFTER, seconds.to_string())];
            (StatusCode::TOO_MANY_REQUESTS, after, axum::Json(problem)).into_response()
        }
        Some(Fault::Lost) => {
            next.run(request).await;
            StatusCode::BAD_GATEWAY.into_response()
        }
        Some(Fault::Cut(pieces)) => {
            let (parts, body) = next.run(request).await.into_parts();
            Response::from_parts(parts, Body::from_stream(body.into_data_stream().take(pieces)))
        }
    }
}

fn job(urls: usize) -> SubmitJob {
    let tasks = (0..urls).map(|n| TaskBody::of(format!("https://a.example/{n}"))).collect();
    SubmitJob { tasks: Some(tasks), status: Some(SubmitStatus::Closed), ..SubmitJob::default() }
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_job() {
    let (world, proxy) = (World::new().await, Proxy::default());
    let client = proxy.client(&world).await;
    proxy.fail([Fault::Lost, Fault::Lost]);
    let submitted = client.submit(&job(2)).await.unwrap();
    assert_eq!(proxy.asked(), ["POST /v1/jobs"; 3]);
    let jobs: Vec<_> = client.jobs().items().try_collect().await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.job_id).collect::<Vec<_>>(), [submitted.job_id]);

    // What may have been done is not done again: a stop has no key.
    proxy.asked();
    proxy.fail([Fault::Lost]);
    let error = client.stop(submitted.job_id).await.unwrap_err();
    assert_eq!((error.problem().unwrap().status, proxy.asked().len()), (502, 1));
    assert!(error.retry_after().is_some(), "somebody who knows more may repeat it");
}

#[tokio::test]
async fn a_wait_that_the_server_asks_for_is_kept() {
    let (world, proxy) = (World::new().await, Proxy::default());
    let client = proxy.client(&world).await;
    proxy.fail([Fault::TooEarly(1)]);
    let begin = Instant::now();
    client.submit(&job(1)).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_refusal_names_the_tasks() {
    let (world, proxy) = (World::new().await, Proxy::default());
    let client = proxy.client(&world).await;
    let mut job = job(3);
    job.tasks.as_mut().unwrap()[1].url = "nonsense".to_owned();
    let error = client.submit(&job).await.unwrap_err();
    assert!(error.has_code("invalid_argument") && error.retry_after().is_none(), "{error}");
    assert_eq!(error.invalid_tasks().iter().map(|task| task.index).collect::<Vec<_>>(), [1]);
    assert_eq!(proxy.asked().len(), 1);
    assert!(client.job("nothing").await.is_err());
    assert!(
        client.webhook(client.submit(&self::job(1)).await.unwrap().job_id).find().await.unwrap().is_none()
    );
}

#[tokio::test]
async fn pages_come_one_after_the_other_and_keep_the_servers_text() {
    let (world, proxy) = (World::new().await, Proxy::default());
    let client = proxy.client(&world).await;
    let submitted = client.submit(&job(5)).await.unwrap();
    proxy.asked();
    let pages = client.results(submitted.job_id).query("limit", 2).pages();
    let pages: Vec<_> = pages.try_collect().await.unwrap();
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(proxy.asked().len(), 3);
    for (n, task) in pages.iter().flatten().enumerate() {
        assert_eq!(task.read().unwrap().url, format!("https://a.example/{n}"));
        assert!(task.text().starts_with("{\"task_id\":"), "{}", task.text());
    }
    let answer = client.job(submitted.job_id).await.unwrap();
    let path = format!("/v1/jobs/{}", submitted.job_id);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&answer.text).unwrap(),
        world.get(&path).await.json()
    );
}

#[tokio::test]
async fn events_are_followed_over_streams_that_break_off() {
    let (world, proxy) = (World::new().await, Proxy::default());
    let client = proxy.client(&world).await;
    let submitted = client.submit(&job(1)).await.unwrap();
    client.stop(submitted.job_id).await.unwrap();
    let all: Vec<_> = client.events(submitted.job_id).items().try_collect().await.unwrap();
    assert!(all.len() > 1, "{all:?}");
    proxy.asked();
    // Each stream says `retry:` and one event.
    proxy.fail([Fault::Cut(2); 9]);
    let followed: Vec<_> = client.follow(submitted.job_id, 0).try_collect().await.unwrap();
    let ids = |events: &mut dyn Iterator<Item = u64>| events.collect::<Vec<_>>();
    assert_eq!(
        ids(&mut followed.iter().map(|event| event.read().unwrap().id)),
        ids(&mut all.iter().map(|event| event.id))
    );
    let resumed: Vec<_> = client.follow(submitted.job_id, all[0].id).try_collect().await.unwrap();
    assert_eq!(resumed.len(), all.len() - 1);
    assert!(proxy.asked().contains(&format!("GET /v1/jobs/{}/events {}", submitted.job_id, all[0].id)));
}

#[tokio::test]
async fn what_can_be_read_once_is_uploaded_as_it_is_read() {
    let (world, proxy) = (World::new().await, Proxy::default());
    let client = proxy.client(&world).await;
    let row = "https://a.example/\n";
    let list = row.repeat(11 * MIB / row.len());
    let (size, bytes) = (list.len() as u64, std::io::Cursor::new(list));
    let input = CreateInput::of(ListType::Lines);
    let upload = client.begin_upload(input, Source::reader(bytes), Some(5 * MIB as u64)).await.unwrap();
    let moved = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&moved);
    let upload = upload.on_progress(move |moved| match moved {
        Moved::Sent(bytes) | Moved::AlreadyThere(bytes) => {
            seen.fetch_add(bytes, Ordering::Relaxed);
        }
        Moved::Lost(bytes) => {
            seen.fetch_sub(bytes, Ordering::Relaxed);
        }
    });
    // The URL of the first part is lost once.
    proxy.fail([Fault::Lost]);
    let id = upload.send().await.unwrap();
    let there = client.input(id).await.unwrap();
    assert!(there.status == UploadStatus::Uploaded);
    assert_eq!((there.size_bytes, moved.load(Ordering::Relaxed)), (Some(size), size));
    assert_eq!(proxy.asked().iter().filter(|asked| asked.starts_with("PUT")).count(), 3);
    let job: SubmitJob = SubmitJob { file_input_id: Some(id.to_string()), ..SubmitJob::default() };
    client.submit(&job).await.unwrap();
}
