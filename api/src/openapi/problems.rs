//! Error answers: which codes an operation has, and what each of them means (SPEC 11).

use crate::problem::Code;
use conveyor_domain::list::ListFault;
use conveyor_domain::task_input::Reason;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

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

/// A job's own parameters are at fault: the reason is the code.
pub(super) fn of_params() -> [Refused; 3] {
    [Reason::UnknownParam, Reason::InvalidParamValue, Reason::UnsupportedParam].map(|reason| Refused {
        status: 400,
        code: reason.as_str(),
        title: "Invalid parameter",
    })
}

/// What a staged list that is read on the request can be refused for.
pub(super) fn of_list() -> Vec<Code> {
    let on_a_request = |fault: &ListFault| *fault != ListFault::IngestFailed;
    ListFault::ALL.into_iter().filter(on_a_request).map(Code::List).collect()
}

/// The error answers of an operation, one a status. Many operations share theirs: they are kept in `shared`, by name.
pub(super) fn answers(refusals: Vec<Refused>, shared: &mut Map<String, Value>) -> Map<String, Value> {
    let mut by_status: BTreeMap<u16, Vec<Refused>> = BTreeMap::new();
    for refused in refusals {
        let same = by_status.entry(refused.status).or_default();
        if !same.contains(&refused) {
            same.push(refused);
        }
    }
    let mut share = |(status, mut refused): (u16, Vec<Refused>)| {
        refused.sort();
        let codes: Vec<&str> = refused.iter().map(|one| one.code).collect();
        let name = codes.join(".");
        let reference = json!({"$ref": format!("#/components/responses/{name}")});
        shared.entry(name).or_insert_with(|| answer(status, &refused));
        (status.to_string(), reference)
    };
    by_status.into_iter().map(&mut share).collect()
}

fn answer(status: u16, refused: &[Refused]) -> Value {
    let codes: Vec<&str> = refused.iter().map(|one| one.code).collect();
    let lines: Vec<String> =
        refused.iter().map(|one| format!("- `{}`: {}", one.code, when(one.code))).collect();
    let example_of = |code: &str| json!({"$ref": format!("#/components/examples/{code}")});
    let examples: Map<String, Value> =
        refused.iter().map(|one| (one.code.to_owned(), example_of(one.code))).collect();
    let mut headers = json!({"X-Request-ID": {"$ref": "#/components/headers/X-Request-ID"}});
    if status == 503 {
        headers["Retry-After"] = json!({"$ref": "#/components/headers/Retry-After"});
    }
    if codes.contains(&Code::RateLimited.parts().1) {
        // Not with a quota, of which nobody knows when there is room again.
        let schema = json!({"type": "integer", "minimum": 1});
        headers["Retry-After"] = json!({"description": "Of `rate_limited`: in seconds.", "schema": schema});
    }
    json!({
        "description": lines.join("\n"),
        "headers": headers,
        "content": {"application/problem+json": {
            "schema": {
                "allOf": [{"$ref": "#/components/schemas/Problem"}],
                "properties": {"status": {"const": status}, "code": {"enum": codes}},
            },
            "examples": examples,
        }},
    })
}

/// The answer to a request for the result of a failed task is the problem of that task, with whatever code it has.
pub(super) fn of_failed_task() -> Value {
    let problem = Refused { status: 404, code: "http_404", title: "Not Found" };
    json!({
        "description": "The task failed: its own problem, whose `status` and `code` are those of the target or the gateway.",
        "headers": {"X-Request-ID": {"$ref": "#/components/headers/X-Request-ID"}},
        "content": {"application/problem+json": {
            "schema": {"$ref": "#/components/schemas/Problem"}, "example": example(&problem),
        }},
    })
}

/// An example of each code that is answered, by its name.
pub(super) fn examples(refused: impl Iterator<Item = Refused>) -> Map<String, Value> {
    refused
        .map(|one| (one.code.to_owned(), json!({"summary": when(one.code), "value": example(&one)})))
        .collect()
}

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
    ("unknown_param", "`zenrows_params` has a key that the gateway does not know; `detail` names it."),
    ("invalid_param_value", "`zenrows_params` has a value that cannot be; `detail` names its key."),
    ("unsupported_param", "`zenrows_params` has a key that this deployment cannot honour."),
    ("invalid_cursor", "the cursor was edited, has expired, or belongs to another query or caller."),
    ("unauthenticated", "no key, or not a known one."),
    ("forbidden", "the route needs an operator key."),
    (
        "signature_invalid",
        "the signed URL was edited or has expired, or the bytes are of another type than it was signed for.",
    ),
    ("not_found", "there is no such resource: an unknown id, or another caller's."),
    ("method_not_allowed", "the route does not have this method."),
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
    ("body_too_large", "the body is larger than this route takes."),
    ("too_many_tasks", "more tasks than this route, or a run, takes; `detail` names the limit."),
    (
        "unsupported_media_type",
        "the body has another `Content-Type` than this route takes, or a `Content-Encoding`.",
    ),
    ("quota_exceeded", "the caller has as much of this as it may have; `detail` names the limit."),
    ("rate_limited", "the caller sends requests faster than it may."),
    ("internal", "a defect; the request id finds it in the log."),
    ("unavailable", "the store does not answer, or the process is shutting down; try again."),
    ("storage_full", "the disk is full; nothing was accepted."),
    ("file_input_not_found", "there is no such slot of this caller, or it has expired."),
    ("file_input_not_uploaded", "nothing was uploaded to the slot."),
    ("file_input_incomplete", "parts are missing, not joined, or not those that were named."),
    ("file_input_claimed", "a job was already made of this list."),
    ("file_input_complete", "its parts were already joined."),
    ("file_input_unsupported_for_job_type", "only a closed regular job takes a staged list."),
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
    (
        "idempotency_key_conflict",
        "the `Idempotency-Key` was used for another request, or that request is still under way.",
    ),
    ("no_prior_run", "there is no earlier run whose tasks could be run again."),
    ("no_matching_tasks", "no task of the earlier run fits."),
    ("partial_rerun_window_expired", "the tasks of the earlier run are no longer kept."),
    ("candidate_pending", "a rotation is already under way."),
    ("no_candidate", "no rotation is under way."),
    ("job_not_scheduled", "the job has no schedule."),
    ("callback_url_must_be_https", "the callback URL is not an https URL."),
    ("callback_url_unresolvable", "the host of the callback URL has no address."),
    ("callback_address_not_allowed", "the callback URL leads to an address that is not public."),
    ("webhook_signing_requires_active_key", "the caller has no signing key."),
];
