//! The storage of a document's revisions: as the whole text, or as the addition to the previous revision.
//!
//! Invariant: a whole text and its additions are of one run and have consecutive numbers. The number of such pieces
//! is limited by the length of the text, so that the cost of a read does not grow with history.

use agent_worker_protocol::{DocumentPath, Epoch, Millis, Revision, WorkflowId};

use super::{
    author::Author,
    checksum::{self, Checksum, DOCUMENT},
    columns::{self, RunNo},
    locked_instance::LockedInstance,
};
use crate::{
    damage::DamagedRow,
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::{Document, DocumentInfo},
};

/// The cost of reading one piece, as a number of bytes of text.
const PIECE_COST_BYTES: i64 = 64;

/// The newest revision, and the whole text that it is or that it was added to.
pub(crate) struct NewestRevision {
    pub(crate) revision: Revision,
    run: Option<RunNo>,
    pub(crate) bytes: usize,
    pub(crate) whole: Revision,
    whole_bytes: i64,
    /// The damaged one of the two rows, if any: a write cannot add to it.
    damaged: Option<DamagedRow>,
}

impl NewestRevision {
    pub(crate) fn find(
        db: &Connection,
        workflow: WorkflowId,
        path: &DocumentPath,
    ) -> Result<Option<Self>> {
        let check = DOCUMENT.check;
        let of_whole = check.replace("d.", "w.");
        let sql = format!(
            "SELECT d.revision, d.run, d.bytes, w.revision, w.bytes, coalesce({check}, {of_whole}) FROM document d
            JOIN document w ON w.workflow = d.workflow AND w.path = d.path AND w.revision = coalesce(d.whole, d.revision)
            WHERE d.workflow = ?1 AND d.path = ?2 ORDER BY d.revision DESC LIMIT 1"
        );
        Ok(db
            .prepare_cached(&sql)?
            .query_row(params![workflow.get(), path.as_str()], |row| {
                Ok(Self {
                    revision: Revision::new(row.get(0)?),
                    run: row.get::<Option<i64>>(1)?.map(RunNo),
                    bytes: usize::try_from(columns::size(row, 2)?).unwrap_or(usize::MAX),
                    whole: Revision::new(row.get(3)?),
                    whole_bytes: row.get(4)?,
                    damaged: row.get::<Option<String>>(5)?.map(|key| DOCUMENT.damaged_row(&key)),
                })
            })
            .optional()?)
    }

    /// Returns an error if a write cannot add to the document. A damaged document can still be replaced.
    pub(crate) fn require_intact(&self) -> Result<&Self> {
        self.damaged.as_ref().map_or(Ok(self), |row| Err(Error::Damaged(row.clone())))
    }

    /// Returns true if the next revision may be stored as an addition. The content of another run may be deleted, and
    /// reading each piece costs as much as [`PIECE_COST_BYTES`] of text.
    pub(crate) fn can_append(&self, run: Option<RunNo>) -> bool {
        let pieces = self.revision.get() - self.whole.get() + 1;
        self.run == run && pieces * PIECE_COST_BYTES <= self.whole_bytes
    }
}

/// A revision in its stored form.
pub(crate) struct StoredRevision<'a> {
    /// Whole text, or the addition.
    pub(crate) content: &'a str,
    /// Length of the whole text.
    pub(crate) bytes: usize,
    /// Whole revision that this one adds to, through the revisions in between; none for a whole text.
    pub(crate) whole: Option<Revision>,
}

impl<'a> StoredRevision<'a> {
    /// Makes a revision with its whole text.
    pub(crate) fn whole(content: &'a str) -> Self {
        Self { content, bytes: content.len(), whole: None }
    }

    pub(crate) fn insert(
        &self,
        locked: &LockedInstance<'_>,
        author: &Author,
        (path, revision): (&DocumentPath, Revision),
        now: Millis,
    ) -> Result<()> {
        locked.tx
            .prepare_cached(
                "INSERT INTO document (workflow, path, revision, run, author, epoch, bytes, at, content, whole, content_hash, checksum)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
                 row_checksum('document', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?10, ?11))",
            )?
            .execute(params![
                locked.workflow.get(),
                path.as_str(),
                revision.get(),
                locked.live_run_if_any().map(|live| live.number.0),
                author.sender().to_string(),
                author.epoch().map(Epoch::get),
                columns::size_column(self.bytes),
                now.get(),
                self.content,
                self.whole.map(Revision::get),
                checksum::of(self.content.as_bytes())
            ])?;
        Ok(())
    }
}

/// Reads the whole text and everything that was added to it.
pub(crate) fn assemble_document(
    db: &Connection,
    workflow: WorkflowId,
    info: DocumentInfo,
    whole: Revision,
) -> Result<Document> {
    let sql = format!(
        "SELECT d.revision, d.content, d.content_hash, {} FROM document d
        WHERE d.workflow = ?1 AND d.path = ?2 AND d.revision BETWEEN ?3 AND ?4 ORDER BY d.revision",
        DOCUMENT.check
    );
    let (path, revision) = (&info.path, info.revision);
    let mut query = db.prepare_cached(&sql)?;
    let mut rows =
        query.query(params![workflow.get(), path.as_str(), whole.get(), revision.get()])?;
    let mut text = String::new();
    while let Some(row) = rows.next()? {
        DOCUMENT.verify(&row, 3)?;
        text += verified_content(&row, workflow, path)?;
    }
    if text.len() as u64 == info.bytes {
        return Ok(Document { info, content: text });
    }
    // A row is missing, or was found under another number.
    Err(Error::Damaged(DOCUMENT.damaged_row(&format!("{workflow} {path} {revision}"))))
}

/// Reads the text of a revision from the columns `revision`, `content` and `content_hash`, if it is intact.
pub(crate) fn verified_content<'r>(
    row: &'r Row<'_>,
    workflow: WorkflowId,
    path: &DocumentPath,
) -> Result<&'r str> {
    let text = row.get_ref(1)?;
    let bytes = text.as_bytes().map_err(db::Error::from)?;
    match row.get::<Option<Checksum>>(2)? {
        Some(hash) if hash != checksum::of(bytes) => {
            let revision: i64 = row.get(0)?;
            Err(Error::Damaged(DOCUMENT.damaged_row(&format!("{workflow} {path} {revision}"))))
        }
        Some(_) | None => Ok(text.as_str().map_err(db::Error::from)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_takes_pieces_in_proportion_to_its_length_and_of_its_own_run_only() {
        let (first, second) = (Some(RunNo(1)), Some(RunNo(2)));
        let tip = |revision, whole_bytes| NewestRevision {
            revision: Revision::new(revision),
            run: first,
            bytes: 0,
            whole: Revision::new(5),
            whole_bytes,
            damaged: None,
        };
        for (revision, whole_bytes, run, expected) in [
            (5, 0, first, false),
            (5, PIECE_COST_BYTES - 1, first, false),
            (5, PIECE_COST_BYTES, first, true),
            (6, PIECE_COST_BYTES, first, false),
            (14, 10 * PIECE_COST_BYTES, first, true),
            (15, 10 * PIECE_COST_BYTES, first, false),
            (5, 10 * PIECE_COST_BYTES, second, false),
            (5, 10 * PIECE_COST_BYTES, None, false),
        ] {
            let can_grow = tip(revision, whole_bytes).can_append(run);
            assert_eq!(can_grow, expected, "revision {revision} of {whole_bytes} bytes, {run:?}");
        }
    }
}
