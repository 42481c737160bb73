//! The live view of `run` in a real terminal: three agents at work at once, and a terminal that changes its width.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::world::{World, wait_for};

/// Three who work until a file is there.
const THREE: &str = "name: three\nagents:\n\
    \x20 lead: { backend: mock, mock: [{ run: 'until [ -e go ]; do sleep 0.05; done', say: Led. }] }\n\
    \x20 coder: { backend: mock, mock: [{ run: 'until [ -e go ]; do sleep 0.05; done', say: Coded. }] }\n\
    \x20 tester: { backend: mock, mock: [{ run: 'until [ -e go ]; do sleep 0.05; done', say: Tested. }] }\n\
    kickoff: '@all begin with a sentence that is long enough to be cut or wrapped in a narrow terminal'\n";

/// A command in a terminal of its own, which writes all it shows to a file.
fn in_terminal(world: &World, words: &str) -> Child {
    let like = world.command(&[]);
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let command = format!("tty > pty; stty cols 40 rows 24; exec {binary} {words}");
    Command::new("script")
        .args(["-qefc", &command, "shown"])
        .env_clear()
        .envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("TERM", "xterm")
        .current_dir(world.project())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// What the terminal showed last: the lines since the last time the status was drawn anew, without colours.
fn last_drawn(shown: &Path) -> Vec<String> {
    let all = String::from_utf8_lossy(&fs::read(shown).unwrap_or_default()).into_owned();
    let mut plain = String::new();
    let mut rest = all.as_str();
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let end = escape.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
        if escape[end..].starts_with('J') {
            plain.push('\u{c}');
        }
        rest = escape.get(end + 1..).unwrap_or_default();
    }
    plain.push_str(rest);
    let last = plain.rsplit('\u{c}').find(|drawn| drawn.contains("· running ·"));
    last.unwrap_or_default().lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

fn until(shown: &Path, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
    wait_for("what was to be drawn", || {
        let drawn = last_drawn(shown);
        wanted(&drawn).then_some(drawn)
    })
}

#[test]
fn three_at_work_are_shown_at_once_and_fit_a_terminal_that_becomes_narrow_and_wide() {
    let world = World::new();
    world.file("three.yaml", THREE);
    let mut run = in_terminal(&world, "run three.yaml");
    let shown = world.project().join("shown");
    let working = |drawn: &[String]| {
        ["lead", "coder", "tester"].iter().all(|name| {
            let own = |line: &&String| line.trim_start().starts_with(name);
            drawn.iter().filter(own).any(|line| line.contains("working"))
        })
    };
    let usual = until(&shown, working);
    let head = |drawn: &[String]| {
        drawn.iter().find(|line| line.contains("three · running · 0:")).cloned().unwrap_or_default()
    };
    assert!(head(&usual).ends_with('…'), "40 columns are too few: {usual:#?}");

    let pty = fs::read_to_string(world.project().join("pty")).unwrap();
    let resize = |columns: &str| {
        let mut stty = Command::new("stty");
        assert!(stty.args(["-F", pty.trim(), "cols", columns]).status().unwrap().success());
    };
    resize("30");
    let fits = |drawn: &[String]| drawn.iter().all(|line| line.chars().count() < 30);
    let narrow = until(&shown, |drawn| working(drawn) && fits(drawn));
    assert!(narrow.iter().any(|line| line.contains('…')), "the head was cut: {narrow:#?}");
    // Wider than it was when the run began.
    resize("120");
    let wide = until(&shown, |drawn| working(drawn) && head(drawn).ends_with("message"));
    assert!(head(&wide).chars().count() > 40, "{wide:#?}");

    world.file("go", "");
    assert!(run.wait().unwrap().success());
    let all = fs::read_to_string(&shown).unwrap();
    for said in ["Led.", "Coded.", "Tested.", "done in"] {
        assert!(all.contains(said), "{all}");
    }
}
