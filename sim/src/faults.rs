//! Faults of single operations: a request that never arrives, an answer that never comes, a process killed in between.

use crate::dice::Dice;
use crate::settings::Faults;
use crate::trace::Trace;
use crate::violation::{Check, Rule, Violation};
use conveyor_domain::lifecycle::Refusal;
use conveyor_store::{Error, Result};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Tells our own errors from those that the store really gave.
const NO_ANSWER: &str = "no answer (simulated)";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    RequestLost,
    AnswerLost,
}

/// What becomes of operations. Shared by all ports of one simulation.
#[derive(Debug)]
pub struct Weather {
    faults: Faults,
    dice: Arc<Dice>,
    trace: Trace,
    calm: AtomicBool,
    killed: AtomicBool,
    lost_answers: AtomicU64,
    faults_seen: AtomicU64,
}

impl Weather {
    pub fn new(faults: Faults, dice: Arc<Dice>, trace: Trace) -> Weather {
        Weather {
            faults,
            dice,
            trace,
            calm: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            lost_answers: AtomicU64::new(0),
            faults_seen: AtomicU64::new(0),
        }
    }

    /// From now on everything arrives and is answered.
    pub fn calm_down(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    pub fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// Whether the process was killed, and answers nobody until it is started again.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    pub fn started_again(&self) {
        self.killed.store(false, Ordering::SeqCst);
    }

    pub fn lost_answers(&self) -> u64 {
        self.lost_answers.load(Ordering::SeqCst)
    }

    /// Faults so far: a step during which it did not move was not disturbed.
    pub fn faults_seen(&self) -> u64 {
        self.faults_seen.load(Ordering::SeqCst)
    }

    fn fate(&self, operation: &'static str) -> Fate {
        if self.is_killed() {
            return Fate::RequestLost;
        }
        if self.is_calm() {
            return Fate::Answered;
        }
        let Faults { crash, lost_request, lost_answer, .. } = self.faults;
        let drawn = self.dice.unit();
        let fate = if drawn < crash {
            self.killed.store(true, Ordering::SeqCst);
            // The first half of the range was drawn as often as the second.
            if drawn < crash / 2.0 { Fate::RequestLost } else { Fate::AnswerLost }
        } else if drawn < crash + lost_request {
            Fate::RequestLost
        } else if drawn < crash + lost_request + lost_answer {
            Fate::AnswerLost
        } else {
            return Fate::Answered;
        };
        let what = match fate {
            Fate::RequestLost => "request",
            Fate::AnswerLost | Fate::Answered => "answer",
        };
        let killed = if self.is_killed() { ", the process is killed" } else { "" };
        self.trace.note(format!("  fault: the {what} of {operation} is lost{killed}"));
        self.faults_seen.fetch_add(1, Ordering::SeqCst);
        fate
    }

    /// Lets the operation through, or not, or keeps its answer.
    pub async fn pass<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        match self.fate(operation) {
            Fate::Answered => call.await,
            Fate::RequestLost => Err(Error::Unavailable(NO_ANSWER.to_owned())),
            Fate::AnswerLost => {
                call.await?;
                self.lost_answers.fetch_add(1, Ordering::SeqCst);
                Err(Error::Unavailable(NO_ANSWER.to_owned()))
            }
        }
    }
}

/// What an actor makes of the outcome of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<T> {
    Got(T),
    Refused(Refusal),
    NotFound,
    /// It may or may not have happened.
    Unknown,
}

/// Any error but the simulated one and the domain's own is one too many.
pub fn answer<T>(operation: &str, outcome: Result<T>) -> Check<Answer<T>> {
    match outcome {
        Ok(value) => Ok(Answer::Got(value)),
        Err(Error::Refused(refusal)) => Ok(Answer::Refused(refusal)),
        Err(Error::NotFound) => Ok(Answer::NotFound),
        Err(Error::Unavailable(text)) if text == NO_ANSWER => Ok(Answer::Unknown),
        Err(error) => Err(Violation { rule: Rule::Store, text: format!("{operation} failed: {error}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::BEGIN;
    use std::future::ready;

    fn weather(faults: Faults) -> Weather {
        Weather::new(faults, Arc::new(Dice::new(1)), Trace::new(BEGIN, true))
    }

    #[tokio::test]
    async fn a_lost_answer_is_unknown_and_a_real_error_is_a_violation() {
        let lossy = weather(Faults { lost_answer: 1.0, ..Faults::NONE });
        assert_eq!(answer("x", lossy.pass("x", ready(Ok(1))).await), Ok(Answer::Unknown));
        assert_eq!(lossy.lost_answers(), 1);
        let real = Err::<u8, _>(Error::Unavailable("disk".to_owned()));
        assert_eq!(answer("x", real).unwrap_err().rule, Rule::Store);
    }

    #[tokio::test]
    async fn a_killed_process_answers_nobody_until_it_is_started_again() {
        let deadly = weather(Faults { crash: 1.0, ..Faults::NONE });
        assert!(deadly.pass("x", ready(Ok(1))).await.is_err());
        deadly.calm_down();
        assert!(deadly.is_killed() && deadly.pass("x", ready(Ok(1))).await.is_err());
        deadly.started_again();
        assert_eq!(deadly.pass("x", ready(Ok(1))).await, Ok(1));
    }
}
