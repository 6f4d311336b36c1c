//! A store in a temporary directory, a run in it whose tasks have ended, and its exports.

use bytes::Bytes;
use conveyor_domain::export::State;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    CallerId, Clock, Entropy, Export, ExportFormat, ExportId, FailureClass, Format, JobId, JobSpec, Outcome,
    Problem, RecordWrite, ResultRef, RunId, TaskId, TaskInput, Timestamp, WorkerId, checksum, lifecycle,
};
use conveyor_exports::{Builder, End, ExportConfig};
use conveyor_store::Backend;
use conveyor_store::embedded::Embedded;
use conveyor_store::port::{BlobKey, RunKey, Submission};
use conveyor_testkit::ManualClock;
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use zip::ZipArchive;

pub struct World {
    // Dropped in this order: the store lets go of the directory before it is removed.
    pub backend: Backend,
    pub dir: TempDir,
    pub clock: Arc<ManualClock>,
    pub entropy: Arc<Entropy>,
    worker: WorkerId,
    objects: AtomicU64,
}

impl World {
    pub fn new() -> World {
        let dir = TempDir::new().unwrap();
        let clock = Arc::new(ManualClock::new());
        let entropy = Arc::new(Entropy::from_number(11));
        let backend = Embedded::open(dir.path(), clock.now()).unwrap().backend();
        let worker = WorkerId::new(clock.now(), &entropy);
        World { backend, dir, clock, entropy, worker, objects: 0.into() }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A run of `count` tasks, none of which has ended.
    pub async fn run(&self, count: u32) -> RunKey {
        self.run_of(CallerId::new(self.now(), &self.entropy), count).await
    }

    pub async fn run_of(&self, caller: CallerId, count: u32) -> RunKey {
        let input = |i: u32| {
            let mut input = TaskInput::from_url(&format!("https://site.example/{i}")).unwrap();
            input.external_id = (i % 2 == 1).then(|| format!("row-{i}"));
            if i % 5 == 4 {
                input.metadata.insert("sum".to_owned(), format!("=1+{i}, \"quoted\""));
            }
            (i, input)
        };
        let (job, run) = (JobId::new(self.now(), &self.entropy), RunId::new(self.now(), &self.entropy));
        let rows = lifecycle::submit(job, run, caller, JobSpec::default(), false, count, self.now());
        let tasks = (0..count).map(input).collect();
        let submission = Submission { job: rows.job, run: Some(rows.run), tasks, list: None, once: None };
        self.backend.store.submit(submission).await.unwrap();
        RunKey { job, run }
    }

    /// Gives tasks their ends.
    pub async fn end(&self, key: RunKey, ends: Vec<(u32, Outcome)>) {
        let count = ends.len();
        let ends = ends.into_iter().map(|(i, outcome)| (TaskId::of(key.run, i), outcome)).collect();
        let ended = self.backend.store.restore(key, self.worker, ends, self.now()).await.unwrap();
        assert_eq!(ended.iter().filter(|ended| **ended).count(), count);
    }

    /// Writes bodies into one object, as workers do with small ones, or each into one of its own.
    pub async fn store_bodies(&self, key: RunKey, bodies: &[Vec<u8>], whole: bool) -> Vec<ResultRef> {
        let mut results = Vec::new();
        let packs: Vec<&[Vec<u8>]> = bodies.chunks(if whole { 1 } else { 50 }).collect();
        for pack in packs {
            let n = self.objects.fetch_add(1, Ordering::SeqCst);
            let object = BlobKey::results(key.job, key.run, self.worker, n);
            let mut bytes = Vec::new();
            for body in pack {
                let (offset, length) = (bytes.len() as u64, body.len() as u64);
                bytes.extend(body);
                let object = Some(object.to_string());
                results.push(ResultRef {
                    object,
                    whole,
                    offset,
                    length,
                    format: Format::Html,
                    http_status: 200,
                    crc32: Some(checksum::hash(body)),
                });
            }
            self.backend.blobs.put(&object, Bytes::from(bytes)).await.unwrap();
        }
        results
    }

    /// A run whose every task was successful, with these bodies.
    pub async fn finished(&self, bodies: &[Vec<u8>], whole: bool) -> RunKey {
        let key = self.run(u32::try_from(bodies.len()).unwrap()).await;
        let results = self.store_bodies(key, bodies, whole).await;
        let ends = (0..).zip(results).map(|(i, result)| (i, Outcome::Successful(result))).collect();
        self.end(key, ends).await;
        key
    }

    pub async fn ask(&self, key: RunKey, format: ExportFormat) -> Export {
        let export = self.prepare(key, format).await;
        self.put(&export).await;
        export
    }

    /// An export that nobody can see yet.
    pub async fn prepare(&self, key: RunKey, format: ExportFormat) -> Export {
        let id = ExportId::new(self.now(), &self.entropy);
        let view = self.backend.store.job(None, key.job).await.unwrap().unwrap();
        Export::new(id, key.job, key.run, format, self.now())
            .asked_by(view.job.caller, view.latest.as_ref().unwrap().stats.total)
    }

    pub async fn put(&self, export: &Export) {
        let write = RecordWrite::put(export.record(&self.entropy), Expected::Absent);
        assert!(self.backend.store.write_record(write).await.unwrap());
    }

    pub fn builder(&self) -> Builder {
        self.builder_with(&self.backend, ExportConfig::default())
    }

    pub fn builder_with(&self, backend: &Backend, config: ExportConfig) -> Builder {
        Builder::new(backend.clone(), self.clock.clone(), self.entropy.clone(), config)
    }

    /// What is due once, undisturbed.
    pub async fn build(&self) -> Vec<End> {
        attend(&self.builder()).await
    }

    /// As it is now; `None` once its record is gone.
    pub async fn find(&self, export: &Export) -> Option<Export> {
        let record = self.backend.store.record(&Export::key(export.run, export.id)).await.unwrap();
        record.map(|record| record.parse().unwrap())
    }

    /// The file of an export that must be there.
    pub async fn file(&self, export: &Export) -> Vec<u8> {
        let export = self.find(export).await.unwrap();
        let State::Completed { object, size } = &export.state else { panic!("{export:?}") };
        let bytes = std::fs::read(self.dir.path().join("blobs").join(object)).unwrap();
        assert_eq!(bytes.len() as u64, *size);
        bytes
    }

    pub async fn error(&self, export: &Export) -> String {
        match self.find(export).await.unwrap().state {
            State::Failed { error } => error,
            other => panic!("{other:?}"),
        }
    }

    /// The objects that an export has.
    pub fn objects(&self, export: &Export) -> Vec<PathBuf> {
        let prefix = BlobKey::export_prefix(export.job, export.run, export.id);
        let dir = std::fs::read_dir(self.dir.path().join("blobs").join(prefix.as_str()));
        dir.map_or(Vec::new(), |files| files.map(|file| file.unwrap().path()).collect())
    }
}

/// Does everything that is due once.
pub async fn attend(builder: &Builder) -> Vec<End> {
    let mut ends = Vec::new();
    for record in builder.due(100).await.unwrap() {
        if let Some(taken) = builder.take(record).await.unwrap() {
            ends.push(builder.attempt(taken, &CancellationToken::new()).await);
        }
    }
    ends
}

pub fn failed() -> Outcome {
    let problem = Problem::new(404, "http_404", "Not Found").with_detail("The target, \"it\", answered 404.");
    Outcome::Failed { class: FailureClass::BadTarget, problem }
}

/// Bodies of different lengths, some of which deflate well, some not, and some of which are empty.
pub fn bodies(count: u32) -> Vec<Vec<u8>> {
    let body = |i: u32| match i % 7 {
        0 => Vec::new(),
        1 => Entropy::from_number(u64::from(i)).next_u64().to_le_bytes().to_vec(),
        _ => format!("<p>page {i}</p>").repeat(i as usize % 90 + 1).into_bytes(),
    };
    (0..count).map(body).collect()
}

/// The entries of a zip, read by another's code, which checks their checksums.
pub fn unzip(file: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = ZipArchive::new(Cursor::new(file)).unwrap();
    let mut entries = BTreeMap::new();
    for n in 0..archive.len() {
        let mut entry = archive.by_index(n).unwrap();
        let mut body = Vec::new();
        entry.read_to_end(&mut body).unwrap();
        assert!(entries.insert(entry.name().unwrap().into_owned(), body).is_none(), "no name twice");
    }
    entries
}

/// What a zip of these bodies has to hold.
pub fn expected(key: RunKey, bodies: &[Vec<u8>]) -> BTreeMap<String, Vec<u8>> {
    let name = |i| format!("{}.html", TaskId::of(key.run, i));
    (0..).zip(bodies).map(|(i, body)| (name(i), body.clone())).collect()
}
