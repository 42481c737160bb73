//! Hostile text on a terminal: no command prints a character that the terminal obeys or that a person cannot see.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::{approvals::CLAUDE_STUB, terminal::Terminal, world::World};

/// A control sequence of C1, DEL, two changes of direction, a tag character and a line separator.
const HOSTILE: &str = "\u{9b}31m \u{7f} \u{202e}gpj.exe\u{2066} \u{e0041}\u{2028}";

fn assert_harmless(what: &str, shown: &str) {
    let bad = |c: char| HOSTILE.contains(c) && !c.is_ascii_graphic() && c != ' ';
    let found: Vec<char> = shown.chars().filter(|c| bad(*c)).collect();
    assert!(found.is_empty(), "{what}: {found:?}");
}

#[test]
fn json_and_exports_contain_no_character_that_a_terminal_obeys_and_mean_the_same() {
    let world = World::new();
    world.file("team.yaml", "agents: { a: { mock: [] } }\n");
    assert_eq!(world.run(&["start", "team.yaml", "--background"]).code, 0);
    assert_eq!(world.run(&["send", "@team", HOSTILE]).code, 0);
    for words in ["peek @team --json", "export @team", "export @team --format md"] {
        let (status, shown) = Terminal::open(&world, 80, words).wait_exit();
        assert!(status.success(), "{words}: {shown}");
        assert!(shown.contains("31m"), "{words}: {shown}");
        assert_harmless(words, &shown);
    }
    for words in [&["peek", "@team", "--json"][..], &["export", "@team"]] {
        let said = world.json(words);
        assert_eq!(said["items"][0]["body"], HOSTILE, "{words:?}");
    }
}

#[test]
fn pending_hides_no_character_of_a_request() {
    let world = World::with(&[("AW_BINARY", env!("CARGO_BIN_EXE_agent-worker"))]);
    let hidden = "rm\u{a0}a\u{200b}b\u{2003}c\u{3164}d\u{2800}e\u{ad}f";
    let claude = world
        .file("claude.sh", &CLAUDE_STUB.replace("echo once >> ran.txt\"", &format!("{hidden}\"")));
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let file = format!(
        "name: asking\nagents:\n  coder: {{ backend: claude, mode: isolated, command: {}, env: [AW_BINARY] }}\nkickoff: '@coder go'\n",
        claude.display()
    );
    world.file("asking.yaml", &file);
    assert_eq!(world.run(&["run", "asking.yaml"]).code, 4);
    let seen = "rm\\u{a0}a\\u{200b}b\\u{2003}c\\u{3164}d\\u{2800}e\\u{ad}f";
    for words in [&["pending"][..], &["pending", "1"]] {
        let shown = world.run(words);
        assert!(shown.stdout.contains(seen), "{words:?}: {shown:?}");
    }
}
