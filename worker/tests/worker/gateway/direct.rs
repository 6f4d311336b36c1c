//! Conveyor fetching by itself: which addresses it touches, and where redirects lead.

use crate::gateway::server::{Received, Server, redirect, serve, serve_at, status};
use crate::gateway::{Failed, body_of, failed, get, limits, stopped, with_params};
use axum::response::IntoResponse;
use conveyor_domain::limits::REDIRECTS_MAX;
use conveyor_domain::{FailureClass, Method, TaskBody};
use conveyor_outbound::address::{self, Rule};
use conveyor_worker::gateway::direct::DirectGateway;
use conveyor_worker::gateway::{Gateway, GatewayAnswer, GatewayChoice, GatewayRequest, open};
use std::net::{IpAddr, Ipv4Addr};

async fn fetch(rule: Rule, request: GatewayRequest) -> GatewayAnswer {
    DirectGateway::new(limits(), stopped(), rule).unwrap().call(request).await
}

/// Of the loopback network, one host that plays the public internet.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn only_the_public_host(address: IpAddr) -> bool {
    address == IpAddr::V4(PUBLIC)
}

async fn public<F>(answer: F) -> Server
where
    F: Fn(&Received) -> axum::response::Response + Clone + Send + Sync + 'static,
{
    serve_at(&format!("{PUBLIC}:0"), answer).await
}

fn assert_not_allowed(failure: &Failed) {
    assert_eq!(failure.key(), (FailureClass::BadTarget, false, 403, "address_not_allowed"));
    let printed = format!("{failure:?}");
    assert!(!printed.contains("127.0.0"), "an address inside the network is not named: {printed}");
}

fn path_of(received: &Received) -> &str {
    received.uri.path()
}

#[tokio::test]
async fn the_loopback_is_refused_however_it_is_written() {
    let server = serve(|_| status(200)).await;
    let port = server.address.port();
    let choice = GatewayChoice::Direct { allow_private_targets: false };
    let gateway = open(&choice, limits(), stopped()).unwrap();
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "0x7f.1",
        "2130706433",
        "0",
        "[::ffff:127.0.0.1]",
        "LOCALHOST",
        "127.0.0.1.",
    ] {
        let failure = failed(gateway.call(get(format!("http://{host}:{port}/"))).await);
        assert_eq!(failure.key(), (FailureClass::BadTarget, false, 403, "address_not_allowed"), "{host}");
    }
    assert!(server.received().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn allowing_private_targets_lifts_the_check() {
    let server = serve(|_| (status(200).status(), "intranet").into_response()).await;
    let choice = GatewayChoice::Direct { allow_private_targets: true };
    let gateway = open(&choice, limits(), stopped()).unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let answer = gateway.call(get(format!("http://{host}:{}/a?b=c", server.address.port()))).await;
        assert_eq!(body_of(answer), "intranet", "{host}");
    }
    let received = &server.received()[0];
    assert_eq!(received.uri.to_string(), "/a?b=c");
    assert!(received.header("user-agent").unwrap().starts_with("conveyor/"));
}

#[tokio::test]
async fn a_redirect_to_a_refused_address_is_refused() {
    let private = serve(|_| (status(200).status(), "secret").into_response()).await;
    let port = private.address.port();
    for host in ["127.0.0.1", "localhost", "0x7f.1", "[::ffff:7f00:1]"] {
        let to = format!("http://{host}:{port}/");
        let first = public(move |_| redirect(302, &to)).await;
        let failure = failed(fetch(only_the_public_host, get(first.url("/"))).await);
        assert_not_allowed(&failure);
        assert_eq!(first.received().len(), 1);
    }
    assert!(private.received().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn the_check_comes_again_on_a_later_hop() {
    let private = serve(|_| status(200)).await;
    let to = private.url("/");
    let chain = public(move |received| match path_of(received) {
        "/a" => redirect(301, "/b"),
        "/b" => redirect(308, "c"),
        _ => redirect(302, &to),
    })
    .await;
    assert_not_allowed(&failed(fetch(only_the_public_host, get(chain.url("/a"))).await));
    assert_eq!(chain.received().iter().map(path_of).collect::<Vec<_>>(), ["/a", "/b", "/c"]);
    assert!(private.received().is_empty());
}

/// `/3` redirects to `/2`, and so on; `/0` is the page.
fn countdown(received: &Received) -> axum::response::Response {
    match path_of(received).trim_start_matches('/').parse::<usize>().unwrap() {
        0 => (status(200).status(), "arrived").into_response(),
        n => redirect(302, &format!("/{}", n - 1)),
    }
}

#[tokio::test]
async fn redirects_are_followed_so_far_and_no_further() {
    let server = serve(countdown).await;
    let answer = fetch(address::any, get(server.url(&format!("/{REDIRECTS_MAX}")))).await;
    assert_eq!(body_of(answer), "arrived");
    assert_eq!(server.received().len(), REDIRECTS_MAX + 1);

    let server = serve(countdown).await;
    let failure = failed(fetch(address::any, get(server.url(&format!("/{}", REDIRECTS_MAX + 1)))).await);
    assert_eq!(failure.key(), (FailureClass::Other, false, 302, "http_302"));
    assert_eq!(failure.problem.detail.as_deref(), Some("too many redirects"));
    assert_eq!(server.received().len(), REDIRECTS_MAX + 1);
}

#[tokio::test]
async fn redirects_to_nowhere_end_there() {
    for to in ["file:///etc/passwd", "ftp://127.0.0.1/", "javascript:alert(1)", "http://", "http://[::1"] {
        let server = serve(move |_| redirect(302, to)).await;
        let failure = failed(fetch(address::any, get(server.url("/"))).await);
        assert_eq!(failure.key(), (FailureClass::Other, false, 302, "http_302"), "{to}");
        assert!(failure.problem.detail.is_some(), "{to}");
    }
    let server = serve(|_| status(301)).await;
    let failure = failed(fetch(address::any, get(server.url("/"))).await);
    assert_eq!(failure.problem.detail.as_deref(), Some("a redirect without a Location"));
}

fn post(url: String) -> GatewayRequest {
    let body = Some(TaskBody::Json(r#"{"a":1}"#.to_owned()));
    GatewayRequest { method: Method::Post, body, ..get(url) }
}

#[tokio::test]
async fn a_redirected_post_becomes_a_get_or_stays_one() {
    for (code, becomes) in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")] {
        let server = serve(move |received| match path_of(received) {
            "/from" => redirect(code, "/to"),
            _ => status(200),
        })
        .await;
        fetch(address::any, post(server.url("/from"))).await;
        let received = server.received();
        assert_eq!((received[0].method.as_str(), &received[0].body[..]), ("POST", br#"{"a":1}"#.as_slice()));
        assert_eq!(received[1].method, becomes, "{code}");
        assert_eq!(received[1].body.is_empty(), becomes == "GET", "{code}");
        assert_eq!(received[1].header("content-type").is_some(), becomes == "POST", "{code}");
    }
}

/// A page of somebody's may say what it likes.
#[tokio::test]
async fn a_target_charges_nobody() {
    let server =
        serve(|_| ([("x-request-cost", "9"), ("x-request-credits", "9")], "page").into_response()).await;
    let answer = fetch(address::any, get(server.url("/"))).await;
    let GatewayAnswer::Success { spend, .. } = answer else { panic!("{answer:?}") };
    assert!(spend.is_zero());
}

#[tokio::test]
async fn credentials_stay_with_their_site() {
    let headers =
        r#"{"Authorization": "Bearer x", "Cookie": "sid=1", "X-Api-Key": "k", "User-Agent": "mine"}"#;
    let elsewhere = serve(|_| status(200)).await;
    let to = elsewhere.url("/");
    let server = serve(move |received| match path_of(received) {
        "/a" => redirect(302, "/b"),
        _ => redirect(302, &to),
    })
    .await;
    fetch(address::any, with_params(get(server.url("/a")), &[("custom_headers", headers)])).await;
    let same_site = &server.received()[1];
    assert_eq!(same_site.header("cookie"), Some("sid=1"));
    assert_eq!(same_site.header("x-api-key"), Some("k"));
    let received = elsewhere.only();
    assert_eq!(received.header("user-agent"), Some("mine"));
    for name in ["authorization", "cookie", "x-api-key"] {
        assert_eq!(received.header(name), None, "{name}");
    }
}

#[tokio::test]
async fn a_password_in_the_url_stays_with_its_site() {
    let elsewhere = serve(|_| status(200)).await;
    let to = elsewhere.url("/");
    let server = serve(move |_| redirect(302, &to)).await;
    let url = server.url("/").replace("http://", "http://me:pass@");
    fetch(address::any, get(url)).await;
    assert!(server.only().header("authorization").unwrap().starts_with("Basic "));
    assert_eq!(elsewhere.only().header("authorization"), None);
}

#[tokio::test]
async fn a_target_speaks_only_about_itself() {
    for code in [401, 402, 403] {
        let body = serde_json::json!({"code": "subscription_inactive"});
        let server = serve(move |_| crate::gateway::server::problem(code, body.clone())).await;
        let failure = failed(fetch(address::any, get(server.url("/"))).await);
        let named = format!("http_{code}");
        assert_eq!(failure.key(), (FailureClass::Blocked, true, code, named.as_str()));
        assert_eq!(failure.problem.title, format!("The target answered {code}"));
    }
    let server = serve(|_| status(404)).await;
    let failure = failed(fetch(address::any, get(server.url("/"))).await);
    assert_eq!(failure.key(), (FailureClass::BadTarget, false, 404, "http_404"));
}

#[tokio::test]
async fn a_name_without_an_address_may_get_one_later() {
    // A label of 64 characters cannot exist, so no name server is asked.
    let url = format!("http://{}.invalid/", "a".repeat(64));
    let failure = failed(fetch(address::is_public, get(url)).await);
    assert_eq!(failure.key(), (FailureClass::BadTarget, true, 502, "target_unresolvable"));
}

#[tokio::test]
async fn a_url_that_cannot_be_fetched_is_not_tried_again() {
    for url in ["not a url", "data:text/plain,x", "ftp://t.example/"] {
        let failure = failed(fetch(address::any, get(url)).await);
        assert_eq!((failure.class, failure.retry), (FailureClass::BadTarget, false), "{url}");
    }
}
