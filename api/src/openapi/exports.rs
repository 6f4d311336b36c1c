//! The results of a run in one file.

use super::operation::{Access, Content, Operation};
use super::parameters::{cursor, limit, signature};
use super::schemas::Schemas;
use crate::problem::Code;
use crate::wire::bodies::StartExport;
use crate::wire::export::{ExportJson, ExportsJson, StartedExportJson};
use conveyor_domain::limits;

const IN_RUN: &str = "/v1/jobs/{job}/runs/{run}/exports";
const ONE: &str = "/v1/jobs/{job}/runs/{run}/exports/{export}";
/// By the format of the export.
const FILE: Content = Content::Raw(&["application/zip", "application/x-ndjson", "text/csv"]);

pub(super) fn operations() -> Vec<Operation> {
    let started = Content::Json(Schemas::answer::<StartedExportJson>);
    let [expires, signature] = signature();
    let all = [
        Operation::post(IN_RUN, "startExport", "Ask for the results of a run in one file")
            .details("It is built in the background, and kept for 12 hours.")
            .optional_body::<StartExport>()
            .answers_with(202, "It will be built.", started, &["Location", "Retry-After"])
            .refuses(&[Code::QuotaExceeded, Code::ResultExpired, Code::Conflict]),
        Operation::get(IN_RUN, "listExports", "Exports of a run, newest first")
            .parameter(limit(limits::PAGE_DEFAULT, limits::PAGE_MAX))
            .parameter(cursor())
            .answers::<ExportsJson<'_>>(200, "A page of them.")
            .refuses(&[Code::InvalidCursor]),
        Operation::get(ONE, "getExport", "How far an export is")
            .answers::<ExportJson<'_>>(200, "The export; with `download_url` once it is done."),
        Operation::delete(ONE, "deleteExport", "Give an export up").answers_with(
            204,
            "It is gone.",
            Content::Nothing,
            &[],
        ),
        Operation::get("/v1/exports/{job}/{run}/{export}", "downloadExport", "The file, by its URL")
            .details("What `download_url` points to. Where exports are kept on S3, it leads there.")
            .access(Access::Signature)
            .parameter(expires)
            .parameter(signature)
            .answers_with(200, "The file.", FILE, &["Content-Disposition"]),
    ];
    all.into_iter().map(|operation| operation.tag("Exports")).collect()
}
