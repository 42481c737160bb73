//! The daemon's lifecycle from its commands: another version, a dead daemon, an invalid home, an impostor.

use std::{
    fs::{self, Permissions},
    io::{BufRead as _, BufReader},
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    shell_transcript::{normalized, run_lines},
    world::{CommandOutput, World, is_alive, kill, record_skip, wait_for},
};

/// Starts a team of one whose turn lasts until the gate is opened.
fn start_gated_team(world: &World) {
    world.file(
        "busy.yaml",
        "name: busy\nagents:\n  bee:\n    backend: mock\n    mock:\n      - run: echo turn >> turns; read _ < gate || true\n        say: Bzz.\nkickoff: '@bee go'\n",
    );
    assert!(Command::new("mkfifo").arg(gate(world)).status().unwrap().success());
    let said = world.run(&["start", "busy.yaml", "--background"]);
    assert_eq!(said.code, 0, "{said:?}");
    wait_for("its turn", || (turns(world) == "turn\n").then_some(()));
}

fn gate(world: &World) -> PathBuf {
    world.project().join("gate")
}

fn turns(world: &World) -> String {
    fs::read_to_string(world.project().join("turns")).unwrap_or_default()
}

/// Waits for a reader of the gate and lets that turn continue.
fn open_gate(world: &World) {
    fs::write(gate(world), "go\n").unwrap();
}

#[test]
fn a_restart_keeps_the_workers_and_their_turns_happen_once() {
    let world = World::new();
    start_gated_team(&world);
    let first = world.daemon_pid().unwrap();
    let said = world.run(&["daemon", "restart"]);
    assert_eq!(said.code, 0, "{said:?}");
    insta::assert_snapshot!(normalized(&world, &said.stderr), @"restarted: version 0.1.0, pid N; 1 run and 1 worker continue");
    let second = world.daemon_pid().unwrap();
    assert!(first != second && !is_alive(first));
    open_gate(&world);
    wait_for("the answer", || world.run(&["peek", "@busy"]).stdout.contains("Bzz.").then_some(()));
    assert_eq!(turns(&world), "turn\n");
    let agents = world.list(&["ls", "@busy", "--json"]);
    assert_eq!(agents[0]["turns"], 1, "{agents}");
    assert_eq!(world.json(&["daemon", "restart", "--json"])["running"], true);
}

#[test]
fn a_restart_where_none_runs_starts_one_and_the_log_says_so() {
    let world = World::new();
    insta::assert_snapshot!(run_lines(&world, "
        agent-worker daemon logs
        agent-worker daemon status
        agent-worker daemon restart
        agent-worker daemon stop
        agent-worker daemon stop
        agent-worker daemon logs -n 1 | cut -d' ' -f3-
    "), @"
    $ agent-worker daemon logs
    ! error: HOME/logs/daemon.log does not exist yet
    ! hint: only a daemon that a command started writes it; a daemon in a terminal logs to that terminal
    (exit 1)
    $ agent-worker daemon status
    no daemon is running
    (exit 1)
    $ agent-worker daemon restart
    ! no daemon was running; started: version 0.1.0, pid N
    $ agent-worker daemon stop
    ! the daemon is stopped
    ! hint: to let the agents run again: agent-worker daemon start
    $ agent-worker daemon stop
    ! no daemon is running
    ! hint: to let the agents run again: agent-worker daemon start
    $ agent-worker daemon logs -n 1 | cut -d' ' -f3-
    INFO stopped
    ");
    let logs = world.json(&["daemon", "logs", "--json"]);
    assert_eq!(logs["lines"].as_array().unwrap().len(), 2, "{logs}");
}

#[test]
fn a_log_is_followed_as_it_is_written() {
    let world = World::new();
    assert_eq!(world.run(&["daemon", "restart"]).code, 0);
    let mut follower =
        world.command(&["daemon", "logs", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("ready"));
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    assert!(lines.any(|line| line.unwrap().contains("stopped")));
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn a_stop_without_a_daemon_ends_the_workers_a_dead_one_left() {
    let world = World::new();
    start_gated_team(&world);
    let daemon = world.daemon_pid().unwrap();
    kill(daemon, "KILL");
    wait_for("its death", || (!is_alive(daemon)).then_some(()));
    let left = world.processes().len();
    assert_eq!(left, 2, "its worker and a shell: {:?}", world.processes());
    let said = world.run(&["daemon", "stop"]);
    assert_eq!(said.code, 0, "{said:?}");
    let expected = format!(
        "no daemon is running, but a daemon that died left {left} processes\nended {left} processes\n"
    );
    assert_eq!(said.stderr, expected);
    assert!(world.processes().is_empty(), "{:?}", world.processes());
    assert_eq!(world.json(&["daemon", "stop", "--json"])["ended"], 0);
    // The turn was interrupted, not lost.
    assert_eq!(world.run(&["daemon", "start"]).code, 0);
    open_gate(&world);
    wait_for("the answer", || world.run(&["peek", "@busy"]).stdout.contains("Bzz.").then_some(()));
}

#[test]
fn an_older_command_reads_from_a_newer_daemon_and_writes_nothing() {
    let world = World::new();
    let mut daemon = world.daemon_with(&[("AGENT_WORKER_VERSION_OVERRIDE", "9.0.0")]);
    insta::assert_snapshot!(run_lines(&world, "
        agent-worker ls
        agent-worker send owl hello
        agent-worker daemon restart
        agent-worker daemon status | grep version
    "), @"
    $ agent-worker ls
    ! warning: the daemon is version 9.0.0, this command is 0.1.0
    ! hint: this command is older than the daemon: use the program that the daemon was started from
    ! no live agents here; start a team with `agent-worker run`, or use --all
    $ agent-worker send owl hello
    ! error: the daemon is version 9.0.0, this command is 0.1.0
    ! hint: this command is older than the daemon: use the program that the daemon was started from
    (exit 1)
    $ agent-worker daemon restart
    ! error: the daemon is version 9.0.0, this command is 0.1.0
    ! hint: this command is older than the daemon: use the program that the daemon was started from
    (exit 1)
    $ agent-worker daemon status | grep version
    ok · version 9.0.0
    ! warning: the daemon is version 9.0.0, this command is 0.1.0
    ! hint: this command is older than the daemon: use the program that the daemon was started from
    ");
    assert_eq!(world.run(&["doctor"]).code, 1);
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn a_newer_command_says_how_to_take_an_older_daemons_place() {
    let world = World::new();
    let mut daemon = world.daemon();
    insta::assert_snapshot!(run_lines(&world, "
        AGENT_WORKER_VERSION_OVERRIDE=9.0.0 agent-worker ls
        AGENT_WORKER_VERSION_OVERRIDE=9.0.0 agent-worker token create ci
        AGENT_WORKER_VERSION_OVERRIDE=9.0.0 agent-worker daemon restart
        AGENT_WORKER_VERSION_OVERRIDE=9.0.0 agent-worker token list
    "), @"
    $ AGENT_WORKER_VERSION_OVERRIDE=9.0.0 agent-worker ls
    ! warning: the daemon is version 0.1.0, this command is 9.0.0
    ! hint: restart the daemon with this version (its workers keep running): agent-worker daemon restart
    ! no live agents here; start a team with `agent-worker run`, or use --all
    $ AGENT_WORKER_VERSION_OVERRIDE=9.0.0 agent-worker token create ci
    ! error: the daemon is version 0.1.0, this command is 9.0.0
    ! hint: restart the daemon with this version (its workers keep running): agent-worker daemon restart
    (exit 1)
    $ AGENT_WORKER_VERSION_OVERRIDE=9.0.0 agent-worker daemon restart
    ! restarted: version 9.0.0, pid N
    $ AGENT_WORKER_VERSION_OVERRIDE=9.0.0 agent-worker token list
    ! there are no tokens
    ");
    daemon.wait().unwrap();
    let status = world.json(&["daemon", "status", "--json"]);
    assert_eq!(status["version"], "9.0.0", "{status}");
}

#[test]
fn a_pid_that_another_process_has_now_is_left_alone() {
    let world = World::new();
    assert_eq!(world.run(&["feedback", "hello"]).code, 0);
    let daemon = world.daemon_pid().unwrap();
    let card = world.home().join("daemon.json");
    let text = fs::read_to_string(&card).unwrap();
    kill(daemon, "KILL");
    wait_for("its death", || (!is_alive(daemon)).then_some(()));
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    let reused = text.replace(&daemon.to_string(), &stranger.id().to_string());
    assert_ne!(reused, text);
    fs::write(&card, reused).unwrap();
    assert_eq!(world.run(&["daemon", "status"]).code, 1);
    assert_eq!(world.run(&["daemon", "stop", "--now"]).code, 0);
    assert_eq!(world.run(&["feedback", "hello"]).code, 0);
    assert_ne!(world.daemon_pid(), Some(stranger.id()));
    assert_eq!(stranger.try_wait().unwrap(), None, "it continues");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_home_whose_path_is_too_long_for_a_socket_is_refused_in_a_line() {
    let world = World::new();
    let long = "a".repeat(120);
    insta::assert_snapshot!(run_lines(&world, &format!("
        AGENT_WORKER_HOME=/tmp/{long} agent-worker ls
        AGENT_WORKER_HOME=/tmp/{long} agent-worker token list
        AGENT_WORKER_HOME=/tmp/{long} agent-worker doctor | grep -v '^note\\| sandbox \\|^$\\|^✓\\|^✗\\|BACKEND'
    ")).replace(&long, "LONG"), @"
    $ AGENT_WORKER_HOME=/tmp/LONG agent-worker ls
    ! error: the daemon's socket cannot be used: /tmp/LONG/daemon.sock is too long for a socket's path (107 bytes at most); choose a shorter home
    ! hint: set AGENT_WORKER_HOME to a shorter path
    (exit 1)
    $ AGENT_WORKER_HOME=/tmp/LONG agent-worker token list
    ! error: the daemon's socket cannot be used: /tmp/LONG/daemon.sock is too long for a socket's path (107 bytes at most); choose a shorter home
    ! hint: set AGENT_WORKER_HOME to a shorter path
    (exit 1)
    $ AGENT_WORKER_HOME=/tmp/LONG agent-worker doctor | grep -v '^note\\| sandbox \\|^$\\|^✓\\|^✗\\|BACKEND'
    broken home    /tmp/LONG is too long for a socket by 30 bytes
                   hint: set AGENT_WORKER_HOME to a shorter path
    ok     disk    SOME GiB free on the disk of the home
    broken daemon  the daemon's socket cannot be used: /tmp/LONG/daemon.sock is too long for a socket's path (107 bytes at most); choose a shorter home
                   hint: set AGENT_WORKER_HOME to a shorter path
    (exit 1)
    ");
    assert!(!Path::new("/tmp").join(long).exists());
}

/// Returns a command that runs as another user, with access to everything in this world except its home.
fn command_as_other_user(world: &World, what: &str) -> Option<Command> {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let tools = ["setpriv", "perl"].map(|tool| Path::new("/usr/bin").join(tool).exists());
    if !is_root || tools.contains(&false) {
        record_skip(&format!("{what} (needs root, setpriv, perl)"));
        return None;
    }
    let folder = world.home().parent().unwrap().to_owned();
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("/usr/bin/setpriv");
    command.args([
        &format!("--reuid={NOBODY_UID}"),
        &format!("--regid={NOBODY_UID}"),
        "--clear-groups",
    ]);
    command.env_clear().stdin(Stdio::null()).current_dir(world.project());
    command.envs(world.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(command)
}

const NOBODY_UID: u32 = 65534;

#[test]
fn a_home_that_cannot_be_written_to_is_reported_in_a_line() {
    let world = World::new();
    let binary = world.project().join("agent-worker");
    fs::copy(env!("CARGO_BIN_EXE_agent-worker"), &binary).unwrap();
    fs::create_dir(world.home()).unwrap();
    let mode = |mode| fs::set_permissions(world.home(), Permissions::from_mode(mode)).unwrap();
    mode(0o500);
    let mut shown = String::new();
    for words in [&["feedback", "hello"][..], &["doctor"]] {
        // Root could write anywhere; another user's process cannot write to this home.
        let Some(mut command) = command_as_other_user(&world, "a home that cannot be written to")
        else {
            return;
        };
        chown(world.home(), Some(NOBODY_UID), Some(NOBODY_UID)).unwrap();
        let said = CommandOutput::from(command.arg(&binary).args(words).output().unwrap());
        assert_eq!(said.code, 1, "{said:?}");
        shown += &(said.stdout + &said.stderr);
    }
    let shown: Vec<&str> = shown
        .lines()
        .filter(|line| {
            let table = ["✓", "✗", "   BACKEND"];
            let is_of_table = line.is_empty() || table.iter().any(|it| line.starts_with(it));
            !is_of_table && !line.starts_with("note") && !line.contains(" sandbox ")
        })
        .collect();
    insta::assert_snapshot!(normalized(&world, &shown.join("\n")), @"
    error: could not write to the home HOME: Permission denied (os error 13)
    hint: chmod 700 HOME, or set AGENT_WORKER_HOME to another folder
    broken home    HOME cannot be written to
                   hint: chmod 700 HOME, or set AGENT_WORKER_HOME to another folder
    ok     disk    SOME GiB free on the disk of the home
    ok     daemon  not running; the first command that needs a daemon starts it
    ");
    chown(world.home(), Some(0), Some(0)).unwrap();
    mode(0o700);
}

#[test]
fn an_impostor_at_the_socket_gets_neither_a_message_nor_a_secret() {
    let world = World::new();
    fs::create_dir(world.home()).unwrap();
    fs::set_permissions(world.home(), Permissions::from_mode(0o700)).unwrap();
    let stage = world.project().join("stage");
    fs::create_dir(&stage).unwrap();
    fs::set_permissions(&stage, Permissions::from_mode(0o777)).unwrap();
    world.example("hello.yaml");
    let Some(mut command) = command_as_other_user(&world, "an impostor at the socket") else {
        return;
    };
    let program = "use IO::Socket::UNIX; $| = 1;
        my $listener = IO::Socket::UNIX->new(Local => 'sock', Listen => 9) or die; print \"ready\\n\";
        while (my $client = $listener->accept) { my $n = sysread($client, my $data, 65536); print \"$n\\n\"; close $client }";
    let mut impostor = command
        .args(["/usr/bin/perl", "-e", program])
        .current_dir(&stage)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut heard = BufReader::new(impostor.stdout.take().unwrap()).lines();
    assert_eq!(heard.next().unwrap().unwrap(), "ready");
    fs::rename(stage.join("sock"), world.home().join("daemon.sock")).unwrap();
    let shown = run_lines(
        &world,
        r#"
        agent-worker send owl "a secret"
        agent-worker token create ci
        agent-worker run hello.yaml
        agent-worker ls
        agent-worker doctor | grep broken
    "#,
    );
    insta::assert_snapshot!(shown, @r#"
    $ agent-worker send owl "a secret"
    ! error: the daemon's socket cannot be used: the process that listens at the daemon's socket belongs to another user (uid 65534); nothing was sent to it
    ! hint: another user can write to your home; find out how, then remove the socket
    (exit 1)
    $ agent-worker token create ci
    ! error: the daemon's socket cannot be used: the process that listens at the daemon's socket belongs to another user (uid 65534); nothing was sent to it
    ! hint: another user can write to your home; find out how, then remove the socket
    (exit 1)
    $ agent-worker run hello.yaml
    ! error: the daemon's socket cannot be used: the process that listens at the daemon's socket belongs to another user (uid 65534); nothing was sent to it
    ! hint: another user can write to your home; find out how, then remove the socket
    (exit 1)
    $ agent-worker ls
    ! error: the daemon's socket cannot be used: the process that listens at the daemon's socket belongs to another user (uid 65534); nothing was sent to it
    ! hint: another user can write to your home; find out how, then remove the socket
    (exit 1)
    $ agent-worker doctor | grep broken
    broken files   other users may open daemon.sock
    broken daemon  the daemon's socket cannot be used: the process that listens at the daemon's socket belongs to another user (uid 65534); nothing was sent to it
    (exit 1)
    "#);
    for _ in 0..5 {
        assert_eq!(heard.next().unwrap().unwrap(), "0", "it heard something");
    }
    impostor.kill().unwrap();
    impostor.wait().unwrap();
    fs::remove_file(world.home().join("daemon.sock")).unwrap();
}
