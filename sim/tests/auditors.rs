//! Auditors that cannot fail prove nothing: each kind of damage done to a simulation's data is found.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

use conveyor_sim::{Faults, Rule, Settings, Simulation};
use rusqlite::Connection;

const SEEDS: std::ops::Range<u64> = 3..12;
const STEPS: u64 = 250;

/// A simulation in the middle of its work, with jobs in most states and nothing wrong so far.
async fn underway(seed: u64) -> Simulation {
    let mut simulation = Simulation::new(seed, Settings::new(0)).unwrap();
    simulation.steps(STEPS).await.unwrap_or_else(|failure| panic!("{failure}"));
    simulation.audit().await.unwrap_or_else(|failure| panic!("{failure}"));
    simulation
}

fn open(simulation: &Simulation) -> Connection {
    Connection::open(simulation.data_dir().join("conveyor.db")).unwrap()
}

/// A simulation that has something for this statement to damage, damaged.
async fn damaged(sql: &str) -> (u64, Simulation) {
    for seed in SEEDS {
        let simulation = underway(seed).await;
        if open(&simulation).execute(sql, []).unwrap() > 0 {
            return (seed, simulation);
        }
    }
    panic!("there was nothing to damage: {sql}");
}

/// Does the damage and returns which rule the next audit finds broken.
async fn found_after(sql: &str) -> Rule {
    let (seed, mut simulation) = damaged(sql).await;
    let failure = simulation.audit().await.expect_err("the damage was not found");
    let text = failure.to_string();
    let (where_, again) = (format!("seed {seed}, step {STEPS}:"), format!("sim replay --seed {seed} "));
    assert!(text.contains(&where_) && text.contains(&again), "{text}");
    failure.violation.rule
}

#[tokio::test]
async fn a_task_counted_twice_is_found() {
    assert_eq!(
        found_after("UPDATE counters SET successful = successful + 1 WHERE successful > 0").await,
        Rule::OnceEach
    );
}

#[tokio::test]
async fn a_task_counted_as_what_it_is_not_is_found() {
    let sql = "UPDATE counters SET successful = successful - 1, other = other + 1 WHERE successful > 0";
    assert_eq!(found_after(sql).await, Rule::OnceEach);
}

#[tokio::test]
async fn a_lost_counter_is_found() {
    assert!(matches!(found_after("DELETE FROM counters").await, Rule::Durable | Rule::OnceEach));
}

#[tokio::test]
async fn a_settled_row_that_was_reset_is_found() {
    let sql = "UPDATE tasks SET status = 0, result = NULL, error = NULL WHERE status IN (2, 3)";
    assert!(matches!(found_after(sql).await, Rule::Durable | Rule::Replay));
}

#[tokio::test]
async fn a_settled_row_that_was_written_again_is_found() {
    assert_eq!(
        found_after("UPDATE tasks SET updated_ms = updated_ms + 1 WHERE status = 2").await,
        Rule::Replay
    );
}

#[tokio::test]
async fn a_lost_row_is_found() {
    let sql = "DELETE FROM tasks WHERE task_key = (SELECT max(task_key) FROM tasks)";
    assert_eq!(found_after(sql).await, Rule::Durable);
}

#[tokio::test]
async fn a_lost_job_is_found() {
    assert_eq!(found_after("DELETE FROM jobs WHERE status <> 'deleted'").await, Rule::Durable);
}

#[tokio::test]
async fn a_lost_run_is_found() {
    assert_eq!(found_after("DELETE FROM runs").await, Rule::Store);
}

#[tokio::test]
async fn a_lost_addition_is_found() {
    let sql = "UPDATE runs SET total = total - 1, next_index = next_index - 1 WHERE total > 0";
    assert_eq!(found_after(sql).await, Rule::Durable);
}

#[tokio::test]
async fn a_run_that_completes_early_is_found() {
    let sql = "UPDATE runs SET status = 'completed' WHERE status = 'running'";
    assert_eq!(found_after(sql).await, Rule::Completion);
}

#[tokio::test]
async fn a_run_that_ends_twice_is_found() {
    let sql = "UPDATE runs SET updated_ms = updated_ms + 1 WHERE status = 'completed'";
    assert_eq!(found_after(sql).await, Rule::Completion);
}

#[tokio::test]
async fn more_permits_than_the_cap_are_found() {
    let sql = r#"INSERT OR REPLACE INTO grants SELECT job_id,
        '{"version":9,"holders":{"01ARZ3NDEKTSV4RRFFQ69G5FAV":{"permits":11,"expires":9000000000000}}}' FROM jobs"#;
    assert_eq!(found_after(sql).await, Rule::Limits);
}

#[tokio::test]
async fn a_run_that_cannot_end_is_found() {
    let (_, mut simulation) = damaged("DELETE FROM messages").await;
    // Nor can the sweeper send them again.
    let swallow = "CREATE TRIGGER swallow BEFORE INSERT ON messages BEGIN SELECT RAISE(IGNORE); END";
    open(&simulation).execute_batch(swallow).unwrap();
    let failure = simulation.drain().await.expect_err("the damage was not found");
    assert!(matches!(failure.violation.rule, Rule::Queues | Rule::Completion), "{failure}");
}

#[tokio::test]
async fn a_lost_body_is_found() {
    let of_an_object = "UPDATE tasks SET result = json_set(result, '$.object', 'jobs/elsewhere') WHERE result LIKE '%jobs/%'";
    let (_, mut simulation) = damaged(of_an_object).await;
    // The rows were changed to find a seed with objects; that alone is found at once.
    simulation.audit().await.expect_err("the damage was not found");

    let mut simulation = underway(simulation.seed()).await;
    std::fs::remove_dir_all(simulation.data_dir().join("blobs/jobs")).unwrap();
    let failure = simulation.drain().await.expect_err("the damage was not found");
    assert_eq!(failure.violation.rule, Rule::Durable);
    assert!(failure.violation.text.contains("body"), "{failure}");
}

/// Plays seeds on a store with a defect until it shows.
async fn found_with(defect: &str) -> Rule {
    let faults = Faults { duplicate: 0.2, ..Faults::default() };
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed, Settings { faults, ..Settings::new(0) }).unwrap();
        open(&simulation).execute_batch(defect).unwrap();
        let played = match simulation.steps(STEPS).await {
            Ok(()) => simulation.drain().await,
            failed => failed,
        };
        if let Err(failure) = played {
            return failure.violation.rule;
        }
    }
    panic!("the defect was not found: {defect}");
}

#[tokio::test]
async fn a_store_that_writes_rows_again_is_found() {
    // Put, but not "if absent".
    let rule = found_with(
        "CREATE TRIGGER replaces BEFORE INSERT ON tasks WHEN EXISTS (SELECT 1 FROM tasks WHERE task_key = NEW.task_key)
         BEGIN UPDATE tasks SET input = NEW.input, status = 0, result = NULL, error = NULL WHERE task_key = NEW.task_key; END",
    );
    assert!(matches!(rule.await, Rule::Replay | Rule::Durable));
}

#[tokio::test]
async fn a_store_that_counts_and_does_not_settle_is_found() {
    let rule = found_with(
        "CREATE TRIGGER unsettled AFTER UPDATE OF status ON tasks WHEN NEW.status = 2
         BEGIN UPDATE tasks SET status = 0, result = NULL WHERE task_key = NEW.task_key; END",
    );
    assert!(matches!(rule.await, Rule::OnceEach | Rule::Durable));
}

#[tokio::test]
async fn a_store_that_forgets_the_latch_is_found() {
    let rule = found_with(
        "CREATE TRIGGER unlatched AFTER UPDATE OF latched ON runs WHEN NEW.latched = 1 AND OLD.latched = 0
         BEGIN UPDATE runs SET latched = 0 WHERE run_key = NEW.run_key; END",
    );
    assert!(matches!(rule.await, Rule::Completion | Rule::Lifecycle | Rule::Durable));
}
