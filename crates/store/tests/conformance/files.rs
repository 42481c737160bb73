//! Documents as files: the base of each slot, the write under way, and a person's texts.

use std::sync::Arc;

use agent_worker_protocol::{DocumentPath, Hash, Millis, Revision, hash};
use agent_worker_store::{
    DocumentBase, DocumentConflict, DocumentWrite, Error, ExchangeMode, FileImport, FileIntent,
    FileSlot, FileState, FileStep, ImportOutcome, OutSlot, PendingConflictFile, Store,
};
use serde_json::json;

use crate::team::{NOW, Team, user};

const INODE: u64 = 7;
/// An inode beyond the signed integers: the store must keep all 64 bits.
const STAGED: u64 = u64::MAX - 1;

fn path() -> DocumentPath {
    DocumentPath::default()
}

fn revision(number: i64) -> Revision {
    Revision::new(number)
}

fn hash_of(text: &str) -> Hash {
    hash(&[text.as_bytes()])
}

async fn write(team: &Team, content: &str) -> Revision {
    let (content, base) = (content.to_owned(), DocumentBase::Append);
    let write =
        DocumentWrite { workflow: team.workflow, path: path(), content, base, max_bytes: 4096 };
    team.store.document_put(user(), write, NOW).await.unwrap().value()
}

async fn newest(team: &Team) -> (i64, String, String) {
    let found = team.store.document_get(team.workflow, path(), None).await.unwrap().unwrap();
    (found.info.revision.get(), found.info.author, found.content)
}

async fn take(
    team: &Team,
    slot: FileSlot,
    text: &str,
    head: Option<i64>,
    outcome: ImportOutcome,
) -> Result<FileState, Error> {
    let text = match outcome {
        ImportOutcome::Refused { .. } => None,
        _ => Some((text.to_owned(), hash_of(text))),
    };
    let take = FileImport {
        workflow: team.workflow,
        path: path(),
        slot,
        inode: INODE,
        text,
        merged_with: head.map(revision),
        outcome,
        forget_before: Millis::new(0),
    };
    team.store.file_take(take, NOW).await
}

async fn step(team: &Team, step: FileStep) -> FileState {
    team.store.file_step(team.workflow, path(), step).await.unwrap()
}

async fn put(team: &Team, number: i64, mode: ExchangeMode) -> FileState {
    let found = team.store.document_get(team.workflow, path(), Some(revision(number))).await;
    let hash = hash_of(&found.unwrap().unwrap().content);
    let intent = FileIntent { revision: revision(number), hash, inode: STAGED, mode, at: NOW.wall };
    let state = step(team, FileStep::Intend(intent)).await;
    assert_eq!(state.intent, Some(intent));
    assert_eq!(team.store.file_get(team.workflow, path()).await.unwrap(), state);
    let out = (mode == ExchangeMode::Exchange).then_some(INODE);
    step(team, FileStep::Confirm { out, replaced: NOW.wall, forget_before: Millis::new(0) }).await
}

/// Returns the texts of the bases of file and out slot.
async fn texts(team: &Team, state: &FileState) -> [Option<String>; 2] {
    let mut texts = [None, None];
    for (text, slot) in texts.iter_mut().zip([FileSlot::File, FileSlot::Out]) {
        if let Some(base) = state.base(slot) {
            *text = team.store.file_base(team.workflow, path(), base.number).await.unwrap();
        }
    }
    texts
}

fn merged(content: &str, removed: usize) -> ImportOutcome {
    ImportOutcome::Merged { content: content.to_owned(), removed }
}

fn some(texts: [&str; 2]) -> [Option<String>; 2] {
    texts.map(|text| Some(text.to_owned()))
}

pub(crate) async fn a_text_from_a_file_becomes_a_revision_and_its_slots_base_in_one_step(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    let empty = store.file_get(team.workflow, path()).await.unwrap();
    assert_eq!(empty, FileState::default());
    let state = take(&team, FileSlot::File, "one\n", None, merged("one\n", 0)).await.unwrap();
    assert_eq!(state.base(FileSlot::File).unwrap().revision, Some(revision(1)));
    assert_eq!(texts(&team, &state).await, [Some("one\n".to_owned()), None]);
    write(&team, "two\n").await;
    let mine = || merged("one\nmine\ntwo\n", 1);
    let refused = take(&team, FileSlot::File, "one\nmine\n", Some(1), mine()).await;
    assert!(matches!(refused, Err(Error::StaleRevision(now)) if now == revision(2)), "{refused:?}");
    let unchanged = store.file_get(team.workflow, path()).await.unwrap();
    assert_eq!(unchanged, state, "a refused take leaves the base");
    let state = take(&team, FileSlot::File, "one\nmine\n", Some(2), mine()).await.unwrap();
    assert_eq!(newest(&team).await, (3, "user".into(), "one\nmine\ntwo\n".into()));
    let base = state.base(FileSlot::File).unwrap();
    assert_eq!((base.revision, base.hash), (None, hash_of("one\nmine\n")));
    assert_eq!(texts(&team, &state).await, [Some("one\nmine\n".to_owned()), None]);
    assert_eq!(state.bases[0].replaced, Some(NOW.wall), "the base before was replaced");
    let event = team.events().await.pop().unwrap();
    let data = json!({ "path": "notes.md", "revision": 3, "removed": 1 });
    assert_eq!((event.body.kind_word(), event.by.as_deref()), ("document.written", Some("user")));
    assert_eq!(*event.data(), data);
    let text = "one\nmine\ntwo\n";
    let state = take(&team, FileSlot::File, text, Some(3), ImportOutcome::Same).await.unwrap();
    assert_eq!(newest(&team).await.0, 3, "nothing was written");
    assert_eq!(state.base(FileSlot::File).unwrap().revision, Some(revision(3)));
    let other = Team::new(&store, &["a"]).await;
    assert_eq!(store.file_get(other.workflow, path()).await.unwrap(), FileState::default());
}

pub(crate) async fn a_confirmed_exchange_moves_the_base_of_the_file_to_the_out_slot(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    write(&team, "one\n").await;
    let state = put(&team, 1, ExchangeMode::Create).await;
    assert_eq!((state.intent, state.out), (None, None));
    assert_eq!(texts(&team, &state).await, [Some("one\n".to_owned()), None]);
    write(&team, "two\n").await;
    let state = put(&team, 2, ExchangeMode::Exchange).await;
    assert_eq!(state.out.and_then(|out| out.inode), Some(INODE));
    assert_eq!(texts(&team, &state).await, some(["one\ntwo\n", "one\n"]));
    // A late writer adds to the file that was replaced.
    let late = merged("one\ntwo\nlate\n", 0);
    let state = take(&team, FileSlot::Out, "one\nlate\n", Some(2), late).await.unwrap();
    assert_eq!(texts(&team, &state).await, some(["one\ntwo\n", "one\nlate\n"]));
    assert_eq!(state.out, Some(OutSlot { inode: Some(INODE), ..state.out.unwrap() }));
    assert_eq!(
        state.base(FileSlot::Out).unwrap().replaced,
        Some(NOW.wall),
        "it left with the exchange"
    );
    let nothing = FileStep::Confirm { out: None, replaced: NOW.wall, forget_before: NOW.wall };
    let refused = store.file_step(team.workflow, path(), nothing).await;
    assert!(matches!(refused, Err(Error::NotFound("intent"))), "{refused:?}");
    let state = step(&team, FileStep::Unstage).await;
    assert_eq!((state.out, state.intent), (None, None));
}

pub(crate) async fn bases_are_deleted_once_they_are_old_and_in_no_slot(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let confirm = async |number: i64, replaced: i64, before: i64| {
        write(&team, "line\n").await;
        let (revision, mode) = (revision(number), ExchangeMode::Exchange);
        let intent = FileIntent { revision, hash: [0; 32], inode: STAGED, mode, at: NOW.wall };
        step(&team, FileStep::Intend(intent)).await;
        let (replaced, forget_before) = (Millis::new(replaced), Millis::new(before));
        let confirm = FileStep::Confirm { out: Some(INODE), replaced, forget_before };
        let bases = step(&team, confirm).await.bases;
        let bases = bases.iter().map(|base| {
            (base.revision.map_or(0, Revision::get), base.replaced.map_or(0, Millis::get))
        });
        bases.collect::<Vec<_>>()
    };
    assert_eq!(confirm(1, 0, 0).await, [(1, 0)]);
    assert_eq!(confirm(2, 2_000, 0).await, [(1, 2_000), (2, 0)]);
    assert_eq!(confirm(3, 3_000, 2_000).await, [(1, 2_000), (2, 3_000), (3, 0)], "not before 2000");
    assert_eq!(confirm(4, 4_000, 2_001).await, [(2, 3_000), (3, 4_000), (4, 0)]);
    assert_eq!(confirm(5, 5_000, 9_999).await, [(4, 5_000), (5, 0)], "the slots keep theirs");
}

pub(crate) async fn a_text_that_cannot_be_merged_is_kept_and_reported_until_the_conflict_is_closed(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    write(&team, "ours\n").await;
    let why = "because".to_owned();
    let outcome = ImportOutcome::Conflict { store_text: "ours\n".into(), why: why.clone() };
    let state = take(&team, FileSlot::File, "theirs\n", Some(1), outcome).await.unwrap();
    let theirs = store.document_get(team.workflow, path(), Some(revision(2))).await.unwrap();
    let theirs = theirs.unwrap();
    assert_eq!((theirs.info.author.as_str(), theirs.content.as_str()), ("user", "theirs\n"));
    assert_eq!(newest(&team).await, (3, "system".into(), "ours\n".into()));
    let base = state.base(FileSlot::File).unwrap();
    assert_eq!(base.revision, Some(revision(2)), "the whole text is in the store");
    assert_eq!(
        state.conflict_file,
        Some(PendingConflictFile { slot: FileSlot::File, inode: INODE })
    );
    assert_eq!(step(&team, FileStep::ConflictFileDone).await.conflict_file, None);
    let event = team.events().await.pop().unwrap();
    assert_eq!((event.body.kind_word(), event.cause), ("document.conflict", Some(why.clone())));
    let list = || store.conflict_list(team.workflow);
    assert_eq!(list().await.unwrap(), [DocumentConflict { path: path(), why }]);
    let why = "no text".to_owned();
    let refused = ImportOutcome::Refused { why: why.clone() };
    let refused = take(&team, FileSlot::Out, "", Some(3), refused).await.unwrap();
    assert_eq!(newest(&team).await.0, 3, "nothing was written");
    assert_eq!(
        refused.conflict_file,
        Some(PendingConflictFile { slot: FileSlot::Out, inode: INODE })
    );
    assert_eq!((refused.file, refused.out), (state.file, state.out), "the bases stay");
    assert_eq!(list().await.unwrap(), [DocumentConflict { path: path(), why }]);
    store.conflict_close(team.workflow, path()).await.unwrap();
    assert_eq!(list().await.unwrap(), []);
}
