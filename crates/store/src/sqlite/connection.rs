//! Opening the database: who may read the file, how it is set up, which schema it has.

use std::{
    fs::{OpenOptions, Permissions},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
    time::Duration,
};

use rusqlite::{Connection, config::DbConfig};

use super::checksum;
use crate::error::{Error, Result};

/// The steps from an empty file to today's schema. A released step is never changed; a new one is added.
const STEPS: [&str; 14] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
    include_str!("schema/9.sql"),
    include_str!("schema/10.sql"),
    include_str!("schema/11.sql"),
    include_str!("schema/12.sql"),
    include_str!("schema/13.sql"),
    include_str!("schema/14.sql"),
];
const PATIENCE: Duration = Duration::from_secs(5);
/// Above the number of distinct statements in this room, so that each is planned once.
const STATEMENTS: usize = 256;

/// The connection that writes, its schema brought up to date and looked at.
pub(super) fn writing(path: &Path) -> Result<Connection> {
    // Made by us first: SQLite would make it readable for everybody, and its companions copy this mode.
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    drop(file);
    let mut db = at(path)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    ready(&mut db)?;
    Ok(db)
}

/// A connection that cannot write.
pub(super) fn reading(path: &Path) -> Result<Connection> {
    let db = at(path)?;
    db.pragma_update(None, "query_only", true)?;
    Ok(db)
}

/// A database that is gone with its connection.
pub(super) fn in_memory() -> Result<Connection> {
    let mut db = Connection::open_in_memory()?;
    settings(&db)?;
    ready(&mut db)?;
    Ok(db)
}

fn at(path: &Path) -> Result<Connection> {
    #[expect(clippy::disallowed_methods, reason = "this is the store")]
    let db = Connection::open(path)?;
    settings(&db)?;
    Ok(db)
}

fn settings(db: &Connection) -> Result<()> {
    db.busy_timeout(PATIENCE)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    checksum::install(db)?;
    // Savepoints copy each page they touch; in a temporary file that is half of all bytes written.
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // Else the bundled build plans cached statements again for each new value bound: a third of the writer's time.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Takes the missing steps, then looks whether the schema can be read.
fn ready(db: &mut Connection) -> Result<()> {
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let found: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > known {
        return Err(Error::Newer { found, known });
    }
    for (version, step) in (1_i64..).zip(STEPS).skip(usize::try_from(found).unwrap_or(0)) {
        let step_taken = db.transaction()?;
        step_taken.execute_batch(step)?;
        step_taken.pragma_update(None, "user_version", version)?;
        step_taken.commit()?;
    }
    db.query_row(
        "SELECT count(last_seq) FROM (SELECT last_seq FROM workflow LIMIT 1)",
        [],
        |_| Ok(()),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Scopes, WorkflowId};

    use super::{
        super::{
            documents::{self, At},
            tokens,
        },
        *,
    };

    #[test]
    fn a_file_of_a_newer_program_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        writing(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
        assert!(matches!(writing(&path), Err(Error::Newer { found: 99, known }) if known < 99));
        let version: i64 = reading(&path)
            .unwrap()
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap();
        assert_eq!(version, 99);
    }

    #[test]
    fn a_file_of_an_older_program_keeps_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let old = at(&path).unwrap();
        old.execute_batch(STEPS[0]).unwrap();
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
        let db = writing(&path).unwrap();
        let workflow: (i64, String, i64, i64) = db
            .query_row("SELECT id, name, last_event, cleared FROM workflow", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .unwrap();
        assert_eq!(workflow, (7, "review".to_owned(), 9, 0));
        let numbers = |column: &str, table: &str| -> Vec<i64> {
            let mut rows = db.prepare(&format!("SELECT {column} FROM {table}")).unwrap();
            let rows = rows.query_map([], |row| row.get(0)).unwrap();
            rows.collect::<rusqlite::Result<_>>().unwrap()
        };
        assert_eq!(numbers("turn", "attempt ORDER BY id"), [1, 0, 0, 0, 0]);
        let since = |table| numbers("since", table);
        assert_eq!(since("run ORDER BY id"), [20, 40, 50], "ended, paused, in setup");
        assert_eq!(since("agent ORDER BY place"), [30, 35], "took part, stopped");
        // Of what `b` used in the second run nobody knows the cost, so it is not known of that run.
        let how = |table| numbers("cost_how", table);
        assert_eq!(how("attempt ORDER BY id"), [0, 0, 0, 0, 2]);
        assert_eq!(
            (how("agent ORDER BY place"), how("run ORDER BY id")),
            (vec![0, 2], vec![0, 2, 0])
        );
        let token = tokens::list(&db).unwrap().pop().unwrap();
        assert_eq!(token.scopes, Scopes::default(), "what every token could do before");
        let path_there = "notes.md".parse().unwrap();
        let kept = documents::get(&db, WorkflowId::new(7), &path_there, At::Newest).unwrap();
        assert_eq!(kept.unwrap().content, "all\n");
        // Opened again, nothing is left to do.
        drop(db);
        writing(&path).unwrap();
    }

    #[test]
    fn nobody_else_may_read_the_file_or_its_companions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let _open = writing(&path).unwrap();
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
        let _open = writing(&path).unwrap();
        assert!(reading(&path).unwrap().execute("DELETE FROM meta", []).is_err());
    }
}
