//! Agents of a team that use agent files of Claude Code and Codex: the real programs get the prompt, the tools and the
//! model of the file.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use super::testbed::{AgentTestbed, Cli};

const REVIEWER: &str = "---\nname: reviewer\ndescription: Use it when: a diff is ready\n\
    tools: Read, Bash(echo one:*), mcp__team__channel_send\nmodel: haiku\nhooks: {}\n---\n\n\
    You are the reviewer of the canary file.\n";
const FIXER: &str = "name = \"fixer\"\ndescription = \"fixes\"\nmodel = \"gpt-5.1-codex\"\n\
    model_reasoning_effort = \"high\"\nsandbox_mode = \"read-only\"\n\
    developer_instructions = \"You are the fixer of the canary file.\"\n";

/// Starts a team of one agent, `me`, that uses this agent file.
fn start(testbed: &AgentTestbed, cli: Cli, (path, text): (&str, &str)) {
    let folder = testbed.world.project().join(path);
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    testbed.world.file(path, text);
    let command = json!(cli.command().unwrap());
    let team = format!("name: team\nagents:\n  me: {{ use: {path}, command: {command} }}\n");
    testbed.world.file("team.yaml", &team);
    let started = testbed.world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
}

/// Returns the bodies of the requests of the agent's own conversation, which offer tools.
fn conversation(testbed: &AgentTestbed) -> Vec<Value> {
    let bodies = testbed.models.requests().into_iter().map(|one| one.body);
    bodies.filter(|body| body["tools"].as_array().is_some_and(|it| !it.is_empty())).collect()
}

#[test]
fn claude_code_works_as_its_own_agent_file_says() {
    let Some(testbed) = AgentTestbed::open(&[Cli::Claude], "an agent file of Claude Code") else {
        return;
    };
    start(&testbed, Cli::Claude, (".claude/agents/reviewer.md", REVIEWER));
    let calls = "CALL Bash {\"command\":\"echo one canary result\"}\n\
        CALL Bash {\"command\":\"touch two\"}\n\
        CALL channel_send {\"message\":\"I am here\"}\nSAY Done.";
    assert_eq!(testbed.ask("me", calls), "Done.", "{}", testbed.diagnostics("me"));
    let requests = conversation(&testbed);
    let (first, last) = (&requests[0], requests.last().unwrap().to_string());
    assert!(first["model"].as_str().unwrap().contains("haiku"), "{first}");
    let system = first["system"].to_string();
    assert!(system.contains("You are the reviewer of the canary file."), "{system}");
    assert!(!system.contains("a diff is ready"), "the front matter is no prompt: {system}");
    let names = first["tools"].as_array().unwrap().iter();
    let mut offered: BTreeSet<_> = names.map(|tool| tool["name"].as_str().unwrap()).collect();
    offered.retain(|tool| !tool.starts_with("mcp__team__"));
    assert_eq!(offered, BTreeSet::from(["Bash", "Read"]));
    assert!(last.contains("one canary result"), "an allowed command runs: {last}");
    assert!(!testbed.world.project().join("two").exists(), "another command does not: {last}");
    assert_eq!(testbed.channel_messages().len(), 2, "the tools of the team are always there");
    let other =
        testbed.ask("me", "CALL Write {\"file_path\":\"two\",\"content\":\"x\"}\nSAY Done.");
    assert!(other.starts_with("there is no tool Write among"), "{other}");
    // The run has a copy of the file.
    testbed.world.file(".claude/agents/reviewer.md", "---\nmodel: opus\n---\nYou changed.\n");
    assert_eq!(testbed.ask("me", "SAY Again."), "Again.");
    let again = conversation(&testbed).pop().unwrap();
    let system = again["system"].to_string();
    assert!(system.contains("the canary file") && !system.contains("You changed"), "{system}");
    assert!(again["model"].as_str().unwrap().contains("haiku"), "{again}");
}

#[test]
fn codex_works_as_its_own_agent_file_says() {
    let Some(testbed) = AgentTestbed::open(&[Cli::Codex], "an agent file of Codex") else {
        return;
    };
    start(&testbed, Cli::Codex, (".codex/agents/fixer.toml", FIXER));
    let calls = "CALL exec_command {\"cmd\":\"echo read-only canary; touch two\"}\nSAY Done.";
    assert_eq!(testbed.ask("me", calls), "Done.", "{}", testbed.diagnostics("me"));
    let requests = conversation(&testbed);
    let (first, last) = (&requests[0], requests.last().unwrap().to_string());
    assert_eq!(first["model"], "gpt-5.1-codex", "{first}");
    assert_eq!(first["reasoning"]["effort"], "high", "{first}");
    assert!(first.to_string().contains("You are the fixer of the canary file."), "{first}");
    assert!(last.contains("read-only canary"), "the command was tried: {last}");
    assert!(!testbed.world.project().join("two").exists(), "it may only read: {last}");
}
