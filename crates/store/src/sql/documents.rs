//! Documents: every revision is stored, and no write overwrites another.

use agent_worker_protocol::{
    DocumentPath, DocumentWrittenData, EventBody, Revision, RunId, WorkflowId,
};

use super::{
    author::{Author, FencedAttempt},
    checksum::{self, DOCUMENT},
    columns,
    effects::once,
    events::{EventEntry, find_run_number},
    locked_instance::LockedInstance,
    revisions::{self, NewestRevision, StoredRevision},
    roles,
    transaction::Tx,
};
use crate::{
    damage,
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::{
        Document, DocumentBase, DocumentInfo, DocumentWrite, Fence, ListRange, Once, WriteContext,
    },
    time::Now,
};

/// The most documents that [`written`] returns.
const MAX_WRITTEN: u32 = 100;

pub(crate) fn put_document(
    tx: &Tx<'_>,
    by: &WriteContext,
    write: &DocumentWrite,
    now: Now,
) -> Result<Once<Revision>> {
    once(LockedInstance::lock(tx, write.workflow)?, by, now, |locked, author| {
        roles::require_document_writer(locked, author)?;
        write_next_revision(locked, author, write, now)
    })
}

/// Writes the next revision for an author that may write.
pub(crate) fn write_next_revision(
    locked: &mut LockedInstance<'_>,
    author: &Author,
    write: &DocumentWrite,
    now: Now,
) -> Result<Revision> {
    let tip = NewestRevision::find(locked.tx, write.workflow, &write.path)?;
    if tip.is_none() {
        if write.path.is_option_like() {
            return Err(Error::OptionLikePath(write.path.clone()));
        }
        require_free_path(locked, &write.path)?;
    }
    let seen = match (write.base, author) {
        (DocumentBase::LastRead, Author::Attempt(live)) => last_seen(locked, live, &write.path)?,
        _ => None,
    };
    let before = check_base(write.base, tip.as_ref().map(|tip| tip.revision), seen)?;
    let grown = tip.as_ref().filter(|_| write.base == DocumentBase::Append);
    let grown = grown.map(NewestRevision::require_intact).transpose()?;
    let bytes = grown.map_or(0, |tip| tip.bytes).saturating_add(write.content.len());
    if bytes > write.max_bytes {
        return Err(Error::DocumentTooLong(bytes));
    }
    let revision = Revision::new(before.get() + 1);
    let place = (&write.path, revision);
    match grown {
        Some(tip) if tip.can_append(locked.live_run_if_any().map(|live| live.number)) => {
            let added = StoredRevision { content: &write.content, bytes, whole: Some(tip.whole) };
            added.insert(locked, author, place, now.wall)?;
        }
        Some(_) => {
            let before = get(locked.tx, write.workflow, &write.path, RevisionSelector::Newest)?;
            let before = before.map(|newest| newest.content).unwrap_or_default();
            StoredRevision::whole(&(before + &write.content))
                .insert(locked, author, place, now.wall)?;
        }
        None => StoredRevision::whole(&write.content).insert(locked, author, place, now.wall)?,
    }
    let data = DocumentWrittenData { path: write.path.clone(), revision, removed: None };
    let mut entry = EventEntry::new(EventBody::DocumentWritten(data)).by(&author.sender());
    if let Author::Attempt(live) = author {
        entry = entry.agent(&live.agent).attempt(live.id);
        // The author of a whole text counts as its reader.
        if write.base != DocumentBase::Append {
            record_seen(locked, live, &write.path, revision)?;
        }
    }
    locked.append_event(&entry, now)?;
    Ok(revision)
}

/// Returns the newest revision to a live attempt and records that the attempt read it.
pub(crate) fn show(tx: &Tx<'_>, fence: &Fence, path: &DocumentPath) -> Result<Option<Document>> {
    let locked = LockedInstance::lock(tx, fence.workflow)?;
    let live = FencedAttempt::check_fence(tx, fence)?;
    let newest = get(tx, fence.workflow, path, RevisionSelector::Newest)?;
    if let Some(newest) = &newest {
        record_seen(&locked, &live, path, newest.info.revision)?;
    }
    Ok(newest)
}

fn record_seen(
    locked: &LockedInstance<'_>,
    live: &FencedAttempt,
    path: &DocumentPath,
    revision: Revision,
) -> Result<()> {
    locked.tx
        .prepare_cached(
            "INSERT INTO document_seen (workflow, agent, path, epoch, revision) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (workflow, agent, path) DO UPDATE SET epoch = excluded.epoch, revision = excluded.revision",
        )?
        .execute(params![
            locked.workflow.get(),
            live.agent.as_str(),
            path.as_str(),
            live.epoch.get(),
            revision.get()
        ])?;
    Ok(())
}

fn last_seen(
    locked: &LockedInstance<'_>,
    live: &FencedAttempt,
    path: &DocumentPath,
) -> Result<Option<Revision>> {
    let sql = "SELECT revision FROM document_seen WHERE workflow = ?1 AND agent = ?2 AND path = ?3 AND epoch = ?4";
    let key = params![locked.workflow.get(), live.agent.as_str(), path.as_str(), live.epoch.get()];
    let seen = locked.tx.prepare_cached(sql)?.query_row(key, |row| row.get(0)).optional()?;
    Ok(seen.map(Revision::new))
}

/// Verifies that every document can be a file: no document has the path of another's folder.
fn require_free_path(locked: &LockedInstance<'_>, path: &DocumentPath) -> Result<()> {
    let path = path.as_str();
    let folders: Vec<_> = path.match_indices('/').map(|(end, _)| &path[..end]).collect();
    // `0` follows `/` in the character order: the paths between them are those inside the folder.
    let sql = "SELECT path FROM document WHERE workflow = ?1
        AND (path > ?2 || '/' AND path < ?2 || '0' OR path IN (SELECT value FROM json_each(?3))) LIMIT 1";
    let there = locked
        .tx
        .prepare_cached(sql)?
        .query_row(params![locked.workflow.get(), path, serde_json::to_string(&folders)?], |row| {
            columns::parse(row, 0)
        })
        .optional()?;
    there.map_or(Ok(()), |there| Err(Error::PathConflict(there)))
}

/// Returns the revision that the write follows, if the base allows it.
fn check_base(
    base: DocumentBase,
    newest: Option<Revision>,
    seen: Option<Revision>,
) -> Result<Revision> {
    let Some(now) = newest else {
        return match base {
            DocumentBase::Absent | DocumentBase::Append | DocumentBase::LastRead => {
                Ok(Revision::new(0))
            }
            // A document that does not exist is read as revision 0.
            DocumentBase::Revision(base) if base == Revision::new(0) => Ok(base),
            DocumentBase::Revision(_) => Err(Error::NotFound("document")),
        };
    };
    match (base, seen) {
        (DocumentBase::Append, _) => Ok(now),
        (DocumentBase::Absent, _) => Err(Error::StaleRevision(now)),
        (DocumentBase::Revision(base), _) | (DocumentBase::LastRead, Some(base)) => {
            if base == now {
                Ok(now)
            } else {
                Err(Error::StaleRevision(now))
            }
        }
        (DocumentBase::LastRead, None) => Err(Error::RevisionNotRead(now)),
    }
}

/// Returns the columns that [`read_info`] reads, of a document `d` and the attempt `t` that wrote it.
fn info_columns() -> String {
    format!(
        "d.path, {}, d.author, d.at, d.bytes, {}, d.revision",
        DOCUMENT.check,
        checksum::attempt_id_sql()
    )
}
const ATTEMPT_JOIN_SQL: &str =
    "LEFT JOIN attempt t ON t.workflow = d.workflow AND t.agent = d.author AND t.epoch = d.epoch";

/// Selects a revision of a document.
#[derive(Clone, Copy)]
pub(crate) enum RevisionSelector {
    Newest,
    Revision(Revision),
}

pub(crate) fn get(
    db: &Connection,
    workflow: WorkflowId,
    path: &DocumentPath,
    at: RevisionSelector,
) -> Result<Option<Document>> {
    let (condition, revision) = match at {
        RevisionSelector::Newest => {
            ("CAST(?3 AS BIGINT) IS NULL ORDER BY d.revision DESC LIMIT 1", None)
        }
        RevisionSelector::Revision(revision) => ("d.revision = ?3", Some(revision.get())),
    };
    let sql = format!(
        "SELECT d.revision, d.content, d.content_hash, d.whole, {} FROM document d {ATTEMPT_JOIN_SQL}
         WHERE d.workflow = ?1 AND d.path = ?2 AND {condition}",
        info_columns()
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query(params![workflow.get(), path.as_str(), revision])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let info = read_info(&row, 4)?;
    if let Some(whole) = row.get(3)? {
        return revisions::assemble_document(db, workflow, info, Revision::new(whole)).map(Some);
    }
    let content = revisions::verified_content(&row, workflow, path)?.to_owned();
    Ok(Some(Document { info, content }))
}

/// Finds each path after the previous one in the index, so that the revisions of a document cost nothing. The recursion
/// returns the paths in order, and a reader with a limit can stop early.
pub(crate) fn list_sql() -> String {
    format!(
        "WITH RECURSIVE listed (path) AS (
          SELECT min(p.path) FROM document p WHERE p.workflow = ?1 AND p.path > ?2
          UNION ALL
          SELECT (SELECT min(p.path) FROM document p WHERE p.workflow = ?1 AND p.path > listed.path)
          FROM listed WHERE listed.path IS NOT NULL)
        SELECT {} FROM listed CROSS JOIN document d ON d.workflow = ?1 AND d.path = listed.path AND d.revision =
          (SELECT max(p.revision) FROM document p WHERE p.workflow = ?1 AND p.path = listed.path)
        {ATTEMPT_JOIN_SQL}",
        info_columns()
    )
}

/// Lists the documents with their newest revisions, by path.
pub(crate) fn list(
    db: &Connection,
    workflow: WorkflowId,
    range: &ListRange<DocumentPath>,
) -> Result<Vec<DocumentInfo>> {
    let mut statement = db.prepare_cached(&list_sql())?;
    let after = range.after.as_ref().map_or("", DocumentPath::as_str);
    let rows = statement.query_map(params![workflow.get(), after], |row| read_info(row, 0))?;
    damage::take_intact(rows, range.limit)
}

pub(crate) fn written_sql() -> String {
    format!("{} WHERE d.run = ?3", list_sql())
}

/// Lists the documents whose newest revision was written in a run, by path.
pub(crate) fn written(
    db: &Connection,
    workflow: WorkflowId,
    run: RunId,
) -> Result<Vec<DocumentInfo>> {
    let Some(run) = find_run_number(db, workflow, run)? else { return Ok(Vec::new()) };
    let mut statement = db.prepare_cached(&written_sql())?;
    let rows = statement.query_map(params![workflow.get(), "", run.0], |row| read_info(row, 0))?;
    damage::take_intact(rows, MAX_WRITTEN)
}

pub(crate) fn history_sql() -> String {
    format!(
        "SELECT {} FROM document d {ATTEMPT_JOIN_SQL}
         WHERE d.workflow = ?1 AND d.path = ?2 AND d.revision < ?3 ORDER BY d.revision DESC",
        info_columns()
    )
}

/// Lists the revisions of a document, newest first.
pub(crate) fn history(
    db: &Connection,
    workflow: WorkflowId,
    path: &DocumentPath,
    range: ListRange<Revision>,
) -> Result<Vec<DocumentInfo>> {
    let mut statement = db.prepare_cached(&history_sql())?;
    let before = range.after.map_or(i64::MAX, Revision::get);
    let revisions = statement
        .query_map(params![workflow.get(), path.as_str(), before], |row| read_info(row, 0))?;
    damage::take_intact(revisions, range.limit)
}

/// Reads the columns of [`info_columns`], from `first` on.
fn read_info(row: &Row<'_>, first: usize) -> db::Result<DocumentInfo> {
    DOCUMENT.verify(row, first + 1)?;
    Ok(DocumentInfo {
        path: columns::parse(row, first)?,
        author: row.get(first + 2)?,
        ts: columns::millis(row, first + 3)?,
        bytes: columns::size(row, first + 4)?,
        attempt: checksum::attempt_id(row, first + 5)?,
        revision: Revision::new(row.get(first + 6)?),
    })
}
