//! A circuit breaker between a job and its gateway (SPEC 6.7): closed while it answers, open after too many failures in a
//! row, then half-open: one call probes, and its answer closes or opens it again. The pause doubles once an opening, however
//! many calls fail at the same time. A probe that takes long is followed by others, so one slow page does not stop a job.

use conveyor_domain::{Exponential, limits};
use std::time::Duration;
use tokio::time::Instant;

const PAUSE: Exponential = Exponential::new(limits::GATEWAY_PAUSE, limits::GATEWAY_PAUSE_MAX);

#[derive(Debug, Default)]
pub(super) struct Circuit {
    /// In a row, of calls that began since it was last opened.
    failures: u32,
    /// In a row: how often a call of this worker opened it.
    outages: u32,
    /// How often it was opened. A call that began earlier tells nothing about now.
    openings: u32,
    probe: Probe,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Probe {
    /// Closed.
    #[default]
    NotNeeded,
    /// Half-open once the pause is over.
    Due,
    /// The latest probe is not answered. At this moment another call may probe as well.
    UnderWay { next: Instant },
}

/// One call, from its beginning to its answer.
#[derive(Debug)]
pub(super) struct Ticket {
    openings: u32,
    probes: bool,
}

/// What an answer means for the calls after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Nothing,
    /// The probe was answered.
    Recovered,
    BackOff(Duration),
}

impl Circuit {
    /// How many tasks may be taken on, if so many wait for their start already and there is room for `room` more.
    pub fn room(&self, room: u32, unstarted: u32) -> u32 {
        match self.probe {
            Probe::NotNeeded => room,
            Probe::UnderWay { next } if next > Instant::now() => 0,
            Probe::Due | Probe::UnderWay { .. } => room.min(1u32.saturating_sub(unstarted)),
        }
    }

    /// Begins a call, unless another one probes.
    pub fn begin(&mut self) -> Option<Ticket> {
        if self.next_probe().is_some_and(|next| next > Instant::now()) {
            return None;
        }
        let probes = self.probe != Probe::NotNeeded;
        if probes {
            self.probe = Probe::UnderWay { next: Instant::now() + limits::GATEWAY_PROBE_EVERY };
        }
        Some(Ticket { openings: self.openings, probes })
    }

    /// When another call may probe although the latest probe is not answered.
    pub fn next_probe(&self) -> Option<Instant> {
        match self.probe {
            Probe::UnderWay { next } => Some(next),
            Probe::NotNeeded | Probe::Due => None,
        }
    }

    /// Whether the call is a probe whose answer is still needed.
    fn is_probed_by(&self, ticket: &Ticket) -> bool {
        ticket.probes && self.probe != Probe::NotNeeded
    }

    /// The call was not made, or its answer was not waited for. True if another one may probe now.
    pub fn abandon(&mut self, ticket: &Ticket) -> bool {
        let probed = self.is_probed_by(ticket) && ticket.openings == self.openings;
        if probed {
            self.probe = Probe::Due;
        }
        probed
    }

    /// The call was answered; `overloaded` with how long the gateway asked for, if it did.
    pub fn answered(&mut self, ticket: &Ticket, overloaded: Option<Option<Duration>>) -> Verdict {
        // A success of an earlier call that comes after the pause is over shows as much as one of the probe.
        let is_late_success = overloaded.is_none() && self.next_probe().is_some();
        if ticket.openings != self.openings && !is_late_success {
            return Verdict::Nothing;
        }
        let Some(asked_for) = overloaded else {
            let recovered = self.probe != Probe::NotNeeded;
            *self = Circuit { openings: self.openings, ..Circuit::default() };
            return if recovered { Verdict::Recovered } else { Verdict::Nothing };
        };
        self.failures += 1;
        if !self.is_probed_by(ticket) && self.failures < limits::GATEWAY_FAILURES_MAX {
            return Verdict::Nothing;
        }
        self.outages += 1;
        self.open();
        let asked_for = asked_for.unwrap_or_default().min(limits::GATEWAY_PAUSE_MAX);
        Verdict::BackOff(PAUSE.delay(self.outages).max(asked_for))
    }

    /// Another worker opened it, or this one did: the first call after the pause probes.
    pub fn open(&mut self) {
        self.openings = self.openings.wrapping_add(1);
        (self.failures, self.probe) = (0, Probe::Due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERLOADED: Option<Option<Duration>> = Some(None);

    fn opened() -> Circuit {
        let mut circuit = Circuit::default();
        let calls: Vec<Ticket> = (0..100).map(|_| circuit.begin().unwrap()).collect();
        let verdicts: Vec<Verdict> = calls.iter().map(|call| circuit.answered(call, OVERLOADED)).collect();
        let backoffs: Vec<&Verdict> = verdicts.iter().filter(|v| **v != Verdict::Nothing).collect();
        assert_eq!(backoffs, [&Verdict::BackOff(limits::GATEWAY_PAUSE)], "a hundred failures are one outage");
        circuit
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_takes_long_is_followed_by_another() {
        let mut circuit = opened();
        let slow = circuit.begin().unwrap();
        tokio::time::advance(limits::GATEWAY_PROBE_EVERY - Duration::from_millis(1)).await;
        assert!(circuit.begin().is_none() && circuit.room(50, 0) == 0);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!((circuit.room(50, 0), circuit.room(50, 1)), (1, 0));
        let quick = circuit.begin().unwrap();
        assert!(circuit.begin().is_none(), "one at a time");
        assert_eq!(circuit.answered(&quick, None), Verdict::Recovered);
        assert_eq!(circuit.room(50, 0), 50);
        assert_eq!(circuit.answered(&slow, None), Verdict::Nothing, "it is closed already");
        assert_eq!(circuit.answered(&slow, OVERLOADED), Verdict::Nothing);
    }

    #[test]
    fn a_success_of_an_earlier_call_closes_what_a_probe_holds_open() {
        let mut circuit = Circuit::default();
        let early = [(); 2].map(|()| circuit.begin().unwrap());
        let failing: Vec<Ticket> = (0..10).map(|_| circuit.begin().unwrap()).collect();
        for call in &failing {
            circuit.answered(call, OVERLOADED);
        }
        assert_eq!(circuit.answered(&early[0], None), Verdict::Nothing, "the pause has just begun");
        assert_eq!(circuit.room(50, 0), 1);
        circuit.begin().unwrap();
        assert_eq!(circuit.answered(&early[1], None), Verdict::Recovered);
        assert_eq!(circuit.room(50, 0), 50);
    }

    #[test]
    fn one_call_probes_and_its_answer_decides() {
        let mut circuit = opened();
        assert_eq!((circuit.room(50, 0), circuit.room(50, 1)), (1, 0));
        let probe = circuit.begin().unwrap();
        assert!(circuit.begin().is_none() && circuit.room(50, 0) == 0, "one at a time");
        assert_eq!(circuit.answered(&probe, OVERLOADED), Verdict::BackOff(limits::GATEWAY_PAUSE * 2));
        let probe = circuit.begin().unwrap();
        assert_eq!(circuit.answered(&probe, None), Verdict::Recovered);
        assert_eq!(circuit.room(50, 7), 50);
        let later = opened();
        assert_eq!(later.outages, 1, "the next outage begins with the shortest pause");
    }

    #[test]
    fn a_probe_that_was_not_made_leaves_its_place_to_another() {
        let mut circuit = opened();
        let probe = circuit.begin().unwrap();
        assert!(circuit.abandon(&probe));
        assert!(circuit.begin().is_some());
        circuit.open();
        assert!(!circuit.abandon(&probe));
        assert_eq!(circuit.answered(&probe, None), Verdict::Nothing, "it began before the last opening");
    }

    #[test]
    fn a_gateway_that_asks_for_time_gets_it_up_to_the_longest_pause() {
        let mut circuit = opened();
        for (asked, pause) in [(3, 3), (500, 30)] {
            let probe = circuit.begin().unwrap();
            let verdict = circuit.answered(&probe, Some(Some(Duration::from_secs(asked))));
            assert_eq!(verdict, Verdict::BackOff(Duration::from_secs(pause)));
        }
    }

    #[test]
    fn an_answer_in_between_begins_the_count_again() {
        let mut circuit = Circuit::default();
        for n in 0..100u32 {
            let call = circuit.begin().unwrap();
            let bad = n % limits::GATEWAY_FAILURES_MAX != 0;
            assert_eq!(circuit.answered(&call, bad.then_some(None)), Verdict::Nothing);
        }
    }
}
