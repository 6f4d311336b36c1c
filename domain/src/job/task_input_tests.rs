use super::*;
use proptest::prelude::*;
use serde_json::json;

fn reason(url: &str) -> Option<Reason> {
    check_url(url).err().map(|e| e.reason)
}

fn task(v: Value) -> Result<TaskInput, Invalid> {
    under(UnknownFields::Refuse, &v)
}

fn under(unknown_fields: UnknownFields, task: &Value) -> Result<TaskInput, Invalid> {
    let rules = TaskRules { params: ParamPolicy::ZenRows, unknown_fields };
    TaskInput::from_json(task, &Params::new(), rules)
}

#[test]
fn urls_are_told_apart_by_what_is_wrong_with_them() {
    for good in [
        "http://a",
        "https://a.b/c?d=e#f",
        "HTTPS://A",
        "http://[::1]:80/",
        "http://u:p@h/",
        "https://ex.com/ü",
    ] {
        assert_eq!(reason(good), None, "{good}");
    }
    let bad = [
        ("", Reason::MalformedUrl),
        ("example.com", Reason::MalformedUrl),
        ("localhost:8080/x", Reason::MalformedUrl),
        ("http://a b", Reason::MalformedUrl),
        (" http://a", Reason::MalformedUrl),
        ("http://a\n", Reason::MalformedUrl),
        ("http://a:99999", Reason::MalformedUrl),
        ("://a", Reason::MalformedUrl),
        ("ftp://a", Reason::UnsupportedScheme),
        ("javascript:alert(1)", Reason::UnsupportedScheme),
        ("http://", Reason::MissingHost),
        ("http:a", Reason::MissingHost),
        ("https:///path", Reason::MissingHost),
        ("https://?q", Reason::MissingHost),
    ];
    for (url, why) in bad {
        assert_eq!(reason(url), Some(why), "{url:?}");
    }
    let longest = format!("http://a/{}", "x".repeat(limits::URL_MAX_BYTES - 9));
    assert_eq!(reason(&longest), None);
    assert_eq!(reason(&format!("{longest}x")), Some(Reason::UrlTooLong));
}

#[test]
fn a_refused_url_shows_no_secret() {
    let e = check_url("ftp://user:hunter2@host/path?token=abc").unwrap_err();
    assert_eq!(e.value, "ftp://…@host/path?…");
}

#[test]
fn every_field_has_its_own_reason() {
    let with = |field: &str, v: Value| task(json!({"url": "http://a", field: v})).unwrap_err().reason;
    assert_eq!(with("external_id", json!("a b")), Reason::InvalidExternalId);
    assert_eq!(with("external_id", json!("")), Reason::InvalidExternalId);
    assert_eq!(with("external_id", json!(7)), Reason::InvalidExternalId);
    assert_eq!(with("metadata", json!({"k": "v".repeat(1025)})), Reason::MetadataTooLarge);
    assert_eq!(with("metadata", json!({"": "v"})), Reason::MetadataKeyInvalid);
    assert_eq!(with("metadata", json!({"k": 1})), Reason::MetadataKeyInvalid);
    assert_eq!(with("method", json!("PUT")), Reason::UnsupportedMethod);
    assert_eq!(with("body", json!("x")), Reason::BodyNotAllowed);
    assert_eq!(with("zenrows_params", json!({"zz": 1})), Reason::UnknownParam);
    assert_eq!(with("wat", json!(1)), Reason::MalformedTask);
    assert_eq!(task(json!("http://a")).unwrap_err().reason, Reason::MalformedTask);
    assert_eq!(task(json!({})).unwrap_err().reason, Reason::MalformedUrl);
    let big = json!({"url": "http://a", "method": "post", "body": "x".repeat(16 * 1024 + 1)});
    assert_eq!(task(big).unwrap_err().reason, Reason::BodyTooLarge);
    let many: Map<String, Value> = (0..21).map(|i| (i.to_string(), json!("v"))).collect();
    assert_eq!(with("metadata", Value::Object(many)), Reason::MetadataTooLarge);
}

#[test]
fn unknown_fields_are_named_and_do_not_matter_where_they_are_ignored() {
    let typo = json!({"url": "http://a", "extrenal_id": "x", "zenrows_params": {}, "wat": null});
    assert_eq!(unknown_fields(&typo).collect::<Vec<_>>(), ["extrenal_id", "wat"]);
    let refused = under(UnknownFields::Refuse, &typo).unwrap_err();
    assert_eq!((refused.reason, refused.value.as_str()), (Reason::MalformedTask, "extrenal_id"));
    assert_eq!(under(UnknownFields::Ignore, &typo).unwrap(), TaskInput::from_url("http://a").unwrap());
    let unknown_param = json!({"url": "http://a", "zenrows_params": {"zz": 1}});
    assert_eq!(under(UnknownFields::Ignore, &unknown_param).unwrap_err().reason, Reason::UnknownParam);
    assert_eq!(unknown_fields(&json!(["url"])).count(), 0);
}

#[test]
fn a_body_is_sent_as_its_type_says() {
    let body =
        |b: Value| task(json!({"url": "http://a", "method": "POST", "body": b})).unwrap().body.unwrap();
    assert_eq!(body(json!({"q": [1]})), TaskBody::Json(r#"{"q":[1]}"#.into()));
    assert_eq!(body(json!("q=1")), TaskBody::Form("q=1".into()));
}

#[test]
fn stored_rows_of_layout_1_can_be_read() {
    let old = r#"{"u":"http://a","x":"id","m":{"k":"v"},"p":{"wait":"1"},"v":"POST","b":{"json":"{}"}}"#;
    let task: TaskInput = serde_json::from_str(old).unwrap();
    assert_eq!(serde_json::to_string(&task).unwrap(), old);
}

proptest! {
    #[test]
    fn checking_never_panics(url in "\\PC{0,80}") {
        let _ = check_url(&url);
    }

    #[test]
    fn what_is_accepted_has_a_host_and_survives_storage(url in "https?://[a-z]{1,9}(\\.[a-z]{2,3})?(/[a-z0-9?=&%#@:]{0,20})?") {
        if let Ok(task) = TaskInput::from_url(&url) {
            prop_assert!(Url::parse(&url).unwrap().has_host());
            let stored = serde_json::to_string(&task).unwrap();
            prop_assert_eq!(serde_json::from_str::<TaskInput>(&stored).unwrap(), task);
        }
    }
}

proptest! {
    /// The shortcut takes nothing that the whole check would refuse.
    #[test]
    fn a_plain_url_is_one_that_parses(
        scheme in "(https?|HTTP|ftp)",
        host in "[a-z0-9.\\-]{0,20}|[a-zA-Z0-9.\\-_:@\\[\\]%xn]{0,24}|[0-9.x]{1,16}|xn--[a-z0-9]{0,6}\\.com|[a-z]{1,5}\\.(0x1f|12|1x)",
        tail in "|[/?#][!-~]{0,30}|[/?#]\\PC{0,10}",
    ) {
        let url = format!("{scheme}://{host}{tail}");
        if is_plain_url(&url) {
            let parsed = Url::parse(&url);
            prop_assert!(parsed.as_ref().is_ok_and(Url::has_host), "{url}: {parsed:?}");
            prop_assert!(!url.chars().any(|c| c.is_control() || c.is_whitespace()));
        }
    }
}

#[test]
fn most_urls_are_plain() {
    for url in ["https://example.com", "http://shop-1.example.co.uk/a?b=c&d=%20#e", "https://a/"] {
        assert!(is_plain_url(url), "{url}");
    }
    for url in [
        "https://1.2.3.4/",
        "https://a.b:80/",
        "https://u@a.b/",
        "https://A.b/",
        "https://ä.de/",
        "ftp://a.b/",
    ] {
        assert!(!is_plain_url(url), "{url}");
    }
}
