//! Which call of which service a request is, by the parts that the SDKs send.

use axum::http::{HeaderMap, Method, Uri};
use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Service {
    #[value(name = "dynamodb")]
    DynamoDb,
    Sqs,
    S3,
}

/// What a call that cannot be told is counted as.
pub const OTHER: &str = "Other";
/// The longest name of an operation.
const NAME_MAX: usize = 64;

impl Service {
    /// The operation by its name in the service's API. S3 is understood with the bucket in the path.
    pub fn operation_of(self, method: &Method, uri: &Uri, headers: &HeaderMap) -> String {
        match self {
            Service::DynamoDb | Service::Sqs => target_of(headers).unwrap_or(OTHER).to_owned(),
            Service::S3 => object_call(method, uri, headers).to_owned(),
        }
    }

    pub fn has_conflicts(self) -> bool {
        matches!(self, Service::DynamoDb)
    }

    pub fn has_batches(self) -> bool {
        matches!(self, Service::DynamoDb | Service::Sqs)
    }
}

/// `DynamoDB_20120810.PutItem`, `AmazonSQS.SendMessageBatch`.
fn target_of(headers: &HeaderMap) -> Option<&str> {
    let (_, name) = headers.get("x-amz-target")?.to_str().ok()?.rsplit_once('.')?;
    let is_name = (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric());
    is_name.then_some(name)
}

fn object_call(method: &Method, uri: &Uri, headers: &HeaderMap) -> &'static str {
    let has_key = uri.path().trim_start_matches('/').split_once('/').is_some_and(|(_, key)| !key.is_empty());
    let asks = |name: &str| {
        let mut names = uri.query().unwrap_or_default().split('&').map(|p| p.split('=').next().unwrap_or(p));
        names.any(|each| each == name)
    };
    let copies = headers.contains_key("x-amz-copy-source");
    match (method.as_str(), has_key) {
        ("PUT", true) if asks("partNumber") && copies => "UploadPartCopy",
        ("PUT", true) if asks("partNumber") => "UploadPart",
        ("PUT", true) if copies => "CopyObject",
        ("PUT", true) => "PutObject",
        ("POST", true) if asks("uploads") => "CreateMultipartUpload",
        ("POST", true) if asks("uploadId") => "CompleteMultipartUpload",
        ("DELETE", true) if asks("uploadId") => "AbortMultipartUpload",
        ("DELETE", true) => "DeleteObject",
        ("GET", true) if asks("uploadId") => "ListParts",
        ("GET", true) => "GetObject",
        ("HEAD", true) => "HeadObject",
        ("PUT", false) if uri.query().is_none() => "CreateBucket",
        ("POST", false) if asks("delete") => "DeleteObjects",
        ("GET", false) if asks("uploads") => "ListMultipartUploads",
        ("GET", false) if asks("list-type") => "ListObjectsV2",
        ("HEAD", false) => "HeadBucket",
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(service: Service, method: &str, uri: &str, headers: &[(&'static str, &str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        service.operation_of(&method.parse().unwrap(), &uri.parse().unwrap(), &map)
    }

    #[test]
    fn targets_name_the_calls_of_json_services() {
        let target = |value| of(Service::DynamoDb, "POST", "/", &[("x-amz-target", value)]);
        assert_eq!(target("DynamoDB_20120810.TransactWriteItems"), "TransactWriteItems");
        assert_eq!(target("AmazonSQS.SendMessageBatch"), "SendMessageBatch");
        assert_eq!(target("nothing"), OTHER);
        assert_eq!(target("A.b/c"), OTHER);
        assert_eq!(target(&format!("A.{}", "x".repeat(NAME_MAX + 1))), OTHER);
        assert_eq!(of(Service::Sqs, "POST", "/", &[]), OTHER);
    }

    #[test]
    fn method_path_and_query_name_the_calls_of_s3() {
        let copy = [("x-amz-copy-source", "b/k")];
        let calls = [
            ("PUT", "/b/k/l?x-id=PutObject", "PutObject"),
            ("PUT", "/b/k?partNumber=1&uploadId=u", "UploadPart"),
            ("POST", "/b/k?uploads", "CreateMultipartUpload"),
            ("POST", "/b/k?uploadId=u", "CompleteMultipartUpload"),
            ("DELETE", "/b/k?uploadId=u", "AbortMultipartUpload"),
            ("DELETE", "/b/k", "DeleteObject"),
            ("GET", "/b/k?uploadId=u", "ListParts"),
            ("GET", "/b/k", "GetObject"),
            ("HEAD", "/b/k", "HeadObject"),
            ("PUT", "/b", "CreateBucket"),
            ("PUT", "/b/?lifecycle", OTHER),
            ("POST", "/b?delete", "DeleteObjects"),
            ("GET", "/b?list-type=2&prefix=uploads", "ListObjectsV2"),
            ("GET", "/b/?uploads", "ListMultipartUploads"),
            ("HEAD", "/b", "HeadBucket"),
        ];
        for (method, uri, name) in calls {
            assert_eq!(of(Service::S3, method, uri, &[]), name, "{method} {uri}");
        }
        assert_eq!(of(Service::S3, "PUT", "/b/k", &copy), "CopyObject");
        assert_eq!(of(Service::S3, "PUT", "/b/k?partNumber=1&uploadId=u", &copy), "UploadPartCopy");
    }
}
