use super::*;
use crate::problem::Unrendered;
use crate::split::{Lines, Splitter};
use axum::response::IntoResponse;
use conveyor_domain::{Format, limits};
use serde_json::{Value, json};

fn parse_as(body: &Value, policy: ParamPolicy) -> Result<SubmitRequest> {
    let (mut splitter, mut lines) = (Splitter::new(limits::SUBMIT_REST_MAX_BYTES), Lines::default());
    splitter.feed(body.to_string().as_bytes(), &mut lines).unwrap();
    SubmitRequest::parse(&splitter.finish().unwrap(), lines.count, policy, &Warnings::strict())
}

fn parse(body: Value) -> Result<SubmitRequest> {
    parse_as(&body, ParamPolicy::ZenRows)
}

/// Status, code and detail of the refusal of a valid submit with one field replaced.
fn refused(field: &str, value: Value) -> (u16, String, String) {
    let mut body = json!({"tasks": [{"url": "https://a.example"}]});
    body[field] = value;
    let response = parse(body).unwrap_err().into_response();
    let problem = response.extensions().get::<Unrendered>().unwrap().problem.clone();
    (response.status().as_u16(), problem.code, problem.detail.unwrap())
}

#[test]
fn what_is_left_out_has_a_default_and_null_is_left_out() {
    let least = parse(json!({"tasks": [{"url": "https://a.example"}]})).unwrap();
    assert!(!least.open);
    assert_eq!(least.spec, JobSpec::default());
    let names = [
        "type",
        "status",
        "zenrows_params",
        "external_id",
        "name",
        "metadata",
        "max_inflight",
        "rate_limit",
        "retry",
        "domain_limits",
        "webhook",
    ];
    let mut nulls = json!({"tasks": [{"url": "https://a.example"}], "schedule": null, "file_input_id": null});
    names.iter().for_each(|name| nulls[*name] = Value::Null);
    let nulls = parse(nulls).unwrap();
    assert_eq!((nulls.open, nulls.spec, nulls.list), (least.open, least.spec, least.list));
}

#[test]
fn the_spec_is_what_was_sent() {
    let body = json!({
        "type": "regular", "status": "open", "zenrows_params": {"autoparse": true, "wait": 5},
        "external_id": "e-1", "name": "Name", "metadata": {"k": "v"}, "max_inflight": 7,
    });
    let request = parse(body).unwrap();
    assert!(request.open && request.list.is_none());
    assert_eq!(request.spec.format, Format::Json);
    assert_eq!(request.spec.params["wait"], "5");
    assert_eq!(request.spec.max_inflight, 7);
    assert_eq!(request.spec.metadata["k"], "v");
    assert_eq!(
        (request.spec.name.as_deref(), request.spec.external_id.as_deref()),
        (Some("Name"), Some("e-1"))
    );
}

#[test]
fn each_field_is_checked_and_named() {
    let bad = [
        ("tpye", json!("regular")),
        ("type", json!("hourly")),
        ("type", json!(1)),
        ("status", json!("deleted")),
        ("tasks", json!("https://a.example")),
        ("tasks", json!([])),
        ("tasks", Value::Null),
        ("external_id", json!("a b")),
        ("external_id", json!("x".repeat(129))),
        ("name", json!("x".repeat(101))),
        ("name", json!(["x"])),
        ("metadata", json!([])),
        ("max_inflight", json!(0)),
        ("max_inflight", json!(10_001)),
        ("max_inflight", json!("5")),
        ("max_inflight", json!(1.5)),
        ("rate_limit", json!(5)),
        ("retry", json!([])),
        ("domain_limits", json!("a.example")),
    ];
    assert_eq!(refused("metadata", json!({"k": 1})).2, "`metadata.k` must be a string.");
    for (field, value) in bad {
        let (status, code, detail) = refused(field, value.clone());
        assert_eq!((status, code.as_str()), (400, "invalid_argument"), "{field}: {value}");
        assert!(detail.contains(&format!("`{field}`")), "{detail}");
    }
}

#[test]
fn job_params_are_refused_with_their_reason() {
    let (status, code, detail) = refused("zenrows_params", json!({"nope": 1}));
    assert_eq!((status, code.as_str()), (400, "invalid_argument"));
    assert!(detail.contains("`nope`: unknown_param"), "{detail}");
    assert!(refused("zenrows_params", json!({"wait": "soon"})).2.contains("invalid_param_value"));
    assert_eq!(refused("zenrows_params", json!([])).2, "`zenrows_params` must be an object.");
    let contradiction = json!({"mode": "auto", "js_render": true});
    assert!(refused("zenrows_params", contradiction).2.contains("invalid_param_value"));
    let body = json!({"tasks": [{"url": "http://a"}], "zenrows_params": {"wait": 1}});
    let response = parse_as(&body, ParamPolicy::DirectFetch).unwrap_err().into_response();
    let problem = &response.extensions().get::<Unrendered>().unwrap().problem;
    assert!(problem.detail.as_ref().unwrap().contains("unsupported_param"));
}

#[test]
fn a_scheduled_job_needs_a_schedule_and_no_other_job_has_one() {
    let rate = json!({"rate": {"every": 1, "unit": "day"}});
    let with = |kind: Value, status: &str, schedule: &Value| {
        let tasks = json!([{"url": "https://a.example"}]);
        parse(json!({"tasks": tasks, "type": kind, "status": status, "schedule": schedule}))
    };
    assert!(with(json!("scheduled"), "closed", &rate).unwrap().schedule.is_some());
    assert!(with(json!("regular"), "closed", &rate).unwrap().schedule.is_none());
    assert!(with(json!(null), "open", &json!({"not": "looked at"})).unwrap().schedule.is_none());
    assert!(with(json!("scheduled"), "open", &rate).is_err());
    assert!(with(json!("scheduled"), "closed", &json!(null)).is_err());
    let (status, code, detail) = refused("type", json!("scheduled"));
    assert_eq!((status, code.as_str()), (400, "invalid_argument"));
    assert_eq!(detail, "A scheduled job needs a `schedule`.");
}

#[test]
fn a_list_is_named_instead_of_tasks() {
    let upload = UploadId::from_bytes([1; 16]);
    let named = |on_invalid_rows| parse(json!({"file_input_id": upload, "on_invalid_rows": on_invalid_rows}));
    let list = |rows: &str| named(json!(rows)).unwrap().list.unwrap();
    assert_eq!(list("skip"), NamedList { upload, on_invalid_rows: OnInvalidRows::Skip });
    assert_eq!(list("fail").on_invalid_rows, OnInvalidRows::Fail);
    assert_eq!(named(Value::Null).unwrap().list.unwrap().on_invalid_rows, OnInvalidRows::Skip);
    assert!(named(json!("stop")).is_err());

    assert!(refused("file_input_id", json!(upload)).2.contains("exclude each other"));
    let (status, _, detail) = refused("on_invalid_rows", json!("skip"));
    assert_eq!((status, detail.as_str()), (400, "`on_invalid_rows` needs `file_input_id`."));
    let open = parse(json!({"file_input_id": upload, "status": "open"})).unwrap_err().into_response();
    assert_eq!(open.status(), 409);
    let unknown = parse(json!({"file_input_id": "../x"})).unwrap_err().into_response();
    assert_eq!(unknown.status(), 404);
}
