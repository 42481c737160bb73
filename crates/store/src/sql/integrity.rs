//! The check of a whole database, on a connection of its own: the file's structure, then every row that has a
//! checksum.
//!
//! FTS5 caches the structure of its index per connection and does not reread it for an integrity check. On a
//! connection that has searched before, the check reads segments that a later merge has removed and reports a healthy
//! index as damaged.

use std::collections::BTreeSet;

use super::{
    checksum::{self, ChecksumTable, DOCUMENT, TABLES},
    resources::{self, ResourceFiles},
};
use crate::{
    damage::DamagedRow,
    db::{self, Connection, ValueRef},
    error::{Error, Result},
    model::IntegrityReport,
};

/// Checks the structure, every row that has a checksum, and the content of documents and resources.
pub(crate) fn check_database(
    db: &Connection,
    files: Option<&ResourceFiles>,
) -> Result<IntegrityReport> {
    let mut found =
        IntegrityReport { problems: structure_problems(db)?, ..IntegrityReport::default() };
    for table in TABLES {
        scan_table(db, table, &mut found)?;
    }
    if let Some(damaged) = unless_corrupt(damaged_documents(db), &mut found.problems)? {
        found.damaged.extend(damaged);
    }
    if let Some(damaged) = unless_corrupt(resources::verify(db, files), &mut found.problems)? {
        found.damaged.extend(damaged);
    }
    found.damaged.sort();
    found.damaged.dedup();
    Ok(found)
}

/// Returns the problems that SQLite finds in its own file. Some damage SQLite cannot describe; then its error is the
/// problem.
pub(crate) fn structure_problems(db: &Connection) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let check = || -> db::Result<Vec<String>> {
        db.prepare_cached("PRAGMA integrity_check(20)")?.query_map((), |row| row.get(0))?.collect()
    };
    if let Some(lines) = unless_corrupt(check().map_err(Into::into), &mut problems)? {
        problems.extend(lines.into_iter().filter(|line| line != "ok"));
    }
    if let Some(changed) = unless_corrupt(changed_definitions(db), &mut problems)? {
        problems.extend(changed);
    }
    Ok(problems)
}

/// Returns the tables and indexes whose definition differs from the one that the migrations write. SQLite itself accepts
/// any definition that it can parse, such as one with another column name.
fn changed_definitions(db: &Connection) -> Result<Vec<String>> {
    let read = |db: &Connection| -> Result<BTreeSet<(String, String)>> {
        let sql = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL";
        let mut statement = db.prepare_cached(sql)?;
        let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<db::Result<_>>()?)
    };
    let expected = read(&crate::engine::open_in_memory()?)?;
    let found = read(db)?;
    let changed = expected.symmetric_difference(&found).map(|(name, _)| name);
    let changed: BTreeSet<&String> = changed.collect();
    Ok(changed.into_iter().map(|name| format!("the definition of `{name}` is damaged")).collect())
}

/// Verifies the checksums of a table and counts the rows.
fn scan_table(db: &Connection, table: &ChecksumTable, found: &mut IntegrityReport) -> Result<()> {
    let ChecksumTable { source, check, is_hashed, .. } = table;
    let walk = || -> Result<(u64, u64, Vec<DamagedRow>)> {
        let (mut rows, mut unhashed, mut damaged) = (0, 0, Vec::new());
        let mut statement =
            db.prepare_cached(&format!("SELECT {is_hashed}, {check} FROM {source}"))?;
        let mut walked = statement.query(())?;
        while let Some(row) = walked.next()? {
            rows += 1;
            unhashed += u64::from(!row.get::<bool>(0)?);
            match table.verify(&row, 1).map_err(Error::from) {
                Ok(()) => {}
                Err(Error::Damaged(row)) => damaged.push(row),
                Err(error) => return Err(error),
            }
        }
        Ok((rows, unhashed, damaged))
    };
    if let Some((rows, unhashed, damaged)) = unless_corrupt(walk(), &mut found.problems)? {
        found.rows += rows;
        found.unhashed += unhashed;
        found.damaged.extend(damaged);
    }
    Ok(())
}

/// Verifies the texts of all revisions of documents.
fn damaged_documents(db: &Connection) -> Result<Vec<DamagedRow>> {
    let mut statement = db.prepare_cached(
        "SELECT d.content, d.content_hash, d.workflow || ' ' || d.path || ' ' || d.revision FROM document d
         WHERE d.content_hash IS NOT NULL",
    )?;
    let mut rows = statement.query(())?;
    let mut damaged = Vec::new();
    while let Some(row) = rows.next()? {
        let is_intact = match (row.get_ref(0)?, row.get_ref(1)?) {
            (ValueRef::Text(text), ValueRef::Blob(hash)) => checksum::of(text) == hash,
            _ => false,
        };
        if !is_intact {
            damaged.push(DOCUMENT.damaged_row(&row.get::<String>(2)?));
        }
    }
    Ok(damaged)
}

/// Turns the error of a file that is damaged in its structure into a problem.
fn unless_corrupt<T>(checked: Result<T>, problems: &mut Vec<String>) -> Result<Option<T>> {
    match checked {
        Ok(checked) => Ok(Some(checked)),
        Err(Error::Malformed(problem)) => {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
