//! How a command ends when it does not succeed: what is said, and with which exit code.

use super::print::{Output, clean};
use conveyor_api::NO_OPERATOR_KEY;
use conveyor_client::{Error, NotResumable};
use conveyor_domain::job::failure::cut;
use conveyor_domain::{Problem, limits};
use conveyor_lists::ListError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::ExitCode;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
/// How many bad tasks are shown to a person.
const SHOWN_TASKS_MAX: usize = 20;

#[derive(Debug)]
pub enum Failure {
    /// Whoever reads our output has seen enough: nothing to say, and nothing wrong.
    OutputClosed,
    Said(Box<Said>),
}

#[derive(Debug)]
pub struct Said {
    exit: u8,
    problem: Problem,
    hint: Option<String>,
}

/// A task that was refused, and where the user finds it.
#[derive(Debug, Serialize, Deserialize)]
pub struct InvalidTask {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `urls.txt:17`; added by this client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Failure {
    pub const FILE_CHANGED: &str = "file_changed";
    pub const EXPORT_FAILED: &str = "export_failed";

    fn said(exit: u8, problem: Problem) -> Failure {
        Failure::Said(Box::new(Said { exit, problem, hint: None }))
    }

    /// The command was not given what it needs.
    pub fn usage(detail: impl Into<String>) -> Failure {
        Failure::said(USAGE, local("usage", "Bad input").with_detail(detail))
    }

    /// The server answered with an error.
    pub fn refused(problem: Problem) -> Failure {
        let failure = Failure::said(FAILED, problem);
        match &failure {
            Failure::Said(said) if said.problem.code == "unauthenticated" => failure.with_hint(
                "pass --api-key, set CONVEYOR_API_KEY, or name with --data-dir the data directory of `conveyor dev`, \
                 which keeps its key there",
            ),
            Failure::Said(_) | Failure::OutputClosed => failure,
        }
    }

    /// What was asked for without a server is not there.
    pub fn no_such_job() -> Failure {
        let problem = local("not_found", "Not found").with_detail("there is no such job");
        Failure::said(FAILED, problem)
    }

    /// There is no working on the backend itself.
    pub fn backend(error: &anyhow::Error) -> Failure {
        let problem =
            local("backend_unusable", "The backend cannot be used").with_detail(format!("{error:#}"));
        Failure::said(FAILED, problem)
            .with_hint("if a server has it, leave out --direct: then the server is asked")
    }

    pub fn unreachable(server: &str, reason: &str) -> Failure {
        let problem = local(UNREACHABLE, "Cannot reach the server");
        Failure::said(FAILED, problem.with_detail(format!("{server}: {reason}")))
            .with_hint("start a server with `conveyor dev`, or name another one with --server")
    }

    /// The server said something that is not its API.
    pub fn not_understood(what: impl Into<String>) -> Failure {
        Failure::said(FAILED, local("answer_not_understood", "The answer makes no sense").with_detail(what))
    }

    pub fn file(what: impl Into<String>, error: &io::Error) -> Failure {
        let problem = local("file_error", "A file could not be written");
        Failure::said(FAILED, problem.with_detail(format!("{}: {error}", what.into())))
    }

    pub fn output(error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::OutputClosed;
        }
        Failure::file("standard output", error)
    }

    /// What is to be submitted cannot be read.
    pub fn unreadable(name: &str, error: ListError) -> Failure {
        Failure::usage(format!("{name} cannot be read: {:#}", anyhow::Error::new(error)))
    }

    pub fn too_many_tasks() -> Failure {
        let max = limits::INLINE_TASKS_MAX;
        let detail = format!("more than {max} rows, the most of a submit of several inputs");
        Failure::said(FAILED, local("too_many_tasks", "The list is too long").with_detail(detail))
            .with_hint("put them all into one file and submit that: it can have any length")
    }

    /// What was sent is not the file any more.
    pub fn file_changed(name: &str) -> Failure {
        let detail = format!("{name} changed while it was uploaded; nothing was submitted");
        Failure::said(FAILED, local(Failure::FILE_CHANGED, "The file has changed").with_detail(detail))
    }

    /// An upload that cannot be gone on with.
    pub fn not_resumable(why: NotResumable) -> Failure {
        let problem = local("not_resumable", "The upload cannot be resumed");
        Failure::said(FAILED, problem.with_detail(why.to_string()))
    }

    pub fn bad_rows(rows: &[InvalidTask]) -> Failure {
        let detail = format!("{} of the rows cannot be read; nothing was submitted", rows.len());
        let mut problem = local("invalid_argument", "The list is not valid").with_detail(detail);
        problem.extra.insert("invalid_tasks".to_owned(), json!(rows));
        Failure::said(FAILED, problem)
    }

    /// Ctrl-C while watching: the job does not depend on who looks.
    pub fn interrupted(job: &str) -> Failure {
        let detail = format!("job {job} goes on; look at it with `conveyor status {job} --watch`");
        let mut problem = local("interrupted", "Stopped watching").with_detail(detail);
        problem.extra.insert("job_id".to_owned(), json!(job));
        Failure::said(FAILED, problem)
    }

    /// Ctrl-C before there is a job.
    pub fn upload_interrupted() -> Failure {
        let detail = "the list was not uploaded whole, and nothing was submitted";
        Failure::said(FAILED, local("interrupted", "Stopped").with_detail(detail))
    }

    /// Ctrl-C while the job was being made.
    pub fn submit_interrupted() -> Failure {
        let detail = "the list is uploaded; whether a job was made of it is not known";
        Failure::said(FAILED, local("interrupted", "Stopped").with_detail(detail))
    }

    /// Ctrl-C while events were followed.
    pub fn events_interrupted(job: &str) -> Failure {
        let detail = format!("job {job} goes on");
        Failure::said(FAILED, local("interrupted", "Stopped following").with_detail(detail))
    }

    /// Ctrl-C in a command that does not watch anything.
    pub fn stopped(detail: impl Into<String>) -> Failure {
        Failure::said(FAILED, local("interrupted", "Stopped").with_detail(detail))
    }

    /// The server could not build it, and says why.
    pub fn export_failed(error: Option<&str>) -> Failure {
        let problem = local(Failure::EXPORT_FAILED, "The export failed");
        Failure::said(FAILED, problem.with_detail(error.unwrap_or("the server does not say why")))
    }

    /// Names the export that can still be had, for programs, and how, for people.
    #[must_use]
    pub fn with_export(mut self, job: &str, run: &str, export: &str, out: &Path) -> Failure {
        if let Failure::Said(said) = &mut self {
            said.problem.extra.insert("export_id".to_owned(), json!(export));
        }
        let out = out.display();
        self.with_hint(format!(
            "go on with `conveyor export {job} --run {run} --export {export} --out {out}`"
        ))
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Failure {
        if let Failure::Said(said) = &mut self {
            said.hint = Some(hint.into());
        }
        self
    }

    /// Without its key an operator is told which one that is.
    #[must_use]
    pub fn of_operator(self) -> Failure {
        if self.begins_with(NO_OPERATOR_KEY) {
            return self.with_hint(
                "start the server with --operator-key or CONVEYOR_OPERATOR_KEY; until then no key opens this",
            );
        }
        match self.has_code("unauthenticated") || self.has_code("forbidden") {
            true => self.with_hint(
                "pass --operator-key, set CONVEYOR_OPERATOR_KEY, or name with --data-dir the data directory of \
                 `conveyor dev`, which keeps its operator key there",
            ),
            false => self,
        }
    }

    /// Names the upload that the failure left behind, for programs, and what to do about it, for people.
    #[must_use]
    pub fn with_upload(mut self, upload: &str, hint: impl Into<String>) -> Failure {
        if let Failure::Said(said) = &mut self {
            said.problem.extra.insert("file_input_id".to_owned(), json!(upload));
        }
        self.with_hint(hint)
    }

    /// Says where the refused tasks stand in the user's list.
    #[must_use]
    pub fn with_places(mut self, place_of: impl Fn(&InvalidTask) -> Option<String>) -> Failure {
        if let Failure::Said(said) = &mut self {
            let mut tasks = said.invalid_tasks();
            for task in &mut tasks {
                task.place = place_of(task);
            }
            if !tasks.is_empty() {
                said.problem.extra.insert("invalid_tasks".to_owned(), json!(tasks));
            }
        }
        self
    }

    /// Prints the failure where errors go and gives the exit code.
    pub fn report(&self, output: Output) -> ExitCode {
        match self {
            Failure::OutputClosed => ExitCode::SUCCESS,
            Failure::Said(said) => {
                if output.json {
                    eprintln!("{}", said.document());
                } else {
                    eprint!("{}", said.text());
                }
                ExitCode::from(said.exit)
            }
        }
    }

    /// The problem, for a command that goes on after it.
    pub fn line(&self) -> String {
        match self {
            Failure::OutputClosed => String::new(),
            Failure::Said(said) => said.line(),
        }
    }

    pub fn has_code(&self, code: &str) -> bool {
        matches!(self, Failure::Said(said) if said.problem.code == code)
    }

    fn begins_with(&self, text: &str) -> bool {
        let detail = |said: &Said| said.problem.detail.as_deref().is_some_and(|d| d.starts_with(text));
        matches!(self, Failure::Said(said) if detail(said))
    }

    pub fn has_invalid_tasks(&self) -> bool {
        matches!(self, Failure::Said(said) if said.problem.extra.contains_key("invalid_tasks"))
    }

    #[cfg(test)]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Failure::Said(said) if said.problem.status == 404)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Refused { problem, .. } => Failure::refused(*problem),
            Error::Unreachable { server, reason, .. } => Failure::unreachable(&server, &reason),
            Error::NotUnderstood(what) => Failure::not_understood(what),
            Error::Unreadable { name, source } => Failure::unreadable(&name, ListError::Read(source)),
            Error::Unwritable { name, source } => Failure::file(name, &source),
            Error::FileChanged(name) => Failure::file_changed(&name),
            Error::NotResumable(NotResumable::Claimed) => Failure::not_resumable(NotResumable::Claimed),
            Error::NotResumable(why) => {
                Failure::not_resumable(why).with_hint("submit the file anew, without --resume")
            }
            Error::Usage(why) => Failure::usage(why),
        }
    }
}

/// The status of a problem that no server reported.
const LOCAL: u16 = 0;
const UNREACHABLE: &str = "server_unreachable";

fn local(code: &str, title: &str) -> Problem {
    Problem::new(LOCAL, code, title)
}

impl Said {
    fn invalid_tasks(&self) -> Vec<InvalidTask> {
        let tasks = self.problem.extra.get("invalid_tasks").cloned();
        tasks.and_then(|tasks| serde_json::from_value(tasks).ok()).unwrap_or_default()
    }

    fn line(&self) -> String {
        let Problem { title, code, detail, .. } = &self.problem;
        match detail {
            Some(detail) => clean(&format!("{title}: {detail} ({code})")),
            None => clean(&format!("{title} ({code})")),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("error: {}\n", self.line());
        let tasks = self.invalid_tasks();
        for task in tasks.iter().take(SHOWN_TASKS_MAX) {
            let index = || task.index.map_or_else(|| "a task".to_owned(), |i| format!("task {i}"));
            let place = task.place.clone().unwrap_or_else(index);
            let value = task.value.as_deref().map(|v| format!(": {}", cut(v, limits::ECHO_MAX_CHARS)));
            let line = format!("{place}: {}{}", task.reason, value.unwrap_or_default());
            let _ = writeln!(text, "  {}", clean(&line));
        }
        if tasks.len() > SHOWN_TASKS_MAX {
            let _ = writeln!(text, "  ... and {} more", tasks.len() - SHOWN_TASKS_MAX);
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "hint: {hint}");
        }
        text
    }

    fn document(&self) -> Value {
        let mut document = json!(self.problem);
        if let Some(fields) = document.as_object_mut() {
            if self.problem.status == LOCAL {
                fields.remove("status");
            }
            if let Some(hint) = &self.hint {
                fields.insert("hint".to_owned(), json!(hint));
            }
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(failure: &Failure) -> &Said {
        match failure {
            Failure::Said(said) => said,
            Failure::OutputClosed => panic!("nothing said"),
        }
    }

    #[test]
    fn a_problem_is_one_line_for_a_person() {
        let problem = Problem::new(404, "not_found", "Not found").with_detail("no such job");
        assert_eq!(said(&Failure::refused(problem)).text(), "error: Not found: no such job (not_found)\n");
        let bare = Problem::new(500, "internal", "Internal error\u{1b}[31m");
        assert_eq!(said(&Failure::refused(bare)).text(), "error: Internal error\u{fffd}[31m (internal)\n");
    }

    #[test]
    fn bad_tasks_are_named_by_their_place_up_to_a_limit() {
        let tasks: Vec<Value> =
            (0..25).map(|i| json!({"index": i, "reason": "malformed_url", "value": "x"})).collect();
        let mut problem = Problem::new(400, "invalid_argument", "Bad request");
        problem.extra.insert("invalid_tasks".into(), json!(tasks));
        let failure = Failure::refused(problem)
            .with_places(|task| task.index.filter(|i| *i != 1).map(|i| format!("urls.txt:{}", i + 10)));
        let text = said(&failure).text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  urls.txt:10: malformed_url: x");
        assert_eq!(lines[2], "  task 1: malformed_url: x");
        assert_eq!(lines.last(), Some(&"  ... and 5 more"));
        assert_eq!(lines.len(), 1 + SHOWN_TASKS_MAX + 1);
        assert_eq!(said(&failure).document()["invalid_tasks"][24]["place"], "urls.txt:34");
    }

    #[test]
    fn a_document_of_our_own_claims_no_http_status() {
        let document = said(&Failure::unreachable("http://127.0.0.1:1", "refused")).document();
        assert_eq!(document["code"], "server_unreachable");
        assert!(document.get("status").is_none());
        assert!(document["hint"].as_str().is_some_and(|h| h.contains("conveyor dev")));
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let gone = Failure::output(&io::ErrorKind::BrokenPipe.into());
        assert!(matches!(gone, Failure::OutputClosed));
    }
}
