//! The one list of a submit: looked at, and then sent whole or with its rows.

use super::super::failure::Failure;
use super::tell::Told;
use super::{Input, open};
use conveyor_client::{ListFile, Source, read_head};
use conveyor_domain::limits::MIB;
use conveyor_domain::{Compression, ListSpec};
use conveyor_lists::{ExpandLimits, ListError, SNIFF_BYTES, expand};
use std::io::{self, Cursor};
use tokio::io::AsyncRead;

/// A list up to this size may go inline: then whatever is wrong with a row is said before there is a job.
const INLINE_MAX_BYTES: usize = MIB;

/// A list whose first bytes are known.
pub struct Single {
    pub name: String,
    pub spec: ListSpec,
    pub compression: Compression,
    pub bytes: Source,
}

impl Single {
    /// Opens a file or standard input, and reads enough of it to say what it is.
    pub async fn open(input: Input<'_>, told: Told) -> Result<Single, Failure> {
        let name = input.name().to_owned();
        let unreadable = |e: io::Error| Failure::unreadable(&name, ListError::Read(e));
        let (mut reader, file): (Box<dyn AsyncRead + Unpin + Send>, _) = match input {
            Input::File(path) => {
                let reader = open(path).await?;
                (Box::new(reader), ListFile::of(path).await.map_err(&unreadable)?)
            }
            Input::Stdin | Input::Url(_) => (Box::new(tokio::io::stdin()), None),
        };
        let head = read_head(&mut reader, INLINE_MAX_BYTES + 1).await.map_err(unreadable)?;
        let (spec, compression) = look_at(&name, &head, told).await?;
        let bytes = match file {
            _ if head.len() <= INLINE_MAX_BYTES => Source::Memory(head),
            Some(file) => Source::File(file),
            None => Source::Reader(head, reader),
        };
        Ok(Single { name, spec, compression, bytes })
    }

    /// All bytes, if the list is short enough to be decoded here.
    pub fn short(&self) -> Option<&[u8]> {
        match (&self.bytes, self.compression) {
            (Source::Memory(bytes), Compression::None) => Some(bytes),
            (Source::Memory(_) | Source::File(_) | Source::Reader(..), _) => None,
        }
    }
}

/// What a list that begins with these bytes is.
async fn look_at(name: &str, head: &[u8], told: Told) -> Result<(ListSpec, Compression), Failure> {
    let unreadable = |e| Failure::unreadable(name, e);
    let mut expanded =
        expand(Cursor::new(head.to_vec()), ExpandLimits::default()).await.map_err(unreadable)?;
    let compression = expanded.compression();
    let first = match read_head(&mut expanded, SNIFF_BYTES).await {
        Ok(first) => first,
        Err(e) => return Err(unreadable(e.into())),
    };
    Ok((told.spec(&first).await, compression))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::args::ListFormat;
    use std::io::Write;

    async fn open(path: &std::path::Path) -> Single {
        let told = Told { format: ListFormat::Auto, delimiter: None };
        Single::open(Input::File(path.to_str().unwrap()), told).await.unwrap()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    #[tokio::test]
    async fn a_short_list_is_held_and_a_long_one_is_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        let row = "url,id\n";
        std::fs::write(&path, row.repeat(INLINE_MAX_BYTES / row.len())).unwrap();
        let list = open(&path).await;
        assert!(list.short().is_some_and(|bytes| bytes.len() > INLINE_MAX_BYTES - row.len()));
        assert_eq!(list.spec, ListSpec::Csv { csv: None });

        std::fs::write(&path, row.repeat(INLINE_MAX_BYTES / row.len() + 1)).unwrap();
        let list = open(&path).await;
        assert!(list.short().is_none());
        let Source::File(file) = list.bytes else { panic!("a file") };
        assert!(file.is_unchanged().await);
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"x").unwrap();
        assert!(!file.is_unchanged().await);
    }

    #[tokio::test]
    async fn compression_is_told_by_content_and_the_format_by_what_is_inside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list.txt");
        // Its head is the head of a gzip stream that goes on: that must not look like a broken one.
        let rows: String = (0_u64..200_000)
            .map(|i| format!("{{\"url\":\"https://a.example/{}\"}}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        let long = gzip(rows.as_bytes());
        assert!(long.len() > INLINE_MAX_BYTES, "{}", long.len());
        for bytes in [gzip(b"{\"url\":\"https://a.example\"}\n"), long] {
            std::fs::write(&path, bytes).unwrap();
            let list = open(&path).await;
            assert_eq!((list.compression, &list.spec), (Compression::Gzip, &ListSpec::Jsonl));
            assert!(list.short().is_none(), "only the server expands it");
        }
    }
}
