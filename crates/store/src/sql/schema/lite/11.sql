-- What agents ask a person for before they do it.

ALTER TABLE workflow ADD COLUMN last_approval INTEGER NOT NULL DEFAULT 0;

CREATE TABLE approval (
  workflow INTEGER NOT NULL, id INTEGER NOT NULL, run INTEGER NOT NULL,
  agent TEXT NOT NULL COLLATE NOCASE, oldest INTEGER NOT NULL, -- its activation
  tool TEXT NOT NULL, args TEXT NOT NULL, hash BLOB NOT NULL,  -- what exactly
  epoch INTEGER NOT NULL, call TEXT NOT NULL,                  -- the attempt that asked last, and in which call
  holds INTEGER NOT NULL,                  -- its run waits for a person because of it
  asked INTEGER NOT NULL,
  answer TEXT, reason TEXT, whose TEXT, answered INTEGER,
  used INTEGER,                            -- when the attempt was told the answer; nobody else ever is
  PRIMARY KEY (workflow, id)
) STRICT;
CREATE UNIQUE INDEX approval_call ON approval (workflow, agent, epoch, call);
CREATE INDEX approval_unused ON approval (workflow, agent, oldest) WHERE used IS NULL;
