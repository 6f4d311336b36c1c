//! The list of a run on its way to becoming tasks.

use super::failure::Failure;
use super::print::Output;
use conveyor_client::Client;
use conveyor_client::wire::Ingest;
use conveyor_domain::{Compression, JobId, RunId};

/// How far the list of a run is; `None` for a run without one.
pub async fn find(api: &Client, job: JobId, run: RunId) -> Result<Option<Ingest>, Failure> {
    Ok(api.ingest(job, run).find().await?.map(|answer| answer.document))
}

/// Rows that were not taken are easily overlooked.
pub fn remark_rejected(ingest: Option<&Ingest>, job: JobId, output: Output) {
    let rejected = match ingest.map_or(0, |ingest| ingest.rows_rejected) {
        0 => return,
        1 => "1 row was".to_owned(),
        rows => format!("{rows} rows were"),
    };
    output.remark(&format!("{rejected} rejected; `conveyor rejected {job}` shows them"));
}

/// How many bytes of the list were read, of how many. Of a compressed list that is not known: what was read is counted in
/// expanded bytes.
pub fn share(ingest: &Ingest) -> Option<(u64, u64)> {
    let size = ingest.size_bytes.filter(|size| *size > 0)?;
    let is_plain = *ingest.compression.as_ref()? == Compression::None;
    is_plain.then(|| (ingest.bytes_read.min(size), size))
}

/// `4990 rows, 10 rejected`
pub fn rows(ingest: &Ingest) -> String {
    match ingest.rows_rejected {
        0 => format!("{} rows", ingest.rows_accepted),
        rejected => format!("{} rows, {rejected} rejected", ingest.rows_accepted),
    }
}

/// Why it does not go on, if it does not.
pub fn trouble(ingest: &Ingest) -> Option<String> {
    if let Some(error) = &ingest.error {
        let line = error.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        return Some(format!("{line}{} ({})", error.detail, error.code));
    }
    ingest.last_error.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::ingest;
    use serde_json::{Value, json};

    fn read(fields: Value) -> Ingest {
        serde_json::from_value(ingest(fields)).unwrap()
    }

    #[test]
    fn only_a_plain_list_has_a_share() {
        let share = |compression: Option<&str>| {
            share(&read(json!({"bytes_read": 50, "size_bytes": 100, "compression": compression})))
        };
        assert_eq!(share(Some("none")), Some((50, 100)));
        assert_eq!(share(Some("gzip")), None);
        assert_eq!(share(None), None);
    }

    #[test]
    fn trouble_is_said_with_its_line() {
        let error = json!({"code": "line_too_long", "detail": "longer than 5 bytes", "line": 3});
        let failed = read(json!({"state": "failed", "error": error}));
        assert_eq!(trouble(&failed).unwrap(), "line 3: longer than 5 bytes (line_too_long)");
        let waiting = read(json!({"last_error": "the store does not answer"}));
        assert_eq!(trouble(&waiting).unwrap(), "the store does not answer");
        assert_eq!(trouble(&read(json!({}))), None);
    }
}
