//! Teams that work together: hand-offs, documents, votes.

use serde_json::{Value, json};

use super::{http::Ask, tape::Tape, views::views};
use crate::world::wait_for;

const TEAM: &str = r#"
name: team
params: [{ name: topic, default: cats, description: What it is about }]
setup:
  - { shell: "echo a diff", as: diff }
agents:
  lead:
    backend: mock
    mock:
      - on: "begin"
        calls:
          - { tool: workflow_agents }
          - { tool: channel_send, args: { message: "@coder write the plan" } }
        say: Handed on.
      - { say: Noted. }
  coder:
    backend: mock
    mock:
      - on: "write the plan"
        calls:
          - { tool: inbox_check }
          - { tool: document_create, args: { file: plans/first.md, content: "One step.\n" } }
          - { tool: document_read, args: { file: plans/first.md } }
          - { tool: document_write, args: { file: plans/first.md, content: "Two steps.\n", base_revision: 1 } }
          - { tool: document_append, args: { content: "- planned\n" } }
          - { tool: document_list }
          - { tool: resource_create, args: { content: "A log of the build.", type: text/x-log } }
          - { tool: channel_read, args: { limit: 2, receipts: true } }
          - { tool: feedback_submit, args: { message: "clear errors" } }
          - { tool: document_read, args: { file: none.md } }
          - { tool: channel_send, args: { message: "@lead it is written", reply_to: 2 } }
        run: echo built
        say: Written.
      - { say: Again. }
  clumsy:
    backend: mock
    retry: { max_attempts: 2, backoff: 10ms }
    mock: [{ fail: fatal }]
kickoff: "${{ diff }} about ${{ params.topic }}: @lead begin"
"#;

#[test]
fn a_team_with_everything_reads_as_it_did() {
    let mut tape = Tape::new("goldens/team");
    tape.world.file("team.yaml", TEAM);
    tape.cli("validate team.yaml");
    tape.cli("init first.yaml");
    let run = tape.start("team.yaml", TEAM);
    tape.rest("@team");
    tape.cli("send @team '@lead thanks' --wait");
    tape.cli("send @team 'for the record' --cc coder --reply-to 2");
    tape.cli("send coder@team 'once more' --urgent --wait");
    tape.cli("ask lead@team 'are you there'");
    tape.cli("send @team '@clumsy carry the tray' --wait");
    tape.cli("send @team '@nobody is here'");
    documents(&mut tape);
    tape.cli("propose 'Ship it?' --voter user --gate release --binding --target @team");
    tape.cli("propose 'Which colour?' --option red --option blue --voter user --deadline 1h --target @team");
    tape.cli("vote 1 approve --reason 'it is time' --target @team");
    tape.cli("new judge@team -b mock --say Guilty.");
    tape.cli("ask judge@team 'Guilty or not?'");
    tape.cli("feedback 'all is well'");
    tape.cli("token create ci --allow read,run --instance '@team:*'");
    tape.cli("use coder@team");
    tape.rest("@team");
    views(&mut tape, "@team", "coder", &run);
    tape.cli("use --none");
    tape.cli("token revoke ci");
    tape.cli("agent end judge@team");
    tape.cli("stop @team");
    tape.events("@team");
    tape.cli("rm @team --yes");
    tape.finish();
}

fn documents(tape: &mut Tape) {
    tape.cli("doc append notes.md 'by hand' --target @team");
    tape.cli("doc create other.md 'one' --target @team");
    tape.cli("doc write other.md 'two' --base 1 --target @team");
    tape.cli("doc write other.md 'three' --force --target @team");
    tape.world.file("long.txt", "line\n");
    let kept = tape.cli("resource create long.txt --type text/plain --target @team");
    let id = kept["id"].as_str().unwrap().to_owned();
    tape.cli(&format!("resource read {id} --range 0..2 --target @team"));
    tape.get(&format!("/resources/{id}?range=1..&target=@team"));
    let long = "word ".repeat(8000);
    tape.http(
        "POST",
        "/messages",
        &json!({ "target": "@team", "message": long, "priority": "high" }),
    );
}

#[test]
fn runs_that_hand_work_on_report_as_they_did() {
    let mut tape = Tape::new("goldens/handoff");
    let chain = "name: chain\nagents:\n\
        \x20 first: { backend: mock, mock: [{ calls: [{ tool: channel_send, args: { message: '@second yours' } }], say: Passed. }] }\n\
        \x20 second: { backend: mock, mock: [{ run: 'echo printed' }] }\nkickoff: '@first go'\n";
    tape.world.file("chain.yaml", chain);
    let first = tape.cli("run chain.yaml");
    stream(&mut tape, first["run"].as_str().unwrap());
    let project = tape.world.project();
    let file = project.join("chain.yaml");
    let request = json!({ "file": file, "cwd": project });
    tape.http("POST", "/serve", &request);
    let body = request.to_string();
    let ask = Ask { method: "POST", path: "/run", body: &body, headers: &[] };
    let events = ask.events(&tape.world, |event| event["kind"] == "run.ended");
    tape.note_events("POST /run", events);
    tape.http(
        "POST",
        "/runs",
        &json!({ "file": file, "cwd": project, "tag": "b", "mode": "start" }),
    );
    tape.rest("@chain:b");
    tape.cli("restart @chain:b --detach");
    tape.rest("@chain:b");
    tape.cli("down b");
    tape.cli("attach @chain:b");
    tape.cli("runs --all");
    tape.cli("ls --all");
    tape.get("/workflows");
    tape.events("@chain:b");
    tape.cli("run chain.yaml --tag c --detach");
    tape.rest("@chain:c");
    let answers = "name: answers\nagents:\n\
        \x20 first: { backend: mock, mock: [{ say: '@second yours' }] }\n\
        \x20 second: { backend: mock, mock: [{ say: 'Thanks @first' }] }\nkickoff: '@first go'\n";
    tape.world.file("answers.yaml", answers);
    tape.cli("run answers.yaml");
    tape.events("@answers");
    tape.cli("daemon restart");
    tape.cli("daemon stop");
    tape.cli("daemon status");
    tape.finish();
}

/// Records the framing of events: the lines of the first three, without their data.
fn stream(tape: &mut Tape, run: &str) {
    let path = format!("/events?run={run}");
    let reply = Ask { method: "GET", path: &path, ..Ask::default() }.reply(&tape.world);
    let lines = reply.body.lines().map(|line| line.split_once(" {").map_or(line, |(key, _)| key));
    let lines: Vec<&str> = lines.take(12).collect();
    let recorded = json!({ "status": reply.status, "type": reply.content_type, "lines": lines });
    tape.note("the lines of GET /events", &recorded);
}

/// `scribe` votes while `critic` is stopped, so the order of the votes is fixed. `critic` then proposes, writes a
/// document that it does not own, and makes suggestions: first one against the decision.
const COUNCIL: &str = r#"
name: council
context: { documentOwner: elect }
setup: [{ shell: "until [ -e go ]; do sleep 0.01; done" }]
agents:
  scribe:
    backend: mock
    mock:
      - on: "[PROPOSAL] #1"
        calls: [{ tool: vote, args: { proposal: 1, choice: scribe } }]
      - on: "[PROPOSAL] #2"
        calls:
          - { tool: proposal_status, args: { proposal: 2 } }
          - { tool: vote, args: { proposal: 2, choice: sqlite, reason: one file } }
      - on: "write it down"
        calls: [{ tool: document_append, args: { content: "We use sqlite.\n" } }]
      - on: "let us take postgres"
        calls: [{ tool: suggestion_answer, args: { suggestion: 10, accept: false, reason: "it was decided" } }]
      - on: "say why"
        calls: [{ tool: suggestion_answer, args: { suggestion: 12, accept: true } }]
  critic:
    backend: mock
    mock:
      - on: "[PROPOSAL] #1"
        calls: [{ tool: vote, args: { proposal: 1, choice: scribe } }]
      - on: "propose"
        calls:
          - { tool: proposal_create, args: { title: "Which database?", options: [sqlite, postgres], rule: unanimous, binding: true, electorate: [scribe] } }
          - { tool: proposal_create, args: { title: "Which colour?", options: [{ id: red, label: Red, metadata: { hex: f00 } }, { id: blue, label: Blue }], electorate: [critic] } }
          - { tool: proposal_cancel, args: { proposal: 3 } }
      - on: "try to"
        calls:
          - { tool: document_append, args: { content: "We use postgres.\n" } }
          - { tool: document_suggest, args: { suggestion: "let us take postgres", old: sqlite, new: postgres } }
      - on: "it was decided"
        calls: [{ tool: document_suggest, args: { suggestion: "say why", old: "sqlite.", new: "sqlite, one file less to run." } }]
kickoff: "@scribe write it down"
"#;

#[test]
fn a_council_that_elects_its_owner_suggests_and_decides_is_stored_as_it_was() {
    let mut tape = Tape::new("goldens/council");
    let file = tape.world.file("council.yaml", COUNCIL);
    let request = json!({ "file": file, "cwd": tape.world.project(), "mode": "start" });
    assert_eq!(tape.world.run(&["daemon", "restart"]).code, 0);
    tape.http("POST", "/runs", &request);
    tape.cli("stop critic@council");
    tape.world.file("go", "");
    wait_for("the first vote", || {
        let scribe = tape.world.json(&["status", "scribe@council", "--json"]);
        (scribe["turns"] == 1 && scribe["state"] == "idle").then_some(())
    });
    tape.cli("resume critic@council");
    tape.rest("@council");
    tape.cli("send critic@council propose");
    tape.rest("@council");
    tape.cli("send critic@council 'try to'");
    tape.rest("@council");
    tape.cli("proposals --all --target @council");
    tape.cli("proposals 1 --target @council");
    tape.cli("peek @council -n 100");
    tape.cli("doc suggestions --target @council");
    tape.cli("doc read notes.md --target @council");
    tape.cli("doc read decisions.md --target @council");
    tape.cli("doc history notes.md --target @council");
    tape.cli("doc suggest notes.md 'add a line' --new more --target @council");
    tape.rest("@council");
    tape.get("/suggestions?target=@council");
    tape.events("@council");
    tape.finish();
}

const ROOM: &str = r"
name: room
agents:
  a: { backend: mock, requires: { document_append: release }, mock: [{ on: append, calls: [{ tool: document_append, args: { content: x } }] }] }
  b: { backend: mock }
";

fn expired(tape: &Tape, number: u32) {
    let path = format!("/proposals/{number}?target=@room");
    let ask = Ask { method: "GET", path: &path, ..Ask::default() };
    wait_for("the deadline", || {
        let proposal: Value = serde_json::from_str(&ask.reply(&tape.world).body).unwrap();
        (proposal["state"] == "expired").then_some(())
    });
}

#[test]
fn votes_that_end_in_every_way_are_stored_as_they_were() {
    let mut tape = Tape::new("goldens/votes");
    tape.start("room.yaml", ROOM);
    let act = |tape: &mut Tape, line: &str| {
        tape.cli(&format!("{line} --target @room"));
        tape.rest("@room");
    };
    act(&mut tape, "propose 'Ship it?' --voter user --gate release --binding");
    tape.cli("send a@room append --wait");
    act(&mut tape, "vote 1 reject");
    act(
        &mut tape,
        "propose 'Release?' --voter user --gate release --binding --description 'the second try'",
    );
    act(&mut tape, "vote 2 approve --reason 'it is time'");
    act(&mut tape, "vote 2 reject");
    tape.cli_as("send a@room append --wait, after the gate", "send a@room append --wait");
    act(&mut tape, "propose 'Who leads?' --voter user --role coordinator --binding --option b");
    act(&mut tape, "vote 3 b");
    tape.cli("send @room 'to nobody in particular' --wait");
    act(&mut tape, "propose 'Who does it?' --voter user --work 1 --binding --option b");
    act(&mut tape, "vote 4 b");
    act(&mut tape, "propose 'Rewrite it?' --option yes --option no --voter user");
    act(&mut tape, "veto 5 --why 'not now'");
    act(&mut tape, "propose 'Too late?' --option yes --option no --voter user --deadline 1ms");
    expired(&tape, 6);
    tape.cli("proposals --all --target @room");
    act(
        &mut tape,
        "propose 'Too late again?' --option yes --option no --voter user --deadline 1ms --fallback no",
    );
    expired(&tape, 7);
    tape.cli_as("proposals --all, with a fallback", "proposals --all --target @room");
    act(
        &mut tape,
        "propose 'Nobody wins?' --rule unanimous --voter user --voter a --option yes --option no",
    );
    act(&mut tape, "vote 8 yes");
    act(&mut tape, "propose 'Left open?' --voter user --quorum 1 --tie-breaker creator_decides");
    tape.get("/proposals/6?target=@room");
    tape.get("/proposals/7?target=@room");
    tape.cli("doc read decisions.md --target @room");
    tape.cli("stop @room");
    tape.cli("proposals 9 --target @room");
    tape.events("@room");
    tape.finish();
}
