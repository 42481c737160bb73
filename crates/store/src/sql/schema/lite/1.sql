-- Every key starts with the instance (workflow), so the data can be sharded by it.
-- delivery.state: 0 pending, 1 leased, 2 dead, 3 acted, 4 dropped. Open ones are <= 2.
-- Agents' names compare without regard to ASCII case wherever they are a key.

CREATE TABLE workflow (
  id INTEGER PRIMARY KEY, project TEXT NOT NULL, name TEXT NOT NULL, tag TEXT NOT NULL,
  live_run INTEGER, last_run INTEGER,
  last_seq INTEGER NOT NULL DEFAULT 0, last_event INTEGER NOT NULL DEFAULT 0,
  UNIQUE (project, name, tag)
) STRICT;

-- One run is live at a time, so a run's messages are one stretch of the instance's order:
-- after_seq < seq <= last_seq (while it lives: the instance's last_seq).
CREATE TABLE run (
  workflow INTEGER NOT NULL, id INTEGER NOT NULL, uuid BLOB NOT NULL UNIQUE,
  mode TEXT NOT NULL, state TEXT NOT NULL,
  detail TEXT,                             -- of paused: the cause as JSON; of ended: the outcome
  error TEXT, limits TEXT NOT NULL, keep TEXT NOT NULL,
  forgotten INTEGER NOT NULL DEFAULT 0,    -- its rows were deleted on purpose
  started INTEGER NOT NULL, ended INTEGER,
  after_seq INTEGER NOT NULL, last_seq INTEGER,
  turns INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0, cost_micros INTEGER,
  script TEXT NOT NULL, PRIMARY KEY (workflow, id)
) STRICT;
CREATE INDEX run_newest ON run (started);
CREATE INDEX run_live ON run (started) WHERE ended IS NULL;

CREATE TABLE agent (
  workflow INTEGER NOT NULL, name TEXT NOT NULL COLLATE NOCASE,
  run INTEGER NOT NULL,                    -- the last run it took part in
  place INTEGER NOT NULL,                  -- its place in the file
  settings TEXT NOT NULL,
  epoch INTEGER NOT NULL DEFAULT 0,        -- never goes back, whatever run it is in
  live BLOB, live_since INTEGER,           -- its attempt, while one lives
  stopped TEXT, not_before INTEGER, wait TEXT, why TEXT,
  turns INTEGER NOT NULL DEFAULT 0, messages INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0, cost_micros INTEGER,
  PRIMARY KEY (workflow, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE message (
  workflow INTEGER NOT NULL, seq INTEGER NOT NULL, run INTEGER NOT NULL, sender TEXT NOT NULL,
  kind TEXT NOT NULL, body TEXT NOT NULL, data TEXT, reply_to INTEGER, hops INTEGER NOT NULL,
  priority INTEGER NOT NULL, resource BLOB, ts INTEGER NOT NULL, row_hash BLOB NOT NULL,
  PRIMARY KEY (workflow, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_reply ON message (workflow, reply_to, seq) WHERE reply_to IS NOT NULL;

CREATE TABLE delivery (
  workflow INTEGER NOT NULL, seq INTEGER NOT NULL, agent TEXT NOT NULL COLLATE NOCASE,
  run INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0,
  wakes INTEGER NOT NULL, alone INTEGER NOT NULL, prio INTEGER NOT NULL,
  epoch INTEGER,                           -- the attempt that has it, or acted on it
  joined INTEGER NOT NULL DEFAULT 0,       -- leased during the turn: not what the attempt was woken for
  shown INTEGER,                           -- the last attempt that read it in its inbox
  first_epoch INTEGER,                     -- the first attempt it was shown to, either way
  failures INTEGER NOT NULL DEFAULT 0, uncounted INTEGER NOT NULL DEFAULT 0, why TEXT,
  PRIMARY KEY (workflow, seq, agent)
) STRICT, WITHOUT ROWID;
-- Without these an inbox and a run's facts walk everything that was ever sent. SQLite uses a partial index only for a
-- query that repeats its condition word for word (`state = 0 AND state <= 2`). Say INDEXED BY, and forgetting it is an error.
CREATE INDEX delivery_open ON delivery (workflow, state, agent, wakes DESC, prio DESC, seq) WHERE state <= 2;
CREATE INDEX delivery_shown ON delivery (workflow, agent) WHERE state <= 2 AND first_epoch IS NOT NULL;
CREATE INDEX delivery_failed ON delivery (workflow, run, state) WHERE state IN (2, 4);

CREATE TABLE attempt (
  workflow INTEGER NOT NULL, agent TEXT NOT NULL COLLATE NOCASE, epoch INTEGER NOT NULL,
  id BLOB NOT NULL UNIQUE, run INTEGER NOT NULL, oldest INTEGER NOT NULL,
  number INTEGER NOT NULL, setbacks INTEGER NOT NULL,
  shown TEXT NOT NULL,                     -- [[seq, hops], …]
  last_no INTEGER NOT NULL DEFAULT 0, finished TEXT, token_hash BLOB NOT NULL,
  started INTEGER NOT NULL, ended INTEGER, how TEXT, answer INTEGER,
  input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0, cost_micros INTEGER,
  PRIMARY KEY (workflow, agent, epoch)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX attempt_live ON attempt (token_hash) WHERE ended IS NULL;

CREATE TABLE effect (
  workflow INTEGER NOT NULL,
  scope TEXT NOT NULL,                     -- an agent's name in lower case, else the sender
  oldest INTEGER NOT NULL,                 -- of an agent: its activation; else 0
  key TEXT NOT NULL, args BLOB NOT NULL, tool TEXT NOT NULL, result TEXT NOT NULL,
  epoch INTEGER, run INTEGER,
  position INTEGER NOT NULL,               -- of the event it wrote: the order of the journal
  at INTEGER NOT NULL, PRIMARY KEY (workflow, scope, oldest, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX effect_expiring ON effect (at) WHERE epoch IS NULL;

CREATE TABLE document (
  workflow INTEGER NOT NULL, path TEXT NOT NULL, revision INTEGER NOT NULL, run INTEGER,
  author TEXT NOT NULL, epoch INTEGER, bytes INTEGER NOT NULL, at INTEGER NOT NULL,
  content TEXT NOT NULL, PRIMARY KEY (workflow, path, revision)
) STRICT;

CREATE TABLE resource (
  workflow INTEGER NOT NULL, sha256 BLOB NOT NULL, run INTEGER, kind TEXT NOT NULL,
  bytes INTEGER NOT NULL, at INTEGER NOT NULL,
  content BLOB,                            -- none: it is a file
  PRIMARY KEY (workflow, sha256)
) STRICT;

-- One per operation, naming rows; their text is joined when it is read, never copied.
CREATE TABLE event (
  workflow INTEGER NOT NULL, position INTEGER NOT NULL, run INTEGER, kind TEXT NOT NULL,
  agent TEXT, attempt BLOB, seq INTEGER, cause TEXT, whose TEXT, next INTEGER, data TEXT,
  at INTEGER NOT NULL, PRIMARY KEY (workflow, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_run ON event (workflow, run, position);

CREATE TABLE token (
  name TEXT NOT NULL PRIMARY KEY, hash BLOB NOT NULL UNIQUE, created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
