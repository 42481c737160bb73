//! Documents as files: what was put into them, and what a person wrote there.

use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{DocumentPath, Hash, Millis, Revision};
use agent_worker_store::{
    Base, DocumentConflict, DocumentWrite, Error, FileMemory, FileTake, Store, TakeOutcome,
};
use serde_json::json;

use crate::team::{NOW, Team, user};

fn path() -> DocumentPath {
    DocumentPath::default()
}

fn revision(number: i64) -> Revision {
    Revision::new(number)
}

async fn write(team: &Team, content: &str) -> Revision {
    let (content, base) = (content.to_owned(), Base::Append);
    let write = DocumentWrite { workflow: team.workflow, path: path(), content, base, most: 4096 };
    team.store.document_put(user(), write, NOW).await.unwrap().value()
}

async fn content(team: &Team, at: i64) -> (String, String) {
    let found = team.store.document_get(team.workflow, path(), Some(revision(at))).await;
    let found = found.unwrap().unwrap();
    (found.info.author, found.content)
}

async fn take(
    team: &Team,
    mark: u8,
    head: Option<i64>,
    outcome: TakeOutcome,
) -> Result<Option<Revision>, Error> {
    let (workflow, head) = (team.workflow, head.map(revision));
    let take = FileTake { workflow, path: path(), mark: hash(mark), head, outcome };
    team.store.file_take(take, NOW.plus(Duration::from_millis(mark.into()))).await
}

fn hash(mark: u8) -> Hash {
    [mark; 32]
}

fn merged(content: &str, removed: usize) -> TakeOutcome {
    TakeOutcome::Merged { content: content.to_owned(), removed }
}

pub(crate) async fn what_was_put_into_a_file_is_remembered_until_it_was_replaced_long_ago(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    let other = Team::new(&store, &["a"]).await;
    let put = |number: i64, since: i64, at: i64| {
        let (since, at) = (Millis::new(since), Millis::new(at));
        store.file_put(team.workflow, path(), revision(number), since, at)
    };
    let put_of = async |team: &Team| {
        let files = store.file_list(team.workflow).await.unwrap();
        let put = files.into_iter().flat_map(|file| file.put);
        put.map(|(revision, at)| (revision.get(), at.get())).collect::<Vec<_>>()
    };
    put(1, 0, 1_000).await.unwrap();
    put(2, 0, 2_000).await.unwrap();
    put(4, 1_500, 3_000).await.unwrap();
    assert_eq!(put_of(&team).await, [(1, 1_000), (2, 2_000), (4, 3_000)], "1 went at 2000");
    put(5, 2_500, 4_000).await.unwrap();
    assert_eq!(put_of(&team).await, [(2, 2_000), (4, 3_000), (5, 4_000)]);
    put(5, 9_000, 9_500).await.unwrap();
    assert_eq!(put_of(&team).await, [(4, 3_000), (5, 9_500)], "the newest is always known");
    assert_eq!(put_of(&other).await, []);
}

pub(crate) async fn a_text_from_a_file_is_taken_against_the_newest_revision(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    assert_eq!(take(&team, 1, None, merged("one\n", 0)).await.unwrap(), Some(revision(1)));
    write(&team, "two\n").await;
    let stale = take(&team, 2, Some(1), merged("mine\n", 1)).await;
    assert!(matches!(stale, Err(Error::StaleRevision(now)) if now == revision(2)), "{stale:?}");
    assert_eq!(take(&team, 2, Some(2), merged("mine\n", 1)).await.unwrap(), Some(revision(3)));
    assert_eq!(take(&team, 3, Some(3), TakeOutcome::Same).await.unwrap(), Some(revision(3)));
    assert_eq!(content(&team, 3).await, ("user".to_owned(), "mine\n".to_owned()));
    let event = team.events().await.pop().unwrap();
    let told = json!({ "path": "notes.md", "revision": 3, "removed": 1 });
    assert_eq!((event.kind.word(), event.by.as_deref()), ("document.written", Some("user")));
    assert_eq!(event.data, told);
    let remembered = store.file_list(team.workflow).await.unwrap();
    let taken = vec![hash(1), hash(2), hash(3)];
    assert_eq!(remembered, [FileMemory { path: path(), put: Vec::new(), taken }]);
    for mark in 4..20 {
        take(&team, mark, Some(3), TakeOutcome::Same).await.unwrap();
    }
    let remembered = store.file_list(team.workflow).await.unwrap().remove(0).taken;
    assert_eq!(remembered, (12..20).map(hash).collect::<Vec<_>>(), "the last ones");
}

pub(crate) async fn a_text_that_cannot_be_merged_is_kept_and_told_until_somebody_looked(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    write(&team, "ours\n").await;
    let (theirs, why) = ("theirs\n".to_owned(), "because".to_owned());
    let outcome =
        TakeOutcome::Conflict { content: theirs.clone(), stays: "ours\n".into(), why: why.clone() };
    assert_eq!(take(&team, 1, Some(1), outcome).await.unwrap(), Some(revision(3)));
    assert_eq!(content(&team, 2).await, ("user".to_owned(), theirs));
    assert_eq!(content(&team, 3).await, ("system".to_owned(), "ours\n".to_owned()));
    let event = team.events().await.pop().unwrap();
    assert_eq!((event.kind.word(), event.cause), ("document.conflict", Some(why.clone())));
    let list = || store.conflict_list(team.workflow);
    assert_eq!(list().await.unwrap(), [DocumentConflict { path: path(), why }]);
    let why = "no text".to_owned();
    let refused = take(&team, 2, Some(3), TakeOutcome::Refused { why: why.clone() }).await;
    assert_eq!(refused.unwrap(), Some(revision(3)), "nothing was written");
    assert_eq!(list().await.unwrap(), [DocumentConflict { path: path(), why }]);
    store.conflict_close(team.workflow, path()).await.unwrap();
    assert_eq!(list().await.unwrap(), []);
}
