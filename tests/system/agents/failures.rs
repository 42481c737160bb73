//! Failures of real agents and their classes: by their reports and exit statuses, never by their texts.

use std::{os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};

use super::{
    matrix::{Cells, Situation, matrix_tests},
    testbed::{AgentEntry, AgentTestbed, Cli, files},
};
use crate::world::{TEST_TIMEOUT, kill};

/// One failure is enough: the next attempt is far away.
const LONG_BACKOFF: &str = "retry: { backoff: 1h }";

/// Name of the agent, script, state, failure class and proven situation.
type ProviderFailure = (&'static str, &'static str, &'static str, &'static str, Option<Situation>);

/// Failures of the provider, with the agent's state and the failure class that follow, and the situation that the last of
/// its failures proves.
const FAILURES: [ProviderFailure; 6] = [
    ("refused", "FAIL 401", "stopped", "auth", Some(Situation::RefusedKey)),
    ("overloaded", "FAIL 529", "backing_off", "transient", None),
    ("later", "CALL inbox_check {}\nTHEN_FAIL 529", "backing_off", "transient", None),
    ("paused", "FAIL 503\nRETRY_AFTER 600", "backing_off", "transient", Some(Situation::Overload)),
    (
        "cut",
        "CUT\nSAY these are a few words",
        "backing_off",
        "transient",
        Some(Situation::CutAnswer),
    ),
    ("limited", "FAIL 429\nRETRY_AFTER 600", "parked", "rate_limited", Some(Situation::RateLimit)),
];

fn check_failures(cli: Cli, cells: &mut Cells) {
    let Some(testbed) = AgentTestbed::open(&[cli], "how a real agent fails") else { return };
    let deaf = program_with_wrong_settings(&testbed, cli, "deaf", "/mcp\"#/nowhere\"");
    let shut = program_with_wrong_settings(&testbed, cli, "shut", ":[0-9]*/mcp\"#:9/mcp\"");
    let mut entries: Vec<_> =
        FAILURES.iter().map(|it| AgentEntry { name: it.0, cli, settings: LONG_BACKOFF }).collect();
    entries.push(AgentEntry { name: "talker", cli, settings: LONG_BACKOFF });
    entries.push(AgentEntry { name: "deaf", cli, settings: &deaf });
    entries.push(AgentEntry { name: "shut", cli, settings: &shut });
    testbed.start(&entries, "");
    for (name, program, ..) in FAILURES {
        testbed.send(name, program);
    }
    for name in ["deaf", "shut"] {
        testbed.send(name, "SAY All is well.");
    }
    testbed.send("talker", "SAY Error: rate limit exceeded (429)");
    let (last, others) = FAILURES.split_last().unwrap();
    for failure in others {
        check_provider_failure(&testbed, cli, failure);
        failure.4.into_iter().for_each(|situation| cells.passed(situation));
    }
    let (state, ended) = testbed.end_of_turn("talker");
    assert_eq!(
        (&*state, &ended),
        ("idle", &json!({"end": "ok"})),
        "{}",
        testbed.diagnostics("talker")
    );
    cells.passed(Situation::ErrorAsText);
    for name in ["deaf", "shut"] {
        check_lost_tools(&testbed, cli, name);
    }
    cells.passed(Situation::LostTools);
    check_provider_failure(&testbed, cli, last);
    assert_eq!(testbed.other_processes(), []);
    last.4.into_iter().for_each(|situation| cells.passed(situation));
    if cli == Cli::Gemini {
        // If its provider fails, this program writes the conversation to a file, in a folder that other users
        // cannot read.
        let written = files(&testbed.world.home().join("runs"));
        let is_report = |path: &Path| path.to_string_lossy().contains("/tmp/gemini-client-error-");
        assert!(written.iter().any(|(path, _)| is_report(path)));
    }
}

/// Checks state and class after one failure of the provider.
fn check_provider_failure(testbed: &AgentTestbed, cli: Cli, failure: &ProviderFailure) {
    let (name, _, state, class, _) = *failure;
    // This program does not report the reason for waiting.
    let (state, class) = match (cli, class) {
        (Cli::Opencode | Cli::AcpOpencode, "rate_limited") => ("backing_off", "transient"),
        (Cli::AcpOpencode, "auth") => ("backing_off", "fatal"),
        _ => (state, class),
    };
    // This program takes a broken-off response for an answer, and does not report the reason.
    let class = if (cli, name) == (Cli::AcpGemini, "cut") { "crash" } else { class };
    // This program itself retries for longer than a minute.
    let attempts = if cli == Cli::AcpQwen { 2 } else { 1 };
    let ended = testbed.end_of_turn_within(attempts * TEST_TIMEOUT, name);
    let seen = (&*ended.0, ended.1["class"].as_str());
    // These programs report a reset connection in the same way as a bad request.
    let class = match (cli, name, seen.1) {
        (Cli::AcpClaude | Cli::AcpQwen, "cut", Some("fatal")) => "fatal",
        _ => class,
    };
    assert_eq!(seen, (state, Some(class)), "{name}: {}", testbed.diagnostics(name));
}

/// Checks that an agent without the team's tools has failed.
fn check_lost_tools(testbed: &AgentTestbed, cli: Cli, name: &str) {
    // This program notices by itself, and ends without a result.
    let class = if cli == Cli::Codex { "crash" } else { "fatal" };
    let (state, ended) = testbed.end_of_turn(name);
    let seen = (&*state, ended["class"].as_str());
    assert_eq!(seen, ("backing_off", Some(class)), "{}", testbed.diagnostics(name));
    let told = ended["why"].as_str().unwrap();
    // This program does not start without the file that names the tools.
    let why = match cli {
        Cli::AcpClaude => "Internal error",
        _ => "never listed the team's tools",
    };
    assert!(told.contains(why), "{name}: {told}");
}

/// Returns the program with settings that have a wrong server address, by a rule of `sed`, and wrong tokens.
fn program_with_wrong_settings(testbed: &AgentTestbed, cli: Cli, name: &str, rule: &str) -> String {
    let words: Vec<_> = cli.command().unwrap().iter().map(|word| format!("'{word}'")).collect();
    if cli.is_acp() {
        let script = format!(
            "#!/bin/sh\nsed -u 's#{rule}#; s#/mcp.json\"#/other.json\"#' | {} \"$@\"\n",
            words.join(" ")
        );
        return program_entry(testbed, name, &script);
    }
    let script = format!(
        "#!/bin/sh\nexport AGENT_WORKER_TOOLS_KEY=wrong\nelsewhere() {{ sed 's#{rule}#' \"$@\"; }}\n\
         for file in \"$@\" \"$GEMINI_CLI_HOME/.gemini/settings.json\"; do\n\
         \x20 case $file in */mcp.json|*/settings.json) [ ! -f \"$file\" ] || elsewhere -i \"$file\";; esac\n\
         done\n\
         OPENCODE_CONFIG_CONTENT=$(printf %s \"$OPENCODE_CONFIG_CONTENT\" | elsewhere); export OPENCODE_CONFIG_CONTENT\n\
         for word in \"$@\"; do shift; set -- \"$@\" \"$(printf %s \"$word\" | elsewhere)\"; done\n\
         exec {} \"$@\"\n",
        words.join(" ")
    );
    program_entry(testbed, name, &script)
}

fn program_entry(testbed: &AgentTestbed, name: &str, script: &str) -> String {
    let path = testbed.world.file(&format!("{name}.sh"), script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("command: {}\n{LONG_BACKOFF}", json!(path.to_str().unwrap()))
}

#[test]
fn a_run_reports_that_the_key_of_claude_code_was_refused_and_what_to_do() {
    let untried = "the end of a run whose key is refused";
    let Some(testbed) = AgentTestbed::open(&[Cli::Claude], untried) else { return };
    let coder = AgentEntry { name: "coder", cli: Cli::Claude, settings: LONG_BACKOFF };
    testbed.write(&[coder], "kickoff: |\n  @coder\n  FAIL 401\n");
    let (code, envelope) = testbed.world.envelope(&["run", "team.yaml", "--json"]);
    let failure = &envelope["agents"]["coder"]["last_failure"];
    assert_eq!((code, &failure["class"]), (1, &json!("auth")), "{envelope}");
    assert_eq!(failure["recovered"], false);
    let message = failure["message"].as_str().unwrap();
    assert!(message.contains("401"), "{message}");
    let error = envelope["error"]["message"].as_str().unwrap();
    assert!(error.ends_with(&format!("coder failed (auth): {message}")), "{error}");
    let hint = "set ANTHROPIC_API_KEY to a valid key or log in to `claude`, then: agent-worker restart @team";
    assert_eq!(envelope["error"]["hint"], hint);
    assert_eq!(testbed.status("coder")["last_failure"], *failure);
}

matrix_tests! {
    check_failures proves [RefusedKey, Overload, CutAnswer, ErrorAsText, LostTools, RateLimit] {
        claude_code_fails_by_what_it_reports: Claude,
        codex_fails_by_what_it_reports: Codex,
        gemini_cli_fails_by_what_it_reports: Gemini,
        opencode_fails_by_what_it_reports: Opencode,
        claude_code_over_acp_fails_by_what_it_reports: AcpClaude,
        codex_over_acp_fails_by_what_it_reports: AcpCodex,
        zeds_codex_fails_by_what_it_reports: AcpZedCodex,
        gemini_cli_over_acp_fails_by_what_it_reports: AcpGemini,
        opencode_over_acp_fails_by_what_it_reports: AcpOpencode,
        qwen_code_over_acp_fails_by_what_it_reports: AcpQwen,
        copilot_over_acp_fails_by_what_it_reports: AcpCopilot,
    }
    check_stop_ends_processes proves [Crash, StopNow, Silence] {
        claude_code_is_ended_in_the_middle_of_an_answer: Claude,
        codex_is_ended_in_the_middle_of_an_answer: Codex,
        gemini_cli_is_ended_in_the_middle_of_an_answer: Gemini,
        opencode_is_ended_in_the_middle_of_an_answer: Opencode,
        claude_code_over_acp_is_ended_in_the_middle_of_an_answer: AcpClaude,
        codex_over_acp_is_ended_in_the_middle_of_an_answer: AcpCodex,
        zeds_codex_is_ended_in_the_middle_of_an_answer: AcpZedCodex,
        gemini_cli_over_acp_is_ended_in_the_middle_of_an_answer: AcpGemini,
        opencode_over_acp_is_ended_in_the_middle_of_an_answer: AcpOpencode,
        qwen_code_over_acp_is_ended_in_the_middle_of_an_answer: AcpQwen,
        copilot_over_acp_is_ended_in_the_middle_of_an_answer: AcpCopilot,
    }
}

/// Checks three ends in the middle of an answer: a stop, a signal from another process, and a silence limit. No
/// process is left.
fn check_stop_ends_processes(cli: Cli, cells: &mut Cells) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a real agent that hangs or is stopped") else {
        return;
    };
    // Longer than the program takes to start.
    let silence = match cli {
        Cli::Claude | Cli::Codex | Cli::AcpClaude | Cli::AcpCodex | Cli::AcpZedCodex => "10s",
        Cli::Gemini | Cli::AcpGemini => "20s",
        Cli::Opencode | Cli::AcpOpencode | Cli::AcpQwen | Cli::AcpCopilot => "40s",
    };
    let silent = format!("silence: {silence}\n{LONG_BACKOFF}");
    let entries = [
        AgentEntry { name: "silent", cli, settings: &silent },
        AgentEntry { name: "stopped", cli, settings: LONG_BACKOFF },
        AgentEntry { name: "told", cli, settings: LONG_BACKOFF },
    ];
    testbed.start(&entries, "");
    for name in ["silent", "stopped", "told"] {
        testbed.send(name, "HOLD\nSAY these are a few words");
    }
    testbed.models.wait_held(3);
    for pid in testbed.agent_pids("told") {
        kill(pid, "TERM");
    }
    let (state, ended) = testbed.end_of_turn("told");
    let seen = (&*state, ended["class"].as_str());
    assert_eq!(seen, ("backing_off", Some("crash")), "{}", testbed.diagnostics("told"));
    cells.passed(Situation::Crash);
    let stopped = testbed.world.run(&["stop", "stopped@team"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    let (state, ended) = testbed.end_of_turn("stopped");
    assert_eq!(
        (&*state, &ended),
        ("stopped", &json!({"end": "stopped"})),
        "{}",
        testbed.diagnostics("stopped")
    );
    cells.passed(Situation::StopNow);
    let (state, ended) = testbed.end_of_turn("silent");
    let seen = (&*state, ended["class"].as_str());
    assert_eq!(seen, ("backing_off", Some("timeout")), "{}", testbed.diagnostics("silent"));
    assert_eq!(testbed.other_processes(), []);
    cells.passed(Situation::Silence);
}

#[test]
fn claude_code_keeps_to_the_limits_of_its_steps_and_tokens() {
    let why = "the model still called tools after 2 steps (max_steps)";
    check_limits(Cli::Claude, why, |body| &body["max_tokens"]);
}

#[test]
fn gemini_cli_keeps_to_the_limits_of_its_steps_and_tokens() {
    let why = "the model still called tools at the limit of its steps (max_steps)";
    check_limits(Cli::Gemini, why, |body| &body["generationConfig"]["maxOutputTokens"]);
}

/// Checks that a model that keeps calling tools is stopped after two steps, and that no request asks for more tokens.
fn check_limits(cli: Cli, why: &str, token_limit: fn(&Value) -> &Value) {
    let what = "a real agent with limits of steps and tokens";
    let Some(testbed) = AgentTestbed::open(&[cli], what) else { return };
    let settings = format!("max_steps: 2\nmax_tokens: 1234\n{LONG_BACKOFF}");
    testbed.start(&[AgentEntry { name: "me", cli, settings: &settings }], "");
    let calls = "CALL inbox_check {}\n".repeat(5);
    testbed.send("me", &format!("{calls}SAY Done."));
    let (_, ended) = testbed.end_of_turn("me");
    assert_eq!(
        ended,
        json!({"end": "failed", "class": "fatal", "why": why}),
        "{}",
        testbed.diagnostics("me")
    );
    let requests = testbed.models.requests();
    let limits: Vec<_> = requests.iter().map(|one| token_limit(&one.body).clone()).collect();
    assert!(limits.contains(&json!(1234)), "{limits:?}");
    assert!(limits.iter().all(|limit| limit.as_u64() <= Some(1234)), "{limits:?}");
}
