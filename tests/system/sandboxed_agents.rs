//! Agents with `sandbox:`: their program, its tools and its files, from a workflow file.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
    thread,
};

use serde_json::Value;

use crate::{
    wire::http::Ask,
    world::{World, record_skip, wait_for},
};

/// Answers with one line: what the program could read and change, and if a tool of the team worked.
const AGENT: &str = r#"#!/bin/bash
cat > /dev/null
try() { if bash -c "$1" > /dev/null 2>&1; then echo yes; else echo no; fi; }
call='{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"channel_send","arguments":{"message":"from inside"}}}'
token=$(cat "$AGENT_WORKER_MCP_TOKEN_FILE")
tool=$(curl --silent --header "Authorization: Bearer $token" --header "Content-Type: application/json" --data "$call" "$AGENT_WORKER_MCP_URL" | grep -c seq)
echo "secret $(try 'cat ~/.ssh/id') database $(try 'ls "$AGENT_WORKER_HOME"/agent-worker.db') socket $(try 'curl --silent --fail --unix-socket "$AGENT_WORKER_HOME/daemon.sock" http://localhost/health')" \
  "work $(try 'echo x > made') workflow $(try 'echo x >> team.yaml') further $(try 'echo x > ~/notes/made')" "tool $tool"
"#;

fn has(level: &str) -> bool {
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let probe = Command::new(binary).args(["sandbox", "--level", level, "--json"]).output();
    let has = probe.unwrap().status.success() && Path::new("/usr/bin/curl").exists();
    if !has {
        record_skip("agents in a sandbox (needs bubblewrap with namespaces, Landlock and curl)");
    }
    has
}

fn world_with(sandbox: &str) -> World {
    let world = World::new();
    let home = world.project().parent().unwrap().to_owned();
    for (name, text) in [(".ssh/id", "secret"), ("notes/one", "")] {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), text).unwrap();
    }
    world.file("agent.sh", AGENT);
    world.file(
        "team.yaml",
        &format!(
            "name: team\nagents:\n  a: {{ backend: command, command: [bash, agent.sh], sandbox: {sandbox} }}\nkickoff: '@a go'\n"
        ),
    );
    world
}

/// Runs the team to its end. Returns the messages of the channel and the sandbox of the attempt.
fn run(world: &World) -> (Vec<String>, Value) {
    let ended = world.run(&["run", "team.yaml"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let ask = Ask { method: "GET", path: "/events?target=@team&after=0", ..Ask::default() };
    let events = ask.events(world, |event| event["kind"] == "run.ended");
    let of = |kind: &'static str| events.iter().filter(move |event| event["kind"] == kind);
    let messages = of("message").map(|event| event["data"]["body"].as_str().unwrap().to_owned());
    let running = of("attempt.running").next().unwrap();
    (messages.collect(), running["data"]["sandbox"].clone())
}

#[test]
fn the_program_of_an_agent_reads_and_changes_only_what_its_sandbox_has() {
    if !has("full") {
        return;
    }
    let inside = "secret no database no socket no work yes workflow no further no";
    let outside = "secret yes database yes socket yes work yes workflow yes further yes";
    let noted = "secret no database no socket no work yes workflow no further yes";
    for (sandbox, expected) in [("full", inside), ("off", outside), ("{ write: [~/notes] }", noted)]
    {
        let world = world_with(sandbox);
        let (messages, in_force) = run(&world);
        let level = if sandbox == "off" { Value::Null } else { "full".into() };
        assert_eq!(in_force["level"], level, "{in_force}");
        let answer = messages.last().unwrap();
        assert!(
            answer.starts_with(expected) && answer.ends_with("tool 1"),
            "{sandbox}: {messages:?}"
        );
        assert!(messages.contains(&"from inside".to_owned()), "{sandbox}: {messages:?}");
        assert_eq!(fs::read_to_string(world.project().join("made")).unwrap(), "x\n");
        assert!(!world.project().join(".claude").exists(), "no placeholder stays");
    }
}

/// Answers with what it reached: a tool of the team, a listed port of this machine, the daemon and a host.
const NETWORK_AGENT: &str = r#"#!/bin/bash
cat > /dev/null
call='{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"channel_send","arguments":{"message":"from inside"}}}'
token=$(cat "$AGENT_WORKER_MCP_TOKEN_FILE")
tool=$(curl --silent --header "Authorization: Bearer $token" --header "Content-Type: application/json" --data "$call" "$AGENT_WORKER_MCP_URL" | grep -c seq)
status() { curl --silent --output /dev/null --write-out '%{http_code}' "$@"; }
echo "tool $tool listed $(status http://127.0.0.1:LISTED/) other $(status http://127.0.0.1:OTHER/) host $(status http://other.example/)" \
  "by proxy $(status --noproxy '' http://127.0.0.1:OTHER/)"
"#;

/// Answers every request with an empty page, and returns the port.
fn empty_pages() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    port
}

#[test]
fn a_program_with_a_list_of_hosts_reaches_these_and_the_tools_of_its_team() {
    if !has("full") {
        return;
    }
    let (listed, other) = (empty_pages(), empty_pages());
    for (network, expected) in [
        (format!("[\"127.0.0.1:{listed}\"]"), "tool 1 listed 200 other 000 host 403 by proxy 403"),
        ("true".to_owned(), "tool 1 listed 200 other 200 host 000 by proxy 200"),
    ] {
        let world = world_with(&format!("{{ mode: full, network: {network} }}"));
        let agent = NETWORK_AGENT.replace("LISTED", &listed.to_string());
        world.file("agent.sh", &agent.replace("OTHER", &other.to_string()));
        let (messages, in_force) = run(&world);
        assert_eq!(messages.last().unwrap(), expected, "{messages:?}");
        let ask = Ask { method: "GET", path: "/events?target=@team&after=0", ..Ask::default() };
        let events = ask.events(&world, |event| event["kind"] == "run.ended");
        let text = format!("{events:?}");
        let is_list = network != "true";
        assert_eq!(text.contains("the sandbox refused a connection: `other.example:80`"), is_list);
        assert_eq!(in_force.to_string().contains("the hosts that `network` lists"), is_list);
    }
}

#[test]
fn a_program_that_uses_too_much_memory_fails_its_attempt_with_the_reason() {
    if !has("basic") {
        return;
    }
    let world = world_with("{ memory: 128MiB }");
    let each = "python3 -c 'import os,time;b=os.urandom(60<<20);time.sleep(600)'";
    world.file(
        "agent.sh",
        &format!("cat > /dev/null\n{each} & {each} & {each} & wait\necho done\n"),
    );
    let file = fs::read_to_string(world.project().join("team.yaml")).unwrap();
    world.file("team.yaml", &file.replace("command: [", "retry: { max_attempts: 1 }, command: ["));
    let ended = world.run(&["run", "team.yaml"]);
    let shown = ended.stdout + &ended.stderr;
    assert!(shown.contains("more than the limit of 128MiB, and were killed"), "{shown}");
    assert_ne!(ended.code, 0, "{shown}");
}

#[test]
fn a_team_whose_sandbox_is_impossible_or_unsafe_fails_with_the_reason() {
    if !has("basic") {
        return;
    }
    let world = world_with("on");
    // A link cannot be protected.
    std::os::unix::fs::symlink("/nonexistent", world.project().join(".claude")).unwrap();
    let ended = world.run(&["run", "team.yaml"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let shown = ended.stdout + &ended.stderr;
    assert!(shown.contains(".claude` is a link, which the sandbox cannot protect"), "{shown}");
    let world = world_with("{ read: [/nonexistent] }");
    let ended = world.run(&["run", "team.yaml"]);
    let shown = ended.stdout + &ended.stderr;
    assert!(
        shown.contains("the path `/nonexistent` in `sandbox` cannot be used: it does not exist"),
        "{shown}"
    );
}

/// A team with an agent in a sandbox that runs `attack`, and a command that notifies the user.
fn notified_team(world: &World, command: &str, attack: &str) {
    world.file("agent.sh", &format!("cat > /dev/null\n{attack}\necho tried\n"));
    world.file(
        "team.yaml",
        &format!(
            "name: team\nagents:\n  a: {{ backend: command, command: [bash, agent.sh], sandbox: full }}\nkickoff: '@a go'\n\
             notify: {{ command: {command}, when: always }}\n"
        ),
    );
}

#[test]
fn an_agent_in_a_sandbox_cannot_change_or_replace_the_command_that_notifies_the_user() {
    if !has("full") {
        return;
    }
    let attack = "evil='#!/bin/sh\ntouch escaped'\nfor file in bin/notify.sh bin/part.sh part.sh; do\n\
                  printf \"$evil\" > $file; rm -f $file; mv $file x; cp agent.sh $file; done\n\
                  mv bin old && mkdir bin && printf \"$evil\" | tee bin/notify.sh bin/part.sh && chmod +x bin/*.sh";
    let world = World::new();
    fs::create_dir(world.project().join("bin")).unwrap();
    let scripts = [
        ("bin/notify.sh", "#!/bin/sh\n. ./bin/part.sh\n. ./part.sh"),
        ("bin/part.sh", ":"),
        ("part.sh", "echo sound >> notified"),
    ];
    for (name, text) in scripts {
        let path = world.file(name, &format!("{text}\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    notified_team(&world, "[./bin/notify.sh, bin/part.sh, part.sh]", attack);
    let ended = world.run(&["run", "team.yaml"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("tried"), "{ended:?}");
    wait_for("the notification", || world.project().join("notified").exists().then_some(()));
    assert!(!world.project().join("escaped").exists());
    assert!(!world.project().join("old").exists());
}

#[test]
fn a_missing_command_that_an_agent_in_a_sandbox_could_create_is_refused_at_the_start() {
    let world = World::new();
    notified_team(&world, "[sh, ./missing.sh]", "true");
    let refused = world.run(&["run", "team.yaml"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    let missing =
        format!("`{}`, which does not exist", world.project().join("missing.sh").display());
    assert!(refused.stderr.contains(&missing), "{refused:?}");
    assert!(refused.stderr.contains("an agent in a sandbox could create it"), "{refused:?}");
}
