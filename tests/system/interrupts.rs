//! Interrupting a turn: the agent starts again with its mail.

use serde_json::json;

use crate::world::{World, wait_for};

/// Its first turn does not end by itself; a turn that has the second message does.
const TEAM: &str = "name: team\nagents:\n  coder:\n    backend: mock\n    mock:\n      - on: second\n        say: Both.\n      \
    - run: touch up; sleep 600\n";

/// Starts the team, and waits until its agent works on the first message.
fn busy_team() -> World {
    let world = World::new();
    world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    assert_eq!(world.run(&["send", "coder@team", "first"]).code, 0);
    let up = world.project().join("up");
    wait_for("its process", || up.exists().then_some(()));
    world
}

#[test]
fn an_interrupted_agent_starts_its_next_turn_with_its_mail() {
    let world = busy_team();
    assert_eq!(world.run(&["send", "coder@team", "second"]).code, 0);
    let said = world.run(&["interrupt", "coder@team"]);
    let expected = "interrupted coder@team: its messages start the next turn\n";
    assert_eq!((said.code, said.stdout.as_str()), (0, expected), "{said:?}");
    let status = wait_for("the next turn", || {
        let status = world.json(&["status", "coder@team", "--json"]);
        (status["state"] == "idle").then_some(status)
    });
    assert_eq!(status["attempts"][0]["ended"], json!({"end": "ok"}), "{status}");
    assert_eq!(status["attempts"][1]["ended"], json!({"end": "interrupted", "why": "by user"}));
    let said = world.run(&["interrupt", "coder@team"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""));
    assert!(said.stderr.contains("nothing was running: coder@team has no turn"), "{said:?}");
}

#[test]
fn a_message_for_now_interrupts_a_busy_agent_and_starts_an_idle_one() {
    let world = busy_team();
    let said = world.run(&["send", "coder@team", "second", "--now"]);
    let expected = "#2 → coder\ncoder: interrupted the turn; the next one has this message\n";
    assert_eq!((said.code, said.stdout.as_str()), (0, expected), "{said:?}");
    wait_for("the next turn", || {
        let status = world.json(&["status", "coder@team", "--json"]);
        (status["state"] == "idle").then_some(())
    });
    let said = world.json(&["send", "coder@team", "the second again", "--now", "--json"]);
    assert_eq!(said["now"], json!([{"agent": "coder", "outcome": "started"}]), "{said}");
}

#[test]
fn a_message_for_now_waits_in_a_paused_run_without_ending_the_turn() {
    let world = busy_team();
    assert_eq!(world.run(&["pause", "@team"]).code, 0);
    let said = world.run(&["send", "coder@team", "second", "--now"]);
    let waits =
        "coder: the message is pending: no turn starts in a paused run or for a stopped agent\n";
    assert!(said.code == 0 && said.stdout.ends_with(waits), "{said:?}");
    let status = world.json(&["status", "coder@team", "--json"]);
    assert_eq!(status["attempts"][0]["ended"], json!(null), "{status}");
}
