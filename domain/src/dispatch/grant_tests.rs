use super::*;
use proptest::prelude::*;

fn worker(n: u8) -> WorkerId {
    WorkerId::from_bytes([n; 16])
}

fn capped(max_inflight: u32) -> Limits {
    Limits { max_inflight: Some(max_inflight), ..Limits::default() }
}

fn ask(n: u8, want: u32, limits: Limits) -> Ask {
    Ask { worker: worker(n), in_use: 0, want, starts: 0, startable: 0, limits }
}

fn rated(per_second: f64, burst: u32) -> Limits {
    Limits { rate: Some(Rate::new(per_second, Some(burst)).unwrap()), ..capped(100) }
}

proptest! {
    #[test]
    fn live_permits_never_pass_the_cap(
        cap in 0u32..50,
        steps in proptest::collection::vec((0u8..5, 0u32..60, 0i64..40_000, any::<bool>()), 0..60),
    ) {
        let (mut budget, mut now) = (Budget::default(), Timestamp(0));
        for (who, want, pass_ms, release) in steps {
            now = Timestamp(now.0 + pass_ms);
            if release {
                budget.change(Change::GiveBack(worker(who)), Timestamp(0));
            } else {
                budget.ask(&ask(who, want, capped(cap)), now);
            }
            let held = budget.view(now).held();
            prop_assert!(held <= cap, "{held} > {cap}");
        }
    }

    #[test]
    fn asking_twice_changes_nothing(want in 0u32..60, cap in 0u32..60, other in 0u32..60) {
        let mut budget = Budget::default();
        budget.ask(&ask(1, other, capped(cap)), Timestamp(0));
        let first = budget.ask(&ask(2, want, capped(cap)), Timestamp(5));
        let before = budget.clone();
        let second = budget.ask(&ask(2, want, capped(cap)), Timestamp(5));
        prop_assert_eq!(first, second);
        prop_assert!(!budget.differs(&before));
    }
}

#[test]
fn a_lapsed_share_goes_to_others() {
    let mut budget = Budget::default();
    assert_eq!(budget.ask(&ask(1, 10, capped(10)), Timestamp(0)).permits, 10);
    assert_eq!(budget.ask(&ask(2, 10, capped(10)), Timestamp(29_999)).permits, 0);
    assert_eq!(budget.ask(&ask(2, 10, capped(10)), Timestamp(30_000)).permits, 10);
}

#[test]
fn what_is_in_use_counts_when_the_cap_goes_down_and_up_again() {
    let mut budget = Budget::default();
    let revised = |revision, cap| Limits { revision, ..capped(cap) };
    budget.ask(&ask(1, 20, revised(1, 20)), Timestamp(0));
    let lowered = Ask { in_use: 18, ..ask(1, 5, revised(2, 5)) };
    assert_eq!(budget.ask(&lowered, Timestamp(1)).permits, 18, "they are under way");
    assert_eq!(budget.ask(&ask(2, 9, revised(3, 20)), Timestamp(2)).permits, 2);
}

#[test]
fn whoever_does_not_know_of_new_limits_is_bound_by_them() {
    let mut budget = Budget::default();
    budget.change(Change::Limits(Limits { revision: 2, ..capped(3) }), Timestamp(0));
    let grant = budget.ask(&ask(1, 9, Limits { revision: 1, ..capped(50) }), Timestamp(0));
    assert_eq!((grant.permits, grant.limits.revision), (3, 2));
}

#[test]
fn starts_are_shared_and_told_when_there_will_be_more() {
    let mut budget = Budget::default();
    let of = |n| Ask { starts: 10, ..ask(n, 10, rated(10.0, 2)) };
    let first = budget.ask(&of(1), Timestamp(1_000));
    assert_eq!(first.starts, [1_000, 1_000, 1_100, 1_200, 1_300, 1_400].map(Timestamp));
    let second = budget.ask(&of(2), Timestamp(1_000));
    assert_eq!((second.starts, second.more_starts_at), (vec![], Some(Timestamp(1_100))));
    assert_eq!(budget.ask(&of(2), Timestamp(1_100)).starts, [Timestamp(1_500)]);
}

#[test]
fn nobody_gets_starts_without_permits() {
    let mut budget = Budget::default();
    let limits = Limits { max_inflight: Some(1), ..rated(10.0, 2) };
    budget.ask(&Ask { starts: 1, ..ask(1, 1, limits) }, Timestamp(0));
    assert_eq!(budget.ask(&Ask { starts: 9, ..ask(2, 1, limits) }, Timestamp(0)).starts, []);
}

#[test]
fn a_held_budget_starts_nothing_until_its_time() {
    let mut budget = Budget::default();
    budget.change(Change::HoldUntil(Timestamp(5_000)), Timestamp(0));
    budget.change(Change::HoldUntil(Timestamp(4_000)), Timestamp(0));
    let of = Ask { starts: 1, ..ask(1, 1, rated(10.0, 2)) };
    let held = budget.ask(&of, Timestamp(4_500));
    assert_eq!((held.starts, held.held_until), (vec![], Some(Timestamp(5_000))));
    assert_eq!(budget.ask(&of, Timestamp(5_000)).starts, [Timestamp(5_000)]);
}

#[test]
fn a_rate_outlives_its_holders() {
    let mut budget = Budget::default();
    let of = |n| Ask { starts: 6, ..ask(n, 10, rated(10.0, 2)) };
    budget.ask(&of(1), Timestamp(1_000));
    budget.drop_holders();
    assert!(!budget.is_idle(Timestamp(1_000)) && budget.is_idle(Timestamp(2_000)));
    let stored = serde_json::to_string(&budget).unwrap();
    let mut budget: Budget = serde_json::from_str(&stored).unwrap();
    assert_eq!(budget.ask(&of(2), Timestamp(1_000)).starts, []);
}

#[test]
fn a_wrong_clock_does_not_stop_a_rate_for_long() {
    let mut budget = Budget::default();
    let of = |n| Ask { starts: 1, ..ask(n, 10, rated(10.0, 2)) };
    budget.ask(&of(1), Timestamp(3_600_000));
    let grant = budget.ask(&of(2), Timestamp(1_000));
    assert!(grant.more_starts_at.unwrap() <= Timestamp(7_000), "{grant:?}");
}

#[test]
fn a_worker_that_has_everything_makes_room_for_those_who_wait() {
    let mut budget = Budget::default();
    let all = |n| ask(n, 20, capped(20));
    assert_eq!(budget.ask(&all(1), Timestamp(0)).permits, 20);
    for n in 2..=4 {
        assert_eq!(budget.ask(&all(n), Timestamp(10)).permits, 0);
    }
    let seen = budget.clone();
    budget.ask(&all(2), Timestamp(500));
    assert!(!budget.differs(&seen), "it has said so already");
    // It is told, keeps what it uses, and gives the rest back when it can.
    let told = budget.ask(&Ask { in_use: 20, ..all(1) }, Timestamp(10_000));
    assert_eq!((told.permits, told.fair), (20, 5));
    assert_eq!(budget.ask(&Ask { in_use: 5, ..all(1) }, Timestamp(10_500)).permits, 5);
    let parts: Vec<u32> = (2..=4).map(|n| budget.ask(&all(n), Timestamp(10_600)).permits).collect();
    assert_eq!(parts, [5, 5, 5]);
    // Nobody is below its part now: nobody waits, and nobody has to make room.
    let settled = budget.ask(&Ask { in_use: 5, ..all(1) }, Timestamp(11_000));
    assert_eq!((settled.permits, settled.fair), (5, 5));
    assert!(budget.waiting.is_empty());
}

#[test]
fn whoever_waited_and_went_away_is_forgotten() {
    let mut budget = Budget::default();
    budget.ask(&ask(1, 8, capped(8)), Timestamp(0));
    budget.ask(&ask(2, 8, capped(8)), Timestamp(0));
    assert_eq!(budget.ask(&Ask { in_use: 8, ..ask(1, 8, capped(8)) }, Timestamp(10_000)).fair, 4);
    assert_eq!(budget.ask(&Ask { in_use: 4, ..ask(1, 8, capped(8)) }, Timestamp(15_000)).permits, 8);
}

#[test]
fn what_is_too_much_does_not_stay_so() {
    let mut budget = Budget::default();
    let revised = |revision, cap| Limits { revision, ..capped(cap) };
    for n in [1, 2] {
        budget.ask(&ask(n, 50, revised(1, 100)), Timestamp(0));
    }
    // Both use all they have when the cap falls, and report what they still use, again and again.
    let mut used = [50, 50];
    for step in 0..20 {
        for n in [1u8, 2] {
            let mine = &mut used[usize::from(n) - 1];
            let grant =
                budget.ask(&Ask { in_use: *mine, ..ask(n, 50, revised(2, 10)) }, Timestamp(step * 500));
            // Half of its calls end meanwhile, and it starts what it may.
            *mine = (*mine / 2).max(grant.permits.min(grant.fair));
        }
    }
    assert!(used.iter().sum::<u32>() <= 10, "{used:?}");
}

#[test]
fn a_worker_that_comes_back_too_late_does_not_keep_what_others_have() {
    let mut budget = Budget::default();
    budget.ask(&ask(1, 10, capped(10)), Timestamp(0));
    budget.ask(&ask(2, 10, capped(10)), Timestamp(40_000));
    let back = budget.ask(&Ask { in_use: 10, ..ask(1, 10, capped(10)) }, Timestamp(40_000));
    assert_eq!((back.permits, back.fair), (10, 0), "they are under way, and it starts no more");
}

#[test]
fn the_strictest_that_was_asked_under_lately_holds_for_all() {
    let mut budget = Budget::default();
    let (slow, any) = (rated(0.1, 1), capped(50));
    let of = |n, limits| Ask { starts: 5, startable: 5, ..ask(n, 5, limits) };
    assert_eq!(budget.ask(&of(1, slow), Timestamp(0)).starts.len(), 1);
    let other = budget.ask(&of(2, any), Timestamp(10));
    assert_eq!((other.limits.rate, other.limits.max_inflight), (slow.rate, Some(50)));
    assert_eq!(
        budget.ask(&of(3, rated(100.0, 9)), Timestamp(20)).starts,
        [],
        "nor is what was taken forgiven"
    );
    // Once nobody asks like that any more, it holds no longer.
    assert_eq!(budget.ask(&of(2, any), Timestamp(30_000)).limits, any);
}

#[test]
fn starts_go_to_those_who_can_use_them() {
    let mut budget = Budget::default();
    let limits = Limits { max_inflight: Some(10), ..rated(5.0, 2) };
    let busy = Ask { in_use: 8, starts: 9, startable: 0, ..ask(1, 10, limits) };
    budget.ask(&Ask { in_use: 2, ..ask(2, 2, limits) }, Timestamp(0));
    assert_eq!(budget.ask(&busy, Timestamp(0)).starts, [], "it has no permit for them");
    let free = Ask { in_use: 2, starts: 9, startable: 2, ..ask(2, 2, limits) };
    assert_eq!(budget.ask(&free, Timestamp(0)).starts.len(), 2);
}

#[test]
fn a_clock_that_was_an_hour_ahead_does_not_hold_anything_for_an_hour() {
    let mut budget = Budget::default();
    let hour = 3_600_000;
    budget.ask(&ask(1, 10, capped(10)), Timestamp(hour));
    budget.change(Change::HoldUntil(Timestamp(hour + 5_000)), Timestamp(hour));
    assert_eq!(budget.ask(&ask(2, 10, capped(10)), Timestamp(0)).permits, 0);
    assert_eq!(budget.ask(&ask(2, 10, capped(10)), Timestamp(35_000)).permits, 10);
    assert!(budget.ask(&ask(2, 10, capped(10)), Timestamp(606_000)).held_until.is_none());
}

#[test]
fn a_grant_says_how_long_everything_is_from_its_decision_whatever_the_clock_says() {
    let limits = Limits { max_inflight: Some(10), ..rated(10.0, 4) };
    let asked = |clock: i64| {
        let mut budget = Budget::default();
        budget.change(Change::HoldUntil(Timestamp(clock - 1)), Timestamp(clock - 1));
        let grant = budget.ask(&Ask { starts: 9, startable: 9, ..ask(1, 9, limits) }, Timestamp(clock));
        let starts: Vec<u128> = grant.starts.iter().map(|at| grant.after(*at).as_millis()).collect();
        let more = grant.more_starts_at.map(|at| grant.after(at).as_millis());
        (grant.decided_at, grant.lasts().as_secs(), starts, more)
    };
    let (right, ahead) = (asked(1_000_000), asked(1_000_000 + 60 * 24 * 3_600_000));
    assert_eq!((right.0, right.1), (Timestamp(1_000_000), 30));
    assert_eq!(right.2, [0, 0, 0, 0, 100, 200, 300, 400]);
    assert_eq!((right.1, &right.2, right.3), (ahead.1, &ahead.2, ahead.3), "60 days ahead");
}

/// Nobody says that it is over if the worker dies, or forgets the run.
#[test]
fn a_wait_for_a_domain_is_believed_only_while_it_is_repeated() {
    let day = 24 * 3_600_000;
    let wait = || DomainWait { domain: "slow.example".to_owned(), until: Timestamp(day) };
    let shown = |budget: &Budget, at| budget.view(Timestamp(at)).domain_wait;
    let mut budget = Budget::default();
    for at in [0, 10_000] {
        budget.change(Change::DomainWait(wait()), Timestamp(at));
    }
    assert_eq!((shown(&budget, 29_999), shown(&budget, 30_000)), (Some(wait()), None));
    assert!(!budget.is_idle(Timestamp(29_999)) && budget.is_idle(Timestamp(30_000)));
    // As an earlier version stored it: until the next request, and then for as long.
    let stored = r#"{"version":1,"holders":{},"domain_wait":{"domain":"slow.example","until":86400000}}"#;
    let mut stored: Budget = serde_json::from_str(stored).unwrap();
    assert_eq!(shown(&stored, 1_000), Some(wait()));
    stored.ask(&ask(1, 1, capped(1)), Timestamp(1_000));
    assert_eq!((shown(&stored, 20_999), shown(&stored, 21_000)), (Some(wait()), None));
}
