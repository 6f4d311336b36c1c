//! A rerun of a run whose list was not read to its end (SPEC 6.19): it reads the whole list, or says why it cannot.

use crate::ingest::{chunk, cut, pinned};
use crate::world::{KEY, World, config};
use conveyor_api::ApiConfig;
use conveyor_domain::{
    AccountFault, Command, Format, IngestEvent, IngestState, ListFault, NewRun, NewTasks, Origin, Params,
    Replay, RunId, Selection, Trigger,
};
use conveyor_store::port::{Reader, RunKey, StartRun};
use serde_json::json;

impl World {
    /// A run of 10,000 rows that is stopped when 30 of them are tasks.
    async fn cut(&self) -> RunKey {
        let key = self.accepted().await;
        self.ingest(key, &[pinned(), chunk(0, 30, 0, 30, None)]).await;
        self.apply(key.job, Command::Stop).await;
        self.ingest(key, &[cut(30)]).await;
        key
    }

    async fn again(&self, key: RunKey, query: &str) -> crate::world::Answer {
        self.act(&format!("/v1/jobs/{}/rerun{query}", key.job)).await
    }

    async fn log(&self, key: RunKey) -> IngestState {
        IngestState::fold(&self.backend.store.ingest(key, Reader::Role).await.unwrap().unwrap().log).unwrap()
    }

    /// What a rerun of a run with [`ROWS`] rows is made of; all of them are in it.
    async fn origin_of_the_next(&self, key: RunKey) -> &'static str {
        let answer = self.again(key, "").await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let body = answer.json();
        assert_eq!((&body["retried_tasks"], &body["total_is_final"]), (&json!(ROWS), &json!(true)));
        let (first, next) = (self.log(key).await.origin, self.log(answer.run_key()).await.origin);
        match next {
            Origin::Run(replay) if replay.run == key.run => "replay",
            next if next == first => "whole list",
            other => panic!("{other:?}"),
        }
    }

    /// A rerun has to read the same bytes as the run that was cut.
    async fn reads_the_list_of(&self, key: RunKey) -> RunKey {
        let answer = self.again(key, "").await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let body = answer.json();
        assert_eq!((&body["rerun_of"], &body["total_is_final"]), (&json!(key.run), &json!(true)));
        assert_eq!(body["retried_tasks"], 10_000);
        let next = answer.run_key();
        let (first, second) = (self.log(key).await.origin, self.log(next).await.origin);
        assert!(matches!(first, Origin::List(_)));
        assert_eq!(first, second);
        next
    }
}

fn failed(fault: ListFault) -> IngestEvent {
    IngestEvent::Failed { fault, detail: "why".to_owned(), line: None, report: None, rejected: 0 }
}

#[tokio::test]
async fn a_rerun_reads_the_whole_list() {
    let world = World::new().await;
    let key = world.cut().await;
    for filter in ["?status=pending", "?domain=a.example"] {
        let detail = world.again(key, filter).await.refused(409, "list_not_read");
        assert!(detail.contains("30 rows of it were read, 30 of them became tasks"), "{detail}");
    }
    let second = world.reads_the_list_of(key).await;
    // The second is cut as well, before its first chunk.
    world.apply(key.job, Command::Stop).await;
    world.again(key, "").await.refused(409, "run_not_terminal");
    world.ingest(second, &[cut(0)]).await;
    let third = world.reads_the_list_of(second).await;
    world.ingest(third, &[pinned(), chunk(0, 40, 0, 40, None), IngestEvent::TotalSet { total: 40 }]).await;
    // Stopped behind the end of the list: its rows are all there.
    world.apply(key.job, Command::Stop).await;
    world.ingest(third, &[cut(40)]).await;
    let fourth = world.again(key, "?status=pending").await;
    assert_eq!((fourth.status.as_u16(), &fourth.json()["retried_tasks"]), (201, &json!(40)));
    assert_eq!(fourth.json()["total_is_final"], true);
}

#[tokio::test]
async fn an_ingest_that_failed_is_tried_with_the_same_list() {
    let world = World::new().await;
    let key = world.accepted().await;
    world.ingest(key, &[pinned(), chunk(0, 5, 0, 5, None), failed(ListFault::IngestFailed)]).await;
    world.reads_the_list_of(key).await;
    for fault in [ListFault::QuotaExceeded, ListFault::TooManyRows, ListFault::ExpandedTooLarge] {
        // Of the account or of the deployment, which may have more room by now: its ingest judges again.
        let key = world.accepted().await;
        world.ingest(key, &[pinned(), chunk(0, 5, 0, 5, None), failed(fault)]).await;
        world.reads_the_list_of(key).await;
    }
    let key = world.accepted().await;
    world.ingest(key, &[pinned(), chunk(0, 5, 0, 5, None), failed(ListFault::SourceCorrupt)]).await;
    // Nobody is sent to a full rerun, which would be refused too.
    for filter in ["", "?status=pending"] {
        let detail = world.again(key, filter).await.refused(409, "list_not_read");
        assert!(detail.contains("source_corrupt") && !detail.contains("without a filter"), "{detail}");
    }
}

#[tokio::test]
async fn a_run_that_its_account_ended_reads_the_whole_list_again() {
    let world = World::new().await;
    let key = world.accepted().await;
    world.ingest(key, &[pinned(), chunk(0, 30, 0, 30, None)]).await;
    let (run, reason) = (key.run, AccountFault::InsufficientCredits);
    world.apply(key.job, Command::FailRun { run, reason, detail: "no credits".to_owned() }).await;
    world.again(key, "").await.refused(409, "run_not_terminal");
    world.ingest(key, &[cut(30)]).await;
    world.reads_the_list_of(key).await;
}

#[tokio::test]
async fn a_run_that_was_cut_is_not_run_again_past_its_time() {
    let world = World::new().await;
    let key = world.cut().await;
    world.pass_days(31);
    world.again(key, "").await.refused(410, "result_expired");
}

/// Few tasks are too many to be written on the request.
async fn world_that_replays() -> World {
    World::with(ApiConfig { inline_tasks_max: 3, ..config() }).await
}

#[tokio::test]
async fn a_replay_that_was_cut_replays_the_same_run_again() {
    let world = world_that_replays().await;
    let first = world.accepted().await;
    let read = [pinned(), chunk(0, 4, 0, 4, None), IngestEvent::TotalSet { total: 4 }, IngestEvent::Latched];
    world.ingest(first, &read).await;
    for index in 0..4 {
        world.fail(first, index).await;
    }
    world.apply(first.job, Command::Drained).await;
    let replays_the_first = async || {
        let answer = world.again(first, "").await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let body = answer.json();
        assert_eq!((&body["rerun_of"], &body["retried_tasks"]), (&json!(first.run), &json!(4)));
        assert_eq!(body["total_is_final"], true);
        let key = answer.run_key();
        assert!(matches!(world.log(key).await.origin, Origin::Run(replay) if replay.run == first.run));
        key
    };
    let second = replays_the_first().await;
    world.ingest(second, &[chunk(0, 2, 0, 2, None)]).await;
    world.apply(first.job, Command::Stop).await;
    world.ingest(second, &[cut(2)]).await;
    let detail = world.again(first, "?status=pending").await.refused(409, "list_not_read");
    assert!(detail.contains("Delete this run") && !detail.contains("reads all of it"), "{detail}");
    let third = replays_the_first().await;
    // No list is at fault that somebody sent: what it replays is there, so it is tried again.
    world.ingest(third, &[failed(ListFault::SourceChanged)]).await;
    let fourth = replays_the_first().await;
    world.apply(first.job, Command::Stop).await;
    world.ingest(fourth, &[cut(0)]).await;
    let path = format!("/v1/jobs/{}/runs/{}", first.job, first.run);
    assert_eq!(world.call("DELETE", &path, Some(KEY), None).await.status, 202);
    let detail = world.again(first, "").await.refused(409, "list_not_read");
    assert!(detail.contains("no longer kept"), "{detail}");
}

#[tokio::test]
async fn a_replay_of_a_run_that_was_cut_leads_back_to_its_list() {
    let world = World::new().await;
    let first = world.cut().await;
    let replay = Replay { run: first.run, selection: Selection::default() };
    let run = NewRun {
        id: RunId::new(world.now(), &world.entropy),
        after: first.run,
        trigger: Trigger::Manual,
        fire: None,
        rerun_of: Some(first.run),
        overrides: Params::new(),
        sources: Vec::new(),
        tasks: NewTasks::Ingested { expected: None },
    };
    let second = RunKey { job: first.job, run: run.id };
    let log = Some(IngestEvent::Replaying { replay });
    let start = StartRun { job: first.job, run, tasks: Vec::new(), log, once: None };
    world.backend.store.start_run(start, world.now()).await.unwrap();
    world.apply(first.job, Command::Stop).await;
    world.ingest(second, &[cut(0)]).await;
    let answer = world.again(first, "").await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let body = answer.json();
    assert_eq!((&body["rerun_of"], &body["retried_tasks"]), (&json!(second.run), &json!(10_000)));
    assert_eq!(world.log(answer.run_key()).await.origin, world.log(first).await.origin);
}

#[tokio::test]
async fn a_list_that_is_gone_is_not_replaced_by_its_first_rows() {
    let world = World::new().await;
    let key = world.cut().await;
    let Origin::List(source) = world.log(key).await.origin else { panic!("a list") };
    world.backend.blobs.delete(&source.staged.object.parse().unwrap()).await.unwrap();
    world.again(key, "").await.refused(409, "list_not_read");
}

/// Whatever a run was cut in, one that is deleted gives way to the run before it.
#[tokio::test]
async fn a_deleted_rerun_gives_way_to_the_run_that_was_cut() {
    let world = World::new().await;
    let key = world.cut().await;
    let second = world.reads_the_list_of(key).await;
    let path = format!("/v1/jobs/{}/runs/{}", second.job, second.run);
    assert_eq!(world.call("DELETE", &path, Some(KEY), None).await.status, 202);
    world.reads_the_list_of(key).await;
    let path = format!("/v1/jobs/{}", key.job);
    assert_eq!(world.call("DELETE", &path, Some(KEY), None).await.status, 202);
    world.again(key, "").await.refused(404, "not_found");
}

/// The rows that its runs are made of are there, though no caller sees them.
#[tokio::test]
async fn a_run_of_a_schedule_that_was_stopped_before_it_was_read_is_run_again() {
    let world = World::new().await;
    let (schedule, tasks) =
        (json!({"rate": {"every": 1, "unit": "hour"}}), json!([{"url": "https://a.example/"}]));
    let submitted =
        world.post("/v1/jobs", json!({"type": "scheduled", "schedule": schedule, "tasks": tasks})).await;
    let job = submitted.json()["job_id"].as_str().unwrap().to_owned();
    world.pass_ms(3_600_000);
    assert_eq!(world.operate("POST", "reconcile", Some(json!({"job_id": job}))).await.status, 200);
    let latest = world.get(&format!("/v1/jobs/{job}")).await.json()["latest_run"]["run_id"].clone();
    let key = RunKey { job: job.parse().unwrap(), run: latest.as_str().unwrap().parse().unwrap() };
    world.apply(key.job, Command::Stop).await;
    world.ingest(key, &[cut(0)]).await;
    world.again(key, "?status=pending").await.refused(409, "list_not_read");
    let answer = world.again(key, "").await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let body = answer.json();
    assert_eq!((&body["rerun_of"], &body["total_is_final"]), (&json!(key.run), &json!(true)));
    assert_eq!((&body["retried_tasks"], &body["latest_run"]["stats"]["total"]), (&json!(1), &json!(1)));
    let (first, second) = (world.log(key).await.origin, world.log(answer.run_key()).await.origin);
    assert!(matches!(first, Origin::Run(_)));
    assert_eq!(first, second);
}

/// What was done before a partial rerun that was cut is not done again: that rerun can be deleted.
#[tokio::test]
async fn a_partial_rerun_that_was_cut_can_be_deleted_and_asked_for_again() {
    let world = world_that_replays().await;
    let first = world.accepted_with(4).await;
    let read = [pinned(), chunk(0, 4, 0, 4, None), IngestEvent::TotalSet { total: 4 }, IngestEvent::Latched];
    world.ingest(first, &read).await;
    world.succeed(first, 0, Format::Html, b"kept").await;
    for index in 1..4 {
        world.fail(first, index).await;
    }
    world.apply(first.job, Command::Drained).await;
    let cut_one = world.again(first, "?status=failed").await.run_key();
    world.apply(first.job, Command::Stop).await;
    world.ingest(cut_one, &[cut(0)]).await;
    let detail = world.again(first, "?status=failed").await.refused(409, "list_not_read");
    assert!(detail.contains("Delete this run, and rerun the one before it with the filter"), "{detail}");
    assert_eq!(world.delete_run(cut_one).await.status, 202);
    let body = world.again(first, "?status=failed").await.json();
    assert_eq!((&body["retried_tasks"], &body["inherited_tasks"]), (&json!(3), &json!(1)), "{body}");
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_not_taken_for_the_end_of_its_list() {
    let world = World::new().await;
    let database = rusqlite::Connection::open(world.files().with_file_name("conveyor.db")).unwrap();
    let damages = [
        "UPDATE events SET doc = '{}' WHERE run_id = ?1 AND ingest_number = 1",
        "DELETE FROM events WHERE run_id = ?1 AND ingest_number = 1",
    ];
    for damage in damages {
        let key = world.cut().await;
        assert_eq!(database.execute(damage, [key.run.to_bytes()]).unwrap(), 1);
        for filter in ["", "?status=pending"] {
            let detail = world.again(key, filter).await.refused(409, "list_not_read");
            assert!(detail.contains(&format!("the ingest of run {} cannot be read (", key.run)), "{detail}");
        }
    }
}

/// How far the list of a run is when the run ends.
const MOMENTS: [&str; 6] = ["accepted", "pinned", "counted", "chunk", "total_set", "latched"];
const ROWS: u32 = 40;

/// The log of each, behind `accepted`.
fn log_until(moment: &str) -> Vec<IngestEvent> {
    let log = [
        ("pinned", vec![pinned()]),
        ("counted", vec![IngestEvent::Counted { records: ROWS, rows: ROWS }]),
        ("chunk", vec![chunk(0, 30, 0, 30, None)]),
        ("total_set", vec![chunk(1, ROWS - 30, 0, ROWS, None), IngestEvent::TotalSet { total: ROWS }]),
        ("latched", vec![IngestEvent::Latched]),
    ];
    let steps = MOMENTS.iter().position(|name| *name == moment).unwrap();
    log.into_iter().take(steps).flat_map(|(_, events)| events).collect()
}

/// The table of SPEC 6.19.
#[tokio::test]
async fn whatever_ends_a_run_at_any_moment_of_its_ingest_no_row_is_missing_from_the_next() {
    let world = World::with(ApiConfig { inline_tasks_max: 3, ..config() }).await;
    let begun = async |moment: &str| {
        let key = world.accepted_with(ROWS).await;
        world.ingest(key, &log_until(moment)).await;
        key
    };
    // The ingester finds that the run has ended, unless it was done before.
    let ended = async |moment: &str, command: Command| {
        let key = begun(moment).await;
        let command = match command {
            Command::FailRun { reason, detail, .. } => Command::FailRun { run: key.run, reason, detail },
            command => command,
        };
        world.apply(key.job, command).await;
        let log = world.log(key).await;
        if !log.phase.is_over() {
            world.again(key, "").await.refused(409, "run_not_terminal");
            world.ingest(key, &[cut(log.accepted)]).await;
        }
        key
    };
    let mut past_their_time = Vec::new();
    for moment in MOMENTS {
        let expected =
            if log_until(moment).len() < log_until("total_set").len() { "whole list" } else { "replay" };
        let fail = Command::FailRun {
            run: RunId::from_bytes([0; 16]),
            reason: AccountFault::InsufficientCredits,
            detail: "no credits".to_owned(),
        };
        for command in [Command::Stop, fail] {
            let what = format!("{command:?} at {moment}");
            assert_eq!(world.origin_of_the_next(ended(moment, command).await).await, expected, "{what}");
        }
        let failed = failed(ListFault::IngestFailed);
        if moment == "latched" {
            let log = world.log(begun(moment).await).await;
            assert!(log.entry(failed).is_err(), "an ingest that is done cannot fail");
        } else {
            let key = begun(moment).await;
            world.ingest(key, &[failed]).await;
            assert_eq!(world.origin_of_the_next(key).await, expected, "ingest_failed at {moment}");
        }
        let key = begun(moment).await;
        assert_eq!(world.delete_run(key).await.status, 202);
        world.again(key, "").await.refused(409, "no_prior_run");
        past_their_time.push(ended(moment, Command::Stop).await);
    }
    world.pass_days(31);
    for key in past_their_time {
        world.again(key, "").await.refused(410, "result_expired");
    }
}
