//! A list sent in one request: again if that breaks off, as long as its bytes can be had again.

use super::super::failure::Failure;
use super::super::http::{Api, Attempt, Patience, Signed};
use super::super::list::Bytes;
use super::meter::Meter;
use indicatif::ProgressBar;
use std::io::Cursor;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

pub async fn send(
    api: &Api,
    to: &Signed,
    name: &str,
    bytes: Bytes,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    match bytes {
        Bytes::Stream(head, rest) => {
            let reader = Cursor::new(head).chain(rest);
            Meter::new(bar).send(api, to, name, reader, None).await.map_err(Attempt::into_failure)
        }
        Bytes::Memory(bytes) => {
            let size = Some(bytes.len() as u64);
            let send =
                || async { Meter::new(bar).send(api, to, name, Cursor::new(bytes.clone()), size).await };
            Patience::LONG.retry(send).await
        }
        Bytes::File(file) => {
            let send = || async {
                let reader = File::open(&file.path).await.map_err(|e| Failure::unreadable(name, e.into()))?;
                Meter::new(bar).send(api, to, name, reader, Some(file.size)).await
            };
            Patience::LONG.retry(send).await?;
            if file.is_unchanged().await { Ok(()) } else { Err(Failure::file_changed(name)) }
        }
    }
}
