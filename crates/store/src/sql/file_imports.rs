//! A person's texts from documents' files: each becomes a revision and the base of its slot in one transaction, or a
//! conflict.

use agent_worker_protocol::{
    ConflictRevisions, DocumentConflictData, DocumentPath, DocumentWrittenData, EventBody,
    Revision, Sender, WorkflowId,
};

use super::{
    author::Author,
    columns,
    documents::{self, RevisionSelector},
    events::EventEntry,
    file_states::{BaseText, FileRow},
    locked_instance::LockedInstance,
    revisions::StoredRevision,
    transaction::Tx,
};
use crate::{
    db::{self, Connection, params},
    error::{Error, Result},
    model::{
        Document, DocumentConflict, FileImport, FileSlot, FileState, ImportOutcome, OutSlot,
        PendingConflictFile,
    },
    time::Now,
};

/// Imports a person's text. Refused if the newest revision is not the one it was merged with.
pub(crate) fn import_file(tx: &Tx<'_>, take: &FileImport, now: Now) -> Result<FileState> {
    let mut locked = LockedInstance::lock(tx, take.workflow)?;
    let newest = documents::get(tx, take.workflow, &take.path, RevisionSelector::Newest)?;
    let at = newest.as_ref().map(|document| document.info.revision);
    if at != take.merged_with {
        return Err(Error::StaleRevision(at.unwrap_or(Revision::new(0))));
    }
    let equal = write_revisions(&mut locked, take, newest.as_ref(), now)?;
    let row = FileRow { db: tx, workflow: take.workflow, path: &take.path };
    let mut state = row.load()?;
    set_base(&row, &mut state, take, equal, now)?;
    match take.outcome {
        ImportOutcome::Same | ImportOutcome::Merged { .. } => {}
        ImportOutcome::Conflict { .. } | ImportOutcome::Refused { .. } => {
            state.conflict_file = Some(PendingConflictFile { slot: take.slot, inode: take.inode });
        }
    }
    row.save(&state)?;
    row.delete_replaced_bases(&state, take.forget_before)?;
    locked.save()?;
    row.load()
}

/// Writes the revisions of an outcome. Returns the revision whose text is the person's, if there is one.
fn write_revisions(
    locked: &mut LockedInstance<'_>,
    take: &FileImport,
    newest: Option<&Document>,
    now: Now,
) -> Result<Option<Revision>> {
    let user = Author::Other(Sender::User);
    let at = newest.map(|document| document.info.revision);
    let next = |after: Option<Revision>| Revision::new(after.map_or(0, Revision::get) + 1);
    let text = take.text.as_ref().map(|(text, _)| text.as_str());
    match &take.outcome {
        ImportOutcome::Same => {
            let is_newest = newest.is_some_and(|document| Some(document.content.as_str()) == text);
            Ok(at.filter(|_| is_newest))
        }
        ImportOutcome::Merged { content, removed } => {
            let revision = next(at);
            StoredRevision::whole(content).insert(
                locked,
                &user,
                (&take.path, revision),
                now.wall,
            )?;
            let body = EventBody::DocumentWritten(DocumentWrittenData {
                path: take.path.clone(),
                revision,
                removed: Some(*removed as u64),
            });
            locked.append_event(&EventEntry::new(body).by(&Sender::User), now)?;
            Ok(Some(revision).filter(|_| Some(content.as_str()) == text))
        }
        ImportOutcome::Conflict { store_text: stays_text, why } => {
            let theirs = next(at);
            let content = text.unwrap_or_default();
            StoredRevision::whole(content).insert(locked, &user, (&take.path, theirs), now.wall)?;
            let stays = next(Some(theirs));
            let system = Author::Other(Sender::System);
            StoredRevision::whole(stays_text).insert(
                locked,
                &system,
                (&take.path, stays),
                now.wall,
            )?;
            let revisions = ConflictRevisions { revision: theirs, stays };
            record_conflict(locked, take, why, Some(revisions), now)?;
            Ok(Some(theirs))
        }
        ImportOutcome::Refused { why } => {
            let revisions = None;
            record_conflict(locked, take, why, revisions, now)?;
            Ok(None)
        }
    }
}

/// Makes the person's text the base of its slot.
fn set_base(
    row: &FileRow<'_>,
    state: &mut FileState,
    take: &FileImport,
    equal: Option<Revision>,
    now: Now,
) -> Result<()> {
    let Some((text, hash)) = &take.text else { return Ok(()) };
    let text = equal.map_or(BaseText::Text(text), BaseText::Revision);
    match take.slot {
        FileSlot::File => {
            if let Some(before) = state.file {
                row.mark_replaced(before, now.wall)?;
            }
            state.file = Some(row.add_base(state, &text, hash, None)?);
        }
        FileSlot::Out => {
            // The text left the file together with its predecessor: at the last exchange.
            let replaced = state.base(FileSlot::Out).and_then(|base| base.replaced);
            let base = row.add_base(state, &text, hash, Some(replaced.unwrap_or(now.wall)))?;
            let inode = state.out.and_then(|out| out.inode);
            state.out = Some(OutSlot { base: Some(base), inode });
        }
    }
    Ok(())
}

fn record_conflict(
    locked: &mut LockedInstance<'_>,
    take: &FileImport,
    why: &str,
    revisions: Option<ConflictRevisions>,
    now: Now,
) -> Result<()> {
    locked
        .tx
        .prepare_cached(
            "INSERT INTO conflict (workflow, path, why, at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (workflow, path) DO UPDATE SET why = excluded.why, at = excluded.at",
        )?
        .execute(params![take.workflow.get(), take.path.as_str(), why, now.wall.get()])?;
    let data = DocumentConflictData { path: take.path.clone(), revisions };
    let entry = EventEntry::new(EventBody::DocumentConflict(data));
    locked.append_event(&entry.by(&Sender::User).cause(why.to_owned()), now)
}

/// Lists the conflicts that no person has closed.
pub(crate) fn list_conflicts(
    db: &Connection,
    workflow: WorkflowId,
) -> Result<Vec<DocumentConflict>> {
    let conflicts = db
        .prepare_cached("SELECT path, why FROM conflict WHERE workflow = ?1 ORDER BY path")?
        .query_map([workflow.get()], |row| {
            Ok(DocumentConflict { path: columns::parse(row, 0)?, why: row.get(1)? })
        })?
        .collect::<db::Result<_>>()?;
    Ok(conflicts)
}

/// Deletes a conflict from the list.
pub(crate) fn close_conflict(tx: &Tx<'_>, workflow: WorkflowId, path: &DocumentPath) -> Result<()> {
    LockedInstance::lock(tx, workflow)?;
    tx.prepare_cached("DELETE FROM conflict WHERE workflow = ?1 AND path = ?2")?
        .execute(params![workflow.get(), path.as_str()])?;
    Ok(())
}
