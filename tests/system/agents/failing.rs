//! How real agents fail, and what it is called: by what they report and how they end, never by what they say.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::office::{Cli, Desk, Office};

/// One failure is enough to see: the next try is far away.
const ONCE: &str = "retry: { backoff: 1h }";

/// What becomes of an agent whose provider does this: its state, and the class of its failure.
const FAILURES: [(&str, &str, &str, &str); 4] = [
    ("refused", "FAIL 401", "stopped", "auth"),
    ("limited", "FAIL 429\nRETRY_AFTER 600", "parked", "rate_limited"),
    ("overloaded", "FAIL 529", "backing_off", "transient"),
    ("cut", "CUT\nSAY these are a few words", "backing_off", "transient"),
];

fn fails(cli: Cli) {
    let Some(office) = Office::open(&[cli], "how a real agent fails") else { return };
    let deaf = without_tools(&office, cli);
    let mut desks: Vec<_> =
        FAILURES.iter().map(|it| Desk { name: it.0, cli, besides: ONCE }).collect();
    desks.push(Desk { name: "talker", cli, besides: ONCE });
    desks.push(Desk { name: "deaf", cli, besides: &deaf });
    office.start(&desks, "");
    for (name, program, ..) in FAILURES {
        office.send(name, program);
    }
    office.send("deaf", "SAY All is well.");
    office.send("talker", "SAY Error: rate limit exceeded (429)");
    for (name, _, state, class) in FAILURES {
        let ended = office.end_of_turn(name);
        let seen = (&*ended.0, ended.1["class"].as_str());
        assert_eq!(seen, (state, Some(class)), "{name}: {}", office.story(name));
    }
    let (state, ended) = office.end_of_turn("talker");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", office.story("talker"));
    let (state, ended) = office.end_of_turn("deaf");
    // One of them notices by itself, and ends without a result.
    let class = if cli == Cli::Codex { "crash" } else { "fatal" };
    let seen = (&*state, ended["class"].as_str());
    assert_eq!(seen, ("backing_off", Some(class)), "{}", office.story("deaf"));
    assert_eq!(office.others(), []);
}

/// The program with settings that lead to no tools.
fn without_tools(office: &Office, cli: Cli) -> String {
    let words: Vec<_> = cli.command().unwrap().iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "#!/bin/sh\nexport AGENT_WORKER_TOOLS_KEY=wrong\nfor file in \"$@\" \"$GEMINI_CLI_HOME/.gemini/settings.json\"; do\n\
         \x20 case $file in */mcp.json|*/settings.json) [ ! -f \"$file\" ] || sed -i 's#/mcp\"#/nowhere\"#' \"$file\";; esac\n\
         done\nexec {} \"$@\"\n",
        words.join(" ")
    );
    let path = office.world.file("deaf.sh", &script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("command: {}\n{ONCE}", json!(path.to_str().unwrap()))
}

#[test]
fn claude_code_fails_by_what_it_reports() {
    fails(Cli::Claude);
}

#[test]
fn codex_fails_by_what_it_reports() {
    fails(Cli::Codex);
}

#[test]
fn gemini_cli_fails_by_what_it_reports() {
    fails(Cli::Gemini);
}

/// In the middle of its answer: one is stopped, and one is silent for too long. Nothing of either is left.
fn is_ended(cli: Cli) {
    let Some(office) = Office::open(&[cli], "a real agent that hangs or is stopped") else {
        return;
    };
    let silent = format!("silence: 10s\n{ONCE}");
    let desks = [
        Desk { name: "silent", cli, besides: &silent },
        Desk { name: "stopped", cli, besides: ONCE },
    ];
    office.start(&desks, "");
    for name in ["silent", "stopped"] {
        office.send(name, "HOLD\nSAY these are a few words");
    }
    office.models.wait_held(2);
    let stopped = office.world.run(&["stop", "stopped@team"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    let (state, ended) = office.end_of_turn("stopped");
    assert_eq!(
        (&*state, &ended),
        ("stopped", &json!({"end": "stopped"})),
        "{}",
        office.story("stopped")
    );
    let (state, ended) = office.end_of_turn("silent");
    let seen = (&*state, ended["class"].as_str());
    assert_eq!(seen, ("backing_off", Some("timeout")), "{}", office.story("silent"));
    assert_eq!(office.others(), []);
}

#[test]
fn claude_code_is_ended_in_the_middle_of_an_answer() {
    is_ended(Cli::Claude);
}

#[test]
fn codex_is_ended_in_the_middle_of_an_answer() {
    is_ended(Cli::Codex);
}

#[test]
fn gemini_cli_is_ended_in_the_middle_of_an_answer() {
    is_ended(Cli::Gemini);
}
