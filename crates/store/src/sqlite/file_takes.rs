//! A person's texts from documents' files: each becomes a revision and the base of its slot in one transaction, or a
//! conflict.

use agent_worker_protocol::{DocumentPath, EventKind, Revision, Sender, WorkflowId};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use super::{
    author::Author,
    columns,
    documents::{self, At},
    events::Entry,
    file_states::{BaseText, FileRow},
    head::Head,
    revisions::Kept,
    writer::Tx,
};
use crate::{
    error::{Error, Result},
    model::{
        Document, DocumentConflict, FileSlot, FileState, FileTake, OutSlot, PendingAside,
        TakeOutcome,
    },
    time::Now,
};

/// Takes a person's text. Refused if the newest revision is not the one it was merged with.
pub(super) fn take(tx: &Tx<'_>, take: &FileTake, now: Now) -> Result<FileState> {
    let mut head = Head::lock(tx, take.workflow)?;
    let newest = documents::get(tx, take.workflow, &take.path, At::Newest)?;
    let at = newest.as_ref().map(|document| document.info.revision);
    if at != take.head {
        return Err(Error::StaleRevision(at.unwrap_or(Revision::new(0))));
    }
    let equal = write_revisions(&mut head, take, newest.as_ref(), now)?;
    let row = FileRow { db: tx, workflow: take.workflow, path: &take.path };
    let mut state = row.load()?;
    set_base(&row, &mut state, take, equal, now)?;
    match take.outcome {
        TakeOutcome::Same | TakeOutcome::Merged { .. } => {}
        TakeOutcome::Conflict { .. } | TakeOutcome::Refused { .. } => {
            state.aside = Some(PendingAside { slot: take.slot, inode: take.inode });
        }
    }
    row.save(&state)?;
    row.forget_bases(&state, take.forget_before)?;
    head.save()?;
    row.load()
}

/// Writes the revisions of an outcome. Returns the revision whose text is the person's, if there is one.
fn write_revisions(
    head: &mut Head<'_>,
    take: &FileTake,
    newest: Option<&Document>,
    now: Now,
) -> Result<Option<Revision>> {
    let user = Author::Other(Sender::User);
    let at = newest.map(|document| document.info.revision);
    let next = |after: Option<Revision>| Revision::new(after.map_or(0, Revision::get) + 1);
    let text = take.text.as_ref().map(|(text, _)| text.as_str());
    match &take.outcome {
        TakeOutcome::Same => {
            let is_newest = newest.is_some_and(|document| Some(document.content.as_str()) == text);
            Ok(at.filter(|_| is_newest))
        }
        TakeOutcome::Merged { content, removed } => {
            let revision = next(at);
            Kept::whole(content).insert(head, &user, (&take.path, revision), now.wall)?;
            let data = json!({ "path": take.path, "revision": revision, "removed": removed });
            head.event(&Entry::of(EventKind::DocumentWritten).by(&Sender::User).data(data), now)?;
            Ok(Some(revision).filter(|_| Some(content.as_str()) == text))
        }
        TakeOutcome::Conflict { stays: stays_text, why } => {
            let theirs = next(at);
            let content = text.unwrap_or_default();
            Kept::whole(content).insert(head, &user, (&take.path, theirs), now.wall)?;
            let stays = next(Some(theirs));
            let system = Author::Other(Sender::System);
            Kept::whole(stays_text).insert(head, &system, (&take.path, stays), now.wall)?;
            let data = json!({ "path": take.path, "revision": theirs, "stays": stays });
            conflict(head, take, why, data, now)?;
            Ok(Some(theirs))
        }
        TakeOutcome::Refused { why } => {
            conflict(head, take, why, json!({ "path": take.path }), now)?;
            Ok(None)
        }
    }
}

/// Makes the person's text the base of its slot.
fn set_base(
    row: &FileRow<'_>,
    state: &mut FileState,
    take: &FileTake,
    equal: Option<Revision>,
    now: Now,
) -> Result<()> {
    let Some((text, hash)) = &take.text else { return Ok(()) };
    let text = equal.map_or(BaseText::Text(text), BaseText::Revision);
    match take.slot {
        FileSlot::File => {
            if let Some(before) = state.file {
                row.retire(before, now.wall)?;
            }
            state.file = Some(row.add_base(state, &text, hash, None)?);
        }
        FileSlot::Out => {
            // It left the file when its predecessor did: with the last exchange.
            let replaced = state.base(FileSlot::Out).and_then(|base| base.replaced);
            let base = row.add_base(state, &text, hash, Some(replaced.unwrap_or(now.wall)))?;
            let inode = state.out.and_then(|out| out.inode);
            state.out = Some(OutSlot { base: Some(base), inode });
        }
    }
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

/// Lists the conflicts that no person has closed.
pub(super) fn conflicts(db: &Connection, workflow: WorkflowId) -> Result<Vec<DocumentConflict>> {
    let conflicts = db
        .prepare_cached("SELECT path, why FROM conflict WHERE workflow = ?1 ORDER BY path")?
        .query_map([workflow.get()], |row| {
            Ok(DocumentConflict { path: columns::parsed(row, 0)?, why: row.get(1)? })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(conflicts)
}

/// Deletes a conflict from the list.
pub(super) fn conflict_close(tx: &Tx<'_>, workflow: WorkflowId, path: &DocumentPath) -> Result<()> {
    Head::lock(tx, workflow)?;
    tx.prepare_cached("DELETE FROM conflict WHERE workflow = ?1 AND path = ?2")?
        .execute(params![workflow.get(), path.as_str()])?;
    Ok(())
}
