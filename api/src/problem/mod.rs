//! Every error answer (SPEC 11), and the one place where errors of the layers below become HTTP.

mod code;

pub(crate) use code::Code;

use crate::invalid_tasks::InvalidTasks;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use conveyor_domain::job::task_input::Invalid;
use conveyor_domain::{ListFault, Problem, Refusal};

pub(crate) type Result<T> = std::result::Result<T, ApiError>;

/// An error answer that has not met its request id yet. It travels to [`crate::answer`] as an extension of the response.
#[derive(Clone, Debug)]
pub(crate) struct Unrendered {
    pub problem: Problem,
    /// For the log, never for the caller.
    pub cause: Option<String>,
}

/// An error as handlers return it. Boxed: it is large, and rare.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    body: Box<Unrendered>,
}

impl ApiError {
    pub fn new(code: Code, detail: impl Into<String>) -> ApiError {
        let (status, code, title) = code.parts();
        let problem = Problem::new(status.as_u16(), code, title).with_detail(detail);
        ApiError { status, body: Box::new(Unrendered { problem, cause: None }) }
    }

    /// A field or parameter at fault; `detail` names it.
    pub fn invalid(detail: impl Into<String>) -> ApiError {
        ApiError::new(Code::InvalidArgument, detail)
    }

    /// One text for everything that is not there, so that an unknown id, a malformed one and another caller's look alike.
    pub fn not_found() -> ApiError {
        ApiError::new(Code::NotFound, "There is no such resource.")
    }

    /// A defect. The caller learns nothing but the request id; the log learns the cause.
    pub fn internal(cause: impl Into<String>) -> ApiError {
        let detail = "The request failed because of a defect; the request id finds it in the log.";
        ApiError::new(Code::Internal, detail).caused_by(cause)
    }

    /// More than a caller may have.
    pub fn quota(exceeded: &str) -> ApiError {
        ApiError::new(Code::QuotaExceeded, sentence(exceeded.to_owned()))
    }

    /// All callers together have as much under way as fits.
    pub fn overloaded() -> ApiError {
        ApiError::new(Code::Overloaded, "Too much is under way at once; nothing was done, try again.")
    }

    /// Whether it is over soon, whatever the caller does.
    fn passes(&self) -> bool {
        let is = |code: Code| self.body.problem.code == code.parts().1;
        self.status == StatusCode::SERVICE_UNAVAILABLE || Code::PASSING.into_iter().any(is)
    }

    /// A job's own `zenrows_params` are at fault.
    pub fn job_params(invalid: &Invalid) -> ApiError {
        let detail = format!("`zenrows_params`: `{}`: {}.", invalid.value, invalid.reason.as_str());
        ApiError::invalid(detail)
    }

    /// Tasks are at fault: each by its index.
    pub fn invalid_tasks(total: usize, invalid: &InvalidTasks) -> ApiError {
        let detail = format!("`tasks`: {} of {total} are invalid.", invalid.count);
        ApiError::invalid(detail).naming(invalid)
    }

    /// Rows of a staged list are at fault, and the caller wants none of it then.
    pub fn invalid_rows(total: u32, invalid: &InvalidTasks) -> ApiError {
        let detail = format!("{} of {total} rows are invalid.", invalid.count);
        ApiError::list(ListFault::InvalidRows, None, &detail).naming(invalid)
    }

    pub fn no_valid_rows(detail: &str, invalid: &InvalidTasks) -> ApiError {
        ApiError::list(ListFault::NoValidRows, None, detail).naming(invalid)
    }

    /// A staged list cannot be taken.
    pub fn list(fault: ListFault, line: Option<u64>, detail: &str) -> ApiError {
        let at = line.map(|line| format!("Line {line}: ")).unwrap_or_default();
        ApiError::new(Code::List(fault), format!("{at}{detail}"))
    }

    fn naming(mut self, invalid: &InvalidTasks) -> ApiError {
        let list = serde_json::to_value(&invalid.named).unwrap_or_default();
        self.body.problem.extra.insert("invalid_tasks".to_owned(), list);
        self
    }

    /// One text for every upload that is not there, whoever it belonged to.
    pub fn upload_not_found() -> ApiError {
        ApiError::new(Code::FileInputNotFound, "There is no such file input, or it has expired.")
    }

    /// What a caller may no longer see.
    pub fn expired(detail: &str) -> ApiError {
        ApiError::new(Code::ResultExpired, detail)
    }

    /// An error about an upload.
    pub fn of_upload(error: conveyor_store::Error) -> ApiError {
        match error {
            conveyor_store::Error::NotFound => ApiError::upload_not_found(),
            other => other.into(),
        }
    }

    /// An error about a dead letter. Whoever lost a race is told so.
    pub fn of_letter(error: conveyor_store::Error) -> ApiError {
        match error {
            conveyor_store::Error::Conflict(why) => ApiError::new(Code::Conflict, sentence(why)),
            other => other.into(),
        }
    }

    /// The problem of a failed task, as the answer to a request for its result.
    pub fn of_failed_task(problem: Problem) -> ApiError {
        let body = Box::new(Unrendered { problem, cause: None });
        ApiError { status: StatusCode::UNPROCESSABLE_ENTITY, body }
    }

    /// Whether what was asked for may have happened all the same.
    pub fn is_ambiguous(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// Whether what was asked for surely did not happen.
    pub fn is_refusal(&self) -> bool {
        self.status.is_client_error() || self.status == StatusCode::INSUFFICIENT_STORAGE
    }

    /// Whether the store found something else in the place of what was asked for.
    pub fn is_conflict(&self) -> bool {
        self.body.problem.code == Code::Conflict.parts().1
    }

    /// Whether the staged list is not the one that was looked at.
    pub fn is_source_changed(&self) -> bool {
        self.body.problem.code == ListFault::SourceChanged.as_str()
    }

    /// With a cause for the log.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<String>) -> ApiError {
        self.body.cause = Some(cause.into());
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if self.passes() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(*self.body);
        response
    }
}

impl From<conveyor_store::Error> for ApiError {
    fn from(error: conveyor_store::Error) -> ApiError {
        use conveyor_store::Error;
        let cause = error.to_string();
        match error {
            Error::NotFound => ApiError::not_found(),
            Error::Refused(refusal) => refusal.into(),
            Error::Conflict(_) => {
                ApiError::new(Code::Conflict, "It already exists in another form.").caused_by(cause)
            }
            Error::Full(_) => {
                ApiError::new(Code::StorageFull, "There is no room; nothing was accepted.").caused_by(cause)
            }
            Error::Unavailable(_) => {
                let detail = "The store does not answer; a write may or may not have happened.";
                ApiError::new(Code::Unavailable, detail).caused_by(cause)
            }
            // The names of an operator's resources are for the log, not for callers.
            Error::Missing(_) => {
                let detail = "The storage is not set up; an operator has to create what is missing.";
                ApiError::new(Code::Unavailable, detail).caused_by(cause)
            }
            Error::Changed => ApiError::new(
                Code::List(ListFault::SourceChanged),
                "The staged list is not the one that was uploaded.",
            )
            .caused_by(cause),
            Error::Corrupt(_) => ApiError::internal(cause),
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> ApiError {
        let code = match refusal {
            Refusal::JobNotOpen => Code::JobNotOpen,
            Refusal::LastBatchReceived => Code::LastBatchReceived,
            Refusal::RunTasksMax => Code::QuotaExceeded,
            Refusal::RunNotStoppable | Refusal::NothingToStop => Code::RunNotStoppable,
            Refusal::RunNotPausable | Refusal::NothingToPause => Code::RunNotPausable,
            Refusal::JobDeleted => return ApiError::not_found(),
            Refusal::Ingesting => Code::RunNotTerminal,
            Refusal::UploadClaimed => Code::FileInputClaimed,
            Refusal::UploadComplete => Code::FileInputComplete,
            Refusal::TooManyUploads => Code::QuotaExceeded,
            Refusal::RunHasDescendants => Code::RunHasDescendants,
            Refusal::RunNotTerminal => Code::RunNotTerminal,
            Refusal::AnotherRunBegan => Code::Conflict,
            Refusal::NoPriorRun => Code::NoPriorRun,
            Refusal::JobNotScheduled => Code::JobNotScheduled,
            Refusal::JobTooLarge => Code::InvalidArgument,
            // No route sends `Drained`, a step of an ingest, or what a schedule does by itself.
            Refusal::NotDrained | Refusal::RunEnded | Refusal::NotIngesting | Refusal::FireIsOver => {
                return ApiError::internal(refusal.to_string());
            }
        };
        ApiError::new(code, sentence(refusal.to_string()))
    }
}

fn sentence(mut text: String) -> String {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::code::status_of;
    use super::*;

    /// Codes and their statuses, as the table of SPEC 11 has them.
    fn specified() -> Vec<(String, u16)> {
        let spec = include_str!("../../../docs/spec/errors.md");
        let section = spec.split("\n## ").find(|s| s.starts_with("11 Errors")).unwrap();
        let row = |line: &str| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            let (codes, status) = (cells.next()?, cells.next()?.parse::<u16>().ok()?);
            Some(codes.split(", ").map(|c| (c.trim_matches('`').to_owned(), status)).collect::<Vec<_>>())
        };
        section.lines().filter_map(row).flatten().collect()
    }

    #[test]
    fn the_specification_lists_every_code_and_no_other() {
        let mut ours: Vec<_> =
            Code::ALL.iter().map(|c| (c.parts().1.to_owned(), c.parts().0.as_u16())).collect();
        let answered = ListFault::ALL.into_iter().filter(|fault| fault.is_in_the_list());
        ours.extend(answered.map(|f| (f.as_str().to_owned(), status_of(f).as_u16())));
        let mut theirs = specified();
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs);
    }

    use conveyor_store::Error;

    fn shape(error: impl Into<ApiError>) -> (u16, String, bool) {
        let response = error.into().into_response();
        let problem = &response.extensions().get::<Unrendered>().unwrap().problem;
        assert_eq!(problem.status, response.status().as_u16());
        assert_eq!(problem.kind, format!("urn:conveyor:error:{}", problem.code));
        (problem.status, problem.code.clone(), response.headers().contains_key(RETRY_AFTER))
    }

    #[test]
    fn store_errors_have_one_answer_each() {
        let text = || "disk 7".to_owned();
        assert_eq!(shape(Error::NotFound), (404, "not_found".into(), false));
        assert_eq!(shape(Error::Conflict(text())), (409, "conflict".into(), false));
        assert_eq!(shape(Error::Full(text())), (507, "storage_full".into(), false));
        assert_eq!(shape(Error::Unavailable(text())), (503, "unavailable".into(), true));
        assert_eq!(shape(Error::Missing(text())), (503, "unavailable".into(), true));
        assert_eq!(shape(Error::Corrupt(text())), (500, "internal".into(), false));
    }

    #[test]
    fn whoever_loses_a_race_for_a_letter_is_told_so() {
        let error = ApiError::of_letter(Error::Conflict("it moved on; look again".into()));
        assert_eq!(error.body.problem.code, "conflict");
        assert_eq!(error.body.problem.detail.unwrap(), "It moved on; look again.");
    }

    #[test]
    fn refusals_have_one_answer_each() {
        assert_eq!(shape(Refusal::JobNotOpen), (409, "job_not_open".into(), false));
        assert_eq!(shape(Refusal::LastBatchReceived), (409, "last_batch_received".into(), false));
        assert_eq!(shape(Refusal::RunTasksMax), (429, "quota_exceeded".into(), false));
        assert_eq!(shape(Refusal::RunNotStoppable), (409, "run_not_stoppable".into(), false));
        assert_eq!(shape(Refusal::RunNotPausable), (409, "run_not_pausable".into(), false));
        assert_eq!(shape(Refusal::NothingToStop), (409, "run_not_stoppable".into(), false));
        assert_eq!(shape(Refusal::NothingToPause), (409, "run_not_pausable".into(), false));
        assert_eq!(shape(Refusal::RunHasDescendants), (409, "run_has_descendants".into(), false));
        assert_eq!(shape(Refusal::JobDeleted), (404, "not_found".into(), false));
        assert_eq!(shape(Refusal::NotDrained), (500, "internal".into(), false));
    }

    #[test]
    fn what_the_store_says_goes_to_the_log_and_not_to_the_caller() {
        let error = ApiError::from(Error::Corrupt("row 17 of jobs".into()));
        assert!(error.body.cause.unwrap().contains("row 17"));
        assert!(!error.body.problem.detail.unwrap().contains("row 17"));
    }
}
