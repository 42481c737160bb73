-- Documents: what an attempt last read of each, what was suggested, and what is in their files.

CREATE TABLE document_seen (
  workflow INTEGER NOT NULL, agent TEXT NOT NULL COLLATE NOCASE, path TEXT NOT NULL,
  epoch INTEGER NOT NULL,                  -- of the attempt; what an earlier one read counts for nothing
  revision INTEGER NOT NULL, PRIMARY KEY (workflow, agent, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE suggestion (
  workflow INTEGER NOT NULL, seq INTEGER NOT NULL, -- of the message that told the owner
  run INTEGER NOT NULL, path TEXT NOT NULL, author TEXT NOT NULL, epoch INTEGER,
  body TEXT NOT NULL, old TEXT, new TEXT, state TEXT NOT NULL,
  answered_by TEXT, reason TEXT,
  revision INTEGER,                        -- what accepting it wrote
  at INTEGER NOT NULL, PRIMARY KEY (workflow, seq)
) STRICT, WITHOUT ROWID;

-- The revisions put into a document's file of late; the newest may not be there yet.
CREATE TABLE projection (
  workflow INTEGER NOT NULL, path TEXT NOT NULL, revision INTEGER NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (workflow, path, revision)
) STRICT, WITHOUT ROWID;

-- Texts of a person that were found in a file and made into revisions: known by file, time and content.
CREATE TABLE taken (
  workflow INTEGER NOT NULL, path TEXT NOT NULL, mark BLOB NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (workflow, path, mark)
) STRICT, WITHOUT ROWID;

-- What a person wrote and could not be merged, until they have looked at it.
CREATE TABLE conflict (
  workflow INTEGER NOT NULL, path TEXT NOT NULL, why TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (workflow, path)
) STRICT, WITHOUT ROWID;
