//! Error answers: which codes an operation has, and what each of them means (SPEC 11).

use super::headers;
use super::operation::Operation;
use crate::problem::Code;
use conveyor_domain::ListFault;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// One way in which a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Refused {
    pub status: u16,
    pub code: &'static str,
    pub title: &'static str,
}

impl From<Code> for Refused {
    fn from(code: Code) -> Refused {
        let (status, code, title) = code.parts();
        Refused { status: status.as_u16(), code, title }
    }
}

/// What a staged list that is read on the request can be refused for.
pub(super) fn of_list() -> Vec<Code> {
    ListFault::ALL.into_iter().filter(|fault| fault.is_in_the_list()).map(Code::List).collect()
}

/// The error answers of an operation, one a status. Many operations share theirs: they are kept in `shared`, by name.
pub(super) fn answers(operation: &Operation, shared: &mut Map<String, Value>) -> Map<String, Value> {
    let mut by_status: BTreeMap<u16, Vec<Refused>> = BTreeMap::new();
    for refused in operation.all_refusals() {
        let same = by_status.entry(refused.status).or_default();
        if !same.contains(&refused) {
            same.push(refused);
        }
    }
    let mut share = |(status, mut refused): (u16, Vec<Refused>)| {
        refused.sort();
        let codes: Vec<&str> = refused.iter().map(|one| one.code).collect();
        // Only requests with a key are counted, and told so.
        let name = codes.join(".") + if operation.has_key() { "" } else { ".no_key" };
        let reference = json!({"$ref": format!("#/components/responses/{name}")});
        shared.entry(name).or_insert_with(|| answer(status, &refused, operation));
        (status.to_string(), reference)
    };
    by_status.into_iter().map(&mut share).collect()
}

fn answer(status: u16, refused: &[Refused], operation: &Operation) -> Value {
    let codes: Vec<&str> = refused.iter().map(|one| one.code).collect();
    let lines: Vec<String> =
        refused.iter().map(|one| format!("- `{}`: {}", one.code, when(one.code))).collect();
    let example_of = |code: &str| json!({"$ref": format!("#/components/examples/{code}")});
    let examples: Map<String, Value> =
        refused.iter().map(|one| (one.code.to_owned(), example_of(one.code))).collect();
    json!({
        "description": lines.join("\n"),
        "headers": headers_of(status, &codes, operation),
        "content": {"application/problem+json": {
            "schema": {
                "allOf": [{"$ref": "#/components/schemas/Problem"}],
                "properties": {"status": {"const": status}, "code": {"enum": codes}},
            },
            "examples": examples,
        }},
    })
}

fn headers_of(status: u16, codes: &[&str], operation: &Operation) -> Map<String, Value> {
    // Whoever has no known key is not counted.
    let rates = headers::of_rates(operation.has_key() && status != 401);
    let mut all = headers::named(headers::ALWAYS.iter().chain(rates).copied());
    if status == 503 {
        all.extend(headers::named(["Retry-After"].into_iter()));
    }
    if status == 429 && codes != [Code::QuotaExceeded.parts().1] {
        let schema = json!({"type": "integer", "minimum": 1});
        let description = "In seconds. `quota_exceeded` has none: time alone does not help.";
        all.insert(
            "Retry-After".to_owned(),
            json!({"description": description, "schema": schema, "example": 1}),
        );
    }
    all
}

/// The answer to a request for the result of a failed task is the problem of that task, with whatever code it has.
pub(super) fn of_failed_task(operation: &Operation) -> Value {
    let problem = Refused { status: 404, code: "http_404", title: "The target answered 404" };
    let names = headers::ALWAYS.iter().chain(headers::of_rates(operation.has_key())).copied();
    json!({
        "description": "The task failed: its own problem, whose `status` and `code` are those of the target or the gateway.",
        "headers": headers::named(names),
        "content": {"application/problem+json": {
            "schema": {"$ref": "#/components/schemas/Problem"}, "example": example(&problem),
        }},
    })
}

/// An example of each code that is answered, by its name.
pub(super) fn examples(refused: &[Refused]) -> Map<String, Value> {
    refused
        .iter()
        .map(|one| (one.code.to_owned(), json!({"summary": when(one.code), "value": example(one)})))
        .collect()
}

/// Every code that a problem can have.
pub(super) fn codes(refused: &[Refused]) -> String {
    let answered: BTreeSet<(u16, &str)> = refused.iter().map(|one| (one.status, one.code)).collect();
    let answered = answered.iter().map(|(status, code)| format!("- `{code}` ({status}): {}", when(code)));
    let of_tasks = OF_TASKS.iter().map(|(code, when)| format!("- `{code}`: {when}"));
    format!(
        "A stable word for programs. Of an error answer:\n\n{}\n\nOf a failed task, the gateway's own where it sent a \
         problem, otherwise:\n\n{}",
        answered.collect::<Vec<_>>().join("\n"),
        of_tasks.collect::<Vec<_>>().join("\n"),
    )
}

/// Codes of failed tasks that are ours (SPEC 11).
const OF_TASKS: [(&str, &str); 10] = [
    ("gateway_unreachable", "the gateway, or the target, could not be connected to, or broke off."),
    ("gateway_timeout", "it did not answer in time."),
    ("http_<status>", "it answered with this status, such as `http_404`."),
    ("result_too_large", "the body is larger than a result may be."),
    ("address_not_allowed", "the target leads to an address that is not public."),
    ("target_unresolvable", "the host of the target has no address."),
    ("task_abandoned", "it was begun over and over, and no worker lived to say what came of it."),
    ("damaged", "what is stored of it cannot be read; also of a successful task whose result cannot be."),
    ("outcome_lost", "its job was rebuilt, and how it had ended is lost."),
    ("not_started", "it was handed down from a run that ended before it was done."),
];

fn example(refused: &Refused) -> Value {
    json!({
        "type": format!("urn:conveyor:error:{}", refused.code),
        "title": refused.title,
        "status": refused.status,
        "code": refused.code,
        "detail": "A sentence that says what was wrong, and names the field.",
        "instance": "01KCX5T0Q8H2V4M6N8P0R2S4T6",
    })
}

/// When a code is answered. A test demands a sentence for each.
pub(super) fn when(code: &str) -> &'static str {
    WHEN.iter().find(|(known, _)| *known == code).map_or("", |(_, when)| when)
}

const WHEN: &[(&str, &str)] = &[
    (
        "invalid_argument",
        "a field or parameter is missing, of the wrong type, unknown or out of range; `detail` names it. With `invalid_tasks` if tasks are at fault.",
    ),
    ("malformed_json", "the body is not JSON."),
    ("invalid_cursor", "the cursor was edited, has expired, or belongs to another query or caller."),
    ("unauthenticated", "no key, or not a known one."),
    ("forbidden", "the route needs an operator key."),
    (
        "signature_invalid",
        "the signed URL was edited or has expired, or the bytes are of another type than it was signed for.",
    ),
    ("not_found", "there is no such resource: an unknown id, or another caller's."),
    ("method_not_allowed", "the path has no such method; the header `Allow` names those that it has."),
    ("request_timeout", "the body took too long, or found no room among others in time."),
    ("job_not_open", "the job takes no more tasks."),
    ("last_batch_received", "the last batch of this open job was already received."),
    ("run_not_stoppable", "the run has ended."),
    ("run_not_pausable", "the run has ended."),
    ("run_not_terminal", "the latest run still lives, or its list is still read."),
    ("run_has_descendants", "a later run has results that are kept in this one."),
    ("redrive_limit", "the letter was sent again as often as it may be."),
    ("task_not_ready", "the task has not ended yet."),
    ("conflict", "something else is in the place of what was asked for."),
    ("result_expired", "the result is past its time, or its run was deleted."),
    (
        "result_damaged",
        "what is stored of the body is not what was written. A rerun of the task fetches it again; asking again does not help.",
    ),
    ("body_too_large", "the body is larger than this route takes."),
    ("too_many_tasks", "more tasks than this route, or a run, takes; `detail` names the limit."),
    (
        "unsupported_media_type",
        "the body has another `Content-Type` than this route takes, or a `Content-Encoding`.",
    ),
    ("quota_exceeded", "the caller has as much of this as it may have; `detail` names the limit."),
    ("rate_limited", "the caller sends requests faster than it may."),
    ("too_many_in_flight", "the caller has as many requests under way as it may; nothing was done."),
    ("too_many_streams", "the caller has as many event streams as it may."),
    ("too_many_uploads", "the caller uploads as many lists at once as it may; nothing was kept."),
    (
        "too_many_unknown_keys",
        "unknown keys come from this address too fast, and the key is not known, or not yet.",
    ),
    (
        "too_many_bytes",
        "the caller has as many bytes of bodies, or of answers, in memory as it may; nothing was done.",
    ),
    ("too_many_audits", "the caller has an audit under way, and may have one at a time."),
    ("overloaded", "all callers together have too much under way; nothing was done; try again."),
    ("internal", "a defect; the request id finds it in the log."),
    ("unavailable", "the store does not answer, or the process is shutting down; try again."),
    ("storage_full", "the disk is full; nothing was accepted."),
    ("file_input_not_found", "there is no such slot of this caller, or it has expired."),
    ("file_input_not_uploaded", "nothing was uploaded to the slot."),
    ("file_input_incomplete", "parts are missing, not joined, or not those that were named."),
    ("file_input_claimed", "a job was already made of this list."),
    ("file_input_complete", "its parts were already joined."),
    ("file_input_unsupported_for_job_type", "only a closed job takes a staged list."),
    ("upload_size_mismatch", "the bytes are not as many as the slot was made for; nothing was kept."),
    ("upload_checksum_mismatch", "the bytes are not those that the slot was made for; nothing was kept."),
    ("source_truncated", "the list ends in the middle of its compression."),
    ("source_corrupt", "the list cannot be read as what it was said to be."),
    ("source_changed", "the staged bytes are not those that were accepted."),
    ("source_too_large", "the list is larger than a list may be."),
    ("expanded_too_large", "the list is larger than a list may be, once expanded."),
    ("expansion_ratio_exceeded", "the list expands to more than its size can honestly mean."),
    ("line_too_long", "a line of the list is too long."),
    ("too_many_rows", "the list has more rows than a run takes."),
    ("column_not_found", "the list has no column of that name or index."),
    ("invalid_rows", "rows are invalid, and `on_invalid_rows` is `fail`; with `invalid_tasks`."),
    ("no_valid_rows", "the list has no valid row."),
    ("ingest_failed", "the list could not be read, however often that was tried: not for what is in it."),
    (
        "idempotency_key_conflict",
        "the `Idempotency-Key` was used for another request, or that request is still under way.",
    ),
    ("no_prior_run", "there is no earlier run whose tasks could be run again."),
    ("no_matching_tasks", "no task of the earlier run fits."),
    ("partial_rerun_window_expired", "the tasks of the earlier run are no longer kept."),
    (
        "list_not_read",
        "the latest run ended before its list was read to the end, and what is missing cannot be made up for.",
    ),
    ("candidate_pending", "a rotation is already under way."),
    ("no_candidate", "no rotation is under way."),
    ("job_not_scheduled", "the job has no schedule."),
    ("callback_url_must_be_https", "the callback URL is not an https URL."),
    ("callback_url_unresolvable", "the host of the callback URL has no address."),
    ("callback_address_not_allowed", "the callback URL leads to an address that is not public."),
    ("webhook_signing_requires_active_key", "the caller has no signing key."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_has_the_codes_of_failed_tasks() {
        let spec = include_str!("../../../docs/spec/errors.md");
        let line = spec.lines().find(|line| line.starts_with("Codes in a failed task's `error`")).unwrap();
        let (_, named) = line.split_once("otherwise ").unwrap();
        let named: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
        assert_eq!(named, OF_TASKS.map(|(code, _)| code));
    }
}
