//! What S3 answers where something else was asked for. By status where that says enough: a HEAD has no body to say more.

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

/// The object is not there. That the bucket is not there is another matter.
pub fn is_missing<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    status(error) == Some(404) && code(error) != Some("NoSuchBucket")
}

pub fn is_forbidden<E>(error: &SdkError<E>) -> bool {
    status(error) == Some(403)
}

/// The object is another one than the call named.
pub fn is_changed<E>(error: &SdkError<E>) -> bool {
    status(error) == Some(412)
}

/// The object ends before what was asked for begins.
pub fn is_past_the_end<E>(error: &SdkError<E>) -> bool {
    status(error) == Some(416)
}

/// The upload in parts was completed or aborted.
pub fn is_no_upload<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    code(error) == Some("NoSuchUpload")
}

pub fn code<E: ProvideErrorMetadata>(error: &SdkError<E>) -> Option<&str> {
    error.as_service_error().and_then(ProvideErrorMetadata::code)
}

fn status<E>(error: &SdkError<E>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}
