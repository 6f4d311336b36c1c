//! `conveyor results`: the tasks of a run, page by page, so that a long list takes no more memory than a page.

use super::args::{self, ResultsArgs};
use super::document::TaskResult;
use super::download;
use super::failure::Failure;
use super::http::Api;
use super::paging;
use super::print::{self, Output, clean};
use conveyor_domain::job::failure::cut;
use conveyor_domain::limits;
use futures::{Stream, StreamExt};
use serde_json::value::RawValue;
use std::pin::pin;
use std::process::ExitCode;

const HEADER: [&str; 4] = ["task", "status", "url", "error"];
const URL_CHARS_MAX: usize = 60;
/// A task id and the longest status, with their padding.
const WIDTHS: [u16; 3] = [34, 12, URL_CHARS_MAX as u16 + 2];

pub async fn run(api: &Api, args: &ResultsArgs, output: Output) -> Result<ExitCode, Failure> {
    match &args.out {
        Some(directory) => return download::run(api, args, directory, output).await,
        None if output.json => {
            paging::print_document(pages(api, args, limits::RESULTS_PAGE_MAX), "results").await?;
        }
        None => print_table(api, args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The pages of the results that were asked for. The next is fetched when it is wanted.
pub fn pages<'a>(
    api: &'a Api,
    args: &ResultsArgs,
    limit: u32,
) -> impl Stream<Item = Result<Vec<Box<RawValue>>, Failure>> + use<'a> {
    let mut url = match &args.run {
        Some(run) => api.url(&["jobs", &args.job, "runs", run, "results"]),
        None => api.url(&["jobs", &args.job, "results"]),
    };
    url.query_pairs_mut()
        .append_pair("status", &args::word(args.status))
        .append_pair("limit", &limit.to_string());
    paging::pages(api, url, "results")
}

pub fn parse(result: &RawValue) -> Result<TaskResult, Failure> {
    serde_json::from_str(result.get()).map_err(|e| Failure::not_understood(e.to_string()))
}

async fn print_table(api: &Api, args: &ResultsArgs) -> Result<(), Failure> {
    let mut pages = pin!(pages(api, args, limits::RESULTS_PAGE_MAX).enumerate());
    while let Some((n, page)) = pages.next().await {
        let mut table = print::plain_table();
        if n == 0 {
            table.set_header(HEADER);
        }
        for result in &page? {
            let TaskResult { task_id, status, url, error, .. } = parse(result)?;
            let code = error.map(|e| e.code).unwrap_or_default();
            table.add_row([clean(&task_id), clean(&status), clean(&shortened(&url)), clean(&code)]);
        }
        print::fix_widths(&mut table, &WIDTHS);
        if n == 0 || !table.is_empty() {
            print::print_table(table)?;
        }
    }
    Ok(())
}

fn shortened(url: &str) -> String {
    match cut(url, URL_CHARS_MAX) {
        whole if whole.len() == url.len() => whole.to_owned(),
        _ => format!("{}…", cut(url, URL_CHARS_MAX - 1)),
    }
}
