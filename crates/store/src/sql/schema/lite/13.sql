-- How well a cost is known: 1 if some of it was reckoned by a list of prices, 2 if of some tokens it is not known at all.

ALTER TABLE attempt ADD COLUMN cost_how INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agent ADD COLUMN cost_how INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN cost_how INTEGER NOT NULL DEFAULT 0;

UPDATE attempt SET cost_how = 2 WHERE cost_micros IS NULL AND input_tokens + output_tokens > 0;
UPDATE agent SET cost_how = 2 WHERE (cost_micros IS NULL AND input_tokens + output_tokens > 0) OR EXISTS (
  SELECT 1 FROM attempt t
  WHERE t.workflow = agent.workflow AND t.agent = agent.name AND t.run = agent.run AND t.cost_how = 2);
UPDATE run SET cost_how = 2 WHERE (cost_micros IS NULL AND input_tokens + output_tokens > 0) OR EXISTS (
  SELECT 1 FROM attempt t WHERE t.workflow = run.workflow AND t.run = run.id AND t.cost_how = 2);
