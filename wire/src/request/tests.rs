use super::*;
use crate::ListType;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json, to_value};

/// The examples of its description parse, and serialise as what they are.
#[track_caller]
fn round_trips<T: Serialize + DeserializeOwned + JsonSchema>() {
    let schema = schema_for!(T).to_value();
    for example in schema["examples"].as_array().unwrap() {
        let body: T = from_value(example.clone()).unwrap();
        assert_eq!(&to_value(&body).unwrap(), example);
    }
}

#[test]
fn examples_of_requests_parse_and_serialise_as_they_are() {
    round_trips::<SubmitJob>();
    round_trips::<AddTasks>();
    round_trips::<RerunJob>();
    round_trips::<StartExport>();
    round_trips::<ChangeLimits>();
    round_trips::<ScheduleBody>();
    round_trips::<ScheduleTurn>();
    round_trips::<CreateInput>();
    round_trips::<SignParts>();
    round_trips::<CompleteParts>();
    round_trips::<WebhookBody>();
    round_trips::<PutWebhook>();
    round_trips::<ReconcileRequest>();
    round_trips::<RedriveLetters>();
    round_trips::<CreateKey>();
    round_trips::<ChangeQuotas>();
}

#[test]
fn a_full_submit_comes_back_as_it_was() {
    let whole = json!({
        "type": "scheduled", "status": "closed", "name": "n", "external_id": "e-1", "metadata": {"k": "v"},
        "tasks": [{"url": "http://a", "method": "post", "body": {"x": [1]}, "zenrows_params": {"wait": 5}}],
        "zenrows_params": {"js_render": true, "custom_headers": {"X": "y"}}, "max_inflight": 7,
        "rate_limit": {"per_second": 2.5, "burst": 4}, "retry": {"attempts_max": 3, "base_ms": 1, "cap_ms": 2},
        "domain_limits": {"*": {"max_inflight": 1}, "a.example": {"per_second": 0.001}}, "result_ttl_days": 30,
        "max_failure_ratio": 0.000001, "webhook": {"url": "https://h.example"}, "sfn_task_token": "t",
        "schedule": {"calendar": {"times_of_day": ["09:00"], "cadence": {"monthly": {"days": [1, 31]}}},
            "timezone": "UTC"},
    });
    let body: SubmitJob = from_value(whole.clone()).unwrap();
    assert!(!format!("{body:?}").contains("\"t\""), "the task token is a secret");
    assert_eq!(to_value(&body).unwrap(), whole);
    let (csv, list) = (json!({"delimiter": ";", "quote": "'", "fields": {"url": 0}}), ListType::Csv);
    let input: CreateInput = from_value(json!({"type": list, "csv": csv})).unwrap();
    assert_eq!(to_value(&input).unwrap(), json!({"type": "csv", "csv": csv}));
}

#[test]
fn null_and_absence_differ_where_null_removes() {
    let change: ChangeLimits = from_value(json!({"rate_limit": null, "max_inflight": 1})).unwrap();
    assert!(matches!(change.rate_limit, Some(None)) && change.retry.is_none());
    assert_eq!(to_value(&change).unwrap(), json!({"rate_limit": null, "max_inflight": 1}));
    assert!(from_value::<ChangeLimits>(json!({"max_inflight": null})).is_err());
    assert!(from_value::<SubmitJob>(json!({"max_inflight": null})).unwrap().max_inflight.is_none());
}

#[track_caller]
fn refused<T: DeserializeOwned + std::fmt::Debug>(body: Value) -> String {
    from_value::<T>(body).unwrap_err().to_string()
}

#[test]
fn values_outside_their_limits_are_refused_by_what_is_expected() {
    for (body, expected) in [
        (json!({"max_inflight": 0}), "a number from 1 to 10000"),
        (json!({"max_inflight": 10_001}), "a number from 1 to 10000"),
        (json!({"max_inflight": "5"}), "a number from 1 to 10000"),
        (json!({"max_inflight": -1}), "a number from 1 to 10000"),
        (json!({"max_failure_ratio": 0}), "a number from 0.000001 to 1"),
        (json!({"rate_limit": {"per_second": 0.0009}}), "a number from 0.001 to 100000"),
        (json!({"rate_limit": {"per_second": 100_001}}), "a number from 0.001 to 100000"),
        (json!({"retry": {"base_ms": 3_600_001}}), "a number from 1 to 3600000"),
        (json!({"name": "x".repeat(101)}), "must have 0 to 100 characters"),
        (json!({"external_id": "a b"}), "must be 1 to 128 letters"),
        (json!({"domain_limits": []}), "expected an object"),
    ] {
        let error = refused::<SubmitJob>(body.clone());
        assert!(error.contains(expected), "{body}: {error}");
    }
    assert!(refused::<SignParts>(json!({"numbers": []})).contains("must have 1 to 100 items"));
    assert!(refused::<SignParts>(json!({"numbers": vec![1; 101]})).contains("must have 1 to 100 items"));
    let many: Value = (0..1_001).map(|n| (format!("h{n}"), json!({"max_inflight": 1}))).collect();
    assert!(refused::<SubmitJob>(json!({"domain_limits": many})).contains("must have 0 to 1000 names"));
    for bad in ["", "ab", "\n", "é"] {
        let csv = json!({"delimiter": bad, "fields": {"url": 0}});
        assert!(refused::<CreateInput>(json!({"type": "csv", "csv": csv})).contains("one ASCII character"));
    }
}
