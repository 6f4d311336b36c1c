//! Faults of single operations: a request that never arrives, an answer that never comes, a process killed in between.

use crate::dice::Dice;
use crate::settings::Faults;
use crate::trace::Trace;
use crate::violation::{Check, Rule, Violation};
use bytes::Bytes;
use conveyor_domain::Refusal;
use conveyor_store::port::{Appended, ByteStream};
use conveyor_store::{Error, Result};
use futures::StreamExt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Tells our own errors from those that the store really gave.
const NO_ANSWER: &str = "no answer (simulated)";
/// Streams that break do so within as many bytes, or not at all.
const STREAM_BREAKS_WITHIN: u32 = 4_000;
/// In an outage most reads are not answered, and the others break early: some progress may come of them.
const OUTAGE_LOSES: f64 = 0.8;
const OUTAGE_BREAKS_WITHIN: u32 = 800;

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
    lost_steps: AtomicU64,
    /// Reads of staged bytes that an outage will still strike.
    outage: AtomicU64,
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
            lost_steps: AtomicU64::new(0),
            outage: AtomicU64::new(0),
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

    /// From now on as many reads of staged bytes come to little or nothing.
    pub fn begin_outage(&self, reads: u32) {
        self.trace.note(format!("  fault: the next {reads} reads of staged bytes are struck"));
        self.outage.store(u64::from(reads), Ordering::SeqCst);
    }

    /// Whether a put comes between the look at a slot and the job that is made of it.
    pub fn races(&self) -> bool {
        !self.is_calm() && self.dice.chance(self.faults.racing_put)
    }

    /// How often a step of an ingest was taken by another.
    pub fn lost_steps(&self) -> u64 {
        self.lost_steps.load(Ordering::SeqCst)
    }

    pub fn saw(&self, appended: Appended) -> Appended {
        self.lost_steps.fetch_add(u64::from(appended == Appended::Lost), Ordering::SeqCst);
        appended
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
        } else if operation == "read_pinned" && self.is_struck() && self.dice.chance(OUTAGE_LOSES) {
            Fate::RequestLost
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

    /// An outage passes with the reads that it strikes.
    pub fn was_read(&self) {
        let left = self.outage.load(Ordering::SeqCst);
        self.outage.store(left.saturating_sub(1), Ordering::SeqCst);
    }

    fn is_struck(&self) -> bool {
        self.outage.load(Ordering::SeqCst) > 0
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

    /// Bytes on their way to a reader may stop coming. Where is drawn now: when they are read is not for us to say.
    pub fn on_the_way(&self, stream: ByteStream) -> ByteStream {
        if self.is_calm() || !(self.is_struck() || self.dice.chance(self.faults.lost_answer)) {
            return stream;
        }
        let within = if self.is_struck() { OUTAGE_BREAKS_WITHIN } else { STREAM_BREAKS_WITHIN };
        let bytes = self.dice.between(0, within);
        self.trace.note(format!("  fault: a stream breaks after {bytes} bytes, if it has as many"));
        self.faults_seen.fetch_add(1, Ordering::SeqCst);
        broken_after(stream, bytes as usize)
    }
}

/// The first bytes of a stream, and no answer to the rest.
fn broken_after(stream: ByteStream, bytes: usize) -> ByteStream {
    let rest = |left: &mut Option<usize>, piece: Result<Bytes>| {
        let passed = match (*left, piece) {
            (None, _) => None,
            (Some(more), Ok(piece)) if piece.len() <= more => {
                *left = Some(more - piece.len());
                Some(vec![Ok(piece)])
            }
            (Some(more), Ok(mut piece)) => {
                *left = None;
                piece.truncate(more);
                Some(vec![Ok(piece), Err(Error::Unavailable(NO_ANSWER.to_owned()))])
            }
            (Some(_), Err(error)) => Some(vec![Err(error)]),
        };
        std::future::ready(passed)
    };
    stream.scan(Some(bytes), rest).flat_map(futures::stream::iter).boxed()
}

/// Whether what an ingest says of a try that failed can have come of our own faults: a store that does not answer, calls
/// that were lost or ingesters that died, one after the other.
pub fn is_simulated(text: &str) -> bool {
    text == "the store does not answer"
        || text.starts_with("no ingester got anywhere")
        || text.ends_with("no ingester lived to say why")
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
    async fn a_broken_stream_gives_its_first_bytes_and_an_error() {
        let pieces = |n: usize| futures::stream::iter(vec![Ok(Bytes::from_static(b"abc")); n]).boxed();
        let read = |n, bytes| broken_after(pieces(n), bytes).collect::<Vec<_>>();
        assert_eq!(read(2, 6).await, [Ok(Bytes::from_static(b"abc")), Ok(Bytes::from_static(b"abc"))]);
        let broken = read(3, 4).await;
        assert_eq!(broken[..2], [Ok(Bytes::from_static(b"abc")), Ok(Bytes::from_static(b"a"))]);
        assert!(broken.len() == 3 && broken[2].is_err());
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
