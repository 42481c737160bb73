-- Documents as files: for each slot the text whose every edit is in the store, and the write under way.

-- A text that is or was in a slot. It is a revision's, or it is kept here.
CREATE TABLE file_base (
  workflow INTEGER NOT NULL, path TEXT NOT NULL, number INTEGER NOT NULL,
  hash BLOB,                               -- of the text; NULL: recorded by an earlier version
  revision INTEGER, text TEXT,
  replaced INTEGER,                        -- when another text took its place in the file
  PRIMARY KEY (workflow, path, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE file_state (
  workflow INTEGER NOT NULL, path TEXT NOT NULL,
  file_base INTEGER,                       -- number of a file_base
  out_base INTEGER, out_inode INTEGER,     -- both NULL: no person's text is in the out slot
  intent_revision INTEGER, intent_hash BLOB, intent_inode INTEGER, intent_mode TEXT, intent_at INTEGER,
  aside_slot TEXT, aside_inode INTEGER,    -- a file on its way to NAME.conflict
  PRIMARY KEY (workflow, path)
) STRICT, WITHOUT ROWID;

-- Earlier versions kept the revisions they had put into a file, not the texts they had taken from it. The last revision
-- is the file's base, the one before is the out slot's; the older ones count as texts that were in the file.
INSERT INTO file_base (workflow, path, number, revision, replaced)
  SELECT workflow, path, revision, revision, lead(at) OVER (PARTITION BY workflow, path ORDER BY revision) FROM projection;
INSERT INTO file_state (workflow, path, file_base, out_base)
  SELECT workflow, path, max(revision),
    (SELECT max(o.revision) FROM projection o
     WHERE o.workflow = p.workflow AND o.path = p.path AND o.revision < max(p.revision))
  FROM projection p GROUP BY workflow, path;
DROP TABLE projection;

-- `taken` stays for their texts that were taken and not yet replaced; a text that was to be set aside is taken again.
DELETE FROM taken WHERE EXISTS (
  SELECT 1 FROM conflict c WHERE c.workflow = taken.workflow AND c.path = taken.path);
