//! Callers that hold what others need (SPEC 6.27): connections, streams and bodies. Everybody else is served all the same.

use crate::support::{
    self, Client, KEY, OTHER_KEY, Process, embedded_command, run, sibling, sized, until, until_read, urls,
};
use conveyor_domain::limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use tempfile::TempDir;

/// A server that may have so many descriptors.
fn server_with_descriptors(dir: &TempDir, descriptors: u32) -> Process {
    let server = embedded_command(dir.path(), &["--gateway-url", "null:"]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"")]);
    command.arg(server.get_program()).args(server.get_args());
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Process::start(command)
}

#[tokio::test]
async fn hostile_connections_of_every_kind_keep_nobody_out() {
    let dir = TempDir::new().unwrap();
    // 1,024 connections are what is left of these, and as many again for half of them: fewer than the attackers hold.
    let reserved = u32::try_from(limits::DESCRIPTORS_RESERVED).unwrap();
    let (connections_max, connections) = (sized(1_024, 1_700), sized(1_200, 2_000));
    let descriptors = connections_max + connections_max / 2 + reserved;
    let server = server_with_descriptors(&dir, descriptors);
    let attack = async |more: &[&str]| {
        let mut command = Command::new(sibling("loadtest"));
        command.args(["hostile", "--server", &server.url, "--api-key", KEY, "--hostile-key", OTHER_KEY]);
        command.args(["--connections", &connections.to_string(), "--calls", &sized(10, 300).to_string()]);
        command.args(["--rows", &sized(200, 1_000).to_string()]).args(more);
        // How long the victim's calls take is held against the limit at full size only: small, a few calls would decide.
        command.args(sized(None, Some("--check")));
        let output = tokio::task::spawn_blocking(move || run(command)).await.unwrap();
        let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{why}\n{said}");
        let report: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&report["refusals"], &report["health_unanswered"]), (&json!(0), &json!(0)));
        report["attacks"].as_array().unwrap().clone()
    };
    let together = attack(&["--together"]).await;
    assert!(together.iter().all(|attack| attack["kinds"].as_array().unwrap().len() == 6), "{together:?}");
    assert!(together.iter().all(|attack| attack["opened"].as_u64().unwrap() >= 6 * connections));
    let attacks = attack(&[]).await;
    assert_eq!((together.len(), attacks.len()), (2, 12));
    for attack in attacks {
        assert!(attack["opened"].as_u64().unwrap() >= connections, "{attack}");
        let held = attack["server_connections"].as_u64().unwrap();
        assert!((1..=u64::from(connections_max)).contains(&held), "{attack}");
        assert!(attack["health_asked"].as_u64().unwrap() >= 2, "{attack}");
        // Those who never end a request keep places, of which there are enough for others.
        let takes_places =
            ["slow_body", "slow_reader", "sse"].contains(&attack["kinds"][0].as_str().unwrap());
        assert_eq!(attack["server_places"].as_u64().unwrap() > 0, takes_places, "{attack}");
    }
    server.stop().await;
}

/// One descriptor for each connection of a test.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

fn send(server: &Process, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(support::DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// What the server's metrics say under a name.
async fn metric(client: &Client, name: &str) -> Option<u64> {
    let (_, page) = client.text(&format!("{}/metrics", client.url)).await;
    page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[tokio::test]
async fn more_event_streams_than_a_caller_may_have_leave_others_served() {
    raise_descriptors();
    let dir = TempDir::new().unwrap();
    let server = support::embedded(dir.path(), &["--gateway-url", "null:"]);
    let job = Client::with_key(&server, OTHER_KEY).submit(&urls("followed", 1)).await;
    let request = format!(
        "GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: x\r\nX-API-Key: {OTHER_KEY}\r\nAccept: text/event-stream\r\n\r\n"
    );
    let streams: Vec<TcpStream> = (0..1_030).map(|_| send(&server, &request)).collect();
    let victim = Client::new(&server);
    victim.submit(&urls("meanwhile", 1)).await;
    assert_eq!(victim.text(&format!("{}/healthz", server.url)).await.0, 200);
    let mut answers = [0, 0];
    for mut stream in &streams {
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        match &status[9..] {
            b"200" => answers[0] += 1,
            b"429" => answers[1] += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    assert_eq!(answers, [100, 930]);
    drop(streams);
    until("those that ended have made room", async || {
        metric(&victim, "conveyor_places{of=\"streams\"}").await == Some(0)
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn slow_bodies_of_one_caller_leave_others_served() {
    let dir = TempDir::new().unwrap();
    let server = support::embedded(dir.path(), &["--gateway-url", "null:"]);
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nX-API-Key: {OTHER_KEY}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{{",
        64 << 20
    );
    let slow: Vec<TcpStream> = (0..5).map(|_| send(&server, &head)).collect();
    for stream in &slow {
        until_read(stream).await;
    }
    let victim = Client::new(&server);
    until("the bodies have their places", async || {
        metric(&victim, "conveyor_places{of=\"requests\"}").await == Some(5)
    })
    .await;
    for n in 0..3 {
        victim.submit(&urls(&format!("meanwhile-{n}"), 100)).await;
    }
    // All of them still arrive: nothing of this waited for them to end.
    assert!(slow.iter().all(|stream| {
        stream.set_nonblocking(true).unwrap();
        (&*stream).read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }));
}
