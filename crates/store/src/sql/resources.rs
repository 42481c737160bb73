//! Resources: content kept once under its SHA-256, in a row or, when it is large, in a file.
//!
//! A whole read is verified by the SHA-256, a range by the checksums of its blocks. Ranges of resources that an earlier
//! version kept have none and are not verified.
//!
//! Invariant: a row without content has its file. A file is complete and on disk before its row is written, and is
//! removed only by the writer thread, after its row.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Read, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use agent_worker_protocol::{Millis, ResourceId, Sender, WorkflowId};
use sha2::{Digest, Sha256};

use super::{
    author::Author,
    checksum::{self, Checksum, RESOURCE},
    columns,
    locked_instance::LockedInstance,
    transaction::Tx,
};
use crate::{
    damage::{self, DamagedRow},
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::{ListRange, ResourceInfo, ResourceKey, ResourcePart, WriteContext},
};

/// A longer content is a file: a row of this size would be copied through the log.
const MAX_ROW_BYTES: usize = 1024 * 1024;
/// The size of a block. A range is verified by the checksums of the blocks it touches. The last block may be shorter.
const BLOCK_BYTES: usize = 64 * 1024;

/// A resource to be stored.
pub(crate) struct NewResource {
    pub(crate) id: ResourceId,
    pub(crate) workflow: WorkflowId,
    pub(crate) kind: String,
    pub(crate) content: Vec<u8>,
    /// Checksums of its blocks.
    blocks: Vec<u8>,
}

/// The outcome of writing a resource's row.
pub(crate) enum ResourcePutOutcome {
    Stored,
    /// The file was removed together with an older row in the meantime: it has to be written again.
    FileGone,
}

/// The folder of the large resources.
#[derive(Clone)]
pub(crate) struct ResourceFiles(PathBuf);

impl NewResource {
    pub(crate) fn new(workflow: WorkflowId, kind: String, content: Vec<u8>) -> Self {
        let id = ResourceId::new(Sha256::digest(&content).into());
        let blocks = content.chunks(BLOCK_BYTES).flat_map(checksum::of).collect();
        Self { id, workflow, kind, content, blocks }
    }

    pub(crate) fn is_large(&self) -> bool {
        self.content.len() > MAX_ROW_BYTES
    }

    /// Writes the row; with `files`, the content of a large resource is on disk already.
    pub(crate) fn insert_row(
        &self,
        tx: &Tx<'_>,
        by: &WriteContext,
        files: Option<&ResourceFiles>,
        now: Millis,
    ) -> Result<ResourcePutOutcome> {
        let locked = LockedInstance::lock(tx, self.workflow)?;
        let author = Author::authorize(&locked, &by.actor)?;
        self.insert_locked(&locked, &author.sender(), files, now)
    }

    /// Writes the row of a resource in a transaction that has locked the instance.
    pub(crate) fn insert_locked(
        &self,
        locked: &LockedInstance<'_>,
        creator: &Sender,
        files: Option<&ResourceFiles>,
        now: Millis,
    ) -> Result<ResourcePutOutcome> {
        let file = files.filter(|_| self.is_large());
        if let Some(files) = file
            && !files.path(self.workflow, self.id).try_exists()?
        {
            return Ok(ResourcePutOutcome::FileGone);
        }
        // A resource of a forgotten run that a later run stores again belongs to the later run.
        locked.tx.prepare_cached(
            "INSERT INTO resource (workflow, sha256, run, kind, bytes, at, content, blocks, created_by, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, row_checksum('resource', ?1, ?2, ?4, ?5, ?6, ?8, ?9))
             ON CONFLICT (workflow, sha256) DO UPDATE SET run = excluded.run
             WHERE resource.run IN (SELECT id FROM run WHERE workflow = ?1 AND keep = 'while_live')",
        )?
        .execute(params![
            self.workflow.get(),
            self.id.get(),
            locked.live_run_if_any().map(|live| live.number.0),
            self.kind,
            columns::size_column(self.content.len()),
            now.get(),
            if file.is_some() { None } else { Some(&self.content) },
            self.blocks,
            creator.to_string()
        ])?;
        Ok(ResourcePutOutcome::Stored)
    }
}

impl ResourceFiles {
    /// Uses `folder`, and deletes the files that the last process left unfinished.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self> {
        let files = Self(folder.join("resources"));
        match fs::remove_dir_all(files.unfinished_folder()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            Ok(()) | Err(_) => Ok(files),
        }
    }

    /// Writes a large resource's content to disk: complete under its name, or not at all.
    pub(crate) fn write(&self, new: &NewResource) -> Result<()> {
        /// Distinguishes writers of the same content.
        static WRITERS: AtomicU64 = AtomicU64::new(0);
        let folder = self.0.join(new.workflow.to_string());
        for folder in [&folder, &self.unfinished_folder()] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let path = self.path(new.workflow, new.id);
        if !path.try_exists()? {
            let number = WRITERS.fetch_add(1, Ordering::Relaxed);
            let unfinished = self.unfinished_folder().join(number.to_string());
            let written = write_synced(&unfinished, &new.content)
                .and_then(|()| fs::rename(&unfinished, path));
            if let Err(error) = written {
                // On a full disk a partial file takes space from other writes; if it cannot be removed now, the next
                // start removes it.
                drop(fs::remove_file(&unfinished));
                return Err(error.into());
            }
        }
        // The names too, up to the folder that existed before; also for a file that another writer has just put here.
        for folder in [folder.as_path(), &self.0].into_iter().chain(self.0.parent()) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    /// Removes an instance's files that have no row. Only the writer thread calls it: it may also remove a file whose
    /// row is about to be written, and the insertion of that row detects the missing file.
    pub(crate) fn sweep(&self, tx: &Tx<'_>, workflow: WorkflowId) -> Result<()> {
        let entries = match fs::read_dir(self.0.join(workflow.to_string())) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut query =
            tx.prepare_cached("SELECT 1 FROM resource WHERE workflow = ?1 AND sha256 = ?2")?;
        for entry in entries {
            let entry = entry?;
            let id = entry.file_name().to_str().and_then(|name| name.parse::<ResourceId>().ok());
            let Some(id) = id else { continue };
            if !query.exists(params![workflow.get(), id.get()])? {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn path(&self, workflow: WorkflowId, id: ResourceId) -> PathBuf {
        self.0.join(workflow.to_string()).join(id.to_string())
    }

    fn unfinished_folder(&self) -> PathBuf {
        self.0.join("unfinished")
    }
}

pub(crate) fn get(
    db: &Connection,
    workflow: WorkflowId,
    id: ResourceId,
    range: &Range<u64>,
    files: Option<&ResourceFiles>,
) -> Result<ResourcePart> {
    let Some(kept) = StoredResource::find(db, workflow, id)? else {
        return Err(Error::NotFound("resource"));
    };
    let total = kept.total;
    let start = range.start.min(total);
    let end = range.end.min(total).max(start);
    let block = BLOCK_BYTES as u64;
    // A read returns whole blocks.
    let read = match kept.blocks {
        Some(_) => start / block * block..end.next_multiple_of(block).min(total),
        None => start..end,
    };
    let mut bytes = kept.read(db, &read, files)?;
    let is_intact = if start == 0 && end == total {
        ResourceId::new(Sha256::digest(&bytes).into()) == id
    } else {
        kept.matches_blocks(&bytes, read.start)
    };
    if !is_intact || bytes.len() as u64 != read.end - read.start {
        return Err(kept.damaged_error());
    }
    let skipped = usize::try_from(start - read.start).unwrap_or(usize::MAX);
    bytes.drain(..skipped.min(bytes.len()));
    bytes.truncate(usize::try_from(end - start).unwrap_or(usize::MAX));
    Ok(ResourcePart { kind: kept.kind, created_by: kept.created_by, total, bytes })
}

/// A resource's row, without its content.
struct StoredResource {
    workflow: WorkflowId,
    id: ResourceId,
    kind: String,
    created_by: Option<Sender>,
    total: u64,
    in_file: bool,
    blocks: Option<Vec<u8>>,
}

impl StoredResource {
    fn find(db: &Connection, workflow: WorkflowId, id: ResourceId) -> Result<Option<Self>> {
        let sql = format!(
            "SELECT s.kind, s.bytes, s.content IS NULL, s.blocks, {}, s.created_by FROM resource s
            WHERE s.workflow = ?1 AND s.sha256 = ?2",
            RESOURCE.check
        );
        let found = db.prepare_cached(&sql)?.query_row((workflow.get(), id.get()), |row| {
            RESOURCE.verify(row, 4)?;
            Ok(Self {
                workflow,
                id,
                kind: row.get(0)?,
                created_by: creator(row, 5)?,
                total: columns::size(row, 1)?,
                in_file: row.get(2)?,
                blocks: row.get(3)?,
            })
        });
        Ok(found.optional()?)
    }

    /// Reads a range of the content, as far as it exists.
    fn read(
        &self,
        db: &Connection,
        range: &Range<u64>,
        files: Option<&ResourceFiles>,
    ) -> Result<Vec<u8>> {
        let length = range.end - range.start;
        if let Some(files) = files.filter(|_| self.in_file) {
            return match read_file_range(&files.path(self.workflow, self.id), range.start, length) {
                Err(Error::File(error)) if error.kind() == ErrorKind::NotFound => {
                    Err(self.damaged_error())
                }
                other => other,
            };
        }
        // `substr` of an empty blob is NULL.
        let sql =
            "SELECT CASE length(content) WHEN 0 THEN content ELSE substr(content, ?3 + 1, ?4) END
             FROM resource WHERE workflow = ?1 AND sha256 = ?2";
        let values = params![
            self.workflow.get(),
            self.id.get(),
            columns::size_column(range.start),
            columns::size_column(length)
        ];
        let content: Option<Vec<u8>> =
            db.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
        content.ok_or_else(|| self.damaged_error())
    }

    /// Returns true if `bytes`, which begin with the block at `start`, are the blocks that were written.
    fn matches_blocks(&self, bytes: &[u8], start: u64) -> bool {
        let Some(blocks) = &self.blocks else { return true };
        let first = usize::try_from(start / BLOCK_BYTES as u64).unwrap_or(usize::MAX);
        let mut written = blocks.chunks(size_of::<Checksum>()).skip(first);
        bytes
            .chunks(BLOCK_BYTES)
            .all(|block| written.next() == Some(checksum::of(block).as_slice()))
    }

    fn damaged_error(&self) -> Error {
        Error::Damaged(RESOURCE.damaged_row(&format!("{} {}", self.workflow, self.id)))
    }
}

/// Reads every resource whole; returns those that are damaged.
pub(crate) fn verify(db: &Connection, files: Option<&ResourceFiles>) -> Result<Vec<DamagedRow>> {
    let keys = db
        .prepare_cached("SELECT workflow, sha256 FROM resource")?
        .query_map((), |row| Ok((row.get(0)?, row.get(1).ok())))?
        .collect::<db::Result<Vec<(i64, Option<[u8; 32]>)>>>()?;
    let mut damaged = Vec::new();
    for (workflow, id) in keys {
        // A key that cannot be converted does not match its row's checksum either.
        let Some(id) = id.map(ResourceId::new) else { continue };
        let workflow = WorkflowId::new(workflow);
        match get(db, workflow, id, &(0..u64::MAX), files) {
            Ok(_) => {}
            Err(Error::Damaged(row)) => damaged.push(row),
            Err(error) => return Err(error),
        }
    }
    Ok(damaged)
}

pub(crate) fn list_sql() -> String {
    format!(
        "SELECT s.sha256, s.kind, s.bytes, s.at, {}, s.created_by FROM resource s INDEXED BY resource_newest
        WHERE s.workflow = ?1 AND s.at <= ?2 AND (s.at < ?2 OR s.sha256 > ?3) ORDER BY s.at DESC, s.sha256",
        RESOURCE.check
    )
}

/// Lists the resources of an instance, newest first.
pub(crate) fn list(
    db: &Connection,
    workflow: WorkflowId,
    range: ListRange<ResourceKey>,
) -> Result<Vec<ResourceInfo>> {
    let mut statement = db.prepare_cached(&list_sql())?;
    let at = range.after.map_or(i64::MAX, |key| key.ts.get());
    let id = range.after.map_or([0; 32], |key| key.id.get());
    let found = statement.query_map(params![workflow.get(), at, id], |row| {
        RESOURCE.verify(row, 4)?;
        Ok(ResourceInfo {
            id: ResourceId::new(row.get(0)?),
            kind: row.get(1)?,
            bytes: columns::size(row, 2)?,
            ts: columns::millis(row, 3)?,
            created_by: creator(row, 5)?,
        })
    })?;
    damage::take_intact(found, range.limit)
}

fn creator(row: &Row<'_>, column: usize) -> db::Result<Option<Sender>> {
    Ok(row.get::<Option<String>>(column)?.map(Sender::from))
}

fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn read_file_range(path: &Path, start: u64, length: u64) -> Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{database::Database, sql::instances};

    #[tokio::test]
    async fn a_file_that_went_while_its_row_was_on_the_way_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let files = ResourceFiles::in_folder(folder.path()).unwrap();
        let database = Database::open(folder.path()).unwrap();
        let came_to = database.write(move |tx| {
            let workflow = instances::open(tx, "/p", &"w".parse().unwrap())?;
            let new = NewResource::new(workflow, "t".into(), vec![7; MAX_ROW_BYTES + 1]);
            let put = || new.insert_row(tx, &WriteContext::system(), Some(&files), Millis::new(1));
            files.write(&new)?;
            files.sweep(tx, workflow)?;
            let missed = matches!(put()?, ResourcePutOutcome::FileGone);
            files.write(&new)?;
            let kept = matches!(put()?, ResourcePutOutcome::Stored);
            files.sweep(tx, workflow)?;
            Ok((missed, kept, files.path(workflow, new.id).exists()))
        });
        assert_eq!(came_to.await.unwrap(), (true, true, true));
    }
}
