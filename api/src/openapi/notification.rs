//! What is sent to others: the end of a run, to the webhook of its job (SPEC 6.21).

use super::parameters::header;
use super::schemas::Schemas;
use conveyor_domain::WebhookEvent;
use serde_json::{Value, json};

const EVENT: &str = "01KCX5W7A9B1C3D5E7F9G1H3J5";
const KEY: &str = "01KCX5X9C1D3E5F7G9H1J3K5M7";

/// The section `webhooks` of the document.
pub(super) fn section(schemas: &mut Schemas) -> Value {
    json!({"runEnded": {"post": {
        "operationId": "runEnded",
        "summary": "The end of a run",
        "description": DESCRIPTION,
        "tags": ["Notifications"],
        "security": [],
        "parameters": headers(),
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": schemas.answer::<WebhookEvent<'_>>()}},
        },
        "responses": {
            "2XX": {"description": "It is delivered. The body does not matter."},
            "3XX": {"description": "A failure like any other: redirects are never followed. It is tried again."},
            "410": {"description": "Nothing more is wanted: the delivery has failed, and the webhook is disabled until it is set anew."},
            "default": {"description": "It is tried again, as it is without an answer within 10 seconds."},
        },
    }}})
}

const DESCRIPTION: &str = "\
Sent to the `webhook` of a job when a run of it has completed or failed, and once by `POST /v1/webhook/test`. A run that \
somebody stopped or deleted is told to nobody but a waiting state machine.\n\n\
What is not taken is tried again after 5 s, 30 s, 2, 10, 30 min, 1, 2, 4, 8 h, and then every 12 h, each a fifth more or \
less, for 3 days. It may arrive more than once: every attempt has the same event id and the same body, to the byte.\n\n\
To verify a signed one: take `t` from `X-Signature`, make the HMAC-SHA256 of `t`, a dot and the body as it came, with the \
secret of the key `kid` (the bytes that its base64 stands for), and compare it with `v1`. Or leave it to any library for \
Standard Webhooks, with `whsec_` in front of the secret. Refuse what is too old.";

fn headers() -> Vec<Value> {
    let text = |pattern: &str| json!({"type": "string", "pattern": pattern});
    let id = text("^[0-7][0-9A-HJKMNP-TV-Z]{25}$");
    let always = |mut header: Value| {
        header["required"] = true.into();
        header
    };
    vec![
        always(header(
            "X-ZenRows-Event-Id",
            id.clone(),
            "The event: the same for every attempt.",
            EVENT.into(),
        )),
        always(header("webhook-id", id, "The same, as Standard Webhooks calls it.", EVENT.into())),
        always(header(
            "webhook-timestamp",
            text("^[0-9]+$"),
            "When this attempt was made, in seconds since 1970.",
            "1767225605".into(),
        )),
        header(
            "X-Signature",
            text("^t=[0-9]+,v1=[0-9a-f]{64},kid=[0-9A-Z]{26}$"),
            "Of a webhook with `signature`: when it was signed, an HMAC-SHA256 of `<t>.<body>` in hex, and the key.",
            format!("t=1767225605,v1={},kid={KEY}", "5f2b9c1e".repeat(8)).into(),
        ),
        header(
            "webhook-signature",
            text("^v1,[A-Za-z0-9+/]{43}=$"),
            "Of a webhook with `signature`: an HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` in base64, with the \
             same key.",
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".into(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::delivery::signing_keys::{event_headers, signature_headers};
    use conveyor_domain::{Entropy, EventId, KeyId, SigningSecret, Timestamp};
    use std::collections::BTreeSet;

    /// What the deliverer sends is what is described.
    #[test]
    fn the_headers_are_those_that_are_sent() {
        let (event, kid) = (EventId::from_bytes([1; 16]), KeyId::from_bytes([2; 16]));
        let now = Timestamp(1_767_225_605_000);
        let secret = SigningSecret::new(&Entropy::from_number(3));
        let mut sent = event_headers(event, now);
        let always = sent.len();
        sent.extend(signature_headers(&secret, kid, event, now, "{}"));
        let described = headers();
        let named = |header: &Value| header["name"].as_str().unwrap().to_ascii_lowercase();
        let names: BTreeSet<String> = described.iter().map(named).collect();
        assert_eq!(names, sent.iter().map(|(name, _)| (*name).to_owned()).collect());
        for (n, (name, value)) in sent.iter().enumerate() {
            let header = described.iter().find(|header| named(header) == *name).unwrap();
            assert_eq!(header["required"] == true, n < always, "{name}");
            let validator = jsonschema::validator_for(&header["schema"]).unwrap();
            assert!(validator.is_valid(&json!(value)), "{name}: {value}");
            assert!(validator.is_valid(&header["example"]), "{name}: {}", header["example"]);
        }
    }
}
