//! What a repair is, and what it looks at.

use crate::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{Clock, JobId, RecordKey, RecordKind, RunId, Timestamp, limits};
use conveyor_store::port::{ActiveRun, ChangedRuns, Chore, DueQuery, RunKey, RunsQuery};
use conveyor_store::{Backend, Error, Result, clock_watch};
use futures::{StreamExt, stream};
use tokio::sync::OnceCell;

const RUNS_A_PAGE: u32 = 100;

conveyor_domain::words! {
    /// How often it has its turn, and beside which others. Each pace is a loop of its own, so that none waits for the others.
    pub enum Pace {
        /// Its moment has come.
        Promptly = "promptly",
        /// A message is to be sent again.
        Messages = "messages",
        /// Messages of whole runs are sent again: one run may have a million.
        Refs = "refs",
        /// A caller waits for it, and every active run is looked at.
        Often = "often",
        /// It is costly, or in no hurry.
        Slowly = "slowly",
    }
}

/// What a repair is called, and how it has its turn.
#[derive(Clone, Copy, Debug)]
pub struct About {
    name: &'static str,
    kind: Kind,
    pub pace: Pace,
}

impl About {
    pub const fn new(name: &'static str, kind: Kind, pace: Pace) -> About {
        About { name, kind, pace }
    }

    /// Something that the repair can mend.
    pub(crate) fn finding(
        self,
        subject: Subject,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let About { name: repair, kind, .. } = self;
        Finding { repair, kind, subject, why: why.into(), remedy: remedy.into(), fixable: true }
    }
}

/// One kind of damage or upkeep: finds it, says why it is so, and mends it.
#[async_trait]
pub trait Repair: Send + Sync {
    fn about(&self) -> About;

    fn name(&self) -> &'static str {
        self.about().name
    }

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

/// The result of looking at one thing.
#[derive(Debug)]
pub(crate) enum Seen {
    Nothing,
    Finding(Finding),
    Unsure(Timestamp),
}

impl From<Option<Finding>> for Seen {
    fn from(finding: Option<Finding>) -> Seen {
        finding.map_or(Seen::Nothing, Seen::Finding)
    }
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

#[derive(Debug)]
struct Runs {
    active: Vec<ActiveRun>,
    unread: Vec<RunKey>,
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
    runs: OnceCell<Runs>,
}

impl<'a> Look<'a> {
    pub fn new(backend: &'a Backend, clock: &'a dyn Clock, scope: Scope, thorough: bool) -> Look<'a> {
        Look {
            backend,
            clock,
            scope,
            thorough,
            page: limits::SWEEP_PAGE,
            sweep: None,
            ours: None,
            runs: OnceCell::new(),
        }
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

    /// What everything goes by that is removed because of its age (SPEC 6.26).
    pub(crate) async fn removal_time(&self) -> Result<Timestamp> {
        clock_watch::removal_time(self.backend.store.as_ref(), self.now()).await
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
            let (mut active, unread) = match self.scope {
                Scope::All => {
                    let ChangedRuns { active, unread, .. } =
                        self.backend.store.changed_runs(None, self.now()).await?;
                    (active, unread)
                }
                Scope::Job(job) => (runs_of(self.backend, job).await?, Vec::new()),
            };
            active.sort_by_key(|active| active.run.id);
            Ok(Runs { active, unread })
        };
        let runs: Result<&Runs> = self.runs.get_or_try_init(read).await;
        Ok(&runs?.active)
    }

    /// Runs that it could not read, if it looked at all of them.
    pub(crate) fn unread_runs(&self) -> &[RunKey] {
        self.runs.get().map_or(&[], |runs| &runs.unread)
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

    /// A page of records that are due, those first that are due for the longest time.
    pub(crate) async fn due_from(
        &self,
        kind: RecordKind,
        from: Option<String>,
    ) -> Result<(Vec<DueKey>, Option<Next>)> {
        let after = from.as_deref().map(|cursor| parse_cursor(kind, cursor)).transpose()?;
        let query = DueQuery { kind, by: self.now(), after, newest_first: false, limit: self.page };
        let due = self.backend.store.due_keys(query).await?;
        let next = due.last().filter(|_| due.len() >= self.page as usize).map(behind);
        Ok((due, next))
    }
}

/// A record that is due, and since when.
pub(crate) type DueKey = (Timestamp, RecordKey);

/// The page behind it.
pub(crate) fn behind((due, key): &DueKey) -> Next {
    Next::After(format!("{}/{}/{}", due.0, key.owner, key.id))
}

fn parse_cursor(kind: RecordKind, cursor: &str) -> Result<DueKey> {
    let mut parts = cursor.splitn(3, '/');
    let due = parts.next().and_then(|due| due.parse().ok());
    match (due, parts.next(), parts.next()) {
        (Some(due), Some(owner), Some(id)) => Ok((Timestamp(due), RecordKey::new(kind, owner, id))),
        _ => Err(Error::Conflict(format!("{cursor:?} is not a cursor"))),
    }
}

/// All runs of a job but those that were removed.
pub(crate) async fn runs_of(backend: &Backend, job: JobId) -> Result<Vec<ActiveRun>> {
    let Some(view) = backend.store.job(None, job).await? else { return Ok(Vec::new()) };
    let (mut runs, mut query) = (Vec::new(), RunsQuery::newest(job, RUNS_A_PAGE));
    loop {
        let page = backend.store.runs(query).await?;
        runs.extend(page.rows.into_iter().map(|of| ActiveRun {
            job: view.job.clone(),
            run: of.run,
            stats: of.stats,
        }));
        match page.next {
            Some(_) => query.before = page.next,
            None => return Ok(runs),
        }
    }
}

pub(crate) fn key_of(active: &ActiveRun) -> RunKey {
    RunKey { job: active.job.id, run: active.run.id }
}

/// The run that a finding of a repair of runs is about.
pub(crate) fn run_of(finding: &Finding) -> Result<RunKey> {
    RunKey::of(finding.subject).ok_or_else(|| misplaced(finding))
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
    let behind = after::<u32>(from)?.unwrap_or(0).min(limits::SWEEP_BEHIND_MAX);
    Ok((behind, behind + look.page()))
}

/// A page of what there is to do, as findings.
pub(crate) async fn page_due(
    look: &Look<'_>,
    chore: Chore,
    from: Option<String>,
    finding: impl Fn(Subject) -> Finding,
) -> Result<Found> {
    let window = window(look, from)?;
    Ok(page(look.backend.store.due(chore, window.1).await?, window, finding))
}

/// A page of runs that there is something to do for, as findings. Of one job, those of its runs that are `due`.
pub(crate) async fn page_due_runs(
    look: &Look<'_>,
    chore: Chore,
    from: Option<String>,
    due: impl Fn(&ActiveRun) -> bool,
    finding: impl Fn(Subject) -> Finding,
) -> Result<Found> {
    if look.scope == Scope::All {
        return page_due(look, chore, from, finding).await;
    }
    let (runs, next) = look.runs_from(from).await?;
    let due = runs.iter().filter(|active| due(active)).map(key_of).map(Subject::from);
    Ok(Found { findings: due.map(finding).collect(), next, ..Found::default() })
}

/// The page of such a list, as findings.
pub(crate) fn page<T>(items: Vec<T>, (behind, end): (u32, u32), finding: impl Fn(T) -> Finding) -> Found {
    let more = items.len() >= end as usize && end <= limits::SWEEP_BEHIND_MAX;
    Found {
        findings: items.into_iter().skip(behind as usize).map(finding).collect(),
        next: more.then_some(Next::Behind(behind)),
        ..Found::default()
    }
}

impl Found {
    /// Looks at things, some at once. One that fails costs only itself. Where too many in a row do not answer, a sweep ends the
    /// page, and this returns the last of them: the next page begins behind it, so that they keep none from being looked at.
    pub(crate) async fn look_at(
        &mut self,
        repair: &dyn Repair,
        look: &Look<'_>,
        things: Vec<(Subject, impl Future<Output = Result<impl Into<Seen>>> + Send)>,
    ) -> Result<Option<Subject>> {
        self.look_until(repair, look, things, || false).await
    }

    /// The same for a page whose cursor is the id of a run. Within a sweep it ends where its time is up, too.
    pub(crate) async fn look_at_runs(
        mut self,
        repair: &dyn Repair,
        look: &Look<'_>,
        things: Vec<(Subject, impl Future<Output = Result<impl Into<Seen>>> + Send)>,
    ) -> Result<Found> {
        if let Some(Subject::Run(_, run)) = self.look_until(repair, look, things, || look.is_over()).await? {
            self.next = Some(Next::After(run.to_string()));
        }
        Ok(self)
    }

    /// Looks at things until it is over: then the last that was looked at, if there are more.
    async fn look_until(
        &mut self,
        repair: &dyn Repair,
        look: &Look<'_>,
        things: Vec<(Subject, impl Future<Output = Result<impl Into<Seen>>> + Send)>,
        is_over: impl Fn() -> bool,
    ) -> Result<Option<Subject>> {
        let (subjects, looks): (Vec<Subject>, Vec<_>) = things.into_iter().unzip();
        let mut looks = stream::iter(looks).buffered(limits::SWEEP_LOOKS_INFLIGHT);
        // Things in a row that did not answer.
        let mut silent = 0;
        let last = subjects.last().copied();
        for subject in subjects {
            let Some(told) = looks.next().await else { break };
            match told {
                Err(error @ (Error::Unavailable(_) | Error::Full(_) | Error::Missing(_))) => {
                    silent += 1;
                    if silent > limits::SWEEP_SILENT_MAX {
                        if look.sweep.is_none() {
                            return Err(error);
                        }
                        tracing::warn!(repair = repair.name(), %error, "too much does not answer; the sweep goes on behind it");
                        return Ok(Some(subject));
                    }
                    note_failure(repair, subject, &error);
                    self.unsure.push((subject, look.now().after(limits::SWEEP_EVERY)));
                }
                told => {
                    silent = 0;
                    self.add(repair, subject, told.map(Into::into));
                }
            }
            if is_over() && Some(subject) != last {
                return Ok(Some(subject));
            }
        }
        Ok(None)
    }

    /// Adds one result. A thing that cannot be read is a finding of its own.
    fn add(&mut self, repair: &dyn Repair, subject: Subject, told: Result<Seen>) {
        match told {
            Ok(Seen::Nothing) | Err(Error::NotFound) => {}
            Ok(Seen::Finding(finding)) => self.findings.push(finding),
            Ok(Seen::Unsure(until)) => self.unsure.push((subject, until)),
            Err(error) => {
                note_failure(repair, subject, &error);
                self.findings.push(unreadable(repair, subject, error.to_string()));
            }
        }
    }
}

fn note_failure(repair: &dyn Repair, subject: Subject, error: &Error) {
    metrics::counter!("conveyor_sweep_failures_total", "repair" => repair.name()).increment(1);
    tracing::warn!(repair = repair.name(), %subject, %error, "cannot be looked at; the others are");
}

/// A finding that nothing here can mend.
pub(crate) fn unreadable(repair: &dyn Repair, subject: Subject, why: String) -> Finding {
    Finding {
        repair: repair.name(),
        kind: Kind::Damage,
        subject,
        why,
        remedy: "none that is known: an operator has to look at what is stored".to_owned(),
        fixable: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fixed;
    use conveyor_store::embedded::Embedded;
    use conveyor_testkit::ManualClock;
    use std::future::ready;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;

    struct Any;

    #[async_trait]
    impl Repair for Any {
        fn about(&self) -> About {
            About::new("any", Kind::Damage, Pace::Often)
        }
        async fn find(&self, _: &Look<'_>, _: Option<String>) -> Result<Found> {
            Ok(Found::default())
        }
        async fn fix(&self, _: &Sweep<'_>, _: &Finding) -> Result<Fixed> {
            Ok(Fixed::NOTHING)
        }
    }

    async fn looked_at(told: Vec<Result<Seen>>) -> Result<Found> {
        let dir = tempfile::TempDir::new().unwrap();
        let clock = ManualClock::new();
        let backend = Embedded::open(dir.path(), clock.now()).unwrap().backend();
        let look = Look::new(&backend, &clock, Scope::All, false);
        let subject = Subject::Job(JobId::from_bytes([1; 16]));
        let things = told.into_iter().map(|told| (subject, ready(told))).collect();
        let mut found = Found::default();
        found.look_at(&Any, &look, things).await.map(|_| found)
    }

    /// Twenty runs, in order, looked at by a sweep for so long.
    async fn swept(time: Duration, told: impl Fn(u8) -> Result<Seen>) -> Found {
        let dir = tempfile::TempDir::new().unwrap();
        let clock = ManualClock::new();
        let backend = Embedded::open(dir.path(), clock.now()).unwrap().backend();
        let stop = CancellationToken::new();
        let sweep = Sweep::new(&backend, &clock, &stop).within(time);
        let look = Look::of(&sweep, Scope::All, false);
        let things = (1..=20).map(|n| {
            let told = told(n);
            let subject = Subject::Run(JobId::from_bytes([1; 16]), RunId::from_bytes([n; 16]));
            (subject, ready(told))
        });
        Found::default().look_at_runs(&Any, &look, things.collect()).await.unwrap()
    }

    #[tokio::test]
    async fn runs_that_do_not_answer_and_those_that_take_long_hide_none_behind_them() {
        let behind = |n: u8| Some(Next::After(RunId::from_bytes([n; 16]).to_string()));
        let minute = Duration::from_secs(60);
        let found = swept(minute, |n| if n <= 18 { silent() } else { Ok(Seen::Nothing) }).await;
        assert_eq!(found.next, behind(u8::try_from(limits::SWEEP_SILENT_MAX).unwrap() + 1));
        let found = swept(Duration::ZERO, |_| Ok(Seen::Nothing)).await;
        assert_eq!(found.next, behind(1), "its time is up");
        let found = swept(minute, |_| Ok(Seen::Nothing)).await;
        assert_eq!(found.next, None);
    }

    fn silent() -> Result<Seen> {
        Err(Error::Unavailable("no answer".to_owned()))
    }

    #[tokio::test]
    async fn one_that_fails_costs_only_itself() {
        let corrupt = || Err(Error::Corrupt("garbage".to_owned()));
        let seen =
            || Ok(Seen::Finding(unreadable(&Any, Subject::Job(JobId::from_bytes([1; 16])), "x".into())));
        let found = looked_at(vec![corrupt(), seen(), silent(), Err(Error::NotFound), seen()]).await.unwrap();
        assert_eq!((found.findings.len(), found.unsure.len()), (3, 1));
        assert_eq!(found.findings[0].why, "stored data is corrupt: garbage");
    }

    #[tokio::test]
    async fn where_nothing_answers_the_page_is_called_off() {
        let alternating = (0..100).map(|n| if n % 2 == 0 { silent() } else { Ok(Seen::Nothing) });
        assert_eq!(looked_at(alternating.collect()).await.unwrap().unsure.len(), 50);
        assert!(looked_at((0..100).map(|_| silent()).collect()).await.is_err());
    }

    #[test]
    fn a_cursor_names_a_place_in_the_index() {
        let kind = RecordKind::UnsentRefs;
        let place = (Timestamp(5), RecordKey::new(kind, "owner", "0000000001-00ff"));
        assert_eq!(parse_cursor(kind, &behind(&place).cursor(0)), Ok(place));
        assert!(parse_cursor(kind, "5").is_err());
    }
}
