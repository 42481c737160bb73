-- The last failed attempt of each agent in each run: the cause of a failure is found without reading all attempts.
CREATE TABLE last_failure (
  workflow INTEGER NOT NULL, run INTEGER NOT NULL, agent TEXT NOT NULL COLLATE NOCASE,
  epoch INTEGER NOT NULL,                  -- of the attempt, which holds class, message and time
  recovered INTEGER NOT NULL DEFAULT 0,    -- a later attempt of the agent in the run ended ok
  PRIMARY KEY (workflow, run, agent)
) STRICT, WITHOUT ROWID;

INSERT INTO last_failure (workflow, run, agent, epoch, recovered)
  SELECT f.workflow, f.run, f.agent, f.epoch, EXISTS (
    SELECT 1 FROM attempt o WHERE o.workflow = f.workflow AND o.agent = f.agent AND o.epoch > f.epoch
    AND o.run = f.run AND o.how = '{"end":"ok"}')
  FROM (SELECT workflow, run, agent, max(epoch) AS epoch FROM attempt
    WHERE how LIKE '{"end":"failed",%' GROUP BY workflow, run, agent) AS f;
