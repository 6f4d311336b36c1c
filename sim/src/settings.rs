//! What a simulation can be told.

/// How likely each fault is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// Of each store operation: it never arrives, and no answer comes.
    pub lost_request: f64,
    /// Of each store operation: it is carried out, and no answer comes.
    pub lost_answer: f64,
    /// Of each store operation: the process is killed before or after it.
    pub crash: f64,
    /// Of each step of a worker or an ingester: it is gone with all it knew, and another incarnation takes its place.
    pub worker_death: f64,
    /// Of each step of a worker or an ingester: it stands still for longer than its messages stay hidden, while the others go on.
    pub worker_stall: f64,
    /// Of each step: time passes beyond every timeout there is.
    pub time_jump: f64,
    /// Of each step: a queue delivers a message once more.
    pub duplicate: f64,
    /// Of each step: a queue loses a message.
    pub lost_message: f64,
    /// Of each step: other bytes are written over a list that is being read.
    pub tampering: f64,
    /// Of each step: staged bytes can hardly be read for a while.
    pub outage: f64,
    /// Of each accept: other bytes are staged after the slot was looked at.
    pub racing_put: f64,
}

impl Faults {
    pub const NONE: Faults = Faults::USUAL.times(0.0);
    pub const USUAL: Faults = Faults {
        lost_request: 0.015,
        lost_answer: 0.03,
        crash: 0.003,
        worker_death: 0.01,
        worker_stall: 0.008,
        time_jump: 0.008,
        duplicate: 0.01,
        lost_message: 0.01,
        tampering: 0.001,
        outage: 0.003,
        racing_put: 0.05,
    };

    #[must_use]
    pub const fn times(self, rate: f64) -> Faults {
        Faults {
            lost_request: self.lost_request * rate,
            lost_answer: self.lost_answer * rate,
            crash: self.crash * rate,
            worker_death: self.worker_death * rate,
            worker_stall: self.worker_stall * rate,
            time_jump: self.time_jump * rate,
            duplicate: self.duplicate * rate,
            lost_message: self.lost_message * rate,
            tampering: self.tampering * rate,
            outage: self.outage * rate,
            racing_put: self.racing_put * rate,
        }
    }
}

impl Default for Faults {
    fn default() -> Self {
        Faults::USUAL
    }
}

/// Habits that a worker must not have. Off, but for the tests that show what becomes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Acknowledges a message before the outcome of its task is stored.
    pub acks_first: bool,
    /// Settles a task before its body is stored.
    pub stores_last: bool,
    /// Goes on using permits whose return was not answered, although others may have them by then.
    pub keeps_permits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Steps with faults; the drain without them comes on top.
    pub steps: u64,
    pub audit_every: u64,
    pub faults: Faults,
    /// What the default faults were multiplied with, to be repeated in a replay.
    pub fault_rate: f64,
    pub habits: Habits,
    pub keep_trace: bool,
}

impl Settings {
    pub fn new(steps: u64) -> Settings {
        Settings {
            steps,
            audit_every: 25,
            faults: Faults::default(),
            fault_rate: 1.0,
            habits: Habits::default(),
            keep_trace: false,
        }
    }

    #[must_use]
    pub fn with_fault_rate(self, rate: f64) -> Settings {
        Settings { faults: Faults::default().times(rate), fault_rate: rate, ..self }
    }
}
