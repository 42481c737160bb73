-- The checksum of an attempt covers its position in the channel too. A row that is damaged keeps its checksum and stays
-- damaged.
UPDATE attempt SET checksum = row_checksum('attempt', workflow, agent, epoch, id, run, oldest, number, setbacks, shown,
    token_hash, started, finished, ended, how, answer, after_seq)
  WHERE after_seq IS NOT NULL AND checksum = row_checksum('attempt', workflow, agent, epoch, id, run, oldest, number,
    setbacks, shown, token_hash, started, finished, ended, how, answer);

-- A list of runs is read page by page while runs end.
CREATE INDEX run_end ON run (store_ended) WHERE ended IS NOT NULL;
