//! Agents that nobody here wrote, at work: Claude Code, Codex and Gemini CLI as they are published, against a scripted model;
//! with `REAL_CLIS=all` opencode, Qwen Code and Copilot too.

mod acp;
mod approving;
mod failing;
mod killed;
mod left;
mod office;
mod secrets;

use serde_json::{Value, json};

use self::office::{Cli, Desk, EVERY, Office};

fn usage(office: &Office) -> Value {
    office.world.json(&["stats", "@team", "--json"])[0]["total"]["usage"].clone()
}

/// Woken by a mention, it uses the team's tools as itself; its next turn goes on where this one ended.
fn works(cli: Cli) {
    let Some(office) = Office::open(&[cli], "a real agent that uses the team's tools") else {
        return;
    };
    office.start(&[Desk { name: "me", cli, besides: "" }], "");
    let program = "@me\nCALL inbox_check {}\n\
        CALL channel_send {\"message\":\"I am here\"}\n\
        CALL document_append {\"content\":\"- a line\\n\"}\n\
        SAY The first answer.";
    let sent = office.world.run(&["send", "@team", program]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let (state, ended) = office.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", office.story("me"));
    let spoken =
        [("user".to_owned(), program.to_owned()), ("me".to_owned(), "I am here".to_owned())];
    assert_eq!(office.said(), spoken, "{}", office.story("me"));
    let notes = office.world.json(&["doc", "history", "--json"]);
    assert_eq!(
        (notes.as_array().unwrap().len(), &notes[0]["author"]),
        (1, &json!("me")),
        "{notes}"
    );
    assert_eq!(office.world.run(&["doc", "read"]).stdout, "- a line\n");
    // Four answers of 100 tokens in and 10 out.
    let used = |answers: u64| {
        let answers = if cli.counts() { answers } else { 0 };
        json!([100 * answers, 10 * answers])
    };
    let first = usage(&office);
    assert_eq!(json!([first["input_tokens"], first["output_tokens"]]), used(4), "{first}");

    assert_eq!(office.ask("me", "SAY The second answer."), "The second answer.");
    let last = office.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("The second answer."), "{last}");
    for earlier in ["I am here", "The first answer."] {
        assert_eq!(last.contains(earlier), cli.remembers(), "{earlier} in {last}");
    }
    // What it is told about the team arrives as it is: names are no files.
    assert!(last.contains("the agents it names as @name (or in `to`)"), "{last}");
    let both = usage(&office);
    assert_eq!(json!([both["input_tokens"], both["output_tokens"]]), used(5), "{both}");
    let reckoned = [&first, &both].map(|usage| usage["cost_reckoned"] == true);
    let [first, both] = [first, both].map(|usage| usage["cost_micros"].as_u64());
    assert_eq!(first.map(|micros| micros / 4 * 5), both, "each answer costs the same");
    match cli {
        Cli::Claude | Cli::AcpClaude => assert_eq!((reckoned, first.is_some()), ([false; 2], true)),
        // At $1.25 and $10 for a million.
        Cli::Codex => assert_eq!((reckoned, first), ([true; 2], Some(900))),
        // At $0.30 and $2.50.
        Cli::Gemini => assert_eq!((reckoned, first), ([true; 2], Some(220))),
        Cli::Opencode => assert_eq!((reckoned, first), ([false; 2], None), "it knows no price"),
        Cli::AcpGemini | Cli::AcpCopilot | Cli::AcpQwen => {
            assert_eq!((reckoned, first), ([false; 2], None), "it does not say");
        }
    }
    assert_eq!(office.status("me")["turns"], 2);
}

#[test]
fn claude_code_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    works(Cli::Claude);
}

#[test]
fn codex_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    works(Cli::Codex);
}

#[test]
fn gemini_cli_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    works(Cli::Gemini);
}

#[test]
fn opencode_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    works(Cli::Opencode);
}

/// A program that notes who was there and hands over to the next with the rest. Names in the rest mean nobody yet.
fn hand_over(who: &str, next: &str, rest: &str) -> String {
    let note = json!({"content": format!("- {who}\n")});
    let message = json!({"message": rest, "to": [next]});
    format!("CALL document_append {note}\nCALL channel_send {message}\nSAY Done by {who}.")
}

/// A team of three and a mock, each handing over to the next.
fn finishes(team: [Cli; 3]) {
    let Some(office) = Office::open(&team, "a team of real agents") else { return };
    let [first, second, third] = team.map(Cli::name);
    let for_third = hand_over(third, "mock", "please close it");
    let for_second = hand_over(second, third, &for_third);
    let for_first = hand_over(first, second, &for_second);
    let desks = team.map(|cli| Desk { name: cli.name(), cli, besides: "" });
    let rest = format!(
        "  mock:\n    backend: mock\n    mock:\n      - calls: [{{ tool: document_append, args: {{ content: \"- mock\\n\" }} }}]\n\
         \x20       say: Closed.\nkickoff: {}\n",
        json!(format!("@{first}\n{for_first}"))
    );
    office.write(&desks, &rest);
    let (code, envelope) = office.world.envelope(&["run", "team.yaml", "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", office.world.log());
    let notes = office.world.run(&["doc", "read"]).stdout;
    assert_eq!(notes, format!("- {first}\n- {second}\n- {third}\n- mock\n"), "{envelope}");
    let senders: Vec<_> = office.said().into_iter().map(|(from, _)| from).collect();
    assert_eq!(senders, ["user", first, second, third]);
    for agent in [first, second, third, "mock"] {
        assert_eq!(envelope["agents"][agent]["turns"], 1, "{agent}: {envelope}");
    }
}

#[test]
fn a_team_of_all_of_them_and_a_mock_finishes_a_workflow() {
    finishes(EVERY);
}
