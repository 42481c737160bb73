//! The state of documents' files: the base of each slot and the write under way. Not here: files, and imports
//! (`file_imports`).

use agent_worker_protocol::{DocumentPath, Hash, Keyword as _, Millis, Revision, WorkflowId, hash};

use super::{
    columns,
    documents::{self, RevisionSelector},
    locked_instance::LockedInstance,
    transaction::Tx,
};
use crate::{
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::{BaseNumber, FileBase, FileIntent, FileState, FileStep, OutSlot, PendingConflictFile},
};

/// The row of one document's file.
#[derive(Clone, Copy)]
pub(crate) struct FileRow<'a> {
    pub(crate) db: &'a Connection,
    pub(crate) workflow: WorkflowId,
    pub(crate) path: &'a DocumentPath,
}

/// The text of a base, given whole or by its revision.
pub(crate) enum BaseText<'a> {
    Revision(Revision),
    Text(&'a str),
}

pub(crate) fn get(db: &Connection, workflow: WorkflowId, path: &DocumentPath) -> Result<FileState> {
    FileRow { db, workflow, path }.load()
}

/// Returns the text of a base, verified; none if its revision was deleted.
pub(crate) fn base_text(
    db: &Connection,
    workflow: WorkflowId,
    path: &DocumentPath,
    base: BaseNumber,
) -> Result<Option<String>> {
    let row = FileRow { db, workflow, path };
    let sql = "SELECT revision, text, hash FROM file_base WHERE workflow = ?1 AND path = ?2 AND number = ?3";
    let found = db
        .prepare_cached(sql)?
        .query_row(params![workflow.get(), path.as_str(), base.get()], |row| {
            let revision: Option<i64> = row.get(0)?;
            Ok((revision.map(Revision::new), row.get::<Option<String>>(1)?, row.get(2)?))
        })
        .optional()?;
    let Some((revision, text, recorded)) = found else { return Ok(None) };
    let text = match revision {
        Some(revision) => row.revision_text(revision)?,
        None => text,
    };
    let recorded: Option<Hash> = recorded;
    match (&text, recorded) {
        (Some(text), Some(recorded)) if hash(&[text.as_bytes()]) != recorded => {
            Err(Error::InvalidValue(format!(
                "file_base {path}, number {}: the text does not match its hash",
                base.get()
            )))
        }
        _ => Ok(text),
    }
}

/// Executes a step of writing a document's file.
pub(crate) fn apply_step(
    tx: &Tx<'_>,
    workflow: WorkflowId,
    path: &DocumentPath,
    step: &FileStep,
) -> Result<FileState> {
    LockedInstance::lock(tx, workflow)?;
    let row = FileRow { db: tx, workflow, path };
    let mut state = row.load()?;
    match step {
        FileStep::Intend(intent) => state.intent = Some(*intent),
        FileStep::Confirm { out, replaced, forget_before } => {
            let intent = state.intent.take().ok_or(Error::NotFound("intent"))?;
            let before = state.file;
            if let Some(before) = before {
                row.mark_replaced(before, *replaced)?;
            }
            let text = BaseText::Revision(intent.revision);
            state.file = Some(row.add_base(&state, &text, &intent.hash, None)?);
            state.out = out.map(|inode| OutSlot { base: before, inode: Some(inode) });
            row.delete_replaced_bases(&state, *forget_before)?;
            row.delete_marks()?;
        }
        FileStep::Unstage => (state.intent, state.out) = (None, None),
        FileStep::ConflictFileDone => state.conflict_file = None,
    }
    row.save(&state)?;
    row.load()
}

impl FileRow<'_> {
    pub(crate) fn load(&self) -> Result<FileState> {
        let sql = "SELECT file_base, out_base, out_inode, intent_revision, intent_hash, intent_inode, intent_mode,
            intent_at, aside_slot, aside_inode FROM file_state WHERE workflow = ?1 AND path = ?2";
        let key = params![self.workflow.get(), self.path.as_str()];
        let state = self.db.prepare_cached(sql)?.query_row(key, read_state).optional()?;
        let mut state = state.unwrap_or_default();
        state.bases = self.bases()?;
        let sql = "SELECT mark FROM taken WHERE workflow = ?1 AND path = ?2";
        let key = params![self.workflow.get(), self.path.as_str()];
        let mut query = self.db.prepare_cached(sql)?;
        state.marks = query.query_map(key, |row| row.get(0))?.collect::<db::Result<_>>()?;
        Ok(state)
    }

    pub(crate) fn save(&self, state: &FileState) -> Result<()> {
        let FileState { file, out, intent, conflict_file: aside, .. } = state;
        self.db
            .prepare_cached(
                "INSERT INTO file_state (workflow, path, file_base, out_base, out_inode,
                 intent_revision, intent_hash, intent_inode, intent_mode, intent_at, aside_slot, aside_inode)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                 ON CONFLICT (workflow, path) DO UPDATE SET file_base = excluded.file_base, out_base = excluded.out_base,
                 out_inode = excluded.out_inode, intent_revision = excluded.intent_revision, intent_hash = excluded.intent_hash,
                 intent_inode = excluded.intent_inode, intent_mode = excluded.intent_mode, intent_at = excluded.intent_at,
                 aside_slot = excluded.aside_slot, aside_inode = excluded.aside_inode",
            )?
            .execute(params![
                self.workflow.get(),
                self.path.as_str(),
                file.map(BaseNumber::get),
                out.and_then(|out| out.base).map(BaseNumber::get),
                out.and_then(|out| out.inode).map(u64::cast_signed),
                intent.map(|intent| intent.revision.get()),
                intent.map(|intent| intent.hash),
                intent.map(|intent| intent.inode.cast_signed()),
                intent.map(|intent| intent.mode.word()),
                intent.map(|intent| intent.at.get()),
                aside.map(|aside| aside.slot.word()),
                aside.map(|aside| aside.inode.cast_signed()),
            ])?;
        Ok(())
    }

    /// Adds a base after the newest one of `state`.
    pub(crate) fn add_base(
        &self,
        state: &FileState,
        text: &BaseText<'_>,
        hash: &Hash,
        replaced: Option<Millis>,
    ) -> Result<BaseNumber> {
        let number = state.bases.last().map_or(0, |base| base.number.get()) + 1;
        let (revision, text) = match text {
            BaseText::Revision(revision) => (Some(revision.get()), None),
            BaseText::Text(text) => (None, Some(*text)),
        };
        let (workflow, path) = (self.workflow.get(), self.path.as_str());
        let replaced = replaced.map(Millis::get);
        self.db
            .prepare_cached(
                "INSERT INTO file_base (workflow, path, number, hash, revision, text, replaced)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![workflow, path, number, hash, revision, text, replaced])?;
        Ok(BaseNumber::new(number))
    }

    /// Records that another text replaced a base in the file.
    pub(crate) fn mark_replaced(&self, base: BaseNumber, at: Millis) -> Result<()> {
        self.db
            .prepare_cached(
                "UPDATE file_base SET replaced = ?4 WHERE workflow = ?1 AND path = ?2 AND number = ?3",
            )?
            .execute(params![self.workflow.get(), self.path.as_str(), base.get(), at.get()])?;
        Ok(())
    }

    /// Deletes the bases that are in no slot and were replaced before `before`.
    pub(crate) fn delete_replaced_bases(&self, state: &FileState, before: Millis) -> Result<()> {
        let out = state.out.and_then(|out| out.base);
        let [file, out] = [state.file, out].map(|base| base.map_or(-1, BaseNumber::get));
        self.db
            .prepare_cached(
                "DELETE FROM file_base WHERE workflow = ?1 AND path = ?2 AND replaced < ?3 AND number NOT IN (?4, ?5)",
            )?
            .execute(params![self.workflow.get(), self.path.as_str(), before.get(), file, out])?;
        Ok(())
    }

    /// Deletes the marks of earlier versions: both slots have bases now.
    fn delete_marks(&self) -> Result<()> {
        self.db
            .prepare_cached("DELETE FROM taken WHERE workflow = ?1 AND path = ?2")?
            .execute(params![self.workflow.get(), self.path.as_str()])?;
        Ok(())
    }

    fn bases(&self) -> Result<Vec<FileBase>> {
        let sql = "SELECT number, revision, replaced, hash FROM file_base
            WHERE workflow = ?1 AND path = ?2 ORDER BY number";
        let mut query = self.db.prepare_cached(sql)?;
        let mut rows = query.query(params![self.workflow.get(), self.path.as_str()])?;
        let mut bases = Vec::new();
        while let Some(row) = rows.next()? {
            let revision = row.get::<Option<i64>>(1)?.map(Revision::new);
            let hash = match row.get(3)? {
                Some(hash) => hash,
                None => self.revision_hash(revision)?,
            };
            let number = BaseNumber::new(row.get(0)?);
            let replaced = columns::optional(&row, 2, columns::millis)?;
            bases.push(FileBase { number, hash, revision, replaced });
        }
        Ok(bases)
    }

    /// Returns the hash of a base that an earlier version recorded; for a deleted revision, one that no text has.
    fn revision_hash(&self, revision: Option<Revision>) -> Result<Hash> {
        let text = match revision {
            Some(revision) => self.revision_text(revision)?,
            None => None,
        };
        Ok(text.map_or([0; 32], |text| hash(&[text.as_bytes()])))
    }

    fn revision_text(&self, revision: Revision) -> Result<Option<String>> {
        let found = documents::get(
            self.db,
            self.workflow,
            self.path,
            RevisionSelector::Revision(revision),
        )?;
        Ok(found.map(|document| document.content))
    }
}

fn read_state(row: &Row<'_>) -> db::Result<FileState> {
    let number = |column| row.get::<Option<i64>>(column);
    let base = |column| number(column).map(|number| number.map(BaseNumber::new));
    let (out_base, out_inode) = (base(1)?, number(2)?.map(i64::cast_unsigned));
    let has_out = out_base.is_some() || out_inode.is_some();
    let intent = match number(3)? {
        Some(revision) => Some(FileIntent {
            revision: Revision::new(revision),
            hash: row.get(4)?,
            inode: row.get::<i64>(5)?.cast_unsigned(),
            mode: columns::word(row, 6)?,
            at: columns::millis(row, 7)?,
        }),
        None => None,
    };
    let aside = match number(9)? {
        Some(inode) => {
            Some(PendingConflictFile { slot: columns::word(row, 8)?, inode: inode.cast_unsigned() })
        }
        None => None,
    };
    Ok(FileState {
        file: base(0)?,
        out: has_out.then_some(OutSlot { base: out_base, inode: out_inode }),
        intent,
        conflict_file: aside,
        ..FileState::default()
    })
}
