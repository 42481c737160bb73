-- The history of turns: what an attempt was given, wrote, called and got back.

-- A text is stored once per run, under its SHA-256 and compressed (zlib).
CREATE TABLE turn_text (
  workflow INTEGER NOT NULL, run INTEGER NOT NULL, hash BLOB NOT NULL,
  bytes INTEGER NOT NULL,                  -- of the text
  content BLOB NOT NULL,
  used INTEGER NOT NULL,                   -- store time at which an entry last named it, up to an hour early
  checksum BLOB NOT NULL,
  PRIMARY KEY (workflow, run, hash)
) STRICT;
CREATE INDEX turn_text_used ON turn_text (used);

-- One entry for each text, and one for each event of a worker.
CREATE TABLE turn_entry (
  workflow INTEGER NOT NULL, attempt BLOB NOT NULL,
  no INTEGER NOT NULL, part INTEGER NOT NULL,
  run INTEGER NOT NULL, kind TEXT NOT NULL, at INTEGER NOT NULL,
  position INTEGER,                        -- of the event, which has the short form of arguments and results
  hash BLOB,                               -- of the stored text
  bytes INTEGER,                           -- of the whole text
  state TEXT,                              -- completeness of the stored text
  checksum BLOB NOT NULL,
  PRIMARY KEY (workflow, attempt, no, part)
) STRICT, WITHOUT ROWID;

ALTER TABLE attempt ADD COLUMN history TEXT; -- none: an earlier version ran the attempt, or nothing is reported yet
ALTER TABLE run ADD COLUMN history_bytes INTEGER NOT NULL DEFAULT 0; -- of its texts
CREATE INDEX attempt_newest ON attempt (workflow, store_started, id);
CREATE INDEX attempt_history ON attempt (store_ended) WHERE history IS NOT NULL AND history <> 'expired';
