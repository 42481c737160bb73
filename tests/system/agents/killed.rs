//! kill -9 of the daemon in the middle of real agents' turns; what they leave in the project and at home.

use serde_json::json;

use super::office::{Cli, Desk, EVERY, Office, files};
use crate::world::{kill, wait_for};

/// Kills the daemon at two moments of a turn: between two of its calls it comes back before the next, later only after it.
fn goes_on(cli: Cli) {
    let Some(office) = Office::open(&[cli], "a daemon killed in a real agent's turn") else {
        return;
    };
    let mut daemon = office.world.daemon();
    office.start(&[Desk { name: "me", cli, besides: "" }], "");
    office.send(
        "me",
        "CALL channel_send {\"message\":\"one\"}\nHOLD\nCALL channel_send {\"message\":\"two\"}\n\
         HOLD\nCALL document_append {\"content\":\"- three\\n\"}\nSAY Over.",
    );
    office.models.wait_held(1);
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    let mut daemon = office.world.daemon();
    office.models.go_on();
    office.models.wait_held(2);
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    office.models.go_on();
    let mut daemon = office.world.daemon();
    let (state, ended) = office.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", office.story("me"));
    let status = office.status("me");
    let attempts = status["attempts"].as_array().unwrap().len();
    assert_eq!((attempts, &status["turns"]), (1, &json!(1)), "{status}");
    let spoken: Vec<_> = office.said().into_iter().filter(|(from, _)| from == "me").collect();
    assert_eq!(spoken, ["one", "two"].map(|body| ("me".to_owned(), body.to_owned())));
    assert_eq!(office.world.run(&["doc", "read"]).stdout, "- three\n");
    assert_eq!(office.others(), []);
    assert_eq!(office.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn a_turn_of_claude_code_goes_on_when_the_daemon_is_killed_and_each_call_happens_once() {
    goes_on(Cli::Claude);
}

#[test]
fn a_turn_of_codex_goes_on_when_the_daemon_is_killed_and_each_call_happens_once() {
    goes_on(Cli::Codex);
}

/// Settings of a person, which nobody else touches. The servers in them would not start.
const SETTINGS: [(&str, &str); 4] = [
    (".codex/config.toml", "[mcp_servers.theirs]\ncommand = \"/nowhere/theirs\"\n"),
    (".cursor/mcp.json", "{\"mcpServers\": {\"theirs\": {\"command\": \"/nowhere/theirs\"}}}\n"),
    (".mcp.json", "{\"mcpServers\":{\"theirs\":{\"command\":\"/nowhere/theirs\"}}}"),
    (".gemini/settings.json", "{\"mcpServers\":{\"theirs\":{\"command\":\"/nowhere/theirs\"}}}"),
];

#[test]
fn the_project_and_the_home_are_as_they_were_after_rounds_of_kills() {
    let Some(office) = Office::open(&EVERY, "what real agents leave behind") else { return };
    let project = office.world.project();
    for (name, text) in SETTINGS {
        std::fs::create_dir_all(project.join(name).parent().unwrap()).unwrap();
        office.world.file(name, text);
    }
    let desks = EVERY.map(|cli| Desk { name: cli.name(), cli, besides: "" });
    office.write(&desks, "context: { documents: store }\n");
    let before = files(&project);
    let mut daemon = office.world.daemon();
    let started = office.world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
    for round in 1..=2_usize {
        let program = "@all\nHOLD\nCALL channel_send {\"message\":\"still here\"}\nSAY Done.";
        assert_eq!(office.world.run(&["send", "@team", program]).code, 0);
        office.models.wait_held(3 * round);
        kill(daemon.id(), "KILL");
        daemon.wait().unwrap();
        assert_eq!(files(&project), before, "in the middle of round {round}");
        office.models.go_on();
        daemon = office.world.daemon();
        for cli in EVERY {
            wait_for("the round's turns", || {
                (office.status(cli.name())["turns"] == round).then_some(())
            });
        }
    }
    let spoken = office.said().into_iter().filter(|(_, body)| body == "still here").count();
    assert_eq!(spoken, 6);
    assert_eq!(office.world.run(&["stop", "@team"]).code, 0);
    assert_eq!(files(&project), before);
    let home = project.parent().unwrap();
    for name in [".claude", ".claude.json", ".codex", ".gemini"] {
        assert!(!home.join(name).exists(), "{name}");
    }
    assert_eq!(office.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}
