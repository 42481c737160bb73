//! Turns of real agents: silent tools, background commands, offered tools, efforts and questions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    known_tools::known_tools,
    leftovers::write_all,
    matrix::{Cells, Situation, matrix_tests},
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

/// Checks that a command in the background neither holds the turn nor outlives it, and that a command may be silent for longer
/// than the limit of silence.
fn check_commands(cli: Cli, cells: &mut Cells) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a real agent with a silent command") else {
        return;
    };
    let settings = format!("silence: {}\npermissions: {{ default: allow }}", silence(cli));
    testbed.start(&[AgentEntry { name: "me", cli, settings: &settings }], "");
    let call = cli.command_call("touch begun; sleep 300 & echo");
    assert_eq!(testbed.ask("me", &format!("{call}SAY Done.")), "Done.");
    assert!(testbed.world.project().join("begun").exists(), "{}", testbed.diagnostics("me"));
    assert_eq!(testbed.other_processes(), [], "{}", testbed.diagnostics("me"));
    cells.passed(Situation::Background);

    let call = cli.command_call(&format!("sleep {}; echo bu''ilt", seconds_of_silence(cli)));
    testbed.send("me", &format!("{call}SAY Built."));
    let (state, ended) = testbed.end_of_turn("me");
    let expected = ("idle", &json!({"end": "ok"}));
    assert_eq!((&*state, &ended), expected, "{}", testbed.diagnostics("me"));
    let attempts = testbed.status("me")["attempts"].clone();
    assert_eq!(attempts.as_array().unwrap().len(), 2, "{}", testbed.diagnostics("me"));
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("built"), "the command ran to its end: {last}");
    cells.passed(Situation::SilentTool);
}

/// Returns a limit of silence that is longer than the program takes to start.
fn silence(cli: Cli) -> String {
    format!("{}s", seconds_of_silence(cli) - 3)
}

fn seconds_of_silence(cli: Cli) -> u32 {
    match cli {
        Cli::Opencode | Cli::AcpOpencode | Cli::AcpQwen => 25,
        Cli::Claude
        | Cli::Codex
        | Cli::Gemini
        | Cli::AcpClaude
        | Cli::AcpCodex
        | Cli::AcpZedCodex
        | Cli::AcpGemini
        | Cli::AcpCopilot => 9,
    }
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

matrix_tests! {
    check_commands proves [Background, SilentTool] {
        a_command_of_claude_code_is_awaited_and_does_not_outlive_its_turn: Claude,
        a_command_of_codex_is_awaited_and_does_not_outlive_its_turn: Codex,
        a_command_of_opencode_is_awaited_and_does_not_outlive_its_turn: Opencode,
        a_command_of_claude_code_over_acp_is_awaited_and_does_not_outlive_its_turn: AcpClaude,
        a_command_of_codex_over_acp_is_awaited_and_does_not_outlive_its_turn: AcpCodex,
        a_command_of_zeds_codex_is_awaited_and_does_not_outlive_its_turn: AcpZedCodex,
        a_command_of_gemini_cli_over_acp_is_awaited_and_does_not_outlive_its_turn: AcpGemini,
        a_command_of_opencode_over_acp_is_awaited_and_does_not_outlive_its_turn: AcpOpencode,
        a_command_of_qwen_code_is_awaited_and_does_not_outlive_its_turn: AcpQwen,
        a_command_of_copilot_is_awaited_and_does_not_outlive_its_turn: AcpCopilot,
    }
    check_offered_tools proves [KnownTools] {
        the_model_of_claude_code_is_offered_known_tools: Claude,
        the_model_of_codex_is_offered_known_tools: Codex,
        the_model_of_gemini_cli_is_offered_known_tools: Gemini,
        the_model_of_opencode_is_offered_known_tools: Opencode,
        the_model_of_claude_code_over_acp_is_offered_known_tools: AcpClaude,
        the_model_of_codex_over_acp_is_offered_known_tools: AcpCodex,
        the_model_of_zeds_codex_is_offered_known_tools: AcpZedCodex,
        the_model_of_gemini_cli_over_acp_is_offered_known_tools: AcpGemini,
        the_model_of_opencode_over_acp_is_offered_known_tools: AcpOpencode,
        the_model_of_qwen_code_is_offered_known_tools: AcpQwen,
        the_model_of_copilot_is_offered_known_tools: AcpCopilot,
    }
    check_effort proves [Effort] {
        an_effort_reaches_the_model_of_claude_code: Claude,
        an_effort_reaches_the_model_of_codex: Codex,
        an_effort_reaches_the_model_of_gemini_cli: Gemini,
    }
}

/// Checks that the model is offered the team's tools and the known tools of its program, for the tested version.
fn check_offered_tools(cli: Cli, cells: &mut Cells) {
    let modes: &[&str] = if cli == Cli::Claude { &["isolated", "login"] } else { &["isolated"] };
    for mode in modes {
        let Some(testbed) = AgentTestbed::open(&[cli], "the tools of a real agent") else {
            return;
        };
        let settings = format!("mode: {mode}");
        testbed.start(&[AgentEntry { name: "me", cli, settings: &settings }], "");
        testbed.send("me", "SAY Done.");
        testbed.end_of_turn("me");
        let mut offered = offered_tools(&testbed);
        let prefixes = ["mcp__team", "mcp_team", "team_", "team-"];
        offered.retain(|tool| !prefixes.iter().any(|it| tool.starts_with(it)));
        let own = known_tools(cli).iter().map(|&tool| tool.to_owned()).collect();
        assert_eq!(offered, own, "{cli:?} {mode}: {}", testbed.diagnostics("me"));
    }
    cells.passed(Situation::KnownTools);
}

/// Checks that an effort reaches the model as its provider spells it.
fn check_effort(cli: Cli, cells: &mut Cells) {
    let (path, expected) = match cli {
        Cli::Claude => ("/output_config/effort", json!("high")),
        Cli::Gemini => ("/generationConfig/thinkingConfig/thinkingBudget", json!(24_576)),
        _ => ("/reasoning/effort", json!("high")),
    };
    let Some(testbed) = AgentTestbed::open(&[cli], "an effort of a real agent") else { return };
    testbed.start(&[AgentEntry { name: "me", cli, settings: "effort: high" }], "");
    assert_eq!(testbed.ask("me", "SAY Done."), "Done.");
    let request = testbed.models.requests().pop().unwrap().body;
    assert_eq!(request.pointer(path), Some(&expected), "{cli:?}: {request}");
    cells.passed(Situation::Effort);
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
