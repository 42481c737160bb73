//! All refusals: status, code and shape of each problem, over HTTP and from the command line.

use serde_json::{Value, json};

use super::{http::Ask, tape::Tape};

const TEAM: &str = "name: team\nagents:\n  coder: { backend: mock, mock: [{ say: Done. }] }\n";
const NO_ID: &str = "00000000-0000-0000-0000-000000000000";

/// Refused requests of the user: method, path, body.
const REFUSED: [(&str, &str, &str); 45] = [
    ("GET", "/nowhere", ""),
    ("PUT", "/messages", "{}"),
    ("POST", "/messages", "{"),
    ("POST", "/messages", "[]"),
    ("POST", "/messages", r#"{"target":"@team"}"#),
    ("POST", "/messages", r#"{"target":"@team","message":"x","colour":"red"}"#),
    ("POST", "/messages", r#"{"target":"a b","message":"x"}"#),
    ("POST", "/messages", r#"{"target":"@none","message":"x"}"#),
    ("POST", "/messages", r#"{"target":"ghost@team","message":"x"}"#),
    ("POST", "/messages", r#"{"target":"@team","message":"x","reply_to":99}"#),
    ("POST", "/messages", r#"{"target":"@team","message":"x","to":["ghost"]}"#),
    ("POST", "/messages", r#"{"target":"@ended","message":"x"}"#),
    ("GET", "/messages?target=@none", ""),
    ("GET", "/messages?target=@team&limit=many", ""),
    ("GET", "/messages?target=@team&since=yesterday", ""),
    ("GET", "/messages/99/receipts?target=@team", ""),
    ("GET", "/agents?target=ghost@team", ""),
    ("GET", "/agents/ghost@team", ""),
    ("POST", "/agents", r#"{"name":"coder","backend":"mock","target":"@team"}"#),
    ("POST", "/agents", r#"{"name":"x","backend":"none"}"#),
    ("DELETE", "/agents/ghost@team", ""),
    ("GET", "/runs/00000000-0000-0000-0000-000000000000", ""),
    ("GET", "/runs/twelve", ""),
    ("POST", "/runs", r#"{"file":"team.yaml","cwd":"/"}"#),
    ("POST", "/runs", r#"{"file":"/nowhere.yaml","cwd":"/"}"#),
    ("POST", "/runs/00000000-0000-0000-0000-000000000000/stop", ""),
    ("GET", "/documents/none.md?target=@team", ""),
    ("GET", "/documents/a.md?target=@team&revision=9", ""),
    ("POST", "/documents/a.md", r#"{"target":"@team","mode":"create","content":"x"}"#),
    ("POST", "/documents/a.md", r#"{"target":"@team","mode":"write","content":"x"}"#),
    (
        "POST",
        "/documents/a.md",
        r#"{"target":"@team","mode":"write","content":"x","base_revision":9}"#,
    ),
    ("POST", "/documents/..%2Fa.md", r#"{"target":"@team","mode":"append","content":"x"}"#),
    ("POST", "/documents/decisions.md", r#"{"target":"@team","mode":"append","content":"x"}"#),
    ("GET", "/resources/abc?target=@team", ""),
    ("POST", "/suggestions", r#"{"target":"@team","file":"a.md","suggestion":"more"}"#),
    ("POST", "/suggestions/1", r#"{"target":"@team","accept":true}"#),
    ("GET", "/proposals/9?target=@team", ""),
    ("POST", "/proposals", r#"{"target":"@team","title":"x","options":["a","a"]}"#),
    ("POST", "/proposals/9/vote", r#"{"target":"@team","choice":"x"}"#),
    ("POST", "/approvals/9/approve", r#"{"target":"@team"}"#),
    ("POST", "/questions/9/answer", r#"{"target":"@team","answer":"x"}"#),
    ("POST", "/dead/redrive", r#"{"target":"@team"}"#),
    ("POST", "/tokens", r#"{"name":"ci","allow":["fly"]}"#),
    ("DELETE", "/tokens/ghost", ""),
    ("POST", "/inbox/ack", r#"{"until":1}"#),
];

/// Commands that must be refused.
const COMMANDS: &str = "
    frobnicate
    run
    run nowhere.yaml
    run bad.yaml
    validate bad.yaml
    up team.yaml
    attach @nothing
    pause @nothing
    resume @team
    stop ghost@team
    stop
    rm @team
    status ghost@team
    peek @nothing
    receipts 99 @team
    receipts twelve
    dead redrive 99 @team
    send 'a b' hello
    send @team hello --to ghost
    send @ended hello
    ask @team hello
    ask coder hello
    agent end ghost
    new coder@team -b mock
    new x -b none
    doc read none.md --target @team
    doc create a.md x --target @team
    doc write a.md x --base 9 --target @team
    doc accept 1 --target @team
    resource read abc --target @team
    context inbox --agent ghost@team
    context send hello
    proposals 9 --target @team
    vote 9 x --target @team
    veto 9 --target @team
    propose '' --target @team
    answer 9 x --target @team
    approve 9 --target @team
    pending 9 --target @team
    token revoke ghost
    token create ci
    token create 'a b'
    token create nightly --allow fly
    use
    logs @team
";

#[test]
fn what_is_refused_is_refused_with_the_same_codes() {
    let mut tape = Tape::new("goldens/problems");
    tape.start("team.yaml", TEAM);
    tape.cli("up team.yaml --tag two");
    tape.world.file("bad.yaml", "agents: { a: { bakend: mock } }\n");
    tape.world
        .file("ended.yaml", "name: ended\nagents: { a: { backend: mock } }\nkickoff: '@a go'\n");
    tape.cli("run ended.yaml");
    tape.cli("doc create a.md one --target @team");
    tape.cli_as("token create ci, the first time", "token create ci");
    for (method, path, body) in REFUSED {
        let ask = Ask { method, path, body, headers: &[] };
        let reply = ask.reply(&tape.world);
        assert!(reply.status >= 400, "{method} {path} {body}: {} {}", reply.status, reply.body);
        tape.reply(format!("{method} {path} {body}").trim_end(), &reply);
    }
    for line in COMMANDS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        tape.cli(line);
    }
    requests(&mut tape);
    tape.finish();
}

/// Records problems of the request itself: its size, its headers, its key, its sender.
fn requests(tape: &mut Tape) {
    let team = tape.world.project().join("team.yaml");
    let again = json!({ "file": team, "cwd": tape.world.project(), "mode": "start" });
    tape.http_as("a run of an instance that has one", "POST", "/runs", &again);
    let bad = json!({ "file": tape.world.project().join("bad.yaml"), "cwd": tape.world.project() });
    tape.http_as("a file with a mistake", "POST", "/runs", &bad);
    let ended =
        tape.world.list(&["runs", "@ended", "--json"])[0]["run"].as_str().unwrap().to_owned();
    for verb in ["pause", "resume", "stop"] {
        tape.http("POST", &format!("/runs/{ended}/{verb}"), &json!({}));
    }
    let large = json!({ "target": "@team", "mode": "append", "content": "x".repeat(5 << 20) });
    tape.http_as("a document of 5 MiB", "POST", "/documents/large.md", &large);
    let mut with = |label: &str, headers: &[&str], path: &str, body: &str| {
        let ask = Ask { method: "POST", path, body, headers };
        let reply = ask.reply(&tape.world);
        tape.reply(label, &reply)
    };
    let body = r#"{"target":"@team","message":"once"}"#;
    with("a key", &["Idempotency-Key: k"], "/messages", body);
    with("the key again", &["Idempotency-Key: k"], "/messages", body);
    with(
        "the key with another body",
        &["Idempotency-Key: k"],
        "/messages",
        r#"{"target":"@team","message":"twice"}"#,
    );
    with("another type", &["Content-Type: text/plain"], "/messages", body);
    with("a page elsewhere", &["Origin: http://example.com"], "/messages", body);
    with("an unknown token", &["Authorization: Bearer 00"], "/messages", body);
    let path = format!("/attempts/{NO_ID}/events");
    with("events of no attempt", &[], &path, r#"{"events":[]}"#);
    let path = format!("/attempts/{NO_ID}/approvals");
    with("an approval of no attempt", &[], &path, r#"{"call":"1","tool":"Bash","args":{}}"#);
    let host = Ask { method: "GET", path: "/health", headers: &["Host: example.com"], body: "" };
    let reply = host.reply(&tape.world);
    tape.reply("another host", &reply);
    tape.http("GET", "/events?run=00000000-0000-0000-0000-000000000000", &Value::Null);
}
