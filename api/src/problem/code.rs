//! The codes of error answers (SPEC 11), each with its status and title.

use axum::http::StatusCode;
use conveyor_domain::{ListFault, damage};

macro_rules! codes {
    ($($code:ident: $status:ident, $word:expr, $title:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code {
            $($code,)+
            /// A staged list that was read on the request.
            List(ListFault),
        }

        impl Code {
            #[cfg(test)]
            pub const ALL: &[Code] = &[$(Code::$code),+];

            pub fn parts(self) -> (StatusCode, &'static str, &'static str) {
                match self {
                    $(Code::$code => (StatusCode::$status, $word, $title),)+
                    Code::List(fault) => (status_of(fault), fault.as_str(), "The list cannot be taken"),
                }
            }
        }
    };
}

codes! {
    InvalidArgument: BAD_REQUEST, "invalid_argument", "Invalid argument";
    MalformedJson: BAD_REQUEST, "malformed_json", "Malformed JSON";
    InvalidCursor: BAD_REQUEST, "invalid_cursor", "Invalid cursor";
    Unauthenticated: UNAUTHORIZED, "unauthenticated", "Unauthenticated";
    Forbidden: FORBIDDEN, "forbidden", "Forbidden";
    SignatureInvalid: FORBIDDEN, "signature_invalid", "Invalid signature";
    NotFound: NOT_FOUND, "not_found", "Not found";
    MethodNotAllowed: METHOD_NOT_ALLOWED, "method_not_allowed", "Method not allowed";
    RequestTimeout: REQUEST_TIMEOUT, "request_timeout", "Request timeout";
    JobNotOpen: CONFLICT, "job_not_open", "Job not open";
    LastBatchReceived: CONFLICT, "last_batch_received", "Last batch received";
    RunNotStoppable: CONFLICT, "run_not_stoppable", "Run not stoppable";
    RunNotPausable: CONFLICT, "run_not_pausable", "Run not pausable";
    RunHasDescendants: CONFLICT, "run_has_descendants", "Run has descendants";
    RedriveLimit: CONFLICT, "redrive_limit", "Redrive limit";
    TaskNotReady: CONFLICT, "task_not_ready", "Task not ready";
    Conflict: CONFLICT, "conflict", "Conflict";
    ResultExpired: GONE, "result_expired", "Result expired";
    ResultDamaged: GONE, damage::BODY_CODE, "Result damaged";
    BodyTooLarge: PAYLOAD_TOO_LARGE, "body_too_large", "Body too large";
    TooManyTasks: PAYLOAD_TOO_LARGE, "too_many_tasks", "Too many tasks";
    UnsupportedMediaType: UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "Unsupported media type";
    QuotaExceeded: TOO_MANY_REQUESTS, "quota_exceeded", "Quota exceeded";
    Internal: INTERNAL_SERVER_ERROR, "internal", "Internal error";
    Unavailable: SERVICE_UNAVAILABLE, "unavailable", "Unavailable";
    StorageFull: INSUFFICIENT_STORAGE, "storage_full", "Storage full";
    RunNotTerminal: CONFLICT, "run_not_terminal", "Run not terminal";
    FileInputNotFound: NOT_FOUND, "file_input_not_found", "File input not found";
    FileInputNotUploaded: CONFLICT, "file_input_not_uploaded", "File input not uploaded";
    FileInputClaimed: CONFLICT, "file_input_claimed", "File input claimed";
    FileInputComplete: CONFLICT, "file_input_complete", "File input complete";
    FileInputIncomplete: CONFLICT, "file_input_incomplete", "File input incomplete";
    FileInputUnsupported: CONFLICT, "file_input_unsupported_for_job_type", "File input unsupported";
    UploadSizeMismatch: BAD_REQUEST, "upload_size_mismatch", "Upload size mismatch";
    UploadChecksumMismatch: BAD_REQUEST, "upload_checksum_mismatch", "Upload checksum mismatch";
    IdempotencyKeyConflict: CONFLICT, "idempotency_key_conflict", "Idempotency key conflict";
    NoPriorRun: CONFLICT, "no_prior_run", "No prior run";
    NoMatchingTasks: CONFLICT, "no_matching_tasks", "No matching tasks";
    PartialRerunWindowExpired: CONFLICT, "partial_rerun_window_expired", "Partial rerun window expired";
    ListNotRead: CONFLICT, "list_not_read", "List not read to its end";
    CandidatePending: CONFLICT, "candidate_pending", "Candidate pending";
    NoCandidate: CONFLICT, "no_candidate", "No candidate";
    JobNotScheduled: CONFLICT, "job_not_scheduled", "Job not scheduled";
    CallbackUrlMustBeHttps: BAD_REQUEST, "callback_url_must_be_https", "Callback URL must be HTTPS";
    CallbackUrlUnresolvable: BAD_REQUEST, "callback_url_unresolvable", "Callback URL unresolvable";
    CallbackAddressNotAllowed: BAD_REQUEST, "callback_address_not_allowed", "Callback address not allowed";
    WebhookSigningRequiresActiveKey: BAD_REQUEST, "webhook_signing_requires_active_key", "Webhook signing requires an active key";
    RateLimited: TOO_MANY_REQUESTS, "rate_limited", "Rate limited";
    TooManyInFlight: TOO_MANY_REQUESTS, "too_many_in_flight", "Too many requests in flight";
    TooManyStreams: TOO_MANY_REQUESTS, "too_many_streams", "Too many event streams";
    TooManyUploads: TOO_MANY_REQUESTS, "too_many_uploads", "Too many uploads";
    TooManyUnknownKeys: TOO_MANY_REQUESTS, "too_many_unknown_keys", "Too many unknown keys";
    TooManyBytes: TOO_MANY_REQUESTS, "too_many_bytes", "Too many bytes under way";
    TooManyAudits: TOO_MANY_REQUESTS, "too_many_audits", "Too many audits";
    Overloaded: SERVICE_UNAVAILABLE, "overloaded", "Overloaded";
}

impl Code {
    /// Refusals that end by themselves: they say when to try again.
    pub const PASSING: [Code; 6] = [
        Code::TooManyInFlight,
        Code::TooManyStreams,
        Code::TooManyUploads,
        Code::TooManyUnknownKeys,
        Code::TooManyBytes,
        Code::TooManyAudits,
    ];
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
