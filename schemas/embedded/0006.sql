-- Layout 6: failed tasks are found without looking at the others. Runs on top of layout 5.

-- Partial: a task that succeeds is never in it, and costs no write.
CREATE INDEX tasks_failed ON tasks (task_key) WHERE status = 3;
