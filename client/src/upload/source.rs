use crate::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The bytes of a list.
pub enum Source {
    /// A file: its parts can be read again.
    File(ListFile),
    /// All of it.
    Memory(Vec<u8>),
    /// Something that can be read once, such as a pipe: what was read of it, and the rest.
    Reader(Vec<u8>, Box<dyn AsyncRead + Unpin + Send>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(file) => f.debug_tuple("File").field(file).finish(),
            Source::Memory(bytes) => f.debug_tuple("Memory").field(&bytes.len()).finish(),
            Source::Reader(head, _) => f.debug_tuple("Reader").field(&head.len()).finish_non_exhaustive(),
        }
    }
}

impl Source {
    /// What there is in a path: a file, or a pipe, which is read once.
    pub async fn open(path: impl AsRef<Path>) -> Result<Source, Error> {
        let path = path.as_ref();
        let unreadable = |source| Error::Unreadable { name: path.display().to_string(), source };
        let reader = tokio::fs::File::open(path).await.map_err(unreadable)?;
        Ok(match ListFile::of(path).await.map_err(unreadable)? {
            Some(file) => Source::File(file),
            None => Source::reader(reader),
        })
    }

    pub fn reader(reader: impl AsyncRead + Unpin + Send + 'static) -> Source {
        Source::Reader(Vec::new(), Box::new(reader))
    }

    /// Reads enough of what can be read only once to know whether it is a part, or all of it: signed URLs take nothing
    /// whose length is not known, and a part that breaks off can be sent again.
    pub(crate) async fn begun(self, part_bytes: u64) -> io::Result<Source> {
        let Source::Reader(mut first, mut rest) = self else { return Ok(self) };
        let part_bytes = usize::try_from(part_bytes).unwrap_or(usize::MAX);
        let missing = part_bytes.saturating_sub(first.len());
        first.extend(read_head(&mut rest, missing).await?);
        Ok(if first.len() < part_bytes { Source::Memory(first) } else { Source::Reader(first, rest) })
    }
}

/// The first bytes, as many as wanted if there are so many, however small the reads.
pub async fn read_head(reader: &mut (impl AsyncRead + Unpin), bytes: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.take(bytes as u64).read_to_end(&mut head).await?;
    Ok(head)
}

/// A file as it was when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFile {
    pub path: PathBuf,
    pub size: u64,
    modified: Option<SystemTime>,
}

impl ListFile {
    /// `None` for what is no regular file.
    pub async fn of(path: impl Into<PathBuf>) -> io::Result<Option<ListFile>> {
        let path = path.into();
        let metadata = tokio::fs::metadata(&path).await?;
        let file = ListFile { path, size: metadata.len(), modified: metadata.modified().ok() };
        Ok(metadata.is_file().then_some(file))
    }

    /// Whether it is still the file that was opened. One that grows would be cut in the middle of a row.
    pub async fn is_unchanged(&self) -> bool {
        let now = ListFile::of(self.path.clone()).await;
        now.is_ok_and(|now| now.as_ref() == Some(self))
    }

    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }
}
