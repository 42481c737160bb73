//! Answers with a schema from real agents: the second prompt in the same conversation, and the schema in the request.

use serde_json::json;

use super::testbed::{AgentEntry, AgentTestbed, Cli};

/// A schema that an API can enforce.
const SETTINGS: &str = "retry: { max_attempts: 1 }\noutput_schema: { type: object, properties: { score: { type: integer } }, \
    required: [score], additionalProperties: false }";

fn check_answers(cli: Cli) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a real agent whose answers have a schema")
    else {
        return;
    };
    testbed.start(&[AgentEntry { name: "me", cli, settings: SETTINGS }], "");
    assert_eq!(testbed.ask("me", "SAY {\"score\": 4}"), r#"{"score":4}"#);
    let script = "SAY Four points.\nCORRECTED {\"score\": 5}";
    assert_eq!(testbed.ask("me", script), r#"{"score":5}"#, "{}", testbed.diagnostics("me"));
    let last = testbed.models.requests().pop().unwrap().body;
    let text = last.to_string();
    assert!(text.contains("Four points.") && text.contains("it is not JSON"), "{text}");
    if cli == Cli::Claude {
        let script = "CALL StructuredOutput {\"score\": 6}\nSAY Not this.";
        assert_eq!(testbed.ask("me", script), r#"{"score":6}"#, "{}", testbed.diagnostics("me"));
    }
    if cli == Cli::Codex {
        assert_eq!(last["text"]["format"]["type"], "json_schema", "{text}");
    }
    let status = testbed.status("me");
    let turns = if cli == Cli::Claude { 3 } else { 2 };
    assert_eq!((&status["turns"], &status["attempts"][0]["number"]), (&json!(turns), &json!(1)));
    testbed.send("me", "SAY No.\nCORRECTED Never.");
    let (_, ended) = testbed.end_of_turn("me");
    assert_eq!(ended["class"], "output", "{}", testbed.diagnostics("me"));
}

#[test]
fn claude_code_is_asked_once_more_for_an_answer_that_fits_its_schema() {
    check_answers(Cli::Claude);
}

#[test]
fn gemini_cli_is_asked_once_more_for_an_answer_that_fits_its_schema() {
    check_answers(Cli::Gemini);
}

#[test]
fn codex_is_asked_once_more_for_an_answer_that_fits_its_schema() {
    check_answers(Cli::Codex);
}
