//! MCP: the tools and their schemas for each kind of caller, a call of each kind, and errors.

use std::{fmt::Write as _, fs};

use serde_json::{Value, json};

use super::{http::Ask, tape::Tape};
use crate::world::wait_for;

const HEADERS: [&str; 2] =
    ["Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2025-11-25"];

fn request(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

/// Parses a reply of the MCP server, which is JSON, or one event that contains JSON.
fn answer(body: &str) -> Value {
    let data = body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(body);
    serde_json::from_str(data).unwrap_or_else(|_| json!(body))
}

fn mcp(tape: &mut Tape, label: &str, method: &str, params: &Value) {
    let body = request(method, params);
    let ask = Ask { method: "POST", path: "/mcp", body: &body, headers: &HEADERS };
    let reply = ask.reply(&tape.world);
    tape.note(label, &json!({ "status": reply.status, "body": answer(&reply.body) }));
}

fn call(tape: &mut Tape, label: &str, tool: &str, args: &Value) {
    mcp(tape, label, "tools/call", &json!({ "name": tool, "arguments": args }));
}

#[test]
fn tools_their_schemas_and_their_errors_are_what_they_were() {
    let mut tape = Tape::new("goldens/tools");
    as_an_agent(&mut tape);
    mcp(&mut tape, "user: tools/list", "tools/list", &json!({}));
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    mcp(&mut tape, "user: initialize", "initialize", &hello);
    mcp(&mut tape, "user: resources/list", "resources/list", &json!({}));
    mcp(&mut tape, "user: resources/templates/list", "resources/templates/list", &json!({}));
    mcp(&mut tape, "user: prompts/list", "prompts/list", &json!({}));
    mcp(
        &mut tape,
        "user: resources/read",
        "resources/read",
        &json!({ "uri": "aw://shell/main/channel" }),
    );
    mcp(&mut tape, "user: no such method", "tools/fly", &json!({}));
    mcp(
        &mut tape,
        "user: no such resource",
        "resources/read",
        &json!({ "uri": "aw://none/main/channel" }),
    );
    let agents = json!({ "ref": { "type": "ref/prompt", "name": "reviewer" }, "argument": { "name": "agent", "value": "c" } });
    mcp(&mut tape, "user: completion/complete", "completion/complete", &agents);
    newest(&mut tape);
    as_a_client(&mut tape);
    calls(&mut tape);
    errors(&mut tape);
    tape.get("/mcp");
    tape.http("DELETE", "/mcp", &Value::Null);
    tape.cli("schema");
    tape.finish();
}

/// Records a request of revision 2026-07-28, which needs no session.
fn newest(tape: &mut Tape) {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let params =
        json!({ "name": "workflow_agents", "arguments": { "target": "@shell" }, "_meta": meta });
    let body = request("tools/call", &params);
    let headers = [
        HEADERS[0],
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: workflow_agents",
    ];
    let ask = Ask { method: "POST", path: "/mcp", body: &body, headers: &headers };
    let reply = ask.reply(&tape.world);
    let recorded =
        json!({ "status": reply.status, "type": reply.content_type, "body": answer(&reply.body) });
    tape.note("user: a call of 2026-07-28", &recorded);
}

/// Records the names of the tools that a token allows, and a call that the token does not allow.
fn as_a_client(tape: &mut Tape) {
    for allow in ["read", "read,send,documents", "read,run,agents,approve"] {
        let made = tape.world.json(&[
            "token",
            "create",
            &allow.replace(',', "-"),
            "--allow",
            allow,
            "--json",
        ]);
        let header = format!("Authorization: Bearer {}", made["token"].as_str().unwrap());
        let headers = [HEADERS[0], HEADERS[1], &header];
        let ask = |method: &str, params: &Value| {
            let body = request(method, params);
            let ask = Ask { method: "POST", path: "/mcp", body: &body, headers: &headers };
            answer(&ask.reply_on_port(&tape.world).body)
        };
        let listed = ask("tools/list", &json!({}));
        let tools = listed["result"]["tools"].as_array().into_iter().flatten();
        let tools: Vec<Value> = tools.map(|tool| tool["name"].clone()).collect();
        let append = json!({ "name": "document_append", "arguments": { "target": "@shell", "content": "by a client" } });
        let reply = ask("tools/call", &append);
        tape.note(
            &format!("client that may {allow}"),
            &json!({ "tools": tools, "document_append": reply }),
        );
    }
}

fn calls(tape: &mut Tape) {
    for (tool, args) in [
        ("workflow_list", json!({})),
        ("run_list", json!({})),
        ("run_status", json!({ "target": "@shell" })),
        ("agent_show", json!({ "target": "coder@shell" })),
        ("channel_read", json!({ "target": "@shell" })),
        ("channel_send", json!({ "target": "@shell", "message": "for the record" })),
        ("workflow_agents", json!({ "target": "@shell" })),
        ("document_append", json!({ "target": "@shell", "content": "x" })),
        ("document_read", json!({ "target": "@shell" })),
        ("document_list", json!({ "target": "@shell" })),
        ("agent_new", json!({ "name": "late", "target": "@shell", "backend": "mock" })),
        ("agent_stop", json!({ "target": "late@shell" })),
        ("agent_resume", json!({ "target": "late@shell" })),
        ("agent_remove", json!({ "target": "late@shell" })),
        (
            "proposal_create",
            json!({ "target": "@shell", "title": "Ship it?", "electorate": ["user"] }),
        ),
        ("proposal_status", json!({ "target": "@shell", "proposal": 1 })),
        ("vote", json!({ "target": "@shell", "proposal": 1, "choice": "approve" })),
    ] {
        call(tape, &format!("user: {tool}"), tool, &args);
    }
}

fn errors(tape: &mut Tape) {
    for (label, tool, args) in [
        ("no such tool", "fly", json!({})),
        ("no such instance", "channel_send", json!({ "target": "@none", "message": "x" })),
        ("a field is missing", "channel_send", json!({ "target": "@shell" })),
        (
            "a field too many",
            "channel_send",
            json!({ "target": "@shell", "message": "x", "colour": "red" }),
        ),
        ("no such document", "document_read", json!({ "target": "@shell", "file": "none.md" })),
        (
            "an old revision",
            "document_write",
            json!({ "target": "@shell", "content": "y", "base_revision": 9 }),
        ),
        ("no such proposal", "vote", json!({ "target": "@shell", "proposal": 9, "choice": "x" })),
        ("a tool of agents", "inbox_check", json!({})),
        ("no such run", "run_stop", json!({ "target": "@none" })),
    ] {
        call(tape, &format!("user: {label}"), tool, &args);
    }
}

/// Records the same from an agent's own shell.
fn as_an_agent(tape: &mut Tape) {
    let socket = tape.world.home().join("daemon.sock");
    let mut script = format!(
        "ask() {{ curl -sS --unix-socket '{}' http://localhost/mcp -H 'Content-Type: application/json' -H '{}' -H '{}' -d \"$2\" > \"$1\"; }}\n",
        socket.display(),
        HEADERS[0],
        HEADERS[1]
    );
    let asked = [
        ("tools/list", "tools/list", json!({})),
        ("inbox_check", "tools/call", json!({ "name": "inbox_check", "arguments": {} })),
        ("no such tool", "tools/call", json!({ "name": "run_stop", "arguments": {} })),
        (
            "a vote on nothing",
            "tools/call",
            json!({ "name": "vote", "arguments": { "proposal": 9, "choice": "x" } }),
        ),
        (
            "no such document",
            "tools/call",
            json!({ "name": "document_read", "arguments": { "file": "none.md" } }),
        ),
        ("resources/list", "resources/list", json!({})),
    ];
    for (n, (_, method, params)) in asked.iter().enumerate() {
        let _ = writeln!(script, "ask {n}.out '{}'", request(method, params));
    }
    script += "agent-worker context inbox --json > inbox.out\nagent-worker context ack 1 --json > ack.out\n\
               agent-worker context send 'from my shell' --json > send.out\nagent-worker stop @shell --json > stop.out || true\ntouch done\n";
    let folder =
        std::path::Path::new(env!("CARGO_BIN_EXE_agent-worker")).parent().unwrap().to_owned();
    tape.world.file(
        "work.sh",
        &format!(
            "export AGENT_WORKER_HOME='{}' PATH='{}':$PATH\n{script}",
            tape.world.home().display(),
            folder.display()
        ),
    );
    let team = "name: shell\nagents:\n  coder: { backend: mock, mock: [{ on: begin, run: bash work.sh, say: Done. }] }\nkickoff: '@coder begin'\n";
    tape.start("shell.yaml", team);
    let project = tape.world.project();
    wait_for("the agent's shell", || project.join("done").exists().then_some(()));
    tape.rest("@shell");
    for (n, (label, _, _)) in asked.iter().enumerate() {
        let said = fs::read_to_string(project.join(format!("{n}.out"))).unwrap();
        tape.note(&format!("agent: {label}"), &answer(&said));
    }
    for name in ["inbox", "ack", "send", "stop"] {
        let said = fs::read_to_string(project.join(format!("{name}.out"))).unwrap();
        tape.note(&format!("agent: $ context {name}"), &answer(&said));
    }
}
