-- The files of a message: a JSON list with name, media type, size and resource of each. A message without files has NULL,
-- and its hash and its checksum do not cover the column.
ALTER TABLE message ADD COLUMN attachments TEXT;
