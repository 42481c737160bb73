-- The last failed attempt of each agent in each run: the cause of a failure is found without reading all attempts.
CREATE TABLE last_failure (
  workflow INTEGER NOT NULL, run INTEGER NOT NULL, agent TEXT NOT NULL COLLATE NOCASE,
  epoch INTEGER NOT NULL,                  -- of the attempt, which holds class, message and time
  recovered INTEGER NOT NULL DEFAULT 0,    -- a later attempt of the agent in the run ended ok
  PRIMARY KEY (workflow, run, agent)
) STRICT, WITHOUT ROWID;

INSERT INTO last_failure (workflow, run, agent, epoch, recovered)
  SELECT workflow, run, agent, failed, coalesce(succeeded > failed, 0)
  FROM (SELECT workflow, run, agent, max(epoch) FILTER (WHERE how LIKE '{"end":"failed",%') AS failed,
    max(epoch) FILTER (WHERE how = '{"end":"ok"}') AS succeeded FROM attempt GROUP BY workflow, run, agent)
  WHERE failed IS NOT NULL;
