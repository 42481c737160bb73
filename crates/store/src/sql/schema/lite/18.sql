-- Hand-offs in answers, and mentions that no agent got.

-- The last message of the instance when the attempt was leased. The agent's messages after it are those of the attempt
-- and of later ones.
ALTER TABLE attempt ADD COLUMN after_seq INTEGER;

CREATE INDEX event_unheard ON event (workflow, run, position) WHERE kind = 'mention.unheard';
