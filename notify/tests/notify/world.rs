//! One deployment: a store, a clock that stands still, a deliverer.

use async_trait::async_trait;
use conveyor_domain::delivery::Answer;
use conveyor_domain::delivery::signing_keys::signing_keys_key;
use conveyor_domain::job::lifecycle::Decision;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    CallerId, Clock, Command, Delivery, Entropy, JobId, JobSpec, KeyId, Purpose, Record, RecordKind,
    RecordVersion, RecordWrite, RunId, Secret, SigningKey, SigningKeys, SigningSecret, Timestamp,
    WebhookConfig, lifecycle,
};
use conveyor_notify::{Notifier, Receivers, StateMachines};
use conveyor_store::Backend;
use conveyor_store::embedded::Embedded;
use conveyor_store::port::{RecordsQuery, RunKey, Submission};
use conveyor_testkit::ManualClock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

pub const CALLER: CallerId = CallerId::from_bytes([3; 16]);

/// State machines that take what they are told, or answer what they were told to.
#[derive(Default)]
pub struct Machines {
    pub told: Mutex<Vec<(String, String, String)>>,
    pub answer: Mutex<Option<Answer>>,
}

#[async_trait]
impl StateMachines for Machines {
    async fn succeed(&self, token: &str, output: &str) -> Answer {
        self.tell(token, "success", output)
    }
    async fn fail(&self, token: &str, error: &str, cause: &str) -> Answer {
        self.tell(token, error, cause)
    }
}

impl Machines {
    fn tell(&self, token: &str, what: &str, with: &str) -> Answer {
        self.told.lock().unwrap().push((token.to_owned(), what.to_owned(), with.to_owned()));
        self.answer.lock().unwrap().clone().unwrap_or(Answer::Taken)
    }
}

pub struct World {
    pub backend: Backend,
    pub notifier: Arc<Notifier>,
    pub machines: Arc<Machines>,
    pub clock: Arc<ManualClock>,
    pub entropy: Arc<Entropy>,
    _dir: TempDir,
}

impl World {
    pub fn new() -> World {
        World::with(Receivers::new(true).unwrap())
    }

    pub fn impatient() -> World {
        World::with(Receivers::new(true).unwrap().within(Duration::from_millis(200)))
    }

    pub fn with(receivers: Receivers) -> World {
        let dir = TempDir::new().unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp(1_767_225_600_000)));
        let entropy = Arc::new(Entropy::from_number(5));
        let backend = Embedded::open(dir.path(), clock.now()).unwrap().backend();
        let machines = Arc::new(Machines::default());
        let notifier = Arc::new(Notifier {
            backend: backend.clone(),
            secret: Secret::new([7; 32]),
            clock: clock.clone(),
            entropy: entropy.clone(),
            receivers,
            machines: Some(machines.clone()),
        });
        World { backend, notifier, machines, clock, entropy, _dir: dir }
    }

    pub fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// A job without tasks, which ends as soon as somebody says so.
    pub async fn submitted(&self, spec: JobSpec) -> RunKey {
        self.submitted_by(CALLER, spec).await
    }

    async fn submitted_by(&self, caller: CallerId, spec: JobSpec) -> RunKey {
        let now = self.clock.now();
        let (job, run) = (JobId::new(now, &self.entropy), RunId::new(now, &self.entropy));
        let Decision { job, run } = lifecycle::submit(job, run, caller, spec, true, 0, now);
        let key = RunKey { job: job.id, run: run.id };
        self.backend
            .store
            .submit(Submission { job, run: Some(run), tasks: Vec::new(), list: None, once: None })
            .await
            .unwrap();
        key
    }

    /// A job with a webhook, whose run has just completed.
    pub async fn completed(&self, url: &str, signature: bool) -> RunKey {
        self.completed_of(CALLER, url, signature).await
    }

    pub async fn completed_of(&self, caller: CallerId, url: &str, signature: bool) -> RunKey {
        let webhook = Some(WebhookConfig::new(url.to_owned(), signature));
        let key = self.submitted_by(caller, JobSpec { webhook, ..JobSpec::default() }).await;
        self.apply(key, Command::Close).await;
        key
    }

    /// A job that a state machine waits for.
    pub async fn awaited(&self, token: &str) -> RunKey {
        let sealed = self.notifier.secret.seal(
            Purpose::TaskToken,
            &CALLER.to_string(),
            token.as_bytes(),
            &self.entropy,
        );
        self.submitted(JobSpec { sfn_task_token: Some(sealed), ..JobSpec::default() }).await
    }

    pub async fn apply(&self, key: RunKey, command: Command) {
        self.backend.store.apply(key.job, command, self.clock.now()).await.unwrap();
    }

    /// Gives the caller an active signing key.
    pub async fn signing_key(&self) -> (KeyId, SigningSecret) {
        let (kid, signing) = (KeyId::new(self.clock.now(), &self.entropy), SigningSecret::new(&self.entropy));
        let key =
            SigningKey::new(CALLER, kid, &signing, self.clock.now(), &self.notifier.secret, &self.entropy);
        let keys = SigningKeys { active: Some(key), candidate: None };
        let record = Record::new(signing_keys_key(CALLER), RecordVersion::new(&self.entropy), &keys);
        assert!(self.backend.store.write_record(RecordWrite::put(record, Expected::Absent)).await.unwrap());
        (kid, signing)
    }

    pub async fn deliver(&self) -> usize {
        self.notifier.deliver_due().await.unwrap()
    }

    pub async fn records(&self, key: RunKey) -> Vec<Record> {
        let query = RecordsQuery {
            kind: RecordKind::Delivery,
            owner: key.job.to_string(),
            after: None,
            newest_first: true,
            limit: 10,
        };
        self.backend.store.records(query).await.unwrap()
    }

    /// The only delivery of a job.
    pub async fn delivery(&self, key: RunKey) -> Delivery {
        let records = self.records(key).await;
        assert_eq!(records.len(), 1);
        records[0].parse().unwrap()
    }
}
