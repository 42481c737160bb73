//! The built-in tools of agents with direct access to a model: files and commands in the sandbox, approvals, and what is left
//! after a turn.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    model_server::ModelServer,
    wire::http::Ask,
    world::{World, is_alive, pids, record_skip, wait_for},
};

const MODEL: &str = "model: anthropic/claude-sonnet-5-5";
/// Largest growth of a process by an output of any size.
const MAX_GROWTH_KIB: u64 = 16 * 1024;

/// A world with one agent, whose model answers by scripts.
struct ToolWorld {
    world: World,
    models: ModelServer,
}

impl ToolWorld {
    /// Starts a team of one agent with these keys.
    fn start(keys: &str) -> Self {
        let models = ModelServer::start();
        let variables = models.variables();
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let world = World::with(&variables);
        let separator = if keys.is_empty() { "" } else { ", " };
        let team = format!("name: team\nagents:\n  me: {{ {MODEL}{separator}{keys} }}\n");
        world.file("team.yaml", &team);
        let started = world.run(&["start", "--background", "team.yaml"]);
        assert_eq!(started.code, 0, "{started:?}");
        Self { world, models }
    }

    /// Returns the answer to a script.
    fn ask(&self, script: &str) -> String {
        let said = self.world.run(&["send", "me@team", script, "--wait"]);
        assert_eq!(said.code, 0, "{said:?}\n{}", self.world.log());
        said.stdout.trim().to_owned()
    }

    fn send(&self, script: &str) {
        let said = self.world.run(&["send", "me@team", script]);
        assert_eq!(said.code, 0, "{said:?}");
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        let ask = Ask { method: "GET", path: "/events?target=@team&after=0", ..Ask::default() };
        let events = ask.events(&self.world, |event| event["kind"] == "attempt.ended");
        events.into_iter().filter(|event| event["kind"] == kind).collect()
    }

    /// Returns the open requests.
    fn pending(&self) -> Vec<Value> {
        self.world.list(&["pending", "--json"]).as_array().cloned().unwrap_or_default()
    }
}

/// Returns the line of a script that calls a tool.
fn call(tool: &str, args: &Value) -> String {
    format!("CALL {tool} {args}\n")
}

fn bash(command: &str) -> String {
    call("bash", &json!({"command": command}))
}

fn has(level: &str) -> bool {
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let probe = Command::new(binary).args(["sandbox", "--level", level, "--json"]).output();
    let has = probe.unwrap().status.success();
    if !has {
        record_skip("built-in tools in a sandbox (needs bubblewrap with namespaces and Landlock)");
    }
    has
}

#[test]
fn an_agent_reads_edits_and_runs_in_its_sandbox_and_the_first_event_has_the_level() {
    if !has("basic") {
        return;
    }
    let test = ToolWorld::start("");
    let file = test.world.file("sum.sh", "echo $((1 - 2))\n");
    let edit = json!({"path": "sum.sh", "edits": [{"old_string": "1 - 2", "new_string": "1 + 2"}]});
    let script = [
        call("read_file", &json!({"path": "sum.sh"})),
        call("edit_file", &edit),
        bash("sh sum.sh"),
        "ECHO".to_owned(),
    ];
    let answer = test.ask(&script.concat());
    assert!(answer.starts_with("[exit code 0, ") && answer.ends_with("\n3"), "{answer}");
    assert_eq!(fs::read_to_string(file).unwrap(), "echo $((1 + 2))\n");
    let running = &test.events("attempt.running")[0]["data"];
    let level = if has("full") { "full" } else { "basic" };
    assert_eq!(running["sandbox"]["level"], level, "{running}");
    let calls = test.events("tool_call");
    let tools: Vec<_> = calls.iter().map(|event| event["data"]["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["read_file", "edit_file", "bash"]);
}

#[test]
fn the_tools_reach_exactly_what_the_sandbox_has() {
    if !has("full") {
        return;
    }
    for (keys, expected) in [
        (
            "sandbox: full",
            "key no link no database no daemon no hidden no work yes read no linked no",
        ),
        (
            "sandbox: off, permissions: { default: allow }",
            "key yes link yes database yes daemon yes hidden yes work yes read yes linked yes",
        ),
    ] {
        let test = ToolWorld::start(keys);
        let home = test.world.project().parent().unwrap().to_owned();
        fs::create_dir_all(home.join(".ssh")).unwrap();
        fs::write(home.join(".ssh/id"), "secret\n").unwrap();
        symlink(home.join(".ssh/id"), test.world.project().join("link")).unwrap();
        let daemon = test.world.daemon_pid().unwrap();
        let attempts = [
            ("key", "cat ~/.ssh/id".to_owned()),
            ("link", "cat link".to_owned()),
            ("database", format!("ls {}", test.world.home().join("agent-worker.db").display())),
            ("daemon", format!("grep -z AGENT_WORKER_HOME= /proc/{daemon}/environ")),
            // A folder of the sandbox may have the name of the home folder.
            ("hidden", "echo x > ~/made; test -e ~/.ssh".to_owned()),
            ("work", "echo x > made".to_owned()),
        ];
        let tries = attempts.map(|(name, command)| {
            format!(
                "if ( {command} ) >/dev/null 2>&1; then echo {name} yes; else echo {name} no; fi"
            )
        });
        let shown = test.ask(&(bash(&tries.join("; ")) + "ECHO"));
        let mut found: Vec<String> = shown.lines().skip(1).map(str::to_owned).collect();
        let key = home.join(".ssh/id");
        for (name, path) in [("read", key.to_str().unwrap()), ("linked", "link")] {
            let read = test.ask(&(call("read_file", &json!({"path": path})) + "ECHO"));
            found.push(format!("{name} {}", if read.contains("secret") { "yes" } else { "no" }));
        }
        assert_eq!(found.join(" "), expected, "{keys}: {shown}");
        assert_eq!(home.join("made").exists(), keys.contains("off"), "{keys}");
    }
}

#[test]
fn a_rule_asks_for_a_command_and_a_person_approves_or_denies_it() {
    let test = ToolWorld::start("sandbox: off, permissions: { bash: ask, Read: allow }");
    for (command, answer) in [("approve", "one"), ("deny", "denied by user: not now")] {
        test.send(&(bash("echo one") + "ECHO"));
        let open = wait_for("the request", || test.pending().pop());
        assert_eq!(open["tool"], "bash", "{open}");
        assert_eq!(open["args"]["command"], "echo one", "{open}");
        let shown = test.world.run(&["pending"]).stdout;
        assert!(shown.contains("$ echo one"), "{shown}");
        let id = open["id"].to_string();
        let reason: &[&str] = if command == "deny" { &["--reason", "not now"] } else { &[] };
        let answered = test.world.run(&[&[command, id.as_str()], reason].concat());
        assert_eq!(answered.code, 0, "{answered:?}");
        wait_for("the result in the next request", || {
            let requests = test.models.requests();
            requests.last()?.body.to_string().contains(answer).then_some(())
        });
    }
    assert!(test.events("attempt.running")[0]["data"]["sandbox"].is_null());
}

#[test]
fn without_a_sandbox_changes_are_asked_for_and_shown_as_a_diff_and_reads_are_not() {
    let test = ToolWorld::start("sandbox: off");
    test.world.file("a.txt", "old\n");
    let edit = json!({"path": "a.txt", "edits": [{"old_string": "old", "new_string": "new"}]});
    test.send(&(call("read_file", &json!({"path": "a.txt"})) + &call("edit_file", &edit) + "ECHO"));
    let open = wait_for("the request", || test.pending().pop());
    assert_eq!(open["tool"], "edit_file", "the read was not asked for: {open}");
    let shown = test.world.run(&["pending"]).stdout;
    assert!(shown.contains("a.txt (+1 -1)"), "{shown}");
    assert_eq!(fs::read_to_string(test.world.project().join("a.txt")).unwrap(), "old\n");
    let id = open["id"].to_string();
    assert_eq!(test.world.run(&["approve", &id]).code, 0);
    wait_for("the edit", || {
        let edited = fs::read_to_string(test.world.project().join("a.txt")).unwrap();
        (edited == "new\n").then_some(())
    });
}

/// Returns the live processes whose command line has this text.
fn running(text: &str) -> Vec<u32> {
    let has_text = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(text) && is_alive(*pid)
    };
    pids().into_iter().filter(has_text).collect()
}

#[test]
fn no_process_of_a_turn_is_left_after_it() {
    for (n, keys) in ["", "sandbox: off, permissions: { default: allow }"].into_iter().enumerate() {
        if keys.is_empty() && !has("basic") {
            continue;
        }
        let test = ToolWorld::start(keys);
        let unique =
            |kind: usize| format!("sleep {}{kind}{n}", 70_000 + std::process::id() % 10_000);
        let background = json!({"command": unique(1), "run_in_background": true});
        let detached = format!("setsid {} & {} & disown -a", unique(2), unique(3));
        let script = call("bash", &background)
            + &bash(&detached)
            + &call("bash_output", &json!({"id": "bash-1"}))
            + "HOLD\nECHO";
        test.send(&script);
        test.models.wait_held(1);
        for kind in 1..=3 {
            assert!(!running(&unique(kind)).is_empty(), "{keys}: {} runs", unique(kind));
        }
        test.models.release_held();
        wait_for("the end of the turn", || {
            let status = test.world.json(&["status", "me@team", "--json"]);
            status["attempts"][0].get("ended").cloned()
        });
        for kind in 1..=3 {
            assert_eq!(running(&unique(kind)), Vec::<u32>::new(), "{keys}: {}", unique(kind));
        }
    }
}

/// Returns the largest resident memory of a process so far, in KiB.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the largest memory of the worker, of the tool host and of the daemon.
fn peaks(world: &World) -> [u64; 3] {
    let daemon = world.daemon_pid().unwrap();
    let of = |last: &str| {
        let found =
            world.processes().into_iter().filter(|(_, line)| line.trim_end().ends_with(last));
        found.filter_map(|(pid, _)| peak_memory(pid)).max().unwrap()
    };
    [of(" worker"), of(" tool-host"), peak_memory(daemon).unwrap()]
}

#[test]
fn an_output_of_two_gibibytes_without_a_line_break_costs_little_memory() {
    let test = ToolWorld::start("sandbox: off, permissions: { default: allow }");
    let mut measured = Vec::new();
    for command in ["echo small", "head -c 2147483648 /dev/zero; echo the end"] {
        test.send(&(bash(command) + "HOLD\nECHO"));
        test.models.wait_held(measured.len() + 1);
        measured.push(peaks(&test.world));
        test.models.release_held();
    }
    for (place, process) in ["worker", "tool host", "daemon"].into_iter().enumerate() {
        let growth = measured[1][place].saturating_sub(measured[0][place]);
        assert!(growth < MAX_GROWTH_KIB, "{process}: {measured:?}");
    }
    let requests = test.models.requests();
    let result = requests.last().unwrap().body.to_string();
    assert!(result.contains("the end"), "{result}");
    assert!(result.contains("read the rest with resource_read, id "), "{result}");
}

#[test]
fn the_model_gets_the_tools_that_the_file_names() {
    for (keys, expected) in [
        ("tools: []", vec![]),
        ("tools: [Read, bash*]", vec!["bash", "bash_output", "bash_kill", "read_file"]),
        ("tools: [fetch_url]", vec!["fetch_url"]),
    ] {
        let test = ToolWorld::start(keys);
        test.ask("SAY Done.");
        let requests = test.models.requests();
        let tools = requests[0].body["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert!(names.contains(&"channel_send"), "{names:?}");
        let builtin =
            |name: &&str| name.contains("bash") || name.ends_with("_file") || *name == "fetch_url";
        let found: Vec<_> = names.into_iter().filter(builtin).collect();
        assert_eq!(found, expected, "{keys}");
    }
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_edited() {
    let test = ToolWorld::start("sandbox: off, permissions: { default: allow }");
    test.world.file("a.txt", "old\n");
    let edit = json!({"path": "a.txt", "edits": [{"old_string": "old", "new_string": "new"}]});
    let script = call("read_file", &json!({"path": "a.txt"}))
        + &bash("echo 'old and new' > a.txt")
        + &call("edit_file", &edit)
        + "ECHO";
    let answer = test.ask(&script);
    assert!(answer.ends_with("a.txt changed since it was read; read it again"), "{answer}");
    let content = fs::read_to_string(test.world.project().join("a.txt")).unwrap();
    assert_eq!(content, "old and new\n");
}

#[test]
fn commands_that_use_too_much_memory_are_killed_and_the_next_call_works() {
    if !has("basic") {
        return;
    }
    let test = ToolWorld::start("sandbox: { memory: 128MiB }");
    let each = "python3 -c 'import os,time;b=os.urandom(60<<20);time.sleep(600)'";
    let answer = test.ask(&(bash(&format!("{each} & {each} & {each} & wait")) + "ECHO"));
    let part =
        "more than the limit of 128MiB, and were killed; use less at a time, or raise the limit";
    assert!(answer.contains(part), "{answer}");
    let answer = test.ask(&(bash("echo again") + "ECHO"));
    assert!(answer.ends_with("again"), "{answer}");
}

#[test]
fn commands_with_a_list_of_hosts_reach_these_alone_and_a_refused_one_is_an_event() {
    if !has("full") {
        return;
    }
    let test = ToolWorld::start("sandbox: { network: [listed.example] }");
    let answer = test.ask(&(bash("curl -s http://evil.example/") + "ECHO"));
    assert!(answer.contains("agent-worker: `evil.example:80` is not among the hosts"), "{answer}");
    let notes = format!("{:?}", test.events("note"));
    assert!(notes.contains("the sandbox refused a connection: `evil.example:80`"), "{notes}");
}

#[test]
fn a_page_of_this_machine_is_refused_unless_a_rule_lists_its_server() {
    let models = ModelServer::start();
    let variables = models.variables();
    let (_, url) = variables.iter().find(|(name, _)| *name == "LOCAL_BASE_URL").unwrap();
    let origin = url.split('/').take(3).collect::<Vec<_>>().join("/");
    let page = json!({"url": format!("{origin}/nosuch")});
    let allow = format!("allow: ['fetch_url({origin}/*)']");
    for (keys, part) in [
        (
            "tools: [fetch_url], permissions: { default: allow }".to_owned(),
            "is this machine or in a private network",
        ),
        (format!("permissions: {{ {allow} }}"), "/nosuch: status 404"),
    ] {
        let test = ToolWorld::start(&keys);
        let answer = test.ask(&(call("fetch_url", &page) + "ECHO"));
        assert!(answer.contains(part), "{keys}: {answer}");
    }
}

#[test]
fn an_image_reaches_the_model_as_one() {
    let test = ToolWorld::start("sandbox: off");
    let image = test.world.project().join("dot.png");
    fs::write(&image, b"\x89PNG\r\n\x1a\n\0\0").unwrap();
    test.ask(&(call("read_file", &json!({"path": "dot.png"})) + "ECHO"));
    let requests = test.models.requests();
    let body = requests.last().unwrap().body.to_string();
    assert!(body.contains("iVBORw0KGgoAAA==") && body.contains("image/png"), "{body}");
    assert!(Path::new(&image).exists());
}

#[test]
fn a_command_reaches_neither_the_calls_nor_the_replies_of_the_process_of_the_tools() {
    if !has("basic") {
        return;
    }
    let test = ToolWorld::start("");
    let attempts = [
        "(: < /proc/$PPID/fd/0) && echo open calls",
        "(: > /proc/$PPID/fd/1) && echo open replies",
        "head -c 1 /proc/$PPID/mem && echo open memory",
        "head -c 1 /proc/$PPID/environ && echo open environment",
    ];
    let line = format!("exec 2>&-; {}; echo end", attempts.join("; "));
    let answer = test.ask(&format!("{}ECHO", bash(&line)));
    assert!(answer.starts_with("[exit code 0, ") && answer.ends_with("]\nend"), "{answer}");
}
