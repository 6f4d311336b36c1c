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
CREATE INDEX runs_by_update ON runs (updated_ms);
