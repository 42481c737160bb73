//! Turns of real agents: silent tools, background commands, offered tools, and a team that changes between two turns.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    leftovers::write_all,
    testbed::{AgentEntry, AgentTestbed, Cli},
};

/// Returns the names of the tools that the last request with tools offered.
fn offered_tools(testbed: &AgentTestbed) -> BTreeSet<String> {
    let with_tools = |one: crate::model_server::ModelRequest| {
        let tools = one.body["tools"].as_array()?.clone();
        let name = |tool: &Value| {
            let name = tool["name"].as_str().or(tool["function"]["name"].as_str());
            name.map(str::to_owned).into_iter().collect::<Vec<_>>()
        };
        let nested = |tool: &Value| {
            let inner = tool["functionDeclarations"].as_array().cloned().unwrap_or_default();
            inner.iter().flat_map(name).collect::<Vec<_>>()
        };
        let names: BTreeSet<String> =
            tools.iter().flat_map(|tool| name(tool).into_iter().chain(nested(tool))).collect();
        (!names.is_empty()).then_some(names)
    };
    testbed.models.requests().into_iter().rev().find_map(with_tools).unwrap_or_default()
}

/// Checks that a tool may be silent for longer than the limit of silence.
fn check_silent_tool(cli: Cli, call: &str) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a real agent with a silent tool") else {
        return;
    };
    testbed.start(&[AgentEntry { name: "me", cli, settings: "silence: 6s" }], "");
    testbed.send("me", &format!("CALL {call}\nSAY Built."));
    let (state, ended) = testbed.end_of_turn("me");
    let expected = ("idle", &json!({"end": "ok"}));
    assert_eq!((&*state, &ended), expected, "{}", testbed.diagnostics("me"));
    let attempts = testbed.status("me")["attempts"].clone();
    assert_eq!(attempts.as_array().unwrap().len(), 1, "{}", testbed.diagnostics("me"));
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("built"), "the command ran to its end: {last}");
}

#[test]
fn a_silent_command_of_claude_code_is_not_a_silent_agent() {
    check_silent_tool(Cli::Claude, r#"Bash {"command":"sleep 9; echo bu''ilt"}"#);
}

#[test]
fn a_silent_command_of_codex_is_not_a_silent_agent() {
    let call = r#"exec_command {"cmd":"sleep 9; echo bu''ilt","yield_time_ms":30000}"#;
    check_silent_tool(Cli::Codex, call);
}

#[test]
fn claude_code_starts_no_command_in_the_background() {
    let Some(testbed) = AgentTestbed::open(&[Cli::Claude], "a command in the background") else {
        return;
    };
    let settings = "permissions: { default: allow }";
    testbed.start(&[AgentEntry { name: "me", cli: Cli::Claude, settings }], "");
    let call = r#"Bash {"command":"sleep 300","run_in_background":true}"#;
    assert_eq!(testbed.ask("me", &format!("CALL {call}\nSAY Done.")), "Done.");
    assert_eq!(testbed.other_processes(), [], "{}", testbed.diagnostics("me"));
}

/// The tools of each program that the model is offered beside the team's, for the tested version. A new tool fails this test,
/// so that a person decides whether it reaches anything past the daemon.
const OWN_TOOLS: [(Cli, &[&str], &[&str]); 3] = [
    (
        Cli::Claude,
        &["isolated", "login"],
        &[
            "Agent",
            // Becomes `ask_human`.
            "AskUserQuestion",
            "Bash",
            "Edit",
            "NotebookEdit",
            "Read",
            "ReportFindings",
            "Skill",
            "WebFetch",
            "WebSearch",
            "Write",
        ],
    ),
    (
        Cli::Codex,
        // In the other mode it waits for a login.
        &["isolated"],
        &[
            "create_goal",
            "exec_command",
            "get_goal",
            "list_mcp_resource_templates",
            "list_mcp_resources",
            // Agents of its own, inside its process.
            "multi_agent_v1",
            "read_mcp_resource",
            "update_goal",
            "view_image",
            "write_stdin",
        ],
    ),
    (
        Cli::Gemini,
        &["isolated"],
        &[
            "glob",
            "google_web_search",
            "grep_search",
            // Agents of its own, inside its process.
            "invoke_agent",
            "list_directory",
            "read_file",
            "update_topic",
        ],
    ),
];

#[test]
fn a_model_is_offered_the_teams_tools_and_known_tools_of_its_program() {
    for (cli, modes, own) in OWN_TOOLS {
        for mode in modes {
            let Some(testbed) = AgentTestbed::open(&[cli], "the tools of a real agent") else {
                return;
            };
            let settings = format!("mode: {mode}");
            testbed.start(&[AgentEntry { name: "me", cli, settings: &settings }], "");
            testbed.send("me", "SAY Done.");
            testbed.end_of_turn("me");
            let mut offered = offered_tools(&testbed);
            offered.retain(|tool| !["mcp__team", "mcp_team"].iter().any(|it| tool.starts_with(it)));
            let own = own.iter().map(|&tool| tool.to_owned()).collect();
            assert_eq!(offered, own, "{cli:?} {mode}: {}", testbed.diagnostics("me"));
        }
    }
}

/// Returns the last request of a turn whose agent has these settings.
fn request_with(cli: Cli, settings: &str, untried: &str) -> Option<Value> {
    let testbed = AgentTestbed::open(&[cli], untried)?;
    testbed.start(&[AgentEntry { name: "me", cli, settings }], "");
    assert_eq!(testbed.ask("me", "SAY Done."), "Done.");
    Some(testbed.models.requests().pop().unwrap().body)
}

#[test]
fn an_effort_reaches_the_model_as_its_provider_spells_it() {
    for (cli, path, expected) in [
        (Cli::Claude, "/output_config/effort", json!("high")),
        (Cli::Codex, "/reasoning/effort", json!("high")),
        (Cli::Gemini, "/generationConfig/thinkingConfig/thinkingBudget", json!(24_576)),
    ] {
        let settings = "effort: high";
        let Some(request) = request_with(cli, settings, "an effort of a real agent") else {
            return;
        };
        assert_eq!(request.pointer(path), Some(&expected), "{cli:?}: {request}");
    }
}

#[test]
fn claude_code_is_offered_the_skills_and_commands_of_the_project() {
    let Some(testbed) = AgentTestbed::open(&[Cli::Claude], "the skills of a project") else {
        return;
    };
    let skill = "---\nname: sharpen\ndescription: Sharpens the saw.\n---\nUse a file.\n";
    let command = "---\ndescription: Plants a tree.\n---\nPlant it.\n";
    let project = testbed.world.project();
    write_all(
        &project,
        &[(".claude/skills/sharpen/SKILL.md", skill), (".claude/commands/plant.md", command)],
    );
    write_all(&project, &[("me", "the content of a file"), ("notes.md", "the content of a file")]);
    testbed.start(&[AgentEntry { name: "me", cli: Cli::Claude, settings: "" }], "");
    let sent = testbed.world.run(&["send", "@team", "@me see @notes.md\nSAY Done."]);
    assert_eq!(sent.code, 0, "{sent:?}");
    assert_eq!(testbed.end_of_turn("me").0, "idle", "{}", testbed.diagnostics("me"));
    let request = testbed.models.requests().pop().unwrap().body.to_string();
    for offered in ["Sharpens the saw.", "Plants a tree."] {
        assert!(request.contains(offered), "{offered} is not in {request}");
    }
    // A mention inserts no file, and the model is not told that the agent's name is one.
    assert!(!request.contains("the content of a file"), "{request}");
    assert!(!request.contains("@-mentioned me"), "{request}");
}

#[test]
fn a_question_of_claude_code_to_its_user_is_answered_by_a_person_and_is_no_approval() {
    let Some(testbed) = AgentTestbed::open(&[Cli::Claude], "a question of Claude Code") else {
        return;
    };
    testbed.start(&[AgentEntry { name: "me", cli: Cli::Claude, settings: "" }], "");
    let question = json!({"questions": [{"question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]}]});
    let asked = testbed.ask("me", &format!("CALL AskUserQuestion {question}\nECHO"));
    assert!(asked.contains("passed on to a person"), "{asked}");
    assert_eq!(testbed.world.list(&["pending", "@team", "--json"]), json!([]));
    let questions = testbed.world.list(&["answer", "--target", "@team", "--json"]);
    let text = "Which colour?\none of:\n- Red: warm\n- Blue: cold";
    assert_eq!((&questions[0]["agent"], &questions[0]["question"]), (&json!("me"), &json!(text)));
    let answered = testbed.world.run(&["answer", "1", "SAY Green it is.", "--target", "@team"]);
    assert_eq!(answered.code, 0, "{answered:?}");
    crate::world::wait_for("the turn that the answer woke", || {
        let last = testbed.models.requests().pop()?.body.to_string();
        last.contains("Green it is").then_some(())
    });
}

/// Checks that an agent learns in its second turn about an agent that joined after its first.
fn check_late_joiner(cli: Cli) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a team that grows") else { return };
    testbed.start(&[AgentEntry { name: "me", cli, settings: "" }], "");
    assert_eq!(testbed.ask("me", "SAY One."), "One.");
    let joined = testbed.world.run(&["new", "latecomer", "-b", "mock", "--instance", "team"]);
    assert_eq!(joined.code, 0, "{joined:?}");
    assert_eq!(testbed.ask("me", "SAY Two."), "Two.");
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("latecomer"), "{last}");
}

#[test]
fn claude_code_knows_an_agent_that_joined_after_its_first_turn() {
    check_late_joiner(Cli::Claude);
}

#[test]
fn codex_knows_an_agent_that_joined_after_its_first_turn() {
    check_late_joiner(Cli::Codex);
}

#[test]
fn gemini_cli_knows_an_agent_that_joined_after_its_first_turn() {
    check_late_joiner(Cli::Gemini);
}

#[test]
fn claude_code_over_acp_knows_an_agent_that_joined_after_its_first_turn() {
    check_late_joiner(Cli::AcpClaude);
}

/// Sends a message for now while a command of the agent runs, then ends the command. Returns the output of `send`.
fn send_now_during_command(testbed: &AgentTestbed, call: &str) -> String {
    testbed.send("me", &format!("CALL {call}\nSAY One."));
    crate::world::wait_for("its command", || {
        testbed
            .other_processes()
            .iter()
            .any(|(_, line)| line.contains("test -e gate"))
            .then_some(())
    });
    let said = testbed.world.run(&["send", "me@team", "please hurry", "--now"]);
    assert_eq!(said.code, 0, "{said:?}");
    testbed.world.file("gate", "");
    said.stdout
}

/// Checks that a message joins the running turn: its model gets it with the result of the command.
fn check_joined_message(cli: Cli, call: &str) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a message for now to a real agent") else {
        return;
    };
    testbed
        .start(&[AgentEntry { name: "me", cli, settings: "permissions: { default: allow }" }], "");
    let said = send_now_during_command(&testbed, call);
    assert!(said.contains("its running turn gets this message"), "{said}");
    let (state, ended) = testbed.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", testbed.diagnostics("me"));
    let attempts = testbed.status("me")["attempts"].clone();
    assert_eq!(attempts.as_array().unwrap().len(), 1, "{}", testbed.diagnostics("me"));
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("from=user>\\nplease hurry"), "{last}");
    let receipts = testbed.world.list(&["receipts", "2", "--target", "@team", "--json"]);
    assert_eq!(receipts[0]["state"], "acted", "{receipts}");
}

/// A command that runs until the file `gate` exists.
const GATED_COMMAND: &str = "until test -e gate; do sleep 0.1; done";

#[test]
fn a_message_for_now_joins_the_turn_of_claude_code() {
    let call = json!({"command": GATED_COMMAND});
    check_joined_message(Cli::Claude, &format!("Bash {call}"));
}

#[test]
fn a_message_for_now_joins_the_turn_of_codex() {
    let call = json!({"cmd": GATED_COMMAND, "yield_time_ms": 30_000});
    check_joined_message(Cli::Codex, &format!("exec_command {call}"));
}

#[test]
fn a_message_for_now_interrupts_gemini_cli_and_its_next_turn_has_both_messages() {
    let Some(testbed) = AgentTestbed::open(&[Cli::Gemini], "a message for now to Gemini CLI")
    else {
        return;
    };
    testbed.start(&[AgentEntry { name: "me", cli: Cli::Gemini, settings: "" }], "");
    testbed.send("me", "HOLD\nSAY One.");
    testbed.models.wait_held(1);
    let said = testbed.world.run(&["send", "me@team", "please hurry", "--now"]);
    assert!(said.stdout.contains("interrupted the turn"), "{said:?}");
    testbed.models.wait_held(2);
    testbed.models.release_held();
    let (state, ended) = testbed.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", testbed.diagnostics("me"));
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("SAY One.") && last.contains("please hurry"), "{last}");
    assert_eq!(testbed.status("me")["attempts"][1]["ended"]["why"], "by user");
}
