//! `conveyor export`: the results of a run in one file. The server builds it, whoever looks on; what is broken off here can
//! be gone on with.

use super::args::{self, ExportArgs};
use super::document::{Export, StartedExport};
use super::failure::Failure;
use super::http::{Answer, Api};
use super::print::{self, Output};
use super::progress::{self, unless_interrupted};
use super::rejected::latest_run;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use tokio::fs;
use url::Url;

const POLL_FIRST: Duration = Duration::from_millis(200);
const POLL_MAX: Duration = Duration::from_secs(2);
/// Looks in a row without an answer before it is given up: long enough for a server to be restarted.
const SILENT_MAX: u32 = 10;
const BUILDING: &str = "building {bar:24} {pos}/{len} {rate}, eta {eta}, {wide_msg}";

pub async fn run(api: &Api, args: &ExportArgs, output: Output) -> Result<ExitCode, Failure> {
    let run = match &args.run {
        Some(run) => run.clone(),
        None => latest_run(api, &args.job).await?,
    };
    let exports = ["jobs", &args.job, "runs", &run, "exports"];
    let id = match &args.export {
        Some(id) => id.clone(),
        None => {
            // Sent again if its answer is lost: one export too many is removed by itself.
            let format = json!({ "format": args::word(args.format) });
            let started: Answer<StartedExport> = api.post_again(api.url(&exports), Some(&format)).await?;
            started.document.export_id
        }
    };
    let mut place = exports.to_vec();
    place.push(&id);
    let fetching = fetch(api, args, api.url(&place), output);
    let fetched = unless_interrupted(fetching)
        .await
        .unwrap_or_else(|| Err(Failure::stopped("the file was not fetched")));
    let export = fetched.map_err(|failure| match failure.has_code(Failure::EXPORT_FAILED) {
        true => failure,
        // It goes on, and can be had for 12 hours.
        false => failure.with_export(&args.job, &run, &id, &args.out),
    })?;
    let bytes = export.progress.bytes;
    if output.json {
        let document = json!({ "export_id": id, "run_id": run, "format": export.format, "out": args.out,
                               "tasks": export.progress.tasks_done, "bytes": bytes });
        print::line(&document.to_string())?;
    } else {
        let tasks = export.progress.tasks_done;
        print::line(&format!("{tasks} tasks, {bytes} bytes in {}", args.out.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn fetch(api: &Api, args: &ExportArgs, url: Url, output: Output) -> Result<Export, Failure> {
    let export = finished(api, url, output).await?;
    let Some(download_url) = &export.download_url else {
        return Err(Failure::not_understood("a completed export has no download_url"));
    };
    let unfinished = args.out.with_added_extension("part");
    api.download(download_url, &unfinished).await?;
    // Under its name there is a whole file or none.
    let renamed = fs::rename(&unfinished, &args.out).await;
    renamed.map_err(|e| Failure::file(args.out.display().to_string(), &e))?;
    Ok(export)
}

/// Polls until the export is there, or has failed.
async fn finished(api: &Api, url: Url, output: Output) -> Result<Export, Failure> {
    let bar = progress::bar(output, BUILDING);
    let (mut wait, mut silent) = (POLL_FIRST, 0);
    loop {
        match api.get::<Export>(url.clone()).await {
            Ok(Answer { document: export, .. }) => {
                silent = 0;
                bar.set_length(export.progress.tasks_total);
                bar.set_position(export.progress.tasks_done);
                bar.set_message(format!("{} bytes", export.progress.bytes));
                match export.status.as_str() {
                    "completed" => return Ok(export),
                    "failed" => return Err(Failure::export_failed(export.error.as_deref())),
                    _ => {}
                }
            }
            Err(failure) if failure.is_answer() || silent == SILENT_MAX => return Err(failure),
            Err(_) => silent += 1,
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 5 / 4).min(POLL_MAX);
    }
}
