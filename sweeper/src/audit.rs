//! Everything that is stored of a run, counted and compared (SPEC 6.14). It changes nothing and holds nobody up.

use crate::facts;
use crate::letters::{self, state_of};
use crate::proofs::is_provable;
use crate::repair::{Look, Scope, unreadable};
use crate::repairs;
use conveyor_domain::ingest::Phase;
use conveyor_domain::repair::proof::drift;
use conveyor_domain::repair::{Finding, Subject};
use conveyor_domain::{
    Audit, Job, ListCounts, ResultCounts, RowCounts, Run, RunStats, RunStatus, Sums, Timestamp,
};
use conveyor_store::port::{BlobKey, DamagedRows, NamedObjects, Reader, RunKey, RunView, Tally};
use conveyor_store::{Backend, Error, Result};

const OBJECTS_A_PAGE: usize = 1_000;

/// Audits one run. `None` if it is not there.
pub async fn audit(look: &Look<'_>, key: RunKey) -> Result<Option<Audit>> {
    let (backend, now) = (look.backend, look.clock.now());
    let Some(view) = backend.store.job(None, key.job).await? else { return Ok(None) };
    let Some(of) = backend.store.run(key.job, key.run).await? else { return Ok(None) };
    // The log before the rows: what it says was written by then.
    let (list, unreadable) = match list_counts(backend, key).await {
        Err(Error::Corrupt(why)) => (None, Some(format!("the log of its ingest cannot be read: {why}"))),
        other => (other?, None),
    };
    let provable = is_provable(backend, &view.job, &of.run, now);
    let mut disagreements: Vec<String> = unreadable.into_iter().collect();
    let (mut tally, counted) = match backend.store.tally(key, provable).await {
        Ok(Some(tally)) => (tally, provable),
        Ok(None) => return Ok(None),
        // This is what an audit is there for: it says so, and the rest all the same.
        Err(Error::Corrupt(why)) => {
            disagreements.push(format!("the rows cannot be counted: {why}"));
            (uncounted(&of), false)
        }
        Err(error) => return Err(error),
    };
    let mut results = None;
    if counted {
        let found = count_results(backend, &mut tally).await?;
        disagreements.extend(of_damage(&tally.damaged));
        disagreements.extend(compare(&view.job, &tally, list.as_ref(), found));
        results = Some(found);
    }
    let (findings, unsure) = find_all(look, key).await?;
    Ok(Some(Audit {
        at: now,
        job: key.job,
        stats: RunStats { total: tally.run.total, counts: tally.counters.counts(), spend: of.stats.spend },
        run: tally.run,
        list,
        rows: counted.then_some(tally.rows),
        counters: tally.counters,
        results,
        disagreements,
        findings,
        unsure,
    }))
}

/// What is known of a run whose rows cannot be read.
fn uncounted(of: &RunView) -> Tally {
    Tally {
        run: of.run.clone(),
        rows: RowCounts::default(),
        counters: of.stats.counts.into(),
        revision: 0,
        objects: NamedObjects::default(),
        damaged: DamagedRows::default(),
    }
}

async fn list_counts(backend: &Backend, key: RunKey) -> Result<Option<ListCounts>> {
    let Some(ingest) = backend.store.ingest(key, Reader::Role).await? else { return Ok(None) };
    let state = state_of(&ingest)?;
    let whole = matches!(state.phase, Phase::TotalSet | Phase::Latched);
    Ok(Some(ListCounts { accepted: state.accepted, rejected: state.rejected, whole }))
}

/// Takes the objects that are there off those that rows name; what is left is missing. They are listed where the rows say
/// that they are, which need not be this run's own place.
async fn count_results(backend: &Backend, tally: &mut Tally) -> Result<ResultCounts> {
    let mut present = tally.objects.none();
    let places: Vec<BlobKey> = tally.objects.places().filter_map(|place| place.parse().ok()).collect();
    for place in places {
        present += count_listed(backend, &place, &mut tally.objects).await?;
    }
    Ok(ResultCounts { present, missing: tally.objects.left() })
}

async fn count_listed(backend: &Backend, prefix: &BlobKey, wanted: &mut NamedObjects) -> Result<u32> {
    let (mut found, mut after) = (0, None);
    loop {
        let listed = backend.blobs.list(prefix, after.as_ref(), OBJECTS_A_PAGE).await?;
        found += listed.iter().map(|object| wanted.take(object.key.as_str())).sum::<u32>();
        if listed.len() < OBJECTS_A_PAGE {
            return Ok(found);
        }
        after = listed.into_iter().last().map(|object| object.key);
    }
}

/// Sentences, one for each two numbers that should be the same and are not.
fn compare(job: &Job, tally: &Tally, list: Option<&ListCounts>, results: ResultCounts) -> Vec<String> {
    let Tally { run, rows, counters, .. } = tally;
    let mut said = Vec::new();
    said.extend(of_rows(run, rows));
    said.extend(of_counters(rows, counters));
    said.extend(list.and_then(|list| of_list(job, run, list)));
    if counters.completed() > i64::from(run.total) {
        said.push(format!("the counters say {} completed, of {} tasks", counters.completed(), run.total));
    }
    if run.status == RunStatus::Completed && rows.unfinished() > 0 {
        said.push(of_unfinished(job, run, rows.unfinished()));
    }
    if results.missing > 0 {
        said.push(format!("{} results name objects that are not there", results.missing));
    }
    said
}

/// A run completes once, so no repair works on it again: what does is a rerun, or a rebuild from what is stored.
fn of_unfinished(job: &Job, run: &Run, n: u32) -> String {
    let (job, run, latest) = (job.id, run.id, job.latest_run == run.id);
    let again = format!("`conveyor rerun {job} --status pending,processing` does them in another run; ");
    let again = if latest { again.as_str() } else { "" };
    format!(
        "the run is completed, and {n} of its tasks are not: nobody will work on them. {again}`conveyor rebuild {job} --run {run}`, \
         of a job with a staged list, gives them their stored results and fails those that have none"
    )
}

/// Rows of which a part cannot be read, by name.
fn of_damage(damaged: &DamagedRows) -> Vec<String> {
    let named = damaged.first.iter();
    let mut said: Vec<String> =
        named.map(|(task, parts)| format!("task {task} is damaged: its {parts} cannot be read")).collect();
    let more = damaged.count as usize - said.len();
    if more > 0 {
        said.push(format!("{more} more tasks are damaged"));
    }
    said
}

/// Rows are written before they are counted, so more of them than the total are no damage while more may come.
fn of_rows(run: &Run, rows: &RowCounts) -> Option<String> {
    let (all, total) = (rows.all(), run.total);
    let more_may_come = !run.latched || run.is_ingesting();
    let agree = all == total || (more_may_come && all > total);
    (!agree).then(|| {
        let RowCounts { pending, processing, settled, .. } = rows;
        let (successful, failed) = (settled.successful, rows.failed());
        format!(
            "there are {all} rows ({pending} pending, {processing} processing, {successful} successful, {failed} failed), and the total is {total}"
        )
    })
}

fn of_counters(rows: &RowCounts, counters: &Sums) -> Option<String> {
    let missing = drift(rows, counters);
    (!missing.is_zero()).then(|| {
        let (successful, failed) = (rows.settled.successful, rows.failed());
        format!(
            "the rows say {successful} successful and {failed} failed, the counters {} and {}; missing: {}",
            counters.successful,
            counters.failed_total(),
            facts::sums(&missing)
        )
    })
}

/// Tasks that were added behind a list are in the total as well.
fn of_list(job: &Job, run: &Run, list: &ListCounts) -> Option<String> {
    let exact = list.whole && !job.spec.submitted_open;
    let agree = if exact { list.accepted == run.total } else { list.accepted <= run.total };
    (!agree)
        .then(|| format!("{} rows of the list were accepted, and the total is {}", list.accepted, run.total))
}

type Found = (Vec<Finding>, Vec<(Subject, Timestamp)>);

/// What the repairs would find of this run.
async fn find_all(look: &Look<'_>, key: RunKey) -> Result<Found> {
    let look = Look::new(look.backend, look.clock, Scope::Job(key.job), true);
    let letter = letters::id_of(key);
    let is_about = |subject: &Subject| match subject {
        Subject::Run(_, run) => *run == key.run,
        Subject::Job(job) => *job == key.job,
        Subject::Letter(found) => *found == letter,
        Subject::Queue(_) => true,
        Subject::Upload(_) => false,
    };
    let (mut findings, mut unsure) = (Vec::new(), Vec::new());
    for repair in repairs::all() {
        let mut from = None;
        loop {
            let found = match repair.find(&look, from).await {
                // What the others find is worth knowing.
                Err(error @ (Error::Corrupt(_) | Error::Conflict(_))) => {
                    findings.push(unreadable(&*repair, Subject::Job(key.job), error.to_string()));
                    break;
                }
                other => other?,
            };
            let here = found.findings.len();
            findings.extend(found.findings.into_iter().filter(|finding| is_about(&finding.subject)));
            unsure.extend(found.unsure.into_iter().filter(|(subject, _)| is_about(subject)));
            let Some(next) = found.next else { break };
            from = Some(next.cursor(here));
        }
    }
    Ok((findings, unsure))
}
