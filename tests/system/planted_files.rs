//! Attacks with planted files: pipes and links in the folders that the daemon writes, and files whose opening blocks.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::world::{World, kill, record_skip, wait_for};

/// Maximum time for the exit of a daemon with a blocked thread. The kernel ends such a block after 45 seconds.
const EXIT_TIMEOUT: Duration = Duration::from_secs(25);
const DATABASE_TEAM: &str =
    "agents: { a: { mock: [] } }\ncontext: { config: { db: .workflow/own.db } }\n";

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn pipes_and_hard_links_in_a_documents_folder_block_nothing_and_redirect_nothing() {
    let world = World::new();
    world.file("team.yaml", "agents: { a: { mock: [] } }\ncontext: { provider: file }\n");
    let victim = world.file("victim", "mine\n");
    let team = world.project().join(".workflow/team/main");
    let documents = team.join("documents");
    fs::create_dir_all(documents.join("sub")).unwrap();
    fs::create_dir_all(team.join("_state")).unwrap();
    for name in [".notes.md.tmp", ".notes.md.out", "pipe.md", "sub/.deep.md.tmp"] {
        make_pipe(&documents.join(name));
    }
    make_pipe(&team.join("_state/.inbox-state.json.tmp"));
    for name in [".second.md.tmp", ".second.md.out", "sub/deep.md"] {
        fs::hard_link(&victim, documents.join(name)).unwrap();
    }
    assert_eq!(world.run(&["start", "team.yaml", "--background"]).code, 0);
    for name in ["notes.md", "second.md", "pipe.md", "sub/deep.md"] {
        let written = world.run(&["doc", "write", name, "ours"]);
        assert!(written.code == 0 || name == "sub/deep.md", "{written:?}");
    }
    for name in ["notes.md", "second.md"] {
        wait_for(name, || {
            let text = fs::read_to_string(documents.join(name)).ok()?;
            (text.trim_end() == "ours").then_some(())
        });
    }
    assert_eq!(world.run(&["doc", "append", "sub/deep.md", "more"]).code, 0);
    wait_for("the appended text", || {
        fs::read_to_string(documents.join("sub/deep.md")).ok()?.contains("more").then_some(())
    });
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
}

/// Holds a lease on a file, so that every open of it blocks until the kernel breaks the lease. Prints `held`, and
/// `asked` when a process tries to open the file.
struct Lease(Child);

impl Lease {
    fn hold(path: &Path) -> (Self, impl FnMut() -> String) {
        let program = "$| = 1; open F, '+<', $ARGV[0] or die; \
                       $SIG{IO} = sub { print qq(asked\\n) }; \
                       fcntl(F, 1024, 1) or die $!; print qq(held\\n); sleep 1 for 1..120;";
        let mut perl = Command::new("/usr/bin/perl")
            .args(["-e", program])
            .arg(path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(perl.stdout.take().unwrap()).lines();
        (Self(perl), move || lines.next().unwrap().unwrap())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Blocks a thread of the daemon in the opening of a database, ends the daemon with `end`, and checks that it exits.
fn assert_exits(what: &str, end: impl Fn(&World, u32)) {
    let world = World::new();
    let mut daemon = world.daemon();
    world.file("team.yaml", DATABASE_TEAM);
    let database = world.project().join(".workflow/own.db");
    fs::create_dir_all(world.project().join(".workflow/own.db.d")).unwrap();
    fs::write(&database, "").unwrap();
    fs::set_permissions(&database, fs::Permissions::from_mode(0o600)).unwrap();
    let (lease, mut next_line) = Lease::hold(&database);
    assert_eq!(next_line(), "held");
    let start = ["start", "team.yaml", "--background"];
    let mut start = world.command(&start).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(next_line(), "asked", "a thread of the daemon is blocked");
    let began = Instant::now();
    end(&world, daemon.id());
    daemon.wait().unwrap();
    assert!(began.elapsed() < EXIT_TIMEOUT, "{what}: {:?}\n{}", began.elapsed(), world.log());
    drop(lease);
    start.wait().unwrap();
}

#[test]
fn the_daemon_exits_whatever_a_blocked_thread_does() {
    if !Path::new("/usr/bin/perl").exists() {
        record_skip("a daemon with a blocked thread (needs perl)");
        return;
    }
    assert_exits("TERM", |_, daemon| kill(daemon, "TERM"));
    assert_exits("INT", |_, daemon| kill(daemon, "INT"));
    assert_exits("stop --now", |world, _| {
        world.run(&["daemon", "stop", "--now"]);
    });
}

#[test]
fn a_database_of_a_team_follows_no_link_and_waits_for_no_pipe() {
    type Plant = fn(&World, &Path);
    let cases: [(&str, Plant); 6] = [
        ("own.db", |world, at| symlink(world.project().join("victim"), at).unwrap()),
        ("own.db", |world, at| fs::hard_link(world.project().join("victim"), at).unwrap()),
        ("own.db", |_, at| make_pipe(at)),
        ("own.db-wal", |world, at| symlink(world.project().join("victim"), at).unwrap()),
        ("own.db.d/lock", |_, at| make_pipe(at)),
        ("own.db.d/lock", |world, at| symlink(world.project().join("made"), at).unwrap()),
    ];
    for (name, plant) in cases {
        let world = World::new();
        world.file("team.yaml", DATABASE_TEAM);
        let victim = world.file("victim", "");
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o644)).unwrap();
        let folder = world.project().join(".workflow");
        fs::create_dir_all(folder.join("own.db.d")).unwrap();
        plant(&world, &folder.join(name));
        let refused = world.run(&["start", "team.yaml", "--background"]);
        assert_eq!(refused.code, 1, "{name}: {refused:?}");
        let found = fs::metadata(&victim).unwrap();
        assert_eq!((found.len(), found.permissions().mode() & 0o777), (0, 0o644), "{name}");
        assert!(!world.project().join("made").exists(), "{name}");
    }
    let world = World::new();
    world.file("team.yaml", DATABASE_TEAM);
    fs::create_dir(world.project().join("elsewhere")).unwrap();
    symlink("elsewhere", world.project().join(".workflow")).unwrap();
    assert_eq!(world.run(&["start", "team.yaml", "--background"]).code, 1);
    assert_eq!(fs::read_dir(world.project().join("elsewhere")).unwrap().count(), 0);
}
