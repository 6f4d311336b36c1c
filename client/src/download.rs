//! Answers that are too long to be held.

use crate::{Client, Error};
use bytes::Bytes;
use futures::{Stream, stream};
use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::{Method, Response};
use std::fmt::Display;
use std::io;
use std::path::Path;
use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};
use url::Url;

/// A body that is fetched in pieces, into a file or by the caller.
#[derive(Clone, Debug)]
#[must_use = "nothing is fetched yet"]
pub struct Download {
    client: Client,
    url: Url,
    /// Whether the URL is its own permission. It may lead elsewhere, so the key stays here.
    signed: bool,
}

impl Client {
    pub(crate) fn download_of(&self, segments: &[&dyn Display]) -> Download {
        Download { client: self.clone(), url: self.url(segments), signed: false }
    }

    /// What a signed URL of an answer leads to, such as the `result_url` of a task or the `download_url` of an export.
    pub fn download(&self, url: &str) -> Result<Download, Error> {
        let joined = self.server().join(url);
        let url = joined.map_err(|e| Error::NotUnderstood(format!("the URL of a download: {e}")))?;
        Ok(Download { client: self.clone(), url, signed: true })
    }
}

impl Download {
    /// Adds a parameter.
    pub fn query(mut self, name: &str, value: impl Display) -> Download {
        self.url.query_pairs_mut().append_pair(name, &value.to_string());
        self
    }

    async fn open(&self) -> Result<Response, Error> {
        let request = match self.signed {
            true => self.client.without_key(self.url.clone()),
            false => self.client.with_key(Method::GET, self.url.clone()),
        };
        self.client.send(request.header(ACCEPT, HeaderValue::from_static("*/*"))).await
    }

    /// Starts the download and gives its pieces as they arrive. Once the first has arrived nothing is repeated.
    pub async fn pieces(&self) -> Result<impl Stream<Item = Result<Bytes, Error>> + use<>, Error> {
        let response = self.client.requests().run(self.client.entropy(), || self.open()).await?;
        let client = self.client.clone();
        Ok(stream::try_unfold((response, client), |(mut response, client)| async move {
            let piece = response.chunk().await.map_err(|e| client.broken(e))?;
            Ok(piece.map(|piece| (piece, (response, client))))
        }))
    }

    /// Writes all of it into a file, from the beginning if it breaks off.
    pub async fn save(&self, path: &Path) -> Result<(), Error> {
        let attempt = || async {
            let response = self.open().await?;
            self.write(response, path).await
        };
        self.client.requests().run(self.client.entropy(), attempt).await
    }

    async fn write(&self, mut response: Response, path: &Path) -> Result<(), Error> {
        let not_written = |source: io::Error| Error::Unwritable { name: path.display().to_string(), source };
        // Created by each attempt: what a broken one left is cut off.
        let mut file = BufWriter::new(File::create(path).await.map_err(not_written)?);
        while let Some(piece) = response.chunk().await.map_err(|e| self.client.broken(e))? {
            file.write_all(&piece).await.map_err(not_written)?;
        }
        file.shutdown().await.map_err(not_written)
    }
}
