//! Chooses the base of a person's text and merges the text. Pure.

use agent_worker_protocol::{Hash, Millis};
use agent_worker_store::{BaseNumber, FileSlot, FileState, ImportOutcome};

use crate::{
    documents::MAX_DOCUMENT_BYTES,
    documents::line_merge::{self, MergedText},
};

/// Maximum age of an editor's buffer at the time it is saved. A text that was replaced earlier than that was
/// replaced knowingly.
const STALE_BUFFER_MILLIS: i64 = 3_000;

/// A person's text that was found in a slot.
#[derive(Clone, Debug)]
pub struct FoundText {
    /// Slot of the file.
    pub slot: FileSlot,
    /// Inode of the file.
    pub inode: u64,
    /// The text, or the reason why the file has none.
    pub text: Result<String, String>,
    /// Hash of the file's bytes.
    pub hash: Hash,
    /// Save time of the file.
    pub saved: Millis,
    /// Hash of file, time and content: the mark that versions without bases recorded.
    pub mark: Hash,
    /// True if the base of the text cannot be known: such a text is never merged.
    pub has_unknown_base: bool,
}

/// Returns the time limit of bases: a text replaced before it is no base of a text saved at `saved`.
pub(crate) fn stale_before(saved: Millis) -> Millis {
    Millis::new(saved.get().saturating_sub(STALE_BUFFER_MILLIS))
}

/// Returns the possible bases of a text in a slot: the slot's own first, then those that were in the file shortly
/// before the save, newest first.
pub(crate) fn merge_bases(state: &FileState, slot: FileSlot, saved: Millis) -> Vec<BaseNumber> {
    let own = state.base(slot).map(|base| base.number);
    let recent = |replaced: Option<Millis>| replaced.is_none_or(|at| at >= stale_before(saved));
    let others = state.bases.iter().rev().filter(|base| recent(base.replaced));
    let others = others.map(|base| base.number).filter(|number| Some(*number) != own);
    own.into_iter().chain(others).collect()
}

/// Merges a person's text. Of the bases, it chooses one without a conflict, then the one that removes the fewest lines of
/// the head, then the nearest, then the first.
pub(crate) fn take_outcome(bases: &[String], head: &str, text: &str) -> ImportOutcome {
    let candidates = bases.iter().map(|base| line_merge::merge(base, head, text));
    let best =
        candidates.min_by_key(|merged| (merged.has_conflict, merged.removed, merged.distance));
    let Some(MergedText { text: merged, removed, has_conflict, .. }) = best else {
        return ImportOutcome::Same;
    };
    if merged.len() > MAX_DOCUMENT_BYTES {
        let why = format!(
            "the document would have {} bytes; the limit is {MAX_DOCUMENT_BYTES}",
            merged.len()
        );
        return ImportOutcome::Conflict { store_text: head.to_owned(), why };
    }
    match (has_conflict, merged == head) {
        (true, _) => {
            let why = "an agent and the file changed the same lines".to_owned();
            ImportOutcome::Conflict { store_text: merged, why }
        }
        (false, true) => ImportOutcome::Same,
        (false, false) => ImportOutcome::Merged { content: merged, removed },
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_store::{FileBase, OutSlot};

    use super::*;

    #[test]
    fn an_edit_is_compared_with_the_texts_its_editor_may_have_read() {
        let base = |number: i64, replaced: Option<i64>| FileBase {
            number: BaseNumber::new(number),
            hash: [0; 32],
            revision: None,
            replaced: replaced.map(Millis::new),
        };
        let bases = vec![base(1, Some(5_000)), base(2, Some(9_000)), base(3, None)];
        let out = OutSlot { base: Some(BaseNumber::new(2)), inode: Some(7) };
        let file = Some(BaseNumber::new(3));
        let state = FileState { bases, file, out: Some(out), ..FileState::default() };
        for (slot, saved, expected) in [
            (FileSlot::File, 9_500, &[3, 2][..]),
            (FileSlot::File, 12_000, &[3, 2]),
            (FileSlot::File, 12_001, &[3]),
            (FileSlot::File, 8_000, &[3, 2, 1]),
            (FileSlot::File, 0, &[3, 2, 1]),
            (FileSlot::Out, 9_500, &[2, 3]),
            (FileSlot::Out, 90_000, &[2, 3]),
        ] {
            let found = merge_bases(&state, slot, Millis::new(saved));
            let found: Vec<_> = found.into_iter().map(BaseNumber::get).collect();
            assert_eq!(found, expected, "{slot:?} {saved}");
        }
        assert_eq!(merge_bases(&FileState::default(), FileSlot::File, Millis::new(1)), []);
    }

    #[test]
    fn a_text_is_merged_with_the_base_that_removes_least_and_is_nearest() {
        let merged =
            |content: &str, removed| ImportOutcome::Merged { content: content.into(), removed };
        for (bases, head, text, expected) in [
            // A save that crossed a projection: the line that came meanwhile stays.
            (&["a\nb\n", "a\n"][..], "a\nb\n", "A\n", merged("A\nb\n", 1)),
            (&["a\nb\n", "a\n"], "a\nb\n", "a\np\n", merged("a\nb\np\n", 0)),
            // A text of ours that was not replaced yet.
            (&["a\nb\n", "a\n"], "a\nb\nc\n", "a\n", ImportOutcome::Same),
            // Saved long after: the missing line was removed.
            (&["a\nb\n"], "a\nb\nc\n", "a\n", merged("a\nc\n", 1)),
            (&[""], "a\n", "b\n", merged("a\nb\n", 0)),
            // A line that was imported before is in the nearest base, and is not added again.
            (&["a\np\n", "a\n"], "a\nw\np\n", "a\np\nq\n", merged("a\nw\np\nq\n", 0)),
            (&["a\nw\np\n", "a\np\n", "a\n"], "a\nw\np\n", "a\np\nq\n", merged("a\nw\np\nq\n", 0)),
            // Edited twice in a row: a comparison with the first text would be a conflict.
            (&["y\n", "x\n"], "y\n", "z\n", merged("z\n", 1)),
            // An older base that is nearer does not restore a removed line.
            (&["a\n", "a\nb\n"], "a\n", "a\nb\nq\n", merged("a\nq\n", 0)),
        ] {
            let bases: Vec<_> = bases.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(take_outcome(&bases, head, text), expected, "{text:?} of {bases:?}");
        }
        let conflict = take_outcome(&["a\n".to_owned()], "b\n", "c\n");
        assert!(
            matches!(conflict, ImportOutcome::Conflict { store_text, .. } if store_text == "b\n")
        );
    }
}
