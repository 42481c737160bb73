//! All reads of a team: all `GET` routes and all commands that print data.

use serde_json::{Map, Value, json};

use super::{http::Ask, tape::Tape};

/// Records all reads of the instance; `agent` is one of its agents.
pub(super) fn views(tape: &mut Tape, instance: &str, agent: &str, run: &str) {
    let member = format!("{agent}{instance}");
    for path in [
        "/agents?target=@",
        "/approvals?target=@",
        "/attention?target=@",
        "/dead?target=@",
        "/diffs/plans/first.md?from=1&to=2&target=@",
        "/document?target=@",
        "/documents?target=@",
        "/documents/plans/first.md?target=@",
        "/documents/plans/first.md?revision=1&target=@",
        "/messages?limit=3&target=@",
        "/messages?receipts=true&all_runs=true&target=@",
        "/messages?search=write&target=@",
        "/messages?thread=2&target=@",
        "/messages?since=2&limit=1&target=@",
        "/messages/1/receipts?target=@",
        "/proposals?target=@",
        "/proposals?all=true&target=@",
        "/proposals/1?target=@",
        "/questions?target=@",
        "/resources?target=@",
        "/revisions/plans/first.md?target=@",
        "/runs?target=@",
        "/stats?target=@",
        "/suggestions?target=@",
        "/workflows?target=@",
    ] {
        tape.get(&path.replace("target=@", &format!("target={instance}")));
    }
    for path in ["/doctor", "/feedback", "/health", "/tokens"] {
        tape.get(path);
    }
    tape.get(&format!("/runs/{run}"));
    tape.get(&format!("/agents/{member}"));
    tape.get(&format!("/agents/{member}/tools"));
    tape.get(&format!("/inbox?target={member}"));
    tape.get(&format!("/logs?target={member}"));
    commands(tape, instance, &member);
    openapi(tape);
}

fn commands(tape: &mut Tape, instance: &str, member: &str) {
    for line in [
        "ls",
        "ps",
        "status",
        "why",
        "runs",
        "peek -n 2",
        "peek --thread 2",
        "peek --find write",
        "peek --all",
        "stats",
        "export",
        "receipts 1",
        "dead",
    ] {
        tape.cli(&format!("{line} {instance}"));
    }
    for line in [
        "status",
        "why",
        "logs",
        "stats",
        "peek --inbox",
        "context inbox --agent",
        "context read -n 2 --agent",
    ] {
        tape.cli(&format!("{line} {member}"));
    }
    for line in [
        "doc list",
        "doc read plans/first.md",
        "doc read plans/first.md --revision 1",
        "doc diff plans/first.md 1..2",
        "doc history plans/first.md --diff",
        "doc suggestions",
        "resource list",
        "proposals",
        "proposals --all",
        "proposals 1",
        "pending",
        "answer",
    ] {
        tape.cli(&format!("{line} --target {instance}"));
    }
    for line in ["token list", "feedback list", "use"] {
        tape.cli(line);
    }
    // These commands search for programs on the path, so they run with an empty path.
    for line in ["backends", "doctor", "daemon status"] {
        let mut command = tape.world.command(&[]);
        command.env("PATH", "/nowhere").args(line.split(' ')).arg("--json");
        let output = command.output().unwrap();
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let printed = json!({ "exit": output.status.code(), "stdout": printed });
        tape.note(&format!("$ {line}"), &printed);
    }
}

/// Records the names of parameters and of body fields, independent of the type names.
fn openapi(tape: &mut Tape) {
    let ask = Ask { method: "GET", path: "/openapi.json", ..Ask::default() };
    let document: Value = serde_json::from_str(&ask.reply(&tape.world).body).unwrap();
    let mut routes = Map::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (verb, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let parameters: Vec<_> =
                parameters.map(|one| json!([one["in"], one["name"]])).collect();
            let replies = operation["responses"].as_object().unwrap().iter();
            let replies: Map<_, _> =
                replies.map(|(code, reply)| (code.clone(), fields(&document, reply))).collect();
            let request = fields(&document, &operation["requestBody"]);
            let route = json!({ "parameters": parameters, "request": request, "replies": replies });
            routes.insert(format!("{} {path}", verb.to_uppercase()), route);
        }
    }
    tape.note("GET /openapi.json", &Value::Object(routes));
}

/// Returns the field names of a body; `*` marks a required field.
fn fields(document: &Value, body: &Value) -> Value {
    let schema = &body["content"]["application/json"]["schema"];
    let mut schema = schema;
    while let Some(name) = schema["$ref"].as_str().or_else(|| schema["items"]["$ref"].as_str()) {
        schema = document.pointer(name.trim_start_matches('#')).unwrap();
    }
    let required = schema["required"].as_array().into_iter().flatten().collect::<Vec<_>>();
    let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| {
        let star = if required.iter().any(|one| *one == name) { "*" } else { "" };
        format!("{name}{star}")
    });
    names.collect()
}
