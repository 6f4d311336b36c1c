//! Auditors that cannot fail prove nothing: each kind of damage done to a simulation's data is found.

use crate::damage::{damaged, found_after, found_with, open, underway};
use conveyor_sim::Rule;

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
    let sql = r#"UPDATE budgets SET doc = json_set(doc, '$.holders.01ARZ3NDEKTSV4RRFFQ69G5FAV',
        json('{"permits":11,"expires":9000000000000}'))"#;
    assert_eq!(found_after(sql).await, Rule::Limits);
}

#[tokio::test]
async fn a_cap_that_nobody_asked_for_is_found() {
    let sql =
        "UPDATE budgets SET doc = json_set(doc, '$.limits.max_inflight', 99) WHERE doc LIKE '%permits%'";
    assert_eq!(found_after(sql).await, Rule::Limits);
}

#[tokio::test]
async fn a_budget_that_forgets_a_change_is_found() {
    let sql = "UPDATE budgets SET doc = json_set(doc, '$.limits.revision', 0)
        WHERE json_extract(doc, '$.limits.revision') > 0";
    assert_eq!(found_after(sql).await, Rule::Limits);
}

#[tokio::test]
async fn a_store_that_forgets_who_holds_permits_is_found() {
    let rule = found_with(
        "CREATE TRIGGER forgets AFTER INSERT ON budgets
         BEGIN UPDATE budgets SET doc = json_set(NEW.doc, '$.holders', json('{}')) WHERE scope = NEW.scope; END",
    );
    assert_eq!(rule.await, Rule::Limits);
}

#[tokio::test]
async fn a_store_that_forgets_what_was_taken_of_a_rate_is_found() {
    let rule = found_with(
        "CREATE TRIGGER refills AFTER INSERT ON budgets
         BEGIN UPDATE budgets SET doc = json_set(NEW.doc, '$.bucket', 0) WHERE scope = NEW.scope; END",
    );
    assert_eq!(rule.await, Rule::Limits);
}

#[tokio::test]
async fn a_store_that_forgets_a_hold_is_found() {
    let rule = found_with(
        "CREATE TRIGGER lets_go AFTER INSERT ON budgets WHEN NEW.doc LIKE '%held_until%'
         BEGIN UPDATE budgets SET doc = json_remove(NEW.doc, '$.held_until') WHERE scope = NEW.scope; END",
    );
    assert_eq!(rule.await, Rule::Limits);
}

#[tokio::test]
async fn limits_that_nobody_gave_a_job_are_found() {
    let sql = "UPDATE jobs SET doc = json_set(doc, '$.max_inflight', 99)";
    assert_eq!(found_after(sql).await, Rule::Durable);
}

#[tokio::test]
async fn a_run_that_nobody_paused_is_found() {
    let sql = "UPDATE runs SET paused = 1 WHERE paused = 0 AND status = 'running'";
    assert_eq!(found_after(sql).await, Rule::Durable);
}

#[tokio::test]
async fn a_run_that_nobody_resumed_is_found() {
    let sql = "UPDATE runs SET paused = 0 WHERE paused = 1 AND status = 'running'";
    assert_eq!(found_after(sql).await, Rule::Durable);
}

#[tokio::test]
async fn a_change_that_no_worker_hears_of_is_found() {
    // As if a change of a run went by when the run was made.
    let rule = found_with(
        "CREATE TRIGGER unheard AFTER UPDATE OF paused ON runs WHEN NEW.paused <> OLD.paused
         BEGIN UPDATE runs SET changed_ms = OLD.created_ms WHERE run_key = NEW.run_key; END",
    );
    assert!(matches!(rule.await, Rule::Reads | Rule::Lifecycle));
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

#[tokio::test]
async fn a_row_beyond_what_was_read_is_found() {
    let sql = r#"INSERT INTO tasks (task_key, status, attempts, claims, not_before_ms, created_ms, updated_ms, input)
        SELECT run_key << 32 | next_index, 0, 0, 0, 0, created_ms, created_ms, '{"u":"https://example.com/x"}'
        FROM runs WHERE ingest IS NOT NULL AND status <> 'deleted'"#;
    assert_eq!(found_after(sql).await, Rule::Durable);
}

#[tokio::test]
async fn a_row_of_a_rejected_record_is_found() {
    let sql = r#"INSERT INTO tasks (task_key, status, attempts, claims, not_before_ms, created_ms, updated_ms, input)
        SELECT task_key + 1, 0, 0, 0, 0, t.created_ms, t.created_ms, '{"u":"https://example.com/x"}'
        FROM tasks t JOIN runs ON run_key = task_key >> 32
        WHERE runs.status <> 'deleted' AND (task_key + 1) & 0xffffffff < next_index
          AND task_key + 1 NOT IN (SELECT task_key FROM tasks)"#;
    assert_eq!(found_after(sql).await, Rule::Durable);
}

#[tokio::test]
async fn a_row_that_is_not_its_record_is_found() {
    let sql = "UPDATE tasks SET input = replace(input, '/list/', '/other/') WHERE input LIKE '%/list/%'";
    assert_eq!(found_after(sql).await, Rule::Durable);
}

#[tokio::test]
async fn a_total_that_is_not_that_of_the_log_is_found() {
    let sql = "UPDATE runs SET total = total + 1 WHERE ingest IS NOT NULL AND status <> 'deleted'";
    assert_eq!(found_after(sql).await, Rule::Durable);
}

#[tokio::test]
async fn a_latch_before_the_list_is_read_is_found() {
    let sql = "UPDATE runs SET latched = 1 WHERE ingest = 'pending' AND status = 'running'";
    assert_eq!(found_after(sql).await, Rule::Completion);
}

#[tokio::test]
async fn a_run_that_completes_before_its_list_is_read_is_found() {
    let sql =
        "UPDATE runs SET status = 'completed', latched = 1 WHERE ingest = 'pending' AND status = 'running'";
    assert_eq!(found_after(sql).await, Rule::Completion);
}

#[tokio::test]
async fn a_list_that_is_called_read_and_is_not_is_found() {
    let sql = "UPDATE runs SET ingest = 'done' WHERE ingest = 'pending' AND status = 'running'";
    assert!(matches!(found_after(sql).await, Rule::Ingest | Rule::Lifecycle | Rule::Completion));
}

#[tokio::test]
async fn a_list_that_is_read_and_is_called_pending_is_found() {
    let sql = "UPDATE runs SET ingest = 'pending', latched = 0, status = 'running' WHERE ingest = 'done'";
    assert!(matches!(found_after(sql).await, Rule::Lifecycle | Rule::Completion));
}

#[tokio::test]
async fn a_gap_in_the_log_of_an_ingest_is_found() {
    let sql = "DELETE FROM events WHERE ingest_number = 1
        AND job_id IN (SELECT job_id FROM jobs WHERE status <> 'deleted')
        AND run_id IN (SELECT run_id FROM events WHERE ingest_number = 2)";
    assert_eq!(found_after(sql).await, Rule::Ingest);
}

#[tokio::test]
async fn a_log_that_was_cut_short_is_found() {
    let sql = "DELETE FROM events WHERE ingest_number > 1
        AND job_id IN (SELECT job_id FROM jobs WHERE status <> 'deleted')";
    assert_eq!(found_after(sql).await, Rule::Durable);
}

#[tokio::test]
async fn a_lost_log_is_found() {
    let sql = "DELETE FROM events WHERE ingest_number IS NOT NULL
        AND job_id IN (SELECT job_id FROM jobs WHERE status <> 'deleted')";
    assert_eq!(found_after(sql).await, Rule::Ingest);
}

#[tokio::test]
async fn a_gap_in_a_timeline_is_found() {
    let sql =
        "DELETE FROM events WHERE number = 1 AND job_id IN (SELECT job_id FROM events WHERE number = 2)";
    assert_eq!(found_after(sql).await, Rule::Timeline);
}

#[tokio::test]
async fn a_timeline_that_was_written_over_is_found() {
    let sql = "UPDATE events SET at_ms = at_ms + 1 WHERE ingest_number IS NULL";
    assert_eq!(found_after(sql).await, Rule::Durable);
}

#[tokio::test]
async fn an_event_that_did_not_happen_is_found() {
    let sql = r#"INSERT INTO events (job_id, number, run_id, at_ms, doc)
        SELECT job_id, max(number) + 1, run_id, at_ms, '{"event":"run_stopped"}' FROM events GROUP BY job_id"#;
    assert_eq!(found_after(sql).await, Rule::Timeline);
}

#[tokio::test]
async fn a_lost_upload_is_found() {
    assert_eq!(found_after("DELETE FROM uploads WHERE doomed = 0").await, Rule::Uploads);
}

#[tokio::test]
async fn an_upload_whose_claim_is_forgotten_is_found() {
    assert_eq!(found_after("UPDATE uploads SET claimed = 0 WHERE claimed = 1").await, Rule::Uploads);
}

#[tokio::test]
async fn an_upload_with_other_bytes_is_found() {
    let sql = "UPDATE uploads SET doc = json_set(doc, '$.staged.etag', '00') WHERE doc LIKE '%etag%'";
    assert_eq!(found_after(sql).await, Rule::Uploads);
}

#[tokio::test]
async fn the_lost_bytes_of_a_list_are_found() {
    // Changes nothing: it finds a seed with a list that is being read.
    let reading = "UPDATE runs SET ingest = ingest WHERE ingest = 'pending' AND status = 'running'";
    let (_, mut simulation) = damaged(reading).await;
    std::fs::remove_dir_all(simulation.data_dir().join("blobs/uploads")).unwrap();
    let failure = simulation.audit().await.expect_err("the damage was not found");
    assert_eq!(failure.violation.rule, Rule::Source);
}

#[tokio::test]
async fn a_lost_report_of_rejected_rows_is_found() {
    let reported = "UPDATE events SET doc = doc WHERE doc LIKE '%/rejected/%'
        AND job_id IN (SELECT job_id FROM jobs WHERE status <> 'deleted')";
    let (_, mut simulation) = damaged(reported).await;
    for job in std::fs::read_dir(simulation.data_dir().join("blobs/jobs")).unwrap() {
        for run in std::fs::read_dir(job.unwrap().path().join("runs")).unwrap() {
            let _ = std::fs::remove_dir_all(run.unwrap().path().join("rejected"));
        }
    }
    let failure = simulation.drain().await.expect_err("the damage was not found");
    assert_eq!(failure.violation.rule, Rule::Ingest);
    assert!(failure.violation.text.contains("report"), "{failure}");
}

#[tokio::test]
async fn a_list_to_which_nobody_is_called_is_found() {
    let rule = found_with(
        "CREATE TRIGGER swallow BEFORE INSERT ON messages WHEN NEW.body LIKE '1:ingest:%'
         BEGIN SELECT RAISE(IGNORE); END",
    );
    assert!(matches!(rule.await, Rule::Queues | Rule::Completion));
}

#[tokio::test]
async fn a_store_that_logs_other_rows_than_it_writes_is_found() {
    let rule = found_with(
        "CREATE TRIGGER lies AFTER INSERT ON events WHEN NEW.doc LIKE '%chunk_committed%'
         BEGIN UPDATE events SET doc = json_set(doc, '$.rows', json_extract(doc, '$.rows') + 1,
            '$.next.index', json_extract(doc, '$.next.index') + 1)
         WHERE job_id = NEW.job_id AND number = NEW.number; END",
    );
    assert!(matches!(rule.await, Rule::Source | Rule::OnceEach | Rule::Ingest));
}

#[tokio::test]
async fn a_store_that_ends_a_list_early_is_found() {
    // As if there were never more than one chunk.
    let rule = found_with(
        "CREATE TRIGGER early BEFORE INSERT ON tasks WHEN (NEW.task_key & 0xffffffff) > 12 AND NEW.input LIKE '%/list/%'
         BEGIN SELECT RAISE(IGNORE); END",
    );
    assert!(matches!(rule.await, Rule::Durable));
}

#[tokio::test]
async fn a_list_that_is_cut_to_more_than_was_written_is_found() {
    let rule = found_with(
        "CREATE TRIGGER miscounts AFTER UPDATE OF ingest ON runs WHEN NEW.ingest = 'done' AND OLD.status = 'stopped'
         BEGIN UPDATE runs SET total = total + 1 WHERE run_key = NEW.run_key; END",
    );
    assert!(matches!(rule.await, Rule::Durable | Rule::Completion | Rule::OnceEach));
}

#[tokio::test]
async fn uploads_that_never_go_are_found() {
    let rule = found_with(
        "CREATE TRIGGER spared AFTER UPDATE OF doomed ON uploads WHEN NEW.doomed = 1
         BEGIN UPDATE uploads SET doomed = 0 WHERE upload_id = NEW.upload_id; END",
    );
    assert_eq!(rule.await, Rule::Uploads);
}
