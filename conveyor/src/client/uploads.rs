//! `conveyor uploads`: the slots of a caller.

use super::args::UploadsArgs;
use super::failure::Failure;
use super::http::Api;
use super::paging;
use super::print::{self, Output, clean};
use conveyor_domain::limits;
use futures::StreamExt;
use indicatif::HumanBytes;
use serde::Deserialize;
use serde_json::json;
use std::pin::pin;
use std::process::ExitCode;

const HEADER: [&str; 6] = ["upload", "type", "status", "size", "created", "expires"];
const WIDTHS: [u16; 5] = [28, 7, 10, 12, 26];

#[derive(Debug, Deserialize)]
struct Row {
    file_input_id: String,
    #[serde(rename = "type")]
    kind: String,
    status: String,
    size_bytes: Option<u64>,
    created_at: Option<String>,
    expires_at: Option<String>,
}

pub async fn run(api: &Api, args: &UploadsArgs, output: Output) -> Result<ExitCode, Failure> {
    match &args.abort {
        Some(upload) => abort(api, upload, output).await?,
        None => list(api, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn abort(api: &Api, upload: &str, output: Output) -> Result<(), Failure> {
    api.delete(api.url(&["job_inputs", upload])).await?;
    if output.json {
        return print::line(&json!({ "file_input_id": upload, "status": "aborted" }).to_string());
    }
    print::line(&clean(&format!("upload {upload} aborted")))
}

async fn list(api: &Api, output: Output) -> Result<(), Failure> {
    let mut url = api.url(&["job_inputs"]);
    url.query_pairs_mut().append_pair("limit", &limits::PAGE_MAX.to_string());
    let pages = paging::pages(api, url, "job_inputs");
    if output.json {
        return paging::print_document(pages, "job_inputs").await;
    }
    let mut pages = pin!(pages.enumerate());
    while let Some((n, page)) = pages.next().await {
        let mut table = print::plain_table();
        if n == 0 {
            table.set_header(HEADER);
        }
        for item in &page? {
            let row: Row =
                serde_json::from_str(item.get()).map_err(|e| Failure::not_understood(e.to_string()))?;
            let size = row.size_bytes.map(|size| HumanBytes(size).to_string()).unwrap_or_default();
            let (created, expires) = (row.created_at.unwrap_or_default(), row.expires_at.unwrap_or_default());
            let cells = [row.file_input_id, row.kind, row.status, size, created, expires];
            table.add_row(cells.map(|cell| clean(&cell)));
        }
        print::fix_widths(&mut table, &WIDTHS);
        if n == 0 || !table.is_empty() {
            print::print_table(table)?;
        }
    }
    Ok(())
}
