//! The script of a mock agent, changed while its run is live.

use serde_json::json;

use crate::{
    wire::http::Ask,
    world::{World, kill},
};

const TEAM: &str = "name: team\nagents:\n  me: { mock: [{ say: First. }] }\n  other: { backend: command, command: [cat] }\n";

fn started() -> World {
    let world = World::new();
    world.file("team.yaml", TEAM);
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
fn the_next_turn_of_a_mock_agent_uses_its_new_script_also_after_a_kill_of_the_daemon() {
    let world = started();
    assert_eq!(ask(&world, "one"), "First.");
    let said = world.run(&["mock", "me@team", "say", "Second."]);
    let line = "changed the script of me@team: 1 rule from its next turn on\n";
    assert_eq!((said.code, said.stdout.as_str()), (0, line), "{said:?}");
    assert_eq!(ask(&world, "two"), "Second.");
    kill(world.daemon_pid().unwrap(), "KILL");
    assert_eq!(ask(&world, "three"), "Second.");
    let args = r#"{"content": "- a line\n"}"#;
    let called = world.json(&["mock", "me@team", "call", "document_append", args, "--json"]);
    let call = json!({"tool": "document_append", "args": {"content": "- a line\n"}});
    let expected = json!({"agent": "me", "instance": "team", "rules": [{"calls": [call]}]});
    assert_eq!(called, expected);
    ask(&world, "four");
    assert_eq!(world.run(&["doc", "read", "--target", "@team"]).stdout, "- a line\n");
    world.file("script.yaml", "- { on: bird, say: Tweet. }\n- { run: echo hi }\n");
    let said = world.run(&["mock", "me@team", "rules", "script.yaml"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("2 rules"), "{said:?}");
    assert_eq!(ask(&world, "a bird"), "Tweet.");
    assert_eq!(ask(&world, "a stone"), "hi");
    // A new run of the file has the script of the file.
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    let ask_events = Ask { method: "GET", path: "/events?target=@team&after=0", ..Ask::default() };
    let events = ask_events.events(&world, |event| event["kind"] == "run.ended");
    let changes = events.iter().filter(|event| event["kind"] == "agent.mock_changed");
    let facts: Vec<_> = changes.map(|event| (&event["agent"], &event["by"])).collect();
    assert_eq!(facts, [(&json!("me"), &json!("user")); 3], "{events:?}");
    assert_eq!(world.run(&["start", "--background", "team.yaml"]).code, 0);
    assert_eq!(ask(&world, "five"), "First.");
}

#[test]
fn a_script_that_cannot_be_used_is_refused_and_changes_nothing() {
    let world = started();
    world.file("script.yaml", "- { sy: x }\n");
    for (words, expected) in [
        (
            &["mock", "other@team", "say", "x"][..],
            "`other` has the backend `command`; only a mock agent has a script",
        ),
        (&["mock", "me@team", "call", "document_apend"], "document_apend"),
        (
            &["mock", "me@team", "call", "document_read", "[1]"],
            "the arguments are not a JSON object",
        ),
        (&["mock", "me@team", "rules", "script.yaml"], "script.yaml:1:"),
        (&["mock", "me@team", "rules", "none.yaml"], "cannot read none.yaml"),
        (&["mock", "@team", "say", "x"], "`mock` needs the name of an agent"),
        (&["mock", "noone@team", "say", "x"], "noone"),
    ] {
        let refused = world.run(words);
        assert_ne!(refused.code, 0, "{words:?}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{words:?}: {refused:?}");
        assert!(refused.stderr.contains("hint: ") || words[2] == "rules", "{words:?}: {refused:?}");
    }
    assert_eq!(ask(&world, "one"), "First.");
}
