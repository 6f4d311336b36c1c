-- Layout 5: records beside jobs and runs, runs that replay others, what was spent. Runs on top of layout 4.

-- Small documents: deliveries, exports, idempotency keys, signing keys, quotas. SPEC 5.7 says which there are.
CREATE TABLE records (
    kind       TEXT NOT NULL,
    owner      TEXT NOT NULL,
    id         TEXT NOT NULL,
    version    INTEGER NOT NULL, -- random, anew with every write
    due_ms     INTEGER, -- when somebody has to look at it
    expires_ms INTEGER, -- from when on it may be removed
    doc        TEXT NOT NULL,
    PRIMARY KEY (kind, owner, id)
) WITHOUT ROWID;
CREATE INDEX records_by_due ON records (kind, due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX records_by_expiry ON records (expires_ms) WHERE expires_ms IS NOT NULL;

-- JSON: what began the run, what it replays and with which parameters, what was inherited, why it is paused.
ALTER TABLE runs ADD COLUMN doc TEXT NOT NULL DEFAULT '{}';

-- JSON, of a row that was copied from another run: whose result it is, and when that ended.
ALTER TABLE tasks ADD COLUMN inherited TEXT;

-- What the gateway charged: of the last attempt, of earlier ones, and in sum.
ALTER TABLE tasks ADD COLUMN spend TEXT;
ALTER TABLE attempts ADD COLUMN spend TEXT;
ALTER TABLE counters ADD COLUMN credits INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counters ADD COLUMN cost_nanos INTEGER NOT NULL DEFAULT 0;
