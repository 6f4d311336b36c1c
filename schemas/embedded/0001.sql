-- Layout 1 of the embedded store. The program runs this file as it is; SPEC 5.1 says what the columns are for.
-- Ids are the 16 bytes of a ULID; times are milliseconds since 1970 UTC.

CREATE TABLE api_keys (
    hash       BLOB PRIMARY KEY,
    caller_id  BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    revoked_ms INTEGER
) WITHOUT ROWID;

CREATE TABLE jobs (
    job_id         BLOB PRIMARY KEY,
    caller_id      BLOB NOT NULL,
    status         TEXT NOT NULL, -- open, closed, deleted
    latest_run_key INTEGER NOT NULL,
    created_ms     INTEGER NOT NULL,
    updated_ms     INTEGER NOT NULL,
    doc            TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX jobs_by_caller ON jobs (caller_id, job_id);
CREATE INDEX jobs_deleted ON jobs (job_id) WHERE status = 'deleted';

-- AUTOINCREMENT: a key is never given out twice, so a row left behind by a removed run can never be taken for another's.
CREATE TABLE runs (
    run_key        INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id         BLOB NOT NULL UNIQUE,
    job_id         BLOB NOT NULL,
    sequence       INTEGER NOT NULL,
    status         TEXT NOT NULL, -- running, pending, completed, stopped, failed, deleted
    total          INTEGER NOT NULL,
    next_index     INTEGER NOT NULL,
    latched        INTEGER NOT NULL,
    id_seed        BLOB NOT NULL,
    failure        TEXT,
    queue_removed  INTEGER NOT NULL DEFAULT 0,
    created_ms     INTEGER NOT NULL,
    updated_ms     INTEGER NOT NULL,
    UNIQUE (job_id, sequence)
);
CREATE INDEX runs_active ON runs (run_key) WHERE status = 'running';
CREATE INDEX runs_ended_with_queue ON runs (run_key)
    WHERE queue_removed = 0 AND status IN ('completed', 'stopped', 'failed', 'deleted');

CREATE TABLE counters (
    run_key      INTEGER NOT NULL,
    worker       BLOB NOT NULL,
    successful   INTEGER NOT NULL,
    auth_failed  INTEGER NOT NULL,
    blocked      INTEGER NOT NULL,
    bad_target   INTEGER NOT NULL,
    rate_limited INTEGER NOT NULL,
    timeout      INTEGER NOT NULL,
    gateway_error INTEGER NOT NULL,
    other        INTEGER NOT NULL,
    PRIMARY KEY (run_key, worker)
) WITHOUT ROWID;

-- task_key = run_key << 32 | index: one integer, clustered by run in input order.
CREATE TABLE tasks (
    task_key      INTEGER PRIMARY KEY,
    status        INTEGER NOT NULL, -- 0 pending, 1 processing, 2 successful, 3 failed
    attempts      INTEGER NOT NULL, -- that reached an end
    claims        INTEGER NOT NULL, -- that reached none, since the last that did
    claim_token   INTEGER,
    not_before_ms INTEGER NOT NULL,
    started_ms    INTEGER,
    created_ms    INTEGER NOT NULL,
    updated_ms    INTEGER NOT NULL,
    input         TEXT NOT NULL,
    result        TEXT,
    error         TEXT
);

CREATE TABLE attempts (
    task_key   INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms   INTEGER NOT NULL,
    error      TEXT,
    PRIMARY KEY (task_key, attempt)
) WITHOUT ROWID;

CREATE TABLE queues (
    queue_key INTEGER PRIMARY KEY AUTOINCREMENT,
    name      TEXT NOT NULL UNIQUE,
    next_seq  INTEGER NOT NULL
);

-- The place in the tree is the receipt: receiving moves a row, and an older receipt names a row that is not there.
CREATE TABLE messages (
    queue_key  INTEGER NOT NULL,
    visible_ms INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    receives   INTEGER NOT NULL,
    body       TEXT NOT NULL,
    PRIMARY KEY (queue_key, visible_ms, seq)
) WITHOUT ROWID;

-- One row that is written to find out whether writing works.
CREATE TABLE probe (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    writes INTEGER NOT NULL
);
INSERT INTO probe VALUES (1, 0);

CREATE TABLE grants (
    job_id BLOB PRIMARY KEY,
    doc    TEXT NOT NULL
) WITHOUT ROWID;
