//! What SQS says, in either spelling: some of its errors have a name from before it spoke JSON, which is sent beside the other
//! one, and the SDK knows only that.

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};

fn code<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> Option<&str> {
    let code = error.as_service_error()?.code()?;
    Some(code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code))
}

/// The queue is not there.
pub fn is_missing<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> bool {
    matches!(code(error), Some("QueueDoesNotExist" | "NonExistentQueue"))
}

/// The queue is there, with other attributes.
pub fn is_taken<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> bool {
    matches!(code(error), Some("QueueNameExists" | "QueueAlreadyExists"))
}

/// As many messages are in flight as may be.
pub fn is_over_limit<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> bool {
    matches!(code(error), Some("OverLimit"))
}
