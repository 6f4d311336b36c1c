//! `conveyor rejected`: the rows of a list that were not taken.

use super::args::{self, RejectedArgs, ReportFormat};
use super::failure::Failure;
use super::print::{self, Output};
use conveyor_client::{Client, Download, Error};
use futures::{StreamExt, TryStreamExt};
use serde_json::json;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;

pub async fn run(api: &Client, args: &RejectedArgs, output: Output) -> Result<ExitCode, Failure> {
    if output.json && args.out.is_none() && args.format == ReportFormat::Csv {
        return Err(Failure::usage("--json prints JSON: use --out for a report in CSV"));
    }
    let run = match &args.run {
        Some(run) => run.clone(),
        None => latest_run(api, &args.job).await?,
    };
    let rows = api.rejected(&args.job, run).query("format", args::word(args.format));
    match &args.out {
        Some(path) => save(rows, path, output).await?,
        None if output.json => print_document(rows).await?,
        None => each_piece(&rows, print::out_bytes).await?,
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn latest_run(api: &Client, job: &str) -> Result<String, Failure> {
    let run = api.job(job).await?.document.latest_run.map(|run| run.run_id.to_string());
    run.ok_or_else(|| Failure::not_understood(format!("job {job} has no run")))
}

/// Takes the rows as they arrive; none of a run that had no list, of which nothing can have been rejected.
async fn each_piece(
    rows: &Download,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let pieces = match rows.pieces().await {
        Ok(pieces) => pieces.boxed(),
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut pieces = pin!(pieces);
    while let Some(piece) = pieces.try_next().await? {
        take(&piece)?;
    }
    Ok(())
}

/// Lines of JSON as one document. It stays open if the answer breaks off: half a report must not pass for one.
async fn print_document(rows: Download) -> Result<(), Failure> {
    print::out("{\"rejected\":[")?;
    let (mut before, mut line) = ("", Vec::new());
    let take = |piece: &[u8]| {
        for byte in piece {
            match byte {
                b'\n' => {
                    print_item(&mut before, &line)?;
                    line.clear();
                }
                byte => line.push(*byte),
            }
        }
        Ok(())
    };
    each_piece(&rows, take).await?;
    print_item(&mut before, &line)?;
    print::line("]}")
}

fn print_item(before: &mut &'static str, line: &[u8]) -> Result<(), Failure> {
    if line.trim_ascii().is_empty() {
        return Ok(());
    }
    print::out(std::mem::replace(before, ","))?;
    print::out_bytes(line)
}

async fn save(rows: Download, path: &Path, output: Output) -> Result<(), Failure> {
    let unfinished = path.with_added_extension("part");
    match rows.save(&unfinished).await {
        Ok(()) => {}
        Err(error) if error.is_not_found() => {
            let name = unfinished.display().to_string();
            let empty = std::fs::write(&unfinished, "");
            empty.map_err(|source| Error::Unwritable { name, source })?;
        }
        Err(error) => return Err(error.into()),
    }
    // Under its name there is a whole report or none.
    let renamed = tokio::fs::rename(&unfinished, path).await;
    renamed.map_err(|e| Failure::file(path.display().to_string(), &e))?;
    if output.json {
        return print::line(&json!({ "out": path }).to_string());
    }
    print::line(&format!("rejected rows in {}", path.display()))
}
