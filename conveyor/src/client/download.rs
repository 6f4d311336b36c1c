//! `conveyor results --out`: each body into a file of its own, and the failed tasks into one.

use super::args::{ResultStatus, ResultsArgs};
use super::failure::Failure;
use super::print::{self, Output};
use super::progress;
use super::results::results;
use conveyor_client::wire::{Task, TaskStatus};
use conveyor_client::{Client, Raw};
use conveyor_domain::{Format, Problem, limits};
use futures::{StreamExt, TryStreamExt};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use tokio::fs::{self, File};
use tokio::io::{AsyncWriteExt, BufWriter};

/// Bodies in flight. More would not make one server faster.
const CONCURRENCY: usize = 8;
const FAILED_LIST: &str = "failed.jsonl";

#[derive(Debug, Default)]
struct Tally {
    downloaded: u64,
    failed: u64,
    unfinished: u64,
    /// Bodies that the server no longer has or would not give.
    missing: u64,
}

/// What became of one task.
enum Taken {
    Downloaded,
    /// Its line for the list of failures.
    Failed(String),
    Unfinished,
    Missing(Failure),
}

pub async fn run(
    api: &Client,
    args: &ResultsArgs,
    directory: &Path,
    output: Output,
) -> Result<ExitCode, Failure> {
    fs::create_dir_all(directory).await.map_err(|e| Failure::file(directory.display().to_string(), &e))?;
    let bar = progress::bar(output, "{bar:24} {pos}/{len} {rate}, eta {eta}");
    if output.shows_progress() {
        bar.set_length(expected(api, args).await?);
    }
    let tally = take_all(api, args, directory, &bar, output).await?;
    bar.finish_and_clear();
    let Tally { downloaded, failed, unfinished, missing } = tally;
    if output.json {
        let document = json!({ "directory": directory, "downloaded": downloaded, "failed": failed,
                               "unfinished": unfinished, "missing": missing });
        print::line(&document.to_string())?;
    } else {
        let failures = directory.join(FAILED_LIST);
        print::line(&format!("{downloaded} bodies in {}", directory.display()))?;
        let remark = |n: u64, text: String| if n > 0 { print::line(&format!("{n} {text}")) } else { Ok(()) };
        remark(failed, format!("failed tasks in {}", failures.display()))?;
        remark(unfinished, "tasks are not finished yet".to_owned())?;
        remark(missing, "bodies could not be had".to_owned())?;
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How many bodies there are to fetch, for the bar.
async fn expected(api: &Client, args: &ResultsArgs) -> Result<u64, Failure> {
    let run = match &args.run {
        Some(run) => Some(api.run(&args.job, run).await?.document),
        None => api.job(&args.job).await?.document.latest_run,
    };
    Ok(run.map_or(0, |run| run.stats.successful.into()))
}

async fn take_all(
    api: &Client,
    args: &ResultsArgs,
    directory: &Path,
    bar: &ProgressBar,
    output: Output,
) -> Result<Tally, Failure> {
    // Small pages: a result_url is good for a limited time from when its page was made.
    let rows = results(api, args, limits::RESULTS_PAGE_DEFAULT).raw();
    let taken = rows.map_err(Failure::from).map(|row| async { take(api, directory, &row?).await });
    let mut taken = pin!(taken.buffer_unordered(CONCURRENCY));

    let mut failures = match args.status {
        ResultStatus::All | ResultStatus::Failed => Some(FailedList::create(directory).await?),
        ResultStatus::Successful | ResultStatus::Processing => None,
    };
    let mut tally = Tally::default();
    while let Some(one) = taken.try_next().await? {
        match one {
            Taken::Downloaded => {
                tally.downloaded += 1;
                bar.inc(1);
            }
            Taken::Failed(line) => {
                tally.failed += 1;
                if let Some(list) = &mut failures {
                    list.add(&line).await?;
                }
            }
            Taken::Unfinished => tally.unfinished += 1,
            Taken::Missing(failure) => {
                tally.missing += 1;
                bar.suspend(|| output.remark(&failure.line()));
            }
        }
    }
    if let Some(list) = failures {
        list.finish().await?;
    }
    Ok(tally)
}

async fn take(api: &Client, directory: &Path, row: &Raw<Task>) -> Result<Taken, Failure> {
    let task = row.read()?;
    match task.status.known() {
        Some(TaskStatus::Successful) => {}
        Some(TaskStatus::Failed) => return one_line(row).map(Taken::Failed),
        Some(TaskStatus::Expired) => {
            let problem = Problem::new(410, "result_expired", "The result has expired");
            return Ok(Taken::Missing(Failure::refused(problem.with_detail(task.task_id.to_string()))));
        }
        Some(TaskStatus::Pending | TaskStatus::Processing) | None => return Ok(Taken::Unfinished),
    }
    let Some(result_url) = &task.result_url else {
        return Err(Failure::not_understood(format!("task {} has no result_url", task.task_id)));
    };
    let name = file_name(&task);
    let (unfinished, path) = (directory.join(format!(".{name}.part")), directory.join(&name));
    match api.download(result_url)?.save(&unfinished).await {
        Ok(()) => {}
        // The server answers, only not with this body: the others can still be had.
        Err(error) if error.problem().is_some() => return Ok(Taken::Missing(error.into())),
        Err(error) => return Err(error.into()),
    }
    // Under its name there is a whole body or none.
    fs::rename(&unfinished, &path).await.map_err(|e| Failure::file(path.display().to_string(), &e))?;
    Ok(Taken::Downloaded)
}

/// `<task id>.<type>`
fn file_name(task: &Task) -> String {
    let extension = match task.format.as_ref().and_then(|format| format.known()) {
        Some(Format::Html) => "html",
        Some(Format::Json) => "json",
        Some(Format::Markdown) => "md",
        Some(Format::Plaintext) => "txt",
        Some(Format::Pdf) => "pdf",
        None => "bin",
    };
    format!("{}.{extension}", task.task_id)
}

fn one_line(row: &Raw<Task>) -> Result<String, Failure> {
    // Parsed and written again: what was sent may have line breaks.
    let value: Value =
        serde_json::from_str(row.text()).map_err(|e| Failure::not_understood(e.to_string()))?;
    Ok(format!("{value}\n"))
}

/// `failed.jsonl`, under its name only once it is complete. An empty one says that nothing failed.
struct FailedList<'a> {
    directory: &'a Path,
    file: BufWriter<File>,
}

impl FailedList<'_> {
    async fn create(directory: &Path) -> Result<FailedList<'_>, Failure> {
        let file = File::create(directory.join(unfinished_list())).await.map_err(|e| not_written(&e))?;
        Ok(FailedList { directory, file: BufWriter::new(file) })
    }

    async fn add(&mut self, line: &str) -> Result<(), Failure> {
        self.file.write_all(line.as_bytes()).await.map_err(|e| not_written(&e))
    }

    async fn finish(mut self) -> Result<(), Failure> {
        self.file.shutdown().await.map_err(|e| not_written(&e))?;
        let (from, to) = (self.directory.join(unfinished_list()), self.directory.join(FAILED_LIST));
        fs::rename(from, to).await.map_err(|e| not_written(&e))
    }
}

fn unfinished_list() -> String {
    format!(".{FAILED_LIST}.part")
}

fn not_written(error: &io::Error) -> Failure {
    Failure::file(FAILED_LIST, error)
}
