//! Uploads a CSV of a million rows as it is made, with progress, and submits a job of it.
//!
//! `CONVEYOR_API_KEY=... cargo run --example upload_million`

mod connection;

use conveyor_client::wire::{Character, CreateInput, CsvBody, CsvFields, ListType, SubmitJob};
use conveyor_client::{Column, Moved, Source};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncWriteExt, BufWriter};

const ROWS: u32 = 1_000_000;
const REPORT_EVERY: u64 = 8 * 1024 * 1024;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = connection::from_environment()?;
    let fields =
        CsvFields { url: Column::Name("url".to_owned()), external_id: Some(Column::Name("id".to_owned())) };
    let csv = CsvBody { delimiter: Some(Character(b',')), quote: None, header: Some(true), fields };
    let list = CreateInput { csv: Some(csv), ..CreateInput::of(ListType::Csv) };
    // A file is uploaded with `Source::open(path)`, and can be resumed.
    let (writer, reader) = tokio::io::duplex(64 * 1024);
    let writing = tokio::spawn(async move {
        let mut writer = BufWriter::new(writer);
        writer.write_all(b"id,url\n").await?;
        for row in 0..ROWS {
            writer.write_all(format!("{row},https://example.com/{row}\n").as_bytes()).await?;
        }
        writer.shutdown().await
    });
    let sent = AtomicU64::new(0);
    let report = move |moved| {
        let now = match moved {
            Moved::Sent(bytes) | Moved::AlreadyThere(bytes) => {
                sent.fetch_add(bytes, Ordering::Relaxed) + bytes
            }
            Moved::Lost(bytes) => sent.fetch_sub(bytes, Ordering::Relaxed) - bytes,
        };
        if now % REPORT_EVERY < 256 * 1024 {
            eprintln!("{} MiB", now / (1024 * 1024));
        }
    };
    let upload = client.begin_upload(list, Source::reader(reader), None).await?;
    let upload = upload.on_progress(report).send().await?;
    writing.await??;

    let job: SubmitJob = SubmitJob { file_input_id: Some(upload.to_string()), ..SubmitJob::default() };
    println!("job {}", client.submit(&job).await?.job_id);
    Ok(())
}
