//! From the bytes of a record to its row; `None` for a line that is no record.

use crate::csv::{Cells, Columns};
use crate::record::Row;
use conveyor_domain::job::task_input::{Invalid, Reason};
use serde_json::Value;

pub(crate) type RowResult = Result<Row, Invalid>;

/// A URL a line; `#` begins a comment.
pub(crate) fn of_line(line: &[u8]) -> Option<RowResult> {
    // Before anything is said about its bytes: a comment may be in whatever encoding.
    if line.trim_ascii_start().starts_with(b"#") {
        return None;
    }
    let url = match text_of(line) {
        Ok(text) => text.trim(),
        Err(invalid) => return Some(Err(invalid)),
    };
    if url.is_empty() || url.starts_with('#') {
        return None;
    }
    Some(Ok(Row::Url { url: url.to_owned(), external_id: None }))
}

/// A task object a line. Which fields it may have is for [`Row::check`].
pub(crate) fn of_json_line(line: &[u8]) -> Option<RowResult> {
    let line = line.trim_ascii();
    // What cannot be read is described, not repeated: nobody can say which part of it is a secret.
    let malformed = |why: String| Some(Err(Invalid::new(Reason::MalformedTask, &why)));
    if line.is_empty() {
        return None;
    }
    let text = match str::from_utf8(line) {
        Ok(text) => text,
        Err(e) => return malformed(format!("not UTF-8 at column {}", e.valid_up_to() + 1)),
    };
    match serde_json::from_str::<Value>(text) {
        Ok(value) if value.is_object() => Some(Ok(Row::Json(value))),
        Ok(value) => malformed(value.to_string()),
        Err(e) => malformed(not_json(&e)),
    }
}

fn not_json(error: &serde_json::Error) -> String {
    // The parser saw one line and says "at line 1"; the line that helps is that of the list.
    let text = error.to_string();
    let reason = text.split_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    format!("not JSON: {reason} at column {}", error.column())
}

/// Only the cells of the task count. Whatever is in the other columns is not ours to judge.
pub(crate) fn of_cells(cells: Cells<'_>, columns: Columns) -> RowResult {
    let cell = |column| text_of(cells.get(column).unwrap_or_default()).map(str::trim);
    let url = cell(columns.url)?;
    if url.is_empty() {
        return Err(Invalid::new(Reason::MalformedUrl, ""));
    }
    let external_id = match columns.external_id {
        None => "",
        Some(column) => cell(column)?,
    };
    Ok(Row::Url {
        url: url.to_owned(),
        external_id: (!external_id.is_empty()).then(|| external_id.to_owned()),
    })
}

/// Text has no NUL: whatever holds one is of another encoding, or no text at all.
fn text_of(bytes: &[u8]) -> Result<&str, Invalid> {
    match str::from_utf8(bytes) {
        Ok(text) if memchr::memchr(0, bytes).is_none() => Ok(text),
        Ok(_) | Err(_) => Err(Invalid::new(Reason::MalformedTask, &without_credentials(bytes))),
    }
}

/// What was meant as a URL may hold a password before its `@`, or a token in its query.
fn without_credentials(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.trim_ascii());
    let (path, query) = text.split_once('?').map_or((&*text, ""), |(path, _)| (path, "?…"));
    match path.rfind('@') {
        Some(at) => format!("…{}{query}", &path[at..]),
        None => format!("{path}{query}"),
    }
}
