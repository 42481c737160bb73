//! What was decided, as a file to read. Nobody writes it: it is replaced when more is decided, and what somebody put there
//! all the same is treated as any other text that could not be merged.

use std::{io, sync::Arc};

use agent_worker_kernel::{DECISIONS, FileSlot as Slot, Shelf};
use agent_worker_protocol::DocumentPath;

use super::{
    Trouble, blocking,
    folder::{Access, Folder, Key, Seen, Text},
};

/// What is known of the file.
#[derive(Default)]
pub(super) struct Decisions {
    /// How many votes were over when it last said everything, and the file as it stood then.
    said: Option<(u64, Key)>,
}

impl Decisions {
    /// Brings the file up to date. Answers with its path where it is ours; a person's text there is for others to see to.
    pub(super) async fn keep(
        &mut self,
        documents: &Shelf,
        folder: &Arc<Folder>,
    ) -> Result<Option<DocumentPath>, Trouble> {
        let (ended, Ok(path)) = (documents.ended().await?, DECISIONS.parse::<DocumentPath>())
        else {
            return Ok(None);
        };
        if ended == 0 {
            return Ok(None);
        }
        let (inside, name, said) = (Arc::clone(folder), path.clone(), self.said);
        if blocking(move || stands(&inside, &name, said, ended)).await? {
            return Ok(Some(path));
        }
        let Some(text) = documents.decisions().await? else { return Ok(None) };
        let (inside, name) = (Arc::clone(folder), path.clone());
        let key = blocking(move || put(&inside, &name, &text)).await?;
        self.said = key.map(|key| (ended, key));
        Ok(key.map(|_| path))
    }
}

/// Whether the file says everything: nothing was decided since it did, and nobody was there.
fn stands(
    folder: &Folder,
    name: &DocumentPath,
    said: Option<(u64, Key)>,
    ended: u64,
) -> io::Result<bool> {
    let Some((then, key)) = said else { return Ok(false) };
    Ok(then == ended
        && folder.look(name, Slot::File)? == Seen::File(key)
        && folder.look(name, Slot::Out)? == Seen::Nothing)
}

/// Makes the file say `text`, and tells how it stands then; none, if what lies there is not ours.
fn put(folder: &Folder, name: &DocumentPath, text: &str) -> io::Result<Option<Key>> {
    if folder.look(name, Slot::File)? == Seen::Strange {
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
    let key = folder.put(name, text, Access::Read)?;
    // Whoever was quicker than the exchange finds what they wrote there, and it is seen to like any other.
    if folder.read_beyond(name, Slot::Out, text.len())?.is_none_or(|out| is_ours(&out, text)) {
        folder.drop_out(name)?;
    }
    Ok(Some(key))
}

/// What was decided is only ever added to: what the file held before is how it begins now.
fn is_ours(there: &Text, text: &str) -> bool {
    text.as_bytes().starts_with(&there.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decided_is_written_once_however_long_it_is() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), &["documents".to_owned()]).unwrap();
        let name: DocumentPath = DECISIONS.parse().unwrap();
        let text = "decided\n".repeat(700_000);
        let key = put(&folder, &name, &text).unwrap();
        assert!(key.is_some() && text.len() > 5 * 1024 * 1024);
        assert_eq!(put(&folder, &name, &text).unwrap(), key, "it says so already");
        let said = key.map(|key| (3, key));
        assert!(stands(&folder, &name, said, 3).unwrap());
        assert!(!stands(&folder, &name, said, 4).unwrap(), "more was decided");
        assert!(!stands(&folder, &name, None, 3).unwrap(), "nobody knows what lies there");
        let longer = format!("{text}decided\n");
        let after = put(&folder, &name, &longer).unwrap();
        assert!(after.is_some() && after != key);
        assert!(!stands(&folder, &name, said, 3).unwrap(), "somebody was there");
        // What somebody changed far behind the beginning is theirs all the same.
        let file = place.path().join("documents").join(DECISIONS);
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, format!("{text}I decide.\n")).unwrap();
        assert_eq!(put(&folder, &name, &longer).unwrap(), None);
    }
}
