//! SPEC 3.9, on every route that the API describes: an id of another caller answers exactly like one that nobody has. A
//! new route with an id is covered by being described; one with a new kind of id fails here until it has one.

use crate::described::{Operation, operations};
use crate::world::{Answer, KEY, OTHER_KEY, World};
use axum::http::{HeaderMap, Request};
use conveyor_domain::delivery::webhook::Target;
use conveyor_domain::{Command, ExportId, Format, JobId, RunId, TaskId, UploadId};
use conveyor_store::port::RunKey;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Parameters of paths, by name.
type Ids = BTreeMap<&'static str, String>;

fn filled(operation: Operation, ids: &Ids) -> String {
    let mut path = operation.path.to_owned();
    for name in operation.parameters("path") {
        let id = ids
            .get(name)
            .unwrap_or_else(|| panic!("{}: what is `{name}`? Give it an id here.", operation.path));
        path = path.replace(&format!("{{{name}}}"), id);
    }
    path
}

/// Everything that a caller can see of an answer, without what differs between any two.
fn visible(answer: &Answer) -> (u16, HeaderMap, Value) {
    let mut body = answer.json();
    body["instance"] = Value::Null;
    let mut headers = answer.headers.clone();
    headers.remove("x-request-id");
    // What a caller may still ask differs from one answer to the next, whoever asks.
    for name in ["ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"]
    {
        headers.remove(name);
    }
    (answer.status.as_u16(), headers, body)
}

fn ids_of(RunKey { job, run }: RunKey, upload: &str, export: &str) -> Ids {
    Ids::from([
        ("job", job.to_string()),
        ("run", run.to_string()),
        ("task", TaskId::of(run, 0).to_string()),
        ("upload", upload.to_owned()),
        // Told of the end of this run, once it has one; the same id whoever asks.
        ("event", Target::Webhook.event_of(run).to_string()),
        ("export", export.to_owned()),
    ])
}

/// Something of everything, of the first caller.
async fn mine(world: &World) -> Ids {
    let key = world.submit("open", 2).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    let slot = world.slot(json!({"type": "lines", "multipart": true})).await;
    let export = world.act(&format!("/v1/jobs/{}/runs/{}/exports", key.job, key.run)).await.json();
    ids_of(key, slot["file_input_id"].as_str().unwrap(), export["export_id"].as_str().unwrap())
}

/// The same of a run that has ended, and of which somebody is told.
async fn ended(world: &World) -> Ids {
    let hook = json!({"url": "http://127.0.0.1:9/"});
    let key = world.submitted(json!({"tasks": [{"url": "https://a.example"}], "webhook": hook})).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    world.apply(key.job, Command::Drained).await;
    let ids = ids_of(key, "", "");
    let seen = world.get(&format!("/v1/jobs/{}/deliveries/{}", key.job, ids["event"])).await;
    assert_eq!(seen.status, 200, "{:?}", seen.body);
    ids
}

fn nobodys(world: &World) -> Ids {
    let now = world.now();
    let key = RunKey { job: JobId::new(now, &world.entropy), run: RunId::new(now, &world.entropy) };
    let export = ExportId::new(now, &world.entropy).to_string();
    ids_of(key, &UploadId::new(now, &world.entropy).to_string(), &export)
}

/// Routes of callers that have an id in their path.
fn routes_with_ids() -> impl Iterator<Item = Operation> {
    operations()
        .into_iter()
        .filter(|one| one.key() == Some("ApiKey") && one.parameters("path").next().is_some())
}

/// What is sent: an example, and something that no route takes.
fn bodies(operation: Operation) -> Vec<Option<Value>> {
    match operation.body() {
        Some(example) => vec![Some(example.clone()), Some(json!({"nonsense": true})), None],
        None => vec![None],
    }
}

#[tokio::test]
async fn anothers_ids_are_answered_like_unknown_ones() {
    let world = World::new().await;
    let (mine, ended, nobodys) = (mine(&world).await, ended(&world).await, nobodys(&world));
    let mut asked = 0;
    for operation in routes_with_ids() {
        let method = operation.method.to_uppercase();
        let ids = if operation.path.contains("{event}") { &ended } else { &mine };
        for body in bodies(operation) {
            let theirs = world.call(&method, &filled(operation, ids), Some(OTHER_KEY), body.clone()).await;
            let unknown = world.call(&method, &filled(operation, &nobodys), Some(OTHER_KEY), body).await;
            assert_eq!(theirs.status, 404, "{method} {}: {:?}", operation.path, theirs.body);
            assert_eq!(visible(&theirs), visible(&unknown), "{method} {}", operation.path);
            asked += 1;
        }
        // Whose it is comes before the query. An upload is aborted without being read first.
        let expected =
            if (&*method, operation.path) == ("DELETE", "/v1/job_inputs/{upload}") { 400 } else { 404 };
        for ids in [ids, &nobodys] {
            let path = filled(operation, ids) + "?nonsense=1";
            let answer = world.call(&method, &path, Some(OTHER_KEY), operation.body().cloned()).await;
            assert_eq!(answer.status, expected, "{method} {path}: {:?}", answer.body);
        }
    }
    assert!(asked >= 30, "{asked}");
    let shown = world.get(&format!("/v1/jobs/{}", mine["job"])).await.json();
    assert_eq!(shown["status"], "open", "nothing that the other tried happened");
    assert_eq!(shown["max_inflight"], 100);
    assert_eq!(world.get(&format!("/v1/job_inputs/{}", mine["upload"])).await.status, 200);
}

/// A run or a task is not found below a job that it does not belong to, though that job is the caller's own.
#[tokio::test]
async fn anothers_ids_below_an_own_job_are_answered_like_unknown_ones() {
    let world = World::new().await;
    let (mine, nobodys) = (mine(&world).await, nobodys(&world));
    let theirs = json!({"status": "open", "tasks": [{"url": "https://a.example"}]});
    let own = world.call("POST", "/v1/jobs", Some(OTHER_KEY), Some(theirs)).await.run_key();
    for operation in routes_with_ids() {
        let below: Vec<&str> = operation
            .parameters("path")
            .filter(|name| ["run", "task", "event", "export"].contains(name))
            .collect();
        if !operation.path.starts_with("/v1/jobs/{job}/") || below.is_empty() {
            continue;
        }
        let with =
            |ids: &Ids| filled(operation, &Ids::from_iter([ids.clone(), own_job(own)].into_iter().flatten()));
        let method = operation.method.to_uppercase();
        let theirs = world.call(&method, &with(&mine), Some(OTHER_KEY), operation.body().cloned()).await;
        let unknown = world.call(&method, &with(&nobodys), Some(OTHER_KEY), operation.body().cloned()).await;
        assert_eq!(theirs.status, 404, "{method} {}: {:?}", operation.path, theirs.body);
        assert_eq!(visible(&theirs), visible(&unknown), "{method} {}", operation.path);
    }
}

fn own_job(own: RunKey) -> Ids {
    Ids::from([("job", own.job.to_string())])
}

#[tokio::test]
async fn lists_hold_nothing_of_another() {
    let world = World::new().await;
    let mine = mine(&world).await;
    for operation in operations() {
        let lists = operation.key() == Some("ApiKey") && operation.method == "get";
        if !lists || operation.parameters("path").next().is_some() {
            continue;
        }
        let seen = world.call("GET", operation.path, Some(OTHER_KEY), None).await.text();
        let own = world.call("GET", operation.path, Some(KEY), None).await.text();
        let held = |text: &str| mine.values().any(|id| text.contains(id.as_str()));
        assert!(!held(&seen), "{}: {seen}", operation.path);
        // A list that has nothing of anybody proves nothing: quotas and keys have no ids of these kinds.
        if operation.parameters("query").any(|name| name == "cursor") {
            assert!(held(&own), "{}: {own}", operation.path);
        }
    }
}

#[tokio::test]
async fn anothers_list_is_not_there_for_a_submit() {
    let world = World::new().await;
    let staged = world.staged(json!({"type": "lines"}), "https://a.example\n").await;
    let nobodys = UploadId::new(world.now(), &world.entropy).to_string();
    let submit = async |id: &str| {
        world.call("POST", "/v1/jobs", Some(OTHER_KEY), Some(json!({"file_input_id": id}))).await
    };
    let (theirs, unknown) = (submit(&staged).await, submit(&nobodys).await);
    theirs.refused(404, "file_input_not_found");
    assert_eq!(visible(&theirs), visible(&unknown));
}

/// The text with one character replaced.
fn edited(text: &str, at: usize) -> String {
    let mut bytes = text.as_bytes().to_vec();
    bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn cursors_are_of_no_use_edited_or_to_another() {
    let world = World::new().await;
    let mut ids = mine(&world).await;
    mine(&world).await;
    ids.insert("letter", "01KCX5T0Q8H2V4M6N8P0R2S4T6".to_owned());
    let mut sealed = 0;
    for operation in operations() {
        if operation.key() != Some("ApiKey") || !operation.parameters("query").any(|name| name == "cursor") {
            continue;
        }
        let path = filled(operation, &ids);
        for nonsense in ["AAAA", "%00", "01KCX5T0Q8H2V4M6N8P0R2S4T6"] {
            world.get(&format!("{path}?cursor={nonsense}")).await.refused(400, "invalid_cursor");
        }
        let page = world.get(&format!("{path}?limit=1")).await.json();
        let Some(cursor) = page["next_cursor"].as_str() else { continue };
        sealed += 1;
        assert_eq!(world.get(&format!("{path}?cursor={cursor}")).await.status, 200, "{path}");
        for at in [0, cursor.len() / 2, cursor.len() - 2] {
            let edited = edited(cursor, at);
            world.get(&format!("{path}?cursor={edited}")).await.refused(400, "invalid_cursor");
        }
        world.get(&format!("{path}?cursor={}", &cursor[1..])).await.refused(400, "invalid_cursor");
        let theirs = world.call("GET", &format!("{path}?cursor={cursor}"), Some(OTHER_KEY), None).await;
        assert!([400, 404].contains(&theirs.status.as_u16()), "{path}: {}", theirs.status);
    }
    assert!(sealed >= 4, "only {sealed} lists had a second page");
}

/// A signed URL of each kind, as its route is described.
async fn signed_urls(world: &World) -> BTreeMap<&'static str, String> {
    let key = world.submit("closed", 1).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    let results = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
    let whole = world.slot(json!({"type": "lines"})).await;
    let parts = world.slot(json!({"type": "lines", "multipart": true})).await;
    let parts = format!("/v1/job_inputs/{}/parts", parts["file_input_id"].as_str().unwrap());
    let parts = world.post(&parts, json!({"numbers": [1]})).await.json();
    let export = world.act(&format!("/v1/jobs/{}/runs/{}/exports", key.job, key.run)).await;
    world.build_exports().await;
    let export = world.get(export.header("location")).await.json();
    BTreeMap::from([
        ("/v1/exports/{job}/{run}/{export}", text(&export["download_url"])),
        ("/v1/content/{job}/{run}/{task}", text(&results["results"][0]["result_url"])),
        ("/v1/uploads/{caller}/{upload}", text(&whole["upload"]["url"])),
        ("/v1/uploads/{caller}/{upload}/parts/{number}", text(&parts["parts"][0]["url"])),
    ])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().strip_prefix("http://api.test:8080").unwrap().to_owned()
}

#[tokio::test]
async fn signed_urls_are_of_no_use_edited() {
    let world = World::new().await;
    let urls = signed_urls(&world).await;
    for operation in
        operations().into_iter().filter(|one| one.parameters("query").any(|name| name == "signature"))
    {
        let url =
            urls.get(operation.path).unwrap_or_else(|| panic!("{}: no signed URL here", operation.path));
        let call = async |url: &str| {
            let request = Request::builder().method(operation.method.to_uppercase().as_str()).uri(url);
            world
                .send(
                    request.header("content-type", "text/plain").body("https://a.example\n".into()).unwrap(),
                )
                .await
        };
        let (path, query) = url.split_once('?').unwrap();
        let (before, signature) = query.split_once("&signature=").unwrap();
        let (caller, expires) = before.split_at(before.find("expires=").unwrap());
        let later: i64 = expires.strip_prefix("expires=").unwrap().parse::<i64>().unwrap() + 60;
        let mut forged = vec![
            path.to_owned(),
            format!("{path}?{before}"),
            format!("{path}?{before}&signature="),
            format!("{path}?{caller}expires={later}&signature={signature}"),
        ];
        forged.extend(
            [0, signature.len() / 2, signature.len() - 2]
                .map(|at| format!("{path}?{before}&signature={}", edited(signature, at))),
        );
        if let Some(caller) = caller.strip_suffix('&') {
            forged.push(format!("{path}?{}&{expires}&signature={signature}", another(caller)));
            forged.push(format!("{path}?{expires}&signature={signature}"));
        }
        // Another job, run, task, caller, upload or part under the same signature.
        let parts: Vec<&str> = path.split('/').collect();
        for (n, part) in parts.iter().enumerate().skip(3).filter(|(_, part)| **part != "parts") {
            let mut other: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
            other[n] = if *part == "1" { "2".to_owned() } else { another(part) };
            forged.push(format!("{}?{query}", other.join("/")));
        }
        for forged in forged {
            call(&forged).await.refused(403, "signature_invalid");
        }
        assert_eq!(call(url).await.status, 200, "{url}: the true one is still good");
    }
}

/// An id that differs in its last character, and is still one.
fn another(id: &str) -> String {
    let last = if id.ends_with('0') { '1' } else { '0' };
    format!("{}{last}", &id[..id.len() - 1])
}
