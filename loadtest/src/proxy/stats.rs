//! What the proxy saw and did.

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Names of operations come from callers.
const OPERATIONS_MAX: usize = 100;

#[derive(Debug, Default)]
pub struct Stats(Mutex<Counts>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Calls that arrived, by operation.
    pub calls: BTreeMap<String, u64>,
    pub faults: BTreeMap<Fault, u64>,
    /// Calls that reached the upstream, whole or in part, and were answered there.
    pub forwarded: u64,
    /// Calls that the upstream did not answer, by no doing of ours: hung up on.
    pub upstream_failed: u64,
}

/// Named as in the settings of the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    Throttle,
    DropRequests,
    DropAnswers,
    Conflict,
    Partial,
    /// A call that had to wait until it was over.
    Blocked,
    /// A blocked call whose caller disconnected before it was over.
    GaveUp,
}

impl Stats {
    pub fn count_call(&self, operation: &str) {
        self.update(|counts| {
            let known = counts.calls.len() < OPERATIONS_MAX || counts.calls.contains_key(operation);
            let name = if known { operation } else { super::service::OTHER };
            *counts.calls.entry(name.to_owned()).or_default() += 1;
        });
    }

    pub fn count_fault(&self, fault: Fault) {
        self.update(|counts| *counts.faults.entry(fault).or_default() += 1);
    }

    pub fn count_forwarded(&self, answered: bool) {
        self.update(|counts| match answered {
            true => counts.forwarded += 1,
            false => counts.upstream_failed += 1,
        });
    }

    pub fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn update(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_by_name() {
        let stats = Stats::default();
        stats.count_call("PutItem");
        stats.count_call("PutItem");
        stats.count_fault(Fault::DropAnswers);
        stats.count_forwarded(true);
        let counts = json!({
            "calls": { "PutItem": 2 }, "faults": { "drop_answers": 1 }, "forwarded": 1, "upstream_failed": 0,
        });
        assert_eq!(serde_json::to_value(stats.counts()).unwrap(), counts);
        (0..OPERATIONS_MAX).for_each(|n| stats.count_call(&n.to_string()));
        let counts = stats.counts();
        assert_eq!((counts.calls.len(), counts.calls["Other"]), (OPERATIONS_MAX + 1, 1));
    }
}
