-- The conversation an agent's next turn can go on with, in its backend's own words.

ALTER TABLE agent ADD COLUMN session TEXT;
