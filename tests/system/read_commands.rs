//! Commands that read: the channel, an inbox, a worker's log, the whole transcript.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use agent_worker_host::DaemonSocket;
use agent_worker_protocol::{
    Priority,
    api::{SendReply, SendRequest},
};
use serde_json::{Value, json};

use crate::{
    list_commands::{send, start_team},
    normalized_output::run_lines_normalized,
    shell_transcript::shell,
    world::World,
};

#[test]
fn peek_reads_the_channel_and_an_inbox_and_remembers_the_agent_of_use() {
    let world = start_team();
    world.run(&["stop", "owl"]);
    send(&world, "owl@team", "one for the owl");
    send(&world, "@team", "for \u{1b}[31mnobody");
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker peek
        agent-worker peek --to owl@team -n 1
        agent-worker peek owl --inbox
        agent-worker peek coder --inbox
        agent-worker peek @team --inbox
        agent-worker peek @team --find NOBODY
        agent-worker peek @team --follow --since 1 -n 5
        agent-worker peek @team --thread 1 --since 6
        agent-worker peek @nothing
        agent-worker use owl@team
        agent-worker peek --inbox
    "), @r"
    $ agent-worker peek
    TIME #1 user → owl: one for the owl
    TIME #2 user: for ␛[31mnobody
    $ agent-worker peek --to owl@team -n 1
    TIME #2 user: for ␛[31mnobody
    $ agent-worker peek owl --inbox
    TIME #1 user → owl: one for the owl
    $ agent-worker peek coder --inbox
    ! no pending messages for coder@team
    $ agent-worker peek @team --inbox
    ! error: an inbox belongs to an agent: name one
    ! hint: such as: agent-worker peek coder@review --inbox
    (exit 2)
    $ agent-worker peek @team --find NOBODY
    TIME #2 user: for ␛[31mnobody
    $ agent-worker peek @team --follow --since 1 -n 5
    ! error: --number cannot be combined with --follow and --since, which print every message after that position
    (exit 2)
    $ agent-worker peek @team --thread 1 --since 6
    ! no message of this thread after that position
    $ agent-worker peek @nothing
    ! error: there is no instance `@nothing`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker use owl@team
    owl@team
    $ agent-worker peek --inbox
    TIME #1 user → owl: one for the owl
    ");
    let inbox = world.json(&["peek", "owl", "--inbox", "--json"]);
    assert_eq!(inbox["items"][0]["wakes"], true, "{inbox}");
}

#[test]
fn logs_show_what_a_worker_printed_and_nothing_of_it_is_obeyed() {
    let world = start_team();
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker logs coder
        agent-worker send coder@team print --wait
        agent-worker logs coder
        agent-worker logs coder@nothing
        agent-worker logs @team
        agent-worker send owl@team hello --wait
        agent-worker logs owl
    "), @r#"
    $ agent-worker logs coder
    ! error: coder@team has not had a turn yet
    ! hint: send it a message: agent-worker send coder@team "…"
    (exit 1)
    $ agent-worker send coder@team print --wait
    printed
    ! #1 → coder
    $ agent-worker logs coder
    → shell: printf "one\ntwo \033[31mred"
    one
    two ␛[31mred
    ← shell: ok, TIME
    ! coder, turn started TIME ago:
    $ agent-worker logs coder@nothing
    ! error: there is no instance `coder@nothing`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker logs @team
    ! error: @team is an instance, and each agent has its own log
    ! hint: list its agents: agent-worker ls @team
    (exit 2)
    $ agent-worker send owl@team hello --wait
    Hoo.
    ! #3 → owl
    $ agent-worker logs owl
    ! owl, turn started TIME ago:
    ! no output
    "#);
    let log = world.json(&["logs", "coder", "--json"]);
    assert!(log["text"].as_str().unwrap().contains("\none\ntwo \u{1b}[31mred\n"), "{log}");
}

fn follow_logs(world: &World) -> Child {
    let mut command = world.command(&["logs", "coder@team", "--follow"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn logs_are_followed_from_turn_to_turn_until_the_run_is_over() {
    let world = start_team();
    let mut follower = follow_logs(&world);
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut talk = BufReader::new(follower.stderr.take().unwrap()).lines();
    let mut turn = |what: &str| {
        let code = world.run(&["send", "coder@team", what, "--wait"]).code;
        assert!(talk.next().unwrap().unwrap().starts_with("coder, turn started"));
        code
    };
    let mut printed = |many: usize| {
        let lines: Vec<String> = lines.by_ref().take(many).map(Result::unwrap).collect();
        lines
            .iter()
            .map(|line| line.split([':', ',']).next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(turn("print"), 0);
        assert_eq!(printed(4), ["→ shell", "one", "two ␛[31mred", "← shell"]);
    }
    // Two interrupted turns, each in the middle of a line: the log of the next turn begins on a new line.
    assert_ne!(turn("break"), 0);
    assert_eq!(printed(2), ["→ shell", "half"]);
    assert!(talk.next().unwrap().unwrap().starts_with("coder, turn started"));
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    assert_eq!(printed(2), ["→ shell", "half"]);
    assert_eq!(talk.next().unwrap().unwrap(), "the run has ended");
    assert!(follower.wait().unwrap().success());
}

#[test]
fn what_is_printed_while_nothing_else_happens_is_followed_too() {
    let world = World::new();
    let wait =
        |file: &str| format!("for i in $(seq 2000); do [ -e {file} ] && break; sleep 0.02; done");
    let script = format!("echo first >&2; {}; echo more >&2; {}", wait("print"), wait("end"));
    let command = json!(["sh", "-c", script]);
    world.file(
        "team.yaml",
        &format!("agents:\n  coder: {{ backend: command, command: {command} }}\n"),
    );
    assert_eq!(world.run(&["start", "team.yaml", "--background"]).code, 0);
    let mut follower = follow_logs(&world);
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    send(&world, "coder@team", "go");
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    let printed = Instant::now();
    world.file("print", "");
    assert_eq!(lines.next().unwrap().unwrap(), "more");
    // Sooner than the next heartbeat of its worker.
    assert!(printed.elapsed() < Duration::from_secs(10), "{:?}", printed.elapsed());
    world.file("end", "");
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    assert!(follower.wait().unwrap().success());
}

#[test]
fn export_writes_all_messages_and_the_documents() {
    let world = start_team();
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker send coder@team 'please note it' --wait
        agent-worker send @team \"$(printf 'two\\nlines')\"
        agent-worker export @team --format md
        agent-worker export @nothing
        agent-worker export @team --format pdf
    "), @r#"
    $ agent-worker send coder@team 'please note it' --wait
    noted
    ! #1 → coder
    $ agent-worker send @team "$(printf 'two\nlines')"
    #3 (wakes no agent)
    $ agent-worker export @team --format md
    # @team

    ## #1 user → coder
    *INSTANT*

    > please note it

    ## #2 coder (answer to #1)
    *INSTANT*

    > noted

    ## #3 user
    *INSTANT*

    > two
    > lines

    # notes.md of @team
    *revision 1 by coder*

    ````
    a fence:
    ```
    ````
    $ agent-worker export @nothing
    ! error: there is no instance `@nothing`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker export @team --format pdf
    ! error: invalid value 'pdf' for '--format <FORMAT>'
    !   [possible values: json, md]
    !
    ! For more information, try '--help'.
    (exit 2)
    "#);
    let written: Value = serde_json::from_str(&world.run(&["export", "@team"]).stdout).unwrap();
    assert_eq!(written["instance"], "team");
    assert_eq!(written["items"].as_array().unwrap().len(), 3);
}

#[test]
fn export_writes_a_long_message_whole() {
    let world = start_team();
    let long = "12345678 ü\n".repeat(150_000);
    world.file("long.txt", &long);
    let sent = shell(&world, "agent-worker send @team - < long.txt");
    assert_eq!(sent.code, 0, "{sent:?}");
    let written: Value = serde_json::from_str(&world.run(&["export", "@team"]).stdout).unwrap();
    let message = &written["items"][0];
    assert!(message["body"].as_str().unwrap().trim_end() == long.trim_end(), "{}", message["seq"]);
    assert_eq!(message.get("resource"), None);
    let shown = world.run(&["export", "@team", "--format", "md"]).stdout;
    assert_eq!(shown.matches("12345678 ü\n").count(), 150_000);
    let peeked = world.json(&["peek", "@team", "--json"]);
    assert!(peeked["items"][0]["body"].as_str().unwrap().len() < 4_000);
}

#[test]
fn export_reads_page_after_page_without_a_gap_and_a_reader_who_leaves_is_no_error() {
    const MANY: i64 = 503;
    let world = start_team();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let daemon = DaemonSocket::at(world.home().join("daemon.sock"));
        for n in 1..=MANY {
            let request = SendRequest {
                target: Some("@team".parse().unwrap()),
                project: Some(world.project()),
                message: format!("number {n}"),
                to: Vec::new(),
                cc: Vec::new(),
                reply_to: None,
                alone: false,
                now: false,
                priority: Priority::Normal,
                attachments: Vec::new(),
            };
            let _: SendReply = daemon.post("/messages", &request).await.unwrap();
        }
    });
    let written: Value = serde_json::from_str(&world.run(&["export", "@team"]).stdout).unwrap();
    let bodies = written["items"].as_array().unwrap().iter().map(|one| one["body"].clone());
    let expected = (1..=MANY).map(|n| Value::from(format!("number {n}")));
    assert!(bodies.eq(expected), "every one of them, once, in order");
    for line in ["export @team", "export @team --format md", "peek @team -n 1000", "runs --json"] {
        let said = shell(&world, &format!("set +o pipefail; agent-worker {line} | head -n 1"));
        assert_eq!((said.code, said.stdout.lines().count(), said.stderr.as_str()), (0, 1, ""));
    }
    let said = shell(&world, "agent-worker export @team | head -n 1");
    assert_eq!(said.code, 0, "a pipe that breaks is no failure: {said:?}");
}

#[test]
fn a_long_text_is_kept_once_and_read_in_parts_by_its_own_team_alone() {
    let world = start_team();
    world.file("build.log", "all is well\n");
    let kept = world.json(&["resource", "create", "build.log", "--type", "text/x-log", "--json"]);
    let id = kept["id"].as_str().unwrap();
    assert_eq!(kept["bytes"], 12);
    assert_eq!(world.json(&["resource", "create", "build.log", "--json"])["id"], id, "the same");
    let read = world.run(&["resource", "read", id]);
    assert_eq!((read.code, read.stdout.as_str()), (0, "all is well\n"), "{read:?}");
    assert_eq!(world.run(&["resource", "read", id, "--range", "4..6"]).stdout, "is");
    let list = world.list(&["resource", "list", "--json"]);
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!((&list[0]["id"], &list[0]["type"]), (&kept["id"], &"text/x-log".into()));
    let other = world.run(&["up", "team.yaml", "--tag", "other"]);
    assert_eq!(other.code, 0, "{other:?}");
    let elsewhere = world.run(&["resource", "read", id, "--target", "@team:other"]);
    assert_eq!(elsewhere.code, 1, "{elsewhere:?}");
    assert!(elsewhere.stderr.contains("no such resource"), "{elsewhere:?}");
    let scoped = ["token", "create", "ci", "--allow", "read,run", "--instance", "@team:*"];
    assert_eq!(world.run(&scoped).code, 0);
    let tokens = world.run(&["token", "list"]).stdout;
    assert!(tokens.contains("read,run") && tokens.contains("@team:*"), "{tokens}");
    let wrong = world.run(&["token", "create", "x", "--allow", "rum"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("there is no permission `rum`"), "{wrong:?}");
}
