-- Databases beside this one, that workflow files name for their teams.

CREATE TABLE drawer (path TEXT PRIMARY KEY) WITHOUT ROWID;
