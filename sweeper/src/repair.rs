//! What a repair is, and what it looks at.

use crate::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{Clock, JobId, RunId, Timestamp, limits};
use conveyor_store::port::{ActiveRun, RunKey};
use conveyor_store::{Backend, Error, Result};
use tokio::sync::OnceCell;

/// What one `find` looks at, at most.
pub(crate) const PAGE: u32 = 500;
/// How far down a list that has no cursor is looked.
const BEHIND_MAX: u32 = 100_000;
const RUNS_A_PAGE: u32 = 100;

/// How often it has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Somebody waits for it.
    Often,
    /// It is costly, or in no hurry.
    Slowly,
}

impl Pace {
    pub fn as_str(self) -> &'static str {
        match self {
            Pace::Often => "often",
            Pace::Slowly => "slowly",
        }
    }
}

/// One kind of damage or upkeep: finds it, says why it is so, and mends it.
#[async_trait]
pub trait Repair: Send + Sync {
    fn name(&self) -> &'static str;

    fn kind(&self) -> Kind;

    fn pace(&self) -> Pace;

    /// A page of findings, from a cursor on. Changes nothing that is stored.
    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found>;

    /// Mends one of them, if it is still so. Safe to repeat, and beside anybody who does the same.
    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed>;
}

/// What came of a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixed {
    /// So many things were changed; none, if somebody was quicker.
    Changed(u64),
    /// The time was up first. The next sweep goes on where this one ended.
    Unfinished,
}

impl Fixed {
    pub(crate) const NOTHING: Fixed = Fixed::Changed(0);
    pub(crate) const ONE: Fixed = Fixed::Changed(1);
}

/// A page of findings.
#[derive(Debug, Default)]
pub struct Found {
    pub findings: Vec<Finding>,
    /// What cannot be told yet, with when it can.
    pub unsure: Vec<(Subject, Timestamp)>,
    pub next: Option<Next>,
}

/// Where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    After(String),
    /// This page began so far down a list that has no cursor, and that what was fixed has disappeared from.
    Behind(u32),
}

impl Next {
    /// As a cursor, if so many of the page's findings are still there.
    pub fn cursor(self, left: usize) -> String {
        match self {
            Next::After(cursor) => cursor,
            Next::Behind(n) => n.saturating_add(u32::try_from(left).unwrap_or(u32::MAX)).to_string(),
        }
    }
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    Job(JobId),
}

/// Which findings are ours to fix.
#[derive(Clone, Copy)]
struct Ours<'a>(&'a (dyn Fn(Subject) -> bool + Sync));

impl std::fmt::Debug for Ours<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ours")
    }
}

/// What a repair looks with.
#[derive(Debug)]
pub struct Look<'a> {
    pub backend: &'a Backend,
    pub clock: &'a dyn Clock,
    pub scope: Scope,
    /// Somebody asked: every run is proved, not only those that are due.
    pub thorough: bool,
    page: u32,
    sweep: Option<Sweep<'a>>,
    ours: Option<Ours<'a>>,
    runs: OnceCell<Vec<ActiveRun>>,
}

impl<'a> Look<'a> {
    pub fn new(backend: &'a Backend, clock: &'a dyn Clock, scope: Scope, thorough: bool) -> Look<'a> {
        Look { backend, clock, scope, thorough, page: PAGE, sweep: None, ours: None, runs: OnceCell::new() }
    }

    /// A look that ends when the sweep does.
    pub(crate) fn of(sweep: &Sweep<'a>, scope: Scope, thorough: bool) -> Look<'a> {
        Look { sweep: Some(*sweep), ..Look::new(sweep.backend, sweep.clock, scope, thorough) }
    }

    /// A look at what is ours alone, where looking is what costs.
    pub(crate) fn sharing(self, ours: &'a (dyn Fn(Subject) -> bool + Sync)) -> Look<'a> {
        Look { ours: Some(Ours(ours)), ..self }
    }

    /// Whether looking at it is up to us.
    pub(crate) fn is_ours(&self, subject: Subject) -> bool {
        self.ours.is_none_or(|Ours(ours)| ours(subject))
    }

    pub(crate) fn paged(self, page: u32) -> Look<'a> {
        Look { page, ..self }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn page(&self) -> u32 {
        self.page
    }

    /// Whether a page is to be ended early.
    pub(crate) fn is_over(&self) -> bool {
        self.sweep.is_some_and(|sweep| sweep.is_over())
    }

    /// Runs that go on; or all runs of the job that is looked at. Read once, sorted by their ids.
    pub(crate) async fn runs(&self) -> Result<&[ActiveRun]> {
        let read = || async {
            let mut runs = match self.scope {
                Scope::All => self.backend.store.active_runs().await?,
                Scope::Job(job) => runs_of(self.backend, job).await?,
            };
            runs.sort_by_key(|active| active.run.id);
            Ok(runs)
        };
        let runs: Result<&Vec<ActiveRun>> = self.runs.get_or_try_init(read).await;
        Ok(runs?)
    }

    /// A page of them, behind the one that the cursor names.
    pub(crate) async fn runs_from(&self, from: Option<String>) -> Result<(&[ActiveRun], Option<Next>)> {
        let after = after::<RunId>(from)?;
        let runs = self.runs().await?;
        let rest = &runs[runs.partition_point(|active| Some(active.run.id) <= after)..];
        let page = &rest[..rest.len().min(self.page as usize)];
        let more = page.len() < rest.len();
        let next = page.last().filter(|_| more).map(|last| Next::After(last.run.id.to_string()));
        Ok((page, next))
    }
}

/// All runs of a job but those that were removed.
pub(crate) async fn runs_of(backend: &Backend, job: JobId) -> Result<Vec<ActiveRun>> {
    let Some(view) = backend.store.any_job(job).await? else { return Ok(Vec::new()) };
    let (mut runs, mut before) = (Vec::new(), None);
    loop {
        let page = backend.store.runs(job, before, RUNS_A_PAGE).await?;
        before = page.last().map(|view| view.run.sequence);
        let full = page.len() == RUNS_A_PAGE as usize;
        runs.extend(page.into_iter().map(|of| ActiveRun {
            job: view.job.clone(),
            run: of.run,
            stats: of.stats,
        }));
        if !full {
            return Ok(runs);
        }
    }
}

pub(crate) fn key_of(active: &ActiveRun) -> RunKey {
    RunKey { job: active.job.id, run: active.run.id }
}

pub(crate) fn subject_of(key: RunKey) -> Subject {
    Subject::Run(key.job, key.run)
}

/// The run that a finding of a repair of runs is about.
pub(crate) fn run_of(finding: &Finding) -> Result<RunKey> {
    match finding.subject {
        Subject::Run(job, run) => Ok(RunKey { job, run }),
        Subject::Job(_) | Subject::Upload(_) | Subject::Letter(_) | Subject::Queue(_) => {
            Err(misplaced(finding))
        }
    }
}

pub(crate) fn job_of(finding: &Finding) -> Result<JobId> {
    match finding.subject {
        Subject::Job(job) => Ok(job),
        Subject::Run(..) | Subject::Upload(_) | Subject::Letter(_) | Subject::Queue(_) => {
            Err(misplaced(finding))
        }
    }
}

pub(crate) fn misplaced(finding: &Finding) -> Error {
    Error::Conflict(format!("{} finds nothing of a {}", finding.repair, finding.subject.kind()))
}

/// A cursor that is an id, read back.
pub(crate) fn after<T: std::str::FromStr>(from: Option<String>) -> Result<Option<T>> {
    from.map(|text| text.parse().map_err(|_| Error::Conflict(format!("{text:?} is not a cursor"))))
        .transpose()
}

/// How far down a list without a cursor a page begins, and how much of the list has to be read for it.
pub(crate) fn window(look: &Look<'_>, from: Option<String>) -> Result<(u32, u32)> {
    let behind = after::<u32>(from)?.unwrap_or(0).min(BEHIND_MAX);
    Ok((behind, behind + look.page()))
}

/// The page of such a list, as findings.
pub(crate) fn page<T>(items: Vec<T>, (behind, end): (u32, u32), finding: impl Fn(T) -> Finding) -> Found {
    let more = items.len() >= end as usize && end <= BEHIND_MAX;
    Found {
        findings: items.into_iter().skip(behind as usize).map(finding).collect(),
        unsure: Vec::new(),
        next: more.then_some(Next::Behind(behind)),
    }
}

/// Things of one page that may not answer before it is called off: then it is not they.
const SILENT_MAX: usize = 3;

impl Found {
    /// Adds what one thing came to. One that cannot be read must not hide the rest: it is a finding of its own. One that
    /// cannot be told for now is named as such.
    pub(crate) fn add(
        &mut self,
        repair: &dyn Repair,
        subject: Subject,
        found: Result<Option<Finding>>,
        now: Timestamp,
    ) -> Result<()> {
        match found {
            Ok(finding) => self.findings.extend(finding),
            Err(error @ (Error::Corrupt(_) | Error::Conflict(_))) => self.findings.push(Finding {
                repair: repair.name(),
                kind: Kind::Damage,
                subject,
                why: error.to_string(),
                remedy: "none that is known: an operator has to look at what is stored".to_owned(),
                fixable: false,
            }),
            Err(error @ Error::Unavailable(_)) if self.unsure.len() < SILENT_MAX => {
                tracing::warn!(repair = repair.name(), %subject, %error, "cannot be told for now");
                self.unsure.push((subject, now.after(limits::SWEEP_EVERY)));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
