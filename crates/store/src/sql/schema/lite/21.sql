-- Lists are read in parts, from the newest entry on.
DROP INDEX run_newest;
CREATE INDEX run_ended ON run (started, uuid) WHERE ended IS NOT NULL;
CREATE INDEX run_ended_of_instance ON run (workflow, started, uuid) WHERE ended IS NOT NULL;
CREATE INDEX resource_newest ON resource (workflow, at DESC, sha256);
CREATE INDEX feedback_newest ON feedback (at, id);
