-- What calls of models can use until their usage is stored, and what earlier calls could use whose usage never was.
ALTER TABLE attempt ADD COLUMN reserved_cost INTEGER NOT NULL DEFAULT 0;   -- millionths of a dollar
ALTER TABLE attempt ADD COLUMN reserved_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN lost_cost INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN lost_tokens INTEGER NOT NULL DEFAULT 0;
CREATE INDEX attempt_reserved ON attempt (workflow, run) WHERE reserved_tokens > 0;
