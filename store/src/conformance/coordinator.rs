//! Rules of permits and rates (SPEC 3.7, 6.7). All of it goes by the time that a backend is told.

use super::world::must;
use super::{Harness, World};
use conveyor_domain::dispatch::grant::{Ask, Change, Limits, Scope};
use conveyor_domain::{CallerId, DomainWait, Grant, JobId, Rate, Timestamp, WorkerId, limits};
use std::time::Duration;

fn scope(world: &World) -> Scope {
    Scope::Job(JobId::new(world.now(), &world.entropy))
}

fn worker(world: &World) -> WorkerId {
    WorkerId::new(world.now(), &world.entropy)
}

fn capped(max_inflight: u32) -> Limits {
    Limits { max_inflight: Some(max_inflight), ..Limits::default() }
}

/// Twenty a second: every interval is a whole number of milliseconds.
fn rated(max_inflight: u32) -> Limits {
    Limits { rate: Some(must(Rate::new(20.0, Some(4)))), ..capped(max_inflight) }
}

fn want(worker: WorkerId, want: u32, limits: Limits) -> Ask {
    Ask { worker, in_use: 0, want, starts: 0, startable: 0, limits }
}

async fn ask(world: &World, scope: &Scope, ask: Ask) -> Grant {
    must(world.backend.coordinator.ask(scope, ask, world.now()).await)
}

fn pass(world: &World, time: Duration) {
    world.pass(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
}

/// Ten workers that ask for the same at once.
async fn ten_at_once(world: &World, scope: &Scope, of: impl Fn(WorkerId) -> Ask) -> Vec<Grant> {
    let asking = |_| {
        let (coordinator, scope, now) = (world.backend.coordinator.clone(), scope.clone(), world.now());
        let ask = of(worker(world));
        tokio::spawn(async move { must(coordinator.ask(&scope, ask, now).await) })
    };
    let mut grants = Vec::new();
    for asking in (0..10).map(asking).collect::<Vec<_>>() {
        grants.push(must(asking.await));
    }
    grants
}

pub async fn permits_never_pass_the_cap(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let scope = scope(&world);
    let grants = ten_at_once(&world, &scope, |worker| want(worker, 7, capped(20))).await;
    let granted: u32 = grants.iter().map(|g| g.permits).sum();
    assert_eq!(granted, 20, "all of the cap is given out, and no more");
    assert_eq!(must(world.backend.coordinator.budget(&scope, world.now()).await).held(), 20);
}

pub async fn a_repeated_request_changes_nothing(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (scope, coordinator) = (scope(&world), &world.backend.coordinator);
    let request = want(world.worker, 5, capped(8));
    assert_eq!(ask(&world, &scope, request).await, ask(&world, &scope, request).await);
    let view = must(coordinator.budget(&scope, world.now()).await);
    assert_eq!((view.held(), view.holders.len()), (5, 1));
    for _ in 0..2 {
        must(coordinator.change(&scope, Change::GiveBack(world.worker), world.now()).await);
    }
    assert!(must(coordinator.budget(&scope, world.now()).await).holders.is_empty());
}

pub async fn a_lapsed_share_is_given_to_others(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (scope, dead, alive) = (scope(&world), worker(&world), worker(&world));
    assert_eq!(ask(&world, &scope, want(dead, 8, capped(10))).await.permits, 8);
    assert_eq!(ask(&world, &scope, want(alive, 10, capped(10))).await.permits, 2);
    pass(&world, limits::GRANT_TTL);
    assert_eq!(ask(&world, &scope, want(alive, 10, capped(10))).await.permits, 10);
}

pub async fn permits_in_use_are_kept_when_the_cap_falls(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (scope, busy, other) = (scope(&world), worker(&world), worker(&world));
    let revised = |revision, cap| Limits { revision, ..capped(cap) };
    assert_eq!(ask(&world, &scope, want(busy, 20, revised(1, 20))).await.permits, 20);
    must(world.backend.coordinator.change(&scope, Change::Limits(revised(2, 5)), world.now()).await);
    let lowered = Ask { in_use: 18, ..want(busy, 18, revised(2, 5)) };
    assert_eq!(ask(&world, &scope, lowered).await.permits, 18, "they are under way");
    assert_eq!(ask(&world, &scope, want(other, 9, revised(2, 5))).await.permits, 0);
    assert_eq!(ask(&world, &scope, want(other, 9, revised(3, 20))).await.permits, 2);
}

pub async fn later_limits_bind_those_who_do_not_know_of_them(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (scope, coordinator) = (Scope::Job(world.submit(false, 1).await.job), &world.backend.coordinator);
    let later = Limits { revision: 2, ..rated(3) };
    must(coordinator.change(&scope, Change::Limits(later), world.now()).await);
    must(coordinator.change(&scope, Change::Limits(Limits { revision: 1, ..capped(90) }), world.now()).await);
    for _ in 0..2 {
        let stale =
            Ask { starts: 9, startable: 9, ..want(world.worker, 9, Limits { revision: 1, ..capped(50) }) };
        let grant = ask(&world, &scope, stale).await;
        assert_eq!((grant.permits, grant.limits), (3, later));
        // Nor is a change forgotten when nobody holds anything of it.
        must(coordinator.change(&scope, Change::GiveBack(world.worker), world.now()).await);
        pass(&world, limits::GRANT_TTL);
    }
    assert_eq!(must(coordinator.budget(&scope, world.now()).await).limits, later);
}

/// Whoever asks, in whatever order: over any window there are no more starts than a bucket and the rate bring.
pub async fn starts_never_pass_the_rate_while_many_ask(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let scope = scope(&world);
    let asking = |_| {
        let (coordinator, scope, now) = (world.backend.coordinator.clone(), scope.clone(), world.now());
        let ask = Ask { starts: 5, startable: 5, ..want(worker(&world), 1, rated(100)) };
        tokio::spawn(async move {
            let mut starts = Vec::new();
            for step in 0..5 {
                let now = now.after(Duration::from_millis(step * 130));
                starts.extend(must(coordinator.ask(&scope, ask, now).await).starts);
            }
            starts
        })
    };
    let mut starts = Vec::new();
    for asking in (0..10).map(asking).collect::<Vec<_>>() {
        starts.extend(must(asking.await));
    }
    starts.sort();
    // Four at once, then one every 50 ms, up to as far ahead of the last request as starts are given out.
    let most = 4 + (4 * 130 + limits::STARTS_AHEAD.as_millis() as usize) / 50;
    assert!(starts.len() > most / 2, "hardly anything is given out: {starts:?}");
    let rate = rated(100).rate.expect("there is one");
    for (n, first) in starts.iter().enumerate() {
        for (m, last) in starts.iter().enumerate().skip(n) {
            let seconds = (last.0 - first.0) as f64 / 1000.0;
            let allowed = f64::from(rate.burst()) + rate.per_second() * seconds;
            assert!((m - n + 1) as f64 <= allowed + 1e-6, "{} > {allowed}: {starts:?}", m - n + 1);
        }
    }
}

pub async fn starts_go_to_those_who_have_permits(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let scope = scope(&world);
    let grants = ten_at_once(&world, &scope, |worker| Ask { starts: 1, ..want(worker, 1, rated(2)) }).await;
    let (with, without): (Vec<_>, Vec<_>) = grants.into_iter().partition(|grant| grant.permits > 0);
    assert_eq!((with.len(), without.len()), (2, 8));
    assert!(with.iter().all(|grant| grant.starts == [world.now()]), "{with:?}");
    assert!(without.iter().all(|grant| grant.starts.is_empty()), "{without:?}");
}

pub async fn a_held_budget_starts_nothing_until_its_time(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let scope = scope(&world);
    let until = world.now().after(Duration::from_secs(5));
    for hold in [until, world.now().after(Duration::from_secs(4))] {
        must(world.backend.coordinator.change(&scope, Change::HoldUntil(hold), world.now()).await);
    }
    let request = Ask { starts: 1, ..want(world.worker, 1, rated(10)) };
    pass(&world, Duration::from_millis(4_999));
    let held = ask(&world, &scope, request).await;
    assert_eq!((held.permits, held.starts, held.held_until), (1, vec![], Some(until)));
    assert_eq!(must(world.backend.coordinator.budget(&scope, world.now()).await).held_until, Some(until));
    pass(&world, Duration::from_millis(1));
    let free = ask(&world, &scope, request).await;
    assert_eq!((free.starts, free.held_until), (vec![until], None));
}

pub async fn a_budget_shows_what_is_held_taken_and_waited_for(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (scope, coordinator) = (scope(&world), &world.backend.coordinator);
    let fresh = must(coordinator.budget(&scope, world.now()).await);
    assert_eq!((fresh.limits, fresh.held(), fresh.tokens), (Limits::default(), 0, None));
    let grant = ask(&world, &scope, Ask { starts: 1, ..want(world.worker, 3, rated(10)) }).await;
    let wait = DomainWait {
        domain: "slow.example".to_owned(),
        until: world.now().after(Duration::from_secs(86_400)),
    };
    must(coordinator.change(&scope, Change::DomainWait(wait.clone()), world.now()).await);
    let view = must(coordinator.budget(&scope, world.now()).await);
    assert_eq!((view.limits, view.held_until), (rated(10), None));
    let [(holder, holding)] = view.holders[..] else { panic!("one holds something: {view:?}") };
    assert_eq!((holder, holding.permits, holding.expires), (world.worker, 3, grant.expires));
    assert_eq!((view.tokens, view.next_start), (Some(3), Some(world.now())), "three of four are left");
    assert_eq!(view.domain_wait, Some(wait));
    let rest = ask(&world, &scope, Ask { starts: 3, startable: 3, ..want(world.worker, 3, rated(10)) }).await;
    assert_eq!(rest.starts, [world.now(); 3]);
    let taken = must(coordinator.budget(&scope, world.now()).await);
    let next = world.now().after(Duration::from_millis(50));
    assert_eq!((taken.tokens, taken.next_start), (Some(0), Some(next)));
    pass(&world, limits::GRANT_TTL);
    let lapsed = must(coordinator.budget(&scope, world.now()).await);
    assert_eq!((lapsed.held(), lapsed.tokens, lapsed.domain_wait), (0, Some(4), None));
}

pub async fn sites_are_their_callers_own_and_listed_by_name(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (coordinator, stranger) = (&world.backend.coordinator, CallerId::new(world.now(), &world.entropy));
    let site = |caller, name: &str| Scope::Domain(caller, name.to_owned());
    let names = ["b.example", "a.example", "a.example.org", "[::1]"];
    for name in names {
        assert_eq!(ask(&world, &site(world.caller, name), want(world.worker, 4, rated(4))).await.permits, 4);
    }
    let theirs = ask(&world, &site(stranger, "a.example"), want(worker(&world), 9, capped(9))).await;
    assert_eq!(theirs.permits, 9, "another caller's budget is another one");
    ask(&world, &Scope::Job(JobId::new(world.now(), &world.entropy)), want(world.worker, 1, capped(1))).await;
    let listed = async |caller, limit| {
        let found = must(coordinator.domain_budgets(caller, limit, world.now()).await);
        found.into_iter().map(|(name, view)| (name, view.held())).collect::<Vec<_>>()
    };
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(listed(world.caller, 9).await, sorted.map(|name| (name.to_owned(), 4)));
    assert_eq!(listed(world.caller, 2).await, [sorted[0], sorted[1]].map(|name| (name.to_owned(), 4)));
    assert_eq!(listed(stranger, 9).await, [("a.example".to_owned(), 9)]);
    let nobody = CallerId::new(world.now(), &world.entropy);
    assert_eq!(listed(nobody, 9).await, []);
    let one = must(coordinator.budget(&site(world.caller, "b.example"), world.now()).await);
    assert_eq!((one.limits, one.tokens), (rated(4), Some(4)));
}

pub async fn what_was_taken_of_a_rate_survives_a_crash(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (scope, held) = (scope(&world), scope(&world));
    let slow = Limits { rate: Some(must(Rate::new(0.1, Some(2)))), ..capped(10) };
    let request = |worker| Ask { starts: 3, startable: 3, ..want(worker, 1, slow) };
    assert_eq!(ask(&world, &scope, request(world.worker)).await.starts, [world.now(); 2]);
    let until = world.now().after(Duration::from_secs(60));
    must(world.backend.coordinator.change(&held, Change::HoldUntil(until), world.now()).await);
    let crashed = harness.crash().await;
    let world = world.on(crashed.backend());
    let other = worker(&world);
    let next = world.now().after(Duration::from_secs(10));
    let grant = ask(&world, &scope, request(other)).await;
    let expected: (u32, Vec<Timestamp>) = (1, Vec::new());
    assert_eq!((grant.permits, grant.starts), expected);
    assert_eq!(must(world.backend.coordinator.budget(&scope, world.now()).await).next_start, Some(next));
    assert_eq!(ask(&world, &held, request(other)).await.held_until, Some(until));
    pass(&world, Duration::from_secs(10));
    assert_eq!(ask(&world, &scope, request(other)).await.starts, [next]);
}
