//! One request of the API and its answer.

use crate::{Answer, Client, Error, Retries};
use bytes::Bytes;
use futures::future::BoxFuture;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use url::Url;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request that is sent when it is awaited. It is repeated if its answer is lost, as long as a repeat does no harm.
#[must_use = "a call is sent when it is awaited"]
pub struct Call<T> {
    client: Client,
    method: Method,
    url: Url,
    body: Result<Option<Bytes>, Error>,
    repeat: Repeat,
    answer: PhantomData<fn() -> T>,
}

#[derive(Debug)]
enum Repeat {
    /// Whether it was carried out is not known after a lost answer.
    Never,
    /// Whether it arrives once or twice makes no difference.
    Harmless,
    /// The server carries it out once, however often it arrives under this `Idempotency-Key`.
    Keyed(String),
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("method", &self.method).field("path", &self.url.path()).finish()
    }
}

impl<T> Call<T> {
    pub(crate) fn new(client: &Client, method: Method, segments: &[&dyn Display]) -> Call<T> {
        Call::of_url(client, method, client.url(segments))
    }

    pub(crate) fn of_url(client: &Client, method: Method, url: Url) -> Call<T> {
        let repeat = match method {
            Method::GET | Method::PATCH | Method::PUT => Repeat::Harmless,
            _ => Repeat::Never,
        };
        Call { client: client.clone(), method, url, body: Ok(None), repeat, answer: PhantomData }
    }

    /// Adds a parameter, such as a filter.
    pub fn query(mut self, name: &str, value: impl Display) -> Call<T> {
        self.url.query_pairs_mut().append_pair(name, &value.to_string());
        self
    }

    /// Sends the request under this `Idempotency-Key` instead of a random one, so that a program that starts again can
    /// repeat it.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Call<T> {
        self.repeat = Repeat::Keyed(key.into());
        self
    }

    /// What this client sends is what its user meant, or a mistake: the server refuses fields that it does not know.
    pub(crate) fn json(self, body: &(impl Serialize + ?Sized)) -> Call<T> {
        let body = serde_json::to_vec(body).map(|json| Some(json.into()));
        Call { body: body.map_err(|e| Error::Usage(e.to_string())), ..self.query("strict", true) }
    }

    /// For a POST that changes nothing, or nothing that matters, when it arrives twice.
    pub(crate) fn harmless(self) -> Call<T> {
        Call { repeat: Repeat::Harmless, ..self }
    }

    /// For a request that somebody else repeats.
    pub(crate) fn once(self) -> Call<T> {
        Call { repeat: Repeat::Never, ..self }
    }

    /// For a POST that makes something.
    pub(crate) fn keyed(self) -> Call<T> {
        match self.client.requests().max {
            0 => self,
            _ => {
                let key = self.client.random_key();
                self.idempotency_key(key)
            }
        }
    }

    pub(crate) fn parts(self) -> (Client, Url) {
        (self.client, self.url)
    }

    async fn text(&self) -> Result<String, Error> {
        let body = match &self.body {
            Ok(body) => body,
            Err(error) => return Err(Error::Usage(error.to_string())),
        };
        let attempt = || async {
            let mut request = self.client.with_key(self.method.clone(), self.url.clone());
            if let Some(body) = body {
                request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
            }
            if let Repeat::Keyed(key) = &self.repeat {
                request = request.header(IDEMPOTENCY_KEY, key);
            }
            let response = self.client.send(request).await?;
            response.text().await.map_err(|e| self.client.broken(e))
        };
        let retries = match self.repeat {
            Repeat::Never => Retries::NONE,
            Repeat::Harmless | Repeat::Keyed(_) => self.client.requests(),
        };
        retries.run(self.client.entropy(), attempt).await
    }
}

impl<T: DeserializeOwned> Call<T> {
    /// Sends it, where what is asked for may not be there.
    pub async fn find(self) -> Result<Option<Answer<T>>, Error> {
        match self.text().await {
            Ok(text) => Answer::read(text).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl<T: DeserializeOwned + Send + 'static> IntoFuture for Call<T> {
    type Output = Result<Answer<T>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Answer::read(self.text().await?) })
    }
}
