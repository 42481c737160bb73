//! Third-party agents at work: Claude Code, Codex and Gemini CLI as published, against a scripted model; with
//! `REAL_CLIS=all` also opencode, Qwen Code and Copilot.

mod acp;
mod agent_files;
mod approvals;
mod attachments;
mod bug_fix;
mod codex;
mod conversations;
mod daemon_kills;
mod failures;
mod first_files;
mod isolation;
mod known_tools;
mod leftovers;
mod live_rows;
mod matrix;
mod messages_for_now;
mod mixed_team;
mod output_schemas;
mod sandbox;
mod secrets;
mod testbed;
mod turns;

use serde_json::{Value, json};

use self::{
    matrix::{Cells, DeclaredCells, Situation, matrix_tests},
    testbed::{AgentEntry, AgentTestbed, Cli},
};

/// The cells of the matrix that tests prove.
const DECLARED_CELLS: &[&[DeclaredCells]] = &[
    DECLARED,
    acp::DECLARED,
    approvals::DECLARED,
    approvals::codex::DECLARED,
    attachments::DECLARED,
    conversations::DECLARED,
    daemon_kills::DECLARED,
    failures::DECLARED,
    isolation::DECLARED,
    leftovers::DECLARED,
    secrets::DECLARED,
    turns::DECLARED,
];

fn usage(testbed: &AgentTestbed) -> Value {
    testbed.world.list(&["stats", "@team", "--json"])[0]["total"]["usage"].clone()
}

/// Checks that a mentioned agent uses the team's tools under its own name, and that its next turn continues the
/// session.
fn check_team_tools_and_session(cli: Cli, cells: &mut Cells) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a real agent that uses the team's tools")
    else {
        return;
    };
    testbed.start(&[AgentEntry { name: "me", cli, settings: "" }], "");
    let program = "@me\nCALL inbox_check {}\n\
        CALL channel_send {\"message\":\"I am here\"}\n\
        CALL document_append {\"content\":\"- a line\\n\"}\n\
        SAY The first answer.";
    let sent = testbed.world.run(&["send", "@team", program]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let (state, ended) = testbed.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", testbed.diagnostics("me"));
    let spoken =
        [("user".to_owned(), program.to_owned()), ("me".to_owned(), "I am here".to_owned())];
    assert_eq!(testbed.channel_messages(), spoken, "{}", testbed.diagnostics("me"));
    let notes = testbed.world.list(&["doc", "history", "--json"]);
    assert_eq!(
        (notes.as_array().unwrap().len(), &notes[0]["author"]),
        (1, &json!("me")),
        "{notes}"
    );
    assert_eq!(testbed.world.run(&["doc", "read"]).stdout, "- a line\n");
    cells.passed(Situation::TeamTools);
    // Four answers of 100 input tokens and 10 output tokens.
    let used = |answers: u64| {
        let answers = if cli.reports_tokens() { answers } else { 0 };
        json!([100 * answers, 10 * answers])
    };
    let first = usage(&testbed);
    assert_eq!(json!([first["input_tokens"], first["output_tokens"]]), used(4), "{first}");

    assert_eq!(testbed.ask("me", "SAY The second answer."), "The second answer.");
    cells.passed(Situation::FinalAnswer);
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("The second answer."), "{last}");
    for earlier in ["I am here", "The first answer."] {
        assert_eq!(last.contains(earlier), cli.continues_session(), "{earlier} in {last}");
    }
    // The description of the team arrives unchanged: the program does not replace names by files.
    assert!(last.contains("the agents it names as @name (or in `to`)"), "{last}");
    cells.passed(Situation::SecondTurn);
    let both = usage(&testbed);
    assert_eq!(json!([both["input_tokens"], both["output_tokens"]]), used(5), "{both}");
    cells.passed(Situation::Tokens);
    let reckoned = [&first, &both].map(|usage| usage["cost_reckoned"] == true);
    let [first, both] = [first, both].map(|usage| usage["cost_micros"].as_u64());
    assert_eq!(first.map(|micros| micros / 4 * 5), both, "each answer costs the same");
    match cli {
        Cli::Claude | Cli::AcpClaude => assert_eq!((reckoned, first.is_some()), ([false; 2], true)),
        // At $1.25 and $10 per million tokens.
        Cli::Codex => assert_eq!((reckoned, first), ([true; 2], Some(900))),
        // At $0.30 and $2.50 per million tokens.
        Cli::Gemini => assert_eq!((reckoned, first), ([true; 2], Some(220))),
        Cli::Opencode => assert_eq!((reckoned, first), ([false; 2], None), "it knows no price"),
        // At the $1.25 and $10 per million tokens of the person's settings.
        Cli::AcpOpencode => assert_eq!((reckoned, first), ([false; 2], Some(900))),
        Cli::AcpGemini | Cli::AcpCodex | Cli::AcpZedCodex | Cli::AcpCopilot | Cli::AcpQwen => {
            assert_eq!((reckoned, first), ([false; 2], None), "it does not say");
        }
    }
    cells.passed(Situation::Cost);
    let status = testbed.status("me");
    assert_eq!(status["turns"], 2);
    check_session_command(cli, &status["session"]);
    cells.passed(Situation::SessionShown);
}

/// Checks the command that opens the conversation in the program.
fn check_session_command(cli: Cli, session: &Value) {
    let opens = match cli {
        Cli::Claude => "claude --resume ",
        Cli::Codex => "codex resume ",
        Cli::Gemini => "gemini --resume ",
        Cli::Opencode => "opencode --session ",
        Cli::AcpClaude
        | Cli::AcpCodex
        | Cli::AcpZedCodex
        | Cli::AcpGemini
        | Cli::AcpOpencode
        | Cli::AcpQwen
        | Cli::AcpCopilot => {
            assert_eq!(*session, Value::Null, "no command is known");
            return;
        }
    };
    let command = format!("{opens}{}", session["id"].as_str().unwrap());
    assert!(session["open"].as_str().unwrap().ends_with(&command), "{session}");
}

matrix_tests! {
    check_team_tools_and_session proves [TeamTools, FinalAnswer, SecondTurn, Tokens, Cost, SessionShown] {
        claude_code_works_with_the_team_as_itself_and_goes_on_in_its_next_turn: Claude,
        codex_works_with_the_team_as_itself_and_goes_on_in_its_next_turn: Codex,
        gemini_cli_works_with_the_team_as_itself_and_goes_on_in_its_next_turn: Gemini,
        opencode_works_with_the_team_as_itself_and_goes_on_in_its_next_turn: Opencode,
        claude_code_over_acp_works_with_the_team_as_itself_and_goes_on_in_its_next_turn: AcpClaude,
        codex_over_acp_works_with_the_team_as_itself_and_goes_on_in_its_next_turn: AcpCodex,
        zeds_codex_works_with_the_team_as_itself_and_goes_on_in_its_next_turn: AcpZedCodex,
        gemini_cli_over_acp_works_with_the_team_as_itself: AcpGemini,
        opencode_over_acp_works_with_the_team_as_itself_and_goes_on_in_its_next_turn: AcpOpencode,
        qwen_code_over_acp_works_with_the_team_as_itself_and_goes_on_in_its_next_turn: AcpQwen,
        copilot_over_acp_works_with_the_team_as_itself_and_goes_on_in_its_next_turn: AcpCopilot,
    }
    check_hand_over proves [HandOver] {
        a_team_of_all_of_them_and_a_mock_finishes_a_workflow: [Claude, Codex, Gemini],
        a_team_of_which_two_speak_acp_finishes_a_workflow: [AcpClaude, Codex, AcpGemini],
        a_team_with_opencode_finishes_a_workflow: [Opencode, AcpOpencode],
        a_team_of_codex_over_acp_and_zeds_codex_finishes_a_workflow: [AcpCodex, AcpZedCodex],
        a_team_of_qwen_code_and_copilot_finishes_a_workflow: [AcpQwen, AcpCopilot],
    }
}

/// Returns a script that notes the agent's name and sends the rest to the next agent. Names in the rest are no
/// mentions yet.
fn hand_over(who: &str, next: &str, rest: &str) -> String {
    let note = json!({"content": format!("- {who}\n")});
    let message = json!({"message": rest, "to": [next]});
    format!("CALL document_append {note}\nCALL channel_send {message}\nSAY Done by {who}.")
}

/// Runs a team of agents and a mock, each of which hands over to the next.
fn check_hand_over<const SIZE: usize>(team: [Cli; SIZE], cells: &mut Cells) {
    let Some(testbed) = AgentTestbed::open(&team, "a team of real agents") else { return };
    let names = team.map(Cli::name);
    let mut program = "please close it".to_owned();
    let mut next = "mock";
    for name in names.iter().rev() {
        program = hand_over(name, next, &program);
        next = name;
    }
    let entries = team.map(|cli| AgentEntry { name: cli.name(), cli, settings: "" });
    let rest = format!(
        "  mock:\n    backend: mock\n    mock:\n      - calls: [{{ tool: document_append, args: {{ content: \"- mock\\n\" }} }}]\n\
         \x20       say: Closed.\nkickoff: {}\n",
        json!(format!("@{next}\n{program}"))
    );
    testbed.write(&entries, &rest);
    let (code, envelope) = testbed.world.envelope(&["run", "team.yaml", "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", testbed.world.log());
    let lines = names.map(|name| format!("- {name}\n")).concat();
    let notes = testbed.world.run(&["doc", "read"]).stdout;
    assert_eq!(notes, lines + "- mock\n", "{envelope}");
    let senders: Vec<_> = testbed.channel_messages().into_iter().map(|(from, _)| from).collect();
    assert_eq!(senders, [&["user"], &names[..]].concat());
    for agent in names.into_iter().chain(["mock"]) {
        assert_eq!(envelope["agents"][agent]["turns"], 1, "{agent}: {envelope}");
    }
    cells.passed(Situation::HandOver);
}
