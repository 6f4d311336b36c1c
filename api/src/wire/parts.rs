//! What callers say about the parts of an upload.

use crate::fields::Fields;
use crate::problem::{ApiError, Code, Result};
use crate::warnings::Warnings;
use conveyor_domain::ingest::upload::Part;
use conveyor_domain::limits;

/// The parts that a caller wants to send.
#[derive(Debug)]
pub(crate) struct WantedParts {
    pub numbers: Vec<u32>,
    /// What each of them has.
    pub size: Option<u64>,
}

pub(crate) fn parse_wanted(body: &[u8], warnings: &Warnings) -> Result<WantedParts> {
    let fields = Fields::parse(body, &["numbers", "size_bytes"], warnings)?;
    let (max, numbers_max) = (limits::UPLOAD_PARTS_MAX, limits::PART_URLS_MAX);
    let expected = format!("a list of 1 to {numbers_max} numbers from 1 to {max}");
    let numbers: Option<Vec<u32>> = fields.get("numbers", &expected)?;
    let legal = |numbers: &Vec<u32>| {
        (1..=numbers_max).contains(&numbers.len()) && numbers.iter().all(|n| (1..=max).contains(n))
    };
    let refuse = || ApiError::invalid(format!("`numbers` must be {expected}."));
    let numbers = numbers.filter(legal).ok_or_else(refuse)?;
    const SIZE: &str = "a number of bytes, at least 1";
    match fields.get("size_bytes", SIZE)? {
        Some(0) => Err(ApiError::invalid(format!("`size_bytes` must be {SIZE}."))),
        size => Ok(WantedParts { numbers, size }),
    }
}

/// A part as the caller believes that it is there.
#[derive(Debug)]
pub(crate) struct NamedPart {
    number: u32,
    /// With or without the quotes that the header had.
    etag: String,
}

/// The parts that a caller wants to be joined; `None` for whatever is there.
pub(crate) fn parse_named(body: &[u8], warnings: &Warnings) -> Result<Option<Vec<NamedPart>>> {
    let fields = Fields::parse(body, &["parts"], warnings)?;
    let parts = fields.objects("parts", &["number", "etag"], limits::UPLOAD_PARTS_MAX as usize)?;
    let named = |part: &Fields<'_>| {
        let missing = |name| ApiError::invalid(format!("`{}` is missing.", part.path(name)));
        let number = part.get("number", "a number")?.ok_or_else(|| missing("number"))?;
        let etag = part.get("etag", "a string")?.ok_or_else(|| missing("etag"))?;
        Ok(NamedPart { number, etag })
    };
    parts.map(|parts| parts.iter().map(named).collect()).transpose()
}

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
        named.iter().any(|n| n.number == part.number && n.etag.trim_matches('"') == part.staged.etag)
    };
    match parts.iter().find(|part| !is_named(part)) {
        Some(part) => refuse(format!("Part {} is not among those that were named.", part.number)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::Staged;

    fn part(number: u32) -> Part {
        Part { number, staged: Staged::new("o".into(), 1, format!("e{number}")) }
    }

    fn named(number: u32, etag: &str) -> NamedPart {
        NamedPart { number, etag: etag.to_owned() }
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
        assert_eq!(parse_wanted(br#"{"numbers":[1,1000]}"#, &Warnings::strict()).unwrap().numbers, [1, 1000]);
        assert_eq!(
            parse_wanted(br#"{"numbers":[1],"size_bytes":7}"#, &Warnings::strict()).unwrap().size,
            Some(7)
        );
        for bad in [
            "{}",
            r#"{"numbers":[]}"#,
            r#"{"numbers":[0]}"#,
            r#"{"numbers":[1001]}"#,
            r#"{"numbers":1}"#,
            r#"{"numbers":[1],"size_bytes":0}"#,
        ] {
            assert!(parse_wanted(bad.as_bytes(), &Warnings::strict()).is_err(), "{bad}");
        }
        let many: Vec<u32> = (1..=101).collect();
        assert!(
            parse_wanted(serde_json::json!({"numbers": many}).to_string().as_bytes(), &Warnings::strict())
                .is_err()
        );
    }
}
