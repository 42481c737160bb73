//! A home that version 0.1 of the program (schema 16) left behind: the current program opens it and continues the
//! work.
//!
//! `tests/compatibility/home-v16.tar.gz` contains that home and its project. `home-v16.json` has the reads and actions of
//! the program that created it, and the fields that later versions add; `AW_RECORD=1` rewrites it. The daemon of that
//! home was killed, so the archive also has a write-ahead log, an attempt with its end recorded only in `events.jsonl`,
//! and one that waited for an approval.
//!
//! The database names the project by its absolute path, in rows with checksums. The project is therefore always
//! unpacked at `PROJECT`, and a lock there separates two runs of this test; the home contains no path and is
//! unpacked anywhere.
//!
//! `AW_PREVIOUS` is the program of the previous version (`scripts/previous-version` builds it): the current daemon
//! adopts a live worker of that version. `.config/nextest.toml` excludes that test; `scripts/nightly` runs it.
//!
//! `AW_MAKE_HOME=1` recreates both files with the program under test, to keep a later version, at the commit of
//! that version and with a name of its own in `NAME`:
//! `AW_MAKE_HOME=1 cargo nextest run --workspace --locked -E 'test(/^compatibility::a_home/)'`.

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    approvals::CLAUDE_STUB,
    wire::{
        http::Ask,
        tape::{Tape, is_set},
    },
    world::{CommandOutput, World, is_alive, kill, record_skip, wait_for},
};

const NAME: &str = "compatibility/home-v16";
const PROJECT: &str = "/tmp/agent-worker-compatibility";

/// Parts of a home that belong to a process or a machine and are not archived.
const NOT_KEPT: [&str; 7] =
    ["daemon.json", "daemon.lock", "start.lock", "daemon.sock", "logs", "cgroups", "*.db-shm"];

fn archive() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(format!("{NAME}.tar.gz"))
}

/// The folder at the fixed path, which only one test at a time uses.
struct Project {
    _lock: File,
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(PROJECT);
    }
}

/// Returns a world whose project is at the fixed path. The project is dropped last, because a world runs commands
/// in it.
fn world() -> (Project, World) {
    let lock = File::create(format!("{PROJECT}.lock")).unwrap();
    lock.lock().unwrap();
    let world = World::with(&[
        // Two workers: one that waits for an approval, and one more.
        ("AGENT_WORKER_WORKERS", "2"),
        ("AGENT_WORKER_PROCESS_TRACKING", "tree"),
        ("AGENT_WORKER_KILL_GRACE", "100ms"),
        ("AGENT_WORKER_ORPHAN_GRACE", "1s"),
    ]);
    let _ = fs::remove_dir_all(PROJECT);
    fs::create_dir(PROJECT).unwrap();
    // A command that starts in the link runs in the target folder.
    fs::remove_dir(world.project()).unwrap();
    symlink(PROJECT, world.project()).unwrap();
    (Project { _lock: lock }, world)
}

fn tar(words: &[&str], home: &Path) {
    let mut tar = Command::new("tar");
    let folder = |path: &Path| path.parent().unwrap().to_owned();
    // Both folders have fixed names in the archive.
    tar.args(words).arg("-C").arg(folder(home)).arg("home");
    tar.arg("-C").arg(folder(Path::new(PROJECT))).arg(Path::new(PROJECT).file_name().unwrap());
    let output = tar.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn pack(world: &World) {
    let left_out = NOT_KEPT.map(|name| format!("--exclude={name}"));
    let path = archive();
    let mut words = vec!["-czf", path.to_str().unwrap(), "--owner=0", "--group=0", "--sort=name"];
    words.extend(left_out.iter().map(String::as_str));
    tar(&words, &world.home());
}

fn unpack(world: &World) {
    let path = archive();
    tar(&["-xzf", path.to_str().unwrap()], &world.home());
}

#[test]
fn a_home_of_the_version_before_opens_and_works_on() {
    if is_set("AW_MAKE_HOME") {
        let (_project, world) = world();
        make(&world);
        pack(&world);
    }
    let (_project, world) = world();
    unpack(&world);
    let mut daemon = world.daemon();
    let mut tape = Tape::of(NAME, world);
    settles(&tape);
    reads(&mut tape);
    works_on(&mut tape);
    tape.cli("daemon status");
    let doctor = tape.world.run(&["doctor"]);
    assert_eq!(doctor.code, 0, "{doctor:?}");
    tape.events("@waiting");
    tape.cli("daemon stop");
    daemon.wait().unwrap();
    if is_set("AW_MAKE_HOME") { tape.write() } else { tape.finish() }
}

/// Waits until the attempts that the daemon found are settled: one has ended, one asks again.
fn settles(tape: &Tape) {
    tape.rest("@orphan");
    wait_for("the request to be asked again", || {
        let coder = tape.world.json(&["status", "coder@guarded:open", "--json"]);
        (coder["state"] == "waiting").then_some(())
    });
}

/// Records the unchanged content of the home.
fn reads(tape: &mut Tape) {
    for line in [
        "runs --all",
        "ls --all",
        "peek @done --all -n 100",
        "export @done --all",
        "receipts 1 @done",
        "receipts 2 @done",
        "doc list --target @done",
        "doc read notes.md --target @done",
        "doc read notes.md --revision 1 --target @done",
        "doc read decisions.md --target @done",
        "doc history notes.md --diff --target @done",
        "proposals --all --target @done",
        "proposals 1 --target @done",
        "resource list --target @done",
        "stats @done --all",
        "status coder@done",
        "logs coder@done",
        "dead @waiting",
        "peek b@waiting --inbox",
        "status @waiting",
        "answer --target @asking",
        "pending --target @guarded:open",
        "status @guarded:answered",
        "ls @global",
        "token list",
        "feedback list",
    ] {
        tape.cli(line);
    }
    for path in ["/attention?target=@waiting", "/workflows", "/agents/coder@done"] {
        tape.get(path);
    }
    let kept = tape.world.list(&["resource", "list", "--target", "@done", "--json"]);
    for one in kept.as_array().unwrap() {
        tape.get(&format!("/resources/{}?range=0..40&target=@done", one["id"].as_str().unwrap()));
    }
    // Only the events file of this attempt recorded its end.
    tape.cli("status a@orphan");
    tape.cli("peek @orphan");
    let token = fs::read_to_string(Path::new(PROJECT).join("ci.token")).unwrap();
    let header = format!("Authorization: Bearer {}", token.trim());
    let ask = Ask { method: "GET", path: "/agents?target=@done", headers: &[&header], body: "" };
    let reply = ask.reply_on_port(&tape.world);
    tape.reply("client: agents", &reply);
}

/// Continues the work: delivers pending messages, answers questions and requests, redrives dead letters.
fn works_on(tape: &mut Tape) {
    tape.cli("resume @waiting --detach");
    tape.rest("@waiting");
    let inbox = tape.world.json(&["peek", "b@waiting", "--inbox", "--json"]);
    assert_eq!(inbox["items"], Value::Array(Vec::new()), "{inbox}");
    tape.cli("receipts 3 @waiting");
    tape.cli("receipts 4 @waiting");
    tape.cli("dead redrive @waiting");
    tape.rest("@waiting");
    tape.cli("peek @waiting -n 100");
    tape.cli("answer 1 yes --target @asking");
    tape.rest("@asking");
    tape.cli("peek @asking");
    tape.cli("approve 1 --target @guarded:open");
    wait_for("the approved turn", || {
        let coder = tape.world.json(&["status", "coder@guarded:open", "--json"]);
        (coder["state"] == "idle").then_some(())
    });
    tape.cli("peek @guarded:open");
    let ran = fs::read_to_string(Path::new(PROJECT).join("ran.txt")).unwrap();
    assert_eq!(ran, "once\nonce\n", "once before and once after");
    tape.cli("ask parrot 'Are you still there?'");
    tape.cli("doc append notes.md 'after it' --target @waiting");
    tape.cli("doc read notes.md --target @waiting");
    let file = Path::new(PROJECT).join(".workflow/waiting/main/documents/notes.md");
    wait_for("the document's file", || {
        fs::read_to_string(&file).ok()?.contains("after it").then_some(())
    });
    tape.events("@done");
    tape.cli("restart @done --detach");
    tape.rest("@done");
    tape.cli("stop @waiting");
}

const DONE: &str = r#"
name: done
setup: [{ shell: "echo a diff", as: diff }]
agents:
  lead:
    backend: mock
    mock: [{ on: begin, calls: [{ tool: channel_send, args: { message: "@coder write it" } }], say: Handed on. }, { say: Noted. }]
  coder:
    backend: mock
    mock:
      - on: write it
        calls:
          - { tool: document_append, args: { content: "First.\n" } }
          - { tool: document_append, args: { content: "Second.\n" } }
          - { tool: document_create, args: { file: plans/first.md, content: "One step.\n" } }
          - { tool: resource_create, args: { content: "A log.", type: text/x-log } }
        say: Written.
      - { say: Again. }
kickoff: "${{ diff }}: @lead begin"
"#;

const WAITING: &str = r"
name: waiting
agents:
  a: { backend: mock, mock: [{ on: fails, fail: fatal }, { say: Here. }], retry: { max_attempts: 1 } }
  b: { backend: mock, mock: [{ say: There. }] }
";

const ASKING: &str = r#"
name: asking
agents:
  coder: { backend: mock, mock: [{ on: go, calls: [{ tool: ask_human, args: { question: "Drop it?", options: ["yes", "no"] } }] }, { say: So be it. }] }
kickoff: "@coder go"
"#;

const ORPHAN: &str = r#"
name: orphan
agents:
  a: { backend: mock, mock: [{ run: "touch up; until [ -e go ]; do sleep 0.05; done", say: Done alone. }] }
kickoff: "@a go"
"#;

/// Runs a command line of the program in a shell. The run stores its environment, so that contains no path of the
/// build.
fn typed(world: &World, line: &str) -> CommandOutput {
    let usual = world.command(&[]);
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("'{}' {line}", env!("CARGO_BIN_EXE_agent-worker"))]).env_clear();
    bash.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    CommandOutput::from(bash.current_dir(PROJECT).output().unwrap())
}

/// Fills a home and kills its daemon.
fn make(world: &World) {
    let mut daemon = world.daemon();
    let run = |line: &str, code: i32| {
        let said = typed(world, line);
        assert_eq!(said.code, code, "{line}: {said:?}\n{}", world.log());
        said
    };
    world.file("done.yaml", DONE);
    run("start --background done.yaml", 0);
    run("send coder@done 'once more' --wait", 0);
    run("send @done 'for the record' --cc lead", 0);
    world.file("long.txt", &"word ".repeat(8000));
    run("send @done - < long.txt", 0);
    run("doc append notes.md 'By hand.' --target @done", 0);
    run("propose 'Ship it?' --voter user --gate release --binding --target @done", 0);
    run("vote 1 approve --reason 'it is time' --target @done", 0);
    run("propose 'Rewrite it?' --option yes --option no --voter user --target @done", 0);
    run("veto 2 --why 'not now' --target @done", 0);
    run("propose 'Too late?' --voter user --deadline 1ms --target @done", 0);
    wait_for("the deadline", || {
        run("proposals 3 --target @done", 0).stdout.contains("expired").then_some(())
    });
    run("propose 'Left open?' --voter user --target @done", 0);
    run("stop @done", 0);
    run("token create ci > ci.token", 0);
    run("token create nightly --allow read,run --instance '@done:*' > /dev/null", 0);
    run("feedback 'all is well'", 0);
    run("new parrot -b mock --say Polly.", 0);
    run("ask parrot 'Who is there?'", 0);
    world.file("waiting.yaml", WAITING);
    run("start --background waiting.yaml", 0);
    run("send a@waiting 'this fails' --wait", 1);
    run("doc append notes.md 'before it' --target @waiting", 0);
    run("pause @waiting", 0);
    run("send b@waiting 'it waits'", 0);
    run("send @waiting '@b so does this' --urgent", 0);
    world.file("asking.yaml", ASKING);
    // Unlike `run`, this command has no time limit, which would expire before the home is opened.
    run("start --background asking.yaml", 0);
    wait_for("the question", || {
        run("answer --target @asking", 0).stdout.contains("Drop it?").then_some(())
    });
    guarded(world, &run);
    world.file("orphan.yaml", ORPHAN);
    run("start --background orphan.yaml", 0);
    wait_for("the turn", || world.project().join("up").exists().then_some(()));
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    world.file("go", "");
    wait_for("the workers to be gone", || world.processes().is_empty().then_some(()));
}

/// Creates an approved request and an open one.
fn guarded(world: &World, run: &dyn Fn(&str, i32) -> CommandOutput) {
    // The run would store the environment of this line.
    let script: Vec<_> = CLAUDE_STUB.lines().filter(|line| !line.contains("AW_BINARY")).collect();
    let claude = world.file("claude.sh", &(script.join("\n") + "\n"));
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let team = format!(
        "name: guarded\nagents:\n  coder: {{ backend: claude, mode: isolated, command: {PROJECT}/claude.sh }}\nkickoff: '@coder go'\n"
    );
    world.file("guarded.yaml", &team);
    run("run guarded.yaml --tag answered", 4);
    run("approve 1 --target @guarded:answered", 0);
    run("attach @guarded:answered", 0);
    run("start --background guarded.yaml --tag open", 0);
    wait_for("the request", || {
        run("pending --target @guarded:open", 0).stdout.contains("Bash").then_some(())
    });
}

#[expect(
    clippy::disallowed_methods,
    reason = "which program to compare is a setting of the test itself"
)]
fn previous() -> Option<PathBuf> {
    std::env::var_os("AW_PREVIOUS").map(PathBuf::from)
}

/// Returns every stored event of `@team` up to the first of this kind.
fn events_until(world: &World, kind: &str) -> Vec<Value> {
    let ask = Ask { method: "GET", path: "/events?target=@team&after=0", ..Ask::default() };
    ask.events(world, |event| event["kind"] == kind)
}

#[test]
fn a_worker_of_the_previous_version_is_adopted_and_its_turn_ends_once() {
    let Some(previous) = previous() else {
        record_skip("a worker of the previous version: AW_PREVIOUS names no program");
        return;
    };
    let world = World::new();
    // After the signal to continue, the agent also sends a message from its shell, with the program of its own
    // version.
    let work = format!(
        "echo x >> turns; until [ -e go ]; do sleep 0.05; done\n\
         AGENT_WORKER_HOME='{}' '{}' context send 'from the shell'\n",
        world.home().display(),
        previous.display()
    );
    world.file("work.sh", &work);
    let team = "name: team\nagents:\n  a: { backend: mock, mock: [{ run: bash work.sh, say: Done. }] }\nkickoff: '@a go'\n";
    world.file("team.yaml", team);
    let mut before = world.announced(world.command_of(&previous, &["daemon", "--announce"]));
    let started = world.command_of(&previous, &["start", "--background", "team.yaml"]).output();
    let started = CommandOutput::from(started.unwrap());
    assert_eq!(started.code, 0, "{started:?}");
    let running = events_until(&world, "attempt.running").pop().unwrap();
    let pid = u32::try_from(running["data"]["pid"].as_u64().unwrap()).unwrap();
    assert_eq!(
        fs::read_link(format!("/proc/{pid}/exe")).unwrap(),
        previous.canonicalize().unwrap()
    );
    wait_for("the turn", || world.project().join("turns").exists().then_some(()));
    kill(before.id(), "KILL");
    before.wait().unwrap();

    let mut next = world.daemon();
    let adopted = world.json(&["status", "a@team", "--json"]);
    assert_eq!((&adopted["state"], &adopted["attempt"]), (&"running".into(), &running["attempt"]));
    assert!(is_alive(pid), "{adopted}");
    world.file("go", "");
    let events = events_until(&world, "attempt.ended");
    let of = |kind: &str| events.iter().filter(|event| event["kind"] == kind).collect::<Vec<_>>();
    assert_eq!((of("attempt.starting").len(), of("attempt.running").len()), (1, 1), "{events:#?}");
    let ended = of("attempt.ended")[0];
    assert_eq!((&ended["attempt"], &ended["data"]["end"]), (&running["attempt"], &"ok".into()));
    let said: Vec<_> = of("message").iter().map(|event| event["data"]["body"].clone()).collect();
    assert_eq!(said, ["@a go", "from the shell", "Done."]);
    let after = world.json(&["status", "a@team", "--json"]);
    assert_eq!((&after["state"], &after["turns"]), (&"idle".into(), &1.into()), "{after}");
    assert_eq!(fs::read_to_string(world.project().join("turns")).unwrap(), "x\n");
    wait_for("the worker to be gone", || (!is_alive(pid)).then_some(()));
    assert_eq!(world.run(&["daemon", "stop", "--now"]).code, 0);
    next.wait().unwrap();
}
