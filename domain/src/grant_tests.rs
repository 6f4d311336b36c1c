use super::*;
use proptest::prelude::*;

fn worker(n: u8) -> WorkerId {
    WorkerId::from_bytes([n; 16])
}

fn capped(max_inflight: u32) -> Limits {
    Limits { max_inflight: Some(max_inflight), ..Limits::default() }
}

fn ask(n: u8, want: u32, limits: Limits) -> Ask {
    Ask { worker: worker(n), in_use: 0, want, starts: 0, limits }
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
                budget.give_back(worker(who));
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
    budget.change(Limits { revision: 2, ..capped(3) }, Timestamp(0));
    let grant = budget.ask(&ask(1, 9, Limits { revision: 1, ..capped(50) }), Timestamp(0));
    assert_eq!((grant.permits, grant.limits.revision), (3, 2));
}

#[test]
fn starts_are_shared_and_told_when_there_will_be_more() {
    let mut budget = Budget::default();
    let of = |n| Ask { starts: 10, ..ask(n, 10, rated(10.0, 2)) };
    let first = budget.ask(&of(1), Timestamp(1_000));
    assert_eq!(first.starts, [1_000, 1_100, 1_200, 1_300, 1_400].map(Timestamp));
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
    budget.hold(Hold::Until(Timestamp(5_000)));
    budget.hold(Hold::Until(Timestamp(4_000)));
    let of = Ask { starts: 1, ..ask(1, 1, rated(10.0, 2)) };
    let held = budget.ask(&of, Timestamp(4_500));
    assert_eq!((held.starts, held.held_until), (vec![], Some(Timestamp(5_000))));
    assert_eq!(budget.ask(&of, Timestamp(5_000)).starts, [Timestamp(5_000)]);
}

#[test]
fn a_rate_outlives_its_holders() {
    let mut budget = Budget::default();
    let of = |n| Ask { starts: 5, ..ask(n, 10, rated(10.0, 2)) };
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
