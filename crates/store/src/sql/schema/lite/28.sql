-- A delivery that also reaches a running turn (`send --now`), so that a daemon that starts finds it again.
ALTER TABLE delivery ADD COLUMN now INTEGER NOT NULL DEFAULT 0;
