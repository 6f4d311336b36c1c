//! Everything that can be lost is lost at once, on many runs, beside live workers, ingesters and two sweepers, some of
//! which die on the way: every run must end exact (SPEC 3, 6.14, 6.17).

mod damage;
mod poison;
mod roles;
mod runs;

use crate::support::{sized, until, until_fits};
use conveyor_domain::Entropy;
use conveyor_domain::repair::Kind;
use conveyor_sweeper::Scope;
use damage::Damage;
use roles::{Role, Roles, World};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_run_ends_exact_whatever_is_lost_on_the_way() {
    let world = World::open("chaos").await;
    let runs = runs::submit(&world, sized(12, 50)).await;
    let chance = Entropy::from_number(41);
    let mut struck = [0_u32; Damage::ALL.len()];
    let mut strike = async |damage, run: usize| {
        if world.damager.strike(damage, &runs[run]).await {
            struck[damage as usize] += 1;
        }
    };

    // Before anybody could do anything: everything that there is to strike is there.
    strike(Damage::ControlMessages, 0).await;
    for run in (0..runs.len()).step_by(4) {
        strike(Damage::Queue, run).await;
    }
    for run in (1..runs.len()).step_by(4) {
        strike(Damage::SomeRefs, run).await;
    }
    // Every kind of damage to every run, in any order, while it is worked on; and a role dies now and then.
    let mut roles = Roles::start(&world, &Role::ALL);
    let mut blows: Vec<(usize, Damage)> =
        (0..runs.len()).flat_map(|run| Damage::ALL.map(|damage| (run, damage))).collect();
    shuffle(&mut blows, &chance);
    for (n, (run, damage)) in blows.into_iter().enumerate() {
        strike(damage, run).await;
        // Now and then, not all at once. No run ends meanwhile: its last page is held back.
        tokio::time::sleep(Duration::from_millis(20)).await;
        if n % 12 == 11 {
            roles.replace(Role::ALL[(n / 12) % Role::ALL.len()]);
        }
    }
    // A run has counters once a task has ended: on a slow machine, later than all of this.
    let mut next = (0..runs.len()).cycle();
    until("a counter was struck", async || {
        if struck[Damage::Counter as usize] == 0
            && world.damager.strike(Damage::Counter, &runs[next.next().unwrap()]).await
        {
            struck[Damage::Counter as usize] += 1;
        }
        struck[Damage::Counter as usize] > 0
    })
    .await;
    for damage in Damage::ALL {
        assert!(struck[damage as usize] > 0, "{damage:?} never hit anything");
    }
    world.pages.release();

    let unfinished = async || {
        // A run whose messages were received too often waits for an operator, who is here.
        world.redrive_letters().await;
        world.unfinished(&runs).await
    };
    until_fits("every run is done", unfinished, Vec::is_empty).await;

    roles.stop().await;
    world.reconcile_until_quiet(Scope::All).await;
    for run in &runs {
        // Counters that were struck after the end of their run, which no sweep looks at again by itself.
        world.reconcile_until_quiet(Scope::Job(run.key.job)).await;
        world.is_exact(run).await;
        let audit = world.audit(run.key).await;
        assert!(audit.agrees(), "{audit:?}");
        assert!(audit.findings.iter().all(|finding| finding.kind == Kind::Upkeep), "{audit:?}");
    }
}

fn shuffle<T>(items: &mut [T], chance: &Entropy) {
    for at in (1..items.len()).rev() {
        items.swap(at, chance.below(at as u64 + 1) as usize);
    }
}
