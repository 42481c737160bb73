//! Full or failing disks, and removed databases, below the real binary.
//!
//! Each test mounts small file systems; without root these tests are counted as skipped.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use agent_worker_host::{DaemonSocket, DialError};
use agent_worker_protocol::{
    Code, Priority,
    api::{SendReply, SendRequest},
};
use bytes::Bytes;
use hyper::Request;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{World, kill, record_skip, wait_for};

const TEAM: &str = "name: load\nagents:\n  a: { mock: [ { say: ok } ] }\n";
/// The agent calls a tool of the daemon once the file `go` exists.
const SLOW: &str = "name: load
agents:
  a:
    mock:
      - calls:
          - { tool: shell, args: { command: 'touch begun; until [ -e go ]; do sleep 0.05; done; touch called' } }
          - { tool: channel_send, args: { message: 'carried out' } }
        say: done
";

/// A kind of file system for a mount.
#[derive(Clone, Copy, Debug)]
enum MountKind {
    Tmpfs,
    Ext4,
}

/// A small file system, unmounted when dropped.
struct Mount {
    folder: TempDir,
}

impl Mount {
    /// Mounts a file system; returns `None` without the privilege.
    fn new(kind: MountKind) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("disk");
        fs::create_dir(&at).unwrap();
        let mut command = Command::new("mount");
        match kind {
            MountKind::Tmpfs => command.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]),
            MountKind::Ext4 => {
                let image = folder.path().join("image");
                File::create(&image).unwrap().set_len(16 << 20).unwrap();
                let made = Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image).output();
                if !made.is_ok_and(|made| made.status.success()) {
                    record_skip("a small ext4: mkfs.ext4 is missing");
                    return None;
                }
                command.args(["-o", "loop"]).arg(&image)
            }
        };
        let mounted = command.arg(&at).stderr(Stdio::null()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            record_skip(&format!("a small {kind:?}: it cannot be mounted here"));
            return None;
        }
        Some(Self { folder })
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("disk/home")
    }

    fn world(&self) -> World {
        World::with(&[("AGENT_WORKER_HOME", self.home().to_str().unwrap())])
    }

    fn filler(&self) -> PathBuf {
        self.folder.path().join("disk/filler")
    }

    /// Uses up every block of the file system.
    fn fill(&self) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.filler()).unwrap();
        for size in [1 << 16, 1 << 12, 512, 1] {
            let block = vec![b'x'; size];
            while file.write_all(&block).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path().join("disk")).status();
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn send(home: &Path, project: &Path, message: String) -> Result<SendReply, DialError> {
    let request = SendRequest {
        target: Some("@load".parse().unwrap()),
        project: Some(project.to_owned()),
        message,
        to: Vec::new(),
        cc: Vec::new(),
        reply_to: None,
        alone: false,
        now: false,
        priority: Priority::Normal,
        attachments: Vec::new(),
    };
    DaemonSocket::at(home.join("daemon.sock")).post("/messages", &request).await
}

fn health(home: &Path) -> Value {
    runtime().block_on(DaemonSocket::at(home.join("daemon.sock")).get("/health")).unwrap()
}

/// Sends messages of 20 KiB until one is refused, and returns the refusal.
fn first_refusal(home: &Path, project: &Path) -> agent_worker_protocol::Problem {
    runtime().block_on(async {
        for n in 0..2000 {
            match send(home, project, format!("{n} {}", "y".repeat(20_000))).await {
                Ok(_) => {}
                Err(DialError::Refused(problem)) => return problem,
                Err(other) => panic!("{other}"),
            }
        }
        panic!("the disk never was full")
    })
}

fn start(world: &World, team: &str) {
    let file = world.file("load.yaml", team);
    world.json(&["start", file.to_str().unwrap(), "--background", "--json"]);
}

/// Calls a tool over MCP as a client.
fn call_tool(home: &Path, tool: &str, args: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": args, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = Request::post("/mcp")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .body(Bytes::from(body.to_string()))
        .unwrap();
    let answer = runtime().block_on(DaemonSocket::at(home.join("daemon.sock")).exchange(request));
    serde_json::from_slice(answer.unwrap().body()).unwrap()
}

#[test]
fn a_full_disk_is_named_on_every_interface_and_needs_no_restart() {
    for kind in [MountKind::Tmpfs, MountKind::Ext4] {
        let Some(mount) = Mount::new(kind) else { continue };
        let (world, home) = (mount.world(), mount.home());
        let mut daemon = world.daemon();
        start(&world, TEAM);
        assert_eq!(health(&home)["status"], "ok", "{kind:?}");
        mount.fill();
        let problem = first_refusal(&home, &world.project());
        assert_eq!((problem.code, problem.code.status()), (Code::Unavailable, 503), "{problem:?}");
        assert!(problem.message.contains("disk is full"), "{kind:?}: {problem:?}");
        let health_now = health(&home);
        assert_eq!(health_now["status"], "read_only", "{kind:?}: {health_now}");
        assert!(health_now["trouble"].as_str().unwrap().contains("disk is full"), "{health_now}");
        let long = "z".repeat(30_000);
        let told = world.run(&["send", "@load", &long, "--json"]);
        assert_eq!(told.code, 1, "{told:?}");
        let told: Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!(told["error"]["code"], "unavailable", "{told}");
        assert!(told["error"]["message"].as_str().unwrap().contains("disk is full"), "{told}");
        let args = json!({"message": long, "target": "@load"});
        let called = &call_tool(&home, "channel_send", &args)["result"];
        assert_eq!(
            (&called["isError"], &called["structuredContent"]["code"]),
            (&json!(true), &json!("unavailable")),
            "{called}"
        );
        let doctor = world.run(&["doctor"]);
        assert_eq!(doctor.code, 1, "{doctor:?}");
        assert!(
            doctor.stdout.contains("the store accepts no writes: the disk is full"),
            "{}",
            doctor.stdout
        );
        let read = world.run(&["peek", "@load"]);
        assert_eq!(read.code, 0, "{kind:?}: what is there can be read: {read:?}");
        mount.free();
        let sent = world.run(&["send", "@load", &long]);
        assert_eq!(sent.code, 0, "{kind:?}: {sent:?}");
        assert_eq!(health(&home)["status"], "ok", "{kind:?}");
        assert_eq!(world.run(&["daemon", "stop"]).code, 0);
        daemon.wait().unwrap();
    }
}

#[test]
fn a_daemon_starts_on_a_full_disk_and_continues_when_there_is_space() {
    for (kind, end) in [
        (MountKind::Tmpfs, "TERM"),
        (MountKind::Tmpfs, "KILL"),
        (MountKind::Ext4, "TERM"),
        (MountKind::Ext4, "KILL"),
    ] {
        let Some(mount) = Mount::new(kind) else { continue };
        let (world, home) = (mount.world(), mount.home());
        let mut daemon = world.daemon();
        start(&world, TEAM);
        world.json(&["send", "@load", "before", "--json"]);
        kill(daemon.id(), end);
        daemon.wait().unwrap();
        mount.fill();
        let mut next = world.daemon();
        let shown = world.run(&["peek", "@load"]);
        assert!(shown.code == 0 && shown.stdout.contains("before"), "{kind:?} {end}: {shown:?}");
        let problem = first_refusal(&home, &world.project());
        assert!(problem.message.contains("disk is full"), "{kind:?} {end}: {problem:?}");
        let state = health(&home);
        assert_eq!(state["status"], "read_only", "{kind:?} {end}: {state}");
        mount.free();
        wait_for("the takeover", || (health(&home)["status"] == "ok").then_some(()));
        world.json(&["send", "a@load", "after", "--json"]);
        wait_for("the agent's turn", || {
            let agents = world.list(&["ls", "@load", "--json"]);
            (agents[0]["turns"].as_u64()? > 0).then_some(())
        });
        assert_eq!(world.run(&["daemon", "stop"]).code, 0);
        next.wait().unwrap();
    }
}

#[test]
fn a_tool_call_is_held_while_the_disk_is_full_and_carried_out_once() {
    let Some(mount) = Mount::new(MountKind::Tmpfs) else { return };
    let (world, home) = (mount.world(), mount.home());
    let mut daemon = world.daemon();
    start(&world, SLOW);
    world.json(&["send", "a@load", "go", "--json"]);
    let in_project = |name: &str| world.project().join(name);
    wait_for("the turn", || in_project("begun").exists().then_some(()));
    mount.fill();
    first_refusal(&home, &world.project());
    world.file("go", "");
    let messages = |world: &World| {
        let said = world.json(&["peek", "@load", "--find", "carried out", "--json"]);
        said["items"].as_array().unwrap().len()
    };
    wait_for("the call", || in_project("called").exists().then_some(()));
    // Long enough for a few retries; the call itself leaves no trace on a full disk.
    thread::park_timeout(Duration::from_millis(600));
    assert_eq!(world.list(&["ls", "@load", "--json"])[0]["state"], "running");
    mount.free();
    wait_for("the end of the turn", || {
        (world.list(&["ls", "@load", "--json"])[0]["state"] == "idle").then_some(())
    });
    assert_eq!(messages(&world), 1);
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn a_failing_disk_is_named_and_writes_go_on_when_it_works_again() {
    let Some(mount) = Mount::new(MountKind::Ext4) else { return };
    // The kernel refuses every write to an immutable file, also through an open descriptor.
    let chattr = |flag: &str, path: &Path| {
        let done = Command::new("chattr").arg(flag).arg(path).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    };
    fs::write(mount.filler(), "").unwrap();
    if !(chattr("+i", &mount.filler()) && chattr("-i", &mount.filler())) {
        record_skip("a failing disk: chattr does not work here");
        return;
    }
    let (world, home) = (mount.world(), mount.home());
    let mut daemon = world.daemon();
    start(&world, TEAM);
    let wal = home.join("agent-worker.db-wal");
    assert!(chattr("+i", &wal));
    let problem = first_refusal(&home, &world.project());
    assert!(matches!(problem.code, Code::Unavailable | Code::ReadOnly), "{problem:?}");
    assert!(problem.message.contains("I/O error"), "{problem:?}");
    let state = health(&home);
    assert_eq!(state["status"], "read_only", "{state}");
    let doctor = world.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.stdout.contains("accepts no writes"), "{doctor:?}");
    assert!(chattr("-i", &wal));
    wait_for("a write", || (health(&home)["status"] == "ok").then_some(()));
    assert_eq!(world.run(&["send", "@load", "again"]).code, 0);
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn no_acknowledged_send_is_lost_when_the_database_is_taken_away_from_the_daemon() {
    type DamageFn = fn(&Path);
    let cases: [(&str, DamageFn); 4] = [
        ("rm", |db| fs::remove_file(db).unwrap()),
        ("mv over", |db| {
            fs::write(db.with_extension("other"), "another file").unwrap();
            fs::rename(db.with_extension("other"), db).unwrap();
        }),
        ("rm wal", |db| fs::remove_file(wal_of(db)).unwrap()),
        ("truncate wal", |db| {
            OpenOptions::new().write(true).open(wal_of(db)).unwrap().set_len(0).unwrap();
        }),
    ];
    for (name, harm) in cases {
        let world = World::new();
        let mut daemon = world.daemon();
        start(&world, TEAM);
        let (home, count) = (world.home(), AtomicUsize::new(0));
        let acknowledged: BTreeSet<String> = thread::scope(|scope| {
            let senders: Vec<_> = (0..4)
                .map(|sender| {
                    let (home, project, count) = (&home, world.project(), &count);
                    scope.spawn(move || send_until_refused(home, &project, sender, count))
                })
                .collect();
            wait_for("load", || (count.load(Ordering::Relaxed) >= 200).then_some(()));
            harm(&home.join("agent-worker.db"));
            senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect()
        });
        let state = health(&home);
        assert_eq!(state["status"], "read_only", "{name}: {state}");
        let copy = state["rescued"][0].as_str().unwrap_or_else(|| panic!("{name}: {state}"));
        assert_eq!(fs::metadata(copy).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(state["trouble"].as_str().unwrap().contains(copy), "{name}: {state}");
        let doctor = world.run(&["doctor"]);
        assert!(
            doctor.code == 1 && doctor.stdout.replace(['\n', ' '], "").contains(copy),
            "{name}: {doctor:?}"
        );
        assert!(world.log().contains(copy), "{name}");
        let shown = world.run(&["peek", "@load"]);
        assert_eq!(shown.code, 0, "{name}: the copy is read: {shown:?}");
        let stored = bodies(Path::new(copy));
        assert_eq!(
            acknowledged.difference(&stored).count(),
            0,
            "{name}: of {}",
            acknowledged.len()
        );
        assert_eq!(world.run(&["daemon", "stop"]).code, 0);
        daemon.wait().unwrap();
        let refused = world.run(&["ls"]);
        assert!(refused.code == 1 && refused.stderr.contains(copy), "{name}: {refused:?}");
        for rest in ["-wal", "-shm"] {
            let _ = fs::remove_file(home.join(format!("agent-worker.db{rest}")));
        }
        fs::rename(copy, home.join("agent-worker.db")).unwrap();
        let found = world.run(&["peek", "@load"]);
        assert!(found.code == 0, "{name}: {found:?}");
        assert_eq!(world.run(&["doctor"]).code, 0, "{name}");
    }
}

fn wal_of(database: &Path) -> PathBuf {
    database.with_extension("db-wal")
}

/// Sends until a send is refused; returns the acknowledged messages.
fn send_until_refused(
    home: &Path,
    project: &Path,
    sender: usize,
    count: &AtomicUsize,
) -> Vec<String> {
    let mut acknowledged = Vec::new();
    runtime().block_on(async {
        for n in 0..20_000 {
            let message = format!("load {sender}-{n}");
            match send(home, project, message.clone()).await {
                Ok(_) => acknowledged.push(message),
                Err(DialError::Refused(problem)) => {
                    assert!(problem.message.contains("rescued-"), "{problem:?}");
                    return;
                }
                Err(other) => panic!("{other}"),
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
        panic!("nobody noticed")
    });
    acknowledged
}

fn bodies(database: &Path) -> BTreeSet<String> {
    #[expect(clippy::disallowed_methods, reason = "somebody else opens the file")]
    let db = rusqlite::Connection::open(database).unwrap();
    let mut query = db.prepare("SELECT body FROM message").unwrap();
    let rows = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_database_that_was_truncated_or_zeroed_is_named_before_anything_is_written() {
    for zeroed in [false, true] {
        let world = World::new();
        let mut daemon = world.daemon();
        start(&world, TEAM);
        let database = world.home().join("agent-worker.db");
        let file = std::fs::OpenOptions::new().write(true).open(&database).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(0).unwrap();
        if zeroed {
            file.set_len(length).unwrap();
        }
        let status = world.json(&["daemon", "status", "--json"]);
        assert_eq!(status["status"], "read_only", "{zeroed}: {status}");
        assert!(status["trouble"].as_str().unwrap().contains("rescued-"), "{zeroed}: {status}");
        let doctor = world.run(&["doctor"]);
        assert_eq!(doctor.code, 1, "{zeroed}: {doctor:?}");
        let names =
            doctor.stdout.contains("the store accepts no writes: `agent-worker.db` was truncated");
        assert!(
            names && !doctor.stdout.contains("internal error in the daemon"),
            "{}",
            doctor.stdout
        );
        assert_eq!(world.run(&["daemon", "stop"]).code, 0);
        daemon.wait().unwrap();
    }
}
