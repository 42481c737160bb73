-- Checksums of rows: xxh3-128 over table, key and columns (checksum.rs). Rows written before have none.

-- The id of a run has a checksum of its own: it is read with every row of the run, and a damaged script must not make
-- those unreadable.
ALTER TABLE run ADD COLUMN uuid_checksum BLOB;
ALTER TABLE run ADD COLUMN checksum BLOB;
ALTER TABLE message ADD COLUMN checksum BLOB;
ALTER TABLE attempt ADD COLUMN checksum BLOB;
ALTER TABLE effect ADD COLUMN checksum BLOB;
ALTER TABLE event ADD COLUMN checksum BLOB;
ALTER TABLE proposal ADD COLUMN checksum BLOB;
ALTER TABLE ballot ADD COLUMN checksum BLOB;
ALTER TABLE question ADD COLUMN checksum BLOB;
ALTER TABLE approval ADD COLUMN checksum BLOB;
ALTER TABLE suggestion ADD COLUMN checksum BLOB;

-- The text of a revision has a checksum of its own, so that a history is verified without reading every text.
ALTER TABLE document ADD COLUMN content_hash BLOB;
ALTER TABLE document ADD COLUMN checksum BLOB;

-- The checksums of a resource's 64 KiB blocks, one after the other, so that a range is verified without reading the rest.
ALTER TABLE resource ADD COLUMN blocks BLOB;
ALTER TABLE resource ADD COLUMN checksum BLOB;
