//! A list sent in one request, again if that breaks off.

use super::super::failure::Failure;
use super::super::http::{Api, Patience, Signed};
use super::super::list::ListFile;
use super::meter::Meter;
use indicatif::ProgressBar;
use std::io::Cursor;
use tokio::fs::File;

/// A list whose bytes can be had again.
pub enum Whole {
    File(ListFile),
    Memory(Vec<u8>),
}

pub async fn send(
    api: &Api,
    to: &Signed,
    name: &str,
    whole: Whole,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    match whole {
        Whole::Memory(bytes) => {
            let size = bytes.len() as u64;
            let send =
                || async { Meter::new(bar).send(api, to, name, Cursor::new(bytes.clone()), size).await };
            Patience::LONG.retry(send).await
        }
        Whole::File(file) => {
            let send = || async {
                let reader = File::open(&file.path).await.map_err(|e| Failure::unreadable(name, e.into()))?;
                Meter::new(bar).send(api, to, name, reader, file.size).await
            };
            Patience::LONG.retry(send).await?;
            if file.is_unchanged().await { Ok(()) } else { Err(Failure::file_changed(name)) }
        }
    }
}
