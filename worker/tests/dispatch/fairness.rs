use crate::world::{Witness, World, config, until, urls};
use conveyor_domain::job::JobSpec;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_short_job_is_over_long_before_a_long_one() {
    let mut world = World::new(Witness::taking(Duration::from_millis(2)));
    let spec = || JobSpec { max_inflight: 1_000, ..JobSpec::default() };
    let long = world.submit(spec(), &urls("long.example", 5_000)).await;
    world.work(config(8));
    until("it has all the slots", async || world.witness.now() == 8).await;
    let short = world.submit_as(world.other_caller(), spec(), &urls("short.example", 10)).await;
    let before = world.witness.calls_to("https://long");
    world.wait_for(short).await;
    let meanwhile = world.witness.calls_to("https://long") - before;
    // Its ten are one turn; what the other does meanwhile is a few turns, not the rest of the list.
    assert!(meanwhile < 2_000, "{meanwhile} of the long one");
    assert!(!world.is_over(long).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_of_one_caller_do_not_crowd_out_another() {
    let mut world = World::new(Witness::taking(Duration::from_millis(2)));
    let spec = || JobSpec { max_inflight: 1_000, ..JobSpec::default() };
    for n in 0..10 {
        world.submit(spec(), &urls(&format!("many{n}.example"), 300)).await;
    }
    world.work(config(8));
    until("they are at it", async || world.witness.calls() > 100).await;
    let before = world.witness.calls_to("https://many");
    let other = world.submit_as(world.other_caller(), spec(), &urls("one.example", 300)).await;
    world.wait_for(other).await;
    let meanwhile = world.witness.calls_to("https://many") - before;
    // A turn of one for a turn of the other; by runs it would be ten for one, and all of them would be over first.
    assert!(meanwhile < 1_200, "{meanwhile}");
}
