//! `top` in a terminal: its lists, its keys, and the terminal after it.

use crate::{
    terminal::Terminal,
    world::{World, kill, wait_for},
};

const TEAM: &str = "name: team\nagents:\n  coder:\n    backend: mock\n    mock:\n      \
    - { on: ask me, calls: [{ tool: ask_human, args: { question: 'Ship it?', options: [today, later] } }], say: Asked. }\n      \
    - { on: slow, run: 'until [ -e go ]; do sleep 0.05; done', say: Done. }\n      - { say: Noted. }\n";

fn world() -> World {
    let world = World::new();
    world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    world
}

/// Checks that the terminal left the second screen, and shows its cursor and unmarked pastes.
fn assert_restored(all: &str) {
    assert_eq!(all.matches("\u{1b}[?1049h").count(), 1, "{all}");
    for (on, off) in [("?1049l", "?1049h"), ("?25h", "?25l"), ("?2004l", "?2004h")] {
        let last = |sequence: &str| all.rfind(&format!("\u{1b}[{sequence}"));
        assert!(last(on) > last(off), "{on}: {all}");
    }
}

#[test]
fn a_person_sees_the_work_answers_a_question_and_sends_a_message_by_key() {
    let world = world();
    let mut top = Terminal::open(&world, 80, "top");
    top.wait_until_shown("nothing needs you");
    top.wait_until_shown("idle");
    // A message that another command sends appears without a key.
    assert_eq!(world.run(&["send", "coder@team", "ask me"]).code, 0);
    top.wait_until_shown("question #1");
    top.type_text("a");
    top.wait_until_shown("1–2 answers");
    let answered =
        || world.run(&["peek", "@team"]).stdout.contains("user → coder (reply to #2): later");
    top.press_until("2", answered);
    top.wait_until_shown("nothing needs you");
    top.type_text("s");
    top.wait_until_shown("to @team: ");
    top.type_text("@coder slow please\r");
    top.wait_until_shown("shell until");
    // A run that starts meanwhile appears.
    world.file("other.yaml", &TEAM.replace("name: team", "name: other"));
    assert_eq!(world.run(&["up", "other.yaml"]).code, 0);
    top.wait_until_shown("2 runs");
    // Filter, help, another list, the details of a message.
    top.type_text("/other");
    top.wait_until_shown("filter: other");
    top.type_text("\u{1b}");
    top.wait_until_shown("? help");
    top.type_text("?");
    top.wait_until_shown("this help");
    top.type_text("q");
    top.type_text("\t\t");
    top.type_text("\r");
    top.wait_until_shown("Esc back");
    top.type_text("\u{1b}");
    world.file("go", "");
    top.wait_until_shown("Done.");
    top.type_text("q");
    let (ended, all) = top.wait_exit();
    assert!(ended.success(), "{all}");
    assert_restored(&all);
}

#[test]
fn every_end_restores_the_terminal_and_no_agent_notices() {
    for (end, code) in [("\u{3}", 0), ("TERM", 0), ("HUP", 0), ("\u{1c}", 131)] {
        let world = world();
        let mut top = Terminal::open(&world, 40, "top @team");
        top.wait_until_shown("idle");
        if end.len() == 1 {
            top.type_text(end);
        } else {
            kill(pid_of_top(&world), end);
        }
        let (ended, all) = top.wait_exit();
        assert_eq!(ended.code(), Some(code), "{end:?}: {all}");
        assert_restored(&all);
        assert_eq!(world.json(&["status", "@team", "--json"])["state"], "running");
    }
}

/// Returns the process of `top`.
fn pid_of_top(world: &World) -> u32 {
    wait_for("the process", || {
        let all = world.processes();
        let is_top = |line: &str| line.split(' ').nth(1) == Some("top");
        all.into_iter().find(|(_, line)| is_top(line)).map(|(pid, _)| pid)
    })
}

#[test]
fn without_a_terminal_the_command_says_what_it_needs() {
    let world = world();
    let said = world.run(&["top"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{said:?}");
    let expected = "error: `top` needs a terminal that it can draw on\n\
        hint: without one: agent-worker ls, agent-worker pending, agent-worker peek --follow\n";
    assert_eq!(said.stderr, expected);
}
