//! An invariant that does not hold, in words that say where to look.

use crate::settings::Settings;
use std::fmt;

/// Which rule was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// SPEC 3.1
    Durable,
    /// SPEC 3.2
    OnceEach,
    /// SPEC 3.3
    Completion,
    /// SPEC 3.4
    Queues,
    /// SPEC 3.5
    Replay,
    /// SPEC 3.6
    Source,
    /// SPEC 3.7
    Limits,
    /// SPEC 3.9
    Isolation,
    /// SPEC 2: only the transitions of the state machines happen.
    Lifecycle,
    /// SPEC 6.6
    Deletion,
    /// SPEC 6.9
    Uploads,
    /// SPEC 6.11
    Ingest,
    /// SPEC 6.12
    Timeline,
    /// SPEC 6.14
    Proof,
    /// Reads are whole, ordered and agree with each other.
    Reads,
    /// The store gave an error that nothing in the simulation explains.
    Store,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Durable => "SPEC 3.1 (acknowledged means durable)",
            Rule::OnceEach => "SPEC 3.2 (once each)",
            Rule::Completion => "SPEC 3.3 (completion)",
            Rule::Queues => "SPEC 3.4 (rows are truth, queues are hints)",
            Rule::Replay => "SPEC 3.5 (replay changes nothing)",
            Rule::Source => "SPEC 3.6 (the accepted bytes are the ingested bytes)",
            Rule::Limits => "SPEC 3.7 (limits are exact)",
            Rule::Isolation => "SPEC 3.9 (isolation)",
            Rule::Lifecycle => "SPEC 2 (state machines)",
            Rule::Deletion => "SPEC 6.6 (delete)",
            Rule::Uploads => "SPEC 6.9 (uploads)",
            Rule::Ingest => "SPEC 6.11 (ingest)",
            Rule::Timeline => "SPEC 6.12 (events)",
            Rule::Proof => "SPEC 6.14 (proof)",
            Rule::Reads => "reads are whole and in order",
            Rule::Store => "the store answers",
        })
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
