use super::*;
use crate::{Format, TaskId};

const RUN: [u8; 16] = [2; 16];

fn task(index: u32, url: &str, status: TaskStatus) -> Task {
    Task {
        id: TaskId::of(RunId::from_bytes(RUN), index),
        status,
        input: TaskInput::from_url(url).unwrap(),
        result: None,
        error: None,
        class: None,
        inherited: None,
        created: Timestamp(1),
        updated: Timestamp(7),
    }
}

fn successful(index: u32) -> Task {
    let result = ResultRef::empty(Format::Html, 203);
    Task { result: Some(result), ..task(index, "https://a.example/", TaskStatus::Successful) }
}

fn failed(index: u32, url: &str, class: FailureClass, status: u16) -> Task {
    let error = Some(Problem::new(status, "x", "X"));
    Task { error, class: Some(class), ..task(index, url, TaskStatus::Failed) }
}

fn all() -> Vec<Task> {
    vec![
        successful(0),
        failed(1, "https://b.example/", FailureClass::Blocked, 403),
        failed(2, "https://sub.b.example/", FailureClass::Timeout, 504),
        task(3, "https://xb.example/", TaskStatus::Pending),
        task(4, "https://B.example/", TaskStatus::Processing),
    ]
}

fn picked(selection: Selection) -> Vec<u32> {
    all().iter().filter(|task| selection.picks(task)).map(|task| task.id.index()).collect()
}

#[test]
fn what_is_asked_for_is_picked_and_nothing_else() {
    let one = Selection::default;
    assert_eq!(picked(one()), [0, 1, 2, 3, 4]);
    assert_eq!(picked(Selection { status: vec![TaskStatus::Failed], ..one() }), [1, 2]);
    let unfinished = vec![TaskStatus::Failed, TaskStatus::Pending];
    assert_eq!(picked(Selection { status: unfinished, ..one() }), [1, 2, 3]);
    assert_eq!(picked(Selection { error_class: vec![FailureClass::Timeout], ..one() }), [2]);
    assert_eq!(picked(Selection { http_status: vec![203, 403], ..one() }), [0, 1]);
    assert_eq!(picked(Selection { domain: vec!["b.example".into()], ..one() }), [1, 2, 4]);
    let both =
        Selection { domain: vec!["b.example".into()], error_class: vec![FailureClass::Blocked], ..one() };
    assert_eq!(picked(both), [1]);
}

#[test]
fn whatever_is_not_picked_is_inherited_with_its_end() {
    let replay = Replay {
        run: RunId::from_bytes(RUN),
        selection: Selection { status: vec![TaskStatus::Failed], ..Selection::default() },
    };
    let replayed: Vec<ReplayedTask> = all().into_iter().map(|task| replay.replayed(task)).collect();
    let again: Vec<u32> = replayed.iter().filter(|t| t.inherited.is_none()).map(|t| t.index).collect();
    assert_eq!(again, [1, 2]);
    let counts = inherited_counts(&replayed);
    assert_eq!((counts.successful, counts.failed_total()), (1, 2), "what never ended is not lost");
    let first = replayed[0].inherited.clone().unwrap();
    assert_eq!(first.from, InheritedFrom { run: RunId::from_bytes(RUN), ended: Timestamp(7) });
}

#[test]
fn what_was_inherited_before_still_names_who_did_it() {
    let owner = InheritedFrom { run: RunId::from_bytes([9; 16]), ended: Timestamp(3) };
    let replay = Replay {
        run: RunId::from_bytes(RUN),
        selection: Selection { status: vec![TaskStatus::Failed], ..Selection::default() },
    };
    let replayed = replay.replayed(Task { inherited: Some(owner), ..successful(0) });
    assert_eq!(replayed.inherited.unwrap().from, owner);
}
