//! Records that are due, in line for their turns (SPEC 6.28).
//!
//! Records become due at the newest end of the index, as time passes: the pages from there down to the time of the last look
//! find what is new, however long the backlog behind it is. A pass over the whole index, a few pages a look, finds the rest:
//! at the start, after more than the newest pages became due between two looks, after records found no room in the line, and
//! once a minute for what was written late.
//! A look reads at most `NEWEST_PAGES + PAGES` pages of keys, and each record that is not in line yet once.

use crate::port::{DueQuery, read_each};
use crate::{Result, Store};
use conveyor_domain::backoff::Exponential;
use conveyor_domain::{CallerId, Record, RecordKey, RecordKind, Timestamp};
use conveyor_turns::{Line, Places};
use futures::FutureExt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Keys of a page, and pages of one look of a pass.
const PAGE: u32 = 200;
const PAGES: u32 = 4;
/// Pages from the newest end, of one look.
const NEWEST_PAGES: u32 = 10;
/// How long before the last look a record may have become due that this look did not see: writing takes time, and clocks
/// differ.
const NEWEST_OVERLAP_MS: i64 = 5_000;
/// How often all that is due is looked at, whatever happens.
const PASS_EVERY: Duration = Duration::from_secs(60);
/// After a pass that found more than the line holds.
const PASS_AGAIN: Duration = Duration::from_secs(5);
/// Records in line, of all callers.
const LINE_MAX: usize = 10_000;
/// How long an owner whose records could not be read is left alone, by exponential backoff.
const SILENT: Exponential = Exponential::new(Duration::from_secs(5), Duration::from_secs(60));

#[derive(Debug)]
pub struct Due<G> {
    kind: RecordKind,
    line: Line<G, RecordKey>,
    /// Of the line, by caller: one caller's backlog leaves room for the others'.
    room: Places,
    /// In line, or under way.
    known: HashSet<RecordKey>,
    /// Cannot be read. They are left alone for as long as a pass rests: every look would log them.
    damaged: HashSet<RecordKey>,
    /// Owners whose records could not be read: the partition of one of them may be throttled.
    silent: HashMap<String, Silent>,
    /// By when the last look found what is due.
    looked: Option<Timestamp>,
    pass: Option<Pass>,
    next_pass: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Silent {
    failures: u32,
    until: Instant,
}

#[derive(Debug, Default)]
struct Pass {
    after: Option<(Timestamp, RecordKey)>,
    /// Some found no room in the line, or were not answered.
    overflowed: bool,
}

impl<G: Clone + PartialEq> Due<G> {
    pub fn new(kind: RecordKind) -> Due<G> {
        Due::with_room_for(kind, LINE_MAX)
    }

    fn with_room_for(kind: RecordKind, max: usize) -> Due<G> {
        let (known, damaged) = (HashSet::new(), HashSet::new());
        let (line, room, next_pass) = (Line::default(), Places::new(max), Instant::now());
        let silent = HashMap::new();
        Due { kind, line, room, known, damaged, silent, looked: None, pass: None, next_pass }
    }

    /// Finds what is due by then. `sort` says whose a record is, and its group.
    pub async fn look(
        &mut self,
        store: &Arc<dyn Store>,
        by: Timestamp,
        sort: impl Fn(&Record) -> (CallerId, G),
    ) -> Result<()> {
        let since = self.looked.map(|looked| Timestamp(looked.0 - NEWEST_OVERLAP_MS));
        let (mut newest, mut is_full, mut missed_some) = (Vec::new(), true, true);
        for _ in 0..NEWEST_PAGES {
            let after = newest.last().cloned();
            let query = DueQuery { kind: self.kind, by, after, newest_first: true, limit: PAGE };
            let page = store.due_keys(query).await?;
            is_full = page.len() >= PAGE as usize;
            newest.extend(page);
            let last = newest.last().filter(|_| is_full);
            missed_some = last.is_some_and(|(_, key)| self.is_new(key));
            if !missed_some || last.is_some_and(|(due, _)| since.is_some_and(|since| *due < since)) {
                break;
            }
        }
        let keys = newest.into_iter().rev().map(|(_, key)| key).collect();
        let overflowed = self.add(store, by, keys, &sort).await;
        self.looked = Some(by);
        if overflowed {
            self.next_pass = self.next_pass.min(Instant::now() + PASS_AGAIN);
        }
        if self.pass.is_none() && (missed_some || Instant::now() >= self.next_pass) {
            // Without a full page there is nothing behind it.
            match is_full {
                true => self.pass = Some(Pass::default()),
                false => self.rest(PASS_EVERY),
            }
        }
        for _ in 0..PAGES {
            let Some(pass) = &self.pass else { break };
            let after = pass.after.clone();
            let query = DueQuery { kind: self.kind, by, after, newest_first: false, limit: PAGE };
            let page = store.due_keys(query).await?;
            let last = page.last().cloned().filter(|_| page.len() >= PAGE as usize);
            let overflowed = self.add(store, by, page.into_iter().map(|(_, key)| key).collect(), &sort).await;
            let Some(pass) = &mut self.pass else { break };
            pass.overflowed |= overflowed;
            match last {
                Some(last) => pass.after = Some(last),
                None => {
                    let pause = if pass.overflowed { PASS_AGAIN } else { PASS_EVERY };
                    self.rest(pause);
                }
            }
        }
        Ok(())
    }

    fn rest(&mut self, pause: Duration) {
        (self.next_pass, self.pass) = (Instant::now() + pause, None);
        self.damaged.clear();
        let now = Instant::now();
        self.silent.retain(|_, silent| now < silent.until + SILENT.cap);
    }

    fn is_new(&self, key: &RecordKey) -> bool {
        !self.known.contains(key) && !self.damaged.contains(key) && !self.is_silent(key)
    }

    fn is_silent(&self, key: &RecordKey) -> bool {
        self.silent.get(&key.owner).is_some_and(|silent| Instant::now() < silent.until)
    }

    fn note_silence(&mut self, owner: String) {
        let failures = self.silent.get(&owner).map_or(1, |silent| silent.failures + 1);
        let until = Instant::now() + SILENT.delay(failures);
        if self.silent.len() < LINE_MAX || self.silent.contains_key(&owner) {
            self.silent.insert(owner, Silent { failures, until });
        }
    }

    /// True if a pass is to look for some again: they found no room, or were not answered. A record that cannot be read costs
    /// only itself, and a partition that does not answer only what is in it.
    async fn add(
        &mut self,
        store: &Arc<dyn Store>,
        by: Timestamp,
        mut keys: Vec<RecordKey>,
        sort: impl Fn(&Record) -> (CallerId, G),
    ) -> bool {
        let mut again = keys.iter().any(|key| self.is_silent(key));
        keys.retain(|key| self.is_new(key));
        let reads = keys.into_iter().map(|key| {
            let (store, at) = (store.clone(), key.clone());
            (key, async move { store.record(&at).await }.boxed())
        });
        let place = |key: &RecordKey| (key.owner.clone(), key.id.clone());
        let read = read_each("record", place, reads.collect()).await;
        for key in read.found.iter().map(|(key, _)| key).chain(&read.damaged) {
            self.silent.remove(&key.owner);
        }
        for key in read.damaged {
            if self.damaged.len() < LINE_MAX {
                self.damaged.insert(key);
            }
        }
        again |= !read.silent.is_empty();
        let owners: HashSet<String> = read.silent.into_iter().map(|key| key.owner).collect();
        owners.into_iter().for_each(|owner| self.note_silence(owner));
        for (_, read) in read.found {
            let Some(record) = read.filter(|record| record.due.is_some_and(|due| due <= by)) else {
                continue;
            };
            let (caller, group) = sort(&record);
            if !self.room.has_room_for(caller) {
                again = true;
            } else if self.known.insert(record.key.clone()) {
                self.room.take(caller);
                self.line.push(caller, group, record.key);
            }
        }
        again
    }

    /// The next whose group may be served. It stays known until it is [`forget`](Due::forget)ten.
    pub fn take(&mut self, may: impl FnMut(CallerId, &G) -> bool) -> Option<(CallerId, G, RecordKey)> {
        let taken = self.line.take(may)?;
        self.room.leave(taken.0);
        Some(taken)
    }

    /// It is no longer under way: if it is due again, the next look finds it.
    pub fn forget(&mut self, key: &RecordKey) {
        self.known.remove(key);
    }
}

#[cfg(test)]
#[path = "due_tests.rs"]
mod tests;
