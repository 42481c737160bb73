//! Tools with scripted results, in turns of a model and by commands.

use serde_json::json;

use crate::{
    model_server::ModelServer,
    wire::http::Ask,
    world::{World, record_skip},
};

const TEAM: &str = "\
name: team
agents:
  me:
    model: anthropic/claude-sonnet-5-5
    tools: [bash]
    mock_tools:
      - { name: bash, results: [{ when: { command: 'rm *' }, error: closed }, { result: it ran }] }
      - { name: git.deploy, description: Deploys a version., result: { ok: true } }
";

fn started(models: &ModelServer, team: &str) -> World {
    let variables = models.variables();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let world = World::with(&variables);
    world.file("team.yaml", team);
    let started = world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
    world
}

fn ask(world: &World, text: &str) -> String {
    let said = world.run(&["send", "me@team", text, "--wait"]);
    assert_eq!(said.code, 0, "{said:?}\n{}", world.log());
    said.stdout.trim().to_owned()
}

#[test]
fn a_model_calls_mock_tools_and_no_command_runs() {
    let models = ModelServer::start();
    let world = started(&models, TEAM);
    let touch = json!({"command": "touch made"});
    assert_eq!(ask(&world, &format!("CALL bash {touch}\nECHO")), "it ran");
    assert_eq!(ask(&world, "CALL bash {\"command\":\"rm made\"}\nECHO"), "closed");
    assert_eq!(ask(&world, "CALL git_deploy {}\nECHO"), "{\"ok\":true}");
    assert!(!world.project().join("made").exists());
    let ask = Ask { method: "GET", path: "/events?target=@team&after=0", ..Ask::default() };
    let events = ask.events(&world, |event| event["kind"] == "attempt.ended");
    assert!(events.iter().any(|event| event["kind"] == "tool_call"), "{events:?}");
}

#[test]
fn the_tools_of_an_agent_of_a_file_are_listed_without_a_daemon() {
    let world = World::new();
    world.file("team.yaml", &TEAM.replace("tools: [bash]", "tools: [bash, read_file]"));
    let listed = world.list(&["tool", "list", "team.yaml", "--json"])[0].clone();
    assert_eq!((&listed["agent"], &listed["backend"]), (&json!("me"), &json!("api")));
    let tools = listed["tools"].as_array().unwrap();
    let find = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap().clone();
    assert_eq!(tools.iter().filter(|tool| tool["name"] == "bash").count(), 1);
    assert_eq!(find("bash")["source"], "mock");
    assert_eq!(
        find("git.deploy"),
        json!({"name": "git.deploy", "api_name": "git_deploy", "source": "mock", "effect": "changes",
            "schema_bytes": 17, "permission": "allowed", "why": "a mock tool has no effect"})
    );
    let read = find("read_file");
    assert_eq!((&read["source"], &read["effect"]), (&json!("built-in"), &json!("reads")));
    assert_eq!(read["permission"], "allowed");
    assert_eq!(find("write_file")["permission"], "not_offered");
    let team = find("channel_send");
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(!names.contains(&"approval_answer"), "a tool of clients: {names:?}");
    assert_eq!(team["source"], "team");
    assert!(!names.contains(&"run_finish"), "a tool of the finisher: {names:?}");
    let table = world.run(&["tool", "list", "team.yaml", "me"]);
    assert_eq!(table.code, 0, "{table:?}");
    let row = table.stdout.lines().find(|line| line.starts_with("git.deploy")).unwrap();
    let words: Vec<_> = row.split_whitespace().collect();
    assert_eq!(words[..5], ["git.deploy", "mock", "changes", "17", "allowed"]);
    assert_eq!(words.last(), Some(&"git_deploy"));
    world.file("two.yaml", "agents: { a: { backend: mock }, b: { backend: mock } }\n");
    let both = world.list(&["tool", "list", "two.yaml", "--json"]);
    assert_eq!((&both[0]["agent"], &both[1]["agent"]), (&json!("a"), &json!("b")));
    for (words, expected) in [
        (&["tool", "list", "two.yaml", "c"][..], "hint: the agents are: a, b"),
        (&["tool", "list", "two.yaml", "c"], "there is no agent `c` in the file"),
        (&["tool", "list", "none.yaml"], "none.yaml"),
    ] {
        let refused = world.run(words);
        assert_eq!(refused.code, 2, "{words:?}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{words:?}: {refused:?}");
    }
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn a_tool_is_called_by_hand_in_the_sandbox_of_its_agent() {
    let world = World::new();
    let team = "agents:\n  me:\n    model: sonnet\n    backend: api\n    tools: [bash, read_file, write_file]\n    \
                mock_tools: [{ name: deploy, description: D, results: [{ when: { to: a }, result: done }] }]\n  \
                plan: { model: sonnet, backend: api, permissions: { mode: plan } }\n";
    world.file("team.yaml", team);
    world.file("x", "text\n");
    let call = |agent: &str, tool: &str, args: &str| {
        world.run(&["tool", "call", "team.yaml", agent, tool, args])
    };
    let done = call("me", "deploy", r#"{"to": "a"}"#);
    assert_eq!((done.code, done.stdout.as_str()), (0, "done\n"), "{done:?}");
    let failed = call("me", "deploy", r#"{"to": "b"}"#);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stderr.contains("no result of the mock tool `deploy` matches"), "{failed:?}");
    for (agent, tool, args, expected) in [
        ("me", "channel_send", "{}", "`channel_send` is a tool of the team"),
        ("me", "dploy", "{}", "hint: did you mean `deploy`?"),
        ("me", "edit_file", "{}", "`edit_file` is not offered to `me`"),
        ("me", "bash", "[]", "the arguments are not a JSON object"),
        ("plan", "bash", r#"{"command": "ls"}"#, "the rules of `plan` deny `bash`"),
        (
            "plan",
            "Read",
            r#"{"path": "x"}"#,
            "the rules of `plan` may deny this call of `read_file`",
        ),
        ("noone", "bash", "{}", "there is no agent `noone` in the file"),
    ] {
        let refused = call(agent, tool, args);
        assert_eq!(refused.code, 2, "{tool}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{tool}: {refused:?}");
    }
    if !has_sandbox() {
        return;
    }
    let read = call("me", "read_file", r#"{"path": "x"}"#);
    assert_eq!((read.code, read.stdout.as_str()), (0, "     1\ttext\n"), "{read:?}");
    let written = call("me", "Write", r#"{"path": "x", "content": "new"}"#);
    assert_eq!(written.code, 0, "{written:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("x")).unwrap(), "new");
    let fenced = call("me", "write_file", r#"{"path": "team.yaml", "content": "new"}"#);
    assert_eq!(fenced.code, 1, "{fenced:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("team.yaml")).unwrap(), team);
    assert_eq!(world.daemon_pid(), None);
}

fn has_sandbox() -> bool {
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let probe = std::process::Command::new(binary).args(["sandbox", "--json"]).output();
    let has = probe.unwrap().status.success();
    if !has {
        record_skip("a tool that is called by hand in a sandbox (needs Landlock)");
    }
    has
}

#[test]
fn a_rule_about_a_built_in_tool_holds_for_its_mock() {
    let models = ModelServer::start();
    let team = TEAM.replace("    tools: [bash]\n", "    permissions: { bash(rm*): deny }\n");
    let world = started(&models, &team);
    let denied = ask(&world, "CALL bash {\"command\":\"rm made\"}\nECHO");
    assert!(denied.contains("bash is not allowed here"), "{denied}");
    assert_eq!(ask(&world, "CALL bash {\"command\":\"ls\"}\nECHO"), "it ran");
}
