//! What it costs to learn which runs changed, and runs that an earlier version wrote.

use crate::on_aws::OnAws;
use crate::table::counted;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use conveyor_aws::Clients;
use conveyor_aws_servers::Combination;
use conveyor_domain::repair::Subject;
use conveyor_domain::{Command, Entropy, RunId, RunStatus, Timestamp, limits};
use conveyor_store::conformance::{Harness, World, success};
use conveyor_store::port::{ActiveRun, ChangeCursor, ChangedRuns, Chore, Mark, RunKey};
use conveyor_sweeper::{Scope, Sweep, reconcile};
use conveyor_testkit::{ManualClock, until};
use metrics_util::debugging::DebuggingRecorder;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// The places of the index in which a run can be.
const PLACES: u64 = 6;
/// Longer than a test takes: the table knows that time passes.
const HOUR_MS: i64 = 3_600_000;

/// What a look costs.
async fn metered(world: &World, since: Timestamp) -> (ChangedRuns, BTreeMap<String, u64>) {
    let recorder = DebuggingRecorder::new();
    let meter = recorder.snapshotter();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let changed = world.backend.store.changed_runs(Some(ChangeCursor(since)), world.now()).await.unwrap();
    (changed, counted(&meter))
}

fn calls(counts: &BTreeMap<String, u64>, operation: &str) -> u64 {
    counts.get(&format!("conveyor_aws_calls_total {operation}")).copied().unwrap_or(0)
}

/// Capacity units of reads.
fn units(counts: &BTreeMap<String, u64>) -> f64 {
    let tenths = counts.iter().filter(|(name, _)| name.starts_with("conveyor_aws_capacity_tenths_total"));
    tenths.map(|(_, tenths)| *tenths as f64).sum::<f64>() / 10.0
}

#[tokio::test(flavor = "current_thread")]
async fn a_look_at_what_changed_reads_only_what_changed() {
    let harness = OnAws::new(Combination::Default, 1).await;
    let world = World::new(harness.backend());
    let mut runs = Vec::new();
    for _ in 0..40 {
        runs.push(world.submit(false, 1).await);
    }
    world.pass(HOUR_MS);
    let since = world.now();

    let (nothing, cost) = metered(&world, since).await;
    assert!(nothing.active.is_empty() && nothing.gone.is_empty(), "{nothing:?}");
    assert_eq!((calls(&cost, "Query"), calls(&cost, "GetItem")), (PLACES, 0), "{cost:?}");
    assert!(units(&cost) <= 3.0, "{cost:?}");

    world.backend.store.apply(runs[7].job, Command::Pause, world.now()).await.unwrap();
    world.backend.store.apply(runs[8].job, Command::Stop, world.now()).await.unwrap();
    let (changed, cost) = metered(&world, since).await;
    let [active] = &changed.active[..] else { panic!("one is paused: {changed:?}") };
    assert!(active.run.id == runs[7].run && active.run.paused);
    assert_eq!(changed.gone, [runs[8]]);
    // Of the one that is running its counters, itself and its job; of the one that ended nothing.
    assert_eq!((calls(&cost, "Query"), calls(&cost, "GetItem")), (PLACES + 1, 2), "{cost:?}");
    assert_eq!(calls(&cost, "PutItem"), 0, "{cost:?}");
    assert!(units(&cost) <= 8.0, "{cost:?}");
}

/// Looks overlap: what one of them found, the next ones find as well.
#[tokio::test(flavor = "current_thread")]
async fn a_run_that_is_not_running_is_read_once_at_most() {
    let harness = OnAws::new(Combination::Default, 1).await;
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let (ended, removed) = (world.submit(false, 1).await, world.submit(false, 1).await);
    let idle = world.submit(true, 0).await;
    for key in [ended, removed] {
        store.apply(key.job, Command::Stop, world.now()).await.unwrap();
    }
    store.mark(removed, Mark::QueueGone).await.unwrap();
    let since = Timestamp(world.now().0 - HOUR_MS);
    let mut expected = vec![ended, removed, idle];
    expected.sort_by_key(|key| key.run);
    for reads in [2, 0, 0] {
        let (changed, cost) = metered(&world, since).await;
        assert_eq!((changed.active.len(), &changed.gone), (0, &expected));
        assert_eq!((calls(&cost, "Query"), calls(&cost, "GetItem")), (PLACES, reads), "{cost:?}");
    }

    // One that rests may begin to run, and rest again.
    store.add_tasks(idle.job, World::inputs(1), false, 9, None, world.now()).await.unwrap();
    let changed = store.changed_runs(Some(ChangeCursor(since)), world.now()).await.unwrap();
    assert_eq!(changed.active.iter().map(|active| active.run.id).collect::<Vec<_>>(), [idle.run]);
    assert_eq!(changed.gone.len(), 2);
    world.pass(HOUR_MS);
    world.finish(idle, 0, success()).await;
    store.apply(idle.job, Command::Drained, world.now()).await.unwrap();
    for reads in [1, 0] {
        let (changed, cost) = metered(&world, since).await;
        assert_eq!((changed.active.len(), &changed.gone), (0, &expected));
        assert_eq!(calls(&cost, "GetItem"), reads, "{cost:?}");
    }
}

/// Whoever worked on a run has to learn that it rests, also when nothing is left to do with it.
#[tokio::test(flavor = "current_thread")]
async fn a_run_whose_queue_is_removed_is_still_told_to_be_gone() {
    let harness = OnAws::new(Combination::Default, 1).await;
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    world.pass(1_000);
    world.backend.store.apply(key.job, Command::Stop, world.now()).await.unwrap();
    world.backend.store.mark(key, Mark::QueueGone).await.unwrap();
    assert!(world.backend.store.due(Chore::EndedQueues, 9).await.unwrap().is_empty());
    assert_eq!(
        world.backend.store.changed_runs(Some(ChangeCursor(world.now())), world.now()).await.unwrap().gone,
        [key]
    );
}

/// Writes runs as a version did that put nothing but their id into the index.
async fn age(harness: &OnAws, runs: &[RunKey]) {
    for RunKey { job, run } in runs {
        let update = harness.clients.dynamodb.update_item().table_name(&harness.settings.table);
        update
            .key("pk", AttributeValue::S(format!("Job#{job}")))
            .key("sk", AttributeValue::S(format!("R#{run}")))
            .update_expression("SET g2sk = :old")
            .expression_attribute_values(":old", AttributeValue::S(run.to_string()))
            .send()
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "current_thread")]
async fn runs_of_an_earlier_version_are_found_and_get_the_key_of_today() {
    let harness = OnAws::new(Combination::Default, 1).await;
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let running = world.submit(false, 2).await;
    let ended = world.submit(false, 1).await;
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://example.com/\n").await;
    store.put_staged(upload.id, staged.clone(), None, world.now()).await.unwrap();
    let ingesting = world.accept(&upload, &staged).await;
    store.apply(ended.job, Command::Stop, world.now()).await.unwrap();
    let updated = world.now();
    world.pass(HOUR_MS);
    let since = world.now();
    let runs = [running, ended, ingesting];

    age(&harness, &runs).await;
    assert_eq!(store.due(Chore::EndedQueues, 9).await.unwrap(), [ended.into()]);
    let lists: Vec<RunKey> =
        store.ingesting_runs(None, 9).await.unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(lists, [ingesting]);
    assert!(store.ingesting_runs(Some(ingesting.run), 9).await.unwrap().is_empty());
    let mut active: Vec<_> = store
        .changed_runs(None, world.now())
        .await
        .unwrap()
        .active
        .into_iter()
        .map(|active| active.run.id)
        .collect();
    active.sort();
    let mut expected = [running.run, ingesting.run];
    expected.sort();
    assert_eq!(active, expected);

    age(&harness, &runs).await;
    let found = store.changed_runs(Some(ChangeCursor(since)), world.now()).await.unwrap();
    assert_eq!((found.active.len(), found.gone), (2, vec![ended]), "it is not known when they changed");
    let again =
        store.changed_runs(Some(ChangeCursor(Timestamp(since.0 + HOUR_MS))), world.now()).await.unwrap();
    assert!(again.active.is_empty() && again.gone.is_empty(), "now it is: {again:?}");
    let view = world.view(running).await.latest_run().run.clone();
    assert_eq!((view.status, view.updated), (RunStatus::Running, updated), "nothing else was changed");
}

/// Lets no call through that names this.
#[derive(Clone, Debug, Default)]
struct Refused(Arc<Mutex<Option<String>>>);

#[dyn_dispatch_hint]
impl Intercept for Refused {
    fn name(&self) -> &'static str {
        "Refused"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let body = String::from_utf8_lossy(context.request().body().bytes().unwrap_or_default()).into_owned();
        match &*self.0.lock().unwrap() {
            Some(name) if body.contains(name) => Err("refused".into()),
            Some(_) | None => Ok(()),
        }
    }
}

/// A worker and a sweeper of one process look at the same runs: who reads one first does not read it for the other.
#[tokio::test(flavor = "current_thread")]
async fn a_change_that_could_not_be_read_is_told_to_who_looks_for_changes() {
    let harness = OnAws::new(Combination::Default, 1).await;
    let refused = Refused::default();
    let config = harness.clients.dynamodb.config().to_builder().interceptor(refused.clone()).build();
    let clients = Clients { dynamodb: Client::from_conf(config), ..harness.clients.clone() };
    let entropy = Arc::new(Entropy::from_number(u64::from(std::process::id())));
    let world = World::new(conveyor_aws::assemble(&clients, &harness.settings, entropy));
    let store = &world.backend.store;
    let (hidden, other) = (world.submit(false, 1).await, world.submit(false, 1).await);
    let ids = |active: Vec<ActiveRun>| active.into_iter().map(|active| active.run.id).collect::<Vec<RunId>>();

    *refused.0.lock().unwrap() = Some(hidden.job.to_string());
    let told = store.changed_runs(Some(ChangeCursor(world.now())), world.now()).await.unwrap();
    assert_eq!(ids(told.active), [other.run], "one that cannot be read costs only itself");
    let (clock, stop) = (ManualClock::at(world.now()), CancellationToken::new());
    let sweep = Sweep::new(&world.backend, &clock, &stop);
    let part = reconcile(&sweep, Scope::All, true, None, limits::RECONCILE_WITHIN).await.unwrap();
    let subject = Subject::Run(hidden.job, hidden.run);
    assert!(part.unsure.iter().any(|(unsure, _)| *unsure == subject), "an operator hears of it: {part:?}");
    *refused.0.lock().unwrap() = None;
    until("its circuit closes", async || {
        ids(store.changed_runs(None, world.now()).await.unwrap().active).contains(&hidden.run)
    })
    .await;
    let later = Timestamp(world.now().0 + HOUR_MS);
    assert_eq!(
        ids(store.changed_runs(Some(ChangeCursor(later)), world.now()).await.unwrap().active),
        [hidden.run]
    );
    assert_eq!(
        ids(store.changed_runs(Some(ChangeCursor(later)), world.now()).await.unwrap().active),
        [],
        "once"
    );
}
