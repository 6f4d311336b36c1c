//! A gateway behind HTTP: what it is sent, and the table of SPEC 9.

use crate::gateway::server::{Received, Server, problem, serve, status};
use crate::gateway::{body_of, failed, get, limits, stopped, with_params};
use axum::response::{IntoResponse, Response};
use conveyor_domain::{AccountFault, FailureClass, Method, Spend, TaskBody, params};
use conveyor_worker::gateway::http::HttpGateway;
use conveyor_worker::gateway::{
    Credential, Gateway, GatewayAnswer, GatewayChoice, GatewayLimits, GatewayRequest, open,
};
use serde_json::json;
use std::time::Duration;

fn gateway(server: &Server) -> HttpGateway {
    HttpGateway::new(server.endpoint(), limits(), stopped()).unwrap()
}

/// What one request makes the gateway receive, and what comes back.
async fn exchange<F>(answer: F, request: GatewayRequest) -> (Received, GatewayAnswer)
where
    F: Fn(&Received) -> Response + Clone + Send + Sync + 'static,
{
    let server = serve(answer).await;
    let answer = gateway(&server).call(request).await;
    (server.only(), answer)
}

async fn received(request: GatewayRequest) -> Received {
    exchange(|_| status(200), request).await.0
}

async fn answered(code: u16, headers: &'static [(&'static str, &'static str)]) -> GatewayAnswer {
    let answer = move |_: &Received| {
        let mut response = status(code);
        for (name, value) in headers {
            response.headers_mut().insert(*name, value.parse().unwrap());
        }
        response
    };
    exchange(answer, get("https://t.example/")).await.1
}

#[tokio::test]
async fn key_url_and_merged_params_travel_in_the_query() {
    let job = with_params(get(""), &[("js_render", "true"), ("wait", "10")]).params;
    let task = with_params(get(""), &[("wait", "20")]).params;
    let mut request = get("https://t.example/ü?a=1&b=2#c");
    request.params = params::merge(&job, &task);
    request.credential = Some(Credential::new("key/with+signs&more"));
    let received = received(request).await;
    let expected = [
        ("apikey", "key/with+signs&more"),
        ("url", "https://t.example/ü?a=1&b=2#c"),
        ("js_render", "true"),
        ("wait", "20"),
    ];
    assert_eq!(received.query(), expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    assert_eq!(received.method, "GET");
    assert_eq!(received.header("user-agent"), None, "a gateway that passes headers on would pass on ours");
    assert_eq!(received.header("accept-encoding"), None);
}

#[tokio::test]
async fn the_query_of_the_gateway_url_is_kept() {
    let server = serve(|_| status(200)).await;
    let choice: GatewayChoice = server.url("/v2/fetch?pool=eu").parse().unwrap();
    let gateway = open(&choice, GatewayLimits::default(), stopped()).unwrap();
    gateway.call(get("https://t.example/")).await;
    let received = server.only();
    assert_eq!(received.uri.path(), "/v2/fetch");
    assert_eq!(received.query()[0], ("pool".to_owned(), "eu".to_owned()));
    assert_eq!(received.query().len(), 2, "no apikey without a credential");
}

#[tokio::test]
async fn custom_headers_travel_as_headers() {
    let headers = r#"{"X-One": "1", "Cookie": "a=b; c=ü"}"#;
    let received = received(with_params(get("https://t.example/"), &[("custom_headers", headers)])).await;
    assert_eq!(received.query()[1], ("custom_headers".to_owned(), "true".to_owned()));
    assert_eq!(received.header("x-one"), Some("1"));
    assert_eq!(received.headers["cookie"].as_bytes(), "a=b; c=ü".as_bytes());
}

#[tokio::test]
async fn headers_of_the_connection_are_the_gateways_own() {
    // A submit drops them; from a row that holds them all the same they are not sent.
    let headers = r#"{"X-One": "1", "Host": "elsewhere.example", "Content-Length": "999"}"#;
    let received = received(with_params(get("https://t.example/"), &[("custom_headers", headers)])).await;
    assert!(received.header("host").unwrap().starts_with("127.0.0.1:"));
    assert_eq!((received.header("content-length"), received.header("x-one")), (None, Some("1")));
}

#[tokio::test]
async fn a_post_carries_its_body_as_it_is() {
    let post = |body| GatewayRequest { method: Method::Post, body, ..get("https://t.example/") };
    let json = received(post(Some(TaskBody::Json(r#"{"a": 1}"#.to_owned())))).await;
    assert_eq!((json.method.as_str(), &json.body[..]), ("POST", br#"{"a": 1}"#.as_slice()));
    assert_eq!(json.header("content-type"), Some("application/json"));

    let form = received(post(Some(TaskBody::Form("a=1&b=%20".to_owned())))).await;
    assert_eq!((form.method.as_str(), &form.body[..]), ("POST", b"a=1&b=%20".as_slice()));
    assert_eq!(form.header("content-type"), Some("application/x-www-form-urlencoded"));

    let named = post(Some(TaskBody::Form("<a/>".to_owned())));
    let named = received(with_params(named, &[("custom_headers", r#"{"content-type": "text/xml"}"#)])).await;
    assert_eq!(named.header("content-type"), Some("text/xml"));
    assert_eq!(named.headers.get_all("content-type").iter().count(), 1);

    let empty = received(post(None)).await;
    assert_eq!((empty.method.as_str(), empty.body.len()), ("POST", 0));
    assert_eq!(empty.header("content-type"), None);
}

#[tokio::test]
async fn a_2xx_is_a_success_with_its_status_and_body() {
    for code in [200, 201, 206] {
        let (_, answer) =
            exchange(move |_| (status(code).status(), "page").into_response(), get("https://t.example/"))
                .await;
        assert!(matches!(&answer, GatewayAnswer::Success { http_status, .. } if *http_status == code));
        assert_eq!(body_of(answer), "page");
    }
    assert_eq!(body_of(answered(204, &[]).await), "");
}

#[tokio::test]
async fn what_a_call_cost_is_in_its_headers_whatever_came_of_it() {
    const CHARGED: &[(&str, &str)] = &[("x-request-cost", "0.00028"), ("x-request-credits", "5")];
    const NONSENSE: &[(&str, &str)] = &[("x-request-cost", "-1"), ("x-request-credits", "a lot")];
    let charged = Spend { credits: 5, cost_nanos: 280_000 };
    for code in [200, 404, 503] {
        for (headers, expected) in [(CHARGED, charged), (NONSENSE, Spend::default()), (&[], Spend::default())]
        {
            let spend = match answered(code, headers).await {
                GatewayAnswer::Success { spend, .. } | GatewayAnswer::Failure { spend, .. } => spend,
                other @ GatewayAnswer::Account { .. } => panic!("{other:?}"),
            };
            assert_eq!(spend, expected, "{code}");
        }
    }
}

#[tokio::test]
async fn every_row_of_the_table() {
    use FailureClass::*;
    let table = [
        (400, BadTarget, false),
        (404, BadTarget, false),
        (410, BadTarget, false),
        (413, BadTarget, false),
        (414, BadTarget, false),
        (451, BadTarget, false),
        (401, AuthFailed, false),
        (403, Blocked, true),
        (422, Blocked, true),
        (408, Timeout, true),
        (504, Timeout, true),
        (429, RateLimited, true),
        (500, GatewayError, true),
        (502, GatewayError, true),
        (503, GatewayError, true),
        (304, Other, false),
        (405, Other, false),
        (418, Other, false),
    ];
    for (code, class, retry) in table {
        let failure = failed(answered(code, &[]).await);
        let named = format!("http_{code}");
        assert_eq!(failure.key(), (class, retry, code, named.as_str()));
        assert_eq!(failure.problem.kind, format!("urn:conveyor:error:http_{code}"));
        assert_eq!(failure.problem.title, format!("The gateway answered {code}"));
    }
}

#[tokio::test]
async fn account_faults_fail_the_run_with_a_reason() {
    use AccountFault::*;
    let long = "x".repeat(600);
    let table = [
        (
            402,
            json!({"code": "AUTH004", "title": "Usage exceeded"}),
            InsufficientCredits,
            "Usage exceeded".to_owned(),
        ),
        (
            402,
            json!({"code": "api_key_cap_reached", "detail": "daily cap"}),
            ApiKeyCapReached,
            "daily cap".to_owned(),
        ),
        (
            401,
            json!({"code": "subscription_inactive", "detail": long}),
            SubscriptionInactive,
            long[..500].to_owned(),
        ),
        (402, json!("not a problem"), InsufficientCredits, "The gateway answered 402".to_owned()),
    ];
    for (code, body, fault, detail) in table {
        let (_, answer) = exchange(move |_| problem(code, body.clone()), get("https://t.example/")).await;
        assert_eq!(answer, GatewayAnswer::Account { fault, detail });
    }
    let denied = json!({"code": "AUTH002", "detail": "unknown key"});
    let (_, answer) = exchange(move |_| problem(401, denied.clone()), get("https://t.example/")).await;
    assert_eq!(failed(answer).key(), (FailureClass::AuthFailed, false, 401, "AUTH002"));
}

#[tokio::test]
async fn the_gateways_problem_is_the_tasks_problem() {
    let body = json!({
        "code": "RESP001", "title": "Could not get content", "detail": "Try again", "status": 422,
        "type": "https://docs.example/#RESP001", "instance": "/v1", "internal": [1, 2],
    });
    let (_, answer) = exchange(move |_| problem(422, body.clone()), get("https://t.example/")).await;
    let stored = serde_json::to_value(failed(answer).problem).unwrap();
    let expected = json!({
        "code": "RESP001", "title": "Could not get content", "detail": "Try again", "status": 422,
        "type": "https://docs.example/#RESP001",
    });
    assert_eq!(stored, expected);
}

#[tokio::test]
async fn an_endless_error_body_is_cut() {
    let page = |_: &Received| {
        (status(500).status(), format!("{{\"code\": \"x\", \"detail\": \"{}\"}}", "y".repeat(100_000)))
            .into_response()
    };
    let (_, answer) = exchange(page, get("https://t.example/")).await;
    assert_eq!(failed(answer).problem.code, "http_500");
}

#[tokio::test]
async fn retry_after_is_honoured_where_the_table_says_so() {
    let seconds = |s| Some(Duration::from_secs(s));
    assert_eq!(failed(answered(429, &[("retry-after", "7")]).await).retry_after, seconds(7));
    let date = &[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")];
    assert_eq!(failed(answered(503, date).await).retry_after, seconds(30));
    assert_eq!(failed(answered(503, &[("retry-after", "soon")]).await).retry_after, None);
    assert_eq!(failed(answered(403, &[("retry-after", "7")]).await).retry_after, None);
    assert_eq!(failed(answered(429, &[]).await).retry_after, None);
}

#[tokio::test]
async fn redirects_of_the_gateway_are_not_followed() {
    let server = serve(|_| crate::gateway::server::redirect(302, "/elsewhere")).await;
    let failure = failed(gateway(&server).call(get("https://t.example/")).await);
    assert_eq!(failure.key(), (FailureClass::Other, false, 302, "http_302"));
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn the_key_does_not_come_back_in_an_error() {
    let echo = |received: &Received| {
        let said = format!("cannot serve {} with {:?}", received.uri, received.query());
        problem(400, json!({"code": "bad", "title": said, "detail": said}))
    };
    let mut request = get("https://t.example/");
    request.credential = Some(Credential::new("forwarded+key/123"));
    let (received, answer) = exchange(echo, request).await;
    assert!(received.uri.to_string().contains("forwarded"));
    let printed = format!("{answer:?}");
    assert!(!printed.contains("forwarded") && printed.contains("[key]"), "{printed}");
}

#[tokio::test]
async fn one_connection_serves_one_request_after_another() {
    let server = serve(|_| (status(200).status(), "page").into_response()).await;
    let gateway = gateway(&server);
    for _ in 0..20 {
        assert_eq!(body_of(gateway.call(get("https://t.example/")).await), "page");
    }
    let received = server.received();
    assert_eq!(received.len(), 20);
    assert!(received.iter().all(|request| request.peer == received[0].peer));
}

#[tokio::test]
async fn with_original_status_the_status_is_the_targets_unless_a_problem_says_otherwise() {
    let original = || with_params(get("https://t.example/"), &[("original_status", "true")]);
    let page = serve(|_| status(402)).await;
    let gateway = open(&page.url("/").parse().unwrap(), GatewayLimits::default(), stopped()).unwrap();
    let answer = gateway.call(original()).await;
    assert!(
        matches!(answer, GatewayAnswer::Failure { class: FailureClass::Blocked, retry: true, .. }),
        "{answer:?}"
    );
    let answer = gateway.call(get("https://t.example/")).await;
    assert!(matches!(answer, GatewayAnswer::Account { .. }), "{answer:?}");
}
