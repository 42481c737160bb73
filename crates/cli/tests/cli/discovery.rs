//! Tests of finding the daemon, starting one, and refusing to.

use std::{
    io::Read as _,
    os::unix::{
        fs::DirBuilderExt as _,
        net::{UnixListener, UnixStream},
    },
};

use agent_worker_host::LockFile;
use serde_json::json;

use crate::{
    fake_daemon::{FakeReply, TestHome, until},
    sample_responses::send_reply,
};

#[test]
fn commands_that_only_look_start_no_daemon() {
    let world = TestHome::without_daemon("echo started > ../started; exit 1");
    for (words, code) in [
        (&["ls"][..], 0),
        (&["ls", "--json"], 0),
        (&["stop"], 0),
        (&["peek"], 1),
        (&["daemon", "status"], 1),
        (&["daemon", "stop"], 0),
        (&[], 0),
    ] {
        let seen = world.run_command(words);
        assert!(seen.exits(code), "{words:?}: {seen:?}");
    }
    let seen = world.run_command(&["peek", "--json"]);
    assert_eq!((seen.json()["error"]["code"].as_str(), seen.err.as_str()), (Some("not_found"), ""));
    assert!(!world.path("started").exists() && !world.settings.home.exists());
}

#[test]
fn a_daemon_of_another_version_may_be_read_but_not_written_to() {
    let world = TestHome::with_daemon_of_version(
        "9.9.9",
        vec![("GET /agents", FakeReply::Json(json!({"items": [], "next": null})))],
    );
    let read = world.run_command(&["ls"]);
    assert!(read.exits(0) && read.err.contains("version 9.9.9"), "{read:?}");
    let written = world.run_command(&["send", "coder", "hi"]);
    assert!(written.exits(1), "{written:?}");
    assert!(
        written.err.contains("9.9.9")
            && written.err.contains("this command is older than the daemon"),
        "{written:?}"
    );
    assert!(world.asked("POST /messages").is_empty());
    let world = TestHome::with_daemon_of_version("0.0.9", Vec::new());
    let written = world.run_command(&["send", "coder", "hi"]);
    assert!(
        written.err.contains("(its workers keep running): agent-worker daemon restart"),
        "{written:?}"
    );
}

#[test]
fn a_daemon_that_does_not_start_says_why() {
    let world = TestHome::without_daemon("echo 'the store is newer than this program' >&2; exit 3");
    world.leave_daemon_files();
    let seen = world.run_command(&["send", "coder", "hi"]);
    assert!(seen.exits(1), "{seen:?}");
    insta::assert_snapshot!(seen.err, @r"
    error: the daemon did not start (exit status: 3): the store is newer than this program
    ");
}

#[test]
fn a_missing_daemon_is_started_once_it_is_ready_asked() {
    let world = TestHome::without_daemon(
        "env > \"$AGENT_WORKER_HOME/env\"; echo \"$@\" > \"$AGENT_WORKER_HOME/started\"
         for i in 1 2 3 4 5 6 7 8 9; do [ -S \"$AGENT_WORKER_HOME/daemon.sock\" ] && break; sleep 0.2; done
         echo ready",
    );
    world.leave_daemon_files();
    let script = vec![("POST /messages", FakeReply::Json(send_reply(&["coder"])))];
    let started = world.settings.home.join("started");
    let seen = std::thread::scope(|scope| {
        let typed = scope.spawn(|| world.run_command(&["send", "coder", "hi"]));
        until(|| started.exists());
        world.listen(env!("CARGO_PKG_VERSION"), script);
        typed.join().unwrap()
    });
    assert!(seen.exits(0), "{seen:?}");
    assert_eq!(std::fs::read_to_string(&started).unwrap(), "daemon --announce\n");
    let env = std::fs::read_to_string(world.settings.home.join("env")).unwrap();
    assert!(env.contains("HOME=/nowhere") && !env.contains("SECRET_KEY"), "{env}");
}

/// Simulates a killed daemon: it accepts connections, answers none, and is gone after the second.
fn dying_daemon(world: &TestHome) -> impl FnOnce() + Send + 'static {
    let home = world.settings.home.clone();
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&home).unwrap();
    let lock = LockFile::try_acquire(&home.join("daemon.lock")).unwrap().unwrap();
    let socket = home.join("daemon.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    move || {
        let (mut caller, _) = listener.accept().unwrap();
        let _ = caller.read(&mut [0; 1024]).unwrap();
        drop(caller);
        let (mut caller, _) = listener.accept().unwrap();
        let _ = caller.read(&mut [0; 1024]).unwrap();
        std::fs::remove_file(socket).unwrap();
        drop(lock);
    }
}

/// Connects as often as the dying daemon expects, in case the command did not: otherwise a failing test never ends.
fn drain_dying_daemon(world: &TestHome) {
    for _ in 0..2 {
        drop(UnixStream::connect(world.settings.home.join("daemon.sock")));
    }
}

#[test]
fn a_command_that_meets_a_dying_daemon_is_served_by_the_next() {
    let world = TestHome::without_daemon(
        "echo \"$@\" > \"$AGENT_WORKER_HOME/started\"
         for i in 1 2 3 4 5 6 7 8 9; do [ -S \"$AGENT_WORKER_HOME/daemon.sock\" ] && break; sleep 0.2; done
         echo ready",
    );
    world.leave_daemon_files();
    let dies = dying_daemon(&world);
    let started = world.settings.home.join("started");
    let seen = std::thread::scope(|scope| {
        scope.spawn(dies);
        let typed = scope.spawn(|| world.run_command(&["send", "coder", "hi"]));
        until(|| started.exists() || typed.is_finished());
        if started.exists() {
            let script = vec![("POST /messages", FakeReply::Json(send_reply(&["coder"])))];
            world.listen(env!("CARGO_PKG_VERSION"), script);
        }
        let seen = typed.join().unwrap();
        drain_dying_daemon(&world);
        seen
    });
    assert!(seen.exits(0), "{seen:?}");
    assert_eq!(world.asked("POST /messages").len(), 1);
}

#[test]
fn a_daemon_that_dies_while_it_is_looked_at_is_none() {
    let world = TestHome::without_daemon("exit 1");
    let dies = dying_daemon(&world);
    let seen = std::thread::scope(|scope| {
        scope.spawn(dies);
        let seen = world.run_command(&["daemon", "status"]);
        drain_dying_daemon(&world);
        seen
    });
    assert!(seen.exits(1) && seen.out == "no daemon is running\n", "{seen:?}");
}

#[test]
fn an_agent_never_starts_a_daemon() {
    let mut world = TestHome::without_daemon("echo started > ../started; exit 1");
    world.settings.inside_attempt = true;
    world.leave_daemon_files();
    let seen = world.run_command(&["send", "coder", "hi"]);
    assert!(seen.exits(1) && seen.err.contains("an agent cannot start one"), "{seen:?}");
    assert!(!world.path("started").exists());
}

#[test]
fn a_home_that_others_can_look_into_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = TestHome::with_daemon(Vec::new());
    let home = &world.settings.home;
    std::fs::set_permissions(home, std::fs::Permissions::from_mode(0o755)).unwrap();
    let seen = world.run_command(&["send", "coder", "hi"]);
    assert!(seen.exits(1), "{seen:?}");
    insta::assert_snapshot!(world.redact_paths(&seen.err), @r"
    error: other users can access the home /tmp/home (mode 755)
    hint: restrict it: chmod 700 /tmp/home
    ");
}
