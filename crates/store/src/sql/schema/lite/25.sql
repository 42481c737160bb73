-- Each attempt keeps the conversation that its program reported, for the detail of the turn.
ALTER TABLE attempt ADD COLUMN session TEXT;
