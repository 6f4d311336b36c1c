//! What became of tasks.

use super::operation::{Access, Content, Operation};
use super::parameters::{choice, cursor, limit, signature_to_read};
use crate::problem::Code;
use conveyor_domain::limits;
use conveyor_wire::{History, Results};

/// By the format of the task.
const BODY: Content = Content::Raw(&[
    ("text/html", "<!DOCTYPE html><html><head><title>Example Domain</title></head></html>"),
    ("application/json", r#"{"title": "Example Domain"}"#),
    ("text/markdown", "# Example Domain\n"),
    ("text/plain", "Example Domain\n"),
    ("application/pdf", "%PDF-1.7: the bytes of a PDF"),
]);
/// A body is a stranger's page, served from our origin.
const BODY_HEADERS: [&str; 3] = ["Content-Disposition", "X-Content-Type-Options", "Content-Security-Policy"];

pub(super) fn operations() -> Vec<Operation> {
    let [caller, expires, signature] = signature_to_read();
    let mut signed = content("/v1/content/{job}/{run}/{task}", "getSignedContent", "A body, by its URL")
        .details("What `result_url` points to, until `result_url_expires_at`.")
        .parameter(caller)
        .parameter(expires)
        .parameter(signature);
    signed.access = Access::Signature;
    let all = vec![
        list("/v1/jobs/{job}/results", "listResults", "Tasks of the latest run"),
        list("/v1/jobs/{job}/runs/{run}/results", "listRunResults", "Tasks of a run"),
        content(
            "/v1/jobs/{job}/tasks/{task}/content",
            "getContent",
            "The body of a result, of the latest run",
        )
        .details("Of a task that was successful, as long as its result can be seen."),
        content("/v1/jobs/{job}/runs/{run}/tasks/{task}/content", "getRunContent", "The body of a result")
            .details("Of a task that was successful, as long as its result can be seen. Also of one that was handed down."),
        signed,
        history("/v1/jobs/{job}/tasks/{task}/history", "getHistory", "Attempts at a task of the latest run"),
        history("/v1/jobs/{job}/runs/{run}/tasks/{task}/history", "getRunHistory", "Attempts at a task"),
    ];
    all.into_iter().map(|operation| operation.tag("Results")).collect()
}

fn list(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    let words = ["all", "successful", "failed", "processing"];
    Operation::get(path, id, summary)
        .details("In the order of the list. A page of heavy rows is shorter than its limit.")
        .parameter(choice("status", &words, "Only those; `processing` is everything that has not ended."))
        .parameter(limit(limits::RESULTS_PAGE_DEFAULT, limits::RESULTS_PAGE_MAX))
        .parameter(cursor())
        .answers::<Results>(200, "A page of them.")
        .refuses(&[Code::InvalidCursor, Code::ResultExpired])
}

fn content(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    let mut operation = Operation::get(path, id, summary)
        .answers_with(200, "The body, typed by the format of the task.", BODY, &BODY_HEADERS)
        .refuses(&[Code::TaskNotReady, Code::ResultExpired, Code::ResultDamaged]);
    operation.fails_like_its_task = true;
    operation
}

fn history(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::get(path, id, summary)
        .details("Oldest first.")
        .answers::<History>(200, "Its attempts.")
        .refuses(&[Code::ResultExpired])
}
