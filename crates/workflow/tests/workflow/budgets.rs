//! Malicious files are refused quickly with a message, and no file can make the parser panic.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use agent_worker_workflow::{RenderStyle, load};
use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};

use crate::{AGENTS, read, read_with_agent};

/// Maximum processor time of this thread for a file: to read it, or to refuse it with a message.
const MAX_CPU_TIME: Duration = Duration::from_secs(1);
/// Maximum elapsed time: a busy machine may delay a thread, and an expanded bomb takes minutes.
const DEADLINE: Duration = Duration::from_secs(30);

fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// Runs the work and checks its cost: the least of three, because other work on the machine only adds to it.
fn within_cpu_budget<T>(name: &str, work: impl Fn() -> T) -> T {
    let mut costs = Vec::new();
    loop {
        let (cost, start) = (processor_time(), Instant::now());
        let done = work();
        costs.push(processor_time().saturating_sub(cost));
        let took = start.elapsed();
        assert!(took < DEADLINE, "{name} took {took:?}");
        if costs.last().is_some_and(|cost| *cost < MAX_CPU_TIME) {
            return done;
        }
        assert!(costs.len() < 3, "{name} cost {costs:?}");
    }
}

/// Returns the message for a refused file, after checks of its size.
fn refusal(text: &str) -> String {
    let error = read(text).unwrap_err();
    assert!(error.render(RenderStyle::Plain).len() < 64 << 10, "a refusal is read by people");
    assert!(error.mistakes().len() <= 20);
    error.summary()
}

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
    const TOO_MUCH: &str = "exceeds the limits of a workflow";
    let keys = numbered(1_000_000, |n| format!("k{n}: 1\n"));
    let fewer_keys = numbered(100_000, |n| format!("k{n}: 1\n"));
    let merges = numbered(190, |n| format!("m{n}: {{ <<: *base }}\n"));
    let base = numbered(500, |n| format!("k{n}: 1, "));
    let copies = vec!["*a"; 190].join(", ");
    for (name, text, part) in [
        ("aliases", bomb(), TOO_MUCH),
        ("a million keys", keys, "longer than 1024 KiB"),
        ("many keys", fewer_keys, TOO_MUCH),
        ("flow nesting", "[".repeat(20_000), "not valid YAML"),
        ("more flow nesting", "[".repeat(1_000_000), "not valid YAML"),
        ("mappings in mappings", "{a: ".repeat(20_000), "not valid YAML"),
        ("block nesting", "- ".repeat(20_000), TOO_MUCH),
        ("more block nesting", "- ".repeat(500_000), TOO_MUCH),
        ("keys of keys", "? ".repeat(20_000), TOO_MUCH),
        ("merges", format!("base: &base {{ {base} }}\n{merges}"), TOO_MUCH),
        ("long copies", format!("a: &a {}\nb: [{copies}]", "x".repeat(800_000)), TOO_MUCH),
        ("a long file", "#\n".repeat(50 << 20), "longer than 1024 KiB"),
        ("documents", "---\n".repeat(200_000), "second YAML document"),
        ("an open quote", "'".repeat(1_000_001), "not valid YAML"),
        ("blanks", "\t".repeat(1_000_000), "must be a mapping"),
        ("line breaks", "\n".repeat(1_000_000), "must be a mapping"),
    ] {
        let error = within_cpu_budget(name, || refusal(&text));
        assert!(error.contains(part), "{name}: {error}");
    }
}

#[test]
fn a_file_that_is_all_mistakes_is_refused_at_once() {
    let unknown_keys = numbered(9_900, |n| format!("{}{n}: 1\n", "system_prompt".repeat(5)));
    let agents = numbered(3_300, |n| format!("  a{n}: {{ bakend: 1 }}\n"));
    let params = numbered(1_500, |n| format!("{{ name: {}{n} }}, ", "p".repeat(55)));
    let unknown = format!("${{{{ params.{}x }}}} ", "p".repeat(57)).repeat(12_000);
    for (name, text) in [
        ("unknown keys", unknown_keys),
        ("agents", format!("agents:\n{agents}")),
        ("names", format!("{AGENTS}agents2: [{}]\n", "1, ".repeat(15_000))),
        ("lists", format!("{AGENTS}params: [{}]\n", "{ name: 5 }, ".repeat(4_000))),
        ("references", format!("{AGENTS}params: [{params}]\nkickoff: \"{unknown}\"\n")),
        (
            "scripts",
            format!("{AGENTS}setup: [{}]\n", "{ shell: 'eval ${{ instance }}' }, ".repeat(6_000)),
        ),
        (
            "one long script",
            format!("{AGENTS}setup: [{{ shell: '{}' }}]\n", "eval ${{ instance }};".repeat(45_000)),
        ),
    ] {
        let error = within_cpu_budget(name, || refusal(&text));
        assert!(error.contains("team.yaml:"), "{name}: {error}");
    }
}

/// Returns the number of bytes that this thread has read so far, from any file.
fn bytes_read() -> u64 {
    let accounts = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let read = accounts.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.unwrap().parse().unwrap()
}

#[test]
fn a_hundred_megabytes_are_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.yaml");
    std::fs::File::create(&path).unwrap().set_len(100 << 20).unwrap();
    let before = bytes_read();
    let error = within_cpu_budget("the file", || load(&path).unwrap_err().to_string());
    assert!(error.contains("longer than 1024 KiB"), "{error}");
    assert!(bytes_read() - before < 4096, "it was read");
}

#[test]
fn a_long_file_is_read_at_once() {
    let params = numbered(6_000, |n| format!("{{ name: p{n} }}, "));
    let steps = numbered(2_000, |n| format!("  - {{ shell: 'ls', as: o{n} }}\n"));
    for (name, sections) in [
        (
            "parameters",
            format!("params: [{params}]\nkickoff: \"{}\"\n", "${{ params.p9 }} ".repeat(40_000)),
        ),
        (
            "outputs",
            format!(
                "{}setup:\n{steps}kickoff: '{}'\n",
                "\n".repeat(99_999),
                "${{ o9 }} ".repeat(60_000)
            ),
        ),
        ("mentions", format!("kickoff: '{}'\n", "@a `@a` ".repeat(120_000))),
        ("nobody", format!("kickoff: '{}'\n", numbered(100_000, |n| format!("@x{n} ")))),
        ("links", format!("kickoff: '@{}'\n", "[a](".repeat(250_000))),
    ] {
        within_cpu_budget(name, || read_with_agent(&sections).unwrap().kickoff_problem());
    }
}

#[test]
fn a_long_script_is_followed_at_once() {
    const LINE: &str = "echo ${{ x }} \"a 'b' $(c)\"; ";
    for script in [
        LINE.repeat(9_000),
        LINE.repeat(30_000),
        "$(".repeat(120_000) + "${{ x }}",
        "$(".repeat(300_000) + "${{ x }}",
    ] {
        let script = serde_json::to_string(&script).unwrap();
        let yaml = format!("setup: [{{ shell: 'true', as: x }}, {{ shell: {script} }}]\n");
        let _ = within_cpu_budget("the script", || read_with_agent(&yaml));
    }
}

/// Generates pieces of files, so that random input gets past the first line.
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
            prop_assert!(!error.render(agent_worker_workflow::RenderStyle::Plain).is_empty());
        }
    }

    #[test]
    fn no_half_written_file_makes_the_parser_panic(text in fragments()) {
        if let Err(error) = read(&text) {
            prop_assert!(error.summary().starts_with("team.yaml:"), "{}", error);
            prop_assert!(!error.render(agent_worker_workflow::RenderStyle::Ansi).is_empty());
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
