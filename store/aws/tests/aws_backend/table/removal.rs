//! What is left of jobs that never were, and of those that are gone.

use super::open_on;
use super::rows::{self, number};
use crate::on_aws::OnAws;
use conveyor_domain::ingest::Source;
use conveyor_domain::repair::Subject;
use conveyor_domain::{
    Command, JobId, ListSpec, OnInvalidRows, QueueName, Staged, Timestamp, UploadId, limits,
};
use conveyor_store::Error;
use conveyor_store::conformance::{World, success};
use conveyor_store::port::{Chore, JobsQuery, Mark, Reader, Removal, RunKey, Submission, SubmittedList};
use conveyor_testkit::DEADLINE;

const SHARDS: u32 = 16;

/// Every row that has anything to do with a job.
async fn leftovers(harness: &OnAws, job: JobId) -> Vec<String> {
    let shards = (0..SHARDS).map(|shard| format!("Job#{job}#TS{shard}"));
    let mut left = Vec::new();
    for pk in std::iter::once(format!("Job#{job}")).chain(shards) {
        let found = rows::rows(harness, &pk, "").await;
        left.extend(found.iter().map(|row| format!("{pk}/{}", rows::sort_key(row))));
    }
    left
}

/// A submit that ends between its rows and its job: the upload that it wants to claim is not there.
fn broken_off(world: &World, tasks: u32) -> Submission {
    let source = Source {
        upload: UploadId::new(world.now(), &world.entropy),
        staged: Staged::new("uploads/gone".to_owned(), 1, "etag".to_owned()),
        spec: ListSpec::Lines,
        on_invalid_rows: OnInvalidRows::Skip,
        param_policy: None,
        unknown_fields: Default::default(),
    };
    let list = Some(Box::new(SubmittedList { source, log: Vec::new() }));
    Submission { list, ..world.submission(false, tasks) }
}

fn later(world: &World) -> Timestamp {
    world.now().after(limits::SUBMIT_GIVEN_UP)
}

#[tokio::test(flavor = "current_thread")]
async fn of_a_submit_that_was_given_up_nothing_is_left() {
    let (harness, world) = open_on(SHARDS).await;
    let store = &world.backend.store;
    let stays = world.submit(false, 3).await;
    let submission = broken_off(&world, 60);
    let job = submission.job.id;
    assert_eq!(store.submit(submission).await, Err(Error::NotFound));
    assert_eq!(leftovers(&harness, job).await.len(), 61, "rows and a marker");
    assert!(
        store.due(Chore::AbandonedSubmits { begun_before: world.now() }, 9).await.unwrap().is_empty(),
        "it may still go on"
    );
    assert_eq!(
        store.due(Chore::AbandonedSubmits { begun_before: later(&world) }, 9).await.unwrap(),
        [Subject::Job(job)]
    );

    let mut removed = 0;
    loop {
        match store.remove_rows(Removal::Submit(job), 7).await.unwrap() {
            0 => break,
            some => removed += some,
        }
        assert_eq!(
            store.due(Chore::AbandonedSubmits { begun_before: later(&world) }, 9).await.unwrap(),
            [Subject::Job(job)],
            "found until it is done"
        );
    }
    assert_eq!((removed, leftovers(&harness, job).await), (60, Vec::new()));
    assert!(store.due(Chore::AbandonedSubmits { begun_before: later(&world) }, 9).await.unwrap().is_empty());
    assert_eq!(store.remove_rows(Removal::Submit(job), 7).await.unwrap(), 0);

    // One that became visible is nobody's to remove.
    assert_eq!(store.remove_rows(Removal::Submit(stays.job), 7).await.unwrap(), 0);
    world.finish(stays, 2, success()).await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_submit_that_was_doomed_while_it_wrote_its_rows_never_becomes_visible() {
    let (harness, world) = open_on(SHARDS).await;
    let store = &world.backend.store;
    let submission = world.submission(false, 3_000);
    let job = submission.job.id;
    let doom = async {
        let found = async {
            while store
                .due(Chore::AbandonedSubmits { begun_before: later(&world) }, 9)
                .await
                .unwrap()
                .is_empty()
            {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, found).await.expect("it never wrote its marker");
        store.remove_rows(Removal::Submit(job), 1).await.unwrap();
    };
    let repeat = submission.clone();
    let (submitted, ()) = tokio::join!(store.submit(submission), doom);
    assert!(matches!(submitted, Err(Error::Conflict(_))), "{submitted:?}");
    assert!(matches!(store.submit(repeat).await, Err(Error::Conflict(_))), "nor does a repeat of it");
    while store.remove_rows(Removal::Submit(job), 2_000).await.unwrap() > 0 {}
    assert_eq!(leftovers(&harness, job).await, Vec::<String>::new());
    assert_eq!(store.job(None, job).await.unwrap(), None);
}

/// A repeat of a submit, broken off, leaves its marker beside the job.
#[tokio::test(flavor = "current_thread")]
async fn a_marker_beside_a_job_removes_nothing() {
    let (harness, world) = open_on(SHARDS).await;
    let store = &world.backend.store;
    let key = world.submit(false, 5).await;
    let (pk, run) = (format!("Job#{}", key.job), key.run.to_string());
    let text = aws_sdk_dynamodb::types::AttributeValue::S;
    let marker = harness.clients.dynamodb.put_item().table_name(&harness.settings.table);
    let marker = marker.item("pk", text(pk.clone())).item("sk", text("M".to_owned()));
    let marker = marker.item("run", text(run)).item("g2pk", text("submitting".to_owned()));
    marker.item("g2sk", text(format!("{:015}#{}", 1, key.job))).send().await.unwrap();
    rows::set(&harness, &pk, "M", &[("sh", Some(i64::from(SHARDS)))]).await;

    assert!(
        store.due(Chore::AbandonedSubmits { begun_before: later(&world) }, 9).await.unwrap().is_empty(),
        "its job is there"
    );
    assert_eq!(store.remove_rows(Removal::Submit(key.job), 9).await.unwrap(), 0);
    assert!(rows::rows(&harness, &pk, "M").await.is_empty());
    world.finish(key, 4, success()).await;
}

async fn remove_job(world: &World, key: RunKey) {
    let (store, queue) = (&world.backend.store, &world.backend.queue);
    store.apply(key.job, Command::Delete, world.now()).await.unwrap();
    while !queue.remove(QueueName::Run(key.run), 1_000).await.unwrap() {}
    store.mark(key, Mark::QueueGone).await.unwrap();
    while store.remove_rows(Removal::Job(key.job), 1_000).await.unwrap() > 0 {}
    assert!(store.forget_job(key.job, world.now()).await.unwrap());
}

#[tokio::test(flavor = "current_thread")]
async fn where_a_job_was_nobody_makes_one_and_nobody_reads_one() {
    let (harness, world) = open_on(SHARDS).await;
    let store = &world.backend.store;
    let submission = world.submission(false, 40);
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    store.submit(submission.clone()).await.unwrap();
    world.finish(key, 0, success()).await;
    remove_job(&world, key).await;
    assert_eq!(leftovers(&harness, key.job).await, [format!("Job#{}/A", key.job)], "the tombstone");

    let late = store.submit(submission).await;
    assert!(matches!(late, Err(Error::Conflict(_))), "{late:?}");
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://example.com/\n").await;
    store.put_staged(upload.id, staged.clone(), None, world.now()).await.unwrap();
    let mut acceptance = world.acceptance(&upload, &staged);
    acceptance.job.id = key.job;
    acceptance.run.as_mut().unwrap().job = key.job;
    let late = store.submit(acceptance).await;
    assert!(matches!(late, Err(Error::Conflict(_))), "{late:?}");
    let found = store.upload(world.caller, upload.id, world.now()).await.unwrap().unwrap();
    assert!(!found.claimed, "nobody holds what was not made");

    assert_eq!(store.job(None, key.job).await.unwrap(), None);
    assert_eq!(store.job(Some(world.caller), key.job).await.unwrap(), None);
    assert!(store.ingest(key, Reader::Role).await.unwrap().is_none());
    assert_eq!(store.apply(key.job, Command::Stop, world.now()).await, Err(Error::NotFound));
    assert!(matches!(store.delete_run(key, world.now()).await, Err(Error::NotFound)));
    let query =
        JobsQuery { caller: world.caller, status: None, scheduled: None, before: None, limit: 9, look: 9 };
    assert!(store.jobs(query).await.unwrap().rows.is_empty());
    assert!(store.due(Chore::DeletedJobs, 9).await.unwrap().is_empty());

    // What came late is found by the next look: the rows of the submit, and its marker.
    assert!(leftovers(&harness, key.job).await.len() > 40);
    let due = world.now().after(limits::TOMBSTONE_LOOKS[0]);
    let [tombstone] = &store.tombstones(due, 9).await.unwrap()[..] else { panic!("it is due") };
    assert_eq!((tombstone.job, &tombstone.runs[..]), (key.job, &[key.run][..]));
    while store.remove_rows(Removal::Job(key.job), 7).await.unwrap() > 0 {}
    assert_eq!(leftovers(&harness, key.job).await, [format!("Job#{}/A", key.job)]);
    let row = rows::rows(&harness, &format!("Job#{}", key.job), "A").await.remove(0);
    assert_eq!(number(&row, "ttl"), Some(tombstone.gone.after(limits::TOMBSTONE_KEPT).0 / 1_000));
    store.looked_at(tombstone, None).await.unwrap();
    assert_eq!(leftovers(&harness, key.job).await, Vec::<String>::new());
}
