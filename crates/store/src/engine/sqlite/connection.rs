//! Opens the database file: its access mode, its settings and the migration of its schema.

use std::{
    fs::{self, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use crate::{
    db::{Connection, WalIndexSharing},
    error::{Error, Result},
    sql::checksum,
};

/// The steps from an empty file to the current schema. A released step is never changed; a new one is added.
const SCHEMA_STEPS: [&str; 32] = [
    include_str!("../../sql/schema/lite/1.sql"),
    include_str!("../../sql/schema/lite/2.sql"),
    include_str!("../../sql/schema/lite/3.sql"),
    include_str!("../../sql/schema/lite/4.sql"),
    include_str!("../../sql/schema/lite/5.sql"),
    include_str!("../../sql/schema/lite/6.sql"),
    include_str!("../../sql/schema/lite/7.sql"),
    include_str!("../../sql/schema/lite/8.sql"),
    include_str!("../../sql/schema/lite/9.sql"),
    include_str!("../../sql/schema/lite/10.sql"),
    include_str!("../../sql/schema/lite/11.sql"),
    include_str!("../../sql/schema/lite/12.sql"),
    include_str!("../../sql/schema/lite/13.sql"),
    include_str!("../../sql/schema/lite/14.sql"),
    include_str!("../../sql/schema/lite/15.sql"),
    include_str!("../../sql/schema/lite/16.sql"),
    include_str!("../../sql/schema/lite/17.sql"),
    include_str!("../../sql/schema/lite/18.sql"),
    include_str!("../../sql/schema/lite/19.sql"),
    include_str!("../../sql/schema/lite/20.sql"),
    include_str!("../../sql/schema/lite/21.sql"),
    include_str!("../../sql/schema/lite/22.sql"),
    include_str!("../../sql/schema/lite/23.sql"),
    include_str!("../../sql/schema/lite/24.sql"),
    include_str!("../../sql/schema/lite/25.sql"),
    include_str!("../../sql/schema/lite/26.sql"),
    include_str!("../../sql/schema/lite/27.sql"),
    include_str!("../../sql/schema/lite/28.sql"),
    include_str!("../../sql/schema/lite/29.sql"),
    include_str!("../../sql/schema/lite/30.sql"),
    include_str!("../../sql/schema/lite/31.sql"),
    include_str!("../../sql/schema/lite/32.sql"),
];

/// The mode of the database file; SQLite gives the same mode to the files that it creates next to it.
const FILE_MODE: u32 = 0o600;

/// Creates the file, readable only for our user; SQLite would make it readable for all users. An existing file is not
/// opened: closing it again would release the locks of connections that are open in this process.
pub(super) fn create_file(path: &Path) -> Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::metadata(path)?.permissions().mode() & 0o777 != FILE_MODE {
                fs::set_permissions(path, Permissions::from_mode(FILE_MODE))?;
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens the connection that writes, and migrates and verifies its schema.
pub(super) fn open_writer(path: &Path, sharing: WalIndexSharing) -> Result<Connection> {
    let db = open_existing(path, sharing)?;
    db.set_pragma_word("journal_mode", "WAL")?;
    db.set_pragma_word("synchronous", "FULL")?;
    // On macOS a plain fsync leaves the data in the disk's own cache.
    if cfg!(target_os = "macos") {
        db.set_pragma("fullfsync", 1)?;
    }
    migrate_schema(&db)?;
    Ok(db)
}

/// Opens a connection that cannot write.
pub(super) fn open_reader(path: &Path, sharing: WalIndexSharing) -> Result<Connection> {
    let db = open_existing(path, sharing)?;
    db.set_pragma("query_only", 1)?;
    Ok(db)
}

/// Opens a database in memory that is deleted with its connection.
pub(crate) fn open_in_memory() -> Result<Connection> {
    let db = Connection::open_in_memory()?;
    checksum::install_functions(&db)?;
    migrate_schema(&db)?;
    Ok(db)
}

fn open_existing(path: &Path, sharing: WalIndexSharing) -> Result<Connection> {
    let db = Connection::open_existing(path, sharing)?;
    checksum::install_functions(&db)?;
    Ok(db)
}

/// Runs the missing steps, then verifies that the schema can be read.
fn migrate_schema(db: &Connection) -> Result<()> {
    let known = i64::try_from(SCHEMA_STEPS.len()).unwrap_or(i64::MAX);
    let found = db.pragma("user_version")?;
    if found > known {
        return Err(Error::NewerSchema { found, known });
    }
    for (version, step) in (1_i64..).zip(SCHEMA_STEPS).skip(usize::try_from(found).unwrap_or(0)) {
        // Closing the connection rolls back a step that failed.
        db.execute_batch("BEGIN")?;
        db.execute_batch(step)?;
        db.set_pragma("user_version", version)?;
        db.execute_batch("COMMIT")?;
    }
    db.query_row(
        "SELECT count(last_seq) FROM (SELECT last_seq FROM workflow LIMIT 1)",
        (),
        |_| Ok(()),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use agent_worker_protocol::{Millis, Scopes, WorkflowId, hash};

    use super::*;
    use crate::{
        db,
        model::{FileSlot, ListRange},
        sql::{
            documents::{self, RevisionSelector},
            file_states, resources, tokens,
        },
    };

    fn create_and_open(path: &Path) -> Result<Connection> {
        create_file(path)?;
        open_writer(path, WalIndexSharing::Processes)
    }

    #[test]
    fn a_file_of_a_newer_program_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        create_and_open(&path).unwrap().set_pragma("user_version", 99).unwrap();
        assert!(
            matches!(create_and_open(&path), Err(Error::NewerSchema { found: 99, known }) if known < 99)
        );
        let reader = open_reader(&path, WalIndexSharing::Processes).unwrap();
        let version = reader.pragma("user_version").unwrap();
        assert_eq!(version, 99);
    }

    #[test]
    fn a_file_of_an_older_program_keeps_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        create_file(&path).unwrap();
        let old = open_existing(&path, WalIndexSharing::Processes).unwrap();
        old.execute_batch(SCHEMA_STEPS[0]).unwrap();
        old.execute_batch(
            "PRAGMA user_version = 1;
             INSERT INTO workflow VALUES (7, '/p', 'review', 'main', 1, 1, 4, 9);
             INSERT INTO attempt (workflow, agent, epoch, id, run, oldest, number, setbacks, shown, token_hash, started, ended, how)
             VALUES (7, 'a', 1, x'01', 1, 1, 1, 0, '[]', x'01', 1, 2, '{\"end\":\"ok\"}'),
                    (7, 'a', 2, x'02', 1, 1, 1, 0, '[]', x'02', 3, 4, '{\"end\":\"stopped\"}'),
                    (7, 'a', 3, x'03', 1, 1, 1, 0, '[]', x'03', 5, NULL, NULL);
             INSERT INTO attempt (workflow, agent, epoch, id, run, oldest, number, setbacks, shown, token_hash, started, input_tokens, cost_micros)
             VALUES (7, 'a', 4, x'04', 2, 1, 1, 0, '[]', x'04', 6, 10, 5), (7, 'b', 1, x'05', 2, 1, 1, 0, '[]', x'05', 6, 10, NULL);
             INSERT INTO run (workflow, id, uuid, mode, state, limits, keep, started, ended, after_seq, script)
             VALUES (7, 1, x'01', 'run', 'ended', '{}', 'always', 10, 20, 0, ''),
                    (7, 2, x'02', 'run', 'paused', '{}', 'always', 30, NULL, 4, ''),
                    (7, 3, x'03', 'run', 'setup', '{}', 'always', 50, NULL, 4, '');
             INSERT INTO agent (workflow, name, run, place, settings, stopped)
             VALUES (7, 'a', 2, 0, '{}', NULL), (7, 'B', 2, 1, '{}', 'enough');
             INSERT INTO event (workflow, position, run, kind, agent, at)
             VALUES (7, 1, 2, 'run.running', NULL, 31), (7, 2, 2, 'agent.stopped', 'b', 35),
                    (7, 3, 2, 'run.paused', NULL, 40), (7, 4, 2, 'attempt.ended', 'a', 41);
             INSERT INTO token VALUES ('ci', x'01', 5);
             INSERT INTO document VALUES (7, 'notes.md', 1, 1, 'user', NULL, 4, 5, 'all' || char(10));",
        )
        .unwrap();
        drop(old);
        let db = create_and_open(&path).unwrap();
        let workflow: (i64, String, i64, i64) = db
            .query_row("SELECT id, name, last_event, cleared FROM workflow", (), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .unwrap();
        assert_eq!(workflow, (7, "review".to_owned(), 9, 0));
        let numbers = |column: &str, table: &str| -> Vec<i64> {
            let mut rows = db.prepare_cached(&format!("SELECT {column} FROM {table}")).unwrap();
            let rows = rows.query_map((), |row| row.get(0)).unwrap();
            rows.collect::<db::Result<_>>().unwrap()
        };
        assert_eq!(numbers("turn", "attempt ORDER BY id"), [1, 0, 0, 0, 0]);
        let since = |table| numbers("since", table);
        assert_eq!(since("run ORDER BY id"), [20, 40, 50], "ended, paused, in setup");
        assert_eq!(since("agent ORDER BY place"), [30, 35], "took part, stopped");
        // The cost of the usage of `b` in the second run is unknown, so the cost of that run is unknown.
        let how = |table| numbers("cost_how", table);
        assert_eq!(how("attempt ORDER BY id"), [0, 0, 0, 0, 2]);
        assert_eq!(
            (how("agent ORDER BY place"), how("run ORDER BY id")),
            (vec![0, 2], vec![0, 2, 0])
        );
        let token = tokens::list(&db).unwrap().pop().unwrap();
        assert_eq!(token.scopes, Scopes::default(), "what every token could do before");
        let path_there = "notes.md".parse().unwrap();
        let kept =
            documents::get(&db, WorkflowId::new(7), &path_there, RevisionSelector::Newest).unwrap();
        assert_eq!(kept.unwrap().content, "all\n");
        // After another open, no step is missing.
        drop(db);
        create_and_open(&path).unwrap();
    }

    /// The last revision written to a file is the file's base, and the one before is the base of the out slot. The
    /// texts imported from the file are known, unless one of them was still to be set aside.
    #[test]
    fn files_that_an_older_program_kept_have_bases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        create_file(&path).unwrap();
        let old = open_existing(&path, WalIndexSharing::Processes).unwrap();
        for step in &SCHEMA_STEPS[..14] {
            old.execute_batch(step).unwrap();
        }
        old.execute_batch(
            "PRAGMA user_version = 14;
             INSERT INTO document (workflow, path, revision, author, bytes, at, content)
             VALUES (7, 'a.md', 2, 'user', 2, 5, 'a2'), (7, 'a.md', 4, 'user', 2, 6, 'a4'), (7, 'b.md', 1, 'user', 2, 7, 'b1');
             INSERT INTO projection VALUES (7, 'a.md', 2, 20), (7, 'a.md', 4, 40), (7, 'b.md', 1, 10);
             INSERT INTO taken VALUES (7, 'a.md', zeroblob(32), 30), (7, 'b.md', zeroblob(32), 30);
             INSERT INTO conflict VALUES (7, 'b.md', 'because', 30);",
        )
        .unwrap();
        drop(old);
        let db = open_writer(&path, WalIndexSharing::Processes).unwrap();
        let workflow = WorkflowId::new(7);
        let state = |path: &str| file_states::get(&db, workflow, &path.parse().unwrap()).unwrap();
        let a = state("a.md");
        let base = |slot| a.base(slot).map(|base| (base.hash, base.replaced.map(Millis::get)));
        assert_eq!(base(FileSlot::File), Some((hash(&[b"a4"]), None)));
        assert_eq!(base(FileSlot::Out), Some((hash(&[b"a2"]), Some(40))));
        assert_eq!((a.out.and_then(|out| out.inode), a.marks.len()), (None, 1));
        let b = state("b.md");
        assert_eq!(b.base(FileSlot::File).map(|base| base.hash), Some(hash(&[b"b1"])));
        assert_eq!((b.out, b.marks.len()), (None, 0));
    }

    /// Returns a database in memory with the first schema steps.
    fn open_at_step(step: usize) -> Connection {
        let db = Connection::open_in_memory().unwrap();
        checksum::install_functions(&db).unwrap();
        for step in &SCHEMA_STEPS[..step] {
            db.execute_batch(step).unwrap();
        }
        db.set_pragma("user_version", step.try_into().unwrap()).unwrap();
        db
    }

    #[test]
    fn the_last_failures_of_an_older_program_are_found_in_one_scan_of_its_attempts() {
        let db = open_at_step(16);
        // The ends repeat after 7 attempts, and runs and agents change at other places.
        db.execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
             INSERT INTO attempt (workflow, agent, epoch, id, run, oldest, number, setbacks, shown, token_hash, started, ended, how)
             SELECT 7, char(97 + i % 3), i, CAST(i AS BLOB), i / 50, 1, 1, 0, '[]', CAST(i AS BLOB), 1, 2, CASE
               WHEN i % 7 < 2 THEN '{\"end\":\"ok\"}'
               WHEN i % 7 < 4 AND i / 50 % 4 > 0 THEN '{\"end\":\"failed\",\"class\":\"crash\",\"why\":\"\"}'
               ELSE '{\"end\":\"stopped\"}' END FROM n;",
        )
        .unwrap();
        migrate_schema(&db).unwrap();
        let rows = |sql: &str| -> Vec<(i64, String, i64, bool)> {
            let mut statement = db.prepare_cached(sql).unwrap();
            let rows = statement
                .query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
            rows.unwrap().collect::<db::Result<_>>().unwrap()
        };
        let found = rows("SELECT run, agent, epoch, recovered FROM last_failure ORDER BY 1, 2");
        let ends = rows(
            "SELECT run, agent, epoch, how = '{\"end\":\"ok\"}' FROM attempt
             WHERE how = '{\"end\":\"ok\"}' OR how LIKE '{\"end\":\"failed\",%' ORDER BY epoch",
        );
        let mut last = BTreeMap::new();
        for (run, agent, epoch, is_ok) in ends {
            match (is_ok, last.get_mut(&(run, agent.clone()))) {
                (true, Some((_, recovered))) => *recovered = true,
                (true, None) => {}
                (false, _) => drop(last.insert((run, agent), (epoch, false))),
            }
        }
        let expected = last
            .into_iter()
            .map(|((run, agent), (epoch, recovered))| (run, agent, epoch, recovered));
        let expected: Vec<_> = expected.collect();
        assert_eq!(found, expected);
        let recovered = found.iter().filter(|(.., recovered)| *recovered).count();
        assert!(recovered > 0 && recovered < found.len(), "{recovered} of {}", found.len());
        let (_, fill) = SCHEMA_STEPS[16].split_once("INSERT INTO last_failure").unwrap();
        let sql = format!("EXPLAIN QUERY PLAN INSERT INTO last_failure {fill}");
        let mut statement = db.prepare_cached(&sql).unwrap();
        let steps = statement.query_map((), |row| row.get::<String>(3)).unwrap();
        let steps = steps.collect::<db::Result<Vec<_>>>().unwrap();
        let reads = |step: &&String| step.starts_with("SCAN attempt") || step.contains("SEARCH");
        assert_eq!(steps.iter().filter(reads).count(), 1, "{steps:?}");
        assert!(!steps.iter().any(|step| step.contains("CORRELATED")), "{steps:?}");
    }

    #[test]
    fn the_attempts_of_older_programs_are_intact_with_and_without_a_position_in_the_channel() {
        let insert = |db: &Connection, epoch: i64, after: &str| {
            db.execute_batch(&format!(
                "INSERT INTO attempt (workflow, agent, epoch, id, run, oldest, number, setbacks, shown, token_hash, started, after_seq, checksum)
                 VALUES (7, 'a', {epoch}, zeroblob(16), 1, 1, 1, 0, '[]', zeroblob(32), 1, {after}, row_checksum(
                 'attempt', 7, 'a', {epoch}, zeroblob(16), 1, 1, 1, 0, '[]', zeroblob(32), 1, NULL, NULL, NULL, NULL));"
            ))
        };
        let damaged = |db: &Connection| -> i64 {
            let sql = format!(
                "SELECT count(*) FROM attempt t WHERE {} IS NOT NULL",
                checksum::ATTEMPT.check
            );
            db.query_row(&sql, (), |row| row.get(0)).unwrap()
        };

        let without = open_at_step(23);
        insert(&without, 1, "NULL").unwrap();
        without.execute_batch("UPDATE attempt SET id = x'01'").unwrap();
        assert_eq!(damaged(&without), 1);
        without.execute_batch("UPDATE attempt SET id = zeroblob(16)").unwrap();
        migrate_schema(&without).unwrap();
        assert_eq!(damaged(&without), 0);
        without.execute_batch("UPDATE attempt SET after_seq = 4").unwrap();
        assert_eq!(damaged(&without), 1, "a position that the checksum does not cover is damage");

        let with = open_at_step(23);
        insert(&with, 2, "4").unwrap();
        migrate_schema(&with).unwrap();
        assert_eq!(damaged(&with), 0);
        with.execute_batch("UPDATE attempt SET after_seq = 5").unwrap();
        assert_eq!(damaged(&with), 1);
    }

    #[test]
    fn a_resource_of_an_older_program_is_intact_and_has_no_creator() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        create_file(&path).unwrap();
        let old = open_existing(&path, WalIndexSharing::Processes).unwrap();
        for step in &SCHEMA_STEPS[..19] {
            old.execute_batch(step).unwrap();
        }
        old.execute_batch(
            "PRAGMA user_version = 19;
             INSERT INTO resource (workflow, sha256, kind, bytes, at, content, blocks, checksum)
             VALUES (7, zeroblob(32), 'a', 1, 5, x'00', x'01', row_checksum('resource', 7, zeroblob(32), 'a', 1, 5, x'01'));",
        )
        .unwrap();
        drop(old);
        let db = open_writer(&path, WalIndexSharing::Processes).unwrap();
        let listed = || resources::list(&db, WorkflowId::new(7), ListRange::first(9)).unwrap();
        assert_eq!(listed().iter().map(|one| one.created_by.clone()).collect::<Vec<_>>(), [None]);
        db.execute_batch("UPDATE resource SET created_by = 'user'").unwrap();
        assert_eq!(listed(), [], "a creator that the checksum does not cover is damage");
    }

    #[test]
    fn the_times_of_an_older_program_are_valid_in_store_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        create_file(&path).unwrap();
        let old = open_existing(&path, WalIndexSharing::Processes).unwrap();
        for step in &SCHEMA_STEPS[..13] {
            old.execute_batch(step).unwrap();
        }
        old.execute_batch(
            "PRAGMA user_version = 13;
             INSERT INTO run (workflow, id, uuid, mode, state, limits, keep, started, ended, after_seq, script)
             VALUES (7, 1, x'01', 'run', 'ended', '{}', 'always', 10, 20, 0, '');
             INSERT INTO agent (workflow, name, run, place, settings, since) VALUES (7, 'a', 1, 0, '{}', 30);
             INSERT INTO attempt (workflow, agent, epoch, id, run, oldest, number, setbacks, shown, token_hash, started, ended, turn)
             VALUES (7, 'a', 1, x'01', 1, 1, 1, 0, '[]', x'01', 40, 50, 1);
             INSERT INTO attempt (workflow, agent, epoch, id, run, oldest, number, setbacks, shown, token_hash, started, finished)
             VALUES (7, 'a', 2, x'02', 1, 1, 1, 0, '[]', x'02', 60,
             '{\"text\":\"\",\"outcome\":\"failed\",\"class\":\"rate_limited\",\"why\":\"\",\"retry_at\":\"1970-01-01T00:00:09.007Z\"}');
             INSERT INTO proposal (workflow, id, run, creator, created, deadline, hops, seq, terms, state)
             VALUES (7, 1, 1, 'user', 70, 80, 0, 1, '{}', '{}');",
        )
        .unwrap();
        drop(old);
        let db = open_writer(&path, WalIndexSharing::Processes).unwrap();
        for (sql, expected) in [
            ("SELECT store_started FROM run", 10),
            ("SELECT store_ended FROM run", 20),
            ("SELECT store_since FROM agent", 30),
            ("SELECT store_started FROM attempt WHERE epoch = 1", 40),
            ("SELECT store_ended FROM attempt WHERE turn = 1", 50),
            ("SELECT store_retry FROM attempt WHERE epoch = 2", 9_007),
            ("SELECT due FROM proposal", 80),
        ] {
            let found: i64 = db.query_row(sql, (), |row| row.get(0)).unwrap();
            assert_eq!(found, expected, "{sql}");
        }
    }

    #[test]
    fn the_time_of_an_older_programs_runs_counts_from_their_start_to_their_pause() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        create_file(&path).unwrap();
        let old = open_existing(&path, WalIndexSharing::Processes).unwrap();
        for step in &SCHEMA_STEPS[..18] {
            old.execute_batch(step).unwrap();
        }
        old.execute_batch(
            "PRAGMA user_version = 18;
             INSERT INTO run (workflow, id, uuid, mode, state, limits, keep, started, since, after_seq, script, store_started)
             VALUES (7, 1, x'01', 'run', 'running', '{}', 'always', 1000, 1001, 0, '', 50),
                    (7, 2, x'02', 'run', 'paused', '{}', 'always', 1000, 1300, 0, '', 50);",
        )
        .unwrap();
        drop(old);
        let db = open_writer(&path, WalIndexSharing::Processes).unwrap();
        let sql =
            "SELECT counted_ms, coalesce(counting_since, -1), store_since FROM run ORDER BY id";
        let mut rows = db.prepare_cached(sql).unwrap();
        let rows = rows.query_map((), |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]));
        let rows: Vec<[i64; 3]> = rows.unwrap().collect::<db::Result<_>>().unwrap();
        assert_eq!(rows, [[0, 50, 51], [300, -1, 350]]);
    }

    #[test]
    fn the_failures_of_an_older_program_are_the_last_ones_of_their_agents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        create_file(&path).unwrap();
        let old = open_existing(&path, WalIndexSharing::Processes).unwrap();
        for step in &SCHEMA_STEPS[..16] {
            old.execute_batch(step).unwrap();
        }
        let failed = r#"{"end":"failed","class":"crash","why":"gone"}"#;
        old.execute_batch(&format!(
            r#"PRAGMA user_version = 16;
             INSERT INTO attempt (workflow, agent, epoch, id, run, oldest, number, setbacks, shown, token_hash, started, ended, how)
             VALUES (7, 'a', 1, x'01', 1, 1, 1, 0, '[]', x'01', 1, 2, '{failed}'),
                    (7, 'a', 2, x'02', 1, 1, 1, 0, '[]', x'02', 3, 4, '{failed}'),
                    (7, 'a', 3, x'03', 1, 1, 1, 0, '[]', x'03', 5, 6, '{{"end":"ok"}}'),
                    (7, 'a', 4, x'04', 2, 1, 1, 0, '[]', x'04', 7, 8, '{failed}'),
                    (7, 'a', 5, x'05', 3, 1, 1, 0, '[]', x'05', 9, 10, '{{"end":"ok"}}'),
                    (7, 'b', 1, x'06', 1, 1, 1, 0, '[]', x'06', 1, 2, '{{"end":"stopped"}}');"#
        ))
        .unwrap();
        drop(old);
        let db = open_writer(&path, WalIndexSharing::Processes).unwrap();
        let mut rows =
            db.prepare_cached("SELECT run, agent, epoch, recovered FROM last_failure").unwrap();
        let rows = rows.query_map((), |row| {
            Ok((row.get::<i64>(0)?, row.get::<String>(1)?, row.get::<i64>(2)?, row.get(3)?))
        });
        let rows: Vec<(i64, String, i64, bool)> = rows.unwrap().collect::<db::Result<_>>().unwrap();
        assert_eq!(rows, [(1, "a".into(), 2, true), (2, "a".into(), 4, false)]);
    }

    #[test]
    fn no_other_user_may_read_the_file_or_its_companions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let _open = create_and_open(&path).unwrap();
        let mut modes = Vec::new();
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            modes.push(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777);
        }
        assert_eq!(modes, [0o600; 3]);
    }

    #[test]
    fn a_reader_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let _open = create_and_open(&path).unwrap();
        assert!(
            open_reader(&path, WalIndexSharing::Processes)
                .unwrap()
                .execute("DELETE FROM meta", ())
                .is_err()
        );
    }
}
