-- What is behind a message in the index is brought together in steps of its own (search.rs), never by whoever adds to it.

INSERT INTO said (said, rank) VALUES ('automerge', 0), ('crisismerge', 64), ('usermerge', 8);

-- A document's revision is its whole text, or what was added to it: then `whole` is the revision that it is all added to.

ALTER TABLE document ADD COLUMN whole INTEGER;
