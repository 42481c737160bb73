-- A document's revision is its whole text, or what was added to it: then `whole` is the revision that it is all added to.

ALTER TABLE document ADD COLUMN whole INTEGER;
