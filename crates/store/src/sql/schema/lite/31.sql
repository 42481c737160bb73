-- Tasks of runs: one row for each task that has started or will not start. A waiting task has no row.

CREATE TABLE task (
  workflow INTEGER NOT NULL, run INTEGER NOT NULL,
  path TEXT NOT NULL,
  item INTEGER NOT NULL,                   -- from 1 within `for_each`; 0 without one
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,               -- 0 for a task that was skipped
  condition INTEGER,                       -- value of `if`
  items TEXT,                              -- array of `for_each`, as JSON
  message INTEGER,                         -- seq of the message that the task sent
  format TEXT,                             -- of the output: text, json or null
  output TEXT,                             -- a short output
  resource BLOB,                           -- a long output
  exit_code INTEGER, error TEXT, stderr TEXT,
  started INTEGER, ended INTEGER,
  checksum BLOB NOT NULL,
  PRIMARY KEY (workflow, run, path, item)
) STRICT, WITHOUT ROWID;
