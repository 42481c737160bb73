//! Files made to hurt: refused soon, with a message; and no file at all can make the parser panic.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use proptest::prelude::*;

use crate::{read, read_with_agent};

/// It takes a fraction of a second; a bomb that goes off takes minutes, so a busy machine gets ten.
const DEADLINE: Duration = Duration::from_secs(10);

fn numbered(count: usize, line: fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

fn bomb() -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let list = vec![format!("*a{}", level - 1); 9].join(", ");
        writeln!(text, "a{level}: &a{level} [{list}]").unwrap();
    }
    text
}

#[test]
fn a_file_that_is_a_bomb_is_refused_at_once() {
    let keys = numbered(1_000_000, |n| format!("k{n}: 1\n"));
    let fewer_keys = numbered(100_000, |n| format!("k{n}: 1\n"));
    let merges = numbered(190, |n| format!("m{n}: {{ <<: *base }}\n"));
    let base = numbered(500, |n| format!("k{n}: 1, "));
    for (name, text, part) in [
        ("aliases", bomb(), "more than a workflow may have"),
        ("a million keys", keys, "longer than 1024 KiB"),
        ("many keys", fewer_keys, "more than a workflow may have"),
        ("flow nesting", "[".repeat(20_000), "not valid YAML"),
        ("block nesting", "- ".repeat(20_000), "more than a workflow may have"),
        ("keys of keys", "? ".repeat(20_000), "more than a workflow may have"),
        ("merges", format!("base: &base {{ {base} }}\n{merges}"), "more than a workflow may have"),
        ("a long file", "#\n".repeat(50 << 20), "longer than 1024 KiB"),
        ("documents", "---\n".repeat(200_000), "second YAML document"),
        ("an open quote", "'".repeat(1_000_001), "not valid YAML"),
    ] {
        let start = Instant::now();
        let error = read(&text).unwrap_err().to_string();
        assert!(start.elapsed() < DEADLINE, "{name}: {:?}", start.elapsed());
        assert!(error.contains(part), "{name}: {error}");
    }
}

#[test]
fn a_long_script_is_followed_at_once() {
    for script in
        ["echo ${{ x }} \"a 'b' $(c)\"; ".repeat(30_000), "$(".repeat(300_000) + "${{ x }}"]
    {
        let script = serde_json::to_string(&script).unwrap();
        let start = Instant::now();
        let yaml = format!("setup: [{{ shell: 'true', as: x }}, {{ shell: {script} }}]\n");
        let _ = read_with_agent(&yaml);
        assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
    }
}

/// Pieces of files, so that chance gets past the first line.
fn fragments() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "agents:",
        "\n",
        "  ",
        "a:",
        " { backend: mock }",
        "setup:",
        "- ",
        "shell: ",
        "|\n      ",
        "${{ ",
        "x",
        " }}",
        "as: x",
        "'",
        "\"",
        "$(",
        ")",
        "`",
        "<<EOF",
        "<<'EOF'",
        "EOF",
        "\\",
        "#",
        "[[ ",
        " ]]",
        "((",
        "))",
        "case ",
        " in ",
        ";; ",
        "esac",
        "$'",
        "${",
        "}",
        "kickoff: ",
        "params: ",
        "name: ",
        "[",
        "]",
        "{",
        ", ",
        "&a ",
        "*a",
        "é",
        "\t",
        "limits:",
        "wall: 1s",
        "~",
        "!!str ",
    ]);
    prop::collection::vec(words, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        if let Err(error) = read(&text) {
            prop_assert!(error.summary().lines().count() == 1);
            prop_assert!(!error.render(agent_worker_workflow::Paint::Plain).is_empty());
        }
    }

    #[test]
    fn no_half_written_file_makes_the_parser_panic(text in fragments()) {
        if let Err(error) = read(&text) {
            prop_assert!(error.summary().starts_with("team.yaml:"), "{}", error);
            prop_assert!(!error.render(agent_worker_workflow::Paint::Ansi).is_empty());
        }
    }

    #[test]
    fn no_script_makes_the_scanner_panic(script in fragments()) {
        let script = serde_json::to_string(&script).unwrap();
        let _ = read_with_agent(&format!(
            "setup: [{{ shell: 'true', as: x }}, {{ shell: {script} }}]\n"
        ));
    }
}
