-- The creator of a resource. Rows written before have none.
ALTER TABLE resource ADD COLUMN created_by TEXT;
