use super::*;
use crate::problem::Unrendered;
use axum::response::IntoResponse;
use serde_json::json;

async fn parse(body: Value) -> Result<SubmitRequest> {
    SubmitRequest::parse(body.to_string().as_bytes(), ParamPolicy::ZenRows, limits::RUN_TASKS_MAX).await
}

/// Status, code and detail of the refusal of a valid submit with one field replaced.
async fn refused(field: &str, value: Value) -> (u16, String, String) {
    let mut body = json!({"tasks": [{"url": "https://a.example"}]});
    body[field] = value;
    let response = parse(body).await.unwrap_err().into_response();
    let problem = response.extensions().get::<Unrendered>().unwrap().problem.clone();
    (response.status().as_u16(), problem.code, problem.detail.unwrap())
}

#[tokio::test]
async fn what_is_left_out_has_a_default_and_null_is_left_out() {
    let least = parse(json!({"tasks": [{"url": "https://a.example"}]})).await.unwrap();
    assert!(!least.open);
    assert_eq!(least.spec, JobSpec::default());
    let names =
        ["type", "status", "zenrows_params", "external_id", "name", "metadata", "max_inflight", "webhook"];
    let mut nulls = json!({"tasks": [{"url": "https://a.example"}], "schedule": null, "file_input_id": null});
    names.iter().for_each(|name| nulls[*name] = Value::Null);
    let nulls = parse(nulls).await.unwrap();
    assert_eq!((nulls.open, nulls.spec, nulls.tasks), (least.open, least.spec, least.tasks));
}

#[tokio::test]
async fn the_spec_is_what_was_sent() {
    let body = json!({
        "type": "regular", "status": "open", "zenrows_params": {"autoparse": true, "wait": 5},
        "external_id": "e-1", "name": "Name", "metadata": {"k": "v"}, "max_inflight": 7,
    });
    let request = parse(body).await.unwrap();
    assert!(request.open && request.tasks.is_empty());
    assert_eq!(request.spec.format, Format::Json);
    assert_eq!(request.spec.params["wait"], "5");
    assert_eq!(request.spec.max_inflight, 7);
    assert_eq!(request.spec.metadata["k"], "v");
    assert_eq!(
        (request.spec.name.as_deref(), request.spec.external_id.as_deref()),
        (Some("Name"), Some("e-1"))
    );
}

#[tokio::test]
async fn each_field_is_checked_and_named() {
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
        ("metadata", json!({"k": 1})),
        ("max_inflight", json!(0)),
        ("max_inflight", json!(10_001)),
        ("max_inflight", json!("5")),
        ("max_inflight", json!(1.5)),
    ];
    for (field, value) in bad {
        let (status, code, detail) = refused(field, value.clone()).await;
        assert_eq!((status, code.as_str()), (400, "invalid_argument"), "{field}: {value}");
        assert!(detail.contains(&format!("`{field}`")), "{detail}");
    }
}

#[tokio::test]
async fn job_params_have_their_reason_as_code() {
    let (status, code, detail) = refused("zenrows_params", json!({"nope": 1})).await;
    assert_eq!((status, code.as_str()), (400, "unknown_param"));
    assert!(detail.contains("`nope`"), "{detail}");
    assert_eq!(refused("zenrows_params", json!({"wait": "soon"})).await.1, "invalid_param_value");
    assert_eq!(refused("zenrows_params", json!([])).await.1, "invalid_param_value");
    let contradiction = json!({"mode": "auto", "js_render": true});
    assert_eq!(refused("zenrows_params", contradiction).await.1, "invalid_param_value");
    let body = json!({"tasks": [{"url": "http://a"}], "zenrows_params": {"wait": 1}}).to_string();
    let direct = SubmitRequest::parse(body.as_bytes(), ParamPolicy::DirectFetch, 10).await;
    let response = direct.unwrap_err().into_response();
    assert_eq!(response.extensions().get::<Unrendered>().unwrap().problem.code, "unsupported_param");
}

#[tokio::test]
async fn what_is_not_implemented_is_not_accepted() {
    for (field, value) in [
        ("webhook", json!({"url": "https://a"})),
        ("schedule", json!({})),
        ("file_input_id", json!("f")),
        ("type", json!("scheduled")),
    ] {
        let (status, code, detail) = refused(field, value).await;
        assert_eq!((status, code.as_str()), (501, "not_implemented"));
        assert!(detail.contains(&format!("`{field}`")), "{detail}");
    }
}

#[tokio::test]
async fn the_smaller_limit_on_tasks_counts() {
    let tasks = |n: usize| json!({"tasks": vec![json!({"url": "http://a"}); n]}).to_string();
    let with = |n, max| async move { SubmitRequest::parse(tasks(n).as_bytes(), ParamPolicy::Any, max).await };
    assert_eq!(with(3, 3).await.unwrap().tasks.len(), 3);
    assert_eq!(with(4, 3).await.unwrap_err().into_response().status(), 413);
    assert_eq!(with(limits::INLINE_TASKS_MAX, u32::MAX).await.unwrap().tasks.len(), limits::INLINE_TASKS_MAX);
    assert_eq!(with(limits::INLINE_TASKS_MAX + 1, u32::MAX).await.unwrap_err().into_response().status(), 413);
}
