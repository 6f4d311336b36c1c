//! Counters that were lost or changed: found by the rows, and made up for while work goes on (SPEC 6.14).

use crate::harness::{DAY, Damaged, success};
use conveyor_domain::repair::Kind;
use conveyor_domain::{FailureClass, QueueName, RunStatus, limits};
use conveyor_store::conformance::World;
use conveyor_store::port::RunKey;
use conveyor_sweeper::{Pace, Scope, Sweeper};
use tokio_util::sync::CancellationToken;

const OF_RUN: &str = "run_key = (SELECT run_key FROM runs WHERE run_id = ?1)";

/// A run of 5 tasks of which 3 are done.
async fn half_done(damaged: &Damaged) -> RunKey {
    let key = damaged.world.submit(false, 5).await;
    for index in 0..3 {
        damaged.world.finish(key, index, success()).await;
    }
    key
}

fn change(damaged: &Damaged, key: RunKey, by: i64) {
    let hit = damaged.sql(
        &format!("UPDATE counters SET successful = successful + ?2 WHERE {OF_RUN}"),
        rusqlite::params![key.run.to_bytes(), by],
    );
    assert_eq!(hit, 1);
}

fn lose(damaged: &Damaged, key: RunKey) {
    let hit = damaged.sql(&format!("DELETE FROM counters WHERE {OF_RUN}"), [key.run.to_bytes()]);
    assert_eq!(hit, 1);
}

async fn successful(damaged: &Damaged, key: RunKey) -> u32 {
    damaged.world.view(key).await.latest_run().stats.counts.successful
}

async fn finish_the_rest(damaged: &Damaged, key: RunKey) {
    for index in 3..5 {
        damaged.world.finish(key, index, success()).await;
    }
}

#[tokio::test]
async fn a_lost_counter_is_found_while_the_run_goes_on_and_its_worker_goes_on_counting() {
    let damaged = Damaged::new();
    let key = half_done(&damaged).await;
    lose(&damaged, key);
    damaged.world.finish(key, 3, success()).await;
    let finding = damaged.only_damage_of("wrong_counters", key).await;
    assert_eq!(finding.why, "of 5 tasks, the rows say 4 successful; the counters say 1 successful");
    assert_eq!(finding.remedy, "adds 3 successful to the counters");
    assert!(!damaged.audit(key).await.agrees());
    damaged.sweep().await;
    assert_eq!(successful(&damaged, key).await, 1, "a run that is young is not counted at every sweep");
    damaged.pass_for(limits::PROVE_EVERY);
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(successful(&damaged, key).await, 4);
    damaged.world.finish(key, 4, success()).await;
    assert_eq!(successful(&damaged, key).await, 5, "what came after is counted on top");
    assert!(damaged.audit(key).await.agrees());
}

#[tokio::test]
async fn a_run_that_is_done_and_lost_its_counter_ends_with_one_sweep() {
    for by in [None, Some(-3), Some(-4_000)] {
        let damaged = Damaged::new();
        let key = half_done(&damaged).await;
        finish_the_rest(&damaged, key).await;
        match by {
            None => lose(&damaged, key),
            Some(by) => change(&damaged, key, by),
        }
        damaged.lose_messages(QueueName::Run(key.run));
        assert!(successful(&damaged, key).await < 5, "a reader never sees less than nothing");
        damaged.only_damage_of("wrong_counters", key).await;
        damaged.is_mended_by_a_sweep().await;
        let view = damaged.world.view(key).await.latest_run().clone();
        assert_eq!((view.run.status, view.stats.counts.successful), (RunStatus::Completed, 5), "{by:?}");
    }
}

#[tokio::test]
async fn a_counter_that_says_too_much_is_found_at_once_and_ends_nothing_early() {
    for by in [2, 3, 7_000_000] {
        let damaged = Damaged::new();
        let key = half_done(&damaged).await;
        change(&damaged, key, by);
        damaged.only_damage_of("wrong_counters", key).await;
        damaged.is_mended_by_a_sweep().await;
        let view = damaged.world.view(key).await.latest_run().clone();
        assert_eq!((view.run.status, view.stats.counts.successful), (RunStatus::Running, 3), "{by}");
        finish_the_rest(&damaged, key).await;
        damaged.is_mended_by_a_sweep().await;
        assert_eq!(damaged.world.view(key).await.latest_run().run.status, RunStatus::Completed);
    }
}

/// Whoever looks often must not end what only the counters call done.
#[tokio::test]
async fn what_the_rows_deny_is_not_ended_before_the_counters_are_proved() {
    let damaged = Damaged::new();
    let key = half_done(&damaged).await;
    change(&damaged, key, 2);
    let (backend, clock) = (damaged.backend().clone(), damaged.clock.clone());
    let (sweeper, stop) = (Sweeper::new(backend, clock, damaged.world.worker), CancellationToken::new());
    sweeper.sweep(Pace::Often, &stop).await;
    assert_eq!(damaged.world.view(key).await.latest_run().run.status, RunStatus::Running);
    sweeper.sweep(Pace::Slowly, &stop).await;
    assert_eq!(successful(&damaged, key).await, 3);
}

#[tokio::test]
async fn failures_are_corrected_by_their_class() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 3).await;
    for (index, class) in [FailureClass::Blocked, FailureClass::Timeout].into_iter().enumerate() {
        let problem = conveyor_domain::Problem::new(503, "http_503", "The gateway answered 503");
        let failed = conveyor_domain::Outcome::Failed { class, problem };
        damaged.world.finish(key, u32::try_from(index).unwrap(), failed).await;
    }
    let moved = format!("UPDATE counters SET blocked = 0, other = 1 WHERE {OF_RUN}");
    assert_eq!(damaged.sql(&moved, [key.run.to_bytes()]), 1);
    let finding = damaged.only_damage_of("wrong_counters", key).await;
    assert_eq!(finding.remedy, "adds 1 failed (blocked), -1 failed (other) to the counters");
    damaged.pass_for(limits::PROVE_EVERY);
    damaged.is_mended_by_a_sweep().await;
    let counts = damaged.world.view(key).await.latest_run().stats.counts;
    assert_eq!(counts.failed, [0, 1, 0, 0, 1, 0, 0]);
}

#[tokio::test]
async fn a_run_that_ended_is_proved_before_its_queue_goes() {
    let damaged = Damaged::new();
    let key = half_done(&damaged).await;
    let stop = conveyor_domain::Command::Stop;
    damaged.backend().store.apply(key.job, stop, damaged.world.now()).await.unwrap();
    lose(&damaged, key);
    damaged.only_damage_of("wrong_counters", key).await;
    damaged.is_mended_by_a_sweep().await;
    assert_eq!((successful(&damaged, key).await, damaged.depth(QueueName::Run(key.run)).await), (3, 0));
    assert!(damaged.audit(key).await.agrees());
}

/// The same process proved it while it ran, minutes before it ended.
#[tokio::test]
async fn a_proof_of_a_run_that_went_on_is_none_of_one_that_ended() {
    let damaged = Damaged::new();
    let key = half_done(&damaged).await;
    let (backend, clock) = (damaged.backend().clone(), damaged.clock.clone());
    let (sweeper, stop) = (Sweeper::new(backend, clock, damaged.world.worker), CancellationToken::new());
    damaged.pass_for(limits::PROVE_EVERY);
    sweeper.sweep(Pace::Slowly, &stop).await;
    let end = conveyor_domain::Command::Stop;
    damaged.backend().store.apply(key.job, end, damaged.world.now()).await.unwrap();
    lose(&damaged, key);
    sweeper.sweep(Pace::Slowly, &stop).await;
    assert_eq!(successful(&damaged, key).await, 3);
}

#[tokio::test]
async fn nothing_is_corrected_by_rows_of_which_some_may_be_gone() {
    let damaged = Damaged::new();
    let key = half_done(&damaged).await;
    let stop = conveyor_domain::Command::Stop;
    damaged.backend().store.apply(key.job, stop, damaged.world.now()).await.unwrap();
    damaged.pass(29 * DAY);
    change(&damaged, key, 4_000);
    assert_eq!(damaged.damage().await, []);
    let audit = damaged.audit(key).await;
    assert_eq!((audit.rows, audit.results, audit.agrees()), (None, None, true));
    damaged.sweep().await;
    assert_eq!(successful(&damaged, key).await, 4_003);
}

#[tokio::test]
async fn counters_are_left_alone_where_rows_were_lost() {
    let damaged = Damaged::new();
    let key = half_done(&damaged).await;
    let hit = damaged
        .sql("DELETE FROM tasks WHERE task_key = (SELECT min(task_key) FROM tasks WHERE status = 2)", []);
    assert_eq!(hit, 1);
    let findings = damaged.findings().await;
    let finding = findings.iter().find(|finding| finding.repair == "wrong_counters").unwrap();
    assert!(!finding.fixable && finding.remedy.contains("conveyor rebuild"), "{finding:?}");
    assert_eq!(finding.why, "of 5 tasks only 4 rows are there; the others were lost");
    damaged.reconcile(Scope::All, false).await;
    damaged.pass_for(limits::PROVE_EVERY);
    damaged.sweep().await;
    assert_eq!(successful(&damaged, key).await, 3, "it was right");
    assert!(!damaged.audit(key).await.agrees());
}

#[tokio::test]
async fn an_audit_says_what_cannot_be_read_and_the_rest_all_the_same() {
    for (column, value) in [("status", "9"), ("result", "'{'")] {
        let damaged = Damaged::new();
        let (key, other) = (half_done(&damaged).await, half_done(&damaged).await);
        let first = "(SELECT min(task_key) FROM tasks
            WHERE task_key >> 32 = (SELECT run_key FROM runs WHERE run_id = ?1))";
        let hit = damaged.sql(
            &format!("UPDATE tasks SET {column} = {value} WHERE task_key = {first}"),
            [key.run.to_bytes()],
        );
        assert_eq!(hit, 1);
        let audit = damaged.audit(key).await;
        let named = format!("task {} is damaged: its {column} cannot be read", World::task(key, 0));
        assert_eq!(audit.disagreements[0], named, "{audit:?}");
        assert_eq!(audit.stats.counts.successful, 3);
        // And nobody else's counters have to wait for it.
        change(&damaged, other, 7);
        damaged.pass_for(limits::PROVE_EVERY);
        damaged.sweep().await;
        assert_eq!(successful(&damaged, other).await, 3, "{column}");
    }
}

#[tokio::test]
async fn an_old_run_of_a_job_is_proved_for_whoever_asks() {
    let damaged = Damaged::new();
    let key = half_done(&damaged).await;
    finish_the_rest(&damaged, key).await;
    damaged.is_mended_by_a_sweep().await;
    lose(&damaged, key);
    assert_eq!(damaged.damage().await, [], "its queue is gone, and nobody looks at it by itself");
    let seen = damaged.reconcile(Scope::Job(key.job), true).await;
    assert_eq!(seen.findings.iter().map(|(finding, _)| finding.kind).collect::<Vec<_>>(), [Kind::Damage]);
    damaged.reconcile(Scope::Job(key.job), false).await;
    assert_eq!(successful(&damaged, key).await, 5);
}

#[tokio::test]
async fn an_audit_names_tasks_that_nobody_will_work_on() {
    let damaged = Damaged::new();
    let key = half_done(&damaged).await;
    change(&damaged, key, 2);
    let drained = conveyor_domain::Command::Drained;
    damaged.backend().store.apply(key.job, drained, damaged.world.now()).await.unwrap();
    damaged.is_mended_by_a_sweep().await;
    let audit = damaged.audit(key).await;
    assert_eq!(audit.stats.counts.successful, 3, "the counters are right again");
    let [said] = &audit.disagreements[..] else { panic!("{:?}", audit.disagreements) };
    assert!(
        said.starts_with("the run is completed, and 2 of its tasks are not: nobody will work on them. "),
        "{said}"
    );
    for remedy in ["rerun {job} --status pending,processing", "rebuild {job} --run {run}"] {
        let remedy = remedy.replace("{job}", &key.job.to_string()).replace("{run}", &key.run.to_string());
        assert!(said.contains(&remedy), "no {remedy} in {said}");
    }
}

#[tokio::test]
async fn an_audit_counts_rows_lists_and_objects() {
    let damaged = Damaged::new();
    let key = half_done(&damaged).await;
    damaged.world.finish(key, 3, conveyor_store::conformance::success()).await;
    let audit = damaged.audit(key).await;
    let (rows, results) = (audit.rows.unwrap(), audit.results.unwrap());
    assert_eq!((rows.pending, rows.settled.successful, rows.all()), (1, 4, 5));
    assert_eq!((results.present, results.missing), (3, 1));
    assert_eq!(audit.disagreements, ["1 results name objects that are not there"]);
    let object = "jobs/x/results/1".parse().unwrap();
    damaged.backend().blobs.put(&object, "0123456789".into()).await.unwrap();
    assert!(damaged.audit(key).await.agrees());
    let index = i64::from(World::task(key, 4).index());
    let task =
        "DELETE FROM tasks WHERE task_key = (SELECT run_key FROM runs WHERE run_id = ?1) * 4294967296 + ?2";
    assert_eq!(damaged.sql(task, rusqlite::params![key.run.to_bytes(), index]), 1);
    assert_eq!(
        damaged.audit(key).await.disagreements,
        ["there are 4 rows (0 pending, 0 processing, 4 successful, 0 failed), and the total is 5"]
    );
}
