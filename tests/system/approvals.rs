//! Approvals from outside: a stand-in for Claude Code asks, people answer, and daemons are killed in between.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::{
    terminal::{Terminal, words_of},
    world::{World, is_alive, kill, wait_for},
};

/// Writes the stream of `claude -p`: lists its tools, asks the gate for permission, and acts if the gate allows it.
pub(crate) const CLAUDE_STUB: &str = r#"#!/bin/bash
for arg; do [ "$last" = --mcp-config ] && config=$arg; last=$arg; done
of() { sed 's/.*"'"$1"'":{"headers":{"Authorization":"Bearer \([0-9a-f]*\)"},"type":"http","url":"http:..\([^"]*\)".*/\'"$2"'/' "$config"; }
ask() {
    url=$(of "$1" 2); at=${url%%/*}
    exec 3<>"/dev/tcp/${at%%:*}/${at##*:}"
    printf 'POST /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s' "${url#*/}" "$(of "$1" 1)" "${#2}" "$2" >&3
    cat <&3
}
echo '{"type":"system","subtype":"init","session_id":"s"}'
ask team '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' >/dev/null
"$AW_BINARY" approve 1 >own.txt 2>&1
said=$(ask gate '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"approve","arguments":{"tool_name":"Bash","input":{"command":"echo once >> ran.txt"},"tool_use_id":"t1"}}}')
case "$said" in
*behavior*allow*) echo once >> ran.txt; result=Ran. ;;
*) result=Refused. ;;
esac
echo '{"type":"result","subtype":"success","is_error":false,"result":"'$result'","session_id":"s"}'
"#;

/// A command of plain words that does the same as the one of the stub.
pub(crate) const PLAIN_COMMAND: &str = "./note once";

/// Writes the program of [`PLAIN_COMMAND`].
pub(crate) fn write_note_command(world: &World) {
    let note = world.file("note", "#!/bin/sh\necho \"$1\" >> ran.txt\n");
    fs::set_permissions(&note, fs::Permissions::from_mode(0o755)).unwrap();
}

fn team(world: &World, permissions: &str) -> String {
    team_with_stub(world, permissions, CLAUDE_STUB)
}

fn team_with_stub(world: &World, permissions: &str, stub: &str) -> String {
    let claude = world.file("claude.sh", stub);
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let text = format!(
        "name: asking\nagents:\n  coder:\n    backend: claude\n    mode: isolated\n    command: {}\n    \
         env: [AW_BINARY, AGENT_WORKER_HOME]\n    permissions: {{ {permissions} }}\nkickoff: '@coder go'\n",
        claude.display()
    );
    world.file("asking.yaml", &text).to_str().unwrap().to_owned()
}

fn world() -> World {
    World::with(&[("AW_BINARY", env!("CARGO_BIN_EXE_agent-worker"))])
}

fn executed_commands(world: &World) -> String {
    fs::read_to_string(world.project().join("ran.txt")).unwrap_or_default()
}

#[test]
fn what_was_asked_before_the_daemon_was_killed_is_approved_after_it_and_done_once() {
    let world = world();
    let file = team(&world, "");
    let (code, envelope) = world.envelope(&["run", &file, "--json"]);
    assert_eq!((code, &envelope["outcome"]), (4, &json!("human")), "{envelope}\n{}", world.log());
    let hint = envelope["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("agent-worker pending --target @asking"), "{hint}");
    let daemon = world.daemon_pid().unwrap();
    kill(daemon, "KILL");
    wait_for("its death", || (!is_alive(daemon)).then_some(()));
    let open = wait_for("the request", || {
        let open = world.list(&["pending", "--json"]);
        (!open.as_array().unwrap().is_empty()).then_some(open)
    });
    assert_eq!(
        (&open[0]["tool"], &open[0]["args"]["command"]),
        (&json!("Bash"), &json!("echo once >> ran.txt"))
    );
    assert_eq!(executed_commands(&world), "", "nothing has happened");
    let shown = world.run(&["pending", "1"]);
    assert!(shown.stdout.contains("\n$ echo once >> ran.txt\n"), "{shown:?}");
    let status = world.run(&["status", "coder@asking"]);
    assert!(status.stdout.contains("waiting for approval (#1)"), "{status:?}");
    let approved = world.run(&["approve", "1"]);
    assert!(approved.stdout.starts_with("request #1 is approved: coder · Bash"), "{approved:?}");
    let (code, envelope) = world.envelope(&["attach", "@asking", "--json"]);
    assert_eq!((code, &envelope["outcome"]), (0, &json!("done")), "{envelope}");
    assert_eq!(executed_commands(&world), "once\n");
    assert_eq!(world.run(&["approve", "1"]).code, 1, "once");
    assert_eq!(world.list(&["pending", "--json"]), Value::Array(Vec::new()));
    let own = fs::read_to_string(world.project().join("own.txt")).unwrap();
    assert!(own.contains("only a person may answer an approval request"), "{own}");
}

#[test]
fn a_denied_call_and_a_call_without_an_approver_do_not_happen() {
    let denied = world();
    let file = team(&denied, "");
    assert_eq!(denied.envelope(&["run", &file, "--json"]).0, 4);
    let told = denied.run(&["deny", "1", "-r", "not today"]);
    assert!(told.stdout.starts_with("request #1 is denied"), "{told:?}");
    assert_eq!(denied.envelope(&["attach", "@asking", "--json"]).0, 0);
    let alone = world();
    let file = team(&alone, "on_ask: deny");
    assert_eq!(alone.envelope(&["run", &file, "--json"]).0, 0, "{}", alone.log());
    assert_eq!(
        (executed_commands(&denied), executed_commands(&alone)),
        (String::new(), String::new())
    );
}

/// Waits until the screen shows a request that can be answered.
fn wait_for_prompt(terminal: &Terminal) -> Vec<String> {
    terminal.wait_until(|drawn| drawn.iter().any(|line| line.contains("  y once")))
}

#[test]
fn a_user_who_watches_reads_all_of_a_request_and_answers_it_with_a_key() {
    let world = world();
    team(&world, "on_ask: deny");
    let mut terminal = Terminal::open(&world, 120, "run asking.yaml");
    let drawn = wait_for_prompt(&terminal);
    let at = drawn.iter().position(|line| line == "  #1 coder wants Bash").unwrap();
    // Shell syntax is allowed once only.
    let request = ["  │ $ echo once >> ran.txt", "  y once · n deny · r deny with a reason"];
    assert_eq!(drawn[at + 1..], request, "{drawn:#?}");
    terminal.press_until("y", || !executed_commands(&world).is_empty());
    let (ended, all) = terminal.wait_exit();
    assert!(ended.success(), "{all}");
    assert!(words_of(&all).contains("request #1 (Bash) is approved by user"), "{all}");
    assert_eq!(executed_commands(&world), "once\n");
}

#[test]
fn a_user_who_watches_allows_a_call_for_the_run_with_a_key_and_sees_what_that_allows() {
    let world = world();
    team_with_stub(&world, "", &CLAUDE_STUB.replace("echo once >> ran.txt", PLAIN_COMMAND));
    write_note_command(&world);
    let mut terminal = Terminal::open(&world, 120, "run asking.yaml");
    let drawn = wait_for_prompt(&terminal);
    let pattern = "Bash(./note once)";
    let [.., shown, keys] = &drawn[..] else { panic!("{drawn:#?}") };
    assert_eq!(*shown, format!("  for this run │ {pattern}"));
    assert_eq!(keys, "  y once · a for this run · n deny · r deny with a reason");
    terminal.press_until("a", || !executed_commands(&world).is_empty());
    let (ended, all) = terminal.wait_exit();
    assert!(ended.success(), "{all}");
    let all = words_of(&all);
    assert!(all.contains("request #1 (Bash) is approved by user"), "{all}");
    assert!(all.contains(&format!("coder: may for the run (grant #1): {pattern}")), "{all}");
}

#[test]
fn each_key_of_top_decides_a_request() {
    for (key, reason, is_executed) in
        [("y", "", true), ("a", "", true), ("n", "", false), ("r", "not today\r", false)]
    {
        let world = world();
        team_with_stub(&world, "", &CLAUDE_STUB.replace("echo once >> ran.txt", PLAIN_COMMAND));
        write_note_command(&world);
        assert_eq!(world.run(&["up", "asking.yaml"]).code, 0);
        let mut top = Terminal::open(&world, 80, "top");
        top.wait_until_shown("Attention (1)");
        top.type_text("a");
        top.wait_until_shown("y once");
        if reason.is_empty() {
            let decided = || world.run(&["pending", "--json"]).stdout.contains("\"items\":[]");
            top.press_until(key, decided);
        } else {
            top.press_until(key, || shown_words(&world).contains("Enter sends"));
            top.type_text(reason);
        }
        let answer = if is_executed { "Ran." } else { "Refused." };
        wait_for(answer, || world.run(&["peek", "@asking"]).stdout.contains(answer).then_some(()));
        assert_eq!(!executed_commands(&world).is_empty(), is_executed, "{key}");
        top.type_text("q");
        let (ended, all) = top.wait_exit();
        assert!(ended.success(), "{key}: {all}");
    }
}

#[test]
fn a_user_who_attaches_to_a_waiting_run_answers_it_with_a_key_too() {
    let world = world();
    let file = team(&world, "");
    assert_eq!(world.envelope(&["run", &file, "--json"]).0, 4, "{}", world.log());
    let mut terminal = Terminal::open(&world, 80, "attach @asking");
    wait_for_prompt(&terminal);
    terminal.press_until("y", || !executed_commands(&world).is_empty());
    let (ended, all) = terminal.wait_exit();
    assert!(ended.success(), "{all}");
    assert_eq!(executed_commands(&world), "once\n");
}

#[test]
fn keys_that_were_meant_for_something_else_approve_nothing_and_one_denies() {
    let world = world();
    team(&world, "on_ask: deny");
    let mut terminal = Terminal::open(&world, 40, "run asking.yaml");
    // Keys before any request, and keys as part of a longer input.
    terminal.type_text("y");
    terminal.wait_until(|drawn| !drawn.is_empty());
    terminal.type_text("yy");
    wait_for_prompt(&terminal);
    terminal.type_text("yes\r");
    terminal.resize("120");
    terminal.type_text("\u{1b}[A");
    let refused = || shown_words(&world).contains("request #1 (Bash) is denied by user");
    terminal.press_until("n", refused);
    let (ended, all) = terminal.wait_exit();
    assert!(ended.success(), "{all}");
    assert_eq!(executed_commands(&world), "", "{all}");
}

#[test]
fn a_user_who_watches_denies_a_call_with_a_reason_typed_at_a_prompt() {
    let world = world();
    let stub =
        CLAUDE_STUB.replace("result=Refused.", "echo \"$said\" > denied.txt; result=Refused.");
    team_with_stub(&world, "", &stub);
    let mut terminal = Terminal::open(&world, 80, "run asking.yaml");
    wait_for_prompt(&terminal);
    terminal.press_until("r", || shown_words(&world).contains("Enter sends · Esc goes back"));
    // Letters that are keys elsewhere, a mistake that is removed, and the end of the line.
    terminal.type_text("yn");
    terminal.type_text("\u{15}");
    terminal.type_text("not todaz");
    terminal.type_text("\u{7f}");
    terminal.type_text("y\r");
    let (ended, all) = terminal.wait_exit();
    assert!(ended.success(), "{all}");
    assert!(words_of(&all).contains("request #1 (Bash) is denied by user"), "{all}");
    assert_eq!(executed_commands(&world), "");
    let told = fs::read_to_string(world.project().join("denied.txt")).unwrap();
    assert!(told.contains("denied by user: not today"), "{told}");
}

/// An agent that asks a question with these options, and repeats nothing of the answer.
fn asking_team(world: &World, options: &str) {
    let file = format!(
        "name: asking\nagents:\n  lead:\n    backend: mock\n    mock:\n      - on: go\n        calls:\n          \
         - {{ tool: ask_human, args: {{ question: 'Ship it today?'{options} }} }}\n      - say: Noted.\n\
         kickoff: '@lead go'\n"
    );
    world.file("asking.yaml", &file);
}

#[test]
fn a_user_who_watches_answers_a_question_with_a_number_key() {
    let world = world();
    asking_team(&world, ", options: [today, after the review]");
    let mut terminal = Terminal::open(&world, 80, "run asking.yaml");
    let drawn = terminal.wait_until(|drawn| drawn.iter().any(|line| line.contains("answers")));
    let at = drawn.iter().position(|line| line == "  question #1 of lead").unwrap();
    let expected = ["  │ Ship it today?", "  1 today", "  2 after the review", "  1–2 answers"];
    assert_eq!(drawn[at + 1..], expected, "{drawn:#?}");
    terminal.press_until("2", || shown_words(&world).contains(": Noted."));
    let (ended, all) = terminal.wait_exit();
    assert!(ended.success(), "{all}");
    assert!(words_of(&all).contains(": Noted."), "{all}");
}

#[test]
fn a_user_who_watches_types_the_answer_to_a_question_without_options() {
    let world = world();
    asking_team(&world, "");
    let mut terminal = Terminal::open(&world, 60, "run asking.yaml");
    terminal.wait_until(|drawn| drawn.iter().any(|line| line.contains("t types an answer")));
    terminal.press_until("t", || shown_words(&world).contains("Enter sends"));
    terminal.type_text("after the review");
    terminal.wait_until(|drawn| drawn.iter().any(|line| line == "  answer: after the review▏"));
    terminal.type_text("\r");
    let (ended, all) = terminal.wait_exit();
    assert!(ended.success(), "{all}");
    assert!(words_of(&all).contains(": Noted."), "{all}");
}

/// Returns all words that the terminal has shown so far.
fn shown_words(world: &World) -> String {
    let shown = fs::read(world.project().join("shown")).unwrap_or_default();
    words_of(&String::from_utf8_lossy(&shown))
}
