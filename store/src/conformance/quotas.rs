//! Rules of quotas (SPEC 6.24): what callers may have holds whatever happens at once, as records, jobs and their counts are
//! read and written by the backend.

use super::world::{must, success};
use super::{Harness, World};
use crate::admission::{Admission, Became, NotAdmitted};
use crate::port::RunKey;
use conveyor_domain::access::quota::Wanted;
use conveyor_domain::{Command, Quota, Quotas, limits};
use futures::future::join_all;

fn admission(world: &World, defaults: Quotas) -> Admission<'_> {
    Admission { store: &*world.backend.store, clock: world, entropy: &world.entropy, defaults }
}

/// As the API does it: let in, made, given back.
async fn submit(world: &World, quotas: Quotas, tasks: u32) -> Result<RunKey, Quota> {
    let admission = admission(world, quotas);
    let submission = world.submission(true, tasks);
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    let wanted = Wanted { job: key.job, active: true, scheduled: false, tasks };
    match admission.admit(world.caller, wanted).await {
        Ok(admitted) => {
            must(world.backend.store.submit(submission).await);
            admission.settle(admitted, Became::Known).await;
            Ok(key)
        }
        Err(NotAdmitted::Exceeded(exceeded)) => Err(exceeded.quota),
        Err(other) => panic!("{other}"),
    }
}

async fn queued(world: &World, quotas: Quotas) -> (usize, u64) {
    let admission = admission(world, quotas);
    let (_, holdings) = must(admission.holdings(world.caller).await);
    let usage = must(admission.usage(world.caller, quotas).await);
    assert!(holdings.reservations.is_empty(), "everything was given back");
    (usage.live.len(), holdings.used(&usage, world.now()).queued_tasks)
}

pub async fn of_many_who_ask_at_once_as_many_are_let_in_as_there_is_room_for(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let quotas = Quotas { active_jobs: Some(5), ..Quotas::default() };
    let answers = join_all((0..20).map(|_| submit(&world, quotas, 1))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 5);
    assert!(answers.iter().all(|answer| answer.is_ok() || *answer == Err(Quota::ActiveJobs)));
    assert_eq!(queued(&world, quotas).await.0, 5);
    let crashed = harness.crash().await;
    let after = world.on(crashed.backend());
    assert_eq!(submit(&after, quotas, 1).await, Err(Quota::ActiveJobs), "on what a crash left");
}

pub async fn tasks_that_are_added_at_once_never_exceed_what_may_be_queued(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let quotas = Quotas { queued_tasks: Some(10), ..Quotas::default() };
    let key = submit(&world, quotas, 1).await.expect("there is room");
    let add = async || {
        let admission = admission(&world, quotas);
        let wanted = Wanted { job: key.job, active: false, scheduled: false, tasks: 2 };
        let Ok(admitted) = admission.admit(world.caller, wanted).await else { return 0 };
        let most = limits::RUN_TASKS_MAX;
        must(world.backend.store.add_tasks(key.job, World::inputs(2), false, most, None, world.now()).await);
        admission.settle(admitted, Became::Known).await;
        2
    };
    let added: u64 = join_all((0..10).map(|_| add())).await.into_iter().sum();
    assert!((2..=8).contains(&added), "{added}");
    assert_eq!(queued(&world, quotas).await, (1, 1 + added));
    world.finish(key, 0, success()).await;
    assert_eq!(queued(&world, quotas).await, (1, added), "what is done is not queued");
    let wanted = u32::try_from(10 - added).expect("few") + 1;
    assert_eq!(submit(&world, quotas, wanted).await, Err(Quota::QueuedTasks));
    submit(&world, quotas, wanted - 1).await.expect("just as many");
}

/// Lists that were let in as one task each are counted at the same time: as many fit as there is room for.
pub async fn lists_that_are_counted_at_once_never_exceed_what_may_be_queued(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let quotas = Quotas { queued_tasks: Some(10), ..Quotas::default() };
    let mut lists = Vec::new();
    for _ in 0..4 {
        let upload = world.upload().await;
        let staged = world.staged("list", b"https://a.example\n").await;
        must(world.backend.store.put_staged(upload.id, staged.clone(), None, world.now()).await);
        lists.push(world.accept(&upload, &staged).await);
    }
    let admission = admission(&world, quotas);
    let hold = async |key: RunKey| match admission.hold_list(world.caller, key.job, 4).await {
        Ok(()) => true,
        Err(NotAdmitted::Exceeded(exceeded)) => {
            assert_eq!(exceeded.quota, Quota::QueuedTasks);
            false
        }
        Err(other) => panic!("{other}"),
    };
    // Each by two ingesters: they hold one room.
    let twice = lists.iter().flat_map(|key| [*key, *key]);
    let held = join_all(twice.map(&hold)).await;
    let fit: Vec<bool> = held.chunks(2).map(|pair| pair[0] && pair[1]).collect();
    assert_eq!(held.iter().filter(|held| **held).count(), 4, "{held:?}");
    assert_eq!(fit.iter().filter(|fit| **fit).count(), 2, "{held:?}");
    assert_eq!(submit(&world, quotas, 3).await, Err(Quota::QueuedTasks));
    submit(&world, quotas, 2).await.expect("what is left");
    for key in lists {
        must(world.backend.store.apply(key.job, Command::Stop, world.now()).await);
    }
    submit(&world, quotas, 8).await.expect("what ended makes room");
}

pub async fn a_job_that_ends_makes_room(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let quotas = Quotas { active_jobs: Some(1), ..Quotas::default() };
    for command in [Command::Stop, Command::Delete] {
        let key = submit(&world, quotas, 1).await.expect("there is room");
        assert_eq!(submit(&world, quotas, 1).await, Err(Quota::ActiveJobs));
        must(world.backend.store.apply(key.job, command, world.now()).await);
    }
    // A process that dies with a reservation keeps others out until it lapses.
    let admission = admission(&world, quotas);
    let job = world.submission(true, 1).job.id;
    let wanted = Wanted { job, active: true, scheduled: false, tasks: 1 };
    let lost = admission.admit(world.caller, wanted).await;
    assert!(lost.is_ok());
    assert_eq!(submit(&world, quotas, 1).await, Err(Quota::ActiveJobs));
    world.pass(i64::try_from(limits::RESERVATION_TTL.as_millis()).expect("a minute"));
    submit(&world, quotas, 1).await.expect("it lapsed");
}
