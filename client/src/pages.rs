//! Lists that the API gives in pages.

use crate::{Answer, Call, Error, Raw};
use futures::{Stream, TryStreamExt, future, stream};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::Display;

/// A list. The next page is fetched when it is wanted, so that a long list takes no more memory than a page.
#[derive(Debug)]
#[must_use = "nothing is fetched before the stream is polled"]
pub struct Pages<T> {
    call: Call<T>,
    /// What the items are called in an answer.
    items: &'static str,
}

impl<T: DeserializeOwned> Pages<T> {
    pub(crate) fn new(call: Call<T>, items: &'static str) -> Pages<T> {
        Pages { call, items }
    }

    /// Adds a parameter, such as a filter, or the `limit` of a page.
    pub fn query(self, name: &str, value: impl Display) -> Pages<T> {
        Pages { call: self.call.query(name, value), ..self }
    }

    /// What the items are called in a page.
    pub fn name(&self) -> &'static str {
        self.items
    }

    /// Item after item.
    pub fn items(self) -> impl Stream<Item = Result<T, Error>> {
        self.raw().and_then(|item| future::ready(item.read()))
    }

    /// Item after item, as it was sent.
    pub fn raw(self) -> impl Stream<Item = Result<Raw<T>, Error>> {
        self.pages().map_ok(|page| stream::iter(page.into_iter().map(Ok))).try_flatten()
    }

    /// Page after page, with the items as they were sent.
    pub fn pages(self) -> impl Stream<Item = Result<Vec<Raw<T>>, Error>> {
        let Pages { call, items } = self;
        let (client, url) = call.parts();
        stream::try_unfold(Some(None::<String>), move |at| {
            let (client, mut url) = (client.clone(), url.clone());
            async move {
                let Some(cursor) = at else { return Ok(None) };
                if let Some(cursor) = &cursor {
                    url.query_pairs_mut().append_pair("cursor", cursor);
                }
                let (page, next) = read(Call::of_url(&client, Method::GET, url).await?, items)?;
                if next.is_some() && next == cursor {
                    return Err(Error::NotUnderstood(format!("the cursor of the {items} does not move")));
                }
                Ok(Some((page, next.map(Some))))
            }
        })
    }
}

type Page = BTreeMap<String, Box<RawValue>>;

/// The items of a page, and the cursor of the next.
fn read<T: DeserializeOwned>(
    answer: Answer<Page>,
    items: &str,
) -> Result<(Vec<Raw<T>>, Option<String>), Error> {
    let Some(page) = answer.get(items) else {
        return Err(Error::NotUnderstood(format!("a page without `{items}`")));
    };
    let page: Vec<Box<RawValue>> = serde_json::from_str(page.get()).map_err(Error::not_understood)?;
    let next = answer.get("next_cursor").map(|cursor| serde_json::from_str(cursor.get()));
    let next: Option<Option<String>> = next.transpose().map_err(Error::not_understood)?;
    Ok((page.into_iter().map(Raw::new).collect(), next.flatten()))
}
