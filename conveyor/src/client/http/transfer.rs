//! Bodies that are too long to be held: downloads, uploads and streams.

use super::super::failure::Failure;
use super::{Api, Attempt, Patience, is_transient};
use reqwest::header::{ACCEPT, CONTENT_LENGTH, HeaderValue};
use reqwest::{Body, Method, Response, StatusCode};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::str::FromStr;
use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};
use url::Url;

/// A request that carries its own permission. It may lead elsewhere, so the key stays here.
#[derive(Debug, Deserialize)]
pub struct Signed {
    method: String,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

impl Signed {
    /// Where it leads, without what permits it.
    pub fn place(&self, server: &Url) -> Option<Url> {
        server.join(&self.url).ok().map(|url| place_of(&url))
    }
}

/// A URL without what may be secret in it.
pub fn place_of(url: &Url) -> Url {
    let mut place = url.clone();
    // It only fails for URLs without a host, which lead nowhere.
    let _ = place.set_username("");
    let _ = place.set_password(None);
    place.set_path("");
    place.set_query(None);
    place.set_fragment(None);
    place
}

impl Api {
    /// Writes what a `result_url` leads to into a file. The URL carries its own signature and may point elsewhere, so
    /// the key stays here.
    pub async fn download(&self, result_url: &str, path: &Path) -> Result<(), Failure> {
        let url =
            self.server.join(result_url).map_err(|e| Failure::not_understood(format!("result_url: {e}")))?;
        Patience::SHORT
            .retry(|| async { self.write(self.send(self.http.get(url.clone())).await?, path).await })
            .await
    }

    /// Writes what a GET of the API gives into a file.
    pub async fn save(&self, url: Url, path: &Path) -> Result<(), Failure> {
        let get =
            || async { self.write(self.send(self.with_key(self.http.get(url.clone()))).await?, path).await };
        Patience::SHORT.retry(get).await
    }

    /// A GET whose answer is read as it arrives.
    pub async fn stream(
        &self,
        url: Url,
        accept: &'static str,
        last_event_id: Option<&str>,
    ) -> Result<Response, Attempt> {
        let mut request = self.with_key(self.http.get(url)).header(ACCEPT, HeaderValue::from_static(accept));
        if let Some(id) = last_event_id {
            request = request.header("Last-Event-ID", id);
        }
        self.send(request).await
    }

    /// The next piece of a streamed answer; `None` at its end.
    pub async fn piece(&self, response: &mut Response) -> Result<Option<impl AsRef<[u8]> + use<>>, Attempt> {
        response.chunk().await.map_err(|e| self.broken(e))
    }

    /// Sends bytes to where a slot says. How long that may take is for the caller to say.
    pub async fn put(&self, to: &Signed, body: Body, bytes: u64) -> Result<(), Attempt> {
        let makes_no_sense = |what: String| Failure::not_understood(format!("the upload's request: {what}"));
        let url = self.server.join(&to.url).map_err(|e| makes_no_sense(e.to_string()))?;
        let method = Method::from_str(&to.method).map_err(|e| makes_no_sense(e.to_string()))?;
        let mut request = self.uploads.request(method, url).body(body);
        for (name, value) in &to.headers {
            request = request.header(name, value);
        }
        // Without it the body would be sent in chunks, which presigned URLs do not take.
        request = request.header(CONTENT_LENGTH, bytes);
        // The same bytes in the same place do no harm, so that even a defect of the storage is worth another try.
        let passes = |status| is_transient(status) || status == StatusCode::INTERNAL_SERVER_ERROR;
        self.send_while(request, passes).await.map(|_| ())
    }

    async fn write(&self, mut response: Response, path: &Path) -> Result<(), Attempt> {
        let not_written = |e: io::Error| Attempt::GiveUp(Failure::file(path.display().to_string(), &e));
        // Created anew for each attempt: what a broken one left is cut off.
        let mut file = BufWriter::new(File::create(path).await.map_err(not_written)?);
        while let Some(piece) = response.chunk().await.map_err(|e| self.broken(e))? {
            file.write_all(&piece).await.map_err(not_written)?;
        }
        file.shutdown().await.map_err(not_written)
    }
}
