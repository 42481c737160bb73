//! The input line of `attach` and `start` in a terminal: messages to the team, and its place beside requests.

use crate::{
    terminal::{Terminal, words_of},
    world::{World, wait_for},
};

const TEAM: &str = "name: team\nagents:\n  coder:\n    backend: mock\n    mock:\n      \
    - { on: ask me, calls: [{ tool: ask_human, args: { question: 'Ship it?', options: [today, later] } }], say: Asked. }\n      \
    - { say: Noted. }\n";
const EMPTY_LINE: &str = "> ▏message the team, such as: @coder and the tests?";

fn world() -> World {
    let world = World::new();
    world.file("team.yaml", TEAM);
    world
}

#[test]
fn a_person_who_attaches_types_messages_to_the_team_and_printed_lines_leave_the_text_whole() {
    let world = world();
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    let mut attached = Terminal::open(&world, 80, "attach @team");
    attached.wait_until_drawn(EMPTY_LINE);
    attached.type_text("@coder and the tests?\r");
    attached.wait_until_words("#1 user → coder: @coder and the tests?");
    attached.wait_until_words("coder (answer to #1): Noted.");
    // Lines that appear above while a text is typed.
    attached.type_text("half a 请");
    attached.wait_until_drawn("> half a 请▏");
    assert_eq!(world.run(&["send", "coder@team", "from elsewhere", "--wait"]).code, 0);
    attached.wait_until_words("from elsewhere #4 coder (answer to #3): Noted.");
    attached.wait_until_drawn("> half a 请▏");
    attached.type_text("\u{1b}[D\u{7f}\u{7f}");
    attached.wait_until_drawn("> half ▏请");
    attached.type_text("\u{1b}");
    attached.wait_until_drawn(EMPTY_LINE);
    attached.type_text("@codr look\r");
    attached.wait_until_words("#5: @codr is not an agent here; did you mean @coder?");
    attached.wait_until_words("#5 wakes no agent; mention one with @name");
    attached.resize("40");
    attached.wait_until_drawn("> ▏message the team, such as: @coder a…");
    attached.type_text("\u{3}");
    let (ended, all) = attached.wait_exit();
    assert!(ended.success(), "{all}");
    assert!(all.contains("\u{1b}[?2004h") && all.contains("\u{1b}[?2004l"), "pastes are marked");
    assert!(words_of(&all).contains("@team runs in the background"), "{all}");
}

#[test]
fn an_open_question_has_the_keys_unless_a_message_is_being_typed() {
    let world = world();
    let mut started = Terminal::open(&world, 80, "start team.yaml");
    started.wait_until_drawn(EMPTY_LINE);
    started.type_text("@coder ask me\r");
    started.wait_until_drawn("  1–2 answers");
    started.wait_until_drawn("> keys answer the item · Tab types here");
    // A message needs no Tab: only a single key is an answer.
    started.type_text("2 moments");
    started.wait_until_drawn("> 2 moments▏");
    started.type_text("\u{1b}");
    started.wait_until_drawn("> keys answer the item · Tab types here");
    started.type_text("\t");
    started.wait_until_drawn("> ▏Tab goes back to the item");
    started.type_text("1 moment");
    started.wait_until_drawn("> 1 moment▏");
    assert_eq!(world.list(&["answer", "--json"])[0]["answer"], serde_json::Value::Null);
    started.type_text("\r");
    started.wait_until_words("#3 user: 1 moment");
    started.wait_until_drawn("> keys answer the item · Tab types here");
    let answered =
        || world.run(&["peek", "@team"]).stdout.contains("user → coder (reply to #2): later");
    started.press_until("2", answered);
    started.wait_until_drawn(EMPTY_LINE);
    // A question that opens while a message is typed does not take its keys.
    started.type_text("draft");
    started.wait_until_drawn("> draft▏");
    assert_eq!(world.run(&["send", "coder@team", "ask me again"]).code, 0);
    started.wait_until_drawn("  1–2 answers");
    started.type_text("1");
    started.wait_until_drawn("> draft1▏");
    started.type_text("\u{3}");
    let (ended, all) = started.wait_exit();
    assert!(ended.success(), "{all}");
    assert_eq!(world.list(&["answer", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn the_quit_key_restores_the_terminal_and_ends_only_the_command() {
    let world = world();
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    for (words, line) in [
        ("attach @team", EMPTY_LINE),
        ("chat coder@team", "> ▏message coder"),
        ("start team.yaml --tag other", EMPTY_LINE),
    ] {
        let mut shown = Terminal::open(&world, 80, words);
        shown.wait_until_drawn(line);
        shown.type_text("\u{1c}");
        let (ended, all) = shown.wait_exit();
        assert_eq!(ended.code(), Some(131), "{words}: {all}");
        assert!(all.rfind("\u{1b}[?2004l") > all.rfind("\u{1b}[?2004h"), "{words}: {all}");
    }
    for target in ["@team", "@team:other"] {
        assert_eq!(world.json(&["status", target, "--json"])["state"], "running");
    }
}

#[test]
fn a_message_that_is_refused_is_kept_for_editing() {
    let world = world();
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    assert_eq!(world.run(&["new", "helper@team", "-b", "mock", "--say", "Hi."]).code, 0);
    let mut chat = Terminal::open(&world, 80, "chat helper@team");
    chat.wait_until_drawn("> ▏message helper");
    assert_eq!(world.run(&["agent", "end", "helper@team"]).code, 0);
    chat.type_text("are you there?\r");
    chat.wait_until_words("could not send the message:");
    chat.wait_until_drawn("> are you there?▏");
    chat.type_text("\u{4}\u{15}\u{4}");
    let (ended, all) = chat.wait_exit();
    assert!(ended.success(), "{all}");
}

#[test]
fn there_is_no_line_without_a_terminal_in_ci_and_with_json() {
    let world = world();
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    for (words, agent) in [
        ("attach @team --json", "coder@team"),
        ("start team.yaml --tag other --ci", "coder@team:other"),
    ] {
        let mut followed = Terminal::open(&world, 80, words);
        wait_for("the answer", || {
            (world.run(&["send", agent, "hello", "--wait"]).code == 0).then_some(())
        });
        followed.wait_until_words("Noted.");
        followed.type_text("\u{3}");
        let (_, all) = followed.wait_exit();
        assert!(!all.contains("> ▏") && !all.contains("\u{1b}[?2004h"), "{words}: {all}");
    }
}
