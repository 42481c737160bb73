-- The result of a run for programs: the newest answer of each agent, and the verdict of the team.

CREATE TABLE answer (
  workflow INTEGER NOT NULL, run INTEGER NOT NULL, agent TEXT NOT NULL COLLATE NOCASE,
  seq INTEGER NOT NULL,                    -- the message with the answer
  PRIMARY KEY (workflow, run, agent)
) STRICT, WITHOUT ROWID;
INSERT INTO answer (workflow, run, agent, seq)
  SELECT workflow, run, agent, max(answer) FROM attempt WHERE answer IS NOT NULL GROUP BY workflow, run, agent;

CREATE TABLE verdict (
  workflow INTEGER NOT NULL, run INTEGER NOT NULL,
  outcome TEXT NOT NULL, summary TEXT NOT NULL, agent TEXT NOT NULL COLLATE NOCASE,
  at INTEGER NOT NULL, checksum BLOB,
  PRIMARY KEY (workflow, run)
) STRICT, WITHOUT ROWID;
