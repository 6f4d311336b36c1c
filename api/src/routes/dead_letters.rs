//! Messages that were given up: looked at, sent again, or let go (SPEC 6.15).

use crate::auth::Operator;
use crate::body;
use crate::cursor::Cursors;
use crate::path::Id;
use crate::problem::{ApiError, Code, Result};
use crate::query::{NoQuery, Params, Query};
use crate::state::{ApiState, Shared};
use crate::wire::read;
use axum::Json;
use axum::extract::State;
use conveyor_domain::repair::dead_letter::{LetterFilter, LetterView, Redriven, Verdict};
use conveyor_domain::{LetterId, limits};
use conveyor_wire::{self as wire, Became, LetterOutcome, Letters, NextSweep, RedriveLetters, Time};
use std::str::FromStr;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

pub(super) async fn list(_: Operator, State(state): State<Shared>, query: Query) -> Result<Json<Letters>> {
    let query = query.only(&["job_id", "run_id", "error", "limit", "cursor"])?;
    let filter = LetterFilter {
        job: id_in(&query, "job_id")?,
        run: id_in(&query, "run_id")?,
        error: not_empty(query.get("error").map(str::to_owned))?,
    };
    let cursors = Cursors::of_operator(&state, &format!("dead_letters|{filter:?}"));
    let asked = query.page(cursors, limits::PAGE_DEFAULT, limits::PAGE_MAX)?;
    let page = state.operations.letters(&filter, asked.after, asked.limit).await?;
    let dead_letters = page.letters.into_iter().map(shown).collect();
    let next_cursor = page.next.map(|letter| asked.cursors.seal(&letter));
    Ok(Json(Letters { dead_letters, next_cursor }))
}

pub(super) async fn show(
    _: Operator,
    State(state): State<Shared>,
    Id(letter): Id<LetterId>,
    _: NoQuery,
) -> Result<Json<wire::Letter>> {
    let view = state.operations.letter(letter).await?.ok_or_else(ApiError::not_found)?;
    Ok(Json(shown(view)))
}

pub(super) async fn redrive(
    _: Operator,
    State(state): State<Shared>,
    Id(letter): Id<LetterId>,
    _: NoQuery,
) -> Result<Json<Became>> {
    let redriven = state
        .operations
        .redrive(letter)
        .await
        .map_err(ApiError::of_letter)?
        .ok_or_else(ApiError::not_found)?;
    match redriven {
        Redriven::Refused => {
            let detail = format!(
                "It was sent again {} times without progress; the next sweep fails its run, and so does a purge.",
                limits::REDRIVES_MAX
            );
            Err(ApiError::new(Code::RedriveLimit, detail))
        }
        Redriven::Sent | Redriven::Acknowledged => Ok(Json(became(letter, letter_outcome(Some(redriven))))),
    }
}

pub(super) async fn purge(
    _: Operator,
    State(state): State<Shared>,
    Id(letter): Id<LetterId>,
    _: NoQuery,
) -> Result<Json<Became>> {
    match state.operations.purge(letter).await.map_err(ApiError::of_letter)? {
        true => Ok(Json(became(letter, LetterOutcome::Purged))),
        false => Err(ApiError::not_found()),
    }
}

/// Sends many again, at a pace. It ends after so many, or after some time: whoever asks goes on from there.
pub(super) async fn redrive_many(
    _: Operator,
    State(state): State<Shared>,
    body: body::Json,
) -> Result<Json<wire::Redriven>> {
    let RedriveLetters { job_id, run_id, error, all, per_second, limit, cursor } = body.parse(read)?;
    let filter = bulk_filter(LetterFilter { job: job_id, run: run_id, error: not_empty(error)? }, all)?;
    let pace = Pace::new(per_second.map(|rate| rate.0));
    let limit = limit.map_or(limits::PAGE_MAX, |limit| limit.0);
    let cursors = Cursors::of_operator(&state, &format!("redrive|{filter:?}"));
    let after = cursors.open(cursor.as_deref())?;
    let page = state.operations.letters(&filter, after, limit).await?;
    let mut next = page.next;
    let mut dead_letters = Vec::new();
    for (n, view) in page.letters.iter().enumerate() {
        // The first always has its turn: somebody who asks again and again gets to the end.
        if n > 0 && (state.is_shutting_down() || !pace.wait_for(n).await) {
            next = dead_letters.last().map(|last: &Became| last.letter_id);
            break;
        }
        dead_letters.push(redrive_one(&state, view.letter.id).await);
    }
    let next_cursor = next.map(|letter| cursors.seal(&letter));
    Ok(Json(wire::Redriven { dead_letters, more: next_cursor.is_some(), next_cursor }))
}

/// One that cannot be sent does not keep the others.
async fn redrive_one(state: &ApiState, letter: LetterId) -> Became {
    match state.operations.redrive(letter).await {
        Ok(redriven) => became(letter, letter_outcome(redriven)),
        Err(error) => Became { error: Some(error.to_string()), ..became(letter, LetterOutcome::Failed) },
    }
}

/// Everything is never meant by nothing.
fn bulk_filter(filter: LetterFilter, all: Option<bool>) -> Result<LetterFilter> {
    match (all.unwrap_or(false), filter == LetterFilter::default()) {
        (true, true) | (false, false) => Ok(filter),
        (false, true) => {
            Err(ApiError::invalid("The body must have one of `job_id`, `run_id`, `error`, or `all` true."))
        }
        (true, false) => Err(ApiError::invalid("`all` and a filter exclude each other.")),
    }
}

/// Every text has the empty one in it: it would select everything.
fn not_empty(error: Option<String>) -> Result<Option<String>> {
    match error.as_deref() {
        Some("") => Err(ApiError::invalid("`error` must not be empty.")),
        Some(_) | None => Ok(error),
    }
}

fn id_in<T: FromStr>(query: &Params, name: &str) -> Result<Option<T>> {
    let Some(text) = query.get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| ApiError::invalid(format!("`{name}` must be an id.")))
}

fn shown(view: LetterView) -> wire::Letter {
    let next_sweep = match view.verdict {
        Verdict::Acknowledge => NextSweep::Acknowledge,
        Verdict::SendAgain => NextSweep::SendAgain,
        Verdict::Keep => NextSweep::Keep,
        Verdict::FailRun(_) => NextSweep::FailRun,
    };
    wire::Letter {
        letter_id: view.letter.id,
        job_id: view.job,
        run_id: view.run,
        body: view.letter.body,
        first_at: Time(view.letter.first),
        last_at: Time(view.letter.last),
        tries: view.tries,
        redrives: view.redrives,
        last_error: view.last_error,
        next_sweep: next_sweep.into(),
    }
}

fn letter_outcome(redriven: Option<Redriven>) -> LetterOutcome {
    match redriven {
        Some(Redriven::Sent) => LetterOutcome::Sent,
        Some(Redriven::Acknowledged) => LetterOutcome::Acknowledged,
        Some(Redriven::Refused) => LetterOutcome::RedriveLimit,
        None => LetterOutcome::Gone,
    }
}

fn became(letter_id: LetterId, outcome: LetterOutcome) -> wire::Became {
    wire::Became { letter_id, outcome: outcome.into(), error: None }
}

/// One after the other, not faster than asked for, and not for longer than an answer may take.
struct Pace {
    started: Instant,
    every: Duration,
}

impl Pace {
    fn new(per_second: Option<f64>) -> Pace {
        let every = per_second.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
        Pace { started: Instant::now(), every }
    }

    /// Waits until it is the turn of number `n`; false if that would be too late for this answer.
    async fn wait_for(&self, n: usize) -> bool {
        let turns = u32::try_from(n).unwrap_or(u32::MAX);
        let turn = self.started + self.every.saturating_mul(turns);
        let in_time = turn.max(Instant::now()) < self.started + limits::RECONCILE_WITHIN;
        if in_time {
            sleep_until(turn).await;
        }
        in_time
    }
}
