//! `conveyor uploads`: the slots of a caller.

use super::args::UploadsArgs;
use super::failure::Failure;
use super::print::{self, Output, clean};
use super::table::{self, Column};
use conveyor_client::Client;
use conveyor_client::wire::Input;
use conveyor_domain::limits;
use indicatif::HumanBytes;
use serde_json::json;
use std::process::ExitCode;

const COLUMNS: [Column<Input>; 6] = [
    ("upload", 28, |input| input.file_input_id.to_string()),
    ("type", 7, |input| input.kind.to_string()),
    ("status", 10, |input| input.status.to_string()),
    ("size", 12, |input| input.size_bytes.map(|size| HumanBytes(size).to_string()).unwrap_or_default()),
    ("created", 26, |input| input.created_at.to_string()),
    ("expires", 0, |input| input.expires_at.to_string()),
];

pub async fn run(api: &Client, args: &UploadsArgs, output: Output) -> Result<ExitCode, Failure> {
    match &args.abort {
        Some(upload) => abort(api, upload, output).await?,
        None => table::list(api.inputs().query("limit", limits::PAGE_MAX), &COLUMNS, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn abort(api: &Client, upload: &str, output: Output) -> Result<(), Failure> {
    api.abort_input(upload).await?;
    if output.json {
        return print::line(&json!({ "file_input_id": upload, "status": "aborted" }).to_string());
    }
    print::line(&clean(&format!("upload {upload} aborted")))
}
