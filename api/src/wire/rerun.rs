//! What is asked of a rerun, and what is answered (SPEC 6.19).

use super::read;
use crate::problem::{ApiError, Result};
use crate::query::Params as QueryParams;
use crate::warnings::{STRICT, Warnings};
use conveyor_domain::{FailureClass, ParamPolicy, Params, Selection, TaskStatus, limits, params};
use conveyor_wire::RerunJob;

/// The query parameters that a rerun knows.
pub(crate) const PARAMETERS: &[&str] = &["status", "error_class", "http_status", "domain", STRICT];

/// The tasks that shall be done again.
pub(crate) fn parse_selection(query: &QueryParams) -> Result<Selection> {
    Ok(Selection {
        status: words(query, "status", |word| word.parse().ok())?,
        error_class: words(query, "error_class", |word| word.parse().ok())?,
        http_status: words(query, "http_status", |word| {
            let plain = word.len() == 3 && word.bytes().all(|b| b.is_ascii_digit());
            word.parse().ok().filter(|status| plain && (100..=599).contains(status))
        })?,
        domain: words(query, "domain", |word| {
            let fits = (1..=limits::DOMAIN_MAX_CHARS).contains(&word.len()) && !word.starts_with('.');
            let legal =
                |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']' | b'_');
            (fits && word.bytes().all(legal)).then(|| word.to_ascii_lowercase())
        })?,
    })
}

/// Words between commas, each of which must mean something.
fn words<T: PartialEq>(query: &QueryParams, name: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>> {
    let Some(text) = query.get(name) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for word in text.split(',') {
        let value = parse(word).ok_or_else(|| {
            ApiError::invalid(format!("`{name}` is a list of {}, separated by commas.", expected(name)))
        })?;
        if !found.contains(&value) {
            found.push(value);
        }
        if found.len() > limits::RERUN_WORDS_MAX {
            return Err(ApiError::invalid(format!(
                "`{name}` has more than {} values.",
                limits::RERUN_WORDS_MAX
            )));
        }
    }
    Ok(found)
}

fn expected(name: &str) -> String {
    let list = |words: Vec<&str>| words.join(" | ");
    match name {
        "status" => list(TaskStatus::ALL.iter().map(|status| status.as_str()).collect()),
        "error_class" => list(FailureClass::ALL.iter().map(|class| class.as_str()).collect()),
        "http_status" => "HTTP statuses, 100 to 599".to_owned(),
        _ => "host names".to_owned(),
    }
}

/// Parameters that win over those of the job and of its tasks.
pub(crate) fn parse_overrides(
    body: &[u8],
    policy: ParamPolicy,
    job: &Params,
    warnings: &Warnings,
) -> Result<Params> {
    let body: RerunJob = read(body, warnings)?;
    let overrides = super::job::params(body.zenrows_params, policy)?;
    let merged = params::merge(job, &overrides);
    params::check_merged(&merged, false).map_err(|invalid| ApiError::job_params(&invalid))?;
    Ok(overrides)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&'static str, &str)]) -> Result<Selection> {
        parse_selection(&QueryParams::of(pairs))
    }

    #[test]
    fn a_selection_is_lists_of_words() {
        let found = parse(&[("status", "failed,pending,failed"), ("http_status", "403,504")]).unwrap();
        assert_eq!(found.status, [TaskStatus::Failed, TaskStatus::Pending]);
        assert_eq!(found.http_status, [403, 504]);
        let found = parse(&[("error_class", "blocked"), ("domain", "Example.com")]).unwrap();
        assert_eq!(
            (found.error_class, found.domain),
            (vec![FailureClass::Blocked], vec!["example.com".to_owned()])
        );
        assert!(parse(&[]).unwrap().is_everything());
    }

    #[test]
    fn a_word_that_means_nothing_is_refused() {
        for (name, bad) in [
            ("status", ""),
            ("status", "failed,"),
            ("status", "expired"),
            ("error_class", "Blocked"),
            ("http_status", "99"),
            ("http_status", "+404"),
            ("domain", "a b"),
            ("domain", ""),
        ] {
            assert!(parse(&[(name, bad)]).is_err(), "{name}={bad}");
        }
    }
}
