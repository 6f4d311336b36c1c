//! Lists that the API gives in pages.

use super::failure::Failure;
use super::http::{Answer, Api};
use super::print;
use futures::{Stream, TryStreamExt, stream};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::pin::pin;
use url::Url;

/// The items of a page as they were sent, for whoever wants to see fields that this client does not know.
pub type Items = Vec<Box<RawValue>>;

/// The pages of a list. The next is fetched when it is wanted, so that a long list takes no more memory than a page.
pub fn pages<'a>(
    api: &'a Api,
    url: Url,
    items: &'static str,
) -> impl Stream<Item = Result<Items, Failure>> + use<'a> {
    enum At {
        Start,
        Cursor(String),
        End,
    }
    stream::try_unfold((At::Start, url), move |(at, url)| async move {
        let cursor = match at {
            At::Start => None,
            At::Cursor(cursor) => Some(cursor),
            At::End => return Ok(None),
        };
        let (page, next) = page(api, url.clone(), items, cursor.as_deref()).await?;
        let next = match next {
            None => At::End,
            Some(next) if Some(&next) == cursor.as_ref() => {
                return Err(Failure::not_understood(format!("the cursor of the {items} does not move")));
            }
            Some(next) => At::Cursor(next),
        };
        Ok(Some((page, (next, url))))
    })
}

async fn page(
    api: &Api,
    mut url: Url,
    items: &str,
    cursor: Option<&str>,
) -> Result<(Items, Option<String>), Failure> {
    if let Some(cursor) = cursor {
        url.query_pairs_mut().append_pair("cursor", cursor);
    }
    let answer: Answer<BTreeMap<String, Box<RawValue>>> = api.get(url).await?;
    let not_understood = |e: serde_json::Error| Failure::not_understood(e.to_string());
    let Some(page) = answer.document.get(items) else {
        return Err(Failure::not_understood(format!("a page without `{items}`")));
    };
    let next = match answer.document.get("next_cursor") {
        Some(cursor) => serde_json::from_str(cursor.get()).map_err(not_understood)?,
        None => None,
    };
    Ok((serde_json::from_str(page.get()).map_err(not_understood)?, next))
}

/// One document, written as its parts arrive. If a page fails the document stays open: half a list must not pass for one.
pub async fn print_document(
    pages: impl Stream<Item = Result<Items, Failure>>,
    items: &str,
) -> Result<(), Failure> {
    let mut pages = pin!(pages);
    let opening = format!("{{\"{items}\":[");
    let mut before = opening.as_str();
    while let Some(page) = pages.try_next().await? {
        let mut text = String::new();
        for item in &page {
            text.push_str(before);
            text.push_str(item.get());
            before = ",";
        }
        print::out(&text)?;
    }
    let opening = if before == "," { "" } else { before };
    print::line(&format!("{opening}]}}"))
}
