//! Documents and resources: writes, reads and revisions.

use std::sync::Arc;

use agent_worker_protocol::{DocumentPath, Outcome, ResourceId, Revision, Role, Sender};
use agent_worker_store::{
    DocumentBase, DocumentInfo, DocumentWrite, Error, Lease, ListRange, NewRun, Once, Store,
    WriteContext,
};
use tokio::task::JoinSet;

use crate::team::{NOW, Team, agent, client, end, keyed, name, new_run, ok, user};

async fn put(
    team: &Team,
    by: WriteContext,
    content: &str,
    base: DocumentBase,
) -> Result<Once<Revision>, Error> {
    let path = DocumentPath::default();
    let write = DocumentWrite {
        workflow: team.workflow,
        path,
        content: content.into(),
        base,
        max_bytes: 4096,
    };
    team.store.document_put(by, write, NOW).await
}

fn revision(number: i64) -> Revision {
    Revision::new(number)
}

pub(crate) async fn documents_lose_no_update(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let path = DocumentPath::default();
    let get = |at| store.document_get(team.workflow, path.clone(), at);
    assert_eq!(get(None).await.unwrap(), None);
    let absent = put(&team, user(), "x", DocumentBase::Revision(revision(1))).await;
    assert!(matches!(absent, Err(Error::NotFound("document"))));
    put(&team, user(), "start\n", DocumentBase::Absent).await.unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..16 {
        let team = team.clone();
        writers.spawn(async move {
            let line = format!("{writer}\n");
            put(&team, client("ci"), &line, DocumentBase::Append).await.unwrap();
            let stale = put(&team, user(), "lost", DocumentBase::Revision(revision(1))).await;
            assert!(matches!(stale, Err(Error::StaleRevision(now)) if now > revision(1)));
        });
    }
    writers.join_all().await;
    let taken = put(&team, user(), "x", DocumentBase::Absent).await;
    assert!(matches!(taken, Err(Error::StaleRevision(now)) if now == revision(17)));
    let newest = get(None).await.unwrap().unwrap();
    assert_eq!((newest.content.lines().count(), newest.info.revision), (17, revision(17)));
    put(&team, user(), "new", DocumentBase::Revision(revision(17))).await.unwrap();
    assert_eq!(get(Some(revision(1))).await.unwrap().unwrap().content, "start\n");
    assert_eq!(get(Some(revision(99))).await.unwrap(), None);
    let info = DocumentInfo {
        path: path.clone(),
        revision: revision(18),
        author: "user".into(),
        attempt: None,
        ts: NOW.wall,
        bytes: 3,
    };
    assert_eq!(
        store.document_list(team.workflow, ListRange::all()).await.unwrap(),
        std::slice::from_ref(&info)
    );
    let history =
        store.document_history(team.workflow, path.clone(), ListRange::first(3)).await.unwrap();
    let revisions: Vec<_> = history.iter().map(|info| info.revision.get()).collect();
    assert_eq!((&history[0], &revisions[..]), (&info, &[18, 17, 16][..]));
}

pub(crate) async fn a_run_lists_the_documents_that_were_written_in_it_last(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    let first = team.run;
    put(&team, user(), "one\n", DocumentBase::Absent).await.unwrap();
    let other = DocumentWrite {
        workflow: team.workflow,
        path: "other.md".parse().unwrap(),
        content: "kept\n".into(),
        base: DocumentBase::Absent,
        max_bytes: 4096,
    };
    store.document_put(user(), other, NOW).await.unwrap();
    team.settle(end(Outcome::Done)).await;
    team.start(new_run(&["a"])).await;
    put(&team, user(), "two\n", DocumentBase::Append).await.unwrap();
    let written = async |run| {
        let list = store.document_written(team.workflow, run).await.unwrap();
        let names = list.iter().map(|info| format!("{} {}", info.path, info.revision));
        names.collect::<Vec<_>>()
    };
    assert_eq!(written(first).await, ["other.md 1"]);
    assert_eq!(written(team.run).await, [format!("{} 2", DocumentPath::default())]);
}

pub(crate) async fn documents_with_an_owner_are_written_by_no_other_agent(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a", "b"]).await;
    team.settle(end(Outcome::Done)).await;
    let new = NewRun { roles: vec![(Role::DocumentOwner, name("B"))], ..new_run(&["a", "b"]) };
    team.start(new).await;
    assert_eq!(store.run_roles(team.run).await.unwrap(), [(Role::DocumentOwner, name("b"))]);
    team.say("go", &["a", "b"]).await;
    let (other, owner) = (team.lease("a").await, team.lease("b").await);
    for base in [DocumentBase::Absent, DocumentBase::Append, DocumentBase::Revision(revision(1))] {
        let refused = put(&team, agent(&other), "mine", base).await;
        assert!(matches!(refused, Err(Error::NotOwner(owner)) if owner == name("b")), "{base:?}");
    }
    put(&team, agent(&owner), "ours", DocumentBase::Absent).await.unwrap();
    put(&team, user(), "and yours", DocumentBase::Append).await.unwrap();
    team.finish(&owner, ok()).await;
    store.agent_remove(user(), team.workflow, name("b"), NOW).await.unwrap();
    assert_eq!(store.run_roles(team.run).await.unwrap(), [], "who leaves has no role");
    put(&team, agent(&other), "mine now", DocumentBase::Append).await.unwrap();
    let stranger = NewRun { roles: vec![(Role::Coordinator, name("zoe"))], ..new_run(&["a"]) };
    team.settle(end(Outcome::Done)).await;
    let refused = store.run_create(team.workflow, stranger, NOW).await;
    assert!(matches!(refused, Err(Error::NotFound("agent"))));
}

pub(crate) async fn a_document_is_written_once_per_key(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    let by = || keyed(agent(&lease), "k", "line");
    let write = || put(&team, by(), "line\n", DocumentBase::Append);
    assert_eq!(write().await.unwrap(), Once::New(revision(1)));
    assert_eq!(write().await.unwrap(), Once::Deduplicated(revision(1)));
    let event = team.events().await.pop().unwrap();
    let told = serde_json::json!({ "path": "notes.md", "revision": 1 });
    assert_eq!((event.body.kind_word(), event.data().into_owned()), ("document.written", told));
    assert_eq!((event.by.as_deref(), event.attempt), (Some("a"), Some(lease.id)));
}

pub(crate) async fn a_document_grows_no_longer_than_it_may(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let half = "x".repeat(2048);
    put(&team, keyed(user(), "k", "half"), &half, DocumentBase::Append).await.unwrap();
    put(&team, user(), &half, DocumentBase::Append).await.unwrap();
    let more = put(&team, user(), "y", DocumentBase::Append).await;
    assert!(matches!(more, Err(Error::DocumentTooLong(4097))), "{more:?}");
    // A repeated key returns the earlier result.
    let again = put(&team, keyed(user(), "k", "half"), &half, DocumentBase::Append).await;
    assert_eq!(again.unwrap(), Once::Deduplicated(revision(1)));
    let newest = store.document_get(team.workflow, DocumentPath::default(), None).await.unwrap();
    assert_eq!(newest.unwrap().info.revision, revision(2));
}

pub(crate) async fn a_write_follows_what_its_attempt_last_read(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    team.say("go", &["a", "b"]).await;
    let (a, b) = (team.lease("a").await, team.lease("b").await);
    let show = |lease: &Lease| store.document_show(lease.fence.clone(), DocumentPath::default());
    assert_eq!(show(&a).await.unwrap(), None);
    put(&team, agent(&a), "one", DocumentBase::LastRead).await.unwrap();
    let unread = put(&team, agent(&b), "mine", DocumentBase::LastRead).await;
    assert!(matches!(unread, Err(Error::RevisionNotRead(now)) if now == revision(1)), "{unread:?}");
    let nobody = put(&team, user(), "mine", DocumentBase::LastRead).await;
    assert!(
        matches!(nobody, Err(Error::RevisionNotRead(_))),
        "only attempts are remembered: {nobody:?}"
    );
    assert_eq!(show(&b).await.unwrap().unwrap().content, "one");
    put(&team, agent(&a), "two", DocumentBase::LastRead).await.unwrap();
    let stale = put(&team, agent(&b), "mine", DocumentBase::LastRead).await;
    assert!(matches!(stale, Err(Error::StaleRevision(now)) if now == revision(2)), "{stale:?}");
    // An append does not count as a read of the document.
    put(&team, agent(&b), "!", DocumentBase::Append).await.unwrap();
    assert!(put(&team, agent(&b), "mine", DocumentBase::LastRead).await.is_err());
    show(&b).await.unwrap();
    put(&team, agent(&b), "three", DocumentBase::LastRead).await.unwrap();
    // The next attempt has read nothing yet.
    team.finish(&b, ok()).await;
    assert!(matches!(show(&b).await, Err(Error::Fenced)));
    team.say("again", &["b"]).await;
    let b = team.lease("b").await;
    let unread = put(&team, agent(&b), "four", DocumentBase::LastRead).await;
    assert!(matches!(unread, Err(Error::RevisionNotRead(now)) if now == revision(4)), "{unread:?}");
}

pub(crate) async fn a_revision_knows_the_attempt_that_wrote_it(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    put(&team, user(), "one", DocumentBase::Absent).await.unwrap();
    put(&team, agent(&lease), "two", DocumentBase::Append).await.unwrap();
    let path = DocumentPath::default();
    let history =
        store.document_history(team.workflow, path.clone(), ListRange::first(9)).await.unwrap();
    let by: Vec<_> = history.iter().map(|info| (info.author.as_str(), info.attempt)).collect();
    assert_eq!(by, [("a", Some(lease.id)), ("user", None)]);
    let list = store.document_list(team.workflow, ListRange::all()).await.unwrap();
    let got = store.document_get(team.workflow, path, None).await.unwrap().unwrap();
    assert_eq!((list[0].attempt, got.info.attempt), (Some(lease.id), Some(lease.id)));
}

pub(crate) async fn no_document_is_where_another_needs_a_folder(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let write = |path: &str| {
        let path: DocumentPath = path.parse().unwrap();
        let content = "x".to_owned();
        let write = DocumentWrite {
            workflow: team.workflow,
            path,
            content,
            base: DocumentBase::Append,
            max_bytes: 99,
        };
        store.document_put(user(), write, NOW)
    };
    for fine in ["plans/a_b/first.md", "notes", "plans/axb.md", "plansX", "notes.md"] {
        write(fine).await.unwrap();
    }
    for (path, there) in [
        ("plans", "plans/a_b/first.md"),
        ("plans/a_b", "plans/a_b/first.md"),
        ("notes/more.md", "notes"),
        ("notes.md/a/b", "notes.md"),
    ] {
        let refused = write(path).await;
        assert!(
            matches!(&refused, Err(Error::PathConflict(found)) if found.as_str() == there),
            "{path}: {refused:?}"
        );
    }
    write("plans/axb/other.md").await.unwrap();
}

pub(crate) async fn a_resource_is_kept_once_under_its_hash(store: Arc<dyn Store>) {
    let (team, other) = (Team::new(&store, &["a"]).await, Team::new(&store, &["a"]).await);
    let put = |kind: &str| {
        store.resource_put(user(), team.workflow, kind.into(), b"abc".to_vec(), NOW.wall)
    };
    let id = put("text/plain").await.unwrap();
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(id, abc.parse::<ResourceId>().unwrap());
    assert_eq!(put("other").await.unwrap(), id);
    for (range, bytes) in
        [(0..3, &b"abc"[..]), (1..2, b"b"), (1..99, b"bc"), (3..9, b""), (9..12, b"")]
    {
        let part = store.resource_get(team.workflow, id, range).await.unwrap();
        assert_eq!((part.bytes.as_slice(), part.total), (bytes, 3));
        assert_eq!(part.kind, "text/plain");
    }
    let elsewhere = store.resource_get(other.workflow, id, 0..3).await;
    assert!(matches!(elsewhere, Err(Error::NotFound("resource"))));
    let later = NOW.wall.plus(std::time::Duration::from_secs(1));
    let newer = store.resource_put(user(), team.workflow, "b".into(), vec![1], later);
    let newer = newer.await.unwrap();
    let listed = store.resource_list(team.workflow, ListRange::first(9)).await.unwrap();
    assert!(listed.iter().all(|one| one.created_by == Some(Sender::User)), "{listed:?}");
    let listed: Vec<_> = listed.iter().map(|one| (one.id, one.kind.as_str(), one.bytes)).collect();
    assert_eq!(listed, [(newer, "b", 1), (id, "text/plain", 3)], "newest first, each once");
    let part = store.resource_get(team.workflow, id, 0..3).await.unwrap();
    assert_eq!(part.created_by, Some(Sender::User));
    assert_eq!(store.resource_list(team.workflow, ListRange::first(1)).await.unwrap().len(), 1);
    assert_eq!(store.resource_list(other.workflow, ListRange::first(9)).await.unwrap(), []);
}

pub(crate) async fn a_large_resource_is_read_in_parts(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let content: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut writers = JoinSet::new();
    for _ in 0..4 {
        let (store, workflow, content) = (Arc::clone(&store), team.workflow, content.clone());
        writers.spawn(async move {
            store.resource_put(user(), workflow, "data".into(), content, NOW.wall).await.unwrap()
        });
    }
    let ids = writers.join_all().await;
    assert!(ids.iter().all(|id| *id == ids[0]));
    for range in [0..10_u64, 4_999_990..5_000_000, 0..5_000_000] {
        let part = store.resource_get(team.workflow, ids[0], range.clone()).await.unwrap();
        let (from, to) = (usize::try_from(range.start), usize::try_from(range.end));
        assert!(part.bytes == content[from.unwrap()..to.unwrap()]);
        assert_eq!(part.total, 5_000_000);
    }
}
