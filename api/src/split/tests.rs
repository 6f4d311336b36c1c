use super::*;
use conveyor_domain::limits;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The rest and the lines of a body that comes in pieces of these sizes, over and over.
fn split_in(body: &[u8], sizes: &[usize]) -> Result<(Rest, Lines), SplitError> {
    let mut splitter = Splitter::new(limits::SUBMIT_REST_MAX_BYTES);
    let (mut lines, mut left) = (Lines::default(), body);
    for size in sizes.iter().cycle() {
        if left.is_empty() {
            break;
        }
        let (piece, rest) = left.split_at((*size).max(1).min(left.len()));
        splitter.feed(piece, &mut lines)?;
        left = rest;
    }
    Ok((splitter.finish()?, lines))
}

fn split(body: &str) -> Result<(String, Vec<String>), SplitError> {
    let (rest, lines) = split_in(body.as_bytes(), &[body.len()])?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).unwrap();
    Ok((text(&rest.bytes), lines.iter().map(text).collect()))
}

#[test]
fn tasks_come_out_and_the_rest_stays() {
    let (rest, lines) =
        split("{ \"name\" : \"x\", \"tasks\" : [ {\"url\":\n\"a\"} , 7,\r\n[1, [2]] ] , \"n\":1}").unwrap();
    assert_eq!(rest, "{ \"name\" : \"x\", \"tasks\" : [] , \"n\":1}");
    assert_eq!(lines, ["{\"url\": \"a\"}", "7", "[1, [2]]"]);
    assert_eq!(split(r#"{"tasks":[]}"#).unwrap(), (r#"{"tasks":[]}"#.to_owned(), vec![]));
    assert_eq!(split(r#"{"tasks":[ ]}"#).unwrap().1.len(), 0);
}

#[test]
fn only_the_tasks_of_the_outermost_object_are_meant() {
    for body in [
        r#"{"metadata":{"tasks":[1]}}"#,
        r#"{"x":"tasks","y":[1]}"#,
        r#"{"x":"\"tasks\":[1]"}"#,
        r#"{"x":[{"tasks":[1]}]}"#,
        r#"[{"tasks":[1]}]"#,
        r#"["tasks",[1]]"#,
        r#"{"tasks":null}"#,
        r#"{"tasks":{"tasks":[1]}}"#,
        r#"{"task":[1],"taskss":[1]}"#,
        "7",
        "",
    ] {
        assert_eq!(split(body).unwrap(), (body.to_owned(), vec![]));
    }
    let (rest, lines) = split(r#"{"\u0074asks":[1]}"#).unwrap();
    assert_eq!((rest.as_str(), lines.len()), (r#"{"\u0074asks":[]}"#, 1), "a key written with escapes");
    let (rest, lines) = split(r#"{"tasks":[1],"tasks":[2]}"#).unwrap();
    assert_eq!((rest.as_str(), lines.len()), (r#"{"tasks":[],"tasks":[2]}"#, 1), "for the parser to refuse");
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    for (body, line, column) in [
        (r#"{"tasks":["#, 1, 10),
        (r#"{"tasks":[1"#, 1, 11),
        (r#"{"tasks":[1,]}"#, 1, 13),
        (r#"{"tasks":[,1]}"#, 1, 11),
        ("{\"tasks\":[1,\n 2 3]}", 2, 4),
        ("{\"tasks\":[1,\n {\n\"a\" 1}]}", 3, 5),
        (r#"{"tasks":[nope]}"#, 1, 12),
        (r#"{"tasks":["a"b]}"#, 1, 14),
        (r#"{"tasks":[{]}"#, 1, 13),
    ] {
        let refused = split(body).unwrap_err();
        assert_eq!(refused, SplitError::NotJson(Place { line, column }), "{body}");
    }
    assert!(split_in(b"{\"tasks\":[\"\xff\"]}", &[99]).is_err(), "not UTF-8");
    assert!(split("{\"tasks\":[\"a\nb\"]}").is_err(), "a line break inside a string");
}

#[test]
fn places_of_the_rest_are_found_in_the_body() {
    let (rest, _) = split_in(b"{\"tasks\":[\n1,\n2], \"a\":\nx}", &[3]).unwrap();
    assert_eq!(rest.bytes, b"{\"tasks\":[], \"a\":\nx}");
    let place = |line, column| rest.in_body(Place { line, column });
    assert_eq!(place(1, 5), Place { line: 1, column: 5 });
    assert_eq!(place(1, 10), Place { line: 1, column: 10 }, "the open bracket");
    assert_eq!(place(1, 11), Place { line: 3, column: 2 }, "the closed one");
    assert_eq!(place(1, 17), Place { line: 3, column: 8 });
    assert_eq!(place(2, 1), Place { line: 4, column: 1 });
}

#[test]
fn a_task_that_is_too_long_keeps_its_place_and_little_else() {
    let long = format!("\"{}\"", "x".repeat(limits::TASK_JSON_MAX_BYTES - 1));
    let fits = format!("\"{}\"", "x".repeat(limits::TASK_JSON_MAX_BYTES - 2));
    let (_, lines) = split(&format!("{{\"tasks\":[1,{long} ,{fits}\n ,2]}}")).unwrap();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[1], format!("\"{} bytes\"", limits::TASK_JSON_MAX_BYTES + 1));
    assert_eq!(lines[2], fits);
}

#[test]
fn the_rest_is_bounded() {
    let mut splitter = Splitter::new(20);
    let mut lines = Lines::default();
    splitter.feed(br#"{"tasks":["#, &mut lines).unwrap();
    for _ in 0..100 {
        splitter.feed(b"1,", &mut lines).unwrap();
    }
    splitter.feed(b"1],\"n\":10}", &mut lines).unwrap();
    assert_eq!(lines.count, 101);
    assert_eq!(splitter.feed(b"  ", &mut lines), Err(SplitError::RestTooLarge));
}

/// Any JSON, as small as it can be and still be everything.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z\"\\\\\\[\\]{}:,\n\t\u{e9}\u{1f600} ]{0,8}".prop_map(Value::from),
        Just(Value::from("tasks")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("(tasks|[a-z\"\\\\]{0,3})", inner), 0..4)
                .prop_map(|pairs| Value::from(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_body() -> impl Strategy<Value = Value> {
    let tasks =
        prop_oneof![4 => prop::collection::vec(any_json(), 0..6).prop_map(Value::from), 1 => any_json()];
    let others = prop::collection::vec(("[a-s\"\\\\]{1,4}", any_json()), 0..4);
    (others, prop::option::of(tasks), any_json()).prop_map(|(others, tasks, odd)| {
        let mut body: Map<String, Value> = others.into_iter().collect();
        match tasks {
            Some(tasks) => body.insert("tasks".to_owned(), tasks),
            None => return odd,
        };
        Value::from(body)
    })
}

/// The text of a value with space wherever there may be some.
fn spaced(value: &Value, spaces: &[&str]) -> String {
    let mut spaces = spaces.iter().cycle();
    let mut text = String::new();
    let mut in_string = None;
    for c in value.to_string().chars() {
        let byte = u8::try_from(c).unwrap_or(b'x');
        match in_string {
            Some(string) => {
                in_string = after(string, byte);
                text.push(c);
            }
            None if c == '"' => {
                text.push_str(spaces.next().unwrap());
                in_string = Some(InString::Plain);
                text.push(c);
            }
            None if "{}[],:".contains(c) => {
                text.push_str(spaces.next().unwrap());
                text.push(c);
                text.push_str(spaces.next().unwrap());
            }
            None => text.push(c),
        }
    }
    text
}

proptest! {
    #[test]
    fn any_split_of_any_json_is_what_a_parser_finds(
        body in any_body(),
        spaces in prop::collection::vec(prop::sample::select(vec!["", " ", "\n", "\r\n\t "]), 1..5),
        sizes in prop::collection::vec(1usize..40, 1..6),
    ) {
        let text = spaced(&body, &spaces);
        let (rest, lines) = split_in(text.as_bytes(), &sizes).unwrap();
        let mut rest: Value = serde_json::from_slice(&rest.bytes).unwrap();
        let tasks: Vec<Value> = lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
        prop_assert_eq!(lines.count, tasks.len());
        if let Some(list) = rest.get_mut("tasks").filter(|list| **list == json!([])) {
            *list = Value::from(tasks);
        }
        prop_assert_eq!(rest, body);
    }

    #[test]
    fn what_no_parser_takes_is_not_taken(
        body in any_body(),
        at in any::<prop::sample::Index>(),
        with in prop::sample::select(b"{}[],:\"\\ x1\xff\n".to_vec()),
        insert in any::<bool>(),
        sizes in prop::collection::vec(1usize..40, 1..6),
    ) {
        let mut text = body.to_string().into_bytes();
        let at = at.index(text.len());
        if insert { text.insert(at, with) } else { text[at] = with }
        let taken = split_in(&text, &sizes);
        let rest = taken.as_ref().ok().and_then(|(rest, _)| serde_json::from_slice::<Value>(&rest.bytes).ok());
        let valid = serde_json::from_slice::<Value>(&text).is_ok();
        prop_assert_eq!(rest.is_some(), valid, "{}", String::from_utf8_lossy(&text));
    }
}
