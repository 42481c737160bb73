//! `chat` with the real binary: in a pipe, and in a terminal with every key.

use crate::{
    normalized_output::run_lines_normalized,
    terminal::{Terminal, words_of},
    world::{World, wait_for},
};

/// An agent that answers at once, or works on `slow` until the file `go` exists, or fails.
const TEAM: &str = "name: team\nagents:\n  coder:\n    backend: mock\n    mock:\n      \
    - { on: slow, run: 'touch up; until [ -e go ]; do sleep 0.05; done', say: Slowly done. }\n      \
    - { on: crash, fail: fatal }\n      - { on: control, say: \"a\\e[2Jb\" }\n      - { say: Done. }\n";

fn world() -> World {
    let world = World::new();
    world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    world
}

#[test]
fn in_a_pipe_each_line_is_a_message_and_its_answer_is_printed() {
    let world = world();
    insta::assert_snapshot!(run_lines_normalized(&world, r"
        printf 'first\n\nsecond' | agent-worker chat coder@team
        printf 'control\n' | agent-worker chat coder
        agent-worker chat coder@team --history 2 < /dev/null
        printf 'first\ncrash\nnever sent\n' | agent-worker chat coder@team
        agent-worker peek @team --find never
        printf 'hello' | agent-worker chat ghost@team
        agent-worker chat @team
        agent-worker chat
    "), @r"
    $ printf 'first\n\nsecond' | agent-worker chat coder@team
    Done.
    Done.
    $ printf 'control\n' | agent-worker chat coder
    a␛[2Jb
    $ agent-worker chat coder@team --history 2 < /dev/null
    you: control
    coder: a␛[2Jb
    $ printf 'first\ncrash\nnever sent\n' | agent-worker chat coder@team
    Done.
    ! #9 for coder is dead: failed (fatal): scripted
    (exit 1)
    $ agent-worker peek @team --find never
    ! no message contains this text
    $ printf 'hello' | agent-worker chat ghost@team
    ! error: there is no agent `ghost` in @team
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker chat @team
    ! error: `@team` is a team, and a conversation is with one agent
    ! hint: name one: agent-worker chat agent@workflow; or choose one for this folder: agent-worker use agent
    (exit 2)
    $ agent-worker chat
    ! error: no agent is named
    ! hint: name one: agent-worker chat agent@workflow; or choose one for this folder: agent-worker use agent
    (exit 2)
    ");
    let said = world.run(&["chat", "coder@team", "--json"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "nothing was sent: {said:?}");
}

#[test]
fn a_person_talks_with_an_agent_and_leaves_with_ctrl_d() {
    let world = world();
    assert_eq!(world.run(&["send", "coder@team", "from before", "--wait"]).code, 0);
    let mut chat = Terminal::open(&world, 80, "chat coder@team");
    chat.wait_until_drawn("> ▏message coder · Ctrl-D leaves");
    // Left, Right, Home, End, Backspace, Delete, Ctrl-A, Ctrl-E, Ctrl-W and Ctrl-U.
    for (keys, line) in [
        ("gone\u{15}fst", "> fst▏"),
        ("\u{1b}[D\u{1b}[D\u{1b}[D\u{1b}[Cir", "> fir▏st"),
        ("\u{1b}[Fx\u{7f}", "> first▏"),
        ("\u{1b}[Hx\u{1}\u{1b}[3~", "> ▏first"),
        ("\u{5} wörd\u{17}请", "> first 请▏"),
    ] {
        chat.type_text(keys);
        chat.wait_until_drawn(line);
    }
    chat.type_text("\r");
    chat.wait_until_words("you: first 请 coder: Done.");
    chat.type_text("control\r");
    chat.wait_until_words("you: control coder: a␛[2Jb");
    // History.
    chat.type_text("\u{1b}[A\u{1b}[A");
    chat.wait_until_drawn("> first 请▏");
    chat.type_text("\u{1b}[B");
    chat.wait_until_drawn("> control▏");
    chat.type_text("\u{1b}");
    chat.wait_until_drawn("> ▏message coder");
    // A paste is one message, also with a line break in it.
    chat.type_text("\u{1b}[200~one\rtwo\u{1b}[201~");
    chat.wait_until_drawn("> one⏎two▏");
    chat.type_text("\r");
    chat.wait_until_words("you: one two coder: Done.");
    chat.type_text("\u{4}");
    let (ended, all) = chat.wait_exit();
    assert!(ended.success(), "{all}");
    let words = words_of(&all);
    let start = "talking with coder@team you: from before coder: Done.";
    assert!(words.contains(start), "{words}");
}

#[test]
fn ctrl_c_ends_only_the_wait_and_the_agent_finishes_its_turn() {
    let world = world();
    let mut chat = Terminal::open(&world, 80, "chat coder@team");
    chat.wait_until_drawn("> ▏message coder");
    chat.type_text("slow\r");
    wait_for("the turn", || world.project().join("up").exists().then_some(()));
    chat.wait_until_drawn("> ▏coder has your message · Ctrl-C stops waiting");
    chat.type_text("\u{3}");
    chat.wait_until_words("no longer waiting; coder continues, and its answer");
    chat.wait_until_drawn("> ▏message coder · Ctrl-D leaves");
    chat.type_text("\u{3}");
    let (ended, all) = chat.wait_exit();
    assert_eq!(ended.code(), Some(130), "{all}");
    let words = words_of(&all);
    assert!(words.contains("error: you left before #1 was acted on"), "{words}");
    assert!(words.contains("agent-worker receipts 1 @team"), "{words}");
    let status = world.json(&["status", "coder@team", "--json"]);
    assert_eq!(status["state"], "running", "{status}");
    world.file("go", "");
    wait_for("the answer", || {
        let peek = world.run(&["peek", "@team"]);
        peek.stdout.contains("Slowly done.").then_some(())
    });
}

#[test]
fn the_end_of_the_run_ends_the_conversation() {
    let world = world();
    let mut chat = Terminal::open(&world, 40, "chat coder@team");
    chat.wait_until_drawn("> ▏message coder");
    chat.type_text("slow\r");
    wait_for("the turn", || world.project().join("up").exists().then_some(()));
    chat.wait_until_drawn("coder has your message");
    assert_eq!(world.run(&["stop", "@team", "--now"]).code, 0);
    let (ended, all) = chat.wait_exit();
    assert_eq!(ended.code(), Some(1), "{all}");
    let words = words_of(&all);
    assert!(words.contains("error: the run ended before #1 was acted on"), "{words}");
    let said = world.run(&["chat", "coder@team"]);
    assert_eq!(said.code, 1, "{said:?}");
}
