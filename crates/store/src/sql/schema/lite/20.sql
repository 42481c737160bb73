-- Links between answers and questions, and the essential arguments of effects.

CREATE INDEX attempt_answer ON attempt (workflow, answer) WHERE answer IS NOT NULL;

-- The checksum of an effect covers its arguments too. A row that is damaged keeps its checksum and stays damaged.
ALTER TABLE effect ADD COLUMN summary TEXT;
UPDATE effect SET checksum =
  row_checksum('effect', workflow, scope, oldest, key, args, tool, result, epoch, run, position, at, summary)
  WHERE checksum = row_checksum('effect', workflow, scope, oldest, key, args, tool, result, epoch, run, position, at);
