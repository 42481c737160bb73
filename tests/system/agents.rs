//! Third-party agents at work: Claude Code, Codex and Gemini CLI as published, against a scripted model; with
//! `REAL_CLIS=all` also opencode, Qwen Code and Copilot.

mod acp;
mod agent_files;
mod approvals;
mod attachments;
mod codex;
mod daemon_kills;
mod failures;
mod isolation;
mod leftovers;
mod secrets;
mod testbed;
mod turns;

use serde_json::{Value, json};

use self::testbed::{AgentEntry, AgentTestbed, Cli, DEFAULT_CLIS};

fn usage(testbed: &AgentTestbed) -> Value {
    testbed.world.list(&["stats", "@team", "--json"])[0]["total"]["usage"].clone()
}

/// Checks that a mentioned agent uses the team's tools under its own name, and that its next turn continues the
/// session.
fn check_team_tools_and_session(cli: Cli) {
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
    // Four answers of 100 input tokens and 10 output tokens.
    let used = |answers: u64| {
        let answers = if cli.reports_tokens() { answers } else { 0 };
        json!([100 * answers, 10 * answers])
    };
    let first = usage(&testbed);
    assert_eq!(json!([first["input_tokens"], first["output_tokens"]]), used(4), "{first}");

    assert_eq!(testbed.ask("me", "SAY The second answer."), "The second answer.");
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("The second answer."), "{last}");
    for earlier in ["I am here", "The first answer."] {
        assert_eq!(last.contains(earlier), cli.continues_session(), "{earlier} in {last}");
    }
    // The description of the team arrives unchanged: the program does not replace names by files.
    assert!(last.contains("the agents it names as @name (or in `to`)"), "{last}");
    let both = usage(&testbed);
    assert_eq!(json!([both["input_tokens"], both["output_tokens"]]), used(5), "{both}");
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
        Cli::AcpGemini | Cli::AcpCopilot | Cli::AcpQwen => {
            assert_eq!((reckoned, first), ([false; 2], None), "it does not say");
        }
    }
    let status = testbed.status("me");
    assert_eq!(status["turns"], 2);
    check_session_command(cli, &status["session"]);
}

/// Checks the command that opens the conversation in the program.
fn check_session_command(cli: Cli, session: &Value) {
    let opens = match cli {
        Cli::Claude => "claude --resume ",
        Cli::Codex => "codex resume ",
        Cli::Gemini => "gemini --resume ",
        Cli::Opencode => "opencode --session ",
        Cli::AcpClaude | Cli::AcpGemini | Cli::AcpCopilot | Cli::AcpQwen => {
            assert_eq!(*session, Value::Null, "no command is known");
            return;
        }
    };
    let command = format!("{opens}{}", session["id"].as_str().unwrap());
    assert!(session["open"].as_str().unwrap().ends_with(&command), "{session}");
}

#[test]
fn claude_code_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    check_team_tools_and_session(Cli::Claude);
}

#[test]
fn codex_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    check_team_tools_and_session(Cli::Codex);
}

#[test]
fn gemini_cli_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    check_team_tools_and_session(Cli::Gemini);
}

#[test]
fn opencode_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    check_team_tools_and_session(Cli::Opencode);
}

/// Returns a script that notes the agent's name and sends the rest to the next agent. Names in the rest are no
/// mentions yet.
fn hand_over(who: &str, next: &str, rest: &str) -> String {
    let note = json!({"content": format!("- {who}\n")});
    let message = json!({"message": rest, "to": [next]});
    format!("CALL document_append {note}\nCALL channel_send {message}\nSAY Done by {who}.")
}

/// Runs a team of three agents and a mock, each of which hands over to the next.
fn check_hand_over(team: [Cli; 3]) {
    let Some(testbed) = AgentTestbed::open(&team, "a team of real agents") else { return };
    let [first, second, third] = team.map(Cli::name);
    let for_third = hand_over(third, "mock", "please close it");
    let for_second = hand_over(second, third, &for_third);
    let for_first = hand_over(first, second, &for_second);
    let entries = team.map(|cli| AgentEntry { name: cli.name(), cli, settings: "" });
    let rest = format!(
        "  mock:\n    backend: mock\n    mock:\n      - calls: [{{ tool: document_append, args: {{ content: \"- mock\\n\" }} }}]\n\
         \x20       say: Closed.\nkickoff: {}\n",
        json!(format!("@{first}\n{for_first}"))
    );
    testbed.write(&entries, &rest);
    let (code, envelope) = testbed.world.envelope(&["run", "team.yaml", "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", testbed.world.log());
    let notes = testbed.world.run(&["doc", "read"]).stdout;
    assert_eq!(notes, format!("- {first}\n- {second}\n- {third}\n- mock\n"), "{envelope}");
    let senders: Vec<_> = testbed.channel_messages().into_iter().map(|(from, _)| from).collect();
    assert_eq!(senders, ["user", first, second, third]);
    for agent in [first, second, third, "mock"] {
        assert_eq!(envelope["agents"][agent]["turns"], 1, "{agent}: {envelope}");
    }
}

#[test]
fn a_team_of_all_of_them_and_a_mock_finishes_a_workflow() {
    check_hand_over(DEFAULT_CLIS);
}
