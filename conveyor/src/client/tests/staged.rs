//! Lists that are uploaded before they are submitted.

use super::{KEY, T, command, run, run_of, serve, submitted};
use crate::client::Output;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use md5::Md5;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// The slot.
const U: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAX";
const MIB: usize = 1024 * 1024;
const PART_MIN: usize = MIB + MIB / 2;

/// One slot, and what was sent to it.
#[derive(Debug, Default)]
struct Seen {
    slot: Value,
    whole: Vec<u8>,
    parts: BTreeMap<u32, Vec<u8>>,
    /// The parts in the order in which they were taken.
    taken: Vec<u32>,
    /// What the next requests for a part are answered with.
    answers: BTreeMap<u32, Vec<StatusCode>>,
    complete: bool,
    claimed: bool,
    job: Value,
    job_answer: Option<StatusCode>,
    /// Parts have other digests, and a smallest size.
    like_s3: bool,
}

#[derive(Clone, Default)]
struct Stub(Arc<Mutex<Seen>>);

impl Stub {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    async fn serve(&self) -> String {
        let router = Router::new()
            .route("/v1/job_inputs", post(make))
            .route(&format!("/v1/job_inputs/{U}"), get(show))
            .route(&format!("/v1/job_inputs/{U}/parts"), post(sign))
            .route(&format!("/v1/job_inputs/{U}/complete"), post(complete))
            .route("/put", put(take_whole))
            .route("/put/{number}/{size}", put(take_part))
            .route("/v1/jobs", post(submit))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(self.clone());
        serve(router).await
    }

    fn document(&self) -> Value {
        let seen = self.seen();
        let status = match (seen.claimed, seen.complete || !seen.whole.is_empty()) {
            (true, _) => "claimed",
            (false, true) => "uploaded",
            (false, false) => "waiting",
        };
        let mut slot = json!({"file_input_id": U, "type": seen.slot["type"], "status": status,
                              "size_bytes": seen.slot["size_bytes"], "created_at": T, "expires_at": T});
        if seen.slot["multipart"] == true {
            let hex = |digest: &[u8]| digest.iter().map(|b| format!("{b:02x}")).collect::<String>();
            let hash = |bytes: &[u8]| match seen.like_s3 {
                false => hex(&Sha256::digest(bytes)),
                true => hex(&Md5::digest(bytes)),
            };
            let part = |(n, bytes): (&u32, &Vec<u8>)| json!({"number": n, "size_bytes": bytes.len(), "etag": hash(bytes)});
            let asked = seen.slot["part_bytes"].as_u64().unwrap();
            let least = if seen.like_s3 { PART_MIN as u64 } else { 1 };
            slot["multipart"] =
                json!({"parts_max": 1000, "part_bytes": asked.max(least), "numbers_max": 100});
            slot["parts"] = seen.parts.iter().map(part).collect();
        } else {
            slot["upload"] = json!({"method": "PUT", "url": "/put", "headers": {"Content-Type": "text/plain"}, "expires_at": T});
        }
        slot
    }
}

async fn make(State(stub): State<Stub>, headers: HeaderMap, Json(slot): Json<Value>) -> Response {
    assert_eq!(headers["x-api-key"], KEY);
    stub.seen().slot = slot;
    (StatusCode::CREATED, Json(stub.document())).into_response()
}

async fn show(State(stub): State<Stub>) -> Json<Value> {
    Json(stub.document())
}

/// The size that is signed is part of the URL, as on S3.
async fn sign(Json(body): Json<Value>) -> Json<Value> {
    let size = &body["size_bytes"];
    let target = |number: &Value| json!({"number": number, "method": "PUT", "url": format!("/put/{number}/{size}"), "headers": {}, "expires_at": T});
    Json(json!({"parts": body["numbers"].as_array().unwrap().iter().map(target).collect::<Vec<_>>()}))
}

async fn take_whole(State(stub): State<Stub>, headers: HeaderMap, body: axum::body::Bytes) {
    assert!(!headers.contains_key("x-api-key"), "a signed URL needs no key and may lead anywhere");
    assert_eq!(headers["content-type"], "text/plain");
    assert_eq!(headers["content-length"], body.len().to_string());
    stub.seen().whole = body.to_vec();
}

async fn take_part(
    State(stub): State<Stub>,
    Path((number, size)): Path<(u32, u64)>,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> StatusCode {
    assert!(!headers.contains_key("x-api-key"), "a signed URL needs no key and may lead anywhere");
    assert_eq!(headers["content-length"], size.to_string());
    let mut seen = stub.seen();
    if let Some(status) = seen.answers.get_mut(&number).and_then(Vec::pop) {
        return status;
    }
    seen.parts.insert(number, body.to_vec());
    seen.taken.push(number);
    StatusCode::OK
}

async fn complete(State(stub): State<Stub>) -> Json<Value> {
    stub.seen().complete = true;
    Json(stub.document())
}

async fn submit(State(stub): State<Stub>, Json(job): Json<Value>) -> Response {
    let mut seen = stub.seen();
    seen.job = job;
    if let Some(status) = seen.job_answer.take() {
        return status.into_response();
    }
    seen.claimed = true;
    let mut run = run_of("running");
    run["ingest_status"] = json!("pending");
    (StatusCode::ACCEPTED, Json(submitted(run))).into_response()
}

fn list(directory: &tempfile::TempDir, bytes: usize) -> (PathBuf, Vec<u8>) {
    let rows = (0_u64..).map(|i| format!("https://a.example/{i}\n"));
    let mut text: Vec<u8> = rows.flat_map(String::into_bytes).take(bytes - 1).collect();
    text.push(b'\n');
    let path = directory.path().join("urls.txt");
    std::fs::write(&path, &text).unwrap();
    (path, text)
}

#[tokio::test]
async fn a_list_that_is_not_short_is_uploaded() {
    let directory = tempfile::tempdir().unwrap();
    let (path, bytes) = list(&directory, 2 * MIB);
    let stub = Stub::default();
    let server = stub.serve().await;
    run(&server, &["submit", path.to_str().unwrap(), "--name", "n"]).await.unwrap();
    let seen = stub.seen();
    assert_eq!(seen.slot, json!({"type": "lines", "size_bytes": 2 * MIB}));
    assert_eq!(seen.whole, bytes);
    assert_eq!(seen.job, json!({"type": "regular", "status": "closed", "name": "n", "file_input_id": U}));
}

#[tokio::test]
async fn a_short_list_is_uploaded_if_it_has_many_rows_or_its_rows_may_be_bad() {
    let directory = tempfile::tempdir().unwrap();
    let stub = Stub::default();
    let server = stub.serve().await;
    let path = directory.path().join("list.txt");
    for (text, flags) in [
        ("http://a.b\n".repeat(10_000), [].as_slice()),
        ("nonsense\n".to_owned(), &["--on-invalid-rows", "fail"]),
    ] {
        std::fs::write(&path, &text).unwrap();
        *stub.seen() = Seen::default();
        run(&server, &[&["submit", path.to_str().unwrap()], flags].concat()).await.unwrap();
        let seen = stub.seen();
        assert_eq!(seen.whole, text.as_bytes());
        assert_eq!(seen.job["on_invalid_rows"], flags.last().map_or(Value::Null, |_| json!("fail")));
    }
    std::fs::write(&path, "http://a.b\n").unwrap();
    run(&server, &["submit", path.to_str().unwrap()]).await.unwrap();
    assert_eq!(stub.seen().job["tasks"], json!([{"url": "http://a.b"}]), "a short one is not");
}

#[tokio::test]
async fn parts_are_sent_again_and_what_broke_off_can_be_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, bytes) = list(&directory, 3 * MIB + 5);
    let path = path.to_str().unwrap();
    let stub = Stub::default();
    let server = stub.serve().await;
    stub.seen().answers.insert(1, vec![StatusCode::SERVICE_UNAVAILABLE]);
    stub.seen().answers.insert(3, vec![StatusCode::FORBIDDEN; 2]);
    let submit = ["submit", path, "--part-bytes", "1048576"];
    let failure = run(&server, &submit).await.unwrap_err();
    let said = format!("{failure:?}");
    assert!(said.contains(&format!("conveyor submit {path} --resume {U}")), "{said}");
    assert_eq!(stub.seen().slot["multipart"], true);
    assert_eq!(stub.seen().job, Value::Null, "nothing was submitted");

    // What is there, and the same, is not sent again; what is there and something else is.
    let slot = stub.seen().slot.clone();
    for (like_s3, part_bytes, parts, missing) in
        [(false, MIB, vec![1, 4], vec![2, 3]), (true, PART_MIN, vec![1, 3], vec![2])]
    {
        let piece = |n: u32| bytes.chunks(part_bytes).nth(n as usize - 1).unwrap().to_vec();
        let mut parts: BTreeMap<_, _> = parts.into_iter().map(|n| (n, piece(n))).collect();
        parts.insert(2, vec![b'x'; part_bytes]);
        // A server of its own: the first one may still be busy with a part of the submit that failed.
        let stub = Stub::default();
        let server = stub.serve().await;
        *stub.seen() = Seen { slot: slot.clone(), parts, like_s3, ..Seen::default() };
        run(&server, &[submit.as_slice(), &["--resume", U]].concat()).await.unwrap();
        let mut seen = stub.seen();
        seen.taken.sort_unstable();
        assert_eq!(seen.taken, missing);
        assert_eq!(seen.parts.values().flatten().copied().collect::<Vec<u8>>(), bytes);
        assert!(seen.complete);
        assert_eq!(seen.job["file_input_id"], U);
    }
}

/// Something that can be read once.
fn pipe(directory: &tempfile::TempDir, bytes: Vec<u8>) -> (PathBuf, std::thread::JoinHandle<()>) {
    let path = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let into = path.clone();
    (path, std::thread::spawn(move || std::fs::write(into, bytes).unwrap()))
}

#[tokio::test]
async fn what_can_be_read_once_is_sent_in_parts_that_can_be_sent_again() {
    let (_, bytes) = list(&tempfile::tempdir().unwrap(), 13 * MIB);
    for (length, parts) in [(2 * MIB, vec![]), (12 * MIB, vec![6, 6]), (13 * MIB, vec![6, 6, 1])] {
        let directory = tempfile::tempdir().unwrap();
        let stub = Stub::default();
        let server = stub.serve().await;
        stub.seen().answers.insert(2, vec![StatusCode::INTERNAL_SERVER_ERROR]);
        let (path, writing) = pipe(&directory, bytes[..length].to_vec());
        run(&server, &["submit", path.to_str().unwrap(), "--part-bytes", "6291456"]).await.unwrap();
        writing.join().unwrap();
        let seen = stub.seen();
        let sizes: Vec<usize> = seen.parts.values().map(|part| part.len() / MIB).collect();
        assert_eq!((sizes, seen.slot["multipart"] == true), (parts.clone(), !parts.is_empty()));
        let sent = if parts.is_empty() {
            seen.whole.clone()
        } else {
            seen.parts.values().flatten().copied().collect()
        };
        assert!(sent == bytes[..length] && seen.claimed);
    }
}

#[tokio::test]
async fn what_the_storage_says_is_told() {
    let refuse = || async {
        let xml = "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>";
        (StatusCode::FORBIDDEN, xml)
    };
    let elsewhere = serve(Router::new().route("/bucket/key", put(refuse))).await;
    let slot = json!({"file_input_id": U, "type": "lines", "status": "waiting", "created_at": T, "expires_at": T,
        "upload": {"method": "PUT", "url": format!("{elsewhere}/bucket/key?X-Amz=secret"), "headers": {}, "expires_at": T}});
    let router = Router::new().route("/v1/job_inputs", post(move || async move { Json(slot) }));
    let server = serve(router).await;
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = list(&directory, 2 * MIB);
    let refused = run(&server, &["submit", path.to_str().unwrap()]).await.unwrap_err();
    assert_eq!(refused.line(), "Forbidden: Request has expired (http_403)");
}

#[tokio::test]
async fn what_is_not_the_same_upload_is_not_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = list(&directory, 2 * MIB);
    let path = path.to_str().unwrap();
    let stub = Stub::default();
    let server = stub.serve().await;
    let resume = async |flags: &[&str]| {
        let words = [&["submit", path, "--resume", U], flags].concat();
        run(&server, &words).await.unwrap_err().line()
    };
    stub.seen().slot = json!({"type": "lines", "size_bytes": 7, "multipart": true, "part_bytes": MIB});
    assert!(resume(&[]).await.contains("it is for 7 bytes"));
    stub.seen().slot["size_bytes"] = json!(2 * MIB);
    stub.seen().parts.insert(3, vec![0; MIB]);
    assert!(resume(&[]).await.contains("parts of another size are there"));
    stub.seen().claimed = true;
    assert!(
        resume(&["--part-bytes", "1048576"]).await.contains("a job was already made of it (not_resumable)")
    );
    assert_eq!(stub.seen().job, Value::Null);
}

#[tokio::test]
async fn a_job_that_could_not_be_made_needs_no_second_upload() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = list(&directory, 2 * MIB);
    let path = path.to_str().unwrap();
    let stub = Stub::default();
    let server = stub.serve().await;
    stub.seen().job_answer = Some(StatusCode::INTERNAL_SERVER_ERROR);
    let said = format!("{:?}", run(&server, &["submit", path]).await.unwrap_err());
    assert!(said.contains(&format!("--resume {U}")), "{said}");
    stub.seen().slot = json!({"type": "lines"});
    run(&server, &["submit", path, "--resume", U]).await.unwrap();
    assert_eq!(stub.seen().slot, json!({"type": "lines"}), "no slot was made");
    assert!(stub.seen().claimed);
}

#[tokio::test]
async fn flags_for_one_list_need_one_list() {
    let words = ["submit", "https://a.example", "--on-invalid-rows", "skip"];
    let server = "http://127.0.0.1:9";
    assert!(run(server, &words).await.unwrap_err().line().contains("for one list"));
    let words = ["submit", "a", "b", "--resume", U];
    let failure = crate::client::dispatch(command(server, &words), Output { json: true }).await.unwrap_err();
    assert!(failure.line().contains("(usage)"));
}
