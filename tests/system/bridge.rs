//! `agent-worker mcp`, started by a program, stays connected across restarts of the daemon.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde_json::{Value, json};

use crate::world::{TEST_TIMEOUT, World, kill, wait_for};

const TEAM: &str = "
name: team
agents:
  coder: { backend: mock }
kickoff: '@coder begin'
";

/// A bridge, from the view of the program that started it.
struct BridgeProcess {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
    last: u64,
    /// Notifications, that is, all messages except responses.
    notifications: Vec<Value>,
}

impl BridgeProcess {
    fn start(world: &World, words: &[&str]) -> Self {
        Self::start_in(&world.project(), world, words)
    }

    fn start_in(folder: &Path, world: &World, words: &[&str]) -> Self {
        let mut command = world.command(&[&["mcp"], words].concat());
        command.current_dir(folder);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let (to, out) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, from) = channel();
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                sender.send(serde_json::from_str(&line).unwrap()).ok();
            }
        });
        Self { child, to, from, last: 0, notifications: Vec::new() }
    }

    fn write_message(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request and waits for its response.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.write_message(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}),
        );
        loop {
            let heard = self.from.recv_timeout(TEST_TIMEOUT).unwrap();
            if heard["id"] == id {
                return heard;
            }
            self.notifications.push(heard);
        }
    }

    /// Initializes the connection as a client of the older revisions does.
    fn initialize(&mut self) {
        let client = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let hello = self.ask("initialize", &params);
        assert_eq!(hello["result"]["serverInfo"]["name"], "agent-worker", "{hello}");
        self.write_message(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    fn call(&mut self, tool: &str, args: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": args}))
    }

    /// Waits for a notification of this kind.
    fn wait_notification(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.notifications.iter().position(|heard| heard["method"] == method)
            {
                return self.notifications.remove(at)["params"].clone();
            }
            self.notifications.push(self.from.recv_timeout(TEST_TIMEOUT).unwrap());
        }
    }

    /// Closes the input and waits for the exit of the bridge.
    fn end(mut self) -> i32 {
        self.to = None;
        self.child.wait().unwrap().code().unwrap()
    }
}

fn started_team() -> World {
    let world = World::new();
    world.file("team.yaml", TEAM);
    let started = world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
    world
}

fn bodies(world: &World) -> Vec<String> {
    let read = world.json(&["peek", "@team", "-n", "1000", "--json"]);
    let messages = read["items"].as_array().unwrap().iter();
    messages.map(|message| message["body"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn it_starts_the_daemon_and_ends_with_its_stdin() {
    let world = World::new();
    assert_eq!(world.daemon_pid(), None);
    let mut bridge = BridgeProcess::start(&world, &[]);
    bridge.initialize();
    assert!(world.daemon_pid().is_some());
    let list = bridge.ask("tools/list", &json!({}));
    assert!(list.to_string().contains("channel_send"), "{list}");
    bridge.to.as_mut().unwrap().write_all(b"this is no message\n\n").unwrap();
    let refused = bridge.from.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32700), &Value::Null));
    assert_eq!(bridge.end(), 0);
}

#[test]
fn a_daemon_that_is_killed_again_and_again_costs_time_and_nothing_else() {
    let world = started_team();
    let mut bridge = BridgeProcess::start(&world, &[]);
    bridge.initialize();
    let subscribed = bridge.ask("resources/subscribe", &json!({"uri": "aw://team/main/channel"}));
    assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    for n in 0..6 {
        if n % 2 == 1 {
            kill(world.daemon_pid().unwrap(), "KILL");
        }
        let args = json!({"target": "@team", "message": format!("number {n}")});
        let sent = bridge.call("channel_send", &args);
        assert_eq!(sent["result"]["isError"], json!(false), "{sent}");
    }
    let said: Vec<_> =
        bodies(&world).into_iter().filter(|body| body.starts_with("number")).collect();
    assert_eq!(said, (0..6).map(|n| format!("number {n}")).collect::<Vec<_>>());
    // Subscriptions survive: the bridge itself may send the first notification, the daemon sends the others.
    for _ in 0..3 {
        bridge.notifications.clear();
        wait_for("a change that is told", || {
            let sent = world.run(&["send", "@team", "from elsewhere"]);
            assert_eq!(sent.code, 0, "{sent:?}");
            bridge.ask("ping", &json!({}));
            let is_update = |told: &Value| told["method"] == "notifications/resources/updated";
            bridge.notifications.iter().any(is_update).then_some(())
        });
    }
    let updated = bridge.wait_notification("notifications/resources/updated");
    assert_eq!(updated["uri"], "aw://team/main/channel");
    assert_eq!(bridge.end(), 0);
}

#[test]
fn a_request_of_the_era_without_sessions_is_answered_and_taken_back() {
    let world = started_team();
    let mut bridge = BridgeProcess::start(&world, &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let uri = "aw://team/main/channel";
    let read = bridge.ask("resources/read", &json!({"uri": uri, "_meta": meta}));
    assert_eq!(read["result"]["contents"][0]["uri"], uri, "{read}");
    let wanted = json!({"resourceSubscriptions": [uri]});
    bridge.write_message(&json!({
        "jsonrpc": "2.0", "id": "listen", "method": "subscriptions/listen",
        "params": {"notifications": wanted, "_meta": meta},
    }));
    bridge.wait_notification("notifications/subscriptions/acknowledged");
    assert_eq!(world.run(&["send", "@team", "hello"]).code, 0);
    assert_eq!(bridge.wait_notification("notifications/resources/updated")["uri"], uri);
    bridge.write_message(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "listen"},
    }));
    bridge.ask("resources/read", &json!({"uri": uri, "_meta": meta}));
    bridge.notifications.clear();
    assert_eq!(world.run(&["send", "@team", "unheard"]).code, 0);
    bridge.ask("resources/read", &json!({"uri": uri, "_meta": meta}));
    assert_eq!(bridge.notifications, Vec::<Value>::new());
    assert_eq!(bridge.end(), 0);
}

#[test]
fn an_agents_shell_acts_as_that_agent_whatever_its_options_are() {
    let world = World::new();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"channel_send","arguments":{"message":"NAME"}}}"#;
    let aw = env!("CARGO_BIN_EXE_agent-worker");
    let ways = [
        ("plain", ""),
        ("itself", "--agent coder"),
        ("client", "--client claude"),
        ("other", "--agent reviewer"),
    ];
    let steps = ways.map(|(name, flags)| {
        let line = hello.replace("NAME", &format!("as {name}"));
        format!(
            "echo '{line}' | {aw} mcp {flags} > {name}.out 2> {name}.err\necho $? > {name}.code\n"
        )
    });
    let home = format!("export AGENT_WORKER_HOME='{}'\n", world.home().display());
    let work = home + &steps.concat() + "touch all.done\n";
    world.file("work.sh", &work);
    let team = TEAM.replace(
        "backend: mock }",
        "backend: mock, mock: [{ run: bash work.sh, say: Done. }] }\n  reviewer: { backend: mock }",
    );
    world.file("team.yaml", &team);
    assert_eq!(world.run(&["start", "--background", "team.yaml"]).code, 0);
    wait_for("the agent's shell", || world.project().join("all.done").exists().then_some(()));
    let said = |name: &str| fs::read_to_string(world.project().join(name)).unwrap();
    let read = world.json(&["peek", "@team", "--json"]);
    let by: Vec<_> = read["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["body"].as_str().unwrap().starts_with("as "))
        .map(|message| (message["from"].clone(), message["body"].clone()))
        .collect();
    let coder = |body: &str| (json!("coder"), json!(body));
    assert_eq!(
        by,
        [coder("as plain"), coder("as itself"), coder("as client")],
        "{}",
        said("client.err")
    );
    assert_eq!(said("other.code").trim(), "2", "{}", said("other.err"));
    assert!(said("other.err").contains("not reviewer's shell"), "{}", said("other.err"));
    // No token was created on the way.
    assert!(!world.home().join("clients").exists());
    let outside = world.run(&["mcp", "--agent", "coder@team"]);
    assert_eq!(outside.code, 2, "{outside:?}");
}

/// Creates programs of these names that record their arguments.
fn write_stub_programs(world: &World, names: &[&str]) -> String {
    let bin = world.project().parent().unwrap().join("stand-ins");
    fs::create_dir(&bin).unwrap();
    for name in names {
        let file = bin.join(name);
        let record = bin.join(format!("{name}.args"));
        fs::write(&file, format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > '{}'\n", record.display()))
            .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display())
}

#[test]
fn a_program_is_configured_by_its_own_command_and_gets_its_own_token() {
    let world = World::new();
    let path = write_stub_programs(&world, &["claude", "codex", "code"]);
    let install = |words: &[&str]| {
        let mut command = world.command(&[&["mcp", "install"], words].concat());
        command.env("PATH", &path).output().unwrap()
    };
    let bin = world.project().parent().unwrap().join("stand-ins");
    let given = |name: &str| fs::read_to_string(bin.join(format!("{name}.args"))).unwrap();
    assert!(install(&["claude", "--print"]).status.success());
    assert!(!bin.join("claude.args").exists() && !world.home().join("clients").exists());
    for (program, command) in [("claude", "claude"), ("codex", "codex"), ("vscode", "code")] {
        let done = install(&[program]);
        assert!(done.status.success(), "{done:?}");
        assert!(String::from_utf8_lossy(&done.stdout).starts_with(command), "{done:?}");
        let given = given(command);
        for part in ["agent-worker", "mcp", "--client", program, "AGENT_WORKER_HOME"] {
            assert!(given.contains(part), "{program} {part}: {given}");
        }
        assert!(!given.contains("aw_"), "the token is in no configuration: {given}");
        let token = world.home().join(format!("clients/{program}.token"));
        assert_eq!(fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(given("claude").contains("--scope\nuser\n"), "{}", given("claude"));
    for (program, file, section, arguments) in [
        ("cursor", ".cursor/mcp.json", "mcpServers", "args"),
        ("gemini", ".gemini/settings.json", "mcpServers", "args"),
        ("opencode", ".config/opencode/opencode.json", "mcp", "command"),
        ("qwen", ".qwen/settings.json", "mcpServers", "args"),
        ("copilot", ".copilot/mcp-config.json", "mcpServers", "args"),
        ("zed", ".config/zed/settings.json", "context_servers", "args"),
        ("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers", "args"),
    ] {
        let done = install(&[program]);
        assert!(done.status.success(), "{done:?}");
        let file = world.project().parent().unwrap().join(file);
        let written: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let words = written[section]["agent-worker"][arguments].as_array().unwrap().clone();
        assert!(words.ends_with(&[json!("mcp"), json!("--client"), json!(program)]), "{written}");
    }
    assert_eq!(
        fs::read_dir(world.project()).unwrap().count(),
        0,
        "nothing is written into a project"
    );
    let missing = world.run(&["mcp", "install", "codex"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.stderr.contains("could not be started"), "{missing:?}");
}

#[test]
fn a_program_may_what_it_was_given_and_is_given_something_else_when_asked() {
    let world = started_team();
    let path = write_stub_programs(&world, &["claude"]);
    let install = |words: &[&str]| {
        let mut command = world.command(&[&["mcp", "install", "claude"], words].concat());
        let done = command.env("PATH", &path).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(if words == ["--json"] { done.stdout } else { done.stderr }).unwrap()
    };
    let send = json!({"target": "@team", "message": "hello"});
    let told = install(&[]);
    assert!(told.contains("claude may read,send,documents, everywhere"), "{told}");
    let told = install(&["--allow", "read", "--instance", "@team:*"]);
    assert!(told.contains("claude may read, @team:*"), "{told}");
    let mut bridge = BridgeProcess::start(&world, &["--client", "claude"]);
    bridge.initialize();
    let refused = bridge.call("channel_send", &send);
    assert_eq!(refused["result"]["structuredContent"]["code"], "forbidden", "{refused}");
    let again: Value = serde_json::from_str(&install(&["--json"])).unwrap();
    let token = json!({"name": "mcp-claude", "allow": ["read"], "instances": ["@team:*"]});
    assert_eq!(again["token"], token, "asked for nothing else, it stays as it is");
    let read = bridge.call("channel_read", &json!({"target": "@team"}));
    assert_eq!(read["result"]["isError"], json!(false), "{read}");
    // A failed installation grants nothing.
    let bin = world.project().parent().unwrap().join("stand-ins");
    fs::write(bin.join("claude"), "#!/bin/sh\nexit 1\n").unwrap();
    let mut failing = world.command(&["mcp", "install", "claude", "--allow", "read,run"]);
    assert!(!failing.env("PATH", &path).status().unwrap().success());
    let listed = world.list(&["token", "list", "--json"]);
    assert_eq!(listed[0]["allow"], json!(["read"]), "{listed}");
    assert_eq!(bridge.end(), 0);
}

#[test]
fn an_unknown_token_is_replaced_with_the_same_permissions() {
    let world = started_team();
    let path = write_stub_programs(&world, &["claude"]);
    let file = world.home().join("clients/claude.token");
    let install = |words: &[&str]| {
        let mut command = world.command(&[&["mcp", "install", "claude"], words].concat());
        let done = command.env("PATH", &path).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stderr).unwrap()
    };
    install(&["--allow", "read"]);
    fs::write(&file, "aw_0123456789abcdef\n").unwrap();
    let told = install(&[]);
    assert!(told.contains("claude may read, everywhere"), "{told}");
    let mut bridge = BridgeProcess::start(&world, &["--client", "claude"]);
    bridge.initialize();
    let read = bridge.call("channel_read", &json!({"target": "@team"}));
    assert_eq!(read["result"]["isError"], json!(false), "{read}");
    assert_eq!(bridge.end(), 0);
    let kept = fs::read(&file).unwrap();
    install(&[]);
    assert_eq!(fs::read(&file).unwrap(), kept, "one that counts stays");
    fs::remove_file(&file).unwrap();
    let told = install(&[]);
    assert!(told.contains("claude may read, everywhere") && file.exists(), "{told}");
}

#[test]
fn a_program_speaks_with_its_token_until_that_is_taken_back() {
    let world = started_team();
    let send = json!({"target": "@team", "message": "hello"});
    let mut bridge = BridgeProcess::start(&world, &["--client", "claude"]);
    bridge.initialize();
    assert_eq!(bridge.call("channel_send", &send)["result"]["isError"], json!(false));
    let read = world.json(&["peek", "@team", "--json"]);
    assert_eq!(read["items"].as_array().unwrap().last().unwrap()["from"], "client:mcp-claude");
    assert_eq!(world.run(&["token", "revoke", "mcp-claude"]).code, 0);
    let refused = bridge.call("channel_send", &send);
    assert_eq!(refused["error"]["data"]["code"], "unauthorized", "{refused}");
    assert_eq!(bridge.end(), 0);
    // Only the user who revoked the token can grant it again.
    let mut again = BridgeProcess::start(&world, &["--client", "claude"]);
    let refused = again.call("channel_send", &send);
    assert_eq!(refused["error"]["data"]["code"], "unauthorized", "{refused}");
    assert_eq!(again.end(), 0);
    let path = write_stub_programs(&world, &["claude"]);
    let mut install = world.command(&["mcp", "install", "claude"]);
    assert!(install.env("PATH", path).status().unwrap().success());
    let mut renewed = BridgeProcess::start(&world, &["--client", "claude"]);
    renewed.initialize();
    assert_eq!(renewed.call("channel_send", &send)["result"]["isError"], json!(false));
    assert_eq!(renewed.end(), 0);
}

#[test]
fn bridges_in_two_folders_reach_the_same_workflow_each_in_its_own() {
    let world = World::new();
    let folders = ["a", "b"].map(|name| world.project().join(name));
    for folder in &folders {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("team.yaml"), TEAM).unwrap();
        let mut start = world.command(&["start", "--background", "team.yaml"]);
        assert!(start.current_dir(folder).output().unwrap().status.success());
    }
    let send = json!({"target": "@team", "message": "hello"});
    for folder in &folders {
        let mut bridge = BridgeProcess::start_in(folder, &world, &[]);
        bridge.initialize();
        let status = bridge.call("run_status", &json!({"target": "@team"}));
        let project = &status["result"]["structuredContent"]["project"];
        assert_eq!(Path::new(project.as_str().unwrap()), folder.canonicalize().unwrap());
        assert_eq!(bridge.call("channel_send", &send)["result"]["isError"], json!(false));
        assert_eq!(bridge.end(), 0);
    }
    for folder in &folders {
        let mut peek = world.command(&["peek", "@team", "--find", "hello", "--json"]);
        let said = peek.current_dir(folder).output().unwrap().stdout;
        let read: Value = serde_json::from_slice(&said).unwrap();
        assert_eq!(read["items"].as_array().unwrap().len(), 1, "{read}");
    }
}

#[test]
fn every_tool_can_be_called_and_a_run_is_started() {
    let world = World::new();
    world.file("one.yaml", "name: one\nagents:\n  a: { backend: mock, mock: [{ say: Hoo. }] }\n");
    let mut bridge = BridgeProcess::start(&world, &[]);
    bridge.initialize();
    let listed = bridge.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(tools.len() > 20, "{listed}");
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        let reply = bridge.call(name, &json!({}));
        assert!(!reply.to_string().contains("idempotency_key"), "{name}: {reply}");
    }
    let file = world.project().join("one.yaml");
    let started = bridge.call("run_start", &json!({"file": file, "mode": "start"}));
    assert_eq!(started["result"]["isError"], json!(false), "{started}");
    assert_eq!(world.list(&["runs", "--json"])[0]["instance"], "one");
    assert_eq!(bridge.end(), 0);
}
