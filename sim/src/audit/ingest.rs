//! SPEC 3.6 and 6.11: what became of a list is what its log says, and what the log says is what the accepted bytes are.

use crate::actors::caller::stage::key_of;
use crate::audit::read;
use crate::faults::is_simulated;
use crate::model::{JobModel, ListModel};
use crate::operator::letter_of;
use crate::tally::Summary;
use crate::violation::{Check, Rule, Violation, require};
use crate::world::World;
use conveyor_domain::ingest::Phase;
use conveyor_domain::{
    FailureReason, IngestEvent, IngestState, JobStatus, LoggedEvent, OnInvalidRows, QueueName, RejectedRow,
    RunStatus, limits,
};
use conveyor_store::port::{BlobKey, Emptiness, JobView, Reader};
use futures::TryStreamExt;

/// The log of a job that can be found, against its run and its list.
pub async fn check(world: &mut World, number: usize, view: &JobView) -> Check {
    let job = &world.model.jobs[number];
    let found = read("an ingest", world.truth.store.ingest(job.key, Reader::Role).await)?;
    let deleted = view.job.status == JobStatus::Deleted || view.latest_run().run.status == RunStatus::Deleted;
    let expected = job.list.is_some() && !deleted;
    require(found.is_some() == expected, Rule::Ingest, || {
        format!("{job}: its ingest is {}", if expected { "lost" } else { "there, and should not be" })
    })?;
    let (Some(found), Some(list)) = (found, &job.list) else { return Ok(()) };
    let same = found.run == view.latest_run().run && found.job == view.job;
    require(same, Rule::Reads, || format!("{job} is {view:?}, and {found:?} beside its log"))?;
    let state = folded(job, list, &found.log)?;
    found.log.iter().try_fold(0, |from, logged| event(job, list, from, &logged.event))?;
    of_run(job, list, &state, view)?;
    if !state.phase.is_over() && !list.tampered {
        pinned(world, job, list).await?;
    }
    let turn = world.turn(number);
    let reported = reported(&found.log);
    if !reported.is_empty() {
        report(world, job, list, &reported[turn % reported.len()]).await?;
    }
    if let Some(list) = &mut world.model.jobs[number].list {
        found.log.iter().skip(list.log.len()).for_each(|logged| count(&mut world.tally, &logged.event));
        list.log = found.log;
    }
    Ok(())
}

fn count(tally: &mut Summary, event: &IngestEvent) {
    match event {
        IngestEvent::ChunkCommitted { .. } => tally.chunks += 1,
        IngestEvent::Latched => tally.lists_read += 1,
        IngestEvent::Failed { .. } => tally.lists_failed += 1,
        IngestEvent::Cut { .. } => tally.lists_cut += 1,
        IngestEvent::Accepted { .. }
        | IngestEvent::Replaying { .. }
        | IngestEvent::SourcePinned { .. }
        | IngestEvent::Validated { .. }
        | IngestEvent::Counted { .. }
        | IngestEvent::TotalSet { .. }
        | IngestEvent::AttemptFailed { .. }
        | IngestEvent::Resent
        | IngestEvent::Redriven => {}
    }
}

/// Numbers without gaps, nothing undone, and no event where it cannot be.
fn folded(job: &JobModel, list: &ListModel, log: &[LoggedEvent]) -> Check<IngestState> {
    let dense = (0..).zip(log).all(|(number, logged)| logged.number == number);
    require(dense, Rule::Ingest, || format!("{job}: the log of its ingest has gaps: {log:?}"))?;
    require(log.starts_with(&list.log), Rule::Durable, || {
        format!("{job}: the log of its ingest was {:?} and is now {log:?}", list.log)
    })?;
    let source = matches!(log.first(), Some(first) if matches!(&first.event, IngestEvent::Accepted { source } if *source == list.source));
    require(source, Rule::Source, || {
        format!("{job}: its log does not begin with the accepted list: {log:?}")
    })?;
    IngestState::fold(log).map_err(|error| Violation { rule: Rule::Ingest, text: format!("{job}: {error}") })
}

/// One event, against the records that it speaks of. `from` is how many were read before it, and the answer how many after.
fn event(job: &JobModel, model: &ListModel, from: u32, event: &IngestEvent) -> Check<u32> {
    let ListModel { list, source, .. } = model;
    let (all, checks) = (list.len(), source.on_invalid_rows == OnInvalidRows::Fail);
    let mut to = from;
    let holds = match event {
        IngestEvent::Accepted { .. } | IngestEvent::Latched | IngestEvent::Resent | IngestEvent::Redriven => {
            true
        }
        // No simulated caller runs a job again.
        IngestEvent::Replaying { .. } => false,
        IngestEvent::SourcePinned { compression, .. } => *compression == list.compression,
        IngestEvent::Validated { rows } => checks && *rows == all && list.valid(0, all) == all,
        IngestEvent::Counted { records, rows } => {
            !checks && from == 0 && *records == all && *rows == list.valid(0, all)
        }
        IngestEvent::ChunkCommitted { rows, rejected, next, report, .. } => {
            to = next.index;
            *rows == list.valid(from, to)
                && *rejected as usize == list.rejected(from, to).count()
                && report.is_some() == (*rejected > 0)
                && (!checks || *rejected == 0)
        }
        IngestEvent::TotalSet { total } => {
            from == all && *total == list.valid(0, all) && model.fault().is_none()
        }
        IngestEvent::Cut { total } => *total == list.valid(0, from),
        IngestEvent::Failed { fault, .. } => model.may_fail_with(*fault),
        IngestEvent::AttemptFailed { error, .. } => is_simulated(error),
    };
    let rule = if let IngestEvent::AttemptFailed { .. } = event { Rule::Ingest } else { Rule::Source };
    require(holds, rule, || {
        format!("{job}: after {from} of {all} records its ingest says {event:?}; fault: {:?}", model.fault())
    })?;
    Ok(to)
}

/// The run is where its log has it.
fn of_run(job: &JobModel, list: &ListModel, state: &IngestState, view: &JobView) -> Check {
    let run = &view.latest_run().run;
    // Tasks are added behind a list, once it is read.
    let added = run.next_index.saturating_sub(list.list.len());
    let counted = run.total == state.accepted + added && run.next_index == state.next.index + added;
    require(counted, Rule::OnceEach, || {
        format!("{job}: its log has {} tasks up to {}, its run {run:?}", state.accepted, state.next.index)
    })?;
    let failure = run.failure.as_ref().map(|failure| failure.reason);
    let of_list = matches!(failure, Some(FailureReason::List(_)));
    let agrees = run.is_ingesting() != state.phase.is_over()
        && of_list == (state.phase == Phase::Failed)
        && match state.phase {
            Phase::Reading | Phase::TotalSet => added == 0,
            Phase::Latched => run.next_index >= list.list.len(),
            Phase::Cut | Phase::Failed => run.status.is_terminal() && added == 0,
        };
    require(agrees, Rule::Ingest, || format!("{job}: its ingest is {:?}, and its run {run:?}", state.phase))
}

/// What was accepted is kept until it is read, whatever becomes of its slot.
async fn pinned(world: &World, job: &JobModel, list: &ListModel) -> Check {
    let staged = &list.source.staged;
    let stream = world.truth.blobs.read_pinned(&key_of(staged), &staged.etag, 0).await;
    let bytes = match stream {
        Ok(stream) => stream.try_collect::<Vec<_>>().await.map(|pieces| pieces.concat()),
        Err(error) => Err(error),
    };
    let holds = bytes.as_deref() == Ok(&list.list.bytes[..]);
    require(holds, Rule::Source, || format!("{job}: its list is not read, and its bytes are {bytes:?}"))
}

/// A report of rejected rows, and the records that it is about.
struct Reported {
    object: String,
    from: u32,
    to: u32,
}

fn reported(log: &[LoggedEvent]) -> Vec<Reported> {
    let (mut reports, mut from) = (Vec::new(), 0);
    for logged in log {
        if let IngestEvent::ChunkCommitted { next, report, .. } = &logged.event {
            let reported = |object: &String| Reported { object: object.clone(), from, to: next.index };
            reports.extend(report.as_ref().map(reported));
            from = next.index;
        }
        if let IngestEvent::Failed { report: Some(object), .. } = &logged.event {
            reports.push(Reported { object: object.clone(), from: 0, to: u32::MAX });
        }
    }
    reports
}

/// The object that an event names is there, and is about the records that it was made of.
async fn report(world: &World, job: &JobModel, list: &ListModel, reported: &Reported) -> Check {
    let Reported { object, from, to } = reported;
    let key: Option<BlobKey> = object.parse().ok();
    let text = match key {
        Some(key) => match world.truth.blobs.read(&key).await {
            Ok(stream) => stream.try_collect::<Vec<_>>().await.unwrap_or_default().concat(),
            Err(_) => Vec::new(),
        },
        None => Vec::new(),
    };
    let rows = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let indexes: Option<Vec<u32>> =
        rows.map(|row| serde_json::from_slice::<RejectedRow>(row).ok().map(|row| row.index)).collect();
    let expected: Vec<u32> = list.list.rejected(*from, (*to).min(list.list.len())).collect();
    require(indexes.as_ref() == Some(&expected), Rule::Ingest, || {
        format!("{job}: the report {object} is about records {indexes:?}, and {expected:?} were rejected")
    })
}

/// At the end every report is read.
pub async fn every_report(world: &World, job: &JobModel) -> Check {
    let Some(list) = &job.list else { return Ok(()) };
    for reported in reported(&list.log) {
        report(world, job, list, &reported).await?;
    }
    Ok(())
}

/// Whether the sweeper leaves it to an operator.
pub fn is_given_up(state: &IngestState) -> bool {
    state.dead_lettered || state.resends >= limits::INGEST_RESENDS_MAX
}

/// After a sweep that nothing disturbed, no list waits for somebody who does not know of it: the control queue holds
/// something, or the list is left to an operator.
pub async fn after_sweep(world: &World) -> Check {
    let (store, queue, now) = (&world.truth.store, &world.truth.queue, world.now());
    if read("a queue", queue.emptiness(QueueName::Control, now).await)? != Emptiness::Empty {
        return Ok(());
    }
    for (key, last) in read("the ingesting runs", store.ingesting_runs(None, 1_000).await)? {
        let Some(ingest) = read("an ingest", store.ingest(key, Reader::Role).await)? else { continue };
        let quiet = last.until(now) >= limits::INGEST_QUIET;
        let left = !ingest.run.status.is_terminal()
            && IngestState::fold(&ingest.log).is_ok_and(|state| is_given_up(&state));
        require(!quiet || left, Rule::Queues, || {
            format!("the list of {} is not read, and nobody is called after a sweep", world.name(key.job))
        })?;
        let letter = read("a letter", store.letter(letter_of(key)).await)?;
        require(!quiet || letter.is_some(), Rule::Ingest, || {
            format!("the list of {} is left to an operator, who has no letter", world.name(key.job))
        })?;
    }
    Ok(())
}
