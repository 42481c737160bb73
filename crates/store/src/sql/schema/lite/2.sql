-- Instances that can be cleared, removed and found by what they are called; agents that were stopped; turns by their
-- end; feedback.

-- An id is never given out again, which SQLite only promises for a table made so.
CREATE TABLE workflow_2 (
  id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, name TEXT NOT NULL, tag TEXT NOT NULL,
  live_run INTEGER, last_run INTEGER,
  last_seq INTEGER NOT NULL DEFAULT 0, last_event INTEGER NOT NULL DEFAULT 0,
  cleared INTEGER NOT NULL DEFAULT 0,      -- up to here the channel is not shown
  UNIQUE (project, name, tag)
) STRICT;
INSERT INTO workflow_2 (id, project, name, tag, live_run, last_run, last_seq, last_event)
  SELECT id, project, name, tag, live_run, last_run, last_seq, last_event FROM workflow;
DROP TABLE workflow;
ALTER TABLE workflow_2 RENAME TO workflow;
CREATE INDEX workflow_name ON workflow (name, tag);
CREATE INDEX workflow_tag ON workflow (tag);
CREATE INDEX workflow_live ON workflow (id) WHERE live_run IS NOT NULL;

CREATE INDEX agent_name ON agent (name);
CREATE INDEX agent_stopped ON agent (workflow, run) WHERE stopped IS NOT NULL;

-- Ended ok or failed: counts toward the limit.
ALTER TABLE attempt ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
UPDATE attempt SET turn = 1 WHERE json_extract(how, '$.end') IN ('ok', 'failed');
CREATE INDEX attempt_turn ON attempt (workflow, run, ended) WHERE turn = 1;

CREATE TABLE feedback (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, sender TEXT NOT NULL, place TEXT, body TEXT NOT NULL
) STRICT;
