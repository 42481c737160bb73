-- Proposals, the votes on them and what they bind; questions to a person; a kickoff that waits for an election.

-- Numbers are never given out again.
ALTER TABLE workflow ADD COLUMN last_proposal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workflow ADD COLUMN last_question INTEGER NOT NULL DEFAULT 0;

CREATE TABLE proposal (
  workflow INTEGER NOT NULL, id INTEGER NOT NULL, run INTEGER NOT NULL,
  active INTEGER NOT NULL DEFAULT 1,
  creator TEXT NOT NULL, created INTEGER NOT NULL, deadline INTEGER NOT NULL, ended INTEGER,
  hops INTEGER NOT NULL,
  seq INTEGER NOT NULL,                    -- the message that told of it
  terms TEXT NOT NULL,                     -- fixed when it was made
  state TEXT NOT NULL,                     -- where it stands, with what belongs to it
  decided INTEGER NOT NULL DEFAULT 0,      -- it has a winner, or a fallback that holds
  PRIMARY KEY (workflow, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX proposal_active ON proposal (workflow, deadline) WHERE active = 1;
CREATE INDEX proposal_decided ON proposal (workflow, run, ended) WHERE decided = 1;

CREATE TABLE ballot (
  workflow INTEGER NOT NULL, proposal INTEGER NOT NULL, voter TEXT NOT NULL COLLATE NOCASE,
  choice TEXT NOT NULL, reason TEXT, at INTEGER NOT NULL, position INTEGER NOT NULL,
  PRIMARY KEY (workflow, proposal, voter)
) STRICT, WITHOUT ROWID;

-- The gates of a run that are open; all others are shut.
CREATE TABLE gate (
  workflow INTEGER NOT NULL, run INTEGER NOT NULL, name TEXT NOT NULL, proposal INTEGER NOT NULL,
  PRIMARY KEY (workflow, run, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE question (
  workflow INTEGER NOT NULL, id INTEGER NOT NULL, run INTEGER NOT NULL,
  agent TEXT NOT NULL COLLATE NOCASE, question TEXT NOT NULL, options TEXT NOT NULL,
  seq INTEGER NOT NULL,                    -- the message that asked it
  asked INTEGER NOT NULL, answer TEXT, answered INTEGER,
  PRIMARY KEY (workflow, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX question_open ON question (workflow, run) WHERE answer IS NULL;

-- What is said when the election before it is over, as JSON.
ALTER TABLE run ADD COLUMN kickoff TEXT;
