//! The results of a run in one file.

use super::operation::{Access, Content, Operation};
use super::parameters::{cursor, limit, signature_to_read};
use super::schemas::Schemas;
use crate::problem::Code;
use conveyor_domain::limits;
use conveyor_wire::StartExport;
use conveyor_wire::{Export, Exports, StartedExport};

const IN_RUN: &str = "/v1/jobs/{job}/runs/{run}/exports";
const ONE: &str = "/v1/jobs/{job}/runs/{run}/exports/{export}";
/// By the format of the export.
const FILE: Content = Content::Raw(&[
    (
        "application/zip",
        "PK\u{3}\u{4}: a zip with an entry for each body, such as 000000003c9e2d3a1b5f7a9c0e4d6b82.html",
    ),
    (
        "application/x-ndjson",
        "{\"task_id\":\"000000003c9e2d3a1b5f7a9c0e4d6b82\",\"external_id\":\"sku-1\",\"url\":\"https://example.com/1\",\"status\":\"successful\",\"type\":\"html\",\"http_status\":200,\"created_at\":\"2026-01-01T00:00:00.000Z\",\"updated_at\":\"2026-01-01T00:00:05.250Z\"}\n",
    ),
    (
        "text/csv",
        "task_id,external_id,url,metadata,status,type,http_status,error,source_run_id,created_at,updated_at\r\n\
         000000003c9e2d3a1b5f7a9c0e4d6b82,sku-1,https://example.com/1,,successful,html,200,,,2026-01-01T00:00:00.000Z,2026-01-01T00:00:05.250Z\r\n",
    ),
]);

pub(super) fn operations() -> Vec<Operation> {
    let started = Content::Json(Schemas::answer::<StartedExport>);
    let [caller, expires, signature] = signature_to_read();
    let all = [
        Operation::post(IN_RUN, "startExport", "Ask for the results of a run in one file")
            .details("It is built in the background, and kept for 12 hours.")
            .optional_body::<StartExport>()
            .answers_with(202, "It will be built.", started, &["Location", "Retry-After"])
            .refuses(&[Code::QuotaExceeded, Code::ResultExpired, Code::Conflict]),
        Operation::get(IN_RUN, "listExports", "Exports of a run, newest first")
            .details("Those that were asked for in the last 12 hours, and not given up.")
            .parameter(limit(limits::PAGE_DEFAULT, limits::PAGE_MAX))
            .parameter(cursor())
            .answers::<Exports>(200, "A page of them.")
            .refuses(&[Code::InvalidCursor]),
        Operation::get(ONE, "getExport", "How far an export is")
            .details("It is there for 12 hours after it was asked for, and answers 404 from then on.")
            .answers::<Export>(200, "The export; with `download_url` once it is done."),
        Operation::delete(ONE, "deleteExport", "Give an export up")
            .details("Built or not, it is not there from then on; its file goes within seconds.")
            .answers_with(204, "It is gone.", Content::Nothing, &[]),
        Operation::get("/v1/exports/{job}/{run}/{export}", "downloadExport", "The file, by its URL")
            .details("What `download_url` points to. Where exports are kept on S3, it leads there.")
            .access(Access::Signature)
            .parameter(caller)
            .parameter(expires)
            .parameter(signature)
            .answers_with(200, "The file.", FILE, &["Content-Disposition", "X-Content-Type-Options"]),
    ];
    all.into_iter().map(|operation| operation.tag("Exports")).collect()
}
