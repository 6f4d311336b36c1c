//! Gathering the tasks of a submit, in the order in which they were named.

use super::super::failure::{Failure, InvalidTask};
use super::tell::{Told, format_name};
use super::{Input, open};
use conveyor_client::read_head;
use conveyor_domain::job::task_input::check_url;
use conveyor_domain::limits;
use conveyor_lists::{ExpandLimits, ListError, ListReader, Record, Row, SNIFF_BYTES, expand};
use serde_json::{Value, json};
use std::io::Cursor;
use tokio::io::{self, AsyncBufRead, AsyncReadExt, BufReader};

/// The tasks of one submit, and where each came from.
#[derive(Debug, Default)]
pub struct List {
    pub tasks: Vec<Value>,
    places: Vec<Place>,
    inputs: Vec<String>,
    bad_rows: Vec<InvalidTask>,
    /// How each file was read, for the user to notice if it was guessed wrong.
    pub remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    input: usize,
    /// Of a file; a URL on the command line has none.
    line: Option<u64>,
}

/// More rows than one submit takes.
#[derive(Debug)]
struct Full;

impl List {
    /// Reads every input to its end, or to the limit of one submit.
    pub async fn read(inputs: &[String], told: Told) -> Result<List, Failure> {
        let mut list = List::default();
        for argument in inputs {
            let input = Input::of(argument);
            list.inputs.push(input.name().to_owned());
            let added = match input {
                Input::Url(url) => list.add_url(url)?,
                Input::Stdin => list.add_list(BufReader::new(io::stdin()), told).await?,
                Input::File(path) => list.add_list(BufReader::new(open(path).await?), told).await?,
            };
            added.map_err(|Full| Failure::too_many_tasks())?;
        }
        list.checked()
    }

    /// The one list of a submit, which is all in memory; `None` if it has too many rows to be sent like this.
    pub async fn of_bytes(name: &str, bytes: &[u8], told: Told) -> Result<Option<List>, Failure> {
        let mut list = List { inputs: vec![name.to_owned()], ..List::default() };
        match list.add_list(Cursor::new(bytes.to_vec()), told).await? {
            Ok(()) => list.checked().map(Some),
            Err(Full) => Ok(None),
        }
    }

    fn checked(self) -> Result<List, Failure> {
        if !self.bad_rows.is_empty() {
            return Err(Failure::bad_rows(&self.bad_rows));
        }
        if self.tasks.is_empty() {
            return Err(Failure::usage("the list is empty: it has no rows"));
        }
        Ok(self)
    }

    /// Where the user finds the task with this index.
    pub fn place(&self, index: usize) -> Option<String> {
        self.places.get(index).map(|place| self.name(*place))
    }

    fn name(&self, place: Place) -> String {
        match place.line {
            Some(line) => format!("{}:{line}", self.inputs[place.input]),
            None => format!("argument {}", place.input + 1),
        }
    }

    fn add_url(&mut self, url: &str) -> Result<Result<(), Full>, Failure> {
        check_url(url)
            .map_err(|e| Failure::usage(format!("{} is no URL to fetch: {}", e.value, e.reason.as_str())))?;
        Ok(self.add(None, json!({ "url": url })))
    }

    /// Reads a list, compressed or not, to its end, or until there is no room.
    async fn add_list<R>(&mut self, reader: R, told: Told) -> Result<Result<(), Full>, Failure>
    where
        R: AsyncBufRead + Unpin + Send + 'static,
    {
        let name = self.inputs[self.inputs.len() - 1].clone();
        let unreadable = |e: ListError| Failure::unreadable(&name, e);
        let mut expanded = expand(reader, ExpandLimits::default()).await.map_err(unreadable)?;
        let head = read_head(&mut expanded, SNIFF_BYTES).await.map_err(|e| unreadable(e.into()))?;
        let spec = told.spec(&head).await;
        let before = self.tasks.len();
        let bytes = Cursor::new(head).chain(expanded);
        let mut rows = match ListReader::open(bytes, &spec).await {
            Ok(rows) => rows,
            Err(error) => return self.end(error),
        };
        loop {
            let added = match rows.next().await {
                Ok(None) => break,
                Ok(Some(Record { line, row: Ok(row), .. })) => self.add(Some(line), task_of(row)),
                Ok(Some(Record { line, row: Err(invalid), .. })) => {
                    self.add_bad_row(line, invalid.reason.as_str(), invalid.value)
                }
                Err(error) => return self.end(error),
            };
            if let Err(full) = added {
                return Ok(Err(full));
            }
        }
        self.remarks.push(format!(
            "{name}: {} rows, read as {}",
            self.tasks.len() - before,
            format_name(&spec)
        ));
        Ok(Ok(()))
    }

    /// The list cannot be followed any further: at a line that the user can look at, or at all.
    fn end(&mut self, error: ListError) -> Result<Result<(), Full>, Failure> {
        match error {
            ListError::Fault { fault, line: Some(line), detail } => {
                Ok(self.add_bad_row(line, fault.as_str(), detail))
            }
            error => Err(Failure::unreadable(&self.inputs[self.inputs.len() - 1], error)),
        }
    }

    fn add(&mut self, line: Option<u64>, task: Value) -> Result<(), Full> {
        self.check_room()?;
        self.tasks.push(task);
        self.places.push(Place { input: self.inputs.len() - 1, line });
        Ok(())
    }

    fn add_bad_row(&mut self, line: u64, reason: &str, value: String) -> Result<(), Full> {
        self.check_room()?;
        let place = self.name(Place { input: self.inputs.len() - 1, line: Some(line) });
        let value = Some(value).filter(|value| !value.is_empty());
        self.bad_rows.push(InvalidTask {
            index: None,
            line: None,
            reason: reason.to_owned(),
            value,
            place: Some(place),
        });
        Ok(())
    }

    /// As soon as the list is known to be too long, nothing more is read.
    fn check_room(&self) -> Result<(), Full> {
        if self.tasks.len() + self.bad_rows.len() >= limits::INLINE_TASKS_MAX {
            return Err(Full);
        }
        Ok(())
    }
}

fn task_of(row: Row) -> Value {
    match row {
        Row::Json(task) => task,
        Row::Url { url, external_id: None } => json!({ "url": url }),
        Row::Url { url, external_id } => json!({ "url": url, "external_id": external_id }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::args::ListFormat;
    use std::path::Path;

    const AUTO: Told = Told { format: ListFormat::Auto, delimiter: None };

    fn write(directory: &Path, name: &str, text: &str) -> String {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    async fn read(inputs: &[&str]) -> Result<List, Failure> {
        let inputs: Vec<String> = inputs.iter().map(|&i| i.to_owned()).collect();
        List::read(&inputs, AUTO).await
    }

    async fn refusal(inputs: &[&str]) -> String {
        read(inputs).await.unwrap_err().line()
    }

    #[tokio::test]
    async fn inputs_are_taken_in_order_and_keep_their_places() {
        let directory = tempfile::tempdir().unwrap();
        let lines = write(directory.path(), "a.txt", "# list\n\nhttps://a.example\n");
        let csv = write(directory.path(), "b.txt", "id;url;external_id\n1;https://b.example;x\n");
        let list = read(&[&lines, "https://c.example", &csv]).await.unwrap();
        let urls: Vec<_> = list.tasks.iter().map(|t| t["url"].as_str().unwrap()).collect();
        assert_eq!(urls, ["https://a.example", "https://c.example", "https://b.example"]);
        assert_eq!(list.tasks[2]["external_id"], "x");
        assert_eq!(list.place(0), Some(format!("{lines}:3")));
        assert_eq!(list.place(1), Some("argument 2".to_owned()));
        assert_eq!(list.place(2), Some(format!("{csv}:2")));
        assert_eq!(list.place(3), None);
        assert_eq!(
            list.remarks,
            [format!("{lines}: 1 rows, read as lines"), format!("{csv}: 1 rows, read as csv")]
        );
    }

    #[tokio::test]
    async fn a_delimiter_names_the_format() {
        let directory = tempfile::tempdir().unwrap();
        let path = write(directory.path(), "a", "https://a.example/,x|1\n");
        let told = Told { format: ListFormat::Auto, delimiter: Some(b'|') };
        let list = List::read(&[path], told).await.unwrap();
        assert_eq!(list.tasks, [json!({"url": "https://a.example/,x"})]);
    }

    #[tokio::test]
    async fn a_compressed_list_is_expanded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut gzip, b"https://a.example\n").unwrap();
        std::fs::write(&path, gzip.finish().unwrap()).unwrap();
        let list = read(&[path.to_str().unwrap(), "https://b.example"]).await.unwrap();
        assert_eq!(list.tasks[0], json!({"url": "https://a.example"}));
    }

    #[tokio::test]
    async fn what_cannot_be_submitted_is_refused_before_anything_is_sent() {
        let directory = tempfile::tempdir().unwrap();
        let empty = write(directory.path(), "empty", "\n# nothing\n");
        assert!(refusal(&[&empty]).await.ends_with("the list is empty: it has no rows (usage)"));
        let missing = directory.path().join("missing").to_str().unwrap().to_owned();
        assert!(refusal(&[&missing]).await.contains("missing cannot be read: "));
        assert!(refusal(&["https://"]).await.contains("missing_host"));
        let broken = write(directory.path(), "broken", "{\"url\":1}\n{\n[]\n");
        assert!(refusal(&[&broken]).await.contains("2 of the rows cannot be read"));
        std::fs::write(&broken, b"\x1f\x8b\x08").unwrap();
        assert!(refusal(&[&broken]).await.contains("cannot be read: the gzip stream ends early"));
    }

    #[tokio::test]
    async fn a_row_that_cannot_be_read_is_named_by_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let broken = write(directory.path(), "broken", "{\"url\":1}\n\n{\n");
        let said = format!("{:?}", read(&[&broken]).await.unwrap_err());
        assert!(said.contains(&format!("{broken}:3")) && said.contains("not JSON"), "{said}");
        let long = write(
            directory.path(),
            "long",
            &format!("https://a.example\n{}", "x".repeat(limits::LINE_MAX_BYTES + 1)),
        );
        let said = format!("{:?}", read(&[&long]).await.unwrap_err());
        assert!(said.contains(&format!("{long}:2")) && said.contains("line_too_long"), "{said}");
    }

    #[tokio::test]
    async fn the_limit_of_one_submit_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let text = "https://a.example\n".repeat(limits::INLINE_TASKS_MAX);
        let full = write(directory.path(), "full", &text);
        assert_eq!(read(&[&full]).await.unwrap().tasks.len(), 9_999);
        let refusal = refusal(&[&full, "https://b.example"]).await;
        assert!(refusal.contains("more than 9999 rows"), "{refusal}");
        assert!(List::of_bytes("x", text.as_bytes(), AUTO).await.unwrap().is_some());
        let more = format!("{text}https://b.example\n");
        assert!(List::of_bytes("x", more.as_bytes(), AUTO).await.unwrap().is_none());
    }
}
