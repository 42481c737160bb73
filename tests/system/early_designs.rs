//! The workflow files and commands of the five design documents that came before the program (000 to 004). Each one runs,
//! or is refused with a sentence that says that it is not in this version.
//!
//! Three rules replace models, because no test calls one: a line `model: …` gets a line `backend: mock` after it, a line
//! `max_tokens: …`, which a mock cannot keep, is left out, and `new` without `-b` gets `-b mock`. A fragment of a file is completed with `FRAME`.

use std::{fs, os::unix::fs::PermissionsExt as _};

use tempfile::TempDir;

use crate::{
    shell_transcript::shell,
    world::{CommandOutput, World},
};

/// The expected end of a row.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Runs,
    /// Exits with 2; the output contains this text.
    Refused(&'static str),
}

use Expected::{Refused, Runs};

/// Agents and kickoff around a fragment.
const FRAME: &str = "\
agents:
  reviewer: { model: anthropic/claude-sonnet-4-5, backend: mock }
  scribe: { model: anthropic/claude-sonnet-4-5, backend: mock }
";
const FRAME_KICKOFF: &str = "kickoff: '@reviewer please review.'\n";

/// Whole workflow files: document and line, text, end.
const FILES: [(&str, &str, Expected); 8] = [
    (
        "000:20",
        r"
name: code-review
context:
agents:
  reviewer:
    model: anthropic/claude-sonnet-4-5
    system_prompt: prompts/reviewer.md

  coder:
    model: anthropic/claude-sonnet-4-5
    system_prompt: prompts/coder.md
setup:
  - shell: gh pr diff
    as: diff
kickoff: |
  PR diff:
  ${{ diff }}

  @reviewer please review these changes.
  When issues found, @coder to fix them.
",
        Runs,
    ),
    (
        "000:998",
        r"
name: review
context:

agents:
  reviewer:
    model: anthropic/claude-sonnet-4-5
    system_prompt: |
      You review code for quality and issues.
      Use the channel tool to communicate.
      Use the document tool to record findings.

setup:
  - shell: gh pr diff
    as: diff

kickoff: |
  Please review this PR:

  ${{ diff }}

  @reviewer
",
        Runs,
    ),
    (
        "000:1024",
        r"
name: code-review
context:

agents:
  coordinator:
    model: anthropic/claude-sonnet-4-5
    system_prompt: prompts/coordinator.md

  reviewer:
    model: anthropic/claude-sonnet-4-5
    system_prompt: prompts/reviewer.md

  coder:
    model: anthropic/claude-sonnet-4-5
    system_prompt: prompts/coder.md

setup:
  - shell: gh pr view --json title,body,files
    as: pr_info

kickoff: |
  New PR to review:
  ${{ pr_info }}

  @coordinator please orchestrate the review.
  - Use @reviewer for code review
  - Use @coder for any fixes needed
",
        Runs,
    ),
    (
        "002:20",
        r"
name: review  # Optional, defaults to filename without extension
agents:
  reviewer:
    model: anthropic/claude-sonnet-4-5
    system_prompt: ./prompts/reviewer.txt  # String or file path
    tools:
      - read_file
      - search_code
    max_tokens: 4096        # Optional
    max_steps: 10           # Optional
tasks:
  - shell: git diff --cached
    as: diff
",
        Refused("`tasks` is not in this version"),
    ),
    (
        "002:20, without tools and tasks",
        r"
name: review
agents:
  reviewer:
    model: anthropic/claude-sonnet-4-5
    system_prompt: ./prompts/reviewer.txt
    max_tokens: 4096
    max_steps: 10
kickoff: '@reviewer'
",
        Runs,
    ),
    (
        "003:26",
        r"
name: code-review

agents:
  reviewer:
    model: anthropic/claude-sonnet-4-5
    system_prompt: prompts/reviewer.md

  coder:
    model: anthropic/claude-sonnet-4-5
    system_prompt: prompts/coder.md

setup:
  - shell: gh pr diff
    as: diff

kickoff: |
  PR diff:
  ${{ diff }}

  @reviewer please review these changes.
  When issues found, @coder to fix them.
",
        Runs,
    ),
    (
        "003:339",
        r"
name: review

agents:
  reviewer:
    model: anthropic/claude-sonnet-4-5
    system_prompt: prompts/reviewer.md

setup:
  - shell: gh pr diff
    as: diff

kickoff: |
  Please review this PR:
  ${{ diff }}
  @reviewer
",
        Runs,
    ),
    (
        "003:359",
        r"
name: code-review

agents:
  coordinator:
    model: anthropic/claude-sonnet-4-5
    system_prompt: prompts/coordinator.md

  reviewer:
    model: anthropic/claude-sonnet-4-5
    system_prompt: prompts/reviewer.md

  coder:
    model: anthropic/claude-sonnet-4-5
    system_prompt: prompts/coder.md

context:
  documentOwner: coordinator

setup:
  - shell: gh pr view --json title,body,files
    as: pr_info

kickoff: |
  New PR to review:
  ${{ pr_info }}

  @coordinator please orchestrate.
",
        Runs,
    ),
];

/// Fragments, completed with [`FRAME`] and, unless they have a kickoff or tasks, [`FRAME_KICKOFF`].
const FRAGMENTS: [(&str, &str, Expected); 17] = [
    ("000:56 000:1089", "context:\n", Runs),
    ("000:59", "context:\n  channel:\n  document:\n", Runs),
    (
        "000:64",
        "context:\n  dir: .workflow/${{ instance }}/\n  channel:\n    file: channel.md\n  document:\n    file: notes.md\n",
        Runs,
    ),
    ("000:72", "context:\n  channel:\n", Runs),
    (
        "000:76",
        "context:\n  dir: ./my-context/\n  channel:\n    file: discussion.md\n  document:\n    file: workspace.md\n",
        Runs,
    ),
    ("000:1095 003:57", "", Runs),
    (
        "000:910 001:963",
        "setup:\n  - shell: gh pr diff\n    as: diff\n\nkickoff: |\n  Review this PR:\n  ${{ diff }}\n\n  @reviewer please analyze\n",
        Runs,
    ),
    (
        "002:135 002:551",
        "tasks:\n  - shell: git diff\n    as: diff\n\n  - send: \"Review: ${{ diff }}\"\n    to: reviewer\n    as: review\n",
        Refused("`tasks` is not in this version"),
    ),
    (
        "002:568",
        "tasks:\n  - parallel:\n      - send: \"Security review\"\n        to: reviewer\n        as: security\n",
        Refused("`tasks` is not in this version"),
    ),
    (
        "003:60",
        "context:\n  provider: sqlite           # Default\n  documentOwner: scribe      # Optional: single-writer for documents\n  config:\n    db: .workflow/agent-worker.db  # Default location\n",
        Runs,
    ),
    (
        "003:67",
        "context:\n  provider: file\n  config:\n    dir: .workflow/${{ workflow.name }}/${{ workflow.tag }}/\n",
        Runs,
    ),
    ("003:73", "context: false\n", Runs),
    ("003:176", "context:\n  documents: file\n", Runs),
    ("003:180", "context:\n  documents: sqlite\n", Runs),
    ("001:83", "context:\n  provider: memory\n  documentOwner: scribe\n", Runs),
    (
        "003:532, without the secret",
        "setup:\n  - shell: gh pr diff\n    as: diff\n\nkickoff: |\n  ${{ diff }}           # Setup output\n  ${{ workflow.name }}  # Workflow metadata\n  @reviewer\n",
        Runs,
    ),
    // A later decision: a value that is a secret by its name is not inserted into messages.
    (
        "003:538",
        "kickoff: |\n  ${{ env.API_KEY }}    # Environment variable\n  @reviewer\n",
        Refused("`env.API_KEY` is a secret by its name and is not inserted here"),
    ),
];

/// The team of the commands, in `review.yaml` and `review.yml`.
const TEAM: &str = "\
name: review
agents:
  reviewer: { backend: mock, mock: [{ say: Reviewed. }] }
  coder: { backend: mock, mock: [{ say: Fixed. }] }
kickoff: '@reviewer please review.'
";

/// Commands in an order in which each has its target: document and line, command, end.
const COMMANDS: [(&str, &str, Expected); 77] = [
    ("000:823", "agent-worker run review.yaml", Runs),
    ("000:824", "agent-worker run review.yaml --instance pr-123", Runs),
    ("000:825", "agent-worker run review.yaml --verbose", Runs),
    ("000:826", "agent-worker run review.yaml --json", Runs),
    ("002:190", "agent-worker run ./review.yml", Runs),
    ("002:191", "agent-worker run ./review.yml --lazy", Runs),
    ("002:192", "agent-worker run ./review.yml --instance pr-123", Runs),
    ("002:193", "agent-worker run ./review.yml --json", Runs),
    ("002:194", "agent-worker run ./review.yml --verbose", Runs),
    ("003:293", "agent-worker run review.yaml --tag pr-123", Runs),
    ("002:210", "agent-worker up ./review.yml", Runs),
    ("002:227", "agent-worker down", Runs),
    ("002:212", "agent-worker up ./review.yml --lazy", Runs),
    ("002:211", "agent-worker up ./review.yml --instance pr-123", Runs),
    ("002:230", "agent-worker down reviewer@pr-123", Runs),
    ("002:228", "agent-worker down pr-123", Runs),
    ("002:229", "agent-worker down --all", Runs),
    ("000:846", "agent-worker start review.yaml --background", Runs),
    ("003:296", "agent-worker start review.yaml --tag pr-123 --background", Runs),
    ("000:807", "agent-worker list", Runs),
    ("000:808 003:303", "agent-worker ls", Runs),
    ("003:304", "agent-worker ls @review:pr-123", Runs),
    ("002:238", "agent-worker ps", Runs),
    ("000:889", "agent-worker send \"hello\" --to coder@pr-123", Runs),
    ("002:266", "agent-worker send \"Review this code\" --to reviewer@pr-123", Runs),
    ("003:307", "agent-worker send coder@review:pr-123 \"fix the bug\"", Runs),
    ("003:308", "agent-worker send @review:pr-123 \"@all sync up\"", Runs),
    ("000:641", "agent-worker context read --agent reviewer@pr-123", Runs),
    // The wrapper is for the agent itself; the user sends as the user.
    (
        "000:640",
        "agent-worker context send \"message\" --agent reviewer@pr-123",
        Refused("only reviewer@pr-123 itself can send as reviewer@pr-123"),
    ),
    ("000:897", "agent-worker peek --to reviewer@pr-123", Runs),
    ("004:327", "agent-worker stats --to reviewer@pr-123", Runs),
    ("004:327", "agent-worker export @review:pr-123", Runs),
    ("004:327", "agent-worker clear @review:pr-123", Runs),
    ("004:326", "agent-worker info @review:pr-123", Runs),
    ("004:332", "agent-worker doc append notes.md x --target @review:pr-123", Runs),
    ("004:332", "agent-worker doc list --target @review:pr-123", Runs),
    ("000:862", "agent-worker stop reviewer@pr-123", Runs),
    ("003:300", "agent-worker stop reviewer@review:pr-123", Runs),
    ("000:863", "agent-worker stop @pr-123", Runs),
    ("000:845", "agent-worker start review.yaml --instance pr-123 --background", Runs),
    ("003:299", "agent-worker stop @review:pr-123", Runs),
    ("000:864", "agent-worker stop --all", Runs),
    ("002:254", "agent-worker new reviewer -m anthropic/claude-sonnet-4-5", Runs),
    ("002:265", "agent-worker send \"Review this code\" --to reviewer", Runs),
    ("000:888 002:475", "agent-worker send \"hello\" --to reviewer", Runs),
    ("002:165", "agent-worker agent use reviewer", Runs),
    ("000:887", "agent-worker send \"hello\"", Runs),
    ("002:264", "agent-worker send \"Review this code\"", Runs),
    ("002:267", "agent-worker send \"Review this code\" --wait", Runs),
    ("000:813", "agent-worker peek", Runs),
    ("004:327", "agent-worker stats", Runs),
    ("002:163", "agent-worker agent list", Runs),
    ("002:164", "agent-worker agent status reviewer", Runs),
    ("002:255", "agent-worker new reviewer -m anthropic/claude-sonnet-4-5 --instance pr-124", Runs),
    ("002:279", "agent-worker send \"hello\" --to reviewer@pr-124", Runs),
    ("000:861", "agent-worker stop reviewer", Runs),
    ("002:166", "agent-worker agent end reviewer", Runs),
    ("002:256", "agent-worker new reviewer -f ./prompts/reviewer.txt", Runs),
    ("002:483", "agent-worker down reviewer", Runs),
    ("002:477", "agent-worker session end reviewer", Runs),
    (
        "002:474",
        "agent-worker session new -m anthropic/claude-sonnet-4-5 -n reviewer -b mock",
        Runs,
    ),
    ("002:476", "agent-worker session list", Runs),
    ("000:1058", "agent-worker new helper --context", Runs),
    ("002:162", "agent-worker agent new generator -b mock", Runs),
    (
        "003:311",
        "agent-worker schedule alice set 30s",
        Refused("`schedule` is not in this version"),
    ),
    (
        "003:312",
        "agent-worker schedule reviewer@review set 5m",
        Refused("`schedule` is not in this version"),
    ),
    (
        "003:313",
        "agent-worker schedule reviewer@review:pr-123 set 30s",
        Refused("`schedule` is not in this version"),
    ),
    (
        "003:314",
        "agent-worker schedule @review:pr-123 set 1h",
        Refused("`schedule` is not in this version"),
    ),
    ("004:328", "agent-worker tool list", Refused("`tool` is not in this version")),
    ("004:334", "agent-worker mock", Refused("`mock` is not in this version")),
    ("004:330", "agent-worker pending", Runs),
    ("004:331", "agent-worker providers", Runs),
    ("004:331", "agent-worker backends", Runs),
    ("004:333", "agent-worker feedback list", Runs),
    (
        "002:254, as written",
        "agent-worker agent new other -m anthropic/claude-sonnet-4-5",
        Refused("needs the backend `api`, which is not in this version"),
    ),
    (
        "004:308",
        "agent-worker agent new other -b sdk",
        Refused("the backend `sdk` is not in this version"),
    ),
    ("001:112", "agent-worker agent new other -b mock -m claude-haiku-3-5-20250514", Runs),
];

/// A world with a `gh` that prints its arguments, and with the prompts that the documents name.
fn world() -> (World, TempDir) {
    let programs = tempfile::tempdir().unwrap();
    let gh = programs.path().join("gh");
    fs::write(&gh, "#!/bin/sh\necho \"gh $*\"\n").unwrap();
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.path().display());
    let world = World::with(&[("PATH", &path)]);
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
        Refused(sentence) => {
            assert_eq!(said.code, 2, "{row}: {said:?}");
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
        let line = if is_new { format!("{line} -b mock") } else { line.to_owned() };
        check(&format!("{row} `{line}`"), &shell(&world, &line), expected);
    }
}
