//! An invariant that does not hold, in words that say where to look.

use crate::settings::Settings;
use std::fmt;

conveyor_domain::words! {
    /// Which rule was broken.
    pub enum Rule {
        Durable = "SPEC 3.1 (acknowledged means durable)",
        OnceEach = "SPEC 3.2 (once each)",
        Completion = "SPEC 3.3 (completion)",
        Queues = "SPEC 3.4 (rows are truth, queues are hints)",
        Replay = "SPEC 3.5 (replay changes nothing)",
        Source = "SPEC 3.6 (the accepted bytes are the ingested bytes)",
        Limits = "SPEC 3.7 (limits are exact)",
        Isolation = "SPEC 3.9 (isolation)",
        Lifecycle = "SPEC 2 (state machines)",
        Deletion = "SPEC 6.6 (delete)",
        Uploads = "SPEC 6.9 (uploads)",
        Ingest = "SPEC 6.11 (ingest)",
        Timeline = "SPEC 6.12 (events)",
        Proof = "SPEC 6.14 (proof)",
        Reads = "reads are whole and in order",
        Store = "the store answers",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}

pub type Check<T = ()> = Result<T, Violation>;

/// The text is made only when the rule is broken.
pub fn require(holds: bool, rule: Rule, text: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Violation { rule, text: text() }) }
}

/// A violation, where it happened and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub step: u64,
    pub settings: Settings,
    pub violation: Violation,
    pub recent: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, step {}: {}", self.seed, self.step, self.violation)?;
        writeln!(f, "what led to it:")?;
        self.recent.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        let Settings { steps, fault_rate, audit_every, .. } = self.settings;
        write!(f, "see it again: sim replay --seed {} --steps {steps}", self.seed)?;
        write!(f, " --fault-rate {fault_rate} --audit-every {audit_every} --trace")
    }
}

impl std::error::Error for Failure {}
