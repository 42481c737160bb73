//! The daemon's own lifecycle: one owner, correct status, clean shutdown.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::world::{World, is_alive, kill, wait_for};

#[test]
fn of_fifty_daemons_started_at_once_one_owns_the_home() {
    let world = World::new();
    let mut daemons: Vec<Child> = (0..50)
        .map(|_| {
            world.command(&["daemon"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    wait_for("all but one to give up", || {
        let alive =
            daemons.iter_mut().map(|one| one.try_wait().unwrap()).filter(Option::is_none).count();
        (alive <= 1 && world.daemon_pid().is_some()).then_some(())
    });
    let owner = world.daemon_pid().unwrap();
    let mut refused = 0;
    for mut daemon in daemons {
        if daemon.id() == owner {
            kill(owner, "TERM");
            assert!(daemon.wait().unwrap().success());
            continue;
        }
        let output = daemon.wait_with_output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(why.contains("already running"), "{why}");
        refused += 1;
    }
    assert_eq!(refused, 49);
}

#[test]
fn a_command_uses_the_daemon_that_another_process_starts_at_the_same_time() {
    for _ in 0..5 {
        let world = World::new();
        let silent = |words: &[&str]| world.command(words).stdout(Stdio::null()).spawn().unwrap();
        let mut daemons: Vec<Child> = Vec::new();
        let commands: Vec<Child> = (0..5)
            .map(|_| {
                daemons.push(world.command(&["daemon"]).stderr(Stdio::null()).spawn().unwrap());
                silent(&["feedback", "hello"])
            })
            .collect();
        for mut command in commands {
            assert!(command.wait().unwrap().success());
        }
        assert_eq!(world.run(&["daemon", "stop"]).code, 0);
        for mut daemon in daemons {
            daemon.wait().unwrap();
        }
    }
}

#[test]
fn commands_started_at_once_share_one_daemon() {
    let world = World::new();
    let commands: Vec<Child> = (0..10)
        .map(|_| {
            world
                .command(&["feedback", "hello"])
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for command in commands {
        let output = command.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let daemons = world.processes().into_iter().filter(|(_, line)| line.contains("daemon"));
    assert_eq!(daemons.count(), 1);
}

#[test]
fn the_home_is_private_and_a_stopped_daemon_leaves_no_socket() {
    let world = World::new();
    assert_eq!(world.run(&["feedback", "hello"]).code, 0);
    let mode =
        |name: &str| fs::metadata(world.home().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("."), 0o700);
    assert_eq!(mode("daemon.sock"), 0o600);
    assert_eq!(mode("agent-worker.db"), 0o600);
    let pid = world.daemon_pid().unwrap();
    let status = world.json(&["daemon", "status", "--json"]);
    assert_eq!(status["pid"], pid, "{status}");
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    wait_for("its end", || (!is_alive(pid)).then_some(()));
    assert!(!world.home().join("daemon.sock").exists());
    assert!(!world.home().join("daemon.json").exists());
    assert_eq!(world.run(&["daemon", "status"]).code, 1);
}

#[test]
fn a_terminated_daemon_interrupts_its_workers_and_the_next_one_tries_again() {
    let world = World::with(&[("AGENT_WORKER_DRAIN_GRACE", "100ms")]);
    let mut daemon = world.daemon();
    let yaml = "name: slow\nagents:\n  a:\n    backend: mock\n    mock:\n      - { sleep: 2s, say: slept }\nkickoff: '@a go'\n";
    let file = world.file("slow.yaml", yaml);
    world.json(&["start", file.to_str().unwrap(), "--background", "--json"]);
    wait_for("a running turn", || {
        let agents = world.list(&["ls", "@slow", "--json"]);
        (agents[0]["state"] == "running").then_some(())
    });
    kill(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
    assert!(world.processes().is_empty(), "{:?}", world.processes());
    let mut next = world.daemon();
    wait_for("the answer", || {
        let messages = world.json(&["peek", "@slow", "--json"]);
        let messages = messages["items"].as_array().unwrap();
        messages.iter().any(|message| message["body"] == "slept").then_some(())
    });
    kill(next.id(), "TERM");
    assert!(next.wait().unwrap().success());
}

#[test]
fn logs_of_recent_runs_are_kept_and_folders_of_no_run_are_not() {
    let world = World::new();
    let run = world.json(&["run", &world.example("hello.yaml"), "--json"])["run"].clone();
    let kept = world.home().join("runs").join(run.as_str().unwrap());
    let unknown = world.home().join("runs/01a1def5-a812-7a93-bd00-fd6a586b85a8");
    fs::create_dir(&unknown).unwrap();
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    assert_eq!(world.run(&["feedback", "hello"]).code, 0);
    assert!(kept.is_dir() && !unknown.exists());
    assert!(!kept.join("env.json").exists(), "the environment goes with the run");
}

#[test]
fn the_environment_of_a_run_that_was_cut_off_is_gone_after_the_next_start() {
    let world = World::new();
    let run = world.json(&["run", &world.example("hello.yaml"), "--json"])["run"].clone();
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    // Files of a daemon that was killed after the end of a run, before its cleanup; and before the run was created.
    let ended = world.home().join("runs").join(run.as_str().unwrap());
    let unmade = world.home().join("runs/01a1def5-a812-7a93-bd00-fd6a586b85a8");
    fs::create_dir(&unmade).unwrap();
    for (folder, name) in [(&ended, "env.json"), (&unmade, "env.json"), (&unmade, "env.new")] {
        fs::write(folder.join(name), r#"{"API_KEY": "secret"}"#).unwrap();
    }
    assert_eq!(world.run(&["feedback", "hello"]).code, 0);
    assert!(!ended.join("env.json").exists(), "the run is over");
    assert!(ended.is_dir(), "its logs are kept");
    assert!(!unmade.exists(), "there is no such run");
}

/// Starts a process that takes the home's lock as soon as its owner is gone, like a child that was being
/// started when the daemon was killed. The process releases the lock after `until`; dropping it closes its stdin.
fn lock_holding_child(world: &World, until: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let script = format!("echo held; {until}");
    let mut child = Command::new("flock")
        .arg(world.home().join("daemon.lock"))
        .args(["sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    (child, said)
}

#[test]
fn a_lock_that_briefly_outlives_its_daemon_does_not_block_the_next_daemon() {
    let world = World::new();
    let mut daemon = world.daemon();
    let (mut child, mut said) = lock_holding_child(&world, "sleep 0.3");
    wait_for("it to stand in line", || is_waiting_for_a_lock(child.id()).then_some(()));
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    said.read_line(&mut String::new()).unwrap();
    let mut next = world.daemon();
    assert!(child.wait().unwrap().success());
    assert_eq!(world.daemon_pid(), Some(next.id()));
    kill(next.id(), "TERM");
    assert!(next.wait().unwrap().success());
}

#[test]
fn a_lock_that_no_daemon_holds_and_that_stays_locked_is_named() {
    let world = World::new();
    let mut daemon = world.daemon();
    let (mut child, mut said) = lock_holding_child(&world, "read line");
    wait_for("it to stand in line", || is_waiting_for_a_lock(child.id()).then_some(()));
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    said.read_line(&mut String::new()).unwrap();
    let refused = world.run(&["daemon"]);
    let lock = world.home().join("daemon.lock").display().to_string();
    assert_eq!(refused.code, 1);
    assert_eq!(
        refused.stderr.trim(),
        format!(
            "error: {lock} is held by a process that is not a daemon; find that process with `fuser {lock}` and end it first"
        )
    );
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// Returns true if this process waits for a file lock in the kernel.
fn is_waiting_for_a_lock(pid: u32) -> bool {
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| line.contains("->") && line.contains(&format!(" {pid} ")))
}

#[test]
fn a_daemon_whose_starter_is_gone_when_it_is_ready_lives_all_the_same() {
    let world = World::new();
    let (nobody, stdout) = std::io::pipe().unwrap();
    drop(nobody);
    let mut daemon = world.command(&["daemon", "--announce"]).stdout(stdout).spawn().unwrap();
    wait_for("its log to say that the report failed", || {
        assert_eq!(daemon.try_wait().unwrap(), None, "{}", world.log());
        world.log().contains("could not report `ready` to the starting command").then_some(())
    });
    let status = world.json(&["daemon", "status", "--json"]);
    assert_eq!(status["pid"], daemon.id(), "{status}");
    kill(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn a_torn_line_of_a_killed_worker_does_not_stop_the_run() {
    let world = World::new();
    let events = world.home().join("runs/*/*/events.jsonl");
    let script = format!("printf '\\344\\270' >> {}; kill -9 $PPID; sleep 1", events.display());
    let yaml = format!(
        "name: torn\nagents:\n  a:\n    backend: mock\n    retry: {{ max_attempts: 1 }}\n    mock:\n      - run: |\n          {script}\nkickoff: '@a go'\n"
    );
    let file = world.file("torn.yaml", &yaml);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!((code, envelope["dead_letters"].as_array().unwrap().len()), (1, 1), "{envelope}");
}

#[test]
fn a_run_whose_caller_hangs_up_is_cared_for_all_the_same() {
    let world = World::new();
    let mut daemon = world.daemon();
    let file = world.file(
        "quick.yaml",
        "name: quick\nagents:\n  a: { backend: mock, mock: [{ say: hi }] }\nkickoff: '@a go'\n",
    );
    for n in 0..30 {
        let body = serde_json::json!({
            "file": file, "cwd": world.project(), "tag": format!("t{n}"), "mode": "run",
        });
        let body = body.to_string();
        let mut socket = UnixStream::connect(world.home().join("daemon.sock")).unwrap();
        write!(
            socket,
            "POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        // The client disconnects before the reply, each time a little later.
        std::thread::park_timeout(Duration::from_micros(n * 300));
        drop(socket);
    }
    wait_for("every run that was made to be over", || {
        let runs = world.list(&["ls", "--json"]);
        runs.as_array().unwrap().is_empty().then_some(())
    });
    kill(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn daemon_status_names_the_holder_of_the_default_port() {
    let world = World::new();
    // Either this test or another process holds the port.
    let _held = std::net::TcpListener::bind("127.0.0.1:5099");
    let mut command = world.command(&["daemon", "--announce"]);
    command.env_remove("AGENT_WORKER_PORT");
    let mut daemon = world.announced(command);
    let status = world.run(&["daemon", "status"]);
    assert_eq!(status.code, 0, "{status:?}");
    assert!(status.stdout.contains("port 5099 "), "{status:?}");
    assert!(status.stdout.contains("clients must use the address above"), "{status:?}");
    assert!(status.stderr.contains("agent-worker daemon restart"), "{status:?}");
    let conflict = &world.json(&["daemon", "status", "--json"])["port_conflict"];
    assert!(conflict.as_str().is_some_and(|text| text.contains("5099")), "{conflict}");
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}
