//! `conveyor export`: the results of a run in one file. The server builds it, whoever looks on; what is broken off here can
//! be gone on with.

use super::args::ExportArgs;
use super::failure::Failure;
use super::print::{self, Output};
use super::progress::{self, unless_interrupted};
use super::rejected::latest_run;
use conveyor_client::Client;
use conveyor_client::wire::{Export, ExportStatus};
use futures::TryStreamExt;
use serde_json::json;
use std::process::ExitCode;
use tokio::fs;

const BUILDING: &str = "building {bar:24} {pos}/{len} {rate}, eta {eta}, {wide_msg}";

pub async fn run(api: &Client, args: &ExportArgs, output: Output) -> Result<ExitCode, Failure> {
    let run = match &args.run {
        Some(run) => run.clone(),
        None => latest_run(api, &args.job).await?,
    };
    let id = match &args.export {
        Some(id) => id.clone(),
        None => api.start_export(&args.job, &run, args.format.into()).await?.export_id.to_string(),
    };
    let fetched = unless_interrupted(fetch(api, args, &run, &id, output))
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

async fn fetch(
    api: &Client,
    args: &ExportArgs,
    run: &str,
    id: &str,
    output: Output,
) -> Result<Export, Failure> {
    let bar = progress::bar(output, BUILDING);
    let mut looks = api.watch_export(&args.job, run, id);
    while let Some(answer) = looks.try_next().await? {
        let export = answer.document;
        bar.set_length(export.progress.tasks_total.into());
        bar.set_position(export.progress.tasks_done.into());
        bar.set_message(format!("{} bytes", export.progress.bytes));
        match export.status.known() {
            Some(ExportStatus::Completed) => return save(api, args, export).await,
            Some(ExportStatus::Failed) => return Err(Failure::export_failed(export.error.as_deref())),
            Some(ExportStatus::Pending | ExportStatus::Running) | None => {}
        }
    }
    Err(Failure::not_understood("an export without end"))
}

async fn save(api: &Client, args: &ExportArgs, export: Export) -> Result<Export, Failure> {
    let Some(download_url) = &export.download_url else {
        return Err(Failure::not_understood("a completed export has no download_url"));
    };
    let unfinished = args.out.with_added_extension("part");
    api.download(download_url)?.save(&unfinished).await?;
    // Under its name there is a whole file or none.
    let renamed = fs::rename(&unfinished, &args.out).await;
    renamed.map_err(|e| Failure::file(args.out.display().to_string(), &e))?;
    Ok(export)
}
