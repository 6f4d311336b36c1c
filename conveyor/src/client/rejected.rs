//! `conveyor rejected`: the rows of a list that were not taken.

use super::args::{self, RejectedArgs, ReportFormat};
use super::document::Job;
use super::failure::Failure;
use super::http::{Answer, Api, Attempt};
use super::print::{self, Output};
use reqwest::Response;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use url::Url;

pub async fn run(api: &Api, args: &RejectedArgs, output: Output) -> Result<ExitCode, Failure> {
    if output.json && args.out.is_none() && args.format == ReportFormat::Csv {
        return Err(Failure::usage("--json prints JSON: use --out for a report in CSV"));
    }
    let run = match &args.run {
        Some(run) => run.clone(),
        None => latest_run(api, &args.job).await?,
    };
    let mut url = api.url(&["jobs", &args.job, "runs", &run, "ingest", "rejected"]);
    url.query_pairs_mut().append_pair("format", &args::word(args.format));
    match &args.out {
        Some(path) => save(api, url, path, output).await?,
        None if output.json => print_document(api, url).await?,
        None => print(api, url).await?,
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn latest_run(api: &Api, job: &str) -> Result<String, Failure> {
    let answer: Answer<Job> = api.get(api.url(&["jobs", job])).await?;
    let run = answer.document.latest_run.map(|run| run.run_id);
    run.ok_or_else(|| Failure::not_understood(format!("job {job} has no run")))
}

/// The rows as they arrive; `None` for a run that had no list, of which nothing can have been rejected.
async fn open(api: &Api, url: Url) -> Result<Option<Response>, Failure> {
    match api.stream(url, "*/*", None).await.map_err(Attempt::into_failure) {
        Ok(response) => Ok(Some(response)),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

async fn print(api: &Api, url: Url) -> Result<(), Failure> {
    let Some(mut response) = open(api, url).await? else { return Ok(()) };
    while let Some(piece) = api.piece(&mut response).await.map_err(Attempt::into_failure)? {
        print::out_bytes(piece.as_ref())?;
    }
    Ok(())
}

/// Lines of JSON as one document. It stays open if the answer breaks off: half a report must not pass for one.
async fn print_document(api: &Api, url: Url) -> Result<(), Failure> {
    let mut opening = "{\"rejected\":[";
    print::out(opening)?;
    opening = "";
    if let Some(mut response) = open(api, url).await? {
        let mut line: Vec<u8> = Vec::new();
        while let Some(piece) = api.piece(&mut response).await.map_err(Attempt::into_failure)? {
            for byte in piece.as_ref() {
                match byte {
                    b'\n' => {
                        print_item(&mut opening, &line)?;
                        line.clear();
                    }
                    byte => line.push(*byte),
                }
            }
        }
        print_item(&mut opening, &line)?;
    }
    print::line("]}")
}

fn print_item(before: &mut &'static str, line: &[u8]) -> Result<(), Failure> {
    if line.trim_ascii().is_empty() {
        return Ok(());
    }
    print::out(std::mem::replace(before, ","))?;
    print::out_bytes(line)
}

async fn save(api: &Api, url: Url, path: &Path, output: Output) -> Result<(), Failure> {
    let unfinished = path.with_added_extension("part");
    match api.save(url, &unfinished).await {
        Ok(()) => {}
        Err(failure) if failure.is_not_found() => {
            std::fs::write(&unfinished, "")
                .map_err(|e| Failure::file(unfinished.display().to_string(), &e))?;
        }
        Err(failure) => return Err(failure),
    }
    // Under its name there is a whole report or none.
    let renamed = tokio::fs::rename(&unfinished, path).await;
    renamed.map_err(|e| Failure::file(path.display().to_string(), &e))?;
    if output.json {
        return print::line(&json!({ "out": path }).to_string());
    }
    print::line(&format!("rejected rows in {}", path.display()))
}
