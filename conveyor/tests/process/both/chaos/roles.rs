//! The roles, each in a runtime of its own, so that one can die in the middle of anything; and what an operator does.

use super::damage::{Damager, InTheFile, InTheServices};
use super::runs::{self, Expected};
use crate::support::stored::clients;
use crate::support::{on_aws, until_fits};
use async_trait::async_trait;
use bytes::Bytes;
use conveyor_aws::{Settings, Timeouts};
use conveyor_aws_servers::{Combination, Environment};
use conveyor_domain::repair::dead_letter::Redriven;
use conveyor_domain::repair::{Finding, Kind, Outcome};
use conveyor_domain::{
    Audit, CallerId, Clock, Entropy, FailureClass, IngestState, LetterId, Problem, Reconciled, RetryPolicy,
    RunStatus, Secret, Spend, WorkerId, limits,
};
use conveyor_ingest::{IngestConfig, Ingester};
use conveyor_store::Backend;
use conveyor_store::embedded::Embedded;
use conveyor_store::port::{Reader, RunKey, StatusFilter, TasksQuery};
use conveyor_sweeper::letters;
use conveyor_sweeper::{Look, Scope, Sweep, Sweeper};
use conveyor_testkit::RunningClock;
use conveyor_worker::gateway::{Gateway, GatewayAnswer, GatewayRequest};
use conveyor_worker::{Worker, WorkerConfig};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What a message that somebody died with stays hidden.
const VISIBILITY: Duration = Duration::from_secs(2);
const CALL_TAKES: Duration = Duration::from_millis(150);

/// Has every page but those that are missing, and holds the last one of each run back until it is released.
#[derive(Debug)]
pub struct Pages(watch::Sender<bool>);

impl Pages {
    pub fn release(&self) {
        self.0.send_replace(true);
    }
}

#[async_trait]
impl Gateway for Pages {
    async fn call(&self, request: GatewayRequest) -> GatewayAnswer {
        tokio::time::sleep(CALL_TAKES).await;
        if request.url.ends_with(&format!("/{}", runs::TASKS - 1)) {
            let released = self.0.subscribe().wait_for(|released| *released).await.map(|_| ());
            released.expect("the sender is in here");
        }
        if request.url.contains("/missing/") {
            return GatewayAnswer::Failure {
                class: FailureClass::BadTarget,
                retry: false,
                retry_after: None,
                problem: Problem::new(404, "not_there", "No such page"),
                spend: Spend::default(),
            };
        }
        GatewayAnswer::page(200, Bytes::from(request.url))
    }
}

/// Where everything is.
#[derive(Clone)]
enum Place {
    File(Arc<Embedded>, Arc<TempDir>),
    Services(Arc<Environment>, Box<Settings>),
}

pub struct World {
    pub backend: Backend,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<Entropy>,
    pub caller: CallerId,
    pub damager: Box<dyn Damager>,
    pub pages: Arc<Pages>,
    place: Place,
}

impl World {
    /// A world of that name: nothing in it is shared with another.
    pub async fn open(name: &str) -> World {
        let clock: Arc<dyn Clock> = Arc::new(RunningClock::new());
        // Servers remember the tokens of transactions: no two worlds may have the same.
        let seed = name.bytes().fold(u64::from(std::process::id()), |seed, byte| seed * 31 + u64::from(byte));
        let entropy = Arc::new(Entropy::from_number(seed));
        let caller = CallerId::new(clock.now(), &entropy);
        let place = if on_aws() {
            in_services(name).await
        } else {
            let dir = TempDir::new().unwrap();
            Place::File(Embedded::open(dir.path(), clock.now()).unwrap(), Arc::new(dir))
        };
        let damager: Box<dyn Damager> = match &place {
            Place::File(_, dir) => Box::new(InTheFile { database: dir.path().join("conveyor.db") }),
            Place::Services(environment, settings) => Box::new(InTheServices {
                clients: clients(environment, settings).await,
                settings: settings.as_ref().clone(),
            }),
        };
        let backend = place.backend(&entropy).await;
        World {
            backend,
            clock,
            entropy,
            caller,
            damager,
            pages: Arc::new(Pages(watch::channel(false).0)),
            place,
        }
    }

    pub async fn unfinished(&self, runs: &[Expected]) -> Vec<RunKey> {
        let mut left = Vec::new();
        for run in runs {
            let view = self.backend.store.run(run.key.job, run.key.run).await.unwrap().unwrap();
            // Counters are struck on purpose, so what they say for a moment is not looked at.
            match view.run.status {
                RunStatus::Completed => {}
                RunStatus::Running | RunStatus::Pending => left.push(run.key),
                ended => panic!("{} ended as {}: {:?}", run.key.run, ended.as_str(), view.run.failure),
            }
        }
        left
    }

    /// Rows, bodies, counts and the timeline of a run that is over are what was asked for, each once.
    pub async fn is_exact(&self, expected: &Expected) {
        let (key, store) = (expected.key, &self.backend.store);
        let view = store.run(key.job, key.run).await.unwrap().unwrap();
        let counts = view.stats.counts;
        let seen = (view.stats.total, counts.successful, counts.failed_total());
        let (successful, failed) = (expected.successful, expected.failed);
        assert_eq!(seen, (successful + failed, successful, failed), "{}", key.run);
        assert_eq!(counts.failed[FailureClass::BadTarget as usize], failed, "{}", key.run);
        let query = TasksQuery {
            key,
            filter: StatusFilter::Successful,
            after: None,
            limit: 1_000,
            max_bytes: usize::MAX,
        };
        let tasks = store.tasks(query).await.unwrap();
        assert_eq!(tasks.len(), successful as usize);
        for task in tasks {
            let result = task.result.unwrap();
            let object = result.object.unwrap().parse().unwrap();
            let body = self.backend.blobs.get(&object, result.offset, result.length).await.unwrap();
            assert_eq!(body, task.input.url.as_bytes(), "the body of another page");
        }
        let events = store.events(key.job, 0, 1_000).await.unwrap();
        let names = events.iter().filter(|event| format!("{:?}", event.event).contains("RunCompleted"));
        assert_eq!(names.count(), 1, "completed once");
        if let Some(ingest) = store.ingest(key, Reader::Role).await.unwrap() {
            assert_eq!(IngestState::fold(&ingest.log).unwrap().rejected, expected.rejected);
        }
    }
}

impl Place {
    /// As a process of its own has it.
    async fn backend(&self, entropy: &Arc<Entropy>) -> Backend {
        match self {
            Place::File(store, _) => store.backend(),
            Place::Services(environment, settings) => {
                conveyor_aws::assemble(&clients(environment, settings).await, settings, entropy.clone())
            }
        }
    }
}

async fn in_services(name: &str) -> Place {
    let environment = tokio::task::spawn_blocking(|| Environment::shared(Combination::Default));
    let environment = environment.await.unwrap().unwrap();
    let timeouts = Timeouts {
        attempt: Duration::from_secs(10),
        operation: Duration::from_secs(40),
        ..Timeouts::default()
    };
    let name = format!("{name}-{}", std::process::id());
    let settings = Settings { queue_empty_after: Duration::from_secs(3), timeouts, ..Settings::named(&name) };
    conveyor_aws::provision_with(&clients(&environment, &settings).await, &settings).await.unwrap();
    Place::Services(Arc::new(environment), Box::new(settings))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Worker,
    Ingester,
    Sweeper,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Worker, Role::Ingester, Role::Sweeper];
}

/// Roles, each in a runtime of its own, which ends with everything that it was doing.
pub struct Roles {
    start: Box<dyn Fn(Role, CancellationToken) -> Runtime>,
    alive: Vec<(Role, CancellationToken, Runtime)>,
}

impl Roles {
    /// Two of each.
    pub fn start(world: &World, of: &[Role]) -> Roles {
        let mut roles = Roles { start: world.starter(), alive: Vec::new() };
        for role in of {
            roles.add(*role);
            roles.add(*role);
        }
        roles
    }

    fn add(&mut self, role: Role) {
        let stop = CancellationToken::new();
        let runtime = (self.start)(role, stop.clone());
        self.alive.push((role, stop, runtime));
    }

    /// One dies in the middle of whatever it is doing, and another takes its place.
    pub fn replace(&mut self, role: Role) {
        let oldest = self.alive.iter().position(|(of, ..)| *of == role).unwrap();
        let (_, _, runtime) = self.alive.remove(oldest);
        runtime.shutdown_background();
        self.add(role);
    }

    pub async fn stop(self) {
        for (_, stop, runtime) in self.alive {
            stop.cancel();
            runtime.shutdown_background();
        }
    }
}

impl World {
    /// Starts a role as a process of its own would be: nothing is shared but what is stored.
    fn starter(&self) -> Box<dyn Fn(Role, CancellationToken) -> Runtime> {
        let (place, clock, entropy) = (self.place.clone(), self.clock.clone(), self.entropy.clone());
        let pages = self.pages.clone();
        Box::new(move |role, stop| {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.unwrap();
            let (place, clock, entropy) = (place.clone(), clock.clone(), entropy.clone());
            let pages = pages.clone();
            runtime.spawn(async move {
                let backend = place.backend(&entropy).await;
                match role {
                    Role::Worker => work(backend, pages, clock, entropy, stop).await,
                    Role::Ingester => ingest(backend, clock, &entropy, stop).await,
                    Role::Sweeper => {
                        let id = WorkerId::new(clock.now(), &entropy);
                        conveyor_sweeper::run(Sweeper::new(backend, clock, id), stop).await;
                    }
                }
            });
            runtime
        })
    }

    pub async fn audit(&self, key: RunKey) -> Audit {
        let look = Look::new(&self.backend, self.clock.as_ref(), Scope::Job(key.job), true);
        conveyor_sweeper::audit(&look, key).await.unwrap().unwrap()
    }

    /// Sends every dead letter again, as an operator would.
    pub async fn redrive_letters(&self) {
        for letter in self.backend.store.letters(None, 100).await.unwrap() {
            let _ = self.redrive(letter.id).await;
        }
    }

    /// Sends one again. Nothing if there is none, or if somebody was quicker.
    pub async fn redrive(&self, letter: LetterId) -> Option<Redriven> {
        let stop = CancellationToken::new();
        let sweep = Sweep::new(&self.backend, self.clock.as_ref(), &stop);
        letters::redrive(&sweep, letter).await.ok().flatten()
    }

    async fn reconcile(&self, scope: Scope) -> Reconciled {
        let stop = CancellationToken::new();
        let sweep = Sweep::new(&self.backend, self.clock.as_ref(), &stop);
        let (mut all, mut from) = (None::<Reconciled>, None::<String>);
        loop {
            let part =
                conveyor_sweeper::reconcile(&sweep, scope, false, from.as_deref(), limits::RECONCILE_WITHIN);
            let part = part.await.unwrap();
            assert!(part.errors.is_empty(), "{part:?}");
            from = part.next.clone();
            match &mut all {
                None => all = Some(part),
                Some(all) => {
                    all.findings.extend(part.findings);
                    all.unsure.extend(part.unsure);
                }
            }
            if from.is_none() {
                return all.unwrap();
            }
        }
    }

    /// Until nothing is found to be wrong, in all, or with a job.
    pub async fn reconcile_until_quiet(&self, scope: Scope) {
        let damage = |(finding, _): &(Finding, Outcome)| finding.kind == Kind::Damage;
        let is_quiet = |found: &Reconciled| !found.findings.iter().any(damage) && found.unsure.is_empty();
        until_fits("nothing is broken any more", async || self.reconcile(scope).await, is_quiet).await;
    }
}

async fn work(
    backend: Backend,
    pages: Arc<Pages>,
    clock: Arc<dyn Clock>,
    entropy: Arc<Entropy>,
    stop: CancellationToken,
) {
    let retry = RetryPolicy { base: Duration::from_millis(10), ..RetryPolicy::default() };
    let config = WorkerConfig { slots: 48, retry, visibility: VISIBILITY, ..WorkerConfig::default() };
    let worker = Worker::new(backend, pages, Secret::new([1; 32]), clock, entropy, config);
    conveyor_worker::run(worker, stop).await;
}

async fn ingest(backend: Backend, clock: Arc<dyn Clock>, entropy: &Entropy, stop: CancellationToken) {
    let config = IngestConfig { chunk_rows: 7, visibility: VISIBILITY, ..IngestConfig::default() };
    let ingester = Ingester::new(backend, clock, entropy, config);
    conveyor_ingest::run(Arc::new(ingester), stop).await;
}
