-- What was said, by its trigrams. It follows behind: `searched` is the last message an instance has in it, and what came
-- after is looked through. In the same step as the message it would cost three times the message.

CREATE VIRTUAL TABLE said USING fts5 (
  body, content = '', contentless_delete = 1, tokenize = 'trigram case_sensitive 1'
);
ALTER TABLE workflow ADD COLUMN searched INTEGER NOT NULL DEFAULT 0;
