//! The workflow files and commands of the five design documents that came before the program (000 to 004). Each one runs,
//! or is refused with a sentence that says that it is not in this version, or that the key of a provider is missing.
//!
//! Three rules replace models, because no test calls one: a line `model: …` gets a line `backend: mock` after it, a line
//! `max_tokens: …`, which a mock cannot keep, is left out, and `new` without
//! `-b` gets `-b mock`, except in a row "as written". A fragment of a file is completed with `FRAME`.

mod commands;
mod files;
mod tool_calls;

use std::{fs, os::unix::fs::PermissionsExt as _, process::Stdio};

use tempfile::TempDir;

use crate::{
    shell_transcript::shell,
    world::{CommandOutput, World, wait_for},
};

/// The expected end of a row.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Runs,
    /// Exits with 2; the output contains this text.
    Refused(&'static str),
    /// Exits with 1, because nothing has the number; the output contains this text.
    NotFound(&'static str),
}

use Expected::{NotFound, Refused, Runs};
use commands::{COMMANDS, TEAM};
use files::{FILES, FRAGMENTS};

/// Agents and kickoff around a fragment.
const FRAME: &str = "\
agents:
  reviewer: { model: anthropic/claude-sonnet-4-5, backend: mock, mock: [{ say: about security }] }
  scribe: { model: anthropic/claude-sonnet-4-5, backend: mock }
  code-reviewer: { model: anthropic/claude-sonnet-4-5, backend: mock }
  security-reviewer: { model: anthropic/claude-sonnet-4-5, backend: mock }
  perf-reviewer: { model: anthropic/claude-sonnet-4-5, backend: mock }
  summarizer: { model: anthropic/claude-sonnet-4-5, backend: mock }
";
const FRAME_KICKOFF: &str = "kickoff: '@reviewer please review.'\n";

/// A world with a `gh` that prints its arguments, and with the prompts that the documents name.
fn world() -> (World, TempDir) {
    let programs = tempfile::tempdir().unwrap();
    let gh = programs.path().join("gh");
    fs::write(&gh, "#!/bin/sh\necho \"gh $*\"\n").unwrap();
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.path().display());
    let world = World::with(&[("PATH", &path), ("VAR_NAME", "a value")]);
    // A repository without a change, for `git diff`.
    world.git(&["init", "--quiet"]);
    fs::create_dir(world.project().join("prompts")).unwrap();
    for name in ["reviewer.md", "coder.md", "coordinator.md", "reviewer.txt"] {
        world.file(&format!("prompts/{name}"), "Do your work.\n");
    }
    (world, programs)
}

/// Applies the first two rules of this file.
fn with_mock_backends(text: &str) -> String {
    let mut replaced = String::new();
    let is_kept = |line: &&str| !line.trim_start().starts_with("max_tokens:");
    for line in text.lines().filter(is_kept) {
        replaced.push_str(line);
        replaced.push('\n');
        if let Some(indent) = line.find("model: ").filter(|at| line[..*at].trim().is_empty()) {
            replaced.extend([&line[..indent], "backend: mock\n"]);
        }
    }
    replaced
}

fn check(row: &str, said: &CommandOutput, expected: Expected) {
    match expected {
        Runs => assert_eq!(said.code, 0, "{row}: {said:?}"),
        Refused(sentence) | NotFound(sentence) => {
            let code = if matches!(expected, Refused(_)) { 2 } else { 1 };
            assert_eq!(said.code, code, "{row}: {said:?}");
            let output = format!("{}{}", said.stdout, said.stderr);
            assert!(output.contains(sentence), "{row}: {output}");
        }
    }
}

#[test]
fn every_workflow_file_of_the_design_documents_runs_or_is_refused() {
    let (world, _programs) = world();
    let fragment = |text: &str| {
        let has_start = text.contains("kickoff:") || text.contains("tasks:");
        format!("{FRAME}{text}{}", if has_start { "" } else { FRAME_KICKOFF })
    };
    let fragments = FRAGMENTS.map(|(row, text, expected)| (row, fragment(text), expected));
    let files = FILES.map(|(row, text, expected)| (row, with_mock_backends(text), expected));
    for (number, (row, text, expected)) in files.into_iter().chain(fragments).enumerate() {
        let name = format!("file-{number}.yaml");
        world.file(&name, &text);
        check(row, &world.run(&["run", &name]), expected);
    }
}

#[test]
fn every_command_of_the_design_documents_runs_or_is_refused() {
    let (world, _programs) = world();
    world.file("review.yaml", TEAM);
    world.file("review.yml", TEAM);
    for (row, line, expected) in COMMANDS {
        // The second rule of this file.
        let is_new = line.starts_with("agent-worker new ") && !line.contains(" -b ");
        let is_new = is_new && !row.contains("as written");
        let line = if is_new { format!("{line} -b mock") } else { line.to_owned() };
        check(&format!("{row} `{line}`"), &shell(&world, &line), expected);
    }
}

#[test]
fn a_start_without_background_follows_its_run_until_the_run_is_stopped() {
    // 000:844
    let (world, _programs) = world();
    world.file("review.yaml", TEAM);
    let mut start = world.command(&["start", "review.yaml"]);
    let start = start.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = start.spawn().unwrap();
    wait_for("the run", || world.run(&["ls", "@review"]).stdout.contains("reviewer").then_some(()));
    assert_eq!(world.run(&["stop", "@review"]).code, 0);
    let said = started.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(130), "{said:?}");
}
