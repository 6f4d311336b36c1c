use super::*;
use crate::{CallerId, JobId, JobSpec, RunDoc, RunId, RunStatus, Staged, lifecycle};
use proptest::prelude::*;

fn source(on_invalid_rows: OnInvalidRows) -> Source {
    Source {
        upload: UploadId::from_bytes([1; 16]),
        staged: Staged::new("uploads/x".into(), 9, "e".into()),
        spec: ListSpec::Lines,
        on_invalid_rows,
        param_policy: None,
        unknown_fields: Default::default(),
    }
}

/// A list as an ingester sees it: for each record, whether it is a task. A chunk has a fixed number of records.
#[derive(Clone, Debug)]
struct World {
    records: Vec<bool>,
    chunk_rows: usize,
    log: Vec<LoggedEvent>,
    /// What the store holds: rows by index, and what the run says.
    rows: std::collections::BTreeSet<u32>,
    total: u32,
    done: bool,
    run: RunStatus,
    expected: Option<Expected>,
}

impl World {
    fn new(records: Vec<bool>, chunk_rows: usize, on_invalid_rows: OnInvalidRows) -> World {
        let event = IngestEvent::Accepted { source: source(on_invalid_rows) };
        World {
            records,
            chunk_rows,
            log: vec![LoggedEvent { number: 0, at: Timestamp(0), event }],
            rows: Default::default(),
            total: 0,
            done: false,
            run: RunStatus::Running,
            expected: None,
        }
    }

    fn run(&self) -> Run {
        let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        let caller = CallerId::from_bytes([3; 16]);
        let rows = lifecycle::accept(job, run, caller, JobSpec::default(), false, Timestamp(0));
        let doc = RunDoc { expected: self.expected, ..RunDoc::default() };
        Run { status: self.run, total: self.total, doc, ..rows.run }
    }

    fn state(&self) -> IngestState {
        IngestState::fold(&self.log).expect("the log is one that an ingest wrote")
    }

    /// What an ingester that has folded this much of the log would do next.
    fn intent(&self, state: &IngestState) -> Option<(IngestEvent, Vec<u32>)> {
        let layout = Layout::Lines;
        match state.next_step(&self.run()) {
            NextStep::Open => {
                Some((IngestEvent::SourcePinned { compression: Compression::None, layout }, vec![]))
            }
            NextStep::Validate => {
                let rows = self.records.len() as u32;
                let failed = |rejected| IngestEvent::Failed {
                    fault: ListFault::InvalidRows,
                    detail: String::new(),
                    line: None,
                    report: None,
                    rejected,
                };
                let bad = self.records.iter().filter(|good| !**good).count() as u32;
                Some((if bad > 0 { failed(bad) } else { IngestEvent::Validated { rows } }, vec![]))
            }
            NextStep::Count => {
                let rows = self.records.iter().filter(|good| **good).count() as u32;
                Some((IngestEvent::Counted { records: self.records.len() as u32, rows }, vec![]))
            }
            NextStep::Read { from } => {
                let first = from.index as usize;
                let end = (first + self.chunk_rows).min(self.records.len());
                if first == end {
                    return Some((IngestEvent::TotalSet { total: state.accepted }, vec![]));
                }
                let rows: Vec<u32> = (first..end).filter(|i| self.records[*i]).map(|i| i as u32).collect();
                let rejected = (end - first - rows.len()) as u32;
                let next = Position { offset: end as u64 * 10, line: end as u64, index: end as u32 };
                let (chunk, count) = (state.chunks, rows.len() as u32);
                Some((
                    IngestEvent::ChunkCommitted {
                        chunk,
                        rows: count,
                        rejected,
                        next,
                        report: None,
                        inherited: Counts::default(),
                        unknown: UnknownCounts::default(),
                    },
                    rows,
                ))
            }
            NextStep::Latch => Some((IngestEvent::Latched, vec![])),
            NextStep::Cut { total } => Some((IngestEvent::Cut { total }, vec![])),
            NextStep::Nothing => None,
        }
    }

    /// Does what an ingester with a perhaps old view intends, broken off after some of the writes of the step, as a store
    /// without transactions would leave it.
    fn act(&mut self, seen: usize, writes: u8) {
        let view = IngestState::fold(&self.log[..seen]).expect("a prefix of a log is a log");
        let Some((event, rows)) = self.intent(&view) else { return };
        let entry = view.entry(event).expect("an ingester appends what fits");
        if writes >= 1 && !self.run.is_terminal() {
            // Put if absent: writing a row again changes nothing.
            self.rows.extend(&rows);
        }
        if writes >= 2 && entry.number() as usize == self.log.len() {
            self.append(entry);
        }
    }

    fn append(&mut self, entry: Entry) {
        match entry.effect() {
            Some(
                IngestStep::Progress { .. }
                | IngestStep::Expect { .. }
                | IngestStep::Latch
                | IngestStep::Fail { .. },
            ) if self.run.is_terminal() => return,
            Some(IngestStep::Expect { tasks }) => {
                self.expected = Some(Expected { tasks: *tasks, exact: true });
            }
            Some(IngestStep::Progress { total, .. }) => self.total = *total,
            Some(IngestStep::Latch) => self.done = true,
            Some(IngestStep::Cut { total }) => (self.total, self.done) = (*total, true),
            Some(IngestStep::Fail { .. }) => (self.run, self.done) = (RunStatus::Failed, true),
            None => {}
        }
        self.log.push(LoggedEvent { number: entry.number(), at: Timestamp(0), event: entry.event().clone() });
    }

    fn finish(&mut self) {
        for _ in 0..self.records.len() * 2 + 10 {
            self.act(self.log.len(), 2);
        }
    }
}

proptest! {
    /// Any prefix of the log, any replay of any step by any number of ingesters with any view of it, broken off anywhere:
    /// the same rows, the same total, the same end.
    #[test]
    fn any_replay_converges(
        records in prop::collection::vec(prop::bool::weighted(0.8), 0..60),
        chunk_rows in 1_usize..20,
        fail in any::<bool>(),
        steps in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..3), 0..120),
    ) {
        let on_invalid = if fail { OnInvalidRows::Fail } else { OnInvalidRows::Skip };
        let mut disturbed = World::new(records.clone(), chunk_rows, on_invalid);
        let mut straight = disturbed.clone();
        for (seen, writes) in steps {
            let seen = 1 + seen.index(disturbed.log.len());
            disturbed.act(seen, writes);
        }
        disturbed.finish();
        straight.finish();
        prop_assert_eq!(disturbed.state(), straight.state());
        prop_assert_eq!(&disturbed.rows, &straight.rows);
        prop_assert_eq!((disturbed.total, disturbed.done, disturbed.run), (straight.total, true, straight.run));
        let good = records.iter().filter(|good| **good).count() as u32;
        let refused = fail && good < records.len() as u32;
        prop_assert_eq!(straight.total, if refused { 0 } else { good });
        let known = (!refused).then_some(Expected { tasks: good, exact: true });
        prop_assert_eq!(straight.expected, known, "before the first chunk");
        prop_assert_eq!(straight.rows.len() as u32, if refused { 0 } else { good });
    }

    /// A run that ends at any moment is cut to what its log says was written.
    #[test]
    fn a_stop_at_any_moment_is_cut_to_the_rows_of_the_log(
        count in 0_usize..60,
        chunk_rows in 1_usize..20,
        before in 0_usize..30,
    ) {
        let mut world = World::new(vec![true; count], chunk_rows, OnInvalidRows::Skip);
        for _ in 0..before {
            world.act(world.log.len(), 2);
        }
        let was_done = world.done;
        world.run = RunStatus::Stopped;
        world.finish();
        let state = world.state();
        prop_assert!(world.done);
        prop_assert_eq!(world.total, state.accepted);
        prop_assert_eq!(state.phase, if was_done { Phase::Latched } else { Phase::Cut });
    }

    #[test]
    fn events_round_trip(rows: u32, rejected: u32, offset: u64, line: u64, index: u32) {
        let next = Position { offset, line, index };
        let events = [
            IngestEvent::Accepted { source: source(OnInvalidRows::Fail) },
            IngestEvent::ChunkCommitted { chunk: 1, rows, rejected, next, report: Some("r".into()), inherited: Counts::default(), unknown: UnknownCounts { named: [("x".to_owned(), rows)].into(), more: rejected } },
            IngestEvent::Failed { fault: ListFault::TooManyRows, detail: "d".into(), line: Some(line), report: None, rejected },
            IngestEvent::AttemptFailed { error: "e".into(), dead_lettered: true },
            IngestEvent::Resent,
        ];
        for event in events {
            let text = serde_json::to_string(&event).unwrap();
            prop_assert!(text.contains(event.name()));
            prop_assert_eq!(serde_json::from_str::<IngestEvent>(&text).unwrap(), event);
        }
    }
}

#[test]
fn a_log_that_no_ingest_wrote_is_refused() {
    let mut world = World::new(vec![true; 20], 5, OnInvalidRows::Skip);
    world.finish();
    assert!(IngestState::fold(&[]).is_err());
    for gone in 0..world.log.len() - 1 {
        let mut holed = world.log.clone();
        holed.remove(gone);
        assert!(IngestState::fold(&holed).is_err(), "without event {gone}");
    }
    let mut twice = world.log.clone();
    twice.push(LoggedEvent { number: twice.len() as u32, ..twice[2].clone() });
    assert!(IngestState::fold(&twice).is_err(), "a chunk after the end");
}

#[test]
fn only_a_list_that_nobody_has_counted_is_counted_before_its_first_chunk() {
    let mut world = World::new(vec![true; 8], 5, OnInvalidRows::Skip);
    world.act(1, 2);
    let opened = world.state();
    assert_eq!(opened.next_step(&world.run()), NextStep::Count);
    let read = NextStep::Read { from: Position::default() };
    world.expected = Some(Expected { tasks: 8, exact: true });
    assert_eq!(opened.next_step(&world.run()), read, "the submit knew");
    world.expected = Some(Expected { tasks: 3, exact: false });
    assert_eq!(opened.next_step(&world.run()), NextStep::Count);
    world.act(2, 2);
    assert_eq!(world.state().next_step(&world.run()), read);
    // As an earlier version left it: some of it is written, and nobody has counted.
    let uncounted: Vec<_> = world.log[..2].to_vec();
    let chunk = IngestEvent::ChunkCommitted {
        chunk: 0,
        rows: 5,
        rejected: 0,
        next: Position { offset: 50, line: 5, index: 5 },
        report: None,
        inherited: Counts::default(),
        unknown: Default::default(),
    };
    world.expected = None;
    let mut state = IngestState::fold(&uncounted).unwrap();
    state.apply(2, &chunk).unwrap();
    assert!(matches!(state.next_step(&world.run()), NextStep::Read { from } if from.index == 5));
    let late = IngestEvent::Counted { records: 8, rows: 8 };
    assert!(state.entry(late).is_err(), "not behind a chunk");
}

#[test]
fn tries_are_counted_until_there_is_progress() {
    let mut state = IngestState::accepted(source(OnInvalidRows::Skip));
    let failed = IngestEvent::AttemptFailed { error: "no disk".into(), dead_lettered: true };
    for n in 0..3 {
        state.apply(state.events, &failed).unwrap();
        assert_eq!((state.failures, state.progress), (n + 1, 1));
    }
    state.apply(state.events, &IngestEvent::Resent).unwrap();
    assert_eq!((state.resends, state.dead_lettered), (1, false));
    let opened = IngestEvent::SourcePinned { compression: Compression::Gzip, layout: Layout::Lines };
    state.apply(state.events, &opened).unwrap();
    assert_eq!((state.failures, state.resends, state.progress), (0, 0, state.events));
    assert_eq!(state.last_error.as_deref(), Some("no disk"), "it is still what last went wrong");
}

/// The bytes are counted before anybody knows whether the submit is strict.
#[test]
fn a_count_with_unknown_fields_says_nothing_to_a_submit_that_refuses_them() {
    let mut source = source(OnInvalidRows::Skip);
    let policy = ParamPolicy::ZenRows;
    source.param_policy = Some(policy);
    for (unknown, unknown_fields, known) in [
        (0, UnknownFields::Refuse, true),
        (1, UnknownFields::Ignore, true),
        (1, UnknownFields::Refuse, false),
    ] {
        let rows = RowCount { unknown, ..RowCount::checked(policy, 9, 8) };
        source.staged.count = Some(Box::new(ListCount::Rows(rows)));
        source.unknown_fields = unknown_fields;
        let expected = known.then_some(Expected { tasks: 8, exact: true });
        assert_eq!(source.expected(&Params::new()), expected, "{unknown} {unknown_fields:?}");
    }
}
