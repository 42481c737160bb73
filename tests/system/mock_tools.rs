//! Tools with scripted results, in turns of a model and by commands.

use serde_json::json;

use crate::{model_server::ModelServer, wire::http::Ask, world::World};

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
fn a_rule_about_a_built_in_tool_holds_for_its_mock() {
    let models = ModelServer::start();
    let team = TEAM.replace("    tools: [bash]\n", "    permissions: { bash(rm*): deny }\n");
    let world = started(&models, &team);
    let denied = ask(&world, "CALL bash {\"command\":\"rm made\"}\nECHO");
    assert!(denied.contains("bash is not allowed here"), "{denied}");
    assert_eq!(ask(&world, "CALL bash {\"command\":\"ls\"}\nECHO"), "it ran");
}
