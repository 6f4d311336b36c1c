-- Layout 3: budgets of jobs and sites instead of grants, runs that can be paused. Runs on top of layout 2.

-- What was granted was granted to processes that are gone by now.
DROP TABLE grants;

-- The scope is "job:<job>" or "domain:<caller>:<name>": the sites of a caller are neighbours, in the order of their names.
CREATE TABLE budgets (
    scope   TEXT PRIMARY KEY,
    idle_ms INTEGER, -- from when on a new row would say the same; NULL: it has limits that a worker may not know of yet
    doc     TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX budgets_by_idle ON budgets (idle_ms) WHERE idle_ms IS NOT NULL;

ALTER TABLE runs ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;

-- updated_ms is when a change was decided; this is when it was written, as far as the store was told what time it is.
ALTER TABLE runs ADD COLUMN changed_ms INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET changed_ms = updated_ms;
CREATE INDEX runs_by_change ON runs (changed_ms);
