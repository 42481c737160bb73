//! Documents as files: what was put into them, and what a person wrote there. The files themselves are the daemon's.

use std::collections::BTreeMap;

use agent_worker_protocol::{DocumentPath, EventKind, Hash, Millis, Revision, Sender, WorkflowId};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use super::{
    author::Author,
    columns,
    documents::{self, At},
    events::Entry,
    head::Head,
    revisions::Kept,
    writer::Tx,
};
use crate::{
    error::{Error, Result},
    model::{DocumentConflict, FileMemory, FileTake, TakeOutcome},
    time::Now,
};

/// So many texts of a person are remembered of one file.
const MARKS: i64 = 8;

/// Notes that a revision is about to be put into its file; what was replaced before `since` is forgotten.
pub(super) fn put(
    tx: &Tx<'_>,
    workflow: WorkflowId,
    path: &DocumentPath,
    revision: Revision,
    since: Millis,
    now: Millis,
) -> Result<()> {
    Head::lock(tx, workflow)?;
    tx.prepare_cached(
        "INSERT OR REPLACE INTO projection (workflow, path, revision, at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![workflow.get(), path.as_str(), revision.get(), now.get()])?;
    tx.prepare_cached(
        "DELETE FROM projection WHERE workflow = ?1 AND path = ?2 AND revision <
         (SELECT max(revision) FROM projection WHERE workflow = ?1 AND path = ?2 AND at < ?3)",
    )?
    .execute(params![workflow.get(), path.as_str(), since.get()])?;
    Ok(())
}

/// What is remembered of an instance's files.
pub(super) fn list(db: &Connection, workflow: WorkflowId) -> Result<Vec<FileMemory>> {
    let mut files: BTreeMap<DocumentPath, FileMemory> = BTreeMap::new();
    let mut file = |path: DocumentPath, add: &dyn Fn(&mut FileMemory)| {
        let blank = FileMemory { path: path.clone(), put: Vec::new(), taken: Vec::new() };
        add(files.entry(path).or_insert(blank));
    };
    let sql =
        "SELECT path, revision, at FROM projection WHERE workflow = ?1 ORDER BY path, revision";
    let mut query = db.prepare_cached(sql)?;
    let mut rows = query.query([workflow.get()])?;
    while let Some(row) = rows.next()? {
        let put = (Revision::new(row.get(1)?), columns::millis(row, 2)?);
        file(columns::parsed(row, 0)?, &|memory| memory.put.push(put));
    }
    let mut query = db.prepare_cached("SELECT path, mark FROM taken WHERE workflow = ?1")?;
    let mut rows = query.query([workflow.get()])?;
    while let Some(row) = rows.next()? {
        let mark: Hash = row.get(1)?;
        file(columns::parsed(row, 0)?, &|memory| memory.taken.push(mark));
    }
    Ok(files.into_values().collect())
}

/// Takes what a person wrote into a file, once. Answers with the newest revision; refused if that is another than it was
/// held against.
pub(super) fn take(tx: &Tx<'_>, take: &FileTake, now: Now) -> Result<Option<Revision>> {
    let mut head = Head::lock(tx, take.workflow)?;
    let newest = documents::get(tx, take.workflow, &take.path, At::Newest)?;
    let at = newest.as_ref().map(|document| document.info.revision);
    if at != take.head {
        return Err(Error::StaleRevision(at.unwrap_or(Revision::new(0))));
    }
    let user = Author::Other(Sender::User);
    let next = |after: Option<Revision>| Revision::new(after.map_or(0, Revision::get) + 1);
    let revision = match &take.outcome {
        TakeOutcome::Same => at,
        TakeOutcome::Merged { content, removed } => {
            let revision = next(at);
            Kept::whole(content).insert(&head, &user, (&take.path, revision), now.wall)?;
            let data = json!({ "path": take.path, "revision": revision, "removed": removed });
            head.event(&Entry::of(EventKind::DocumentWritten).by(&Sender::User).data(data), now)?;
            Some(revision)
        }
        TakeOutcome::Conflict { content, stays: text, why } => {
            let theirs = next(at);
            Kept::whole(content).insert(&head, &user, (&take.path, theirs), now.wall)?;
            let stays = next(Some(theirs));
            let system = Author::Other(Sender::System);
            Kept::whole(text).insert(&head, &system, (&take.path, stays), now.wall)?;
            let data = json!({ "path": take.path, "revision": theirs, "stays": stays });
            conflict(&mut head, take, why, data, now)?;
            Some(stays)
        }
        TakeOutcome::Refused { why } => {
            conflict(&mut head, take, why, json!({ "path": take.path }), now)?;
            at
        }
    };
    remember(tx, take, now)?;
    head.save()?;
    Ok(revision)
}

fn remember(tx: &Tx<'_>, take: &FileTake, now: Now) -> Result<()> {
    let (workflow, path) = (take.workflow.get(), take.path.as_str());
    tx.prepare_cached(
        "INSERT OR REPLACE INTO taken (workflow, path, mark, at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![workflow, path, take.mark, now.wall.get()])?;
    tx.prepare_cached(
        "DELETE FROM taken WHERE workflow = ?1 AND path = ?2 AND mark NOT IN
         (SELECT mark FROM taken WHERE workflow = ?1 AND path = ?2 ORDER BY at DESC LIMIT ?3)",
    )?
    .execute(params![workflow, path, MARKS])?;
    Ok(())
}

fn conflict(head: &mut Head<'_>, take: &FileTake, why: &str, data: Value, now: Now) -> Result<()> {
    head.tx
        .prepare_cached(
            "INSERT OR REPLACE INTO conflict (workflow, path, why, at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![take.workflow.get(), take.path.as_str(), why, now.wall.get()])?;
    let entry = Entry::of(EventKind::DocumentConflict).by(&Sender::User).cause(why.to_owned());
    head.event(&entry.data(data), now)
}

/// What could not be merged and nobody has looked at.
pub(super) fn conflicts(db: &Connection, workflow: WorkflowId) -> Result<Vec<DocumentConflict>> {
    let conflicts = db
        .prepare_cached("SELECT path, why FROM conflict WHERE workflow = ?1 ORDER BY path")?
        .query_map([workflow.get()], |row| {
            Ok(DocumentConflict { path: columns::parsed(row, 0)?, why: row.get(1)? })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(conflicts)
}

/// Somebody has looked at it.
pub(super) fn conflict_close(tx: &Tx<'_>, workflow: WorkflowId, path: &DocumentPath) -> Result<()> {
    Head::lock(tx, workflow)?;
    tx.prepare_cached("DELETE FROM conflict WHERE workflow = ?1 AND path = ?2")?
        .execute(params![workflow.get(), path.as_str()])?;
    Ok(())
}
