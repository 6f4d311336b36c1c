use super::*;
use crate::problem::Unrendered;
use axum::response::IntoResponse;
use conveyor_domain::Weekday;
use conveyor_wire::{List, Named, Within};
use serde_json::Value;

/// A body with something of every kind.
#[derive(Debug, Default, serde::Deserialize)]
struct Body {
    name: Option<String>,
    flag: Option<bool>,
    size: Option<u64>,
    day: Option<Weekday>,
    part: Option<Part>,
    parts: Option<List<Part, 0, 2>>,
    named: Option<Named<Part, 2>>,
    any: Option<serde_json::Map<String, Value>>,
}

#[derive(Debug, serde::Deserialize)]
struct Part {
    x: Within<u8, 1, 9>,
}

/// Code and detail of a refusal.
fn refused<T>(result: Result<T>) -> (String, String) {
    let response = result.err().unwrap().into_response();
    let problem = response.extensions().get::<Unrendered>().unwrap().problem.clone();
    (problem.code, problem.detail.unwrap())
}

fn strict(body: &str) -> Result<Body> {
    read(body.as_bytes(), &Warnings::strict())
}

#[test]
fn errors_name_the_field_and_what_it_must_be() {
    for (body, said) in [
        (r#"{"nmae":1,"name":""}"#, "`nmae` is not a field of this request."),
        (r#"{"name":1,"name":2}"#, "`name` is given twice."),
        (r#"{"name":7}"#, "`name` must be a string."),
        (r#"{"name":["x"]}"#, "`name` must be a string."),
        (r#"{"name":"\ud800"}"#, "`name` must be a string."),
        (r#"{"flag":"true"}"#, "`flag` must be true or false."),
        (r#"{"size":1.5}"#, "`size` must be a whole number."),
        (r#"{"size":1e999}"#, "`size` must be a whole number."),
        (r#"{"day":"son"}"#, r#"`day` must be "mon", "tue", "wed", "thu", "fri", "sat" or "sun"."#),
        (r#"{"day":1}"#, r#"`day` must be "mon", "tue", "wed", "thu", "fri", "sat" or "sun"."#),
        (r#"{"part":[]}"#, "`part` must be an object."),
        (r#"{"part":{}}"#, "`part.x` is missing."),
        (r#"{"part":{"x":10}}"#, "`part.x` must be a number from 1 to 9."),
        (r#"{"part":{"x":1,"y":1}}"#, "`part.y` is not a field of this request."),
        (r#"{"parts":{}}"#, "`parts` must be a list."),
        (r#"{"parts":[{"x":1},{"x":0}]}"#, "`parts[1].x` must be a number from 1 to 9."),
        (r#"{"parts":[{"x":1},{"x":1},{"x":1},7]}"#, "`parts` must have 0 to 2 items."),
        (r#"{"named":[]}"#, "`named` must be an object."),
        (r#"{"named":{"a":null}}"#, "`named.a` must be an object."),
        (r#"{"named":{"a.b":{"x":1},"c":{"y":1}}}"#, "`named.c.y` is not a field of this request."),
        (r#"{"named":{"a":{"x":1},"b":{"x":1},"c":1,"d":1}}"#, "`named` must have 0 to 2 names."),
        (r#"{"any":7}"#, "`any` must be an object."),
        (r#"{"any":1e999}"#, "`any` must be an object."),
        (r#"{"any":{"a":1e999}}"#, "`any.a` cannot be read: number out of range at line 1 column 5."),
        (r#"{"part":1e999}"#, "`part` must be an object."),
        (r#"{"part":{"\ud800":1}}"#, "`part` has a name that is not text."),
        ("[]", "The body must be a JSON object."),
        ("7", "The body must be a JSON object."),
        ("1e999", "The body must be a JSON object."),
        ("null", "The body must be a JSON object."),
        (r#"{"\ud800":1}"#, "The body has a name that is not text."),
    ] {
        assert_eq!(refused(strict(body)), ("invalid_argument".into(), said.into()), "{body}");
    }
    let deep = format!(r#"{{"any":{{"a":{}1{}}}}}"#, "[".repeat(500), "]".repeat(500));
    assert!(refused(strict(&deep)).1.starts_with("`any.a` cannot be read: recursion limit exceeded"));
}

#[test]
fn what_is_not_json_is_called_that_whatever_else_is_wrong() {
    let cut_off = ["", "{", r#"{"parts":[1,}"#, r#"{"x":[}"#, r#"{"name":7,"#];
    for bad in cut_off.into_iter().chain(["nope", r#"{"x":1,}"#, "{} {}", "{\"name\":\"\u{1}\"}"]) {
        assert_eq!(refused(strict(bad)).0, "malformed_json", "{bad:?}");
    }
    let not_utf8 = read::<Body>(b"{\"name\":\"\xff\"}", &Warnings::strict());
    assert_eq!(refused(not_utf8).0, "malformed_json");
    assert_eq!(refused(strict("{\n  7}")).1, "The body is not JSON: line 2, column 3.");
}

#[test]
fn what_is_ignored_is_named_with_its_path_and_within_bounds() {
    let lenient = Warnings::default();
    let body = br#"{"nmae": 1, "parts": [{"x": 1, "y": 2}, {"x": 1, "z": {"w": 3}}], "named": {"a.b": {"x": 1, "q": 4}},
        "any": {"x": 1}}"#;
    read::<Body>(body, &lenient).unwrap();
    let paths: Vec<_> = lenient.named().warnings.into_iter().map(|one| one.field).collect();
    assert_eq!(paths, ["nmae", "parts[0].y", "parts[1].z", "named.a.b.q"]);

    let many = Warnings::default();
    let body: Value = (0..1_000).map(|n| (format!("f{n}"), n)).collect();
    read::<Body>(body.to_string().as_bytes(), &many).unwrap();
    assert_eq!(many.named().warnings.len(), limits::WARNINGS_MAX);
    assert_eq!(many.named().more_warnings, 1_000 - limits::WARNINGS_MAX as u64);
}

#[test]
fn null_counts_as_absent_and_a_body_can_need_a_field() {
    let Body { name, flag, size, day, part, parts, named, any } = strict(
        r#"{"name":null,"flag":null,"size":null,"day":null,"part":null,"parts":null,"named":null,"any":null}"#,
    )
    .unwrap();
    assert!(name.is_none() && flag.is_none() && size.is_none() && day.is_none() && part.is_none());
    assert!(parts.is_none() && named.is_none() && any.is_none());
    assert_eq!(read::<Part>(br#"{"x":9}"#, &Warnings::strict()).unwrap().x, 9.into());
    let needs = refused(read_some::<Part>(b"{}", &Warnings::strict())).1;
    assert_eq!(needs, "The body must have one of `x`.");
}

#[test]
fn what_is_left_as_json_is_read_later_under_its_path() {
    #[derive(Debug, serde::Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        part: &'a RawValue,
    }
    let warnings = Warnings::strict();
    let raw: Raw<'_> = read(br#"{"part": {"x": 0} }"#, &warnings).unwrap();
    assert_eq!(raw.part.get(), r#"{"x": 0}"#);
    let read = read_field::<Part>("part", raw.part, &warnings);
    assert_eq!(refused(read).1, "`part.x` must be a number from 1 to 9.");
}
