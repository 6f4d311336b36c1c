//! Gathering what is to be submitted: files, standard input and URLs, in the order they were named.

use super::failure::{Failure, InvalidTask};
use conveyor_domain::limits;
use conveyor_domain::task_input::check_url;
use conveyor_ingest::decode::{DecodeError, Format, Rows};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, ErrorKind, Read};

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

impl List {
    /// Reads every input to its end, or to the limit of one submit.
    pub fn read(inputs: &[String], format: Format, delimiter: Option<u8>) -> Result<List, Failure> {
        // Only CSV has a delimiter: naming one names the format.
        let format = if format == Format::Auto && delimiter.is_some() { Format::Csv } else { format };
        let mut list = List::default();
        for input in inputs {
            list.inputs.push(if input == "-" { "stdin".to_owned() } else { input.clone() });
            if input.starts_with("http://") || input.starts_with("https://") {
                list.add_url(input)?;
            } else if input == "-" {
                list.add_file(io::stdin().lock(), format, delimiter)?;
            } else {
                list.add_file(open(input)?, format, delimiter)?;
            }
        }
        if !list.bad_rows.is_empty() {
            return Err(Failure::bad_rows(&list.bad_rows));
        }
        if list.tasks.is_empty() {
            return Err(Failure::usage("the list is empty: it has no rows"));
        }
        Ok(list)
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

    fn add_url(&mut self, url: &str) -> Result<(), Failure> {
        check_url(url)
            .map_err(|e| Failure::usage(format!("{} is no URL to fetch: {}", e.value, e.reason.as_str())))?;
        self.add(None, json!({ "url": url }))
    }

    fn add_file(&mut self, reader: impl Read, format: Format, delimiter: Option<u8>) -> Result<(), Failure> {
        let name = self.inputs[self.inputs.len() - 1].clone();
        let rows = Rows::open(reader, format, delimiter).map_err(|e| unreadable(&name, e))?;
        let (read_as, before) = (rows.format(), self.tasks.len());
        for row in rows {
            match row {
                Ok(row) => self.add(Some(row.line), row.value)?,
                Err(e @ DecodeError::Read(_)) => return Err(unreadable(&name, e)),
                Err(e) => self.add_bad_row(&e)?,
            }
        }
        self.remarks.push(format!("{name}: {} rows, read as {read_as}", self.tasks.len() - before));
        Ok(())
    }

    fn add(&mut self, line: Option<u64>, task: Value) -> Result<(), Failure> {
        self.check_room()?;
        self.tasks.push(task);
        self.places.push(Place { input: self.inputs.len() - 1, line });
        Ok(())
    }

    fn add_bad_row(&mut self, error: &DecodeError) -> Result<(), Failure> {
        self.check_room()?;
        let place = self.name(Place { input: self.inputs.len() - 1, line: error.line() });
        // The place says the line already.
        let text = error.to_string();
        let reason = text.split_once(": ").map_or(text.as_str(), |(_, reason)| reason).to_owned();
        self.bad_rows.push(InvalidTask { index: None, reason, value: None, place: Some(place) });
        Ok(())
    }

    /// As soon as the list is known to be too long, nothing more is read.
    fn check_room(&self) -> Result<(), Failure> {
        if self.tasks.len() + self.bad_rows.len() >= limits::INLINE_TASKS_MAX {
            return Err(Failure::too_many_tasks());
        }
        Ok(())
    }
}

fn open(path: &str) -> Result<File, Failure> {
    File::open(path).map_err(|e| {
        let failure = Failure::usage(format!("{path} cannot be read: {e}"));
        if e.kind() == ErrorKind::NotFound {
            return failure.with_hint("a URL starts with http:// or https://; anything else is a file");
        }
        failure
    })
}

fn unreadable(name: &str, error: DecodeError) -> Failure {
    Failure::usage(format!("{name} cannot be read: {:#}", anyhow::Error::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn write(directory: &Path, name: &str, text: &str) -> String {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn read(inputs: &[&str]) -> Result<List, Failure> {
        let inputs: Vec<String> = inputs.iter().map(|&i| i.to_owned()).collect();
        List::read(&inputs, Format::Auto, None)
    }

    fn refusal(inputs: &[&str]) -> String {
        read(inputs).unwrap_err().line()
    }

    #[test]
    fn inputs_are_taken_in_order_and_keep_their_places() {
        let directory = tempfile::tempdir().unwrap();
        let lines = write(directory.path(), "a.txt", "# list\n\nhttps://a.example\n");
        let csv = write(directory.path(), "b.txt", "id;url\n1;https://b.example\n");
        let list = read(&[&lines, "https://c.example", &csv]).unwrap();
        let urls: Vec<_> = list.tasks.iter().map(|t| t["url"].as_str().unwrap()).collect();
        assert_eq!(urls, ["https://a.example", "https://c.example", "https://b.example"]);
        assert_eq!(list.place(0), Some(format!("{lines}:3")));
        assert_eq!(list.place(1), Some("argument 2".to_owned()));
        assert_eq!(list.place(2), Some(format!("{csv}:2")));
        assert_eq!(list.place(3), None);
        assert_eq!(
            list.remarks,
            [format!("{lines}: 1 rows, read as lines"), format!("{csv}: 1 rows, read as csv")]
        );
    }

    #[test]
    fn a_delimiter_names_the_format() {
        let directory = tempfile::tempdir().unwrap();
        let path = write(directory.path(), "a", "https://a.example/,x|1\n");
        let list = List::read(&[path], Format::Auto, Some(b'|')).unwrap();
        assert_eq!(list.tasks, [json!({"url": "https://a.example/,x"})]);
    }

    #[test]
    fn what_cannot_be_submitted_is_refused_before_anything_is_sent() {
        let directory = tempfile::tempdir().unwrap();
        let empty = write(directory.path(), "empty", "\n# nothing\n");
        assert!(refusal(&[&empty]).ends_with("the list is empty: it has no rows (usage)"));
        let missing = directory.path().join("missing").to_str().unwrap().to_owned();
        assert!(refusal(&[&missing]).contains("missing cannot be read: "));
        assert!(refusal(&["https://"]).contains("missing_host"));
        let broken = write(directory.path(), "broken", "{\"url\":1}\n{\n[]\n");
        assert!(refusal(&[&broken]).contains("2 of the rows cannot be read"));
    }

    #[test]
    fn the_limit_of_one_submit_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let full = write(directory.path(), "full", &"https://a.example\n".repeat(limits::INLINE_TASKS_MAX));
        assert_eq!(read(&[&full]).unwrap().tasks.len(), 9_999);
        assert!(refusal(&[&full, "https://b.example"]).contains("more than 9999 rows"));
    }
}
