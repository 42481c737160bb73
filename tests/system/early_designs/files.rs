//! The workflow files of the design documents, whole and as fragments.

use super::Expected::{self, Refused, Runs};

/// Whole workflow files: document and line, text, end.
pub(super) const FILES: [(&str, &str, Expected); 9] = [
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
        r#"
# review.yml
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

  generator:
    model: anthropic/claude-sonnet-4-5
    system_prompt: |
      You generate changesets in the standard format.
      Be concise and accurate.

tasks:
  - shell: git diff --cached
    as: diff

  - send: |
      Review these changes:
      ${{ diff }}
    to: reviewer
    as: review

  - send: |
      Generate changeset based on:
      ${{ review }}
    to: generator
    as: changeset

  - shell: |
      mkdir -p .changeset
      echo "${{ changeset }}" > .changeset/auto-$(date +%s).md
"#,
        // A mock agent has no built-in tools; examples/changeset.yaml has real ones.
        Refused("`tools` is for `backend: api`"),
    ),
    (
        "002:536",
        r"
agents:
  reviewer:
    tools:
      - read_file              # Built-in tool name
      - search_code            # Built-in tool name
      - ./my-tools.ts          # External file
",
        Refused("the file of tools `./my-tools.ts` is not in this version"),
    ),
    (
        "002:20, without tools",
        r#"
name: review
agents:
  reviewer:
    model: anthropic/claude-sonnet-4-5
    system_prompt: ./prompts/reviewer.txt
    max_tokens: 4096
    max_steps: 10
  generator:
    model: anthropic/claude-sonnet-4-5
    system_prompt: |
      You generate changesets in the standard format.
      Be concise and accurate.
tasks:
  - shell: git diff --cached
    as: diff

  - send: |
      Review these changes:
      ${{ diff }}
    to: reviewer
    as: review

  - send: |
      Generate changeset based on:
      ${{ review }}
    to: generator
    as: changeset

  - shell: |
      mkdir -p .changeset
      echo "${{ changeset }}" > .changeset/auto-$(date +%s).md
"#,
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

/// Fragments, completed with `FRAME` and, unless they have a kickoff or tasks, `FRAME_KICKOFF`.
pub(super) const FRAGMENTS: [(&str, &str, Expected); 23] = [
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
        "000:910",
        "setup:\n  - shell: gh pr diff\n    as: diff\n\nkickoff: |\n  Review this PR:\n  ${{ diff }}\n\n  @reviewer please analyze\n",
        Runs,
    ),
    // Its kickoff mentions no agent: `run` has nothing to do.
    (
        "001:963",
        "setup:\n  - shell: gh pr diff\n    as: diff\n\nkickoff: |\n  Review this PR:\n  ${{ diff }}\n",
        Refused("the kickoff mentions no agent, so none is woken"),
    ),
    (
        "002:135",
        "tasks:\n  - shell: git diff\n    as: diff\n\n  - send: \"Review: ${{ diff }}\"\n    to: reviewer\n    as: review\n",
        Runs,
    ),
    (
        "002:551",
        "tasks:\n  - send: \"Review\"\n    to: reviewer\n    as: review\n\n  - if: ${{ review.contains('security') }}\n    send: \"Deep security review\"\n    to: security-reviewer\n",
        Runs,
    ),
    (
        "002:568",
        "tasks:\n  # Sequential task\n  - send: \"Review code\"\n    to: code-reviewer\n    as: review\n\n  # Parallel tasks\n  - parallel:\n      - send: \"Security review based on ${{ review }}\"\n        to: security-reviewer\n        as: security\n      - send: \"Performance review based on ${{ review }}\"\n        to: perf-reviewer\n        as: perf\n\n  # Sequential (waits for parallel to complete)\n  - send: \"Summarize: ${{ security }} and ${{ perf }}\"\n    to: summarizer\n",
        Runs,
    ),
    (
        "002:596",
        "tasks:\n# Potential future syntax for concurrency limits\n- parallel:\n    max: 3  # Max concurrent tasks\n    tasks:\n      - send: ...\n      - send: ...\n",
        Refused("needs `to`"),
    ),
    (
        "000:922 001:976 002:150",
        "kickoff: |\n  ${{ env.VAR_NAME }} in ${{ workflow.name }} ${{ workflow.instance }}\n  @reviewer\n",
        Runs,
    ),
    (
        "000:925 001:979",
        "context:\n  provider: file\n\nkickoff: |\n  ${{ context.channel }} ${{ context.document }}\n  @reviewer\n",
        Runs,
    ),
    (
        "000:925 001:979, with a channel that is no file",
        "kickoff: |\n  ${{ context.channel }}\n  @reviewer\n",
        Refused("the channel of this team is not kept in a file"),
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
