//! Third-party MCP clients list and call our tools, as the user, with a token, and as an agent.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    external_programs::{ExternalPrograms, run},
    world::{CommandOutput, World, wait_for},
};

const TEAM: &str = "
name: team
agents:
  coder: { backend: mock, mock: [{ run: bash work.sh, say: Done. }] }
  reviewer: { backend: mock }
kickoff: '@coder begin'
";
const PROMPTS: [&str; 3] = ["coordinator", "reviewer", "document_owner"];

/// Starts a team whose coder runs the script `work` in its own shell.
fn start(world: &World, work: &str) {
    world.file("work.sh", work);
    world.file("team.yaml", TEAM);
    let started = world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
}

fn address(world: &World) -> String {
    let card = fs::read_to_string(world.home().join("daemon.json")).unwrap();
    let card: Value = serde_json::from_str(&card).unwrap();
    format!("http://127.0.0.1:{}/mcp", card["port"])
}

fn token(world: &World) -> String {
    let made = world.json(&["token", "create", "client", "--json"]);
    made["token"].as_str().unwrap().to_owned()
}

/// Sets the variables and arguments with which a client starts the bridge in this world.
fn set_bridge_env(world: &World, command: &mut Command) {
    command.envs([("HOME", world.project()), ("AGENT_WORKER_HOME", world.home())]);
    command.args(["stdio", env!("CARGO_BIN_EXE_agent-worker"), "mcp"]);
}

/// Compares the output of a client's script with the expected content.
fn check_client_output(said: &CommandOutput, who: ClientKind) -> Value {
    let seen: Value =
        serde_json::from_str(said.stdout.trim()).unwrap_or_else(|_| panic!("{said:?}"));
    let has = |list: &str, one: &str| seen[list].as_array().unwrap().contains(&json!(one));
    assert!(has("tools", "channel_send") && has("tools", "document_write"), "{seen}");
    assert_eq!(has("tools", "inbox_check"), who == ClientKind::Agent, "{seen}");
    assert_eq!(seen["sent"]["instance"], "team", "{seen}");
    assert_eq!((&seen["refused"], &seen["read"]), (&json!("not_found"), &json!(true)), "{seen}");
    assert!(has("resources", "aw://team/main/channel"), "{seen}");
    assert_eq!(has("resources", "aw://team/main/inbox"), who == ClientKind::Agent, "{seen}");
    assert_eq!(seen["prompts"], json!(PROMPTS), "{seen}");
    seen
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientKind {
    Agent,
    Other,
}

/// Returns the senders that the channel shows for the client's message.
fn senders(world: &World) -> Vec<Value> {
    let read = world.json(&["peek", "@team", "--json"]);
    let said = |message: &&Value| message["body"] == "said by a client";
    let messages = read["items"].as_array().unwrap().iter();
    messages.filter(said).map(|message| message["from"].clone()).collect()
}

/// Runs one of our scripts as the user over stdio, with a token over HTTP, and as an agent from its shell.
fn run_as_each_client(script: &str, what: &str) -> Option<[Value; 3]> {
    let external = ExternalPrograms::locate_or_skip(what)?;
    let world = World::new();
    let folder = world.project();
    let mut theirs = external.script(script, &folder);
    set_bridge_env(&world, &mut theirs);
    // The daemon's own variables identify the agent's shell; the script sets the others itself.
    let words: Vec<_> = std::iter::once(theirs.get_program())
        .chain(theirs.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let home = world.home();
    let work = format!(
        "AGENT_WORKER_HOME='{}' {} > agent.json 2> agent.err; mv agent.json agent.done",
        home.display(),
        words.join(" ")
    );
    start(&world, &work);
    let user = check_client_output(&run(theirs), ClientKind::Other);
    let mut http = external.script(script, &folder);
    http.args(["http", &address(&world), &token(&world)]);
    let client = check_client_output(&run(http), ClientKind::Other);
    let agent = wait_for("the agent's client", || {
        let stdout = fs::read_to_string(folder.join("agent.done")).ok()?;
        let stderr = fs::read_to_string(folder.join("agent.err")).unwrap_or_default();
        Some(check_client_output(&CommandOutput { code: 0, stdout, stderr }, ClientKind::Agent))
    });
    let mut senders = senders(&world);
    senders.sort_by_key(ToString::to_string);
    assert_eq!(senders, [json!("client:client"), json!("coder"), json!("user")]);
    Some([user, client, agent])
}

#[test]
fn the_typescript_sdk_lists_and_calls_our_tools() {
    run_as_each_client("typescript.mjs", "the TypeScript SDK's client");
}

#[test]
fn the_older_typescript_sdk_lists_and_calls_our_tools_and_receives_changes() {
    let Some(all) = run_as_each_client("legacy.mjs", "the older TypeScript SDK's client") else {
        return;
    };
    for seen in all {
        assert_eq!(seen["told"], "aw://team/main/document/notes.md", "{seen}");
    }
}

#[test]
fn the_python_sdk_lists_and_calls_our_tools() {
    run_as_each_client("python.py", "the Python SDK's client");
}

#[test]
fn the_inspector_lists_and_calls_our_tools() {
    let Some(external) = ExternalPrograms::locate_or_skip("the MCP Inspector") else { return };
    let world = World::new();
    let inspect = |how: &[&str]| {
        let mut inspector =
            external.node("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
        // The inspector passes only a few variables of its own to the programs that it starts.
        let home = format!("AGENT_WORKER_HOME={}", world.home().display());
        inspector.env("HOME", world.project()).args(["--cli", "-e", &home]).args(how);
        inspector
    };
    let ours = env!("CARGO_BIN_EXE_agent-worker");
    let call = [
        "--method",
        "tools/call",
        "--tool-name",
        "channel_send",
        "--tool-arg",
        "message=said by a client",
    ];
    let list = ["--method", "tools/list"];
    let words = |command: Command| {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| format!("'{}'", word.to_str().unwrap())).collect::<Vec<_>>().join(" ")
    };
    let work = format!(
        "export PATH='{}'\n{} > agent.list 2>&1\n{} > agent.call 2>&1\ntouch agent.done",
        external.path(),
        words(inspect(&[&[ours, "mcp"], &list[..]].concat())),
        words(inspect(&[&[ours, "mcp"], &call[..]].concat())),
    );
    start(&world, &work);
    let said = |how: &[&str]| run(inspect(how)).stdout;
    let target = ["--tool-arg", "target=@team"];
    assert!(said(&[&[ours, "mcp"], &list[..]].concat()).contains("\"channel_send\""));
    let sent = said(&[&[ours, "mcp"], &call[..], &target].concat());
    assert!(sent.contains("\"isError\": false"), "{sent}");
    let (address, token) = (address(&world), format!("Authorization: Bearer {}", token(&world)));
    // The two ways to name the server: an option, and the address as the first word.
    let by_option = ["--transport", "http", "--server-url", &address, "--header", &token];
    assert!(said(&[&by_option[..], &list].concat()).contains("\"channel_send\""));
    let by_word = [&address, "--header", &token];
    assert!(said(&[&by_word[..], &list].concat()).contains("\"channel_send\""));
    let sent = said(&[&by_word[..], &call, &target].concat());
    assert!(sent.contains("\"isError\": false"), "{sent}");
    wait_for("the agent's inspector", || world.project().join("agent.done").exists().then_some(()));
    let listed = fs::read_to_string(world.project().join("agent.list")).unwrap();
    assert!(listed.contains("\"inbox_check\""), "{listed}");
    let mut senders = senders(&world);
    senders.sort_by_key(ToString::to_string);
    assert_eq!(senders, [json!("client:client"), json!("coder"), json!("user")]);
}

/// Returns the path of an example.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

#[test]
fn the_example_clients_for_http_run_a_team_and_say_why_they_may_not() {
    let Some(external) = ExternalPrograms::locate_or_skip("the example clients for HTTP") else {
        return;
    };
    let world = World::new();
    world.example("hello.yaml");
    let token = world.token("app", &["--allow", "run,read"]);
    let address = format!("http://{}", world.address());
    let client = |program: &Path, name: &str, token: &str| {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir(world.project());
        command.arg(example(name)).args([&address, "hello.yaml"]).env("AGENT_WORKER_TOKEN", token);
        command
    };
    let python = Path::new("python3");
    let mut greet_ada = client(python, "client.py", &token);
    greet_ada.arg("who=Ada");
    let said = run(greet_ada);
    assert_eq!((said.code, said.stdout.as_str()), (0, "greeter: Greeted.\ndone\n"), "{said:?}");
    let kickoff = world.run(&["peek", "@hello"]).stdout;
    assert!(kickoff.contains("please greet Ada."), "{kickoff}");
    let node = external.node_path();
    let said = run(client(&node, "client.ts", &token));
    let expected = "user: @greeter please greet world.\n\n\
                    greeter: Hello! I was woken because a message mentioned me.\ngreeter: Greeted.\ndone\n";
    assert_eq!((said.code, said.stdout.as_str()), (0, expected), "{said:?}");
    let reader = world.token("reader", &["--allow", "read"]);
    for (program, name) in [(python, "client.py"), (&*node, "client.ts")] {
        let said = run(client(program, name, &reader));
        assert!(said.code == 1 && said.stderr.contains("run"), "{name}: {said:?}");
    }
}

#[test]
fn the_example_client_for_mcp_sends_a_message_and_reads_the_channel() {
    let Some(external) = ExternalPrograms::locate_or_skip("the example client for MCP") else {
        return;
    };
    let world = World::new();
    let file = world.example("hello.yaml");
    assert_eq!(world.run(&["start", &file, "--background"]).code, 0);
    let client = |words: &[&str]| {
        let mut client = external.python("python");
        client.arg(example("mcp_client.py")).args(words).current_dir(world.project());
        client.envs([("HOME", world.project()), ("AGENT_WORKER_HOME", world.home())]);
        client.env("AGENT_WORKER", env!("CARGO_BIN_EXE_agent-worker"));
        run(client)
    };
    let said = client(&["@hello", "@greeter please greet Ada"]);
    assert_eq!(said.code, 0, "{said:?}");
    for part in ["channel_send", "sent as message ", "@greeter please greet Ada"] {
        assert!(said.stdout.contains(part), "{part}: {said:?}");
    }
    let said = client(&["@nothing", "hello"]);
    assert!(said.code == 1 && said.stderr.contains("@nothing"), "{said:?}");
}
