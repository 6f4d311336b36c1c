//! One connection: what it waits for, and since when.

use conveyor_api::Peer;
use conveyor_domain::limits;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub struct Connection {
    pub number: u64,
    pub peer: Peer,
    state: Mutex<State>,
    close: CancellationToken,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    since: Instant,
    /// Requests share it, and more than requests arrives on it.
    is_http2: bool,
    /// Requests being answered, each with the time since which nobody asks for the next piece of its answer.
    answers: HashMap<u64, Option<Instant>>,
    next_answer: u64,
    /// Since when the other end takes no bytes.
    blocked: Option<Instant>,
}

/// How long a connection may do nothing of what it has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    pub first_byte: Duration,
    pub head: Duration,
    pub idle: Duration,
    /// To take something of an answer.
    pub write: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
            first_byte: limits::FIRST_BYTE_TIMEOUT,
            head: limits::HEAD_TIMEOUT,
            idle: limits::IDLE_TIMEOUT,
            write: limits::WRITE_TIMEOUT,
        }
    }
}

/// What comes next. While requests are being answered it is what was last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    FirstByte,
    Head,
    Idle,
}

/// How little a connection deserves to stay; the first goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// No head of a request.
    Fresh,
    Idle,
    /// A request that has no place: its key is not known yet, or it is being refused, or it needs none.
    Busy,
}

conveyor_domain::words! {
    /// Why the server closes a connection.
    pub enum Reason {
        Crowded = "crowded",
        Silent = "silent",
        Head = "head",
        Idle = "idle",
        Write = "write",
    }
}

impl Connection {
    pub fn new(number: u64, peer: Peer, now: Instant) -> Connection {
        let state = State {
            phase: Phase::FirstByte,
            since: now,
            is_http2: false,
            answers: HashMap::new(),
            next_answer: 0,
            blocked: None,
        };
        Connection { number, peer, state: Mutex::new(state), close: CancellationToken::new() }
    }

    pub fn received(&self, now: Instant) {
        let mut state = self.lock();
        match state.phase {
            // The deadline of the first head runs from the start of the connection.
            Phase::FirstByte => state.phase = Phase::Head,
            Phase::Idle if state.answers.is_empty() && !state.is_http2 => {
                (state.phase, state.since) = (Phase::Head, now);
            }
            Phase::Head | Phase::Idle => {}
        }
    }

    /// A write was taken, or was not.
    pub fn wrote(&self, is_blocked: bool, now: Instant) {
        let mut state = self.lock();
        state.blocked = if is_blocked { state.blocked.or(Some(now)) } else { None };
    }

    /// The head of a request is complete. Returns the number of its answer.
    pub fn begin(&self, is_http2: bool) -> u64 {
        let mut state = self.lock();
        state.is_http2 = is_http2;
        let number = state.next_answer;
        state.next_answer += 1;
        state.answers.insert(number, None);
        number
    }

    /// The answer gave a piece and waits to be asked for more, or was asked and has nothing yet.
    pub fn gave(&self, answer: u64, since: Option<Instant>) {
        if let Some(gave) = self.lock().answers.get_mut(&answer) {
            *gave = since;
        }
    }

    pub fn end(&self, answer: u64, now: Instant) {
        let mut state = self.lock();
        state.answers.remove(&answer);
        if state.answers.is_empty() {
            (state.phase, state.since) = (Phase::Idle, now);
        }
    }

    /// How little it deserves to stay, and since when; `None` if it must.
    pub fn rank(&self) -> Option<(Rank, Instant)> {
        let state = self.lock();
        if !state.answers.is_empty() {
            return (!self.peer.has_place()).then_some((Rank::Busy, state.since));
        }
        let rank = match state.phase {
            Phase::FirstByte | Phase::Head => Rank::Fresh,
            Phase::Idle => Rank::Idle,
        };
        Some((rank, state.since))
    }

    /// Which of its deadlines has passed.
    pub fn overdue(&self, now: Instant, deadlines: &Deadlines) -> Option<Reason> {
        let state = self.lock();
        let over = |since: Instant, limit: Duration| now.saturating_duration_since(since) > limit;
        let stalled = state.blocked.iter().chain(state.answers.values().flatten());
        if stalled.copied().any(|since| over(since, deadlines.write)) {
            return Some(Reason::Write);
        }
        let (limit, reason) = match state.phase {
            Phase::FirstByte => (deadlines.first_byte, Reason::Silent),
            Phase::Head => (deadlines.head, Reason::Head),
            Phase::Idle => (deadlines.idle, Reason::Idle),
        };
        (state.answers.is_empty() && over(state.since, limit)).then_some(reason)
    }

    pub fn close(&self, reason: Reason) {
        if !self.close.is_cancelled() {
            metrics::counter!("conveyor_connections_closed_total", "reason" => reason.as_str()).increment(1);
            self.close.cancel();
        }
    }

    pub fn is_closing(&self) -> bool {
        self.close.is_cancelled()
    }

    pub async fn closed(&self) {
        self.close.cancelled().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    fn connection() -> (Connection, Instant) {
        let now = Instant::now();
        (Connection::new(0, Peer::new([127, 0, 0, 1].into()), now), now)
    }

    fn overdue(connection: &Connection, at: Instant) -> Option<Reason> {
        connection.overdue(at, &Deadlines::default())
    }

    #[track_caller]
    fn ends(connection: &Connection, at: Instant, reason: Reason) {
        assert_eq!((overdue(connection, at), overdue(connection, at + MOMENT)), (None, Some(reason)));
    }

    #[test]
    fn a_head_has_its_time_from_the_start_or_from_its_first_byte() {
        let (connection, start) = connection();
        ends(&connection, start + limits::FIRST_BYTE_TIMEOUT, Reason::Silent);
        connection.received(start + limits::FIRST_BYTE_TIMEOUT);
        ends(&connection, start + limits::HEAD_TIMEOUT, Reason::Head);
        let answer = connection.begin(false);
        assert_eq!(overdue(&connection, start + 2 * limits::IDLE_TIMEOUT), None, "it is being answered");
        connection.end(answer, start);
        ends(&connection, start + limits::IDLE_TIMEOUT, Reason::Idle);
        let later = start + limits::HEAD_TIMEOUT;
        connection.received(later);
        connection.received(later + MOMENT);
        ends(&connection, later + limits::HEAD_TIMEOUT, Reason::Head);
    }

    #[test]
    fn frames_on_an_idle_http2_connection_are_no_head() {
        let (connection, start) = connection();
        connection.received(start);
        let (first, second) = (connection.begin(true), connection.begin(true));
        connection.end(first, start);
        assert_eq!(connection.rank(), Some((Rank::Busy, start)));
        connection.end(second, start);
        connection.received(start);
        ends(&connection, start + limits::IDLE_TIMEOUT, Reason::Idle);
    }

    #[test]
    fn an_answer_must_be_taken_however_long_it_waits_for_what_to_say() {
        let (connection, start) = connection();
        let answer = connection.begin(false);
        connection.gave(answer, Some(start));
        ends(&connection, start + limits::WRITE_TIMEOUT, Reason::Write);
        connection.gave(answer, None);
        assert_eq!(overdue(&connection, start + 2 * limits::WRITE_TIMEOUT), None);
        connection.wrote(true, start);
        connection.wrote(true, start + MOMENT);
        ends(&connection, start + limits::WRITE_TIMEOUT, Reason::Write);
        connection.wrote(false, start + MOMENT);
        assert_eq!(overdue(&connection, start + 2 * limits::WRITE_TIMEOUT), None);
    }
}
