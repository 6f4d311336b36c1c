//! Lists, newest first, with a budget of rows to look at (SPEC 5.3). An index says what there is, in order; what is listed of
//! it is read from the table.

use super::item::{Item, Row};
use super::jobs::READS_INFLIGHT;
use super::read::Range;
use super::{Table, keys};
use conveyor_store::port::{Page, readable};
use conveyor_store::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt::Display;

/// What is asked of a list.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<Id> {
    /// What is listed, for the log.
    pub what: &'static str,
    /// It ends the range, and is not part of the page.
    pub before: Option<Id>,
    pub limit: u32,
    pub look: u32,
}

impl Table {
    /// A page of a range that goes down from `before`. `seen` tells from a row of the range what it is and whether it may be
    /// listed; only then is it read.
    pub async fn newest<T, Id: Copy + PartialEq + Display, F>(
        &self,
        range: Range,
        wanted: Wanted<Id>,
        seen: impl Fn(&Item) -> Result<(Id, bool)>,
        load: impl Fn(Id) -> F,
    ) -> Result<Page<T, Id>>
    where
        F: Future<Output = Result<Option<T>>>,
    {
        let Wanted { what, before, limit, look } = wanted;
        let range = range.descending();
        let (mut rows, mut looked, mut last, mut from) = (Vec::new(), 0, None, None);
        loop {
            let missing = limit - u32::try_from(rows.len()).unwrap_or(limit);
            let step = missing.min(look - looked);
            // The row that is named comes first.
            let named = u32::from(from.is_none() && before.is_some());
            let step = self.step(&range.clone().by(step + named), from).await?;
            let mut found = Vec::with_capacity(step.items.len());
            for item in &step.items {
                let sort_key = || Row(item).find_text(keys::SK).ok().flatten().unwrap_or_default().to_owned();
                found.extend(readable(what, sort_key, seen(item))?);
            }
            found.retain(|(id, _)| Some(*id) != before);
            let read = found.iter().map(|(id, listed)| {
                let (id, read) = (*id, listed.then(|| load(*id)));
                async move {
                    let Some(read) = read else { return Ok(None) };
                    Ok::<_, Error>(readable(what, || id.to_string(), read.await)?.flatten())
                }
            });
            let loaded: Vec<Option<T>> =
                stream::iter(read.collect::<Vec<_>>()).buffered(READS_INFLIGHT).try_collect().await?;
            for ((id, _), row) in found.into_iter().zip(loaded) {
                if rows.len() == limit as usize {
                    return Ok(Page { rows, next: last });
                }
                rows.extend(row);
                (looked, last) = (looked + 1, Some(id));
            }
            from = step.next;
            if from.is_none() {
                return Ok(Page { rows, next: None });
            }
            if looked >= look || rows.len() == limit as usize {
                return Ok(Page { rows, next: last });
            }
        }
    }
}
