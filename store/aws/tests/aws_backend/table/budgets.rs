//! Budgets under the eyes of several processes at once.

use crate::on_aws::OnAws;
use crate::table::counted;
use aws_sdk_dynamodb::types::AttributeValue;
use conveyor_aws_servers::Combination;
use conveyor_domain::dispatch::grant::{Ask, Change, Limits, Scope};
use conveyor_domain::{Budget, JobId, Rate, Timestamp, WorkerId};
use conveyor_store::conformance::{Harness, World};
use metrics_util::debugging::DebuggingRecorder;
use std::time::Duration;

#[tokio::test(flavor = "current_thread")]
async fn those_who_ask_at_once_meet_and_all_get_an_exact_answer() {
    let harness = OnAws::new(Combination::Default, 1).await;
    let other = harness.crash().await;
    let world = World::new(harness.backend());
    let (ours, theirs) = (harness.backend().coordinator, other.backend().coordinator);
    let limits = Limits { revision: 0, max_inflight: Some(10), rate: Rate::new(10.0, Some(4)).ok() };
    let ask = |starts| {
        let worker = WorkerId::new(world.now(), &world.entropy);
        Ask { worker, in_use: 0, want: 6, starts, startable: starts, limits }
    };
    let mut alone = Budget::default().ask(&ask(u32::MAX), world.now()).starts;
    alone.sort();
    // The burst, and what the rate brings within the 400 ms that starts are handed out ahead.
    assert_eq!(alone.len(), 4 + 4);

    let recorder = DebuggingRecorder::new();
    let meter = recorder.snapshotter();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let rounds = 20;
    for _ in 0..rounds {
        let scope = Scope::Job(JobId::new(world.now(), &world.entropy));
        let (first, second) =
            tokio::join!(ours.ask(&scope, ask(4), world.now()), theirs.ask(&scope, ask(4), world.now()));
        let (first, second) = (first.unwrap(), second.unwrap());
        let mut permits = [first.permits, second.permits];
        permits.sort_unstable();
        assert_eq!(permits, [4, 6]);
        let mut starts = [first.starts, second.starts].concat();
        starts.sort();
        assert_eq!(starts, alone, "as one alone would have got them");
        let view = ours.budget(&scope, world.now()).await.unwrap();
        assert_eq!((view.held(), view.tokens), (10, Some(0)));
    }
    let writes = counted(&meter)["conveyor_aws_calls_total PutItem"];
    assert!(writes > 2 * rounds, "nobody met anybody: {writes} writes");
}

/// Seconds since 1970 after which the row goes.
async fn kept_until(harness: &OnAws, job: JobId) -> i64 {
    let get = harness.clients.dynamodb.get_item().table_name(&harness.settings.table).consistent_read(true);
    let key = AttributeValue::S(format!("Budget#{job}"));
    let row = get.key("pk", key).key("sk", AttributeValue::S("A".to_owned())).send().await.unwrap();
    row.item.unwrap()["ttl"].as_n().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn a_row_is_kept_for_as_long_as_it_says_something() {
    let harness = OnAws::new(Combination::Default, 1).await;
    let world = World::new(harness.backend());
    let coordinator = &world.backend.coordinator;
    let day = Duration::from_secs(24 * 3600);
    let after = |days| Timestamp(world.now().0).after(day * days).0 / 1000;
    let job = JobId::new(world.now(), &world.entropy);
    let scope = Scope::Job(job);
    // A start in 100 seconds, with a burst that takes more than a month to come back.
    let limits = Limits { revision: 0, max_inflight: Some(1), rate: Rate::new(0.01, Some(80_000)).ok() };
    let ask = |starts| Ask { worker: world.worker, in_use: 0, want: 1, starts, startable: starts, limits };
    coordinator.ask(&scope, ask(1), world.now()).await.unwrap();
    assert_eq!(kept_until(&harness, job).await, after(7));
    let taken = coordinator.ask(&scope, ask(39_999), world.now()).await.unwrap().starts;
    assert_eq!(taken.len(), 39_999);
    let full_again = kept_until(&harness, job).await;
    assert!(full_again > after(45), "{full_again}");
    let until = Timestamp(world.now().0).after(day * 90);
    coordinator.change(&scope, Change::HoldUntil(until), world.now()).await.unwrap();
    assert_eq!(kept_until(&harness, job).await, after(90));
    coordinator.change(&scope, Change::GiveBack(world.worker), world.now()).await.unwrap();
    assert_eq!(kept_until(&harness, job).await, after(90), "it never goes earlier than was said");
}
