//! Conversations of Codex: opened in the program itself, lost between two turns, and stopped in the middle.

use std::process::Command;

use serde_json::{Value, json};

use super::{
    testbed::{AgentEntry, AgentTestbed, Cli},
    usage,
};

fn codex_team(what: &str) -> Option<AgentTestbed> {
    let testbed = AgentTestbed::open(&[Cli::Codex], what)?;
    let settings = "retry: { backoff: 1h }";
    testbed.start(&[AgentEntry { name: "me", cli: Cli::Codex, settings }], "");
    Some(testbed)
}

#[test]
fn a_conversation_of_codex_continues_with_the_command_that_the_status_shows() {
    let Some(testbed) = codex_team("a conversation of Codex that a person opens") else { return };
    assert_eq!(testbed.ask("me", "SAY The first answer."), "The first answer.");
    let status = testbed.status("me");
    let open = status["session"]["open"].as_str().unwrap();
    // `codex resume` needs a terminal; `codex exec resume` opens the same conversation.
    let program = Cli::Codex.command().unwrap().remove(0);
    let models = testbed.models.variables();
    let value = |name: &str| models.iter().find(|it| it.0 == name).unwrap().1.clone();
    let provider = format!(
        "{{name=\"given\",base_url=\"{}\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}}",
        value("OPENAI_BASE_URL")
    );
    let exec = format!(
        "'{program}' exec --skip-git-repo-check -c model_provider='\"given\"' -c model_providers.given='{provider}' resume "
    );
    let line = format!("{} 'SAY By hand.'", open.replace("codex resume ", &exec));
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).env("OPENAI_API_KEY", value("OPENAI_API_KEY"));
    let said = shell.output().unwrap();
    assert!(said.status.success(), "{line}: {said:?}");
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("By hand.") && last.contains("The first answer."), "{last}");
    // The agent continues the same conversation, with the person's part.
    assert_eq!(testbed.ask("me", "SAY The second answer."), "The second answer.");
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("By hand."), "{last}");
}

#[test]
fn codex_that_lost_its_conversation_begins_a_new_one() {
    let Some(testbed) = codex_team("a conversation that Codex lost") else { return };
    assert_eq!(testbed.ask("me", "SAY The first answer."), "The first answer.");
    let first = testbed.status("me")["session"]["id"].clone();
    let runs = testbed.world.home().join("runs");
    let run = testbed.status("me")["run"].as_str().unwrap().to_owned();
    std::fs::remove_dir_all(runs.join(run).join("agent-me/codex")).unwrap();
    assert_eq!(testbed.ask("me", "SAY The second answer."), "The second answer.");
    let status = testbed.status("me");
    assert_ne!(status["session"]["id"], first, "{status}");
    assert_eq!((&status["turns"], status["attempts"].as_array().unwrap().len()), (&json!(2), 2));
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(!last.contains("The first answer."), "{last}");
}

#[test]
fn codex_that_is_stopped_reports_the_tokens_of_its_turn() {
    let Some(testbed) = codex_team("the tokens of a stopped Codex") else { return };
    testbed.send("me", "CALL inbox_check {}\nHOLD\nSAY these are a few words");
    testbed.models.wait_held(1);
    let stopped = testbed.world.run(&["stop", "me@team"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert_eq!(testbed.end_of_turn("me").1, json!({"end": "stopped"}));
    let used: Value = usage(&testbed);
    let tokens = json!([used["input_tokens"], used["output_tokens"]]);
    assert_eq!(tokens, json!([100, 10]), "{}", testbed.diagnostics("me"));
    assert_eq!(testbed.other_processes(), []);
}
