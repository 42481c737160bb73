//! People and programs outside a team: questions, approvals, tokens, standalone agents, files.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use super::{http::Ask, tape::Tape};
use crate::{
    approvals::{CLAUDE_STUB, PLAIN_COMMAND, write_note_command},
    world::wait_for,
};

#[test]
fn a_question_and_its_answer_are_stored_as_they_were() {
    let mut tape = Tape::new("goldens/questions");
    let asking = r#"
name: asking
agents:
  coder:
    backend: mock
    mock:
      - on: "go"
        calls: [{ tool: ask_human, args: { question: "Drop the old table?", options: ["yes", "no"] } }]
      - say: "so be it"
kickoff: "@coder go"
"#;
    tape.world.file("asking.yaml", asking);
    tape.cli("run asking.yaml");
    tape.cli("answer");
    tape.cli("status @asking");
    tape.cli("why coder@asking");
    tape.cli("ls @asking");
    tape.get("/questions?target=@asking");
    tape.get("/attention?target=@asking");
    tape.cli("answer 1 maybe");
    tape.cli("answer 1 yes");
    tape.cli("attach @asking");
    tape.cli("answer 1 no");
    tape.events("@asking");
    tape.finish();
}

#[test]
fn requests_that_are_approved_and_denied_are_stored_as_they_were() {
    let mut tape = Tape::new("goldens/approvals");
    let claude = tape.world.file("claude.sh", CLAUDE_STUB);
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let team = format!(
        "name: guarded\nagents:\n  coder:\n    backend: claude\n    mode: isolated\n    command: {}\n    \
         env: [AW_BINARY, AGENT_WORKER_HOME]\nkickoff: '@coder go'\n",
        claude.display()
    );
    tape.world.file("guarded.yaml", &team);
    for (tag, answer) in [("yes", "approve 1"), ("no", "deny 1 -r 'not today'")] {
        tape.cli(&format!("run guarded.yaml --tag {tag}"));
        tape.cli(&format!("pending --target @guarded:{tag}"));
        tape.cli(&format!("pending 1 --target @guarded:{tag}"));
        // The program has reported its conversation, which the worker posts with its next events.
        wait_for("the conversation", || {
            let status = format!("coder@guarded:{tag}");
            tape.world.json(&["status", &status, "--json"])["session"].is_object().then_some(())
        });
        tape.cli(&format!("status coder@guarded:{tag}"));
        tape.get(&format!("/approvals?target=@guarded:{tag}"));
        tape.get(&format!("/attention?target=@guarded:{tag}"));
        if tag == "yes" {
            tape.cli("approve 1 --for-run --target @guarded:yes");
        }
        tape.cli(&format!("{answer} --target @guarded:{tag}"));
        tape.cli(&format!("attach @guarded:{tag}"));
        tape.cli_as(
            &format!("{answer}, again, of {tag}"),
            &format!("{answer} --target @guarded:{tag}"),
        );
        tape.events(&format!("@guarded:{tag}"));
    }
    let noting = CLAUDE_STUB.replace("echo once >> ran.txt", PLAIN_COMMAND);
    fs::write(&claude, noting).unwrap();
    write_note_command(&tape.world);
    tape.cli("start --background guarded.yaml --tag run");
    tape.rest("@guarded:run");
    tape.cli("approve 1 --for-run --target @guarded:run");
    tape.rest("@guarded:run");
    tape.cli("pending --grants --target @guarded:run");
    tape.get("/grants?target=@guarded:run");
    tape.cli("revoke 1 --target @guarded:run");
    tape.cli_as("revoke 1, again", "revoke 1 --target @guarded:run");
    tape.events("@guarded:run");
    tape.finish();
}

#[test]
fn clients_with_tokens_and_standalone_agents_are_served_as_they_were() {
    let mut tape = Tape::new("goldens/client");
    tape.start("pair.yaml", "name: pair\nagents:\n  one: { backend: mock, mock: [{ say: Yes. }] }\n  two: { backend: mock }\n");
    tape.world.file("other.yaml", "name: other\nagents: { one: { backend: mock } }\n");
    tape.cli("start --background other.yaml");
    let made = tape.http(
        "POST",
        "/tokens",
        &json!({ "name": "ci", "allow": ["read", "send"], "instances": ["@pair"] }),
    );
    let token = made["token"].as_str().unwrap().to_owned();
    let header = format!("Authorization: Bearer {token}");
    let mut client = |label: &str, method: &str, path: &str, body: &str| {
        let ask = Ask { method, path, body, headers: &[&header] };
        let reply = ask.reply_on_port(&tape.world);
        tape.reply(&format!("client: {label}"), &reply)
    };
    client("health", "GET", "/health", "");
    client("agents", "GET", "/agents", "");
    client("send", "POST", "/messages", r#"{"target":"@pair","message":"@one hello"}"#);
    client("other instance", "GET", "/messages?target=@other", "");
    client(
        "documents",
        "POST",
        "/documents/a.md",
        r#"{"target":"@pair","mode":"append","content":"x"}"#,
    );
    client("doctor", "GET", "/doctor", "");
    client("receipts", "GET", "/messages/9/receipts?target=@pair", "");
    tape.rest("@pair");
    tape.cli("peek @pair");
    tape.http("DELETE", "/tokens/ci", &Value::Null);
    let ask = Ask { method: "GET", path: "/agents", headers: &[&header], ..Ask::default() };
    let reply = ask.reply_on_port(&tape.world);
    tape.reply("client: with a revoked token", &reply);
    let ask = Ask { method: "GET", path: "/agents", ..Ask::default() };
    let reply = ask.reply_on_port(&tape.world);
    tape.reply("client: without a token", &reply);
    tape.events("@pair");
    standalone(&mut tape);
    tape.finish();
}

fn standalone(tape: &mut Tape) {
    tape.cli("new parrot -b mock --say Polly.");
    tape.cli("ask parrot 'Who is there?'");
    tape.http("POST", "/agents", &json!({ "name": "helper", "backend": "mock", "mock": [{ "say": "Hello." }], "system": "You help." }));
    tape.get("/agents/helper");
    tape.http("POST", "/agents/helper/stop?now=true", &Value::Null);
    tape.cli("why helper");
    tape.cli("send helper 'it waits'");
    tape.http("POST", "/agents/helper/resume", &Value::Null);
    tape.rest("@global");
    tape.http("DELETE", "/agents/helper", &Value::Null);
    tape.cli("status parrot");
    tape.cli("status @global");
    tape.cli("stop parrot");
    tape.cli("resume parrot");
    tape.cli("agent end parrot");
    tape.cli("ls @global");
    tape.events("@global");
}

#[test]
fn documents_and_a_channel_that_are_files_are_stored_as_they_were() {
    let mut tape = Tape::new("goldens/files");
    let team = "name: shelf\ncontext: { provider: file }\nagents:\n  a: { backend: mock, mock: [{ say: Seen. }] }\n";
    tape.start("shelf.yaml", team);
    tape.cli("doc create plan.md one --target @shelf");
    let folder = tape.world.project().join(".workflow/shelf/main");
    let plan = folder.join("documents/plan.md");
    let reads = |wanted: &str| {
        wait_for("the file", || (fs::read_to_string(&plan).ok()? == wanted).then_some(()));
    };
    reads("one\n");
    fs::write(&plan, "one\ntwo\n").unwrap();
    wait_for("the revision", || {
        let read = tape.world.json(&["doc", "read", "plan.md", "--target", "@shelf", "--json"]);
        (read["content"] == "one\ntwo\n").then_some(())
    });
    fs::write(&plan, b"\xff\xfe").unwrap();
    let ask = Ask { method: "GET", path: "/attention?target=@shelf", ..Ask::default() };
    wait_for("the conflict", || {
        ask.reply(&tape.world).body.contains("document_conflict").then_some(())
    });
    reads("one\ntwo\n");
    tape.get("/attention?target=@shelf");
    tape.cli("doc history plan.md --target @shelf");
    tape.cli("send a@shelf hello --wait");
    let channel = wait_for("the channel's file", || {
        let text = fs::read_to_string(folder.join("channel.md")).ok()?;
        text.contains("Seen.").then_some(text)
    });
    tape.note("channel.md", &json!(channel));
    tape.events("@shelf");
    tape.finish();
}
