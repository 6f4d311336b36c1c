//! The list of a run on its way to becoming tasks.

use super::document::Ingest;
use super::failure::Failure;
use super::http::Api;
use super::print::Output;

/// How far the list of a run is; `None` for a run without one.
pub async fn find(api: &Api, job: &str, run: &str) -> Result<Option<Ingest>, Failure> {
    let found = api.find(api.url(&["jobs", job, "runs", run, "ingest"])).await?;
    Ok(found.map(|answer| answer.document))
}

/// Rows that were not taken are easily overlooked.
pub fn remark_rejected(ingest: Option<&Ingest>, job: &str, output: Output) {
    let rejected = match ingest.map_or(0, |ingest| ingest.rows_rejected) {
        0 => return,
        1 => "1 row was".to_owned(),
        rows => format!("{rows} rows were"),
    };
    output.remark(&format!("{rejected} rejected; `conveyor rejected {job}` shows them"));
}

impl Ingest {
    /// How many bytes of the list were read, of how many. Of a compressed list that is not known: what was read is
    /// counted in expanded bytes.
    pub fn share(&self) -> Option<(u64, u64)> {
        match (self.size_bytes, self.compression.as_deref()) {
            (Some(size), Some("none")) if size > 0 => Some((self.bytes_read.min(size), size)),
            (Some(_) | None, Some(_) | None) => None,
        }
    }

    /// `4990 rows, 10 rejected`
    pub fn rows(&self) -> String {
        match self.rows_rejected {
            0 => format!("{} rows", self.rows_accepted),
            rejected => format!("{} rows, {rejected} rejected", self.rows_accepted),
        }
    }

    /// Why it does not go on, if it does not.
    pub fn trouble(&self) -> Option<String> {
        if let Some(error) = &self.error {
            let line = error.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let detail = error.detail.as_deref().unwrap_or_default();
            return Some(format!("{line}{detail} ({})", error.code));
        }
        self.last_error.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_plain_list_has_a_share() {
        let ingest =
            |compression| Ingest { bytes_read: 50, size_bytes: Some(100), compression, ..Ingest::default() };
        assert_eq!(ingest(Some("none".to_owned())).share(), Some((50, 100)));
        assert_eq!(ingest(Some("gzip".to_owned())).share(), None);
        assert_eq!(ingest(None).share(), None);
    }

    #[test]
    fn trouble_is_said_with_its_line() {
        let error = json!({"code": "line_too_long", "detail": "longer than 5 bytes", "line": 3});
        let ingest: Ingest = serde_json::from_value(json!({"state": "failed", "error": error})).unwrap();
        assert_eq!(ingest.trouble().unwrap(), "line 3: longer than 5 bytes (line_too_long)");
        let waiting: Ingest =
            serde_json::from_value(json!({"state": "waiting", "last_error": "the store does not answer"}))
                .unwrap();
        assert_eq!(waiting.trouble().unwrap(), "the store does not answer");
        assert_eq!(Ingest::default().trouble(), None);
    }
}
