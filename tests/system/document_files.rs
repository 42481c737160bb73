//! Documents as files: agents and people write the same text at once, while the daemon is killed.
//!
//! `AW_LINES` is the number of appended lines.

use std::{
    collections::HashSet,
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use agent_worker_host::DaemonSocket;
use agent_worker_protocol::{
    DocumentPath, EventKind, Position,
    api::{DocumentMode, DocumentRequest, DocumentWritten},
};
use agent_worker_store::{
    Database, DocumentStore as _, EventQuery, InstanceQuery, ListRange, RunStore as _,
};
use serde_json::Value;

use crate::world::{TEST_TIMEOUT, World, kill, wait_for};

const WRITERS: usize = 32;
const KILLS: usize = 4;
const TEAM: &str = "agents: { a: { mock: [] }, b: { mock: [] } }\n";

#[expect(
    clippy::disallowed_methods,
    reason = "how long the nightly runs is a setting of the test itself"
)]
fn lines() -> usize {
    std::env::var("AW_LINES").map_or(960, |text| text.parse().unwrap())
}

fn documents(world: &World) -> PathBuf {
    world.project().join(".workflow/team/main/documents")
}

fn start_team(world: &World) {
    world.file("team.yaml", TEAM);
    let said = world.run(&["start", "team.yaml", "--background"]);
    assert_eq!(said.code, 0, "{said:?}");
}

/// Returns the attention list of the team.
fn attention(world: &World) -> Vec<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let daemon = DaemonSocket::at(world.home().join("daemon.sock"));
    let page: Value = runtime.block_on(daemon.get("/attention?target=@team")).unwrap();
    page["items"].as_array().unwrap().clone()
}

fn document_content(world: &World) -> String {
    let text = world.json(&["doc", "read", "--json"]);
    text["content"].as_str().unwrap().to_owned()
}

fn read_or_empty(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn decisions_are_a_read_only_file_and_an_edit_is_set_aside() {
    let world = World::new();
    start_team(&world);
    let file = documents(&world).join("decisions.md");
    assert!(!file.exists(), "nothing was decided yet");
    let decide = |n: usize| {
        let title = format!("Ship number {n}?");
        assert_eq!(world.run(&["propose", &title, "--target", "@team"]).code, 0);
        assert_eq!(world.run(&["veto", &n.to_string(), "--target", "@team"]).code, 0);
        wait_for("the file", || {
            read_or_empty(&file).contains(&format!("## #{n} {title}")).then_some(())
        });
    };
    decide(1);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o444);
    let listed = world.list(&["doc", "list", "--target", "@team", "--json"]);
    assert_eq!(listed[0]["file"], "decisions.md", "{listed}");
    decide(2);
    assert!(read_or_empty(&file).contains("## #1 "), "what was decided before stays");
    // A user replaces the file anyway: their text is set aside, and the file has the decision again.
    let theirs = documents(&world).join("theirs");
    fs::write(&theirs, "I decide.\n").unwrap();
    fs::rename(&theirs, &file).unwrap();
    let aside = documents(&world).join("decisions.md.conflict");
    wait_for("theirs to lie aside", || (read_or_empty(&aside) == "I decide.\n").then_some(()));
    wait_for("ours again", || read_or_empty(&file).starts_with("# Decisions\n").then_some(()));
    let left = fs::read_dir(documents(&world)).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name == ".decisions.md.out"), "{left:?}");
}

/// Appends lines through the daemon, each until it is acknowledged, across kills of the daemon.
fn append(world: &World, writer: usize, count: usize, done: &AtomicUsize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let daemon = DaemonSocket::at(world.home().join("daemon.sock"));
        for n in 0..count {
            let key = format!("{writer}-{n}");
            let request = DocumentRequest {
                target: Some("@team".parse().unwrap()),
                project: Some(world.project()),
                content: format!("w{key}\n"),
                mode: DocumentMode::Append,
                base_revision: None,
            };
            let deadline = Instant::now() + TEST_TIMEOUT;
            loop {
                let path = "/documents/notes.md";
                match daemon.post_once::<_, DocumentWritten>(path, &key, &request).await {
                    Ok(_) => break,
                    Err(error) => assert!(Instant::now() < deadline, "{error}"),
                }
                tokio::task::yield_now().await;
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Runs `step` `times` times, spread over the work of the writers.
fn repeat_during_writes(done: &AtomicUsize, all: usize, times: usize, mut step: impl FnMut(usize)) {
    for n in 0..times {
        let due = all * n / times;
        wait_for("the writers to go on", || (done.load(Ordering::Relaxed) >= due).then_some(()));
        step(n);
    }
}

fn append_with_shell(file: &Path, line: &str) {
    let mut open = fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
    open.write_all(line.as_bytes()).unwrap();
}

/// Edits the first line in place, or with a program that rewrites the file.
fn edit_in_place(file: &Path, n: usize) {
    if n.is_multiple_of(2) {
        let mut open = fs::OpenOptions::new().write(true).open(file).unwrap();
        open.seek(SeekFrom::Start(5)).unwrap();
        open.write_all(format!("{n:04}").as_bytes()).unwrap();
    } else {
        let script = format!("1s/^edit ..../edit {n:04}/");
        assert!(Command::new("sed").args(["-i", &script]).arg(file).status().unwrap().success());
    }
}

#[test]
fn lines_that_agents_and_people_append_at_once_are_all_there_however_often_the_daemon_is_killed() {
    let world = Arc::new(World::new());
    let mut daemon = world.daemon();
    start_team(&world);
    world.run(&["doc", "append", "notes.md", "edit ----"]);
    let file = documents(&world).join("notes.md");
    wait_for("the file", || read_or_empty(&file).starts_with("edit").then_some(()));
    let old_copy = read_or_empty(&file);
    let each = lines() / WRITERS;
    let all = each * WRITERS;
    let done = Arc::new(AtomicUsize::new(0));
    let mut people = Vec::new();
    for writer in 0..WRITERS {
        let (world, done) = (Arc::clone(&world), Arc::clone(&done));
        people.push(thread::spawn(move || append(&world, writer, each, &done)));
    }
    // Only one person: an append by a second person during a rewrite by sed would be lost to sed itself.
    let (person, count) = (file.clone(), Arc::clone(&done));
    people.push(thread::spawn(move || {
        let (times, edits) = (all / 8, (all / 96).max(1));
        repeat_during_writes(&count, all, times, |n| {
            append_with_shell(&person, &format!("shell{n}\n"));
            if n.is_multiple_of(edits) {
                edit_in_place(&person, n / edits);
            }
        });
    }));
    repeat_during_writes(&done, all, KILLS, |n| {
        if n > 0 {
            kill(daemon.id(), "KILL");
            daemon.wait().unwrap();
            daemon = world.daemon();
        }
    });
    for one in people {
        one.join().unwrap();
    }
    let mut wanted: HashSet<String> =
        (0..WRITERS).flat_map(|w| (0..each).map(move |n| format!("w{w}-{n}"))).collect();
    wanted.extend((0..all / 8).map(|n| format!("shell{n}")));
    let deadline = Instant::now() + TEST_TIMEOUT / 2;
    let whole = wait_for("a look", || {
        let text = document_content(&world);
        let found: HashSet<&str> = text.lines().collect();
        let missing: Vec<_> = wanted.iter().filter(|line| !found.contains(line.as_str())).collect();
        assert!(Instant::now() < deadline, "missing: {missing:?}\n{}", world.log());
        missing.is_empty().then(|| text.clone())
    });
    let twice = whole.lines().count() - whole.lines().collect::<HashSet<_>>().len();
    assert_eq!(twice, 0, "no line is there twice");
    // Edits settle, and the file has the content of the store.
    wait_for("the file to follow", || {
        (read_or_empty(&file) == document_content(&world)).then_some(())
    });
    save_stale_copy(&world, daemon, &file, &old_copy);
}

/// Saves a copy from the beginning, which reverts all later changes and reports that.
fn save_stale_copy(world: &World, mut daemon: std::process::Child, file: &Path, old_copy: &str) {
    // Later than any program could have held the file open without noticing a change.
    let saved = Instant::now();
    wait_for("a while", || (saved.elapsed().as_secs() >= 4).then_some(()));
    let before = document_content(world);
    fs::write(file, old_copy).unwrap();
    let after = wait_for("the lines to be gone", || {
        Some(document_content(world)).filter(|text| text.lines().count() < before.lines().count())
    });
    assert_eq!(after.lines().filter(|line| !line.starts_with("edit")).count(), 0, "{after}");
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Database::open(&world.home()).unwrap();
        let team = store.instance_list(InstanceQuery::All).await.unwrap();
        let team = team.iter().find(|one| one.instance.to_string() == "team").unwrap().id;
        let query =
            EventQuery { workflow: team, run: None, after: Position::new(0), limit: u32::MAX };
        let events = store.event_list(query).await.unwrap();
        let last =
            events.iter().rfind(|event| event.kind() == Some(EventKind::DocumentWritten)).unwrap();
        let gone = before.lines().filter(|line| !after.lines().any(|left| left == *line)).count();
        assert_eq!(last.data()["removed"], gone, "{last:?}");
        assert_eq!(last.by.as_deref(), Some("user"));
        let history = store
            .document_history(team, DocumentPath::default(), ListRange::first(2))
            .await
            .unwrap();
        let kept = store.document_get(team, DocumentPath::default(), Some(history[1].revision));
        assert_eq!(kept.await.unwrap().unwrap().content, before, "it is in the history");
        store.close().await;
    });
}

#[test]
fn what_a_person_does_to_the_files_is_done_to_the_documents() {
    let world = World::new();
    start_team(&world);
    let place = documents(&world);
    assert!(!place.exists(), "who has no documents has no folder");
    world.run(&["doc", "create", "plans/first.md", "one"]);
    let first = place.join("plans/first.md");
    wait_for("the file", || (read_or_empty(&first) == "one\n").then_some(()));
    // A file that a user creates becomes a document; a deleted file is restored.
    fs::write(place.join("mine.md"), "mine\n").unwrap();
    fs::remove_file(&first).unwrap();
    let listed = wait_for("the new document", || {
        let list = world.list(&["doc", "list", "--json"]);
        (list.as_array().unwrap().len() == 2).then_some(list)
    });
    assert_eq!((&listed[0]["file"], &listed[0]["author"]), (&"mine.md".into(), &"user".into()));
    wait_for("the file to come back", || (read_or_empty(&first) == "one\n").then_some(()));
    // A file that is no text is set aside, and the attention list shows it until the user removes it.
    fs::write(place.join("mine.md"), b"\xff\xfe").unwrap();
    let aside = place.join("mine.md.conflict");
    wait_for("it to be set aside", || aside.exists().then_some(()));
    wait_for("the text to come back", || {
        (read_or_empty(&place.join("mine.md")) == "mine\n").then_some(())
    });
    let told = wait_for("somebody to be told", || attention(&world).pop());
    let what = "what was written into mine.md is set aside: the file is not UTF-8 text";
    assert_eq!((&told["kind"], &told["what"]), (&"document_conflict".into(), &what.into()));
    assert_eq!(fs::read(&aside).unwrap(), b"\xff\xfe");
    fs::remove_file(&aside).unwrap();
    wait_for("it to be forgotten", || attention(&world).is_empty().then_some(()));
}

#[test]
fn no_name_and_no_link_leads_out_of_the_folder() {
    let world = World::new();
    start_team(&world);
    let outside = world.project().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret.md"), "secret\n").unwrap();
    world.run(&["doc", "create", "plans/first.md", "one"]);
    let place = documents(&world);
    wait_for("the file", || place.join("plans/first.md").exists().then_some(()));
    create_hostile_names(&world);
    // Links in place of a file and of a folder, to existing and to missing targets.
    symlink(outside.join("secret.md"), place.join("secret.md")).unwrap();
    symlink(&outside, place.join("linked")).unwrap();
    symlink(outside.join("made.md"), place.join("made.md")).unwrap();
    fs::rename(place.join("plans"), place.join("moved")).unwrap();
    symlink(&outside, place.join("plans")).unwrap();
    for file in ["plans/first.md", "plans/second.md", "made.md", "linked/other.md"] {
        world.run(&["doc", "append", file, "two"]);
    }
    // A valid operation after all that has completed, so the earlier changes were processed.
    world.run(&["doc", "create", "last.md", "last"]);
    wait_for("the last file", || place.join("last.md").exists().then_some(()));
    wait_for("the moved file to be found", || {
        let list = world.run(&["doc", "list"]).stdout;
        list.contains("moved/first.md").then_some(())
    });
    let list = world.run(&["doc", "list"]).stdout;
    assert!(!list.contains("secret.md"), "nothing outside is read: {list}");
    let there: Vec<_> =
        fs::read_dir(&outside).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(there, ["secret.md"], "nothing outside is written");
    assert_eq!(read_or_empty(&outside.join("secret.md")), "secret\n");
    for link in ["plans", "made.md", "secret.md", "linked"] {
        assert!(place.join(link).symlink_metadata().unwrap().is_symlink(), "{link} stays");
    }
}

#[test]
fn a_link_swapped_in_between_leads_nowhere() {
    const SWAPS: usize = 200;
    let world = World::new();
    start_team(&world);
    let outside = world.project().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("first.md"), "secret\n").unwrap();
    world.run(&["doc", "create", "plans/first.md", "one"]);
    let place = documents(&world);
    wait_for("the file", || place.join("plans/first.md").exists().then_some(()));
    let [link, file_link] = ["link", "file-link"].map(|name| world.project().join(name));
    symlink(&outside, &link).unwrap();
    symlink(outside.join("first.md"), &file_link).unwrap();
    // The folder, or the file in it, alternates between a link and none during reads and writes.
    let (done, over) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while over.load(Ordering::Relaxed) == 0 {
                for (there, swapped) in [("plans", &link), ("plans/first.md", &file_link)] {
                    swap(&place.join(there), swapped);
                    swap(&place.join(there), swapped);
                }
                n += 1;
                done.store(n, Ordering::Relaxed);
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let daemon = DaemonSocket::at(world.home().join("daemon.sock"));
            let body = serde_json::json!({"target": "@team", "content": "two\n", "mode": "append"});
            let mut written = 0;
            while written < SWAPS || done.load(Ordering::Relaxed) < SWAPS {
                let path = format!("/documents/plans/{}.md", ["first", "second"][written % 2]);
                daemon.post::<_, DocumentWritten>(&path, &body).await.unwrap();
                written += 1;
            }
        });
        over.store(1, Ordering::Relaxed);
    });
    // A valid operation after all that has completed, so the earlier changes were processed.
    world.run(&["doc", "create", "last.md", "last"]);
    wait_for("the last file", || place.join("last.md").exists().then_some(()));
    let there: Vec<_> =
        fs::read_dir(&outside).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(there, ["first.md"], "nothing outside is written");
    assert_eq!(read_or_empty(&outside.join("first.md")), "secret\n");
    for file in world.list(&["doc", "list", "--json"]).as_array().unwrap() {
        let name = file["file"].as_str().unwrap();
        let text = world.json(&["doc", "read", name, "--json"]);
        let text = text["content"].as_str().unwrap();
        assert!(!text.contains("secret"), "{name} has what lies outside: {text}");
    }
}

/// Exchanges two paths atomically.
fn swap(one: &Path, other: &Path) {
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    // If the daemon has just moved one of them, the next call exchanges them.
    let _ = rustix::fs::renameat_with(rustix::fs::CWD, one, rustix::fs::CWD, other, exchange);
}

/// Path segments that lead elsewhere, on this system or on others that give names a special meaning.
const HOSTILE_SEGMENTS: &str = ".. ../.. . ... a/../.. /etc // ~ ~root %2e %2e%2e %2e%2e%2f ..%2f ..%5c ..\\ C: C:\\ \\\\host\\share CON: com1: \\\\.\\nul \
                   \\\\?\\C:\\x file::$DATA a:b nul\0 \
                   a\0b a\u{1}b \u{202e} .hidden -rf* $(id) `id` ;id |id é ? * <x> ' \" # @ a, = + { [ ! ^ & (";
const HOSTILE_SUFFIXES: [&str; 8] =
    ["", "/", "/passwd", "/../x.md", "/./x.md", "//x.md", "\\x.md", "/.git/config"];
const HOSTILE_PREFIXES: [&str; 4] = ["a/", "plans/", "plans/first.md/", "x/y/"];

/// Tries five hundred names that would lead elsewhere if one of them were accepted as a document's path.
fn create_hostile_names(world: &World) {
    let mut names = vec![String::new(), "a".repeat(201), format!("{}x", "a/".repeat(200))];
    for odd in HOSTILE_SEGMENTS.split_whitespace() {
        names.extend(HOSTILE_SUFFIXES.map(|tail| format!("{odd}{tail}")));
        names.extend(HOSTILE_PREFIXES.map(|before| format!("{before}{odd}")));
    }
    assert!(names.len() >= 500, "{}", names.len());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let daemon = DaemonSocket::at(world.home().join("daemon.sock"));
        for name in names {
            assert!(name.parse::<DocumentPath>().is_err(), "{name:?} would be taken");
            let escaped =
                name.bytes().fold(String::new(), |path, byte| format!("{path}%{byte:02x}"));
            let body = serde_json::json!({"target": "@team", "content": "x", "mode": "append"});
            let path = format!("/documents/{escaped}");
            let written = daemon.post::<_, DocumentWritten>(&path, &body).await;
            assert!(written.is_err(), "{name:?} was taken: {written:?}");
            // An empty path is the list of documents.
            let read = daemon.get::<Value>(&format!("{path}?target=@team")).await;
            assert!(read.is_err() || name.is_empty(), "{name:?} was read: {read:?}");
        }
    });
    for name in ["-rf", "--help", "-.md", "plans/-rf", "-x/y.md"] {
        let refused = world.run(&["doc", "append", "--", name, "x"]);
        assert_eq!(refused.code, 2, "{name}: {refused:?}");
        assert!(refused.stderr.contains("may begin with `-`"), "{name}: {refused:?}");
    }
    // A file with such a name is not taken as a document either.
    fs::write(documents(world).join("-rf"), "x").unwrap();
    fs::write(documents(world).join("taken.md"), "x").unwrap();
    wait_for("the other file to be taken", || {
        let read = world.run(&["doc", "read", "taken.md"]);
        (read.code == 0).then_some(())
    });
    let list = world.list(&["doc", "list", "--json"]);
    assert_eq!(list.as_array().unwrap().len(), 2, "{list}");
}
