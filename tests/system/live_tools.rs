//! The tools of live agents: their list, and the results that a person gives them.

use serde_json::{Value, json};

use crate::{
    model_server::ModelServer,
    wire::http::Ask,
    world::{World, http_status, kill},
};

const TEAM: &str = "\
name: team
agents:
  me:
    model: anthropic/claude-sonnet-5-5
    tools: [bash, read_file]
    permissions: { bash(rm*): deny }
    requires: { document_write: release }
    mock_tools:
      - { name: deploy, description: Deploys., schema: { type: object, properties: {} }, result: done }
  puppet: { mock: [{ say: Hoo. }] }
  cat: { backend: command, command: [cat] }
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

/// Returns the listed tools of one agent.
fn tools_of(world: &World, words: &[&str]) -> Value {
    let listed = world.list(&[&["tool", "list"], words, &["--json"]].concat());
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    listed[0].clone()
}

fn tool<'a>(agent: &'a Value, name: &str) -> &'a Value {
    let found = agent["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {agent}"))
}

fn changed(world: &World, words: &[&str], expected: &str) {
    let said = world.run(&[&["tool", "mock"], words].concat());
    assert_eq!((said.code, said.stdout.as_str()), (0, expected), "{words:?}: {said:?}");
}

#[test]
fn a_live_agent_has_the_tools_of_its_file_with_the_sizes_that_its_model_gets() {
    let models = ModelServer::start();
    let world = started(&models, TEAM);
    let live = tools_of(&world, &["me@team"]);
    let mut of_file = tools_of(&world, &["team.yaml", "me"]);
    assert_eq!(of_file["instance"], Value::Null);
    of_file["instance"] = json!("team");
    assert_eq!(live, of_file);
    let facts = |name: &str| {
        let tool = tool(&live, name);
        let words = ["source", "permission", "why"].map(|key| tool[key].as_str().unwrap());
        words.join("; ")
    };
    for (name, expected) in [
        ("channel_send", "team; allowed; a tool of the team needs no approval"),
        ("document_write", "team; denied; until a vote opens the gate `release`"),
        ("bash", "built-in; by_arguments; `deny` has `bash(rm*)`"),
        ("write_file", "built-in; not_offered; `tools` does not select it"),
        ("deploy", "mock; allowed; a mock tool has no effect"),
    ] {
        assert_eq!(facts(name), expected, "{name}");
    }
    ask(&world, "SAY hello");
    let request = models.requests().pop().unwrap();
    let sent = request.body["tools"].as_array().unwrap();
    let mut bytes = 0;
    for one in sent {
        let schema = one["input_schema"].to_string().len();
        let name = one["name"].as_str().unwrap();
        assert_eq!(tool(&live, name)["schema_bytes"], schema, "{name}");
        bytes += schema;
    }
    assert_eq!(live["schema_bytes"], bytes, "{live}");
    let offered = live["tools"].as_array().unwrap().iter();
    assert_eq!(offered.filter(|tool| tool["permission"] != "not_offered").count(), sent.len());
    let all = world.list(&["tool", "list", "@team", "--json"]);
    let names: Vec<_> = all.as_array().unwrap().iter().map(|one| &one["agent"]).collect();
    assert_eq!(names, ["cat", "me", "puppet"], "{all}");
    assert_eq!(world.list(&["tool", "list", "--json"]), all, "the only run of the folder");
    let table = world.run(&["tool", "list", "--target", "me@team"]);
    assert_eq!(table.code, 0, "{table:?}");
    let head =
        format!("me@team  api, {} tools, {bytes} bytes", all[1]["tools"].as_array().unwrap().len());
    assert!(table.stdout.starts_with(&head), "{head}: {table:?}");
    assert!(table.stdout.contains("`deny` has `bash(rm*)`"), "{table:?}");
}

#[test]
fn a_result_of_a_tool_holds_from_the_next_turn_on_also_after_a_kill_of_the_daemon() {
    let models = ModelServer::start();
    let world = started(&models, TEAM);
    let touch = format!("CALL bash {}\nECHO", json!({"command": "touch made"}));
    let line = "mocked `bash` of me@team: every call returns this result from its next turn on\n";
    changed(&world, &["me@team", "Bash", "it ran"], line);
    assert_eq!(ask(&world, &touch), "it ran");
    assert!(!world.project().join("made").exists());
    let listed = tools_of(&world, &["me@team"]);
    let bash = tool(&listed, "bash");
    assert_eq!((&bash["source"], &bash["changed"]), (&json!("mock"), &json!(true)), "{bash}");
    assert_eq!(bash["permission"], "by_arguments", "the rules hold for the mock: {bash}");
    assert_eq!(tool(&listed, "deploy")["changed"], Value::Null);
    let status = world.run(&["status", "me@team"]);
    assert!(status.stdout.contains("deploy, bash (changed)"), "{status:?}");
    kill(world.daemon_pid().unwrap(), "KILL");
    assert_eq!(ask(&world, &touch), "it ran");
    let line =
        "mocked `deploy` of me@team: every call fails with this reason from its next turn on\n";
    changed(&world, &["deploy", "closed today", "--error", "--target", "me@team"], line);
    assert_eq!(ask(&world, "CALL deploy {}\nECHO"), "closed today");
    let line = "mocked `ticket` of me@team: every call returns this result from its next turn on\n";
    changed(
        &world,
        &["me@team", "ticket", "{\"id\": 7}", "--description", "Creates a ticket."],
        line,
    );
    assert_eq!(ask(&world, "CALL ticket {}\nECHO"), "{\"id\": 7}");
    let request = models.requests().pop().unwrap();
    assert!(request.text.contains("Creates a ticket."), "{}", request.text);
    let line = "cleared `deploy` of me@team: it has the results of the workflow file from its next turn on\n";
    changed(&world, &["me@team", "deploy", "--clear"], line);
    assert_eq!(ask(&world, "CALL deploy {}\nECHO"), "done");
    let line = "cleared `ticket` of me@team: the agent does not have it from its next turn on\n";
    changed(&world, &["me@team", "ticket", "--clear"], line);
    let mocks = world.json(&["tool", "mock", "me@team", "bash", "--clear", "--json"]);
    let deploy = json!({"name": "deploy", "description": "Deploys.", "schema": {"type": "object", "properties": {}}, "results": [{"result": "done"}]});
    assert_eq!(mocks, json!({"agent": "me", "instance": "team", "tools": [deploy]}));
    assert_eq!(tool(&tools_of(&world, &["me@team"]), "bash")["source"], "built-in");
}

#[test]
fn a_change_that_cannot_be_made_is_refused_and_says_what_to_do() {
    let models = ModelServer::start();
    let world = started(&models, TEAM);
    for (words, code, expected, hint) in [
        (&["mock", "me@team", "bsh", "x"][..], 2, "`me` has no tool `bsh`", "did you mean `bash`?"),
        (&["mock", "me@team", "channel_send", "x"], 2, "is a tool of the team", "another name"),
        (
            &["mock", "me@team", "a b", "x", "--description", "D"],
            2,
            "is not the name of a tool",
            "letters",
        ),
        (
            &["mock", "cat@team", "bash", "x"],
            2,
            "`cat` has the backend `command`, whose tools cannot be mocked",
            "`backend: api`",
        ),
        (
            &["mock", "me@team", "bash", "--clear"],
            2,
            "`me` has no mock tool `bash`",
            "nothing to clear",
        ),
        (
            &["mock", "me@team", "deploy", "--clear"],
            2,
            "`deploy` of `me` is that of the workflow file",
            "nothing to clear",
        ),
        (&["mock", "noone@team", "bash", "x"], 1, "noone", "agent"),
        (
            &["mock", "@team", "bash", "x"],
            2,
            "`tool mock` needs the name of an agent",
            "agent@workflow:tag",
        ),
        (&["mock", "me@team", "bash"], 2, "the result of `bash` is missing", "--clear"),
        (&["mock", "me@team", "bash", "x", "--clear"], 2, "takes no result", "--clear"),
        (&["list", "noone@team"], 1, "noone", "agent"),
        (&["list", "@nothing"], 1, "nothing", "agent-worker"),
        (&["list", "me@team", "bash"], 2, "only a file has a second argument", "bash@workflow:tag"),
        (
            &["list", "team.yaml", "--target", "me@team"],
            2,
            "a file and a target are given",
            "one of the two",
        ),
        (&["list", "a b"], 2, "neither a target nor a file", "agent-worker ls"),
    ] {
        let refused = world.run(&[&["tool"], words].concat());
        assert_eq!(refused.code, code, "{words:?}: {refused:?}");
        let (what, next) =
            refused.stderr.split_once("hint: ").unwrap_or_else(|| panic!("{words:?}: {refused:?}"));
        assert!(what.contains(expected) && next.contains(hint), "{words:?}: {refused:?}");
    }
    assert_eq!(tool(&tools_of(&world, &["me@team"]), "bash")["source"], "built-in");
}

#[test]
fn a_request_that_is_empty_or_too_large_changes_nothing() {
    let models = ModelServer::start();
    let world = started(&models, TEAM);
    let long = "x".repeat(1024 * 1024);
    let body = json!({"tools": [{"name": "bash", "results": [{"result": long}]}]}).to_string();
    let (status, said) = world.as_user("POST", "/agents/me%40team/mock", &body);
    assert!(status == 400 && said.contains("at most 1048576 are allowed"), "{status} {said}");
    let (status, said) = world.as_user("POST", "/agents/me%40team/mock", "{}");
    assert!(status == 400 && said.contains("the request changes nothing"), "{status} {said}");
    assert_eq!(tool(&tools_of(&world, &["me@team"]), "bash")["source"], "built-in");
}

#[test]
fn a_script_keeps_the_mock_tools_that_it_calls() {
    let world = World::new();
    world.file("team.yaml", "name: team\nagents:\n  me: { mock: [{ say: Hoo. }] }\n");
    assert_eq!(world.run(&["start", "--background", "team.yaml"]).code, 0);
    let mocked = world.run(&["tool", "mock", "me@team", "deploy", "done", "--description", "D"]);
    assert_eq!(mocked.code, 0, "{mocked:?}");
    assert_eq!(world.run(&["mock", "me@team", "call", "deploy"]).code, 0);
    let refused = world.run(&["tool", "mock", "me@team", "deploy", "--clear"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("hint: change the script first"), "{refused:?}");
    assert_eq!(world.run(&["mock", "me@team", "say", "Hoo."]).code, 0);
    // A repetition of the request is not the error that there is nothing to clear any more.
    let clear = Ask {
        method: "POST",
        path: "/agents/me%40team/mock",
        body: "{\"clear\":[\"deploy\"]}",
        headers: &["Idempotency-Key: k"],
    };
    let rules = json!([{"say": "Hoo."}]);
    for _ in 0..2 {
        let reply = clear.reply(&world);
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(
            (reply.status, body),
            (200, json!({"agent": "me", "instance": "team", "rules": rules}))
        );
    }
    let other = Ask { headers: &["Idempotency-Key: l"], ..clear };
    assert_eq!(other.reply(&world).status, 400);
}

#[test]
fn an_agent_lists_only_its_own_tools_and_changes_none() {
    let world = World::new();
    let call = |words: &str| {
        let home = world.home();
        let binary = env!("CARGO_BIN_EXE_agent-worker");
        format!("AGENT_WORKER_HOME={} {binary} tool {words}; echo exit $?", home.display())
    };
    let script: Vec<_> = [
        ("mock", call("mock me@team bash x 2>&1")),
        ("other", call("mock other@team bash x 2>&1")),
        ("own", call("list me@team 2>&1")),
        ("foreign", call("list other@team 2>&1")),
        ("all", call("list @team 2>&1")),
    ]
    .iter()
    .map(|(on, run)| format!("{{ on: {on}, run: '{run}' }}"))
    .collect();
    let team = format!(
        "name: team\nagents:\n  me: {{ mock: [{}] }}\n  other: {{ mock: [] }}\n",
        script.join(", ")
    );
    world.file("team.yaml", &team);
    assert_eq!(world.run(&["start", "--background", "team.yaml"]).code, 0);
    for on in ["mock", "other"] {
        let said = ask(&world, on);
        assert!(said.ends_with("exit 1") && said.contains("`agents`"), "{on}: {said}");
    }
    for on in ["foreign", "all"] {
        let said = ask(&world, on);
        assert!(
            said.ends_with("exit 1") && said.contains("an agent may only inspect itself"),
            "{on}: {said}"
        );
    }
    let own = ask(&world, "own");
    assert!(own.ends_with("exit 0") && own.contains("channel_send"), "{own}");
    let listed = world.list(&["tool", "list", "@team", "--json"]);
    for agent in listed.as_array().unwrap() {
        let tools = agent["tools"].as_array().unwrap();
        assert!(tools.iter().all(|tool| tool["source"] == "team"), "{agent}");
    }
    let body = r#"{"tools":[{"name":"bash","results":[{"result":"x"}]}]}"#;
    for (allow, expected) in [("read", 403), ("agents", 200)] {
        let token = world.token(allow, &["--allow", allow, "--instance", "@team"]);
        let path = "/agents/me%40team/mock";
        let status = http_status(&world.address(), &token, "POST", path, body);
        assert_eq!(status, expected, "{allow}");
    }
}
