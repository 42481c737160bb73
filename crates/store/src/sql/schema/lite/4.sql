-- Who is what for a whole run.

CREATE TABLE role (
  workflow INTEGER NOT NULL, run INTEGER NOT NULL, role TEXT NOT NULL, agent TEXT NOT NULL COLLATE NOCASE,
  PRIMARY KEY (workflow, run, role)
) STRICT, WITHOUT ROWID;
