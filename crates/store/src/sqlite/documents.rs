//! Documents: every revision is kept, and none is lost to another.

use agent_worker_protocol::{DocumentPath, Epoch, EventKind, Millis, Revision, WorkflowId};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::json;

use super::{author::Author, columns, effects::once, events::Entry, head::Head, roles, writer::Tx};
use crate::{
    error::{Error, Result},
    model::{Base, By, Document, DocumentInfo, DocumentWrite, Once},
};

pub(super) fn put(
    tx: &Tx<'_>,
    by: &By,
    write: &DocumentWrite,
    now: Millis,
) -> Result<Once<Revision>> {
    once(Head::lock(tx, write.workflow)?, by, now, |head, author| {
        roles::may_write(head, author)?;
        let newest = get(tx, write.workflow, &write.path, At::Newest)?;
        let (before, content) = meet(write, newest)?;
        if content.len() > write.most {
            return Err(Error::TooLong(content.len()));
        }
        let revision = Revision::new(before.get() + 1);
        insert(head, author, write, revision, &content, now)?;
        let mut entry = Entry::of(EventKind::DocumentWritten).by(&author.sender());
        if let Author::Attempt(live) = author {
            entry = entry.agent(&live.agent).attempt(live.id);
        }
        let data = json!({ "path": write.path, "revision": revision });
        head.event(&entry.data(data), now)?;
        Ok(revision)
    })
}

/// The revision that is followed, and what the next one says.
fn meet(write: &DocumentWrite, newest: Option<Document>) -> Result<(Revision, String)> {
    let content = write.content.clone();
    match (write.base, newest) {
        (Base::Absent | Base::Append, None) => Ok((Revision::new(0), content)),
        (Base::Append, Some(newest)) => Ok((newest.info.revision, newest.content + &content)),
        (Base::Revision(base), Some(newest)) if base == newest.info.revision => {
            Ok((newest.info.revision, content))
        }
        (Base::Absent | Base::Revision(_), Some(newest)) => {
            Err(Error::StaleRevision(newest.info.revision))
        }
        (Base::Revision(_), None) => Err(Error::NotFound("document")),
    }
}

fn insert(
    head: &Head<'_>,
    author: &Author,
    write: &DocumentWrite,
    revision: Revision,
    content: &str,
    now: Millis,
) -> Result<()> {
    head.tx
        .prepare_cached(
            "INSERT INTO document (workflow, path, revision, run, author, epoch, bytes, at, content)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            write.workflow.get(),
            write.path.as_str(),
            revision.get(),
            head.live_if_any().map(|live| live.number.0),
            author.sender().to_string(),
            author.epoch().map(Epoch::get),
            columns::size_column(content.len()),
            now.get(),
            content
        ])?;
    Ok(())
}

/// Which revision of a document.
#[derive(Clone, Copy)]
pub(super) enum At {
    Newest,
    Revision(Revision),
}

pub(super) fn get(
    db: &Connection,
    workflow: WorkflowId,
    path: &DocumentPath,
    at: At,
) -> Result<Option<Document>> {
    let (condition, revision) = match at {
        At::Newest => ("?3 IS NULL ORDER BY revision DESC LIMIT 1", None),
        At::Revision(revision) => ("revision = ?3", Some(revision.get())),
    };
    let sql = format!(
        "SELECT path, revision, author, at, bytes, content FROM document WHERE workflow = ?1 AND path = ?2 AND {condition}"
    );
    Ok(db
        .prepare_cached(&sql)?
        .query_row(params![workflow.get(), path.as_str(), revision], |row| {
            Ok(Document { info: info(row)?, content: row.get(5)? })
        })
        .optional()?)
}

pub(super) fn list(db: &Connection, workflow: WorkflowId) -> Result<Vec<DocumentInfo>> {
    // SQLite takes the other columns from the row that has the maximum.
    let sql = "SELECT path, max(revision), author, at, bytes FROM document WHERE workflow = ?1 GROUP BY path ORDER BY path";
    let documents = db
        .prepare_cached(sql)?
        .query_map([workflow.get()], info)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(documents)
}

/// The revisions of a document, newest first.
pub(super) fn history(
    db: &Connection,
    workflow: WorkflowId,
    path: &DocumentPath,
    limit: u32,
) -> Result<Vec<DocumentInfo>> {
    let sql = "SELECT path, revision, author, at, bytes FROM document
        WHERE workflow = ?1 AND path = ?2 ORDER BY revision DESC LIMIT ?3";
    let revisions = db
        .prepare_cached(sql)?
        .query_map(params![workflow.get(), path.as_str(), limit], info)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(revisions)
}

fn info(row: &Row<'_>) -> rusqlite::Result<DocumentInfo> {
    Ok(DocumentInfo {
        path: columns::parsed(row, 0)?,
        revision: Revision::new(row.get(1)?),
        author: row.get(2)?,
        ts: columns::millis(row, 3)?,
        bytes: columns::size(row, 4)?,
    })
}
