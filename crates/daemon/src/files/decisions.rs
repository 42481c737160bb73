//! What was decided, as a file to read. Nobody writes it: it is replaced when more is decided, and what somebody put there
//! all the same is treated as any other text that could not be merged.

use std::sync::Arc;

use agent_worker_kernel::{DECISIONS, Shelf};
use agent_worker_protocol::DocumentPath;

use super::{
    Trouble, blocking,
    folder::{Access, Folder, Seen, Slot, Text},
};

/// Brings the file up to date. Answers with its path where it is ours; a person's text there is for others to see to.
pub(super) async fn keep(
    shelf: &Shelf,
    folder: &Arc<Folder>,
) -> Result<Option<DocumentPath>, Trouble> {
    let (Some(text), Ok(path)) = (shelf.decisions().await?, DECISIONS.parse::<DocumentPath>())
    else {
        return Ok(None);
    };
    let (folder, name) = (Arc::clone(folder), path.clone());
    let is_ours = blocking(move || {
        if folder.look(&name, Slot::File)? == Seen::Strange {
            return Ok(false);
        }
        for slot in [Slot::Out, Slot::File] {
            match folder.read(&name, slot)? {
                Some(there) if !is_ours(&there, &text) => return Ok(false),
                Some(there) if slot == Slot::File && there.bytes == text.as_bytes() => {
                    return Ok(true);
                }
                Some(_) | None => {}
            }
        }
        folder.put(&name, &text, Access::Read)?;
        // Whoever was quicker than the exchange finds what they wrote there, and it is seen to like any other.
        if folder.read(&name, Slot::Out)?.is_none_or(|out| is_ours(&out, &text)) {
            folder.drop_out(&name)?;
        }
        Ok(true)
    })
    .await?;
    Ok(is_ours.then_some(path))
}

/// What was decided is only ever added to: what the file held before is how it begins now.
fn is_ours(there: &Text, text: &str) -> bool {
    text.as_bytes().starts_with(&there.bytes)
}
