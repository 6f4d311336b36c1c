//! The codes of error answers (SPEC 11), each with its status and title.

use axum::http::StatusCode;
use conveyor_domain::{ListFault, damage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidArgument,
    MalformedJson,
    InvalidCursor,
    Unauthenticated,
    Forbidden,
    SignatureInvalid,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    JobNotOpen,
    LastBatchReceived,
    RunNotStoppable,
    RunNotPausable,
    RunHasDescendants,
    RedriveLimit,
    TaskNotReady,
    Conflict,
    ResultExpired,
    ResultDamaged,
    BodyTooLarge,
    TooManyTasks,
    UnsupportedMediaType,
    QuotaExceeded,
    Internal,
    Unavailable,
    StorageFull,
    RunNotTerminal,
    FileInputNotFound,
    FileInputNotUploaded,
    FileInputClaimed,
    FileInputComplete,
    FileInputIncomplete,
    FileInputUnsupported,
    UploadSizeMismatch,
    UploadChecksumMismatch,
    IdempotencyKeyConflict,
    NoPriorRun,
    NoMatchingTasks,
    PartialRerunWindowExpired,
    ListNotRead,
    CandidatePending,
    NoCandidate,
    JobNotScheduled,
    CallbackUrlMustBeHttps,
    CallbackUrlUnresolvable,
    CallbackAddressNotAllowed,
    WebhookSigningRequiresActiveKey,
    RateLimited,
    TooManyInFlight,
    TooManyStreams,
    TooManyUploads,
    TooManyUnknownKeys,
    TooManyBytes,
    TooManyAudits,
    Overloaded,
    /// A staged list that was read on the request.
    List(ListFault),
}

impl Code {
    #[cfg(test)]
    pub const ALL: [Code; 55] = [
        Code::InvalidArgument,
        Code::MalformedJson,
        Code::InvalidCursor,
        Code::Unauthenticated,
        Code::Forbidden,
        Code::SignatureInvalid,
        Code::NotFound,
        Code::MethodNotAllowed,
        Code::RequestTimeout,
        Code::JobNotOpen,
        Code::LastBatchReceived,
        Code::RunNotStoppable,
        Code::RunNotPausable,
        Code::RunHasDescendants,
        Code::RedriveLimit,
        Code::TaskNotReady,
        Code::Conflict,
        Code::ResultExpired,
        Code::ResultDamaged,
        Code::BodyTooLarge,
        Code::TooManyTasks,
        Code::UnsupportedMediaType,
        Code::QuotaExceeded,
        Code::Internal,
        Code::Unavailable,
        Code::StorageFull,
        Code::RunNotTerminal,
        Code::FileInputNotFound,
        Code::FileInputNotUploaded,
        Code::FileInputClaimed,
        Code::FileInputComplete,
        Code::FileInputIncomplete,
        Code::FileInputUnsupported,
        Code::UploadSizeMismatch,
        Code::UploadChecksumMismatch,
        Code::IdempotencyKeyConflict,
        Code::NoPriorRun,
        Code::NoMatchingTasks,
        Code::PartialRerunWindowExpired,
        Code::ListNotRead,
        Code::CandidatePending,
        Code::NoCandidate,
        Code::JobNotScheduled,
        Code::CallbackUrlMustBeHttps,
        Code::CallbackUrlUnresolvable,
        Code::CallbackAddressNotAllowed,
        Code::WebhookSigningRequiresActiveKey,
        Code::RateLimited,
        Code::TooManyInFlight,
        Code::TooManyStreams,
        Code::TooManyUploads,
        Code::TooManyUnknownKeys,
        Code::TooManyBytes,
        Code::TooManyAudits,
        Code::Overloaded,
    ];

    /// Refusals that end by themselves: they say when to try again.
    pub const PASSING: [Code; 6] = [
        Code::TooManyInFlight,
        Code::TooManyStreams,
        Code::TooManyUploads,
        Code::TooManyUnknownKeys,
        Code::TooManyBytes,
        Code::TooManyAudits,
    ];

    pub fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Code::InvalidArgument => (StatusCode::BAD_REQUEST, "invalid_argument", "Invalid argument"),
            Code::MalformedJson => (StatusCode::BAD_REQUEST, "malformed_json", "Malformed JSON"),
            Code::InvalidCursor => (StatusCode::BAD_REQUEST, "invalid_cursor", "Invalid cursor"),
            Code::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthenticated", "Unauthenticated"),
            Code::Forbidden => (StatusCode::FORBIDDEN, "forbidden", "Forbidden"),
            Code::SignatureInvalid => (StatusCode::FORBIDDEN, "signature_invalid", "Invalid signature"),
            Code::NotFound => (StatusCode::NOT_FOUND, "not_found", "Not found"),
            Code::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method not allowed")
            }
            Code::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, "request_timeout", "Request timeout"),
            Code::JobNotOpen => (StatusCode::CONFLICT, "job_not_open", "Job not open"),
            Code::LastBatchReceived => (StatusCode::CONFLICT, "last_batch_received", "Last batch received"),
            Code::RunNotStoppable => (StatusCode::CONFLICT, "run_not_stoppable", "Run not stoppable"),
            Code::RunNotPausable => (StatusCode::CONFLICT, "run_not_pausable", "Run not pausable"),
            Code::RunHasDescendants => (StatusCode::CONFLICT, "run_has_descendants", "Run has descendants"),
            Code::RedriveLimit => (StatusCode::CONFLICT, "redrive_limit", "Redrive limit"),
            Code::TaskNotReady => (StatusCode::CONFLICT, "task_not_ready", "Task not ready"),
            Code::Conflict => (StatusCode::CONFLICT, "conflict", "Conflict"),
            Code::ResultExpired => (StatusCode::GONE, "result_expired", "Result expired"),
            Code::ResultDamaged => (StatusCode::GONE, damage::BODY_CODE, "Result damaged"),
            Code::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "Body too large"),
            Code::TooManyTasks => (StatusCode::PAYLOAD_TOO_LARGE, "too_many_tasks", "Too many tasks"),
            Code::UnsupportedMediaType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "Unsupported media type")
            }
            Code::QuotaExceeded => (StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", "Quota exceeded"),
            Code::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error"),
            Code::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Unavailable"),
            Code::StorageFull => (StatusCode::INSUFFICIENT_STORAGE, "storage_full", "Storage full"),
            Code::RunNotTerminal => (StatusCode::CONFLICT, "run_not_terminal", "Run not terminal"),
            Code::FileInputNotFound => {
                (StatusCode::NOT_FOUND, "file_input_not_found", "File input not found")
            }
            Code::FileInputNotUploaded => {
                (StatusCode::CONFLICT, "file_input_not_uploaded", "File input not uploaded")
            }
            Code::FileInputClaimed => (StatusCode::CONFLICT, "file_input_claimed", "File input claimed"),
            Code::FileInputComplete => (StatusCode::CONFLICT, "file_input_complete", "File input complete"),
            Code::FileInputIncomplete => {
                (StatusCode::CONFLICT, "file_input_incomplete", "File input incomplete")
            }
            Code::FileInputUnsupported => {
                (StatusCode::CONFLICT, "file_input_unsupported_for_job_type", "File input unsupported")
            }
            Code::UploadSizeMismatch => {
                (StatusCode::BAD_REQUEST, "upload_size_mismatch", "Upload size mismatch")
            }
            Code::UploadChecksumMismatch => {
                (StatusCode::BAD_REQUEST, "upload_checksum_mismatch", "Upload checksum mismatch")
            }
            Code::IdempotencyKeyConflict => {
                (StatusCode::CONFLICT, "idempotency_key_conflict", "Idempotency key conflict")
            }
            Code::NoPriorRun => (StatusCode::CONFLICT, "no_prior_run", "No prior run"),
            Code::NoMatchingTasks => (StatusCode::CONFLICT, "no_matching_tasks", "No matching tasks"),
            Code::PartialRerunWindowExpired => {
                (StatusCode::CONFLICT, "partial_rerun_window_expired", "Partial rerun window expired")
            }
            Code::ListNotRead => (StatusCode::CONFLICT, "list_not_read", "List not read to its end"),
            Code::CandidatePending => (StatusCode::CONFLICT, "candidate_pending", "Candidate pending"),
            Code::NoCandidate => (StatusCode::CONFLICT, "no_candidate", "No candidate"),
            Code::JobNotScheduled => (StatusCode::CONFLICT, "job_not_scheduled", "Job not scheduled"),
            Code::CallbackUrlMustBeHttps => {
                (StatusCode::BAD_REQUEST, "callback_url_must_be_https", "Callback URL must be HTTPS")
            }
            Code::CallbackUrlUnresolvable => {
                (StatusCode::BAD_REQUEST, "callback_url_unresolvable", "Callback URL unresolvable")
            }
            Code::CallbackAddressNotAllowed => {
                (StatusCode::BAD_REQUEST, "callback_address_not_allowed", "Callback address not allowed")
            }
            Code::WebhookSigningRequiresActiveKey => (
                StatusCode::BAD_REQUEST,
                "webhook_signing_requires_active_key",
                "Webhook signing requires an active key",
            ),
            Code::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "rate_limited", "Rate limited"),
            Code::TooManyInFlight => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_in_flight", "Too many requests in flight")
            }
            Code::TooManyStreams => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_streams", "Too many event streams")
            }
            Code::TooManyUploads => (StatusCode::TOO_MANY_REQUESTS, "too_many_uploads", "Too many uploads"),
            Code::TooManyUnknownKeys => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_unknown_keys", "Too many unknown keys")
            }
            Code::TooManyBytes => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_bytes", "Too many bytes under way")
            }
            Code::TooManyAudits => (StatusCode::TOO_MANY_REQUESTS, "too_many_audits", "Too many audits"),
            Code::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "overloaded", "Overloaded"),
            Code::List(fault) => (status_of(fault), fault.as_str(), "The list cannot be taken"),
        }
    }
}

pub(super) fn status_of(fault: ListFault) -> StatusCode {
    match fault {
        ListFault::SourceChanged => StatusCode::CONFLICT,
        ListFault::SourceTooLarge
        | ListFault::ExpandedTooLarge
        | ListFault::ExpansionRatioExceeded
        | ListFault::TooManyRows => StatusCode::PAYLOAD_TOO_LARGE,
        ListFault::SourceTruncated
        | ListFault::SourceCorrupt
        | ListFault::LineTooLong
        | ListFault::ColumnNotFound
        | ListFault::InvalidRows
        | ListFault::NoValidRows => StatusCode::BAD_REQUEST,
        // The end of a run, found out behind its caller's back: no request is answered with it.
        ListFault::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
        ListFault::IngestFailed => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
