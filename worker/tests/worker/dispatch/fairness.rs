use crate::dispatch::world::{Witness, World, config, urls};
use conveyor_domain::JobSpec;
use conveyor_testkit::until;
use std::time::Duration;

fn spec() -> JobSpec {
    JobSpec { max_inflight: 1_000, ..JobSpec::default() }
}

/// Lets held calls go one by one until another caller has had its first, and then all of them: how many went before does
/// not depend on how fast the worker is.
async fn until_called(world: &World, prefix: &str) {
    until("its first call", async || {
        world.witness.let_go(1);
        world.witness.calls_to(prefix) > 0
    })
    .await;
    world.witness.let_all_go();
}

/// Calls that never end keep their slots, however many jobs they are of; one in eight is left for others.
#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_caller_that_hang_leave_slots_to_another() {
    let mut world = World::new(Witness::taking(Duration::ZERO).holding("https://hangs"));
    for n in 0..3 {
        world.submit(spec(), &urls(&format!("hangs{n}.example"), 20)).await;
    }
    world.work(config(16));
    until("it has all slots that it may have", async || world.witness.now() == 14).await;
    let other = world.submit_as(world.other_caller(), spec(), &urls("answers.example", 1)).await;
    world.wait_for(other).await;
    assert_eq!((world.witness.now(), world.witness.calls()), (14, 15), "none of the others has ended");
    world.witness.let_all_go();
}

/// Where there is only one slot, there is nothing to leave.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_one_slot_works() {
    let mut world = World::new(Witness::taking(Duration::ZERO));
    world.work(config(1));
    let job = world.submit(spec(), &urls("a.example", 5)).await;
    world.wait_for(job).await;
    assert_eq!(world.witness.most(""), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_job_is_over_long_before_a_long_one() {
    let mut world = World::new(Witness::taking(Duration::from_millis(2)).holding("https://long"));
    world.submit(spec(), &urls("long.example", 2_000)).await;
    world.work(config(8));
    until("it has all slots that it may have", async || world.witness.now() == 7).await;
    let short = world.submit_as(world.other_caller(), spec(), &urls("short.example", 10)).await;
    until_called(&world, "https://short").await;
    world.wait_for(short).await;
    let (first, last) = world.witness.before("https://long", "https://short");
    // Its ten are one turn; what the other does meanwhile is a few turns, not the rest of the list.
    assert!(last - first < 200, "{} of the long one", last - first);
    assert!(last < 2_000, "the long one was over first");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_of_one_caller_do_not_crowd_out_another() {
    let mut world = World::new(Witness::taking(Duration::from_millis(2)).holding("https://many"));
    for n in 0..10 {
        world.submit(spec(), &urls(&format!("many{n}.example"), 200)).await;
    }
    world.work(config(8));
    world.witness.let_go(100);
    until("they are at it", async || world.witness.calls() > 100).await;
    let other = world.submit_as(world.other_caller(), spec(), &urls("one.example", 100)).await;
    until_called(&world, "https://one").await;
    world.wait_for(other).await;
    let (first, last) = world.witness.before("https://many", "https://one");
    // A turn of one for a turn of the other; by runs it would be ten for one, and all of them would be over first.
    assert!(last - first < 400, "{}", last - first);
    assert!(last < 2_000, "they were over first");
}
