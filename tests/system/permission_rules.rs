//! Permission rules from outside: a stand-in for an agent of the Agent Client Protocol asks for calls.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::world::World;

/// Speaks the protocol: lists the team's tools, asks for each call in `calls.jsonl`, and notes each decision.
const ACP_STUB: &str = r#"#!/bin/bash
read -r line; echo '{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}}'
read -r session; echo '{"id":2,"result":{"sessionId":"s"}}'
read -r line
url=$(sed 's/.*"url":"http:..\([^"]*\)".*/\1/' <<<"$session")
token=$(sed 's/.*Bearer \([0-9a-f]*\).*/\1/' <<<"$session")
at=${url%%/*}
exec 3<>"/dev/tcp/${at%%:*}/${at##*:}"
list='{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
printf 'POST /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s' "${url#*/}" "$token" "${#list}" "$list" >&3
cat <&3 >/dev/null
options='[{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]'
while read -r call <&4; do
    printf '{"id":"p","method":"session/request_permission","params":{"sessionId":"s","toolCall":%s,"options":%s}}\n' "$call" "$options"
    read -r answer
    case "$answer" in
    *'"yes"'*) echo allowed ;;
    *) echo refused ;;
    esac >> decisions.txt
done 4< calls.jsonl
echo '{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Asked."}}}}'
echo '{"id":3,"result":{"stopReason":"end_turn"}}'
"#;

/// Writes a team with one agent of the protocol, and the calls that it asks for. Returns the workflow file.
fn team(world: &World, agent: &str, permissions: &str, calls: &[Value]) -> String {
    let stub = world.file("acp.sh", ACP_STUB);
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    let numbered = calls.iter().enumerate().map(|(number, call)| {
        let mut call = call.clone();
        call["toolCallId"] = json!(format!("c{number}"));
        format!("{call}\n")
    });
    world.file("calls.jsonl", &numbered.collect::<String>());
    let text = format!(
        "name: rules\nagents:\n  coder:\n    backend: acp\n    {agent}\n    command: {}\n    \
         permissions: {{ {permissions} }}\nkickoff: '@coder go'\n",
        stub.display()
    );
    world.file("rules.yaml", &text).to_str().unwrap().to_owned()
}

/// Returns the decision about each call.
fn decisions(world: &World, agent: &str, permissions: &str, calls: &[Value]) -> Vec<String> {
    let file = team(world, agent, &format!("{permissions}, on_ask: deny"), calls);
    let (code, envelope) = world.envelope(&["run", &file, "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", world.log());
    let decisions = fs::read_to_string(world.project().join("decisions.txt")).unwrap();
    decisions.lines().map(str::to_owned).collect()
}

/// Checks the decision about each call, all in one turn.
fn check(world: &World, agent: &str, permissions: &str, table: &[(Value, &str)]) {
    let calls: Vec<_> = table.iter().map(|(call, _)| call.clone()).collect();
    let made = decisions(world, agent, permissions, &calls);
    assert_eq!(made.len(), calls.len());
    let wrong: Vec<_> =
        table.iter().zip(&made).filter(|((_, expected), made)| expected != made).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn execute(input: &Value) -> Value {
    json!({"kind": "execute", "title": "Run", "rawInput": input})
}

const CODEX: &str = "agent: codex\n    mode: login";
const OTHER_AGENT: &str = "";

#[test]
fn a_command_of_codex_is_approved_only_if_it_is_all_that_runs() {
    let world = World::new();
    let inside = world.project().join("src");
    fs::create_dir(&inside).unwrap();
    let allowed = "default: ask, allow: ['execute(git diff*)']";
    let shell = |program: &str| execute(&json!({"command": [program, "-lc", "git diff"]}));
    let in_folder =
        |cwd: &str| execute(&json!({"command": ["/bin/bash", "-lc", "git diff"], "cwd": cwd}));
    check(
        &world,
        CODEX,
        allowed,
        &[
            (shell("/bin/bash"), "allowed"),
            (shell("bash"), "allowed"),
            (shell("/x/evil"), "refused"),
            (shell("/x/bash"), "refused"),
            (shell("./bash"), "refused"),
            (execute(&json!({"command": ["bash", "-lc", "git diff", "x"]})), "refused"),
            (execute(&json!({"command": ["git", "diff", "--stat"]})), "allowed"),
            (execute(&json!({"command": ["git diff", "--stat"]})), "refused"),
            (in_folder(inside.to_str().unwrap()), "allowed"),
            (in_folder("src"), "allowed"),
            (in_folder("/"), "refused"),
            (in_folder(".."), "refused"),
            (execute(&json!({"command": ["git", "diff"], "env": {"GIT_PAGER": "x"}})), "refused"),
        ],
    );
}

#[test]
fn a_request_of_codex_shows_the_program_that_is_no_known_shell() {
    let world = World::new();
    let call = execute(&json!({"command": ["/x/evil", "-lc", "git diff"]}));
    let file = team(&world, CODEX, "default: ask", &[call]);
    let (code, envelope) = world.envelope(&["run", &file, "--json"]);
    assert_eq!(code, 4, "{envelope}\n{}", world.log());
    let open = world.list(&["pending", "--json"]);
    assert_eq!(open[0]["args"]["command"], json!(["/x/evil", "-lc", "git diff"]), "{open}");
}

#[test]
fn a_denied_command_is_found_behind_redirections_wrappers_and_options() {
    let command = |text: &str| execute(&json!({"command": text}));
    let world = World::new();
    let denied = "default: allow, deny: ['execute(rm *)', 'execute(git push*)']";
    let refused = [
        "2>/dev/null rm x",
        ">\"a b\" rm x",
        "2>&1 rm x",
        "A=\"a b\" rm x",
        "git -C . push",
        "git -c a=b --no-pager push -f",
        "time -p rm x",
        "env -S 'rm x'",
        "env -S'rm x'",
        "fish -c 'rm x'",
        "watch rm x",
    ];
    let allowed = ["git status", "ls 2>/dev/null", "echo 'rm x'", "git -C . log"];
    let table: Vec<_> = refused
        .iter()
        .map(|text| (command(text), "refused"))
        .chain(allowed.iter().map(|text| (command(text), "allowed")))
        .collect();
    check(&world, OTHER_AGENT, denied, &table);
}

#[test]
fn an_address_is_compared_by_its_host_and_path_in_every_spelling() {
    let fetch = |url: &str| json!({"kind": "fetch", "title": "Get", "rawInput": {"url": url}});
    let world = World::new();
    let denied = "default: allow, deny: ['fetch(http://example.com/private*)']";
    let refused = [
        "http://example.com/private",
        "http://example.com:80/private",
        "http://example.com./private",
        "http:example.com/private",
        "http:/example.com/private",
        "http://%65xample.com/private",
        "http://ex\u{ad}ample.com/private",
        "http://example\u{3002}com/private",
        "http://example.com/./private",
        "http://example.com/a/../private",
        "http://example.com/a/%2e%2E/private",
        "http://example.com/%70rivate",
        "http://example.com//private",
    ];
    let mut table: Vec<_> = refused.iter().map(|url| (fetch(url), "refused")).collect();
    table.push((fetch("http://example.com/public"), "allowed"));
    check(&world, OTHER_AGENT, denied, &table);

    let world = World::new();
    let allowed = "default: ask, allow: ['fetch(https://github.com/my-org/*)']";
    let path = |path: &str| fetch(&format!("https://github.com/my-org/{path}"));
    check(
        &world,
        OTHER_AGENT,
        allowed,
        &[
            (path("a"), "allowed"),
            (path("a/../b"), "allowed"),
            (path("../evil"), "refused"),
            (path("%2e%2e/evil"), "refused"),
            (path("..%2fevil"), "refused"),
            (path("..\\evil"), "refused"),
            (fetch("https://github.com:444/my-org/a"), "refused"),
        ],
    );
}

#[test]
fn a_rule_for_paths_covers_every_path_that_the_protocol_names() {
    let world = World::new();
    let call = |kind: &str, fields: &Value| {
        let mut call = json!({"kind": kind, "title": "Change"});
        call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        call
    };
    let diff = |path: &str| json!([{"type": "diff", "path": path, "newText": ""}]);
    let at = |path: &str| json!([{"path": path}]);
    let (ok, secret) = ("src/a", "secret/key");
    let input = |input: &Value| call("edit", &json!({"rawInput": input}));
    let denied = "default: allow, deny: ['edit(secret/*)', 'read(secret/*)', 'delete(secret/*)', 'move(secret/*)']";
    check(
        &world,
        OTHER_AGENT,
        denied,
        &[
            (input(&json!({"path": ok})), "allowed"),
            (call("edit", &json!({"rawInput": {"path": ok}, "locations": at(secret)})), "refused"),
            (call("edit", &json!({"rawInput": {"path": ok}, "content": diff(secret)})), "refused"),
            (call("read", &json!({"rawInput": {"limit": 1}, "locations": at(ok)})), "allowed"),
            (call("edit", &json!({"locations": at(ok), "content": diff(secret)})), "refused"),
            (input(&json!({"filepath": secret})), "refused"),
            (input(&json!({"filePath": secret})), "refused"),
            (input(&json!({"absolute_path": secret})), "refused"),
            (input(&json!({"changes": {"src/a": {}, "secret/key": {}}})), "refused"),
            (input(&json!({"changes": {"src/a": {"move_path": secret}}})), "refused"),
            (input(&json!({"changes": {"src/a": {}}})), "allowed"),
            (input(&json!({"patch": "…"})), "refused"),
            (call("delete", &json!({})), "refused"),
            (call("move", &json!({"rawInput": {"what": secret}})), "refused"),
            (call("read", &json!({"rawInput": {"name": secret}})), "refused"),
        ],
    );
}

#[test]
fn a_call_with_an_argument_that_is_not_known_is_refused_though_its_subject_is_allowed() {
    let world = World::new();
    let call = |kind: &str, input: &Value| json!({"kind": kind, "title": "Do", "rawInput": input});
    let diff = |name: &str, value: Value| execute(&json!({"command": "git diff", name: value}));
    let allowed =
        "default: deny, allow: ['execute(git diff*)', 'read(./*)', 'edit(./*)', 'move(./*)']";
    check(
        &world,
        OTHER_AGENT,
        allowed,
        &[
            (diff("description", json!("Show changes")), "allowed"),
            (diff("env", json!({"GIT_EXTERNAL_DIFF": "rm x"})), "refused"),
            (diff("workingDirectory", json!("/")), "refused"),
            (diff("shell", json!("/x/evil")), "refused"),
            (call("read", &json!({"file_path": "a", "offset": 1, "limit": 2})), "allowed"),
            (call("read", &json!({"uri": "file:///etc/shadow"})), "refused"),
            (call("read", &json!({"path": "a", "paths": ["/etc/shadow"]})), "refused"),
            (call("edit", &json!({"file_path": "a", "content": "text"})), "allowed"),
            (call("edit", &json!({"path": "a", "edits": [{"path": "/etc/x"}]})), "refused"),
            (call("move", &json!({"path": "a", "to": "/etc/x"})), "refused"),
        ],
    );
}
