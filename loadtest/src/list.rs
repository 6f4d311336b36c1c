//! The list that is ingested: the same rows every time, told by their number, written with fixed memory.

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use tokio::task::spawn_blocking;

/// What names the columns in the first line.
pub const HEADER: &str = "id,url";
/// Hosts of the URLs.
const SHOPS: u64 = 1000;

pub fn external_id(row: u64) -> String {
    format!("item-{row:07}")
}

/// About 77 bytes, of a kind with what people fetch. The number makes it distinct, the hash makes it hard to compress.
pub fn url(row: u64) -> String {
    let hash = mix(row);
    let (shop, reference) = (hash % SHOPS, hash >> 16);
    format!("https://shop-{shop}.example.com/catalogue/products/item-{row:07}?ref={reference:012x}")
}

/// The finalizer of splitmix64: neighbours have nothing in common.
fn mix(row: u64) -> u64 {
    let mut z = row.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A list in a file.
#[derive(Clone, Debug)]
pub struct List {
    pub path: PathBuf,
    pub rows: u64,
    pub bytes: u64,
}

impl List {
    /// A CSV of `id,url` with a header.
    pub async fn write(folder: &Path, rows: u64) -> anyhow::Result<List> {
        List::create(folder.join("list.csv"), rows, |out, rows| {
            writeln!(out, "{HEADER}")?;
            (0..rows).try_for_each(|row| writeln!(out, "{},{}", external_id(row), url(row)))
        })
        .await
    }

    /// The same rows with their index before them and no header: what a database would load.
    pub async fn write_indexed(folder: &Path, rows: u64) -> anyhow::Result<List> {
        List::create(folder.join("indexed.csv"), rows, |out, rows| {
            (0..rows).try_for_each(|row| writeln!(out, "{row},{},{}", external_id(row), url(row)))
        })
        .await
    }

    /// The same bytes, compressed.
    pub async fn gzip(&self) -> anyhow::Result<List> {
        let source = self.path.clone();
        List::create(self.path.with_extension("csv.gz"), self.rows, move |out, _| {
            let mut encoder = GzEncoder::new(out, Compression::default());
            io::copy(&mut BufReader::new(File::open(source)?), &mut encoder)?;
            encoder.finish().map(drop)
        })
        .await
    }

    async fn create(
        path: PathBuf,
        rows: u64,
        fill: impl FnOnce(&mut BufWriter<File>, u64) -> io::Result<()> + Send + 'static,
    ) -> anyhow::Result<List> {
        let write = move || -> io::Result<List> {
            let mut out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
            fill(&mut out, rows)?;
            // Synced here, so that nobody who is measured later pays for writing it back.
            out.into_inner()?.sync_all()?;
            let bytes = fs::metadata(&path)?.len();
            Ok(List { path, rows, bytes })
        };
        spawn_blocking(write).await?.context("cannot write the list")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::io::Read;

    #[test]
    fn rows_are_always_the_same() {
        assert_eq!(external_id(7), "item-0000007");
        assert_eq!(url(0), "https://shop-535.example.com/catalogue/products/item-0000000?ref=e220a8397b1d");
    }

    #[test]
    fn urls_are_distinct_valid_and_of_the_usual_length() {
        let urls: HashSet<String> = (0..10_000).map(url).collect();
        assert_eq!(urls.len(), 10_000);
        assert!(urls.iter().all(|url| url.parse::<url::Url>().is_ok()));
        assert!(urls.iter().all(|url| (75..=80).contains(&url.len())));
    }

    #[tokio::test]
    async fn files_hold_the_rows_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let list = List::write(folder.path(), 1000).await.unwrap();
        let text = fs::read_to_string(&list.path).unwrap();
        assert_eq!((text.len() as u64, text.lines().next()), (list.bytes, Some(HEADER)));
        assert!((85..=95).contains(&(list.bytes / list.rows)), "a row is about 90 bytes");
        let last = text.lines().last().unwrap();
        assert_eq!(last, format!("item-0000999,{}", url(999)));
        let indexed = List::write_indexed(folder.path(), 1000).await.unwrap();
        let text = fs::read_to_string(&indexed.path).unwrap();
        assert_eq!((text.lines().count(), text.lines().last()), (1000, Some(&*format!("999,{last}"))));
    }

    #[tokio::test]
    async fn compressed_bytes_are_the_same_list() {
        let folder = tempfile::tempdir().unwrap();
        let list = List::write(folder.path(), 1000).await.unwrap();
        let gzip = list.gzip().await.unwrap();
        assert!(gzip.bytes < list.bytes / 2 && gzip.rows == list.rows);
        let mut expanded = Vec::new();
        flate2::read::GzDecoder::new(File::open(&gzip.path).unwrap()).read_to_end(&mut expanded).unwrap();
        assert_eq!(expanded, fs::read(&list.path).unwrap());
    }
}
