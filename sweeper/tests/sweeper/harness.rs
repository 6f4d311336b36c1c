//! A store that can be damaged, and what an operator sees of it.

use conveyor_domain::repair::{Finding, Kind, Outcome, Subject};
use conveyor_domain::{
    Audit, Format, IngestRef, IngestState, Outcome as TaskOutcome, QueueName, Reconciled, ResultRef,
    Timestamp, limits,
};
use conveyor_store::Backend;
use conveyor_store::conformance::World;
use conveyor_store::embedded::Embedded;
use conveyor_store::port::{BlobKey, Reader, RunKey};
use conveyor_sweeper::{Look, Scope, Sweep, audit, reconcile, sweep};
use conveyor_testkit::ManualClock;
use rusqlite::types::Value;
use rusqlite::{Connection, Params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const SWEEPS_MAX: usize = 100;
pub const SECOND: i64 = 1_000;
pub const DAY: i64 = 24 * 3_600 * SECOND;

pub struct Damaged {
    pub world: World,
    pub clock: Arc<ManualClock>,
    _store: Arc<Embedded>,
    dir: TempDir,
}

impl Damaged {
    pub fn new() -> Damaged {
        let dir = TempDir::new().unwrap();
        let store = Embedded::open(dir.path(), Timestamp(1_800_000_000_000)).unwrap();
        let world = World::new(store.backend());
        let clock = Arc::new(ManualClock::at(world.now()));
        Damaged { world, clock, _store: store, dir }
    }

    pub fn backend(&self) -> &Backend {
        &self.world.backend
    }

    pub fn pass(&self, ms: i64) {
        self.world.pass(ms);
        self.clock.set(self.world.now());
    }

    pub fn pass_for(&self, time: Duration) {
        self.pass(i64::try_from(time.as_millis()).unwrap());
    }

    /// Where an object is, for tests that do what no process of ours does.
    pub fn file(&self, object: &BlobKey) -> PathBuf {
        self.dir.path().join("blobs").join(object.as_str())
    }

    /// Changes the database file behind the store's back. Returns how many rows were hit.
    pub fn sql(&self, statement: &str, values: impl Params) -> usize {
        self.connection().execute(statement, values).unwrap()
    }

    fn connection(&self) -> Connection {
        let connection = Connection::open(self.dir.path().join("conveyor.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection
    }

    /// Everything that is stored: every row of every table, and every file.
    pub fn dump(&self) -> Vec<String> {
        let connection = self.connection();
        let mut names = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
        let tables = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let mut all = files_under(&self.dir.path().join("blobs"));
        for table in tables.map(Result::unwrap) {
            let mut rows = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns = rows.column_count();
            let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get::<_, Value>(at)).collect();
            let rows = rows.query_map([], row).unwrap().map(Result::unwrap);
            all.extend(rows.map(|row: Vec<Value>| format!("{table}: {row:?}")));
        }
        all.sort();
        all
    }

    /// One sweep; on a machine that is too slow for what it may take, in several.
    pub async fn sweep(&self) {
        let stop = CancellationToken::new();
        let one = Sweep::new(self.backend(), self.clock.as_ref(), &stop);
        for _ in 0..SWEEPS_MAX {
            if !sweep(&one).await.unfinished {
                return;
            }
        }
        panic!("a sweep never comes to its end");
    }

    pub async fn reconcile(&self, scope: Scope, dry_run: bool) -> Reconciled {
        let stop = CancellationToken::new();
        let sweep = Sweep::new(self.backend(), self.clock.as_ref(), &stop);
        let mut all: Option<Reconciled> = None;
        loop {
            let from = all.as_ref().and_then(|all| all.next.as_deref());
            let part = reconcile(&sweep, scope, dry_run, from, limits::RECONCILE_WITHIN).await.unwrap();
            assert_eq!(part.errors, [], "everything answered");
            let all = all.get_or_insert_with(|| Reconciled { findings: Vec::new(), ..part.clone() });
            all.findings.extend(part.findings);
            all.next = part.next;
            if all.next.is_none() {
                return all.clone();
            }
        }
    }

    /// What there is to be found, by a look that must change nothing.
    pub async fn findings(&self) -> Vec<Finding> {
        let before = self.dump();
        let part = self.reconcile(Scope::All, true).await;
        assert_eq!(self.dump(), before, "a dry run changed something");
        assert!(part.findings.iter().all(|(_, outcome)| *outcome == Outcome::Seen));
        part.findings.into_iter().map(|(finding, _)| finding).collect()
    }

    /// Damage that a sweep can mend.
    pub async fn damage(&self) -> Vec<Finding> {
        let all = self.findings().await;
        all.into_iter().filter(|finding| finding.kind == Kind::Damage && finding.fixable).collect()
    }

    /// The only damage there is, which is this.
    pub async fn only_damage(&self, repair: &str) -> Finding {
        let mut damage = self.damage().await;
        assert_eq!(damage.iter().map(|finding| finding.repair).collect::<Vec<_>>(), [repair], "{damage:?}");
        damage.remove(0)
    }

    /// The same, of a run; and an audit of that run says the same.
    pub async fn only_damage_of(&self, repair: &str, key: RunKey) -> Finding {
        let finding = self.only_damage(repair).await;
        assert_eq!(finding.subject, Subject::Run(key.job, key.run));
        let audited = self.audit(key).await.findings;
        assert!(audited.contains(&finding), "an audit names it too: {audited:?}");
        finding
    }

    /// One sweep mends everything.
    pub async fn is_mended_by_a_sweep(&self) {
        self.sweep().await;
        assert_eq!(self.damage().await, []);
    }

    pub async fn audit(&self, key: RunKey) -> Audit {
        let before = self.dump();
        let look = Look::new(self.backend(), self.clock.as_ref(), Scope::Job(key.job), true);
        let audit = audit(&look, key).await.unwrap().unwrap();
        assert_eq!(self.dump(), before, "an audit changed something");
        audit
    }

    pub async fn depth(&self, queue: QueueName) -> u64 {
        let depth = self.backend().queue.depth(queue, Reader::Role, self.world.now()).await.unwrap();
        depth.visible + depth.hidden
    }

    /// Every message of a queue is gone.
    pub fn lose_messages(&self, queue: QueueName) -> usize {
        self.sql(
            "DELETE FROM messages WHERE queue_key = (SELECT queue_key FROM queues WHERE name = ?1)",
            [queue.to_string()],
        )
    }

    /// A job whose list is staged, and called for.
    pub async fn accepted(&self) -> RunKey {
        let world = &self.world;
        let upload = world.upload().await;
        let staged = world.staged("list", b"https://a.example\n").await;
        self.backend().store.put_staged(upload.id, staged.clone(), None, world.now()).await.unwrap();
        world.accept(&upload, &staged).await
    }

    pub async fn state(&self, key: RunKey) -> IngestState {
        let ingest = self.backend().store.ingest(key, Reader::Role).await.unwrap().unwrap();
        IngestState::fold(&ingest.log).unwrap()
    }

    /// Calls for ingesters that wait.
    pub async fn calls(&self) -> Vec<IngestRef> {
        let (queue, now) = (&self.backend().queue, self.world.now());
        let received = queue.receive(QueueName::Control, 100, Duration::ZERO, now).await.unwrap();
        received.iter().map(|delivery| delivery.body.parse().unwrap()).collect()
    }
}

fn files_under(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path.display().to_string()) }
        }
    }
    files
}

/// A result whose body is empty, so that it needs no object.
pub fn success() -> TaskOutcome {
    TaskOutcome::Successful(ResultRef::empty(Format::Html, 200))
}
