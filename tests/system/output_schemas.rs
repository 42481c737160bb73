//! Answers with a schema: mock agents, executables and models, and the file with a schema.

use serde_json::{Value, json};

use crate::{
    api_agents::{ApiWorld, MODELS},
    model_server::RecordedResponse,
    world::{World, wait_for},
};

const SCHEMA: &str = "output_schema: { type: object, properties: { score: { type: integer } }, required: [score], \
    additionalProperties: false }";

fn start(world: &World, agent: &str) {
    world.file("team.yaml", &format!("name: team\nagents:\n  me: {{ {agent} }}\n"));
    let started = world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
}

/// Sends a message and waits until its first attempt has ended. Returns the end.
fn end_of(world: &World, text: &str) -> Value {
    let said = world.run(&["send", "me@team", text]);
    assert_eq!(said.code, 0, "{said:?}");
    wait_for("the end of the turn", || {
        let status = world.json(&["status", "me@team", "--json"]);
        status["attempts"][0].get("ended").cloned()
    })
}

#[test]
fn the_answer_of_a_mock_agent_is_the_json_of_its_text_or_a_counted_failure() {
    let world = World::new();
    let fenced = json!("```json\n{\"score\": 4}\n```");
    let rules = format!("[{{ on: good, say: {fenced} }}, {{ say: 'no score' }}]");
    start(&world, &format!("mock: {rules}, {SCHEMA}, retry: {{ max_attempts: 1 }}"));
    let said = world.run(&["send", "me@team", "good", "--wait"]);
    assert_eq!((said.code, said.stdout.trim()), (0, r#"{"score":4}"#), "{said:?}");
    let turns = world.list(&["turns", "me@team", "--json"]);
    let exported = world.run(&["export", "@team"]).stdout;
    assert!(exported.contains(r#"{\"score\":4}"#), "{exported}");
    assert_eq!(turns.as_array().unwrap().len(), 1, "{turns}");
    let ended = end_of(&world, "bad");
    let why = "the answer is not valid against `output_schema`: it is not JSON: expected ident at line 1 column 2";
    assert_eq!(ended, json!({"end": "failed", "class": "output", "why": why}));
    let dead = world.list(&["dead", "list", "@team", "--json"]);
    assert_eq!(dead.as_array().unwrap().len(), 1, "the failure counts: {dead}");
}

#[test]
fn an_executable_gets_the_schema_and_its_answer_is_checked() {
    let world = World::new();
    let script = "#!/bin/sh\nread -r task\ncase $task in\n*good*'\"output_schema\":{'*) echo '{ \"score\" : 4 }';;\n\
        *) echo '{\"score\": 4.5}';;\nesac\n";
    world.file("agent.sh", script);
    start(&world, &format!("backend: command, command: [sh, ./agent.sh], {SCHEMA}"));
    let said = world.run(&["send", "me@team", "good", "--wait"]);
    assert_eq!((said.code, said.stdout.trim()), (0, r#"{"score":4}"#), "{said:?}");
    let ended = end_of(&world, "bad");
    assert_eq!(ended["class"], "output", "{ended}");
    assert!(ended["why"].as_str().unwrap().contains("at `/score`: 4.5 is not of type"), "{ended}");
}

#[test]
fn a_model_is_asked_once_more_in_the_same_conversation() {
    for (api, keys) in MODELS {
        let test = ApiWorld::new();
        test.start(&format!("{keys}, {SCHEMA}, retry: {{ max_attempts: 1 }}"));
        let script = "CALL document_list {}\nSAY Four points.\nCORRECTED {\"score\": 4}";
        assert_eq!(test.ask(script), r#"{"score":4}"#, "{api}");
        let retries = test.events("retry");
        let why = "the answer is not valid against `output_schema`: it is not JSON: ";
        assert_eq!(retries.len(), 1, "{api}");
        assert!(retries[0]["data"]["why"].as_str().unwrap().starts_with(why), "{api}: {retries:?}");
        let requests = test.models.requests();
        assert_eq!(requests.len(), 3, "{api}");
        let last = &requests[2].body;
        let sent = last.to_string();
        assert!(sent.contains("Four points.") && sent.contains("it is not JSON"), "{api}: {sent}");
        assert!(sent.contains("valid against this JSON Schema"), "{api}: {sent}");
        let format = match api {
            "messages" => &last["output_config"]["format"]["type"],
            "responses" => &last["text"]["format"]["type"],
            // Version 2.5 takes no schema together with tools, and little is known of a local server.
            _ => &Value::Null,
        };
        let expected = if ["messages", "responses"].contains(&api) { "json_schema" } else { "" };
        assert_eq!(format.as_str().unwrap_or_default(), expected, "{api}: {sent}");
        let ended = end_of(&test.world, "SAY No.\nCORRECTED {\"score\": null}");
        assert_eq!(ended["class"], "output", "{api}: {ended}");
        assert_eq!(test.models.requests().len(), 5, "{api}: one round");
    }
}

#[test]
fn a_model_that_refuses_the_schema_is_asked_without_it() {
    let test = ApiWorld::new();
    test.start(&format!("{}, {SCHEMA}", MODELS[1].1));
    let body = r#"{"error":{"message":"Invalid parameter: 'text.format'","type":"invalid_request_error","code":null}}"#;
    test.models.replay([RecordedResponse::error(400, body)]);
    assert_eq!(test.ask("SAY {\"score\": 4}"), r#"{"score":4}"#);
    let requests = test.models.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body["text"]["format"]["strict"], true);
    assert_eq!(requests[1].body["text"], Value::Null);
}

#[test]
fn a_schema_in_a_file_is_checked_when_the_team_is_read() {
    let world = World::new();
    let team = "name: team\nagents:\n  me: { backend: mock, output_schema: answer.json }\n";
    world.file("team.yaml", team);
    for (schema, expected) in [
        ("{\"type\": \"objekt\"}", "the schema `answer.json` is not valid at `/type`: "),
        (
            "{\"$ref\": \"https://example.org/a.json\"}",
            "the schema `answer.json` is not valid at `/$ref`: the reference `https://example.org/a.json` leads out of the schema",
        ),
        ("{", "the schema `answer.json` is not JSON: "),
    ] {
        world.file("answer.json", schema);
        let refused = world.run(&["validate", "team.yaml"]);
        assert_eq!(refused.code, 2, "{refused:?}");
        let unwrapped = refused.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(unwrapped.contains(expected), "{refused:?}");
        assert!(refused.stderr.contains("team.yaml:3:"), "the place: {refused:?}");
    }
    world.file("answer.json", "{\"type\": \"object\"}");
    assert_eq!(world.run(&["validate", "team.yaml"]).code, 0);
    world.file("team.yaml", &team.replace("answer.json", "{ properties: { a: { type: 5 } } }"));
    let refused = world.run(&["validate", "team.yaml"]);
    assert!(refused.stderr.contains("the schema is not valid: "), "{refused:?}");
}
