//! A database that another program removes, replaces or truncates while the store has it open.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use agent_worker_protocol::{
    InstanceRef, Limits, MessageKind, Millis, Priority, RunId, RunMode, WorkflowId,
};
use agent_worker_store::{
    AdminStore as _, Database, Error, InstanceQuery, MultiStore, NewMessage, NewRun, Now,
    Retention, RunStore as _, Store, StoreTime, WriteActor, WriteContext,
};
use rusqlite::Connection;
use tokio::task::JoinSet;
use uuid::Uuid;

const NOW: Now = Now { store: StoreTime::new(1), wall: Millis::new(1) };
const SENDERS: usize = 4;

fn new_run() -> NewRun {
    NewRun {
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
        agents: Vec::new(),
        roles: Vec::new(),
        retention: Retention::Always,
    }
}

async fn send(store: &dyn Store, workflow: WorkflowId, body: String) -> Result<(), Error> {
    let message = NewMessage {
        kind: MessageKind::Message,
        body,
        data: Vec::new(),
        reply_to: None,
        hops: 0,
        priority: Priority::Normal,
        resource: None,
        recipients: Vec::new(),
        attachments: Vec::new(),
    };
    store
        .message_append(WriteContext::new(WriteActor::User), workflow, message, None, NOW)
        .await
        .map(drop)
}

/// Returns the message bodies in the copies and in the database that is at `path` now.
fn stored(path: &Path, copies: &[PathBuf]) -> BTreeSet<String> {
    let mut bodies = BTreeSet::new();
    for file in copies.iter().map(PathBuf::as_path).chain([path]).filter(|file| file.exists()) {
        #[expect(clippy::disallowed_methods, reason = "another program reads the file")]
        let db = Connection::open(file).unwrap();
        let Ok(mut query) = db.prepare("SELECT body FROM message") else { continue };
        let rows = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
        bodies.extend(rows.map_while(Result::ok));
    }
    bodies
}

fn copies(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_copy = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("rescued-") && path.extension().is_some_and(|ending| ending == "db")
    };
    paths.filter(is_copy).collect()
}

fn truncate(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn replace_with_other_database(path: &Path) {
    let other = path.with_extension("other");
    #[expect(clippy::disallowed_methods, reason = "another program makes the file")]
    let db = Connection::open(&other).unwrap();
    db.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    drop(db);
    fs::rename(other, path).unwrap();
}

/// The sends of one case: those that were acknowledged, and the refusal that ended each sender.
struct SendResults {
    acknowledged: BTreeSet<String>,
    refusals: Vec<Error>,
}

/// Sends from several tasks, applies `harm` to the database after `before` sends, and continues until every sender is
/// refused.
async fn send_until_refused(
    store: Arc<dyn Store>,
    workflow: WorkflowId,
    before: usize,
    harm: impl FnOnce() + Send + 'static,
) -> SendResults {
    let count = Arc::new(AtomicUsize::new(0));
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let (store, count) = (Arc::clone(&store), Arc::clone(&count));
        senders.spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0..20_000 {
                let body = format!("{sender}-{n} {}", "x".repeat(200));
                match send(&*store, workflow, body.clone()).await {
                    Ok(()) => acknowledged.push(body),
                    Err(error) => return (acknowledged, error),
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
            panic!("nobody noticed");
        });
    }
    while count.load(Ordering::Relaxed) < before {
        tokio::task::yield_now().await;
    }
    tokio::task::spawn_blocking(harm).await.unwrap();
    let mut load = SendResults { acknowledged: BTreeSet::new(), refusals: Vec::new() };
    for (acknowledged, refusal) in senders.join_all().await {
        load.acknowledged.extend(acknowledged);
        load.refusals.push(refusal);
    }
    load
}

async fn instance(store: &dyn Store) -> WorkflowId {
    let workflow = store.instance_open("/p".into(), "w".parse().unwrap()).await.unwrap();
    store.run_create(workflow, new_run(), NOW).await.unwrap();
    workflow
}

type TamperFn = fn(&Path);

/// The ways to take a database away, each with the reason that the store must return.
const TAMPERINGS: [(&str, TamperFn, &str); 6] = [
    ("rm db", |path| fs::remove_file(path).unwrap(), "`agent-worker.db` was removed"),
    ("mv over db", replace_with_other_database, "`agent-worker.db` was replaced by another file"),
    (
        "mv db away",
        |path| fs::rename(path, path.with_extension("moved")).unwrap(),
        "`agent-worker.db` was removed",
    ),
    ("rm wal", |path| fs::remove_file(wal_of(path)).unwrap(), "`agent-worker.db-wal` was removed"),
    ("truncate wal", |path| truncate(&wal_of(path), 0), "`agent-worker.db-wal` was truncated"),
    (
        "cut wal",
        |path| truncate(&wal_of(path), fs::metadata(wal_of(path)).unwrap().len() / 2),
        "`agent-worker.db-wal` was truncated",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_send_is_lost_when_the_files_are_removed_replaced_or_truncated() {
    for (name, harm, expected) in TAMPERINGS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent-worker.db");
        let store = Database::open(folder.path()).unwrap();
        let workflow = instance(&store).await;
        let victim = path.clone();
        let load =
            send_until_refused(Arc::new(store.clone()), workflow, 300, move || harm(&victim)).await;
        assert!(load.acknowledged.len() >= 300, "{name}");
        for refusal in &load.refusals {
            let text = refusal.to_string();
            assert!(
                matches!(refusal, Error::OutcomeUnknown(_) | Error::ReadOnly(_)),
                "{name}: {text}"
            );
            assert!(text.contains(expected) && text.contains("rescued-"), "{name}: {text}");
        }
        let faults = store.fault_list().await.unwrap();
        assert!(faults.len() == 1 && faults[0].why.contains(expected), "{name}: {faults:?}");
        let heartbeat = store.heartbeat_put(NOW.store).await;
        assert!(
            matches!(&heartbeat, Err(Error::ReadOnly(why)) if why.contains(expected)),
            "{name}: {heartbeat:?}"
        );
        let copies = copies(folder.path());
        assert_eq!(copies.len(), 1, "{name}: {copies:?}");
        assert_eq!(fs::metadata(&copies[0]).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            store.integrity_check().await.unwrap().problems,
            Vec::<String>::new(),
            "{name}: readers have the copy"
        );
        let instances = store.instance_list(InstanceQuery::All).await.unwrap();
        assert_eq!(instances.len(), 1, "{name}");
        store.close().await;
        let stored = stored(&path, &copies);
        let lost = load.acknowledged.difference(&stored).count();
        assert_eq!(lost, 0, "{name}: of {}", load.acknowledged.len());
        let again = Database::open(folder.path()).err();
        assert!(matches!(again, Some(Error::RescuedCopy { .. })), "{name}: {again:?}");
    }
}

fn wal_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", path.display()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_after_the_database_was_truncated_or_zeroed() {
    type WalTamperFn = fn(&Path);
    let cases: [(&str, WalTamperFn); 3] = [
        ("truncate db", |path| truncate(path, 0)),
        ("cut db", |path| truncate(path, 8192)),
        ("zero db", |path| {
            let length = fs::metadata(path).unwrap().len();
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(&vec![0; usize::try_from(length).unwrap()], 0).unwrap();
        }),
    ];
    for (name, harm) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent-worker.db");
        let store = Database::open(folder.path()).unwrap();
        let workflow = instance(&store).await;
        // Enough messages for SQLite to have copied the log into the database.
        for n in 0..400 {
            send(&store, workflow, format!("{n} {}", "y".repeat(2000))).await.unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() > 16_384);
        harm(&path);
        let refused = send(&store, workflow, "after".into()).await.unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, Error::ReadOnly(_)), "{name}: {text}");
        assert!(text.contains("`agent-worker.db` was truncated"), "{name}: {text}");
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_team_database_is_rescued_and_leaves_the_other_teams_writable() {
    let folder = tempfile::tempdir().unwrap();
    let (home, team) = (folder.path().join("home"), folder.path().join("p/team.db"));
    fs::create_dir(&home).unwrap();
    let multi_store = MultiStore::open(&home).await.unwrap();
    let reference =
        |tag: &str| InstanceRef { name: "w".parse().unwrap(), tag: tag.parse().unwrap() };
    let own = multi_store.instance_open("/p".into(), reference("a")).await.unwrap();
    let other =
        multi_store.instance_open_in(team.clone(), "/p".into(), reference("b")).await.unwrap();
    for workflow in [own, other] {
        multi_store.run_create(workflow, new_run(), NOW).await.unwrap();
    }
    let victim = team.clone();
    let load = send_until_refused(Arc::new(multi_store.clone()), other, 100, move || {
        fs::remove_file(victim).unwrap();
    })
    .await;
    send(&multi_store, own, "still".into()).await.unwrap();
    multi_store.heartbeat_put(NOW.store).await.unwrap();
    let faults = multi_store.fault_list().await.unwrap();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].database.as_deref(), Some(team.as_path()));
    assert!(faults[0].why.contains("`team.db` was removed"), "{faults:?}");
    let copies = copies(&folder.path().join("p/team.db.d"));
    assert_eq!(
        stored(&team, &copies).intersection(&load.acknowledged).count(),
        load.acknowledged.len()
    );
    multi_store.close().await;
    let again = MultiStore::open(&home).await.unwrap();
    let faults = again.fault_list().await.unwrap();
    assert!(faults.len() == 1 && faults[0].why.contains("rescued-"), "{faults:?}");
    assert!(!team.exists(), "no empty database takes its place");
    again.close().await;
}

#[tokio::test]
async fn a_removed_database_is_noticed_by_a_heartbeat_without_other_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (home, team) = (folder.path().join("home"), folder.path().join("p/team.db"));
    fs::create_dir(&home).unwrap();
    let multi_store = MultiStore::open(&home).await.unwrap();
    multi_store.instance_open_in(team.clone(), "/p".into(), "w".parse().unwrap()).await.unwrap();
    assert!(multi_store.fault_list().await.unwrap().is_empty());
    fs::remove_dir_all(folder.path().join("p")).unwrap();
    multi_store.heartbeat_put(NOW.store).await.unwrap();
    assert_eq!(multi_store.fault_list().await.unwrap().len(), 1);
    fs::remove_dir_all(&home).unwrap();
    assert!(matches!(multi_store.heartbeat_put(NOW.store).await, Err(Error::ReadOnly(_))));
    assert_eq!(copies(&home).len(), 1, "the folder is made again for the copy");
    multi_store.close().await;
}
