//! Where a list goes on. A cursor is sealed for one caller and one query (SPEC 10), so it can be neither read, nor edited,
//! nor carried to another list. The page size is not part of the query: a caller may change it between pages.

use crate::problem::{ApiError, Code, Result};
use crate::state::ApiState;
use conveyor_domain::{CallerId, Entropy, Purpose, Sealed, Secret, Timestamp, limits};
use conveyor_store::port::Page;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::str::FromStr;

/// The cursors of one query of one caller.
#[derive(Debug)]
pub(crate) struct Cursors<'a> {
    secret: &'a Secret,
    entropy: &'a Entropy,
    context: String,
    now: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Inside {
    /// The last row of the page that was given, or that was looked at for it.
    at: String,
    exp: Timestamp,
}

impl<'a> Cursors<'a> {
    /// `query` names the list and everything that filters it.
    pub fn new(state: &'a ApiState, caller: CallerId, query: &str) -> Cursors<'a> {
        let context = format!("{caller}|{query}");
        Cursors { secret: &state.secret, entropy: &state.entropy, context, now: state.now() }
    }

    /// Of a list that belongs to no caller. No id of a caller is in lower case.
    pub fn of_operator(state: &'a ApiState, query: &str) -> Cursors<'a> {
        let context = format!("operator|{query}");
        Cursors { secret: &state.secret, entropy: &state.entropy, context, now: state.now() }
    }

    /// The row that the page comes after; `None` for the first page, which an empty cursor asks for too.
    pub fn open<T: FromStr>(&self, cursor: Option<&str>) -> Result<Option<T>> {
        let Some(text) = cursor.filter(|text| !text.is_empty()) else { return Ok(None) };
        let refuse =
            || ApiError::new(Code::InvalidCursor, "`cursor` is not one of this query, or has expired.");
        let sealed = Sealed(text.to_owned());
        let plain = self.secret.open(Purpose::Cursor, &self.context, &sealed).map_err(|_| refuse())?;
        let inside: Inside = serde_json::from_slice(&plain).map_err(|_| refuse())?;
        if inside.exp <= self.now {
            return Err(refuse());
        }
        inside.at.parse().map(Some).map_err(|_| refuse())
    }

    /// The cursor of what comes after this row.
    pub fn seal(&self, at: &impl Display) -> String {
        let inside = Inside { at: at.to_string(), exp: self.now.after(limits::CURSOR_TTL) };
        let plain = serde_json::to_vec(&inside).unwrap_or_default();
        self.secret.seal(Purpose::Cursor, &self.context, &plain, self.entropy).0
    }
}

/// One page of a list, as a query asks for it.
#[derive(Debug)]
pub(crate) struct Asked<'a, T> {
    /// At most so many rows. Lists are read one row past it, which shows whether there is a next page.
    pub limit: u32,
    /// The row that the page comes after.
    pub after: Option<T>,
    pub cursors: Cursors<'a>,
}

impl<T> Asked<'_, T> {
    /// Cuts rows that were read one past the limit to a page, and gives the cursor of the next one if there is a next.
    pub fn page<R, K: Display>(&self, rows: &mut Vec<R>, key: impl Fn(&R) -> K) -> Option<String> {
        let limit = self.limit as usize;
        if rows.len() <= limit {
            return None;
        }
        rows.truncate(limit);
        rows.last().map(|last| self.cursors.seal(&key(last)))
    }

    /// The same of a page that may have stopped early: then the next one goes on where it stopped looking.
    pub fn scanned<R, K: Display>(&self, page: &mut Page<R, K>, key: impl Fn(&R) -> K) -> Option<String> {
        self.page(&mut page.rows, key).or_else(|| page.next.as_ref().map(|at| self.cursors.seal(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        secret: Secret,
        entropy: Entropy,
    }

    impl World {
        fn new() -> World {
            World { secret: Secret::new([7; 32]), entropy: Entropy::from_number(1) }
        }

        fn cursors(&self, context: &str, now: i64) -> Cursors<'_> {
            let context = context.to_owned();
            Cursors { secret: &self.secret, entropy: &self.entropy, context, now: Timestamp(now) }
        }
    }

    fn opens(cursors: &Cursors<'_>, text: &str) -> bool {
        match cursors.open::<u32>(Some(text)) {
            Ok(at) => at == Some(17),
            Err(_) => false,
        }
    }

    #[test]
    fn a_cursor_opens_for_its_caller_and_query_only() {
        let world = World::new();
        let text = world.cursors("A|jobs|open", 0).seal(&17);
        assert!(opens(&world.cursors("A|jobs|open", 5), &text));
        assert!(!opens(&world.cursors("B|jobs|open", 5), &text), "another caller");
        assert!(!opens(&world.cursors("A|jobs|closed", 5), &text), "another query");
        let other = World { secret: Secret::new([8; 32]), ..World::new() };
        assert!(!opens(&other.cursors("A|jobs|open", 5), &text), "another deployment");
    }

    #[test]
    fn an_edited_cursor_does_not_open() {
        let world = World::new();
        let cursors = world.cursors("A|jobs", 0);
        let text = cursors.seal(&17);
        for at in 0..text.len() {
            let mut edited = text.clone().into_bytes();
            edited[at] = if edited[at] == b'A' { b'B' } else { b'A' };
            assert!(!opens(&cursors, std::str::from_utf8(&edited).unwrap()), "at {at}");
        }
        for bad in ["x", "====", &text[..text.len() - 1]] {
            assert!(!opens(&cursors, bad), "{bad:?}");
        }
    }

    #[test]
    fn a_cursor_expires() {
        let world = World::new();
        let text = world.cursors("A", 0).seal(&17);
        let ttl_ms = i64::try_from(limits::CURSOR_TTL.as_millis()).unwrap();
        assert!(opens(&world.cursors("A", ttl_ms - 1), &text));
        assert!(!opens(&world.cursors("A", ttl_ms), &text));
    }

    #[test]
    fn only_a_page_with_a_successor_has_a_cursor() {
        let world = World::new();
        let asked = Asked { limit: 2, after: None::<u32>, cursors: world.cursors("A", 0) };
        let mut rows = vec![15u32, 17];
        assert_eq!(asked.page(&mut rows, |n| *n), None);
        rows.push(19);
        let next = asked.page(&mut rows, |n| *n).unwrap();
        assert_eq!(rows, [15, 17]);
        assert!(opens(&asked.cursors, &next));
    }

    #[test]
    fn a_page_that_stopped_early_goes_on_where_it_stopped() {
        let world = World::new();
        let asked = Asked { limit: 2, after: None::<u32>, cursors: world.cursors("A", 0) };
        let next = |rows, next| asked.scanned(&mut Page { rows, next }, |n| *n);
        assert!(opens(&asked.cursors, &next(vec![], Some(17)).unwrap()), "an empty page");
        assert!(
            opens(&asked.cursors, &next(vec![15, 17, 19], Some(19)).unwrap()),
            "a full one goes by its last row"
        );
        assert_eq!(next(vec![15, 17], None), None);
    }
}
