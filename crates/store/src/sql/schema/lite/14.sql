-- Store time (time.rs): the clock of deadlines. Columns named `store_…` and `due` are in store time, as are
-- `agent.not_before`, `effect.at` and the pulse; all others are in wall-clock time. A store's clock starts at the wall-clock
-- time, so values that earlier versions wrote are valid in both.

-- What the store's clock continues from: one row, saved with each batch of writes.
CREATE TABLE clock (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  boot TEXT,                               -- the machine's boot id; none: unknown
  boottime INTEGER NOT NULL,               -- CLOCK_BOOTTIME
  store_time INTEGER NOT NULL, wall INTEGER NOT NULL
) STRICT;

ALTER TABLE run ADD COLUMN store_started INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN store_ended INTEGER;
UPDATE run SET store_started = started, store_ended = ended;

ALTER TABLE agent ADD COLUMN store_since INTEGER NOT NULL DEFAULT 0;
UPDATE agent SET store_since = since;

ALTER TABLE attempt ADD COLUMN store_started INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN store_ended INTEGER;
ALTER TABLE attempt ADD COLUMN store_retry INTEGER; -- when its provider can be asked again
UPDATE attempt SET store_started = started, store_ended = ended;
UPDATE attempt SET store_retry = CAST(round(unixepoch(json_extract(finished, '$.retry_at'), 'subsec') * 1000) AS INTEGER)
  WHERE ended IS NULL AND finished IS NOT NULL;
DROP INDEX attempt_turn;
CREATE INDEX attempt_turn ON attempt (workflow, run, store_ended) WHERE turn = 1;

-- `deadline` is what was announced.
ALTER TABLE proposal ADD COLUMN due INTEGER NOT NULL DEFAULT 0;
UPDATE proposal SET due = deadline;
DROP INDEX proposal_active;
CREATE INDEX proposal_active ON proposal (workflow, due) WHERE active = 1;
