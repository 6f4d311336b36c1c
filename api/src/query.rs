//! Query parameters. One that a route does not know is refused, so that a misspelt filter is not silently dropped.

use crate::cursor::{Asked, Cursors};
use crate::problem::{ApiError, Result};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use conveyor_domain::job::failure::cut;
use conveyor_domain::limits;
use std::collections::BTreeMap;
use std::str::FromStr;

/// The parameters of a request, before the route has said which it knows.
#[derive(Clone, Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Query> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        pairs.map(|pairs| Query(pairs.0)).map_err(|_| ApiError::invalid("The query string cannot be read."))
    }
}

/// Of a route without parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoQuery;

impl<S: Send + Sync> FromRequestParts<S> for NoQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<NoQuery> {
        Query::from_request_parts(parts, state).await?.only(&[]).map(|_| NoQuery)
    }
}

impl Query {
    /// Of a list without filters.
    pub fn page<'a, T: FromStr>(self, cursors: Cursors<'a>) -> Result<Asked<'a, T>> {
        self.only(&["limit", "cursor"])?.page(cursors, limits::PAGE_DEFAULT, limits::PAGE_MAX)
    }

    pub fn only(self, known: &[&'static str]) -> Result<Params> {
        let mut params = BTreeMap::new();
        for (name, value) in self.0 {
            let Some(known) = known.iter().find(|k| **k == name) else {
                let name = cut(&name, limits::ECHO_MAX_CHARS);
                return Err(ApiError::invalid(format!("`{name}` is not a parameter of this route.")));
            };
            if params.insert(*known, value).is_some() {
                return Err(ApiError::invalid(format!("`{known}` is given twice.")));
            }
        }
        Ok(Params(params))
    }
}

/// Parameters that the route knows, each given at most once.
#[derive(Clone, Debug)]
pub(crate) struct Params(BTreeMap<&'static str, String>);

impl Params {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    #[cfg(test)]
    pub fn of(pairs: &[(&'static str, &str)]) -> Params {
        Params(pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    }

    /// The page of a list that is asked for, of at most so many rows.
    pub fn page<'a, T: FromStr>(&self, cursors: Cursors<'a>, default: u32, max: u32) -> Result<Asked<'a, T>> {
        let limit = self.limit(default, max)?;
        Ok(Asked { limit, after: cursors.open(self.get("cursor"))?, cursors })
    }

    fn limit(&self, default: u32, max: u32) -> Result<u32> {
        let Some(text) = self.get("limit") else { return Ok(default) };
        let limit = text.parse().ok().filter(|n| (1..=max).contains(n));
        limit.ok_or_else(|| ApiError::invalid(format!("`limit` must be a number from 1 to {max}.")))
    }

    /// One of a few words; `None` if the parameter is absent.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let found = choices.iter().find(|(word, _)| *word == text).map(|(_, value)| Some(*value));
        found.ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            ApiError::invalid(format!("`{name}` must be one of: {}.", words.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Query {
        Query(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        assert!(query(&[]).only(&[]).is_ok());
        assert!(query(&[("x", "")]).only(&[]).is_err());
        assert!(query(&[("limit", "1"), ("limit", "1")]).only(&["limit"]).is_err());
        assert!(query(&[("limit", "1")]).only(&["limit", "cursor"]).is_ok());
    }

    #[test]
    fn a_limit_has_a_range() {
        let limit = |text| query(&[("limit", text)]).only(&["limit"]).unwrap().limit(50, 100);
        assert_eq!(limit("1").unwrap(), 1);
        assert_eq!(limit("100").unwrap(), 100);
        for bad in ["0", "101", "-1", "", "ten", "1e1", "99999999999"] {
            assert!(limit(bad).is_err(), "{bad:?}");
        }
        assert_eq!(query(&[]).only(&[]).unwrap().limit(50, 100).unwrap(), 50);
    }
}
