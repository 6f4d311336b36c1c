-- Layout 4: what repairs, audits and retention need. Runs on top of layout 3.

ALTER TABLE tasks ADD COLUMN class INTEGER; -- of a failed one, its place among the failure classes; NULL in older rows

ALTER TABLE runs ADD COLUMN sources TEXT NOT NULL DEFAULT '[]'; -- JSON: runs whose results some of its tasks point to
ALTER TABLE runs ADD COLUMN storage TEXT NOT NULL DEFAULT 'kept'; -- kept, expired, removed
CREATE INDEX runs_deleted ON runs (run_key) WHERE status = 'deleted' AND storage <> 'removed';
CREATE INDEX runs_ended_kept ON runs (updated_ms)
    WHERE storage = 'kept' AND status IN ('completed', 'stopped', 'failed');

-- Moves with every correction. Corrections are one row of a run, that of the worker whose id is all zeros.
ALTER TABLE counters ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;

-- Jobs that were deleted and removed. No job of that id can be made while it is here.
CREATE TABLE tombstones (
    job_id  BLOB PRIMARY KEY,
    runs    TEXT NOT NULL, -- JSON: the ids of its runs
    gone_ms INTEGER NOT NULL,
    looks   INTEGER NOT NULL,
    due_ms  INTEGER NOT NULL -- when it is to be looked at next
) WITHOUT ROWID;
CREATE INDEX tombstones_by_due ON tombstones (due_ms);

-- Control messages that were given up.
CREATE TABLE dead_letters (
    letter_id BLOB PRIMARY KEY,
    body      TEXT NOT NULL,
    first_ms  INTEGER NOT NULL,
    last_ms   INTEGER NOT NULL,
    redrives  INTEGER NOT NULL
) WITHOUT ROWID;
