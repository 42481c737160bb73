//! The decisions of an instance as a read-only file. The daemon replaces it after each decision; a text that a
//! person writes there is handled like any other text that cannot be merged.

use std::{io, sync::Arc};

use agent_worker_kernel::{DECISIONS_FILE, DocumentFiles, FileSlot as Slot};
use agent_worker_protocol::DocumentPath;

use super::{
    FileSyncError,
    folder::{FileAccess, FileStamp, FileText, Folder, SlotContent},
    run_blocking,
};

/// The last known state of the decisions file.
#[derive(Default)]
pub(super) struct DecisionsFile {
    /// The number of ended votes that the last complete file included, and the stamp of that file.
    last_written: Option<(u64, FileStamp)>,
}

impl DecisionsFile {
    /// Brings the file up to date. Returns its path if the file is ours; the document sync handles a person's text.
    pub(super) async fn sync(
        &mut self,
        documents: &DocumentFiles,
        folder: &Arc<Folder>,
    ) -> Result<Option<DocumentPath>, FileSyncError> {
        let (ended, Ok(path)) =
            (documents.ended_vote_count().await?, DECISIONS_FILE.parse::<DocumentPath>())
        else {
            return Ok(None);
        };
        if ended == 0 {
            return Ok(None);
        }
        let (inside, name, last_written) = (Arc::clone(folder), path.clone(), self.last_written);
        if run_blocking(move || is_up_to_date(&inside, &name, last_written, ended)).await? {
            return Ok(Some(path));
        }
        let Some(text) = documents.decisions().await? else { return Ok(None) };
        let (inside, name) = (Arc::clone(folder), path.clone());
        let key = run_blocking(move || write_decisions(&inside, &name, &text)).await?;
        self.last_written = key.map(|key| (ended, key));
        Ok(key.map(|_| path))
    }
}

/// Returns true if the file is complete: no vote has ended since, and the file is unmodified.
fn is_up_to_date(
    folder: &Folder,
    name: &DocumentPath,
    last_written: Option<(u64, FileStamp)>,
    ended: u64,
) -> io::Result<bool> {
    let Some((then, key)) = last_written else { return Ok(false) };
    Ok(then == ended
        && folder.stat_slot(name, Slot::File)? == SlotContent::File(key)
        && folder.stat_slot(name, Slot::Out)? == SlotContent::Missing)
}

/// Writes `text` to the file and returns its stamp, or none if the existing file is not ours.
fn write_decisions(
    folder: &Folder,
    name: &DocumentPath,
    text: &str,
) -> io::Result<Option<FileStamp>> {
    if folder.stat_slot(name, Slot::File)? == SlotContent::NotAFile {
        return Ok(None);
    }
    for slot in [Slot::Out, Slot::File] {
        match folder.read_beyond(name, slot, text.len())? {
            Some(there) if !is_ours(&there, text) => return Ok(None),
            Some(there) if slot == Slot::File && there.bytes == text.as_bytes() => {
                return Ok(Some(there.key));
            }
            Some(_) | None => {}
        }
    }
    let key = folder.stage_and_exchange(name, text, FileAccess::Read)?;
    // A text that was saved just before the exchange is in the out slot now; it is handled like any other.
    if folder.read_beyond(name, Slot::Out, text.len())?.is_none_or(|out| is_ours(&out, text)) {
        folder.remove_out_slot(name)?;
    }
    Ok(Some(key))
}

/// Decisions are append-only: every older content of the file is a prefix of the new text.
fn is_ours(there: &FileText, text: &str) -> bool {
    text.as_bytes().starts_with(&there.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decided_is_written_once_however_long_it_is() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), &["documents".to_owned()]).unwrap();
        let name: DocumentPath = DECISIONS_FILE.parse().unwrap();
        let text = "decided\n".repeat(700_000);
        let key = write_decisions(&folder, &name, &text).unwrap();
        assert!(key.is_some() && text.len() > 5 * 1024 * 1024);
        assert_eq!(write_decisions(&folder, &name, &text).unwrap(), key, "it says so already");
        let last_written = key.map(|key| (3, key));
        assert!(is_up_to_date(&folder, &name, last_written, 3).unwrap());
        assert!(!is_up_to_date(&folder, &name, last_written, 4).unwrap(), "more was decided");
        assert!(!is_up_to_date(&folder, &name, None, 3).unwrap(), "nobody knows what lies there");
        let longer = format!("{text}decided\n");
        let after = write_decisions(&folder, &name, &longer).unwrap();
        assert!(after.is_some() && after != key);
        assert!(!is_up_to_date(&folder, &name, last_written, 3).unwrap(), "somebody was there");
        // An edit far behind the start still belongs to the person.
        let file = place.path().join("documents").join(DECISIONS_FILE);
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, format!("{text}I decide.\n")).unwrap();
        assert_eq!(write_decisions(&folder, &name, &longer).unwrap(), None);
    }
}
