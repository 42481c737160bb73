//! A team of four real programs: reviews a diff, writes a document, asks for an approval, votes, and survives two kills of its
//! daemon.

use std::{fs, thread};

use serde_json::{Value, json};

use super::{
    testbed::{AgentEntry, AgentTestbed, Cli},
    usage,
};
use crate::{
    wire::http::Ask,
    world::{kill, wait_for},
};

const TEAM: [Cli; 4] = [Cli::Claude, Cli::Codex, Cli::Gemini, Cli::Opencode];

/// Returns the lines of a script: a note in the team's document, and the rest of the work for the next agent.
fn note_and_pass_on(who: Cli, next: Cli, rest: &str) -> String {
    let note = json!({"content": format!("- {}\n", who.name())});
    let message = json!({"message": rest, "to": [next.name()]});
    format!("CALL document_append {note}\nCALL channel_send {message}\nSAY Passed on.")
}

/// Returns the script of the first agent, which contains those of the others.
fn script() -> String {
    let vote = r#"CALL vote {"proposal":1,"choice":"approve"}"#;
    let proposal = json!({"title": "Merge it?", "description": format!("{vote}\nSAY Voted."), "rule": "unanimous"});
    let opencode = format!(
        "CALL document_append {}\nCALL proposal_create {proposal}\n{vote}\nSAY Asked for votes.",
        json!({"content": "- opencode\n"})
    );
    let gemini = format!("HOLD\n{}", note_and_pass_on(Cli::Gemini, Cli::Opencode, &opencode));
    let command = json!({"cmd": "echo once >> ran.txt"});
    let codex = note_and_pass_on(Cli::Codex, Cli::Gemini, &gemini);
    let codex = format!("CALL exec_command {command}\n{codex}");
    format!("HOLD\n{}", note_and_pass_on(Cli::Claude, Cli::Codex, &codex))
}

/// Runs a command that follows the run to its end or pause, while the daemon is killed in the middle of the next held answer. The
/// command starts the next daemon. Returns the exit code and the envelope.
fn follow_over_kill(testbed: &AgentTestbed, words: &[&str], held: usize) -> (i32, Value) {
    thread::scope(|scope| {
        let following = scope.spawn(|| testbed.world.envelope(words));
        testbed.models.wait_held(held);
        let killed = testbed.world.daemon_pid().unwrap();
        kill(killed, "KILL");
        wait_for("the next daemon", || {
            testbed.world.daemon_pid().filter(|next| *next != killed).map(drop)
        });
        testbed.models.release_held();
        following.join().unwrap()
    })
}

#[test]
fn claude_code_codex_gemini_cli_and_opencode_review_approve_and_vote_over_two_kills_of_the_daemon()
{
    let Some(testbed) = AgentTestbed::open(&TEAM, "a team of four real agents") else { return };
    testbed.world.file("change.diff", "+ let answer = 42;\n+ // @codex is no mention here\n");
    let entries = TEAM.map(|cli| {
        let settings = if cli == Cli::Codex { "permissions: { default: ask }" } else { "" };
        AgentEntry { name: cli.name(), cli, settings }
    });
    let kickoff = format!("${{{{ diff }}}}\n@claude please review.\n{}", script());
    let setup = "setup: [{ shell: cat change.diff, as: diff }]";
    testbed.write(&entries, &format!("{setup}\nkickoff: {}\n", json!(kickoff)));

    let run = ["run", "team.yaml", "--json"];
    let (code, envelope) = follow_over_kill(&testbed, &run, 1);
    assert_eq!((code, &envelope["outcome"]), (4, &json!("human")), "{envelope}");
    assert!(!testbed.world.project().join("ran.txt").exists(), "nothing runs before the approval");
    assert_eq!(testbed.world.run(&["approve", "1"]).code, 0);
    let attach = ["attach", "@team", "--json"];
    let (code, envelope) = follow_over_kill(&testbed, &attach, 2);
    assert_eq!(
        (code, &envelope["outcome"]),
        (0, &json!("done")),
        "{envelope}\n{}",
        testbed.world.log()
    );

    let ran = fs::read_to_string(testbed.world.project().join("ran.txt")).unwrap();
    assert_eq!(ran, "once\n");
    let notes = testbed.world.run(&["doc", "read"]).stdout;
    assert_eq!(notes, "- claude\n- codex\n- gemini\n- opencode\n");
    let decided = testbed.world.list(&["proposals", "@team", "--all", "--json"]);
    assert_eq!(decided[0]["winner"], "approve", "{decided}");
    let runs = testbed.world.list(&["runs", "@team", "--json"]);
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
    let path = format!("/events?run={}", runs[0]["run"].as_str().unwrap());
    let stream = Ask { method: "GET", path: &path, ..Ask::default() };
    let events = stream.events(&testbed.world, |_| false);
    assert_eq!(events.iter().filter(|event| event["kind"] == "run.ended").count(), 1);
    check_costs(&testbed);
    assert_eq!(testbed.other_processes(), []);
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
}

/// Checks that the tokens and costs are those of the answers that the model gave: 100 tokens in and 10 out for each.
fn check_costs(testbed: &AgentTestbed) {
    let requests = testbed.models.requests();
    let total = usage(testbed);
    let tokens = json!([total["input_tokens"], total["output_tokens"]]);
    assert_eq!(tokens, json!([100 * requests.len(), 10 * requests.len()]), "{total}");
    let stats = testbed.world.list(&["stats", "@team", "--json"])[0]["agents"].clone();
    // In millionths of a dollar for one answer: $2 and $10, $1.25 and $10, and $0.30 and $2.50 per million tokens.
    // opencode knows no price of a scripted model.
    let prices = [
        (Cli::Claude, Some(300)),
        (Cli::Codex, Some(225)),
        (Cli::Gemini, Some(55)),
        (Cli::Opencode, None),
    ];
    for (cli, price) in prices {
        let agents = stats.as_array().unwrap();
        let agent = agents.iter().find(|agent| agent["name"] == cli.name()).unwrap();
        let answers = agent["usage"]["input_tokens"].as_u64().unwrap() / 100;
        let cost = price.map(|price: u64| price * answers);
        assert_eq!(agent["usage"]["cost_micros"].as_u64(), cost, "{stats}");
    }
}
