use super::*;
use proptest::prelude::*;

const NOW: Timestamp = Timestamp(1_000);
const UNTIL: Timestamp = Timestamp(61_000);

fn job(n: u8) -> JobId {
    JobId::from_bytes([n; 16])
}

fn run_of(n: u8, tasks: u32) -> Wanted {
    Wanted { job: job(n), active: true, scheduled: false, tasks }
}

fn live(jobs: &[(u8, LiveRun)]) -> Usage {
    Usage { live: jobs.iter().map(|(n, run)| (job(*n), *run)).collect(), ..Usage::default() }
}

fn queued(total: u32, completed: u32) -> LiveRun {
    LiveRun { total, completed, ..LiveRun::default() }
}

fn active(limit: u32) -> Quotas {
    Quotas { active_jobs: Some(limit), ..Quotas::default() }
}

fn tasks(limit: u64) -> Quotas {
    Quotas { queued_tasks: Some(limit), ..Quotas::default() }
}

#[test]
fn what_was_chosen_goes_before_the_defaults() {
    let defaults = Quotas { active_jobs: Some(3), scheduled_jobs: Some(10), queued_tasks: None };
    let chosen = Quotas { active_jobs: Some(0), ..Quotas::default() };
    assert_eq!(chosen.or(defaults), Quotas { active_jobs: Some(0), ..defaults });
}

#[test]
fn a_reservation_counts_until_its_job_is_seen_or_it_lapses() {
    let empty = Usage::default();
    let one = Holdings::default().admit(active(1), &empty, &run_of(1, 5), 7, (NOW, UNTIL)).unwrap();
    let refused = one.admit(active(1), &empty, &run_of(2, 5), 8, (NOW, UNTIL)).unwrap_err();
    assert_eq!(refused, Exceeded { quota: Quota::ActiveJobs, limit: 1, used: 1, wanted: 1 });
    assert!(refused.to_string().contains("`active_jobs` is 1: 1 are used"));
    // Seen: counted once, and what held it is dropped.
    let seen = live(&[(1, queued(5, 0))]);
    assert_eq!(one.used(&seen, NOW).active_jobs, 1);
    let two = one.admit(active(2), &seen, &run_of(2, 5), 8, (NOW, UNTIL)).unwrap();
    assert_eq!(two.reservations.iter().map(|held| held.id).collect::<Vec<_>>(), [8]);
    // Lapsed, and given back.
    assert!(one.admit(active(1), &empty, &run_of(2, 5), 8, (UNTIL, UNTIL)).is_ok());
    let released = one.release(7).unwrap();
    assert!(released.admit(active(1), &empty, &run_of(2, 5), 8, (NOW, UNTIL)).is_ok());
    assert_eq!(released.release(7), None);
}

#[test]
fn tasks_count_until_they_are_done() {
    let usage = live(&[(1, queued(10, 4))]);
    let add = |n| Wanted { active: false, ..run_of(1, n) };
    let held = Holdings::default();
    assert!(held.admit(tasks(10), &usage, &add(4), 1, (NOW, UNTIL)).is_ok());
    let refused = held.admit(tasks(10), &usage, &add(5), 1, (NOW, UNTIL)).unwrap_err();
    assert_eq!((refused.quota, refused.used, refused.wanted), (Quota::QueuedTasks, 6, 5));
    // Two who add at once: the second sees what the first holds.
    let held = held.admit(tasks(10), &usage, &add(3), 1, (NOW, UNTIL)).unwrap();
    assert!(held.admit(tasks(10), &usage, &add(2), 2, (NOW, UNTIL)).is_err());
    assert!(held.admit(tasks(10), &usage, &add(1), 2, (NOW, UNTIL)).is_ok());
}

/// A list that was let in as one task is counted: all of its rows have to fit beside what others have.
#[test]
fn a_list_that_was_counted_holds_all_of_its_rows_in_the_place_of_what_was_held() {
    let unread = LiveRun { ingesting: true, ..LiveRun::default() };
    let usage = live(&[(1, unread), (2, queued(40, 10))]);
    let let_in =
        Holdings::default().admit(tasks(100), &Usage::default(), &run_of(1, 1), 7, (NOW, UNTIL)).unwrap();
    let list = |n| Wanted { active: false, ..run_of(1, n) };
    // Whether or not the submit has come to say that the list is read later.
    for held in [let_in.clone(), let_in.reading(7).unwrap()] {
        assert_eq!(held.used(&usage, NOW).queued_tasks, 31);
        let counted = held.hold_list(tasks(100), &usage, &list(70), 8, (NOW, UNTIL)).unwrap().unwrap();
        assert_eq!(counted.used(&usage, NOW).queued_tasks, 100);
        let refused = held.hold_list(tasks(100), &usage, &list(71), 8, (NOW, UNTIL)).unwrap_err();
        assert_eq!(refused, Exceeded { quota: Quota::QueuedTasks, limit: 100, used: 30, wanted: 71 });
        // Whoever counts it again holds the same, and the submit that is late takes none of it away.
        let again = counted.hold_list(tasks(100), &usage, &list(70), 9, (NOW, UNTIL)).unwrap().unwrap();
        assert_eq!(again.used(&usage, NOW).queued_tasks, 100);
        assert_eq!(again.reservations.len(), 1);
        assert_eq!(again.reading(7), None);
        // Nothing is held twice while it is read, and nothing after that.
        let reading = live(&[(1, LiveRun { total: 50, completed: 20, ..unread }), (2, queued(40, 10))]);
        assert_eq!(again.used(&reading, NOW).queued_tasks, 30 + 30 + 20);
        assert_eq!(again.used(&live(&[(2, queued(40, 10))]), NOW).queued_tasks, 30);
    }
    let ended = live(&[(2, queued(40, 10))]);
    assert_eq!(
        let_in.hold_list(tasks(100), &ended, &list(500), 8, (NOW, UNTIL)),
        Ok(None),
        "its run has ended"
    );
    let more = Usage { more: true, ..usage };
    assert!(let_in.hold_list(tasks(100), &more, &list(1), 8, (NOW, UNTIL)).is_err(), "not all were counted");
}

#[test]
fn the_rest_of_a_list_that_is_read_counts_for_as_long_as_that_takes() {
    let wanted = run_of(1, 1_000);
    let held = Holdings::default().admit(tasks(1_000), &Usage::default(), &wanted, 1, (NOW, UNTIL)).unwrap();
    let late = Timestamp(UNTIL.0 * 10);
    let reading = live(&[(1, LiveRun { total: 300, completed: 100, inherited: 0, ingesting: true })]);
    // Also where the process that accepted it died before it could say so.
    for held in [held.clone(), held.reading(1).unwrap()] {
        assert_eq!(held.used(&reading, late).queued_tasks, 200 + 700);
        assert_eq!(held.used(&live(&[(1, queued(1_000, 100))]), late).queued_tasks, 900);
    }
    // Of a partial rerun, rows that are only handed down say nothing about how many are still to come.
    let handed_down = LiveRun { total: 5_300, completed: 5_100, inherited: 5_000, ingesting: true };
    assert_eq!(held.used(&live(&[(1, handed_down)]), late).queued_tasks, 200 + 700);
    let ended = held.reading(1).unwrap().used(&Usage::default(), NOW);
    assert_eq!(ended, Used::default(), "stopped while it was read");
}

#[test]
fn schedules_are_counted_apart() {
    let quotas = Quotas { scheduled_jobs: Some(1), ..active(1) };
    let wanted = |n, active| Wanted { scheduled: true, active, ..run_of(n, 0) };
    let held =
        Holdings::default().admit(quotas, &Usage::default(), &wanted(1, false), 1, (NOW, UNTIL)).unwrap();
    let refused = held.admit(quotas, &Usage::default(), &wanted(2, true), 2, (NOW, UNTIL)).unwrap_err();
    assert_eq!(refused.quota, Quota::ScheduledJobs);
    assert!(held.admit(quotas, &Usage::default(), &run_of(2, 1), 2, (NOW, UNTIL)).is_ok());
    // One that is seen is not counted again, nor is a change of it.
    let usage = Usage { scheduled: [job(1)].into(), ..Usage::default() };
    assert_eq!(held.used(&usage, NOW).scheduled_jobs, 1);
    assert!(held.admit(quotas, &usage, &wanted(1, true), 2, (NOW, UNTIL)).is_ok());
}

#[test]
fn what_is_not_limited_concerns_nobody() {
    assert!(!Quotas::default().concern(&run_of(1, 9)));
    assert!(!tasks(5).concern(&run_of(1, 0)) && tasks(5).concern(&run_of(1, 1)));
    assert!(active(5).concern(&run_of(1, 0)));
    assert!(!active(5).concern(&Wanted { active: false, ..run_of(1, 9) }));
}

#[test]
fn more_than_can_be_counted_takes_no_tasks() {
    let usage = Usage { more: true, ..Usage::default() };
    assert!(Holdings::default().admit(tasks(10), &usage, &run_of(1, 1), 1, (NOW, UNTIL)).is_err());
    assert!(Holdings::default().admit(active(1), &usage, &run_of(1, 1), 1, (NOW, UNTIL)).is_ok());
    // Nor the rest of a list: its run may be one of those that were not counted.
    let wanted = Wanted { active: false, ..run_of(1, 1) };
    let counted = Usage { live: live(&[(1, queued(0, 0))]).live, ..usage.clone() };
    for usage in [usage, counted] {
        let refused = Holdings::default().hold_list(tasks(10), &usage, &wanted, 1, (NOW, UNTIL)).unwrap_err();
        assert_eq!((refused.quota, refused.limit, refused.wanted), (Quota::QueuedTasks, 10, 1));
    }
    let all = Usage::default();
    assert_eq!(Holdings::default().hold_list(tasks(10), &all, &wanted, 1, (NOW, UNTIL)), Ok(None));
}

#[test]
fn a_record_reads_as_it_was_written_and_as_nothing_was() {
    let held = Holdings { chosen: active(3), ..Holdings::default() };
    let held = held.admit(active(3), &Usage::default(), &run_of(1, 5), 7, (NOW, UNTIL)).unwrap();
    let held =
        held.admit(active(3), &Usage::default(), &Wanted { active: false, ..run_of(2, 1) }, 8, (NOW, UNTIL));
    let held = held.unwrap();
    let text = serde_json::to_string(&held).unwrap();
    assert_eq!(serde_json::from_str::<Holdings>(&text).unwrap(), held);
    assert_eq!(serde_json::from_str::<Holdings>("{}").unwrap(), Holdings::default());
}

#[derive(Clone, Debug)]
enum Step {
    /// A process reads, and decides.
    Ask(u8, u32),
    /// What the `n`th of those that were let in wanted becomes visible, with or without the reservation being given back.
    Happen(usize, bool),
    /// It comes to nothing.
    Fail(usize),
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (any::<u8>(), 0u32..5).prop_map(|(n, tasks)| Step::Ask(n, tasks)),
        (any::<usize>(), any::<bool>()).prop_map(|(n, released)| Step::Happen(n, released)),
        any::<usize>().prop_map(Step::Fail),
        any::<usize>().prop_map(Step::End),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// Whatever the order in which requests are let in, carried out and given back: what is there never exceeds what may be.
    #[test]
    fn what_is_there_never_exceeds_a_quota(jobs in 0u32..4, most in 0u64..12, steps in steps()) {
        let quotas = Quotas { active_jobs: Some(jobs), queued_tasks: Some(most), ..Quotas::default() };
        let (mut held, mut usage) = (Holdings::default(), Usage::default());
        let mut under_way: Vec<(u64, Wanted)> = Vec::new();
        for (id, step) in (0u64..).zip(steps) {
            match step {
                Step::Ask(n, tasks) => {
                    let wanted = run_of(n, tasks);
                    let taken = usage.live.contains_key(&wanted.job) || under_way.iter().any(|(_, w)| w.job == wanted.job);
                    if let (false, Ok(next)) = (taken, held.admit(quotas, &usage, &wanted, id, (NOW, UNTIL))) {
                        held = next;
                        under_way.push((id, wanted));
                    }
                }
                Step::Happen(n, released) if !under_way.is_empty() => {
                    let (id, wanted) = under_way.swap_remove(n % under_way.len());
                    usage.live.insert(wanted.job, queued(wanted.tasks, 0));
                    if released {
                        held = held.release(id).unwrap_or(held);
                    }
                }
                Step::Fail(n) if !under_way.is_empty() => {
                    let (id, _) = under_way.swap_remove(n % under_way.len());
                    held = held.release(id).unwrap_or(held);
                }
                Step::End(n) if !usage.live.is_empty() => {
                    let job = *usage.live.keys().nth(n % usage.live.len()).unwrap();
                    usage.live.remove(&job);
                }
                Step::Happen(..) | Step::Fail(_) | Step::End(_) => {}
            }
            let used = held.used(&usage, NOW);
            prop_assert!(usage.live.len() <= jobs as usize);
            prop_assert!(usage.live.values().map(|run| u64::from(run.total)).sum::<u64>() <= most);
            prop_assert!(used.active_jobs >= usage.live.len() as u64);
        }
    }
}
