-- The calls that a person allows one agent for the rest of a run.

ALTER TABLE workflow ADD COLUMN last_grant INTEGER NOT NULL DEFAULT 0;

CREATE TABLE permission_grant (
  workflow INTEGER NOT NULL, id INTEGER NOT NULL, run INTEGER NOT NULL,
  agent TEXT NOT NULL COLLATE NOCASE,
  pattern TEXT NOT NULL,
  approval INTEGER NOT NULL,               -- the request whose answer made it
  whose TEXT NOT NULL, granted INTEGER NOT NULL,
  revoked INTEGER,
  checksum BLOB NOT NULL,
  PRIMARY KEY (workflow, id)
) STRICT;
CREATE INDEX permission_grant_run ON permission_grant (workflow, run) WHERE revoked IS NULL;
