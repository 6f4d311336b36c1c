//! What a list is made of.

use conveyor_domain::job::task_input::Invalid;
use conveyor_domain::{
    HeaderSeal, Metadata, Method, Params, TaskInput, TaskRules, UploadId, params, task_input,
};
use serde_json::Value;

/// A record of the list, good or bad, with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// How many records, good and bad, are before it.
    pub index: u32,
    /// The number of its first line, from 1.
    pub line: u64,
    /// Where it begins, in bytes of the expanded list.
    pub offset: u64,
    pub row: Result<Row, Invalid>,
}

/// A record that can be read; whether it is a task is for [`Row::check`] to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// Of a CSV, or of plain lines. Trimmed and never empty.
    Url { url: String, external_id: Option<String> },
    /// Of JSON Lines. Always an object.
    Json(Value),
}

impl Row {
    /// The same with its headers open, if they were sealed for that list.
    #[must_use]
    pub fn opened(mut self, headers: &HeaderSeal, of: &UploadId) -> Row {
        match &mut self {
            Row::Json(task) => headers.open_task(of, task),
            Row::Url { .. } => {}
        }
        self
    }

    /// Fields that mean nothing. Other columns of a CSV are not among them: a list may have more than its task.
    pub fn unknown_fields(&self) -> Vec<String> {
        match self {
            Row::Json(task) => task_input::unknown_fields(task).map(str::to_owned).collect(),
            Row::Url { .. } => Vec::new(),
        }
    }

    /// The task that this row is, by the checks of an inline submit and with their reasons.
    pub fn check(self, job: &Params, rules: TaskRules) -> Result<TaskInput, Invalid> {
        match self {
            Row::Json(value) => TaskInput::from_json(&value, job, rules),
            Row::Url { url, external_id } => {
                task_input::check_url(&url)?;
                if let Some(id) = &external_id {
                    task_input::check_external_id(id)?;
                }
                params::check_merged(job, false)?;
                Ok(TaskInput {
                    url,
                    external_id,
                    metadata: Metadata::new(),
                    params: Params::new(),
                    method: Method::Get,
                    body: None,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::ParamPolicy;
    use serde_json::json;

    #[test]
    fn a_url_row_is_checked_like_the_same_task_in_json() {
        let long = "x".repeat(3_000);
        let urls = ["https://a.example/x", "ftp://a.example", "a.example", "http://", &long, "https://a b"];
        let ids = [None, Some("id-1"), Some("no good"), Some(&long[..])];
        let auto = Params::from([("mode".into(), "auto".into()), ("js_render".into(), "true".into())]);
        for (url, id) in urls.iter().flat_map(|url| ids.map(|id| (*url, id))) {
            for job in [&Params::new(), &auto] {
                let row = Row::Url { url: url.to_owned(), external_id: id.map(str::to_owned) };
                let mut task = json!({ "url": url });
                if let Some(id) = id {
                    task["external_id"] = id.into();
                }
                let rules = TaskRules::strict(ParamPolicy::ZenRows);
                let json = Row::Json(task).check(job, rules);
                assert_eq!(row.check(job, rules), json, "{url} {id:?}");
            }
        }
    }
}
