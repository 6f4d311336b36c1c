use super::*;
use crate::problem::Unrendered;
use crate::wire::job::shown_domain_limits;
use axum::response::IntoResponse;
use serde_json::{Value, json};

fn change(body: &Value) -> Result<LimitsChange> {
    parse_change(body.to_string().as_bytes(), &Warnings::strict())
}

/// The detail of a refusal, which must be an invalid argument.
#[track_caller]
fn refused(body: Value) -> String {
    let response = change(&body).unwrap_err().into_response();
    let problem = response.extensions().get::<Unrendered>().unwrap().problem.clone();
    assert_eq!((problem.status, problem.code.as_str()), (400, "invalid_argument"), "{body}");
    problem.detail.unwrap()
}

#[test]
fn what_is_not_there_stays_and_null_takes_away() {
    let one = change(&json!({"max_inflight": 7})).unwrap();
    assert_eq!(one, LimitsChange { max_inflight: Some(7), ..LimitsChange::default() });
    let none =
        change(&json!({"rate_limit": null, "retry": null, "domain_limits": null, "max_failure_ratio": null}))
            .unwrap();
    assert_eq!(
        none,
        LimitsChange {
            max_inflight: None,
            rate: Some(None),
            retry: Some(RetryChoice::default()),
            domain_limits: Some(DomainLimits::default()),
            max_failure_ratio: Some(None),
        }
    );
    let rate = change(&json!({"rate_limit": {"per_second": 2.5}})).unwrap().rate;
    assert_eq!(rate, Some(Some(Rate::new(2.5, None).unwrap())));
    assert!(refused(json!({})).contains("`rate_limit`"));
    assert!(refused(json!({"max_inflight": null})).contains("`max_inflight`"));
}

#[test]
fn every_complaint_names_its_field() {
    let of_domain = |limit: Value| json!({"domain_limits": {"example.com": limit}});
    for (body, field) in [
        (json!({"name": "x"}), "name"),
        (json!({"max_inflight": 10_001}), "max_inflight"),
        (json!({"rate_limit": 5}), "rate_limit"),
        (json!({"rate_limit": {}}), "rate_limit.per_second"),
        (json!({"rate_limit": {"per_second": 0}}), "rate_limit.per_second"),
        (json!({"rate_limit": {"per_second": 0.0009}}), "rate_limit.per_second"),
        (json!({"rate_limit": {"per_second": "5"}}), "rate_limit.per_second"),
        (json!({"rate_limit": {"per_second": 100_001}}), "rate_limit.per_second"),
        (json!({"rate_limit": {"burst": 5}}), "rate_limit.per_second"),
        (json!({"rate_limit": {"per_second": 1, "burst": 0}}), "rate_limit.burst"),
        (json!({"rate_limit": {"per_second": 1, "burst": 1.5}}), "rate_limit.burst"),
        (json!({"rate_limit": {"per_second": 1, "per_minute": 1}}), "rate_limit.per_minute"),
        (json!({"retry": {"attempts_max": 0}}), "retry.attempts_max"),
        (json!({"retry": {"attempts_max": 101}}), "retry.attempts_max"),
        (json!({"retry": {"base_ms": 0}}), "retry.base_ms"),
        (json!({"retry": {"base_ms": 3_600_001}}), "retry.base_ms"),
        (json!({"retry": {"cap_ms": 86_400_001}}), "retry.cap_ms"),
        (json!({"retry": {"base_ms": 5, "cap_ms": 4}}), "retry.cap_ms"),
        (json!({"retry": {"base": 5}}), "retry.base"),
        (json!({"domain_limits": []}), "domain_limits"),
        (json!({"domain_limits": {"a/b": {"max_inflight": 1}}}), "domain_limits.a/b"),
        (
            json!({"domain_limits": {"A.example": {"max_inflight": 1}, "a.example": {"max_inflight": 1}}}),
            "domain_limits.a.example",
        ),
        (of_domain(json!(null)), "domain_limits.example.com"),
        (of_domain(json!({})), "domain_limits.example.com"),
        (of_domain(json!({"burst": 3})), "domain_limits.example.com.burst"),
        (of_domain(json!({"per_second": -1})), "domain_limits.example.com.per_second"),
        (of_domain(json!({"max_inflight": 0})), "domain_limits.example.com.max_inflight"),
        (of_domain(json!({"inflight": 1})), "domain_limits.example.com.inflight"),
    ] {
        let detail = refused(body.clone());
        assert!(detail.contains(&format!("`{field}`")), "{body}: {detail}");
    }
    let many: serde_json::Map<String, Value> =
        (0..1_001).map(|n| (format!("h{n}.example"), json!({"max_inflight": 1}))).collect();
    assert_eq!(refused(json!({"domain_limits": many})), "`domain_limits` must have 0 to 1000 names.");
}

#[test]
fn limits_are_shown_as_they_are_submitted() {
    let submitted = json!({
        "Example.com": {"per_second": 2.5, "burst": 4}, "*": {"max_inflight": 3},
        "127.0.0.1": {"per_second": 1.0, "burst": 1, "max_inflight": 2},
    });
    let change = change(&json!({"domain_limits": submitted})).unwrap();
    let shown = serde_json::to_value(shown_domain_limits(&change.domain_limits.unwrap())).unwrap();
    let mut expected = submitted;
    expected["example.com"] = expected.as_object_mut().unwrap().remove("Example.com").unwrap();
    assert_eq!(shown, expected);
}
