//! Localstack checks presigned URLs, which takes a setting.

use crate::http::{address, s3, send};
use conveyor_aws_servers::{Environment, Kind, shared};
use hmac::{Hmac, KeyInit, Mac};
use jiff::{Timestamp, ToSpan};
use sha2::{Digest, Sha256};

const BUCKET: &str = "/presigned";
const LIFETIME_S: u32 = 60;

#[test]
fn localstack_serves_only_what_was_signed() {
    let url = shared::url(Kind::LocalStack).unwrap();
    s3(&url, "PUT", BUCKET, "");
    let now = now();
    let status = |method: &str, path: &str, query: &str| {
        send(&url, method, &format!("{path}?{query}"), &[], if method == "PUT" { "hello" } else { "" }).status
    };
    let object = format!("{BUCKET}/object");
    let put = sign(&url, "PUT", &object, now);
    assert_eq!(status("PUT", &object, &put), 200);
    let get = sign(&url, "GET", &object, now);
    assert_eq!(status("GET", &object, &get), 200);
    assert_eq!(status("GET", &format!("{BUCKET}/other"), &get), 403, "another object");
    assert_eq!(status("PUT", &object, &get), 403, "another method");
    assert_eq!(status("GET", &object, &get.replace("Signature=", "Signature=0")), 403, "another signature");
    let old = sign(&url, "GET", &object, now - 1.hour());
    assert_eq!(status("GET", &object, &old), 403, "out of date");
}

#[expect(clippy::disallowed_methods, reason = "the server compares with the wall clock")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// The query of a URL that is valid for a while (AWS Signature Version 4).
fn sign(url: &str, method: &str, path: &str, at: Timestamp) -> String {
    let time = at.strftime("%Y%m%dT%H%M%SZ").to_string();
    let (date, region) = (&time[..8], Environment::REGION);
    let scope = format!("{date}/{region}/s3/aws4_request");
    let query = format!(
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}%2F{}&X-Amz-Date={time}&X-Amz-Expires={LIFETIME_S}\
         &X-Amz-SignedHeaders=host",
        Environment::ACCESS_KEY_ID,
        scope.replace('/', "%2F"),
    );
    let request = format!("{method}\n{path}\n{query}\nhost:{}\n\nhost\nUNSIGNED-PAYLOAD", address(url));
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(request)));
    let secret = format!("AWS4{}", Environment::SECRET_ACCESS_KEY).into_bytes();
    let key = [date, region, "s3", "aws4_request"].iter().fold(secret, |key, part| mac(&key, part));
    format!("{query}&X-Amz-Signature={}", hex(&mac(&key, &text)))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
