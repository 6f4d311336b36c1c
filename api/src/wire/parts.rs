//! What callers say about the parts of an upload.

use crate::problem::{ApiError, Code, Result};
use conveyor_domain::ingest::upload::Part;
use conveyor_wire::NamedPart;

/// Refuses to join what is not there from 1 on, or not what the caller named.
pub(crate) fn check_complete(parts: &[Part], named: Option<&[NamedPart]>) -> Result<()> {
    let refuse = |detail: String| Err(ApiError::new(Code::FileInputIncomplete, detail));
    if parts.is_empty() {
        return refuse("No part was uploaded.".to_owned());
    }
    if let Some((missing, _)) = (1..).zip(parts).find(|(expected, part)| part.number != *expected) {
        return refuse(format!("Part {missing} is missing."));
    }
    let Some(named) = named else { return Ok(()) };
    if named.len() != parts.len() {
        return refuse(format!("{} parts are there, and {} were named.", parts.len(), named.len()));
    }
    let is_named = |part: &&Part| {
        named.iter().any(|n| n.number.0 == part.number && n.etag.trim_matches('"') == part.staged.etag)
    };
    match parts.iter().find(|part| !is_named(part)) {
        Some(part) => refuse(format!("Part {} is not among those that were named.", part.number)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warnings::Warnings;
    use crate::wire::read;
    use conveyor_domain::Staged;
    use conveyor_wire::SignParts;

    fn part(number: u32) -> Part {
        Part { number, staged: Staged::new("o".into(), 1, format!("e{number}")) }
    }

    fn named(number: u32, etag: &str) -> NamedPart {
        NamedPart { number: number.into(), etag: etag.to_owned() }
    }

    #[test]
    fn only_what_is_all_there_is_joined() {
        let parts = [part(1), part(2)];
        assert!(check_complete(&parts, None).is_ok());
        assert!(check_complete(&[], None).is_err());
        assert!(check_complete(&[part(2)], None).is_err());
        assert!(check_complete(&[part(1), part(3)], None).is_err());
        assert!(check_complete(&parts, Some(&[named(2, "\"e2\""), named(1, "e1")])).is_ok());
        assert!(check_complete(&parts, Some(&[named(1, "e1")])).is_err());
        assert!(check_complete(&parts, Some(&[named(1, "e1"), named(2, "e1")])).is_err());
        assert!(
            check_complete(&parts, Some(&[named(1, "e1"), named(1, "e1")])).is_err(),
            "one of them twice"
        );
    }

    #[test]
    fn numbers_have_a_range() {
        let parse = |body: &str| read::<SignParts>(body.as_bytes(), &Warnings::strict());
        let numbers = parse(r#"{"numbers":[1,1000]}"#).unwrap().numbers.0;
        assert_eq!(numbers, [1.into(), 1000.into()]);
        assert_eq!(parse(r#"{"numbers":[1],"size_bytes":7}"#).unwrap().size_bytes, Some(7.into()));
        for bad in [
            "{}",
            r#"{"numbers":[]}"#,
            r#"{"numbers":[0]}"#,
            r#"{"numbers":[1001]}"#,
            r#"{"numbers":1}"#,
            r#"{"numbers":[1],"size_bytes":0}"#,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let many: Vec<u32> = (1..=101).collect();
        assert!(parse(&serde_json::json!({"numbers": many}).to_string()).is_err());
    }
}
