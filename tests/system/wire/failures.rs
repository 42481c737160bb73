//! Failures: retries, dead letters, limits, stops.

use serde_json::{Value, json};

use super::tape::Tape;
use crate::world::wait_for;

const FAILING: &str = r"
name: failing
agents:
  shaky:
    backend: mock
    retry: { max_attempts: 3, backoff: 10ms }
    mock:
      - { on: crash, fail: crash, times: 1, say: Recovered. }
      - { on: limited, fail: rate_limited, times: 1, say: Allowed. }
      - { on: exit, fail: { exit: 3 }, times: 1, say: Back. }
      - { fail: fatal, times: 1, say: Better. }
  clumsy:
    backend: mock
    retry: { max_attempts: 2, backoff: 10ms }
    mock: [{ fail: fatal }]
";

#[test]
fn retries_and_dead_letters_are_stored_as_they_were() {
    let mut tape = Tape::new("goldens/failures");
    tape.start("failing.yaml", FAILING);
    tape.cli("send shaky@failing 'once' --wait");
    tape.cli("send shaky@failing 'crash' --wait");
    tape.cli("send shaky@failing 'exit' --wait");
    tape.cli("send shaky@failing 'limited' --wait");
    tape.cli("send clumsy@failing 'carry the tray' --wait");
    tape.rest("@failing");
    tape.cli("dead @failing");
    tape.get("/dead?target=@failing");
    tape.get("/attention?target=@failing");
    tape.get("/agents/clumsy@failing");
    tape.get("/turns?target=clumsy@failing");
    let turns = tape.world.json(&["turns", "clumsy@failing", "--json"]);
    let turn = turns["items"][0]["turn"].as_str().unwrap().to_owned();
    tape.get(&format!("/turns/{turn}"));
    tape.cli("receipts 1 @failing");
    tape.cli("dead redrive --agent clumsy @failing");
    wait_for("the second death", || {
        let dead = tape.world.list(&["dead", "@failing", "--json"]);
        (dead.as_array()?.len() == 1).then_some(())
    });
    tape.rest("@failing");
    tape.cli("dead drop @failing --why 'the tray is gone'");
    tape.cli_as("dead @failing, after the drop", "dead @failing");
    tape.cli("why clumsy@failing");
    tape.cli("stats @failing");
    tape.cli("stop @failing");
    tape.cli("runs @failing");
    tape.events("@failing");
    once(&mut tape);
    tape.finish();
}

/// Records a `run` that fails, one whose setup fails, and one that wakes no agent.
fn once(tape: &mut Tape) {
    let agents =
        "agents: { a: { backend: mock, mock: [{ fail: fatal }], retry: { max_attempts: 1 } } }\n";
    tape.world.file("fatal.yaml", &format!("{agents}kickoff: '@a go'\n"));
    tape.cli("run fatal.yaml");
    tape.events("@fatal");
    tape.world.file(
        "setup.yaml",
        &format!("{agents}setup: [{{ shell: 'echo no >&2; exit 7' }}]\nkickoff: '@a go'\n"),
    );
    tape.cli("run setup.yaml");
    tape.events("@setup");
    tape.world.file("quiet.yaml", &format!("{agents}kickoff: '@b go'\n"));
    tape.cli("run quiet.yaml");
}

const LOOP: &str = "name: loop\nagents:\n\
    \x20 ping: { backend: mock, mock: [{ on: go, calls: [{ tool: channel_send, args: { message: '@pong ping' } }] }, { calls: [{ tool: channel_send, args: { message: '@pong ping' } }] }] }\n\
    \x20 pong: { backend: mock, mock: [{ calls: [{ tool: channel_send, args: { message: '@ping pong' } }] }] }\n\
    kickoff: '@ping go'\nlimits: { hops: 3, turns: 50 }\n";

#[test]
fn limits_pauses_and_stops_are_stored_as_they_were() {
    let mut tape = Tape::new("goldens/limits");
    tape.world.file("loop.yaml", LOOP);
    let reached = tape.cli("run loop.yaml");
    let run = reached["run"].as_str().unwrap().to_owned();
    for words in ["status", "why", "ls"] {
        tape.cli(&format!("{words} @loop"));
    }
    tape.get("/attention?target=@loop");
    tape.cli("resume @loop --hops 5");
    let path = format!("/runs/{run}/resume");
    tape.http_as("a limit that is reached already", "POST", &path, &json!({ "turns": 1 }));
    tape.http("POST", &path, &json!({ "hops": 50, "turns": 9 }));
    wait_for("the limit of turns", || {
        let status = tape.world.json(&["status", "@loop", "--json"]);
        (status["state"] == "paused" && status["turns"] == 9).then_some(())
    });
    tape.cli_as("status @loop, at the second limit", "status @loop");
    tape.cli("stop @loop");
    tape.events("@loop");
    stops(&mut tape);
    tape.finish();
}

/// Records an agent in the middle of its turn, a paused run, and the stop of both.
fn stops(tape: &mut Tape) {
    let team = r#"
name: slow
agents:
  a:
    backend: mock
    mock:
      - { on: for good, run: "touch good; exec sleep 600" }
      - { on: work, run: "[ -e up ] || { touch up; exec sleep 600; }", say: Worked. }
      - { say: Here. }
  b: { backend: mock, mock: [{ say: There. }] }
"#;
    let run = tape.start("slow.yaml", team);
    tape.http("POST", &format!("/runs/{run}/pause"), &Value::Null);
    tape.cli("send b@slow 'it waits'");
    tape.cli("send b@slow 'this too' --wait");
    tape.cli("ls @slow");
    tape.cli("peek b@slow --inbox");
    tape.cli("resume @slow --detach");
    tape.rest("@slow");
    tape.cli("pause @slow");
    tape.cli_as("pause @slow, again", "pause @slow");
    tape.cli_as("resume @slow --detach, again", "resume @slow --detach");
    let begins = |tape: &Tape, file: &str| {
        let file = tape.world.project().join(file);
        wait_for("the turn", || file.exists().then_some(()));
    };
    tape.cli("send a@slow work");
    begins(tape, "up");
    tape.cli("stop a@slow --now");
    tape.cli("why a@slow");
    tape.get("/attention?target=@slow");
    tape.cli("send a@slow hello --wait");
    tape.cli("resume a@slow");
    tape.rest("@slow");
    tape.cli("send a@slow 'for good'");
    begins(tape, "good");
    tape.cli("stop @slow --now");
    tape.cli("status @slow");
    tape.events("@slow");
}
