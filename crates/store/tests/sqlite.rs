//! Properties of a store on a SQLite file only: the file, its folder, and the process that may be killed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use agent_worker_protocol::{
    DocumentPath, Limits, MessageKind, Millis, Outcome, Priority, Revision, RunId, RunMode, Scopes,
    Seq, WorkflowId,
};
use agent_worker_store::{
    AdminStore as _, Database, DocumentBase, DocumentStore as _, DocumentWrite, Error, Fence,
    ListRange, MessageOrder, MessageQuery, MessageStore as _, NewAgent, NewAttachment, NewMessage,
    NewRun, Now, Recipient, Retention, RunStep, RunStore as _, StoreTime, Wake, WriteActor,
    WriteContext,
};
use rusqlite::Connection;
use tokio::task::JoinSet;
use uuid::Uuid;

const NOW: Now = Now { store: StoreTime::new(1), wall: Millis::new(1) };
/// The variable that passes the folder to the process that will be killed.
const FOLDER: &str = "AGENT_WORKER_TEST_STORE";

fn raw(folder: &Path) -> Connection {
    #[expect(clippy::disallowed_methods, reason = "somebody else opens the file")]
    Connection::open(folder.join("agent-worker.db")).unwrap()
}

fn message(body: &str) -> NewMessage {
    NewMessage {
        kind: MessageKind::Message,
        body: body.into(),
        data: Vec::new(),
        reply_to: None,
        hops: 0,
        priority: Priority::Normal,
        resource: None,
        recipients: vec![Recipient { agent: "a".parse().unwrap(), wake: Wake::Batched }],
        attachments: Vec::new(),
    }
}

async fn say(store: &Database, workflow: WorkflowId, body: &str) -> Seq {
    let by = WriteContext::new(WriteActor::User);
    store.message_append(by, workflow, message(body), None, NOW).await.unwrap().value()
}

/// Returns an instance with a live run; an existing one if there is one.
async fn instance(store: &Database, keep: Retention) -> (WorkflowId, RunId) {
    let workflow = store.instance_open("/p".into(), "w".parse().unwrap()).await.unwrap();
    let new = NewRun {
        id: RunId::new(Uuid::now_v7()),
        mode: RunMode::Start,
        limits: Limits {
            hops: 50,
            turns: None,
            wall: None,
            wall_grace: Limits::WALL_GRACE,
            spend: agent_worker_protocol::SpendLimits::NONE,
        },
        script: "{}".into(),
        agents: vec![NewAgent { name: "a".parse().unwrap(), settings: "{}".into() }],
        roles: Vec::new(),
        retention: keep,
    };
    let run = new.id;
    match store.run_create(workflow, new, NOW).await {
        Ok(()) => (workflow, run),
        Err(Error::RunLive(run)) => (workflow, run),
        Err(other) => panic!("{other}"),
    }
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_forged_or_missing_message_is_found() {
    for (forgery, found) in [
        ("UPDATE message SET body = 'twi' WHERE seq = 2", 2),
        ("UPDATE message SET body = CAST(x'ff' AS TEXT) WHERE seq = 2", 2),
        ("UPDATE message SET sender = 'system' WHERE seq = 1", 1),
        ("UPDATE message SET hops = 1 WHERE seq = 3", 3),
        ("UPDATE message SET reply_to = 1 WHERE seq = 3", 3),
        ("UPDATE message SET ts = 2 WHERE seq = 1", 1),
        ("DELETE FROM message WHERE seq = 2", 2),
        ("DELETE FROM message WHERE seq = 3", 3),
        ("UPDATE workflow SET last_seq = 4", 4),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = Database::open(folder.path()).unwrap();
        let (workflow, _) = instance(&store, Retention::Always).await;
        for body in ["one", "two", "three"] {
            say(&store, workflow, body).await;
        }
        assert_eq!(store.instance_verify(workflow).await.unwrap(), Seq::new(3));
        raw(folder.path()).execute(forgery, []).unwrap();
        let verdict = store.instance_verify(workflow).await;
        assert!(
            matches!(verdict, Err(Error::CorruptMessage(seq)) if seq == Seq::new(found)),
            "{forgery}: {verdict:?}"
        );
    }
}

#[tokio::test]
async fn a_newer_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    Database::open(folder.path()).unwrap().close().await;
    raw(folder.path()).pragma_update(None, "user_version", 99).unwrap();
    assert!(
        matches!(Database::open(folder.path()), Err(Error::NewerSchema { found: 99, known }) if known < 99)
    );
}

#[tokio::test]
async fn what_was_written_is_there_when_the_file_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    for round in 1..=20 {
        let store = Database::open(folder.path()).unwrap();
        let (workflow, _) = instance(&store, Retention::Always).await;
        assert_eq!(say(&store, workflow, "again").await, Seq::new(round));
        assert_eq!(store.instance_verify(workflow).await.unwrap(), Seq::new(round));
        let other = store.clone();
        store.close().await;
        assert!(matches!(other.heartbeat_put(NOW.store).await, Err(Error::Closed)));
        assert!(matches!(other.heartbeat_last().await, Err(Error::Closed)));
        // The log is folded into the file when the last connection closes.
        assert_eq!(names(folder.path()), ["agent-worker.db"]);
    }
}

#[tokio::test]
async fn a_damaged_file_takes_no_more_writes_but_is_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Database::open(folder.path()).unwrap();
    let (workflow, run) = instance(&store, Retention::Always).await;
    say(&store, workflow, "before").await;
    store.close().await;
    let root = |db: Connection| -> u64 {
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'token'";
        db.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap().into()
    };
    let page = root(raw(folder.path()));
    let file = fs::OpenOptions::new().write(true).open(folder.path().join("agent-worker.db"));
    std::os::unix::fs::FileExt::write_all_at(&file.unwrap(), &[0xff; 4096], (page - 1) * 4096)
        .unwrap();

    let store = Database::open(folder.path()).unwrap();
    store.heartbeat_put(NOW.store).await.unwrap();
    assert!(!store.integrity_check().await.unwrap().problems.is_empty());
    let damaged = store.token_put("ci".into(), [1; 32], Scopes::default(), NOW.wall).await;
    assert!(matches!(damaged, Err(Error::Malformed(_))), "{damaged:?}");
    let refused = store.heartbeat_put(NOW.store).await;
    assert!(
        matches!(&refused, Err(Error::ReadOnly(why)) if why.contains("malformed")),
        "{refused:?}"
    );
    assert_eq!(store.run_get(run).await.unwrap().messages, 1);
    assert_eq!(store.instance_verify(workflow).await.unwrap(), Seq::new(1));
}

#[tokio::test]
async fn a_healthy_store_has_no_problems_on_whichever_connection_it_was_searched() {
    let folder = tempfile::tempdir().unwrap();
    let store = Database::open(folder.path()).unwrap();
    let (workflow, _) = instance(&store, Retention::Always).await;
    let search = || MessageQuery {
        run: None,
        search: Some("needle".into()),
        after: Seq::new(0),
        before: None,
        to: None,
        order: MessageOrder::OldestFirst,
        limit: 1,
    };
    for round in 0..10 {
        // A reader keeps its connection, and with it the structure of the index that FTS5 has cached.
        for _ in 0..8 {
            store.message_list(workflow, search()).await.unwrap();
        }
        for n in 0..20 {
            say(&store, workflow, &format!("round {round} message {n} needle")).await;
        }
        while store.message_index(5).await.unwrap() {}
        let problems = store.integrity_check().await.unwrap().problems;
        assert!(problems.is_empty(), "round {round}: {problems:?}");
    }
}

#[tokio::test]
async fn a_document_that_grows_line_by_line_takes_little_more_space_than_its_text() {
    const LINES: usize = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let store = Database::open(folder.path()).unwrap();
    let (workflow, _) = instance(&store, Retention::Always).await;
    let path: DocumentPath = "notes.md".parse().unwrap();
    let line = format!("{}\n", "x".repeat(79));
    let mut writers = JoinSet::new();
    for _ in 0..50 {
        let (store, path, content) = (store.clone(), path.clone(), line.clone());
        writers.spawn(async move {
            for _ in 0..LINES / 50 {
                let (path, content) = (path.clone(), content.clone());
                let (base, max_bytes) = (DocumentBase::Append, usize::MAX);
                let write = DocumentWrite { workflow, path, content, base, max_bytes };
                store.document_put(WriteContext::new(WriteActor::User), write, NOW).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    for lines in [1, 2, 3, 500, LINES - 1, LINES] {
        let revision = Revision::new(lines.try_into().unwrap());
        let read = store.document_get(workflow, path.clone(), Some(revision)).await.unwrap();
        let read = read.unwrap();
        assert_eq!((read.info.bytes, read.content), (80 * lines as u64, line.repeat(lines)));
    }
    store.close().await;
    let bytes = fs::metadata(folder.path().join("agent-worker.db")).unwrap().len();
    assert!(bytes < 10_000_000, "{bytes} bytes");
}

#[tokio::test]
async fn a_document_outlives_a_forgotten_run_that_added_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Database::open(folder.path()).unwrap();
    let workflow = store.instance_open("/p".into(), "w".parse().unwrap()).await.unwrap();
    let path: DocumentPath = "notes.md".parse().unwrap();
    let mut said = String::new();
    for keep in [Retention::Always, Retention::WhileLive, Retention::Always] {
        let (_, run) = instance(&store, keep).await;
        for _ in 0..3 {
            let (base, max_bytes) = (DocumentBase::Append, usize::MAX);
            let content = format!("{}\n", "y".repeat(200));
            said += &content;
            let write = DocumentWrite { workflow, path: path.clone(), content, base, max_bytes };
            store.document_put(WriteContext::new(WriteActor::User), write, NOW).await.unwrap();
        }
        let why = "over".to_owned();
        let end = RunStep::End { outcome: Outcome::Done, why, error: None };
        store.run_settle(run, Box::new(move |_| end.clone()), NOW).await.unwrap();
    }
    store.instance_forget(workflow).await.unwrap();
    let newest = store.document_get(workflow, path.clone(), None).await.unwrap().unwrap();
    assert_eq!((newest.info.revision, newest.content), (Revision::new(9), said));
    let forgotten = store.document_get(workflow, path, Some(Revision::new(5))).await.unwrap();
    assert_eq!(forgotten, None);
    store.close().await;
}

#[tokio::test]
async fn a_message_that_is_not_written_leaves_no_file_of_its_attachments() {
    let folder = tempfile::tempdir().unwrap();
    let store = Database::open(folder.path()).unwrap();
    let (workflow, run) = instance(&store, Retention::Always).await;
    store.run_start(run, None, NOW).await.unwrap();
    let mine = folder.path().join("resources").join(workflow.to_string());
    let send = async |agent: &str, byte| {
        let (name, media_type) = ("shot.png".parse().unwrap(), "image/png".into());
        let file = NewAttachment { name, media_type, content: vec![byte; 3 * 1024 * 1024] };
        let recipients = vec![Recipient { agent: agent.parse().unwrap(), wake: Wake::Batched }];
        let message = NewMessage { recipients, attachments: vec![file], ..message("look") };
        let by = WriteContext::new(WriteActor::User);
        store.message_append(by, workflow, message, None, NOW).await.is_ok()
    };
    assert!(!send("ghost", 1).await);
    assert_eq!(names(&mine), Vec::<String>::new());
    assert!(send("a", 2).await);
    assert_eq!(names(&mine).len(), 1);
    assert!(!send("ghost", 3).await);
    assert_eq!(names(&mine).len(), 1);
    store.close().await;
}

#[tokio::test]
async fn a_large_resource_is_a_private_file_for_as_long_as_it_has_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let resources = folder.path().join("resources");
    let unfinished = resources.join("unfinished");
    fs::create_dir_all(&unfinished).unwrap();
    fs::write(unfinished.join("0"), "half of it").unwrap();
    let store = Database::open(folder.path()).unwrap();
    assert_eq!(names(&unfinished), Vec::<String>::new());
    let (workflow, run) = instance(&store, Retention::WhileLive).await;
    let mine = resources.join(workflow.to_string());
    let put = |who, size| {
        store.resource_put(WriteContext::new(who), workflow, "t".into(), vec![7; size], NOW.wall)
    };
    put(WriteActor::User, 1024 * 1024).await.unwrap();
    assert_eq!(names(&mine), Vec::<String>::new());
    let id = put(WriteActor::User, 1024 * 1024 + 1).await.unwrap();
    assert_eq!(names(&mine), [id.to_string()]);
    let file = fs::metadata(mine.join(id.to_string())).unwrap();
    assert_eq!((file.permissions().mode() & 0o777, file.len()), (0o600, 1024 * 1024 + 1));
    assert_eq!(fs::metadata(&mine).unwrap().permissions().mode() & 0o777, 0o700);

    let epoch = agent_worker_protocol::Epoch::new(1);
    let nobody = Fence { workflow, agent: "a".parse().unwrap(), epoch };
    let refused = put(WriteActor::Agent(nobody), 2 * 1024 * 1024).await;
    assert!(matches!(refused, Err(Error::Fenced)));
    assert_eq!(names(&mine), [id.to_string()]);

    let end = |_: &_| RunStep::End { outcome: Outcome::Done, why: "over".into(), error: None };
    store.run_settle(run, Box::new(end), NOW).await.unwrap();
    store.instance_forget(workflow).await.unwrap();
    assert_eq!(names(&mine), Vec::<String>::new());
    assert!(matches!(
        store.resource_get(workflow, id, 0..1).await,
        Err(Error::NotFound("resource"))
    ));
}

/// Writes from eight tasks and prints each acknowledged message, until it is killed or has written enough.
async fn write_until_killed(folder: &Path) {
    let store = Database::open(folder).unwrap();
    let (workflow, _) = instance(&store, Retention::Always).await;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = store.clone();
        writers.spawn(async move {
            for n in 0..5_000 {
                let body = format!("{}.{writer}.{n}", std::process::id());
                say(&store, workflow, &body).await;
                let mut out = std::io::stdout().lock();
                writeln!(out, "ack {body}").unwrap();
                out.flush().unwrap();
            }
        });
    }
    writers.join_all().await;
}

/// Starts this test in a process of its own, kills it after `count` messages, and returns the lines that it printed.
fn kill_a_writer(folder: &Path, count: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "what_was_acknowledged_survives_kill_nine", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut acknowledged = Vec::new();
    for line in lines {
        let Some((_, body)) = line.split_once("ack ") else { continue };
        acknowledged.push(body.to_owned());
        if acknowledged.len() == count {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_nine() {
    #[expect(clippy::disallowed_methods, reason = "how the process that is killed knows itself")]
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_until_killed(folder.as_ref()).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeSet::new();
    for round in 0..6 {
        acknowledged.extend(kill_a_writer(folder.path(), 150 + round * 37));
        let store = Database::open(folder.path()).unwrap();
        let (workflow, _) = instance(&store, Retention::Always).await;
        store.instance_verify(workflow).await.unwrap();
        let order = MessageOrder::OldestFirst;
        let query = MessageQuery {
            run: None,
            after: Seq::new(0),
            before: None,
            search: None,
            to: None,
            order,
            limit: u32::MAX,
        };
        let stored = store.message_list(workflow, query).await.unwrap();
        let bodies: BTreeSet<_> = stored.iter().map(|message| message.body.clone()).collect();
        assert_eq!(bodies.len(), stored.len(), "something is there twice");
        assert!(acknowledged.is_subset(&bodies), "something acknowledged is gone");
        let inbox = store
            .inbox_pending(workflow, "a".parse().unwrap(), ListRange::first(u32::MAX))
            .await
            .unwrap();
        assert_eq!(inbox.len(), stored.len());
        let events = store.event_last(workflow).await.unwrap().get();
        assert_eq!(events, i64::try_from(stored.len()).unwrap() + 1);
        store.close().await;
    }
    assert!(acknowledged.len() > 1_000);
}

/// Returns the anchor from which a database's clock continues.
fn anchor(folder: &Path) -> (i64, i64) {
    let sql = "SELECT store_time, wall FROM clock";
    raw(folder).query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

#[tokio::test]
async fn store_time_is_saved_with_every_batch_that_changes_something_and_continues_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Database::open(folder.path()).unwrap();
    assert_eq!(store.now_saved(), None);
    let before = store.now();
    store.heartbeat_put(before.store).await.unwrap();
    let (saved, _) = anchor(folder.path());
    assert!((before.store.get()..=store.now().store.get()).contains(&saved));
    // A write that is refused, or changes nothing, saves nothing.
    assert!(store.token_remove("nobody".into()).await.is_err());
    assert_eq!(store.effect_expire(StoreTime::new(0)).await.unwrap(), 0);
    assert_eq!(anchor(folder.path()).0, saved);
    store.close().await;

    let store = Database::open(folder.path()).unwrap();
    assert_eq!(store.now_saved().map(|now| now.store.get()), Some(saved));
    let continued = store.now().store.get();
    assert!((saved..saved + 60_000).contains(&continued), "{continued} after {saved}");
    store.close().await;

    // The wall clock was an hour ahead when the anchor was saved. In the same boot that does not matter; after a
    // reboot store time does not go back for it, and continues with it.
    let set = |change: &str| raw(folder.path()).execute(&format!("UPDATE clock SET {change}"), []);
    for (change, passed) in [
        ("wall = wall + 3600000", 0),
        ("boot = 'another'", 0),
        ("boot = 'another', wall = wall - 7200000", 3_600_000),
    ] {
        set(change).unwrap();
        let saved = anchor(folder.path()).0;
        let store = Database::open(folder.path()).unwrap();
        let continued = store.now().store.get() - saved;
        assert!((passed..passed + 60_000).contains(&continued), "{change}: {continued} ms passed");
        store.close().await;
    }
}
