-- What a token is good for. Those that are there keep what they could do.

ALTER TABLE token ADD COLUMN scopes TEXT NOT NULL DEFAULT '{"allow":["read","send","documents"],"instances":[]}';
