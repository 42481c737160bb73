-- The wall limit counts the time in which a run can work, in store time.
ALTER TABLE run ADD COLUMN counted_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN counting_since INTEGER;             -- NULL: no time counts now
ALTER TABLE run ADD COLUMN store_since INTEGER NOT NULL DEFAULT 0; -- when the state last changed

-- Earlier versions counted from the start of the run. A paused run keeps the time up to its pause.
UPDATE run SET store_since = store_started + max(0, since - started);
UPDATE run SET counting_since = store_started WHERE state IN ('setup', 'electing', 'running');
UPDATE run SET counted_ms = store_since - store_started WHERE state NOT IN ('setup', 'electing', 'running');
