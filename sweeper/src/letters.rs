//! Dead letters, as operators and the sweeper deal with them (SPEC 6.15).

use crate::repair::Fixed;
use crate::sweep::Sweep;
use conveyor_domain::ingest::Entry;
use conveyor_domain::repair::dead_letter::{
    LetterFilter, LetterView, LettersPage, Redrive, Redriven, Verdict, judge, may_redrive,
};
use conveyor_domain::{
    DeadLetter, IngestEvent, IngestRef, IngestState, LetterId, ListFault, QueueName, Run, Timestamp, limits,
};
use conveyor_store::port::{Appended, Ingest, Reader, RunKey};
use conveyor_store::{Backend, Error, Result};

/// Letters that one call looks at.
const LOOK_MAX: usize = 5_000;
const LETTERS_A_PAGE: u32 = 500;
const NO_WORDS: &str = "no ingester lived to say why";

/// A page of letters, by their ids.
pub async fn list(
    backend: &Backend,
    filter: &LetterFilter,
    after: Option<LetterId>,
    limit: usize,
    now: Timestamp,
) -> Result<LettersPage> {
    let (mut page, mut after, mut looked) = (LettersPage::default(), after, 0);
    loop {
        let letters = backend.store.letters(after, LETTERS_A_PAGE).await?;
        let more = letters.len() == LETTERS_A_PAGE as usize;
        for letter in letters {
            if page.letters.len() >= limit {
                page.next = after;
                return Ok(page);
            }
            after = Some(letter.id);
            page.letters.extend(Some(view(backend, letter, now).await?).filter(|view| filter.admits(view)));
        }
        looked += LETTERS_A_PAGE as usize;
        if !more {
            return Ok(page);
        }
        if looked >= LOOK_MAX {
            page.next = after;
            return Ok(page);
        }
    }
}

pub async fn show(backend: &Backend, letter: LetterId, now: Timestamp) -> Result<Option<LetterView>> {
    match backend.store.letter(letter).await? {
        Some(letter) => view(backend, letter, now).await.map(Some),
        None => Ok(None),
    }
}

async fn view(backend: &Backend, letter: DeadLetter, now: Timestamp) -> Result<LetterView> {
    let message = letter.ingest();
    // One whose log cannot be read can still be looked at, and purged.
    let (ingest, unreadable) = match ingest_of(backend, &letter).await {
        Ok(ingest) => (ingest, None),
        Err(Error::Corrupt(why)) => (None, Some(why)),
        Err(error) => return Err(error),
    };
    let state = ingest.as_ref().map(|(_, state)| state);
    let verdict = match unreadable {
        Some(_) => Verdict::Keep,
        None => verdict_of(&letter, ingest.as_ref(), now),
    };
    Ok(LetterView {
        job: message.map(|message| message.job),
        run: message.map(|message| message.run),
        tries: state.map_or(0, |state| state.failures),
        last_error: state.and_then(|state| state.last_error.clone()).or(unreadable),
        redrives: state.map_or(letter.redrives, |state| state.redrives),
        verdict,
        letter,
    })
}

/// Sends a letter again. `None` if there is none; `Conflict` if the ingest moved on meanwhile.
pub async fn redrive(sweep: &Sweep<'_>, letter: LetterId) -> Result<Option<Redriven>> {
    let Some(letter) = sweep.backend.store.letter(letter).await? else { return Ok(None) };
    let ingest = ingest_of(sweep.backend, &letter).await?;
    match may_redrive(&letter, ingest.as_ref().map(|(run, state)| (run, state))) {
        Redrive::Refuse => return Ok(Some(Redriven::Refused)),
        Redrive::Acknowledge => {
            sweep.backend.store.forget_letter(letter.id).await?;
            return Ok(Some(Redriven::Acknowledged));
        }
        Redrive::Send => {}
    }
    match (letter.ingest(), ingest) {
        (Some(message), Some((_, state))) => redrive_ingest(sweep, &letter, message, state).await?,
        // The letter stays: it is what counts how often it was sent.
        _ => {
            if !sweep.backend.store.count_redrive(letter.id, letter.redrives).await? {
                return Err(moved_on());
            }
            send(sweep, letter.body).await?;
        }
    }
    Ok(Some(Redriven::Sent))
}

/// The event first, under its number: of two operators one wins, and a crash after it is a lost message, which is found.
async fn redrive_ingest(
    sweep: &Sweep<'_>,
    letter: &DeadLetter,
    message: IngestRef,
    mut state: IngestState,
) -> Result<()> {
    let key = RunKey { job: message.job, run: message.run };
    if !state.dead_lettered {
        // Somebody has sent it again since, and the letter is only not gone yet.
        return Err(moved_on());
    }
    must_append(sweep, key, &state, IngestEvent::Redriven).await?;
    // What is sent now is later than the event; what was sent before it is of the past.
    state.apply(state.events, &IngestEvent::Redriven)?;
    send(sweep, IngestRef { progress: state.progress, ..message }.to_string()).await?;
    sweep.backend.store.forget_letter(letter.id).await
}

/// Gives a letter up: its run fails, if it still lives. False if there is no such letter.
pub async fn purge(sweep: &Sweep<'_>, letter: LetterId) -> Result<bool> {
    let store = &sweep.backend.store;
    let Some(letter) = store.letter(letter).await? else { return Ok(false) };
    let ingest = match ingest_of(sweep.backend, &letter).await {
        // What cannot be read cannot be ended in good order either: at least the letter goes.
        Err(Error::Corrupt(_)) => None,
        other => other?,
    };
    if let (Some(message), Some((run, state))) = (letter.ingest(), ingest)
        && !state.phase.is_over()
    {
        let key = RunKey { job: message.job, run: message.run };
        if run.status.is_terminal() {
            // It has only to be cut, which somebody has to be called for.
            send(sweep, IngestRef { progress: state.progress, ..message }.to_string()).await?;
        } else {
            let last = state.last_error.as_deref().unwrap_or(NO_WORDS);
            let detail = format!("an operator gave it up; the last try said: {last}");
            must_append(sweep, key, &state, failed(detail)).await?;
        }
    }
    store.forget_letter(letter.id).await?;
    Ok(true)
}

/// What is to become of a letter.
pub(crate) fn verdict_of(
    letter: &DeadLetter,
    ingest: Option<&(Run, IngestState)>,
    now: Timestamp,
) -> Verdict {
    judge(letter, ingest.map(|(run, state)| (run, state)), now)
}

/// What a sweep does about a letter.
pub(crate) async fn decide(sweep: &Sweep<'_>, letter: LetterId) -> Result<Fixed> {
    let store = &sweep.backend.store;
    let Some(letter) = store.letter(letter).await? else { return Ok(Fixed::NOTHING) };
    let ingest = ingest_of(sweep.backend, &letter).await?;
    let verdict = verdict_of(&letter, ingest.as_ref(), sweep.removal_time().await?);
    if let (Some(message), Some((_, state))) = (letter.ingest(), &ingest) {
        let key = RunKey { job: message.job, run: message.run };
        match verdict {
            Verdict::Keep => return Ok(Fixed::NOTHING),
            Verdict::Acknowledge => {}
            Verdict::SendAgain => {
                // Said in the log, so that nobody takes it for given up any more.
                if state.dead_lettered && !append(sweep, key, state, IngestEvent::Resent).await? {
                    return Ok(Fixed::NOTHING);
                }
                send(sweep, IngestRef { progress: state.progress, ..message }.to_string()).await?;
            }
            Verdict::FailRun(why) => {
                if !append(sweep, key, state, failed(why)).await? {
                    return Ok(Fixed::NOTHING);
                }
            }
        }
    } else if verdict != Verdict::Acknowledge {
        return Ok(Fixed::NOTHING);
    }
    store.forget_letter(letter.id).await?;
    Ok(Fixed::ONE)
}

/// Whoever had the message did not live to say why it came to nothing. That may be the list's fault, or nobody's: processes
/// are killed for many reasons. So it is called again, as if the message was lost (SPEC 6.13), and as often; then the log says
/// that it was given up.
pub(crate) async fn note(sweep: &Sweep<'_>, letter: &DeadLetter) -> Result<()> {
    let ingest = match ingest_of(sweep.backend, letter).await {
        // Then the letter alone has to do.
        Err(Error::Corrupt(_)) => None,
        other => other?,
    };
    if let (Some(message), Some((run, state))) = (letter.ingest(), ingest)
        && !run.status.is_terminal()
        && !state.phase.is_over()
        && !state.dead_lettered
        && state.progress <= message.progress
    {
        let key = RunKey { job: message.job, run: message.run };
        if state.resends < limits::INGEST_RESENDS_MAX {
            if append(sweep, key, &state, IngestEvent::Resent).await? {
                send(sweep, IngestRef { progress: state.progress, ..message }.to_string()).await?;
            }
            return sweep.backend.store.forget_letter(letter.id).await;
        }
        let tries = limits::CONTROL_MAX_RECEIVES * (1 + state.resends);
        let error = format!("received {tries} times, and {NO_WORDS}");
        // If somebody else got ahead of us, there is something in the log that is newer than the letter.
        append(sweep, key, &state, IngestEvent::AttemptFailed { error, dead_lettered: true }).await?;
    }
    Ok(())
}

/// The letter of an ingest that is given up although there is no message.
pub(crate) fn letter_of(key: RunKey, state: &IngestState, now: Timestamp) -> DeadLetter {
    let message = IngestRef { job: key.job, run: key.run, progress: state.progress };
    DeadLetter::new(message.to_string(), now)
}

/// The id of the letter of a run, whether there is one or not.
pub(crate) fn id_of(key: RunKey) -> LetterId {
    let message = IngestRef { job: key.job, run: key.run, progress: 0 };
    DeadLetter::new(message.to_string(), Timestamp(0)).id
}

/// The ingest that a letter asks for, as it stands.
pub(crate) async fn ingest_of(backend: &Backend, letter: &DeadLetter) -> Result<Option<(Run, IngestState)>> {
    let Some(message) = letter.ingest() else { return Ok(None) };
    let key = RunKey { job: message.job, run: message.run };
    let Some(ingest) = backend.store.ingest(key, Reader::Role).await? else { return Ok(None) };
    let state = state_of(&ingest)?;
    Ok(Some((ingest.run, state)))
}

pub(crate) fn state_of(ingest: &Ingest) -> Result<IngestState> {
    Ok(IngestState::fold(&ingest.log)?)
}

fn failed(detail: String) -> IngestEvent {
    IngestEvent::Failed { fault: ListFault::IngestFailed, detail, line: None, report: None, rejected: 0 }
}

fn moved_on() -> Error {
    Error::Conflict("the ingest moved on meanwhile; look at the letter again".to_owned())
}

/// Whether the event stands, or there is nothing left for it to stand in.
async fn append(sweep: &Sweep<'_>, key: RunKey, state: &IngestState, event: IngestEvent) -> Result<bool> {
    let entry: Entry = state.entry(event)?;
    let appended = sweep.backend.store.append(key, entry, sweep.clock.now()).await?;
    Ok(matches!(appended, Appended::Done | Appended::Gone))
}

async fn must_append(sweep: &Sweep<'_>, key: RunKey, state: &IngestState, event: IngestEvent) -> Result<()> {
    if append(sweep, key, state, event).await? { Ok(()) } else { Err(moved_on()) }
}

async fn send(sweep: &Sweep<'_>, body: String) -> Result<()> {
    sweep.backend.queue.send(QueueName::Control, vec![body], sweep.clock.now()).await
}
