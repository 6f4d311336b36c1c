//! Workers on a real embedded store, and a gateway that writes down what it was asked, and when.

use async_trait::async_trait;
use bytes::Bytes;
use conveyor_domain::dispatch::grant::{Change, Scope};
use conveyor_domain::{
    BudgetView, CallerId, Clock, Command, Entropy, JobId, JobSpec, QueueName, Rate, RetryPolicy, RunId,
    RunStatus, Secret, TaskInput, lifecycle,
};
use conveyor_store::Backend;
use conveyor_store::embedded::Embedded;
use conveyor_store::port::{JobView, Reader, RunKey, Submission};
use conveyor_testkit::{RunningClock, until};
use conveyor_worker::gateway::{Gateway, GatewayAnswer, GatewayRequest};
use conveyor_worker::{Worker, WorkerConfig};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

type Script = Box<dyn Fn(&str, usize) -> Option<GatewayAnswer> + Send + Sync>;

/// What the gateway saw.
#[derive(Default)]
struct Record {
    /// When each call came, in microseconds, and its URL.
    calls: Vec<(u64, String)>,
    now: HashMap<String, u32>,
    most: HashMap<String, u32>,
}

/// Answers after a while; counts what it has in hand, in all (under "") and by host.
pub struct Witness {
    clock: Instant,
    takes: Duration,
    script: Script,
    shared: bool,
    /// Calls to URLs that begin like this wait for a permit; once it is closed, none does.
    held: (&'static str, Semaphore),
    record: Mutex<Record>,
}

impl std::fmt::Debug for Witness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Witness")
    }
}

fn host(url: &str) -> String {
    url.split('/').nth(2).unwrap_or_default().to_owned()
}

impl Witness {
    pub fn taking(takes: Duration) -> Witness {
        let script: Script = Box::new(|_, _| None);
        let held = ("", Semaphore::new(0));
        held.1.close();
        Witness { clock: Instant::now(), takes, script, shared: true, held, record: Mutex::default() }
    }

    /// Says of a URL, and of how many calls came before, what is answered; nothing: a page.
    pub fn saying(
        self,
        script: impl Fn(&str, usize) -> Option<GatewayAnswer> + Send + Sync + 'static,
    ) -> Witness {
        Witness { script: Box::new(script), ..self }
    }

    /// Holds calls to URLs that begin like this until they are let go.
    pub fn holding(self, prefix: &'static str) -> Witness {
        Witness { held: (prefix, Semaphore::new(0)), ..self }
    }

    pub fn let_go(&self, calls: usize) {
        self.held.1.add_permits(calls);
    }

    pub fn let_all_go(&self) {
        self.held.1.close();
    }

    pub fn calls(&self) -> usize {
        self.record.lock().unwrap().calls.len()
    }

    pub fn calls_to(&self, prefix: &str) -> usize {
        self.record.lock().unwrap().calls.iter().filter(|(_, url)| url.starts_with(prefix)).count()
    }

    /// The most at once, of a host or of all.
    pub fn most(&self, host: &str) -> u32 {
        self.record.lock().unwrap().most.get(host).copied().unwrap_or(0)
    }

    /// How many calls to the one came before the first and before the last call to the other.
    pub fn before(&self, one: &str, other: &str) -> (usize, usize) {
        let record = self.record.lock().unwrap();
        let is_other = |(_, url): &(u64, String)| url.starts_with(other);
        let first = record.calls.iter().position(is_other).unwrap();
        let last = record.calls.iter().rposition(is_other).unwrap();
        let count = |end| record.calls[..end].iter().filter(|(_, url)| url.starts_with(one)).count();
        (count(first), count(last))
    }

    /// Between the beginnings of two calls.
    pub fn between(&self, earlier: usize, later: usize) -> Duration {
        let record = self.record.lock().unwrap();
        Duration::from_micros(record.calls[later].0 - record.calls[earlier].0)
    }

    pub fn now(&self) -> u32 {
        self.record.lock().unwrap().now.get("").copied().unwrap_or(0)
    }

    pub fn forget_the_most(&self) {
        self.record.lock().unwrap().most.clear();
    }

    /// By how much the calls pass `burst + per_second * (t + lateness)` over the worst window.
    pub fn worst_excess(&self, burst: u32, per_second: f64) -> f64 {
        let lateness = Rate::new(per_second, Some(burst)).unwrap().lateness_max();
        let calls = &self.record.lock().unwrap().calls;
        let mut least = f64::INFINITY;
        let mut worst = f64::NEG_INFINITY;
        for (n, (at, _)) in calls.iter().enumerate() {
            let expected = per_second * (*at as f64) / 1e6;
            least = least.min(n as f64 - expected);
            worst = worst.max(n as f64 + 1.0 - expected - least);
        }
        worst - f64::from(burst) - per_second * lateness.as_secs_f64()
    }
}

#[async_trait]
impl Gateway for Witness {
    async fn call(&self, request: GatewayRequest) -> GatewayAnswer {
        let keys = [String::new(), host(&request.url)];
        let before = {
            let mut record = self.record.lock().unwrap();
            let at = u64::try_from(self.clock.elapsed().as_micros()).unwrap();
            record.calls.push((at, request.url.clone()));
            for key in &keys {
                let now = record.now.entry(key.clone()).or_default();
                *now += 1;
                let now = *now;
                let most = record.most.entry(key.clone()).or_default();
                *most = (*most).max(now);
            }
            record.calls.len() - 1
        };
        let (prefix, gate) = &self.held;
        if request.url.starts_with(prefix)
            && let Ok(permit) = gate.acquire().await
        {
            permit.forget();
        }
        tokio::time::sleep(self.takes).await;
        for key in &keys {
            *self.record.lock().unwrap().now.get_mut(key).unwrap() -= 1;
        }
        let page = || GatewayAnswer::page(200, Bytes::from_static(b"page"));
        (self.script)(&request.url, before).unwrap_or_else(page)
    }

    fn is_shared(&self) -> bool {
        self.shared
    }
}

pub struct World {
    pub backend: Backend,
    pub witness: Arc<Witness>,
    pub caller: CallerId,
    clock: Arc<dyn Clock>,
    entropy: Arc<Entropy>,
    workers: Vec<(CancellationToken, JoinHandle<()>)>,
    _dir: TempDir,
}

impl World {
    pub fn new(witness: Witness) -> World {
        let dir = TempDir::new().unwrap();
        let clock = Arc::new(RunningClock::new());
        let entropy = Arc::new(Entropy::from_number(7));
        let backend = Embedded::open(dir.path(), clock.now()).unwrap().backend();
        let caller = CallerId::new(clock.now(), &entropy);
        World { backend, witness: Arc::new(witness), caller, clock, entropy, workers: Vec::new(), _dir: dir }
    }

    pub fn work(&mut self, config: WorkerConfig) {
        let stop = CancellationToken::new();
        let worker = Worker::new(
            self.backend.clone(),
            self.witness.clone(),
            Secret::new([1; 32]),
            self.clock.clone(),
            self.entropy.clone(),
            config,
        );
        self.workers.push((stop.clone(), tokio::spawn(conveyor_worker::run(worker, stop))));
    }

    /// Workers stop once what is in flight has ended.
    pub fn begin_to_stop(&self) {
        self.workers.iter().for_each(|(stop, _)| stop.cancel());
    }

    pub async fn stop(&mut self) {
        self.begin_to_stop();
        for (_, worker) in self.workers.drain(..) {
            worker.await.unwrap();
        }
    }

    pub fn other_caller(&self) -> CallerId {
        CallerId::new(self.clock.now(), &self.entropy)
    }

    pub async fn submit_as(&self, caller: CallerId, spec: JobSpec, urls: &[String]) -> RunKey {
        let now = self.clock.now();
        let (job, run) = (JobId::new(now, &self.entropy), RunId::new(now, &self.entropy));
        let tasks: Vec<_> = (0..).zip(urls.iter().map(|url| TaskInput::from_url(url).unwrap())).collect();
        let total = u32::try_from(tasks.len()).unwrap();
        let rows = lifecycle::submit(job, run, caller, spec, false, total, now);
        let submission = Submission { job: rows.job, run: Some(rows.run), tasks, list: None, once: None };
        self.backend.store.submit(submission).await.unwrap();
        RunKey { job, run }
    }

    pub async fn submit(&self, spec: JobSpec, urls: &[String]) -> RunKey {
        self.submit_as(self.caller, spec, urls).await
    }

    pub async fn apply(&self, key: RunKey, command: Command) -> JobView {
        let view = self.backend.store.apply(key.job, command, self.clock.now()).await.unwrap();
        let limits = view.job.spec.limits();
        self.backend
            .coordinator
            .change(&Scope::Job(key.job), Change::Limits(limits), self.clock.now())
            .await
            .unwrap();
        view
    }

    pub async fn budget(&self, scope: &Scope) -> BudgetView {
        self.backend.coordinator.budget(scope, self.clock.now()).await.unwrap()
    }

    pub async fn completed(&self, key: RunKey) -> u32 {
        let view = self.backend.store.run(key.job, key.run).await.unwrap().unwrap();
        view.stats.counts.completed()
    }

    /// Messages of a run: visible, hidden.
    pub async fn depth(&self, key: RunKey) -> (u64, u64) {
        let depth =
            self.backend.queue.depth(QueueName::Run(key.run), Reader::Role, self.clock.now()).await.unwrap();
        (depth.visible, depth.hidden)
    }

    pub async fn is_over(&self, key: RunKey) -> bool {
        let view = self.backend.store.run(key.job, key.run).await.unwrap().unwrap();
        view.run.status == RunStatus::Completed
    }

    pub async fn wait_for(&self, key: RunKey) {
        until("the run is over", async || self.is_over(key).await).await;
    }
}

pub fn config(slots: u32) -> WorkerConfig {
    let retry = RetryPolicy { base: Duration::from_millis(10), ..RetryPolicy::default() };
    WorkerConfig { slots, retry, shutdown_grace: Duration::from_secs(5), ..WorkerConfig::default() }
}

pub fn urls(host: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("https://{host}/{n}")).collect()
}
