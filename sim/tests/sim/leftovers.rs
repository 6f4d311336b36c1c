//! What was deleted leaves nothing behind in the database, not even what no port shows.

use conveyor_sim::{Settings, Simulation};
use rusqlite::Connection;

/// Rows that belong to nothing. Budgets are not among them: what a worker that died held lapses, and goes when another is written.
const ORPHANS: [(&str, &str); 9] = [
    ("task rows", "SELECT count(*) FROM tasks WHERE task_key >> 32 NOT IN (SELECT run_key FROM runs)"),
    ("attempts", "SELECT count(*) FROM attempts WHERE task_key NOT IN (SELECT task_key FROM tasks)"),
    ("counters", "SELECT count(*) FROM counters WHERE run_key NOT IN (SELECT run_key FROM runs)"),
    ("messages", "SELECT count(*) FROM messages WHERE queue_key NOT IN (SELECT queue_key FROM queues)"),
    ("runs", "SELECT count(*) FROM runs WHERE job_id NOT IN (SELECT job_id FROM jobs)"),
    ("events", "SELECT count(*) FROM events WHERE job_id NOT IN (SELECT job_id FROM jobs)"),
    ("claims", "SELECT count(*) FROM upload_claims WHERE job_id NOT IN (SELECT job_id FROM jobs)"),
    ("parts", "SELECT count(*) FROM upload_parts WHERE upload_id NOT IN (SELECT upload_id FROM uploads)"),
    // A live run has one queue once it has had a task, and one that ended has none after a sweep.
    (
        "queues",
        "SELECT abs((SELECT count(*) FROM queues WHERE name LIKE 'run-%')
                  - (SELECT count(*) FROM runs WHERE queue_removed = 0 AND total > 0))",
    ),
];

#[tokio::test]
async fn deleted_jobs_leave_nothing_behind() {
    let mut deleted = 0;
    for seed in 30..34 {
        let mut simulation = Simulation::new(seed, Settings::new(300)).unwrap();
        simulation.run().await.unwrap_or_else(|failure| panic!("{failure}"));
        let database = Connection::open(simulation.data_dir().join("conveyor.db")).unwrap();
        for (what, count) in ORPHANS {
            let found: i64 = database.query_row(count, [], |row| row.get(0)).unwrap();
            assert_eq!(found, 0, "seed {seed}: {what}");
        }
        deleted += simulation.world.model.jobs.iter().filter(|job| job.is_deleted()).count();
    }
    assert!(deleted > 5, "{deleted} jobs were deleted");
}
