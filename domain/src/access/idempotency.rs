//! Requests that may be repeated under a key of their caller's (SPEC 6.23): what is kept of one, and what a repeat finds.

use crate::job::record::Expected;
use crate::{CallerId, Record, RecordKey, RecordKind, Timestamp, Unreadable, limits};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// What a request asked for: two with the same one are the same request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint(String);

/// A fingerprint that is being taken, as the body passes by.
#[derive(Clone, Debug)]
pub struct Fingerprinting(Sha256);

impl Fingerprinting {
    pub fn of(method: &str, path: &str, query: &str) -> Fingerprinting {
        // None of the three has a line end in it, so that nothing moves from one to the other unnoticed.
        Fingerprinting(Sha256::new_with_prefix(format!("{method}\n{path}\n{query}\n")))
    }

    pub fn pass(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn taken(self) -> Fingerprint {
        Fingerprint(hex(&self.0.finalize()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Where a key of a caller is kept; `None` if it is not one: 1 to 255 printable characters of ASCII.
pub fn record_key(caller: CallerId, key: &[u8]) -> Option<RecordKey> {
    let fits = (1..=limits::IDEMPOTENCY_KEY_MAX).contains(&key.len());
    let printable = key.iter().all(|b| (b' '..=b'~').contains(b));
    let digest = hex(&Sha256::digest(key)[..16]);
    (fits && printable).then(|| RecordKey::new(RecordKind::Idempotency, caller, digest))
}

/// The document of a key. Stored means frozen: a field that is added needs a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Kept {
    /// Somebody carries it out, until then: whoever comes later takes it over.
    Running {
        fingerprint: Fingerprint,
        until: Timestamp,
    },
    Done(Answered),
}

/// A request that was carried out, and what was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    pub fingerprint: Fingerprint,
    pub status: u16,
    /// `None` if it was too long to be kept.
    pub body: Option<String>,
    pub location: Option<String>,
}

impl Kept {
    pub fn running(fingerprint: Fingerprint, now: Timestamp) -> Kept {
        Kept::Running { fingerprint, until: now.after(limits::IDEMPOTENCY_LEASE) }
    }

    pub fn done(fingerprint: Fingerprint, status: u16, body: String, location: Option<String>) -> Kept {
        let body = (body.len() <= limits::IDEMPOTENCY_BODY_MAX_BYTES).then_some(body);
        Kept::Done(Answered { fingerprint, status, body, location })
    }
}

/// What a request finds under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It may be claimed, over this.
    Free(Expected),
    /// It was carried out.
    Answered(Answered),
    /// It is being carried out.
    Running,
    /// The key is that of another request.
    Another,
}

/// Decides what a record means for a request.
pub fn see(record: Option<&Record>, ours: &Fingerprint, now: Timestamp) -> Result<Seen, Unreadable> {
    let Some(record) = record else { return Ok(Seen::Free(Expected::Absent)) };
    if record.is_over(now) {
        return Ok(Seen::Free(Expected::Version(record.version)));
    }
    Ok(match record.parse()? {
        Kept::Running { fingerprint, .. } if fingerprint != *ours => Seen::Another,
        Kept::Done(Answered { fingerprint, .. }) if fingerprint != *ours => Seen::Another,
        // What it was claimed for was not done, and cannot be done any more once the record is another.
        Kept::Running { until, .. } if until <= now => Seen::Free(Expected::Version(record.version)),
        Kept::Running { .. } => Seen::Running,
        Kept::Done(answered) => Seen::Answered(answered),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordVersion;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn caller() -> CallerId {
        CallerId::from_bytes([1; 16])
    }

    fn taken(method: &str, path: &str, query: &str, body: &[&str]) -> Fingerprint {
        let mut taking = Fingerprinting::of(method, path, query);
        body.iter().for_each(|piece| taking.pass(piece.as_bytes()));
        taking.taken()
    }

    fn ours() -> Fingerprint {
        taken("POST", "/v1/jobs", "", &["{}"])
    }

    fn record(kept: &Kept) -> Record {
        let key = record_key(caller(), b"a").unwrap();
        let expires = NOW.after(limits::IDEMPOTENCY_TTL);
        Record::new(key, RecordVersion::from_stored(7), kept).expires(Some(expires))
    }

    fn seen(record: &Record, now: Timestamp) -> Seen {
        see(Some(record), &ours(), now).unwrap()
    }

    #[test]
    fn a_fingerprint_is_of_all_of_a_request_however_it_arrives() {
        assert_eq!(ours(), taken("POST", "/v1/jobs", "", &["{", "", "}"]));
        for (method, path, query, body) in [
            ("PUT", "/v1/jobs", "", "{}"),
            ("POST", "/v1/job", "s", "{}"),
            ("POST", "/v1/jobs", "a=b", "{}"),
            ("POST", "/v1/jobs", "", "{ }"),
        ] {
            assert_ne!(ours(), taken(method, path, query, &[body]), "{method} {path} {query} {body}");
        }
    }

    #[test]
    fn a_key_is_printable_and_its_callers_own() {
        let other = CallerId::from_bytes([2; 16]);
        let longest = [b'x'; limits::IDEMPOTENCY_KEY_MAX];
        for good in [&b"a"[..], b"0f8fad5b d9cb", b"~", &longest] {
            assert!(record_key(caller(), good).is_some());
            assert_ne!(record_key(caller(), good), record_key(other, good));
        }
        assert_ne!(record_key(caller(), b"a"), record_key(caller(), b"A"));
        for bad in [&b""[..], b"a\tb", b"\x7f", "ü".as_bytes(), &[b'x'; 256]] {
            assert_eq!(record_key(caller(), bad), None);
        }
    }

    #[test]
    fn a_claim_holds_for_its_lease_and_is_then_free_for_the_same_request() {
        let running = record(&Kept::running(ours(), NOW));
        let lapsed = NOW.after(limits::IDEMPOTENCY_LEASE);
        assert_eq!(see(None, &ours(), NOW), Ok(Seen::Free(Expected::Absent)));
        assert_eq!(seen(&running, NOW), Seen::Running);
        assert_eq!(seen(&running, Timestamp(lapsed.0 - 1)), Seen::Running);
        assert_eq!(seen(&running, lapsed), Seen::Free(Expected::Version(running.version)));
        let other = taken("POST", "/v1/jobs", "", &["[]"]);
        assert_eq!(see(Some(&running), &other, lapsed), Ok(Seen::Another));
    }

    #[test]
    fn an_answer_is_given_again_for_a_day() {
        let done = record(&Kept::done(ours(), 201, "{}".to_owned(), Some("/v1/jobs/1".to_owned())));
        let Seen::Answered(answered) = seen(&done, NOW) else { panic!("not answered") };
        assert_eq!((answered.status, answered.body.as_deref()), (201, Some("{}")));
        let other = taken("POST", "/v1/jobs", "", &["[]"]);
        assert_eq!(see(Some(&done), &other, NOW), Ok(Seen::Another));
        let over = NOW.after(limits::IDEMPOTENCY_TTL);
        assert_eq!(see(Some(&done), &other, over), Ok(Seen::Free(Expected::Version(done.version))));
    }

    #[test]
    fn an_answer_that_is_too_long_is_not_kept() {
        let body = |length| match Kept::done(ours(), 200, "x".repeat(length), None) {
            Kept::Done(answered) => answered.body,
            Kept::Running { .. } => panic!("not done"),
        };
        assert!(body(limits::IDEMPOTENCY_BODY_MAX_BYTES).is_some());
        assert!(body(limits::IDEMPOTENCY_BODY_MAX_BYTES + 1).is_none());
    }

    #[test]
    fn what_was_stored_reads() {
        let running = r#"{"state":"running","fingerprint":"ab","until":5}"#;
        let done = r#"{"state":"done","fingerprint":"ab","status":201,"body":"{}","location":null}"#;
        let of = |doc: &str| Record { doc: doc.to_owned(), ..record(&Kept::running(ours(), NOW)) };
        assert!(matches!(of(running).parse().unwrap(), Kept::Running { until: Timestamp(5), .. }));
        assert!(matches!(of(done).parse().unwrap(), Kept::Done(Answered { status: 201, .. })));
        assert!(see(Some(&of("{}")), &ours(), NOW).is_err());
    }
}
