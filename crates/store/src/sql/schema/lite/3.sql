-- Since when a run stands where it stands, and an agent may or may not be woken.

ALTER TABLE run ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
UPDATE run SET since = coalesce(ended,
  (SELECT max(e.at) FROM event e WHERE e.workflow = run.workflow AND e.run = run.id
    AND e.kind IN ('run.running', 'run.paused')), started);

-- When it joined, or was last stopped or resumed.
ALTER TABLE agent ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
UPDATE agent SET since = coalesce(
  (SELECT max(e.at) FROM event e WHERE e.workflow = agent.workflow AND e.run = agent.run
    AND e.agent = agent.name COLLATE NOCASE AND e.kind IN ('agent.added', 'agent.stopped', 'agent.resumed')),
  (SELECT r.started FROM run r WHERE r.workflow = agent.workflow AND r.id = agent.run), 0);
