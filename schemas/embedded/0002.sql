-- Layout 2: staged lists, the log of their ingest, and the timeline of each job. Runs on top of layout 1.

ALTER TABLE runs ADD COLUMN ingest TEXT; -- NULL: written on the request; pending, done
CREATE INDEX runs_ingesting ON runs (run_key) WHERE ingest = 'pending';

-- A message that stands for the refs of this many tasks with neighbouring indexes: one row for a whole chunk, until
-- somebody receives them. NULL: an ordinary message. The body of a span is "<run that seeds the ids>:<first index>".
ALTER TABLE messages ADD COLUMN span INTEGER;

-- The timeline of a job. Entries with an ingest_number are the log of their run's ingest, and that number is what two
-- ingesters compete for.
CREATE TABLE events (
    job_id        BLOB NOT NULL,
    number        INTEGER NOT NULL,
    run_id        BLOB NOT NULL,
    ingest_number INTEGER,
    at_ms         INTEGER NOT NULL,
    doc           TEXT NOT NULL,
    PRIMARY KEY (job_id, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX ingest_log ON events (run_id, ingest_number) WHERE ingest_number IS NOT NULL;

CREATE TABLE uploads (
    upload_id  BLOB PRIMARY KEY,
    caller_id  BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    claimed    INTEGER NOT NULL DEFAULT 0, -- upload_claims has a row for it
    doomed     INTEGER NOT NULL DEFAULT 0, -- to be removed: its objects first, then this row
    doc        TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX uploads_by_caller ON uploads (caller_id, upload_id);
CREATE INDEX uploads_unused ON uploads (caller_id, expires_ms) WHERE claimed = 0 AND doomed = 0;
CREATE INDEX uploads_by_expiry ON uploads (expires_ms) WHERE doomed = 0 AND claimed = 0;
CREATE INDEX uploads_doomed ON uploads (upload_id) WHERE doomed = 1;

CREATE TABLE upload_parts (
    upload_id BLOB NOT NULL,
    number    INTEGER NOT NULL,
    doc       TEXT NOT NULL,
    PRIMARY KEY (upload_id, number)
) WITHOUT ROWID;

-- Jobs that an upload was submitted to. While there is one, its bytes stay.
CREATE TABLE upload_claims (
    upload_id BLOB NOT NULL,
    job_id    BLOB NOT NULL,
    PRIMARY KEY (upload_id, job_id)
) WITHOUT ROWID;
CREATE INDEX upload_claims_by_job ON upload_claims (job_id);
