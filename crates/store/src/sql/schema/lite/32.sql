-- What a `start` has used, in slots of ten minutes of store time, because its limits count the last 24 hours.
CREATE TABLE spend_slot (
  workflow INTEGER NOT NULL, run INTEGER NOT NULL,
  owner TEXT NOT NULL COLLATE NOCASE,      -- a standalone agent, which has limits of its own; empty for a team
  slot INTEGER NOT NULL,                   -- store time in units of ten minutes
  cost INTEGER NOT NULL, tokens INTEGER NOT NULL,
  unreported_cost INTEGER NOT NULL,        -- the part of `cost` by calls without a report, at most
  unreported_tokens INTEGER NOT NULL,
  PRIMARY KEY (workflow, run, owner, slot)
) STRICT, WITHOUT ROWID;

-- The attempts of live runs. Those of standalone agents had no limit.
INSERT INTO spend_slot (workflow, run, owner, slot, cost, tokens, unreported_cost, unreported_tokens)
  SELECT t.workflow, t.run, '', coalesce(t.store_ended, t.store_started) / 600000,
    min(sum(min(coalesce(t.cost_micros, 0) + CASE WHEN t.ended IS NULL THEN 0 ELSE t.reserved_cost END, 1125899906842624)), 1152921504606846976),
    min(sum(min(t.input_tokens + t.output_tokens + CASE WHEN t.ended IS NULL THEN 0 ELSE t.reserved_tokens END, 1125899906842624)), 1152921504606846976),
    sum(CASE WHEN t.ended IS NULL THEN 0 ELSE t.reserved_cost END),
    sum(CASE WHEN t.ended IS NULL THEN 0 ELSE t.reserved_tokens END)
  FROM run r JOIN workflow w ON w.id = r.workflow JOIN attempt t ON t.workflow = r.workflow AND t.run = r.id
  WHERE r.ended IS NULL AND r.mode = 'start' AND w.name <> 'global'
  GROUP BY t.workflow, t.run, coalesce(t.store_ended, t.store_started) / 600000;
-- Lost reservations have no time of their own. The latest one is at most the end of the newest attempt.
INSERT INTO spend_slot (workflow, run, owner, slot, cost, tokens, unreported_cost, unreported_tokens)
  SELECT r.workflow, r.id, '', max(coalesce(t.store_ended, t.store_started)) / 600000, r.lost_cost, r.lost_tokens, r.lost_cost, r.lost_tokens
  FROM run r JOIN workflow w ON w.id = r.workflow JOIN attempt t ON t.workflow = r.workflow AND t.run = r.id
  WHERE r.ended IS NULL AND r.mode = 'start' AND w.name <> 'global' AND (r.lost_cost > 0 OR r.lost_tokens > 0)
  GROUP BY r.workflow, r.id
  ON CONFLICT DO UPDATE SET cost = cost + excluded.cost, tokens = tokens + excluded.tokens,
    unreported_cost = unreported_cost + excluded.unreported_cost, unreported_tokens = unreported_tokens + excluded.unreported_tokens;

-- From now on the end of an attempt turns its reservation into a lost one, so that only live attempts have one.
UPDATE run SET
  lost_cost = min(lost_cost + (SELECT coalesce(sum(t.reserved_cost), 0) FROM attempt t
    WHERE t.workflow = run.workflow AND t.run = run.id AND t.reserved_tokens > 0 AND t.ended IS NOT NULL), 1152921504606846976),
  lost_tokens = min(lost_tokens + (SELECT coalesce(sum(t.reserved_tokens), 0) FROM attempt t
    WHERE t.workflow = run.workflow AND t.run = run.id AND t.reserved_tokens > 0 AND t.ended IS NOT NULL), 1152921504606846976)
  WHERE ended IS NULL;
UPDATE attempt SET reserved_cost = 0, reserved_tokens = 0 WHERE reserved_tokens > 0 AND ended IS NOT NULL;
