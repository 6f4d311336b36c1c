//! The auditors of what repairs rely on and leave behind: counts, deleted runs, tombstones, letters.

use crate::damage::{found_after, found_in, found_with};
use conveyor_sim::{Faults, Rule};

#[tokio::test]
async fn a_failure_of_another_class_than_was_counted_is_found() {
    let rule = found_with(
        "CREATE TRIGGER misfiles AFTER UPDATE OF status ON tasks WHEN NEW.status = 3
         BEGIN UPDATE tasks SET class = (NEW.class + 1) % 7 WHERE task_key = NEW.task_key; END",
    );
    assert_eq!(rule.await, Rule::Proof);
}

#[tokio::test]
async fn a_failure_that_does_not_say_its_class_is_found() {
    let rule = found_with(
        "CREATE TRIGGER silent AFTER UPDATE OF status ON tasks WHEN NEW.status = 3
         BEGIN UPDATE tasks SET class = NULL WHERE task_key = NEW.task_key; END",
    );
    assert_eq!(rule.await, Rule::Proof);
}

#[tokio::test]
async fn a_run_that_nobody_deleted_is_found() {
    let sql = "UPDATE runs SET status = 'deleted' WHERE status = 'completed'";
    assert_eq!(found_after(sql).await, Rule::Lifecycle);
}

#[tokio::test]
async fn a_run_that_nobody_may_remove_is_found() {
    let sql = "UPDATE runs SET storage = 'removed' WHERE status = 'completed'";
    assert!(matches!(found_after(sql).await, Rule::Completion | Rule::Deletion));
}

#[tokio::test]
async fn a_deleted_run_that_never_goes_is_found() {
    let rule = found_with(
        "CREATE TRIGGER spared AFTER UPDATE OF storage ON runs WHEN NEW.storage = 'removed'
         BEGIN UPDATE runs SET storage = 'kept' WHERE run_key = NEW.run_key; END",
    );
    assert!(matches!(rule.await, Rule::Deletion | Rule::OnceEach | Rule::Durable));
}

#[tokio::test]
async fn a_run_whose_deletion_is_forgotten_is_found() {
    let rule = found_with(
        "CREATE TRIGGER undone AFTER UPDATE OF status ON runs WHEN NEW.status = 'deleted'
            AND EXISTS (SELECT 1 FROM jobs WHERE job_id = NEW.job_id AND status <> 'deleted')
         BEGIN UPDATE runs SET status = OLD.status WHERE run_key = NEW.run_key; END",
    );
    assert!(matches!(rule.await, Rule::Durable | Rule::Completion | Rule::Timeline));
}

#[tokio::test]
async fn a_job_that_is_gone_and_that_nobody_remembers_is_found() {
    let rule = found_with(
        "CREATE TRIGGER forgets AFTER INSERT ON tombstones
         BEGIN DELETE FROM tombstones WHERE job_id = NEW.job_id; END",
    );
    assert_eq!(rule.await, Rule::Deletion);
}

#[tokio::test]
async fn a_list_that_is_given_up_without_a_letter_is_found() {
    let rule = found_in(
        "CREATE TRIGGER swallow BEFORE INSERT ON dead_letters BEGIN SELECT RAISE(IGNORE); END",
        3_006..3_014,
        Faults { outage: 0.1, ..Faults::NONE },
    );
    assert_eq!(rule.await, Rule::Ingest);
}
