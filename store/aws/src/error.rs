//! What AWS answers, by what the caller does next.

use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use conveyor_store::Error;

/// A call that failed for no reason that the caller expected: what came of it is unknown, or nothing did. The SDK has
/// already tried again.
pub fn unavailable<E, R>(call: &'static str, error: &SdkError<E, R>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    Error::Unavailable(format!("{call}: {}", describe(error)))
}

/// A resource of the backend, by its kind and name, that is not there.
pub fn missing(kind: &str, name: &str) -> Error {
    Error::Missing(format!("the {kind} {name} does not exist; `conveyor provision` creates it"))
}

/// Code and message where there is an answer, the innermost cause where there is none.
fn describe<E, R>(error: &SdkError<E, R>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    if let Some(service) = error.as_service_error() {
        let code = service.code().unwrap_or("unknown");
        return format!("{code}: {}", service.message().unwrap_or("no message"));
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
