//! Rows that cannot be read cost only themselves (SPEC 6.14).

use super::{counted, open_on, rows};
use conveyor_domain::clock::watch::Watch;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    CallerId, Record, RecordKey, RecordKind, RecordVersion, RecordWrite, Timestamp, UnsentRefs, limits,
};
use conveyor_store::port::RunKey;
use conveyor_store::{Due, clock_watch};
use conveyor_sweeper::{Pace, Sweeper};
use conveyor_testkit::ManualClock;
use metrics_util::debugging::DebuggingRecorder;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "current_thread")]
async fn a_record_that_cannot_be_read_keeps_no_other_from_its_turn() {
    let (harness, world) = open_on(1).await;
    let key = |id: &str| RecordKey::new(RecordKind::Delivery, "job", id);
    for id in ["a", "b", "c"] {
        let record = Record::new(key(id), RecordVersion::new(&world.entropy), &id).due(Some(Timestamp(5)));
        let put = RecordWrite::put(record, Expected::Absent);
        assert!(world.backend.store.write_record(put).await.unwrap());
    }
    rows::damage(&harness, "Rec#delivery#job", "b", "v").await;
    let mut due = Due::new(RecordKind::Delivery);
    let sort = |_: &Record| (CallerId::from_bytes([1; 16]), ());
    due.look(&world.backend.store, Timestamp(5), sort).await.unwrap();
    let found: Vec<RecordKey> = std::iter::from_fn(|| due.take(|_, ()| true)).map(|(.., key)| key).collect();
    assert_eq!(found, [key("a"), key("c")]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_clock_record_that_cannot_be_read_begins_anew() {
    let (harness, world) = open_on(1).await;
    let (store, start) = (&world.backend.store, world.now());
    clock_watch::observe(store.as_ref(), start).await.unwrap();
    let RecordKey { owner, id, .. } = Watch::key();
    rows::damage(&harness, &format!("Rec#clock#{owner}"), &id, "v").await;
    assert!(clock_watch::removal_time(store.as_ref(), start).await.unwrap() < start, "nothing is old by it");
    let mut now = start;
    while now <= start.after(limits::CLOCK_HELD) {
        clock_watch::observe(store.as_ref(), now).await.unwrap();
        now = now.after(limits::CLOCK_GAP_MAX);
    }
    assert_eq!(clock_watch::removal_time(store.as_ref(), now).await.unwrap(), now);
}

#[tokio::test(flavor = "current_thread")]
async fn a_list_whose_run_cannot_be_read_does_not_hide_those_behind_it() {
    let (harness, world) = open_on(1).await;
    let mut keys: Vec<RunKey> = Vec::new();
    for _ in 0..3 {
        let upload = world.upload().await;
        let staged = world.staged("list", b"https://example.com/\n").await;
        world.backend.store.put_staged(upload.id, staged.clone(), None, world.now()).await.unwrap();
        keys.push(world.accept(&upload, &staged).await);
    }
    keys.sort_by_key(|key| key.run);
    rows::damage(&harness, &format!("Job#{}", keys[0].job), &format!("R#{}", keys[0].run), "tot").await;
    let page = world.backend.store.ingesting_runs(None, 2).await.unwrap();
    assert_eq!(page.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), keys[1..]);
    let rest = world.backend.store.ingesting_runs(Some(keys[1].run), 2).await.unwrap();
    assert_eq!(rest.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), keys[2..]);
}

/// What finding unsent refs costs is what is unsent, and not the rest of its run.
#[tokio::test(flavor = "current_thread")]
async fn sending_what_is_unsent_reads_no_row_behind_it() {
    let (_, world) = open_on(1).await;
    let key = world.submit(false, 200).await;
    let unsent = UnsentRefs { job: key.job, first: 5, end: 15 };
    let record = unsent.record(key.run, world.now(), Duration::ZERO, &world.entropy);
    let put = RecordWrite::put(record, Expected::Absent);
    assert!(world.backend.store.write_record(put).await.unwrap());
    let recorder = DebuggingRecorder::new();
    let meter = recorder.snapshotter();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let sweeper = Sweeper::alone(world.backend.clone(), Arc::new(ManualClock::at(world.now())));
    let swept = sweeper.sweep(Pace::Messages, &CancellationToken::new()).await;
    assert_eq!((swept.found, swept.changed), (1, 10));
    assert_eq!(counted(&meter).get("conveyor_aws_rows_returned_total "), Some(&10));
}
