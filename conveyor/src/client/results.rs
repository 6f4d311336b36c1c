//! `conveyor results`: the tasks of a run, page by page, so that a long list takes no more memory than a page.

use super::args::{self, ResultsArgs};
use super::download;
use super::failure::Failure;
use super::print::Output;
use super::table::{self, Column};
use conveyor_client::wire::Task;
use conveyor_client::{Client, Pages};
use conveyor_domain::job::failure::cut;
use conveyor_domain::limits;
use std::process::ExitCode;

const URL_CHARS_MAX: usize = 60;
/// A task id and the longest status, with their padding.
const COLUMNS: [Column<Task>; 4] = [
    ("task", 34, |task| task.task_id.to_string()),
    ("status", 12, |task| task.status.to_string()),
    ("url", URL_CHARS_MAX as u16 + 2, |task| shortened(&task.url)),
    ("error", 0, |task| task.error.as_ref().map(|error| error.code.clone()).unwrap_or_default()),
];

pub async fn run(api: &Client, args: &ResultsArgs, output: Output) -> Result<ExitCode, Failure> {
    match &args.out {
        Some(directory) => return download::run(api, args, directory, output).await,
        None => table::list(results(api, args, limits::RESULTS_PAGE_MAX), &COLUMNS, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The results that were asked for.
pub fn results(api: &Client, args: &ResultsArgs, limit: u32) -> Pages<Task> {
    let results = match &args.run {
        Some(run) => api.results_of_run(&args.job, run),
        None => api.results(&args.job),
    };
    results.query("status", args::word(args.status)).query("limit", limit)
}

fn shortened(url: &str) -> String {
    match cut(url, URL_CHARS_MAX) {
        whole if whole.len() == url.len() => whole.to_owned(),
        _ => format!("{}…", cut(url, URL_CHARS_MAX - 1)),
    }
}
