//! What was counted of a run: the sum of its counter rows, each of which has one writer at a time.

use super::Table;
use super::item::{Item, Row, corrupt, number};
use super::keys;
use super::read::Range;
use super::transact::{Condition, Expression};
use conveyor_domain::{Counts, FailureClass, RunId, Spend, Sums, WorkerId};
use conveyor_store::Result;
use conveyor_store::port::RunKey;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One clock for whatever this process counts, so that no two of its transactions say the same.
static CLOCK: AtomicU64 = AtomicU64::new(0);
/// No process gets here. A counter row that says more was not written by one.
const CLOCK_MAX: u64 = 1 << 53;

/// When something is counted: later than whatever this process counted so far.
pub fn next_moment() -> u64 {
    CLOCK.fetch_add(1, Ordering::Relaxed) + 1
}

/// A counter row said more than this clock: what is counted next is later than that.
pub fn go_beyond(item: &Item) -> Result<()> {
    if let Some(moment) = Row(item).find_number::<u64>("n")?.filter(|moment| *moment < CLOCK_MAX) {
        CLOCK.fetch_max(moment, Ordering::Relaxed);
    }
    Ok(())
}

/// Only forward. A call that ends without an answer frees its lane, and its transaction may still be under way: if the next
/// one on that lane is quicker, this is what refuses the late one. So whatever a counter row will ever count of the moments
/// up to its clock, it has counted already; that is what a tally builds on (SPEC 6.14).
pub fn forward(moment: u64) -> Condition {
    Condition {
        expression: "attribute_not_exists(n) OR n < :n".to_owned(),
        values: vec![(":n", number(moment))],
    }
}

/// The attribute of a counter row that counts failures of a class.
const FAILED: [&str; 7] = ["f0", "f1", "f2", "f3", "f4", "f5", "f6"];
const ADDED: [&str; 7] = [":f0", ":f1", ":f2", ":f3", ":f4", ":f5", ":f6"];

/// What adds this to a counter row, which may be less than nothing, and sets something of it.
pub fn addition(set: &str, sums: Sums, spend: Spend) -> Expression {
    let (mut terms, mut values) = (Vec::new(), Vec::new());
    if sums.successful != 0 {
        terms.push("s :s".to_owned());
        values.push((":s", number(sums.successful)));
    }
    for class in FailureClass::ALL.map(|class| class as usize) {
        if sums.failed[class] != 0 {
            terms.push(format!("{} {}", FAILED[class], ADDED[class]));
            values.push((ADDED[class], number(sums.failed[class])));
        }
    }
    for (name, added, amount) in [("cr", ":cr", spend.credits), ("co", ":co", spend.cost_nanos)] {
        if amount != 0 {
            terms.push(format!("{name} {added}"));
            values.push((added, number(amount)));
        }
    }
    let add = if terms.is_empty() { String::new() } else { format!(" ADD {}", terms.join(", ")) };
    Expression { text: format!("SET {set}{add}"), values }
}

fn decode_sums(row: Row<'_>) -> Result<Sums> {
    let mut sums = Sums { successful: row.find_number("s")?.unwrap_or(0), ..Sums::default() };
    for class in FailureClass::ALL.map(|class| class as usize) {
        sums.failed[class] = row.find_number(FAILED[class])?.unwrap_or(0);
    }
    Ok(sums)
}

/// A sum that grew past what can be told is told as the most that can.
fn decode_spend(row: Row<'_>) -> Result<Spend> {
    let amount = |name: &str| -> Result<u64> {
        Ok(u64::try_from(row.find_number::<i128>(name)?.unwrap_or(0).max(0)).unwrap_or(u64::MAX))
    };
    Ok(Spend { credits: amount("cr")?, cost_nanos: amount("co")? })
}

/// A counter row as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counter {
    sums: Sums,
    spend: Spend,
    /// `None` of one that an earlier version wrote.
    moment: Option<u64>,
}

/// What was done of a run, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub counts: Counts,
    pub spend: Spend,
}

/// Where a counter row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    Moment(u64),
    /// It is there and does not say.
    Unknown,
    /// It is not there.
    Nothing,
}

/// All counter rows of a run, each as it was when it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    of_workers: BTreeMap<String, Counter>,
    correction: Sums,
    /// How often they were corrected.
    pub revision: u64,
}

impl Counters {
    pub fn decode(run: RunId, rows: &[Item]) -> Result<Counters> {
        let (mut counters, prefix) = (Counters::default(), keys::counters(run));
        for item in rows {
            let row = Row(item);
            let name = row.text(keys::SK)?.strip_prefix(&prefix).ok_or_else(|| corrupt("counter"))?;
            let sums = decode_sums(row)?;
            if name == keys::CORRECTION {
                (counters.correction, counters.revision) = (sums, row.find_number("v")?.unwrap_or(0));
            } else {
                let counter = Counter { sums, spend: decode_spend(row)?, moment: row.find_number("n")? };
                counters.of_workers.insert(name.to_owned(), counter);
            }
        }
        Ok(counters)
    }

    pub fn sums(&self) -> Sums {
        self.of_workers.values().fold(self.correction, |sums, counter| sums.plus(counter.sums))
    }

    /// What the settles cost. A correction knows nothing of that.
    pub fn spend(&self) -> Spend {
        self.of_workers.values().fold(Spend::default(), |sum, counter| sum.plus(counter.spend))
    }

    /// As readers have it.
    pub fn counted(&self) -> Counted {
        Counted { counts: self.sums().counts(), spend: self.spend() }
    }

    pub fn reached(&self, name: &str) -> Reached {
        match self.of_workers.get(name) {
            Some(Counter { moment: Some(moment), .. }) => Reached::Moment(*moment),
            Some(Counter { moment: None, .. }) => Reached::Unknown,
            None => Reached::Nothing,
        }
    }
}

impl Table {
    pub async fn counters(&self, key: RunKey) -> Result<Counters> {
        let range = Range::of(keys::job_partition(key.job), &keys::counters(key.run));
        Counters::decode(key.run, &self.all(&range).await?)
    }

    /// Counts only grow, and never past the total: whoever reads the run after them sees no more done than there is.
    pub async fn counted(&self, key: RunKey) -> Result<Counted> {
        Ok(self.counters(key).await?.counted())
    }
}

type Taken = HashMap<(RunId, WorkerId), BTreeSet<usize>>;

/// Which of a worker's counter rows of a run are being written to. Two transactions on one row would get in each other's
/// way, so each takes a row of its own.
#[derive(Debug, Default)]
pub struct Lanes(Arc<Mutex<Taken>>);

#[derive(Debug)]
pub struct Lane {
    lanes: Arc<Mutex<Taken>>,
    of: (RunId, WorkerId),
    pub number: usize,
}

impl Lanes {
    pub fn take(&self, run: RunId, worker: WorkerId) -> Lane {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes = taken.entry((run, worker)).or_default();
        let number = (0..).find(|n| !lanes.contains(n)).unwrap_or_default();
        lanes.insert(number);
        Lane { lanes: self.0.clone(), of: (run, worker), number }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut taken = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lanes) = taken.get_mut(&self.of) {
            lanes.remove(&self.number);
            if lanes.is_empty() {
                taken.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_at_once_have_the_same_lane_and_lanes_are_used_again() {
        let (lanes, run, worker) =
            (Lanes::default(), RunId::from_bytes([1; 16]), WorkerId::from_bytes([2; 16]));
        let (a, b) = (lanes.take(run, worker), lanes.take(run, worker));
        assert_eq!((a.number, b.number), (0, 1));
        assert_eq!(lanes.take(RunId::from_bytes([3; 16]), worker).number, 0);
        drop(a);
        assert_eq!(lanes.take(run, worker).number, 0);
        drop(b);
        assert!(lanes.0.lock().unwrap().is_empty());
    }

    #[test]
    fn a_row_that_is_ahead_is_passed_by_and_one_that_cannot_be_is_not_followed() {
        let row = |moment: u64| Item::from([("n".to_owned(), number(moment))]);
        let ahead = next_moment() + 1_000;
        go_beyond(&row(ahead)).unwrap();
        assert!(next_moment() > ahead);
        go_beyond(&row(u64::MAX)).unwrap();
        assert!(next_moment() < CLOCK_MAX);
    }

    #[test]
    fn an_addition_may_take_away_and_says_nothing_of_what_does_not_change() {
        let sums = Sums { successful: -3, failed: [0, 0, 0, 2, 0, 0, 0] };
        let Expression { text, values } = addition("n = :n", sums, Spend::default());
        assert_eq!(text, "SET n = :n ADD s :s, f3 :f3");
        assert_eq!(values, [(":s", number(-3)), (":f3", number(2))]);
        assert_eq!(addition("v = :v", Sums::default(), Spend::default()).text, "SET v = :v");
        let Expression { text, values } =
            addition("n = :n", Sums::default(), Spend { credits: 0, cost_nanos: 7 });
        assert_eq!((text.as_str(), values), ("SET n = :n ADD co :co", vec![(":co", number(7))]));
    }
}
