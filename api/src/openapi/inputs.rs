//! Lists that are uploaded before a job is made of them.

use super::operation::{Access, Content, Operation, Raw};
use super::parameters::{cursor, limit, signature};
use super::schemas::Schemas;
use crate::problem::Code;
use conveyor_domain::{ListFault, limits};
use conveyor_wire::{CompleteParts, CreateInput, SignParts};
use conveyor_wire::{Input, Inputs, PartTargets, Uploaded, UploadedPart};
use serde_json::json;

/// What a list can be sent as.
pub(super) const LISTS: &[Raw] = &[
    ("text/csv", "link,sku\nhttps://example.com/1,sku-1\nhttps://example.com/2,sku-2\n"),
    (
        "application/x-ndjson",
        "{\"url\":\"https://example.com/1\",\"external_id\":\"sku-1\"}\n{\"url\":\"https://example.com/2\"}\n",
    ),
    ("text/plain", "https://example.com/1\nhttps://example.com/2\n"),
];
/// Parts are bytes of any kind.
const BYTES: &[Raw] = &[("application/octet-stream", "https://example.com/1\nhttps://exam")];

pub(super) fn operations() -> Vec<Operation> {
    slots().into_iter().chain(bytes()).map(|operation| operation.tag("Lists")).collect()
}

fn slots() -> Vec<Operation> {
    let not_found = [Code::FileInputNotFound];
    vec![
        Operation::post("/v1/job_inputs", "createInput", "Make a slot for a list")
            .details(
                "The answer says where to send the bytes. All of `upload.headers` must be sent with them. A list may be \
                 compressed with gzip or zstd; that is told by its first bytes.",
            )
            .body::<CreateInput>()
            .answers_with(201, "The slot.", Content::Json(Schemas::answer::<Input>), &["Location"])
            .refuses(&[Code::List(ListFault::SourceTooLarge), Code::QuotaExceeded]),
        Operation::get("/v1/job_inputs", "listInputs", "Own slots, newest first")
            .details("Those that have not expired: 24 hours after they were made, or as long as a job needs them.")
            .parameter(limit(limits::PAGE_DEFAULT, limits::PAGE_MAX))
            .parameter(cursor())
            .answers::<Inputs>(200, "A page of them.")
            .but(json!({"job_inputs": [{
                "file_input_id": "01KCX5R8W2A4B6C8D0E2F4G6H8", "type": "csv", "status": "claimed",
                "size_bytes": 48_211_337, "created_at": "2026-01-01T00:00:00.000Z",
                "expires_at": "2026-01-02T00:00:00.000Z",
            }]}))
            .refuses(&[Code::InvalidCursor]),
        Operation::get("/v1/job_inputs/{upload}", "getInput", "One slot")
            .details("With its parts, or with a fresh URL as long as its bytes can be sent.")
            .answers::<Input>(200, "The slot.")
            .refuses(&not_found),
        Operation::delete("/v1/job_inputs/{upload}", "abortInput", "Give a slot up")
            .details("With whatever was sent to it. One that a job was made of goes with that job.")
            .answers_with(204, "It is gone.", Content::Nothing, &[])
            .refuses(&not_found)
            .refuses(&[Code::FileInputClaimed]),
        Operation::post("/v1/job_inputs/{upload}/parts", "signParts", "Where to send parts")
            .details("For a slot that was made with `multipart`.")
            .body::<SignParts>()
            .answers::<PartTargets>(200, "A signed URL for each.")
            .but(json!({"parts": [{
                "number": 1, "method": "PUT", "headers": {}, "expires_at": "2026-01-01T00:30:00.000Z",
                "url": "https://api.example.com/v1/uploads/01KCX5Z3E5F7G9H1J3K5M7N9P3/01KCX5R8W2A4B6C8D0E2F4G6H8/parts/1?expires=1767227400&signature=q0b3f1",
            }]}))
            .refuses(&not_found)
            .refuses(&[
                Code::Conflict,
                Code::FileInputClaimed,
                Code::FileInputComplete,
                // Where parts go to S3, what is there is looked at.
                Code::List(ListFault::SourceTooLarge),
            ]),
        Operation::post("/v1/job_inputs/{upload}/complete", "completeInput", "Join the parts")
            .details("Parts 1 to n become the list. It can be repeated.")
            .optional_body::<CompleteParts>()
            .answers::<Input>(200, "The slot, with its list.")
            .but(json!({
                "status": "uploaded", "upload": null,
                "multipart": {"parts_max": limits::UPLOAD_PARTS_MAX, "numbers_max": limits::PART_URLS_MAX},
            }))
            .refuses(&not_found)
            .refuses(&[
                Code::Conflict,
                Code::FileInputIncomplete,
                Code::UploadSizeMismatch,
                Code::UploadChecksumMismatch,
                Code::TooManyUploads,
                Code::List(ListFault::SourceTooLarge),
                Code::List(ListFault::SourceChanged),
            ]),
    ]
}

fn bytes() -> Vec<Operation> {
    let refused = [
        Code::FileInputNotFound,
        Code::FileInputClaimed,
        Code::FileInputComplete,
        Code::RequestTimeout,
        Code::TooManyUploads,
        Code::UnsupportedMediaType,
        Code::List(ListFault::SourceTooLarge),
    ];
    let [expires, signature] = signature();
    let signed = |operation: Operation| {
        operation
            .access(Access::Signature)
            .parameter(expires.clone())
            .parameter(signature.clone())
            .refuses(&refused)
    };
    vec![
        signed(Operation::put("/v1/uploads/{caller}/{upload}", "putList", "Send a list"))
            .details("To the signed URL of a slot, with its headers. Where slots lead to S3, there is no such route.")
            .raw_body(LISTS)
            .answers_with(200, "It is staged.", Content::Json(Schemas::answer::<Uploaded>), &["ETag"])
            .refuses(&[Code::UploadSizeMismatch, Code::UploadChecksumMismatch]),
        signed(Operation::put("/v1/uploads/{caller}/{upload}/parts/{number}", "putPart", "Send a part"))
            .details("To the signed URL of that part.")
            .raw_body(BYTES)
            .answers_with(200, "It is staged.", Content::Json(Schemas::answer::<UploadedPart>), &["ETag"]),
    ]
}
