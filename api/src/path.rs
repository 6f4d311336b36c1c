//! Ids in paths. One that cannot be parsed is answered like one that is not there.

use crate::problem::{ApiError, Result};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use std::str::FromStr;

/// An id in a path. As an extractor, the last one of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Id<T>(pub T);

impl<T: FromStr, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id<T>> {
        let params = RawPathParams::from_request_parts(parts, state).await.ok();
        let last = params.iter().flatten().last().and_then(|(_, text)| text.parse().ok());
        last.map(Id).ok_or_else(ApiError::not_found)
    }
}

impl<'de, T: FromStr> Deserialize<'de> for Id<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Id).map_err(|_| D::Error::custom("not an id"))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|found| Path(found.0)).map_err(|_| ApiError::not_found())
    }
}
