//! Runs the `sh` blocks of the documentation. A block that is only shown is a `console` block; a block that cannot run here is in
//! `NOT_RUN` with the reason.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{shell_transcript::shell, world::World};

/// Pages and the first words of their blocks that this test does not run, with the reason.
const NOT_RUN: [(&str, &str, &str); 10] = [
    ("CONTRIBUTING.md", "scripts/test", "this test is part of it"),
    ("README.md", "", "tests/system/help_commands.rs runs it line by line"),
    ("docs/reference/api.md", "", "tests/system/api.rs runs it as one script"),
    ("docs/reference/benchmarks.md", "scripts/bench", "it takes minutes; scripts/nightly runs it"),
    ("docs/reference/matrix.md", "scripts/matrix", "it installs programs and takes half an hour"),
    (
        "docs/how-to/approvals.md",
        "agent-worker",
        "only a real agent asks; tests/system/agents/approvals.rs answers one",
    ),
    (
        "docs/how-to/mcp.md",
        "agent-worker mcp install",
        "it needs the program; tests/system/bridge.rs installs into stubs",
    ),
    ("docs/how-to/mcp.md", "TOKEN=", "tests/system/conformance.rs runs the Inspector"),
    ("docs/reference/workflow.md", "agent-worker validate FILE", "FILE is a placeholder"),
    (
        "docs/reference/workflow.md",
        "agent-worker run review.yaml -t main",
        "the page shows only the parameters of the file; tests/system/param_values.rs runs such commands",
    ),
];

/// Commands that make the situation in which a page begins.
const SITUATIONS: [(&str, &str); 7] = [
    (
        "docs/how-to/agent-files.md",
        "mkdir -p ~/.claude/agents; echo '---' > ~/.claude/agents/reviewer.md",
    ),
    ("docs/how-to/documents.md", "write_team; start_team; write_documents"),
    ("docs/how-to/mcp.md", "agent-worker token create mcp-claude"),
    ("docs/how-to/operations.md", "write_team; start_team"),
    ("docs/how-to/proposals.md", "write_team; start_team; propose_twice; ask_question"),
    ("docs/reference/backends.md", "write_team; start_team"),
    ("docs/reference/commands.md", "write_team; start_team; touch before.png after.png"),
];

/// Functions of the situations.
const FUNCTIONS: &str = r#"
write_team() { cat > review.yaml <<'END'
name: review
agents:
  coder: { backend: mock, mock: [{ on: which, calls: [{ tool: ask_human, args: { question: "Really?" } }] }, { say: Done. }] }
  designer: { backend: mock, mock: [{ say: Done. }] }
context: { documentOwner: coder }
END
}
start_team() { agent-worker start review.yaml --background; }
write_documents() {
  # The owner's answers would have numbers between those of the suggestions.
  agent-worker stop coder@review
  for line in one two three; do
    agent-worker doc append notes.md "$line"
    agent-worker doc append plan.md "$line"
  done
  echo "a plan" > plan.md
  for _ in $(seq 16); do agent-worker send @review "no agent is named here"; done
  agent-worker doc suggest notes.md "add a line"
  agent-worker doc suggest notes.md "add another line"
}
propose_twice() { for which in first second; do agent-worker propose "The $which?" --option a --option b; done; }
ask_question() { agent-worker send coder@review "which one?" --wait; }
"#;

/// Returns the `sh` blocks of a page.
fn shell_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines() {
        match (&mut block, line.trim_start()) {
            (None, "```sh") => block = Some(String::new()),
            (Some(_), "```") => blocks.extend(block.take()),
            (Some(lines), _) => lines.extend([line, "\n"]),
            (None, _) => {}
        }
    }
    blocks
}

/// Returns every page of the documentation, by its path.
fn pages() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = Vec::new();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let at_root = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name());
    let at_root = at_root.map(|name| name.to_str().unwrap().to_owned());
    pages.extend(at_root.filter(|name| Path::new(name).extension().is_some_and(|end| end == "md")));
    pages.sort();
    pages
}

#[test]
fn every_shell_block_of_the_documentation_runs_or_is_listed_with_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut used = BTreeSet::new();
    let mut run = 0;
    for page in pages() {
        let text = fs::read_to_string(root.join(&page)).unwrap();
        let mut blocks = shell_blocks(&text);
        blocks.retain(|block| {
            let entry = NOT_RUN.iter().position(|it| it.0 == page && block.starts_with(it.1));
            used.extend(entry);
            entry.is_none()
        });
        if blocks.is_empty() {
            continue;
        }
        let situation = SITUATIONS.iter().find(|it| it.0 == page).map_or("", |it| it.1);
        let world = World::new();
        let prepared = shell(&world, &format!("{FUNCTIONS}\n{situation}"));
        assert_eq!(prepared.code, 0, "{page}: {prepared:?}\n{}", world.log());
        for block in blocks {
            let said = shell(&world, &block);
            assert_eq!(said.code, 0, "{page}:\n{block}{said:?}\n{}", world.log());
            run += 1;
        }
        assert_eq!(shell(&world, "agent-worker daemon stop").code, 0);
    }
    let unused = (0..NOT_RUN.len()).find(|entry| !used.contains(entry));
    assert_eq!(unused.map(|entry| NOT_RUN[entry]), None, "no page has this block");
    assert!(run >= 8, "{run}");
}
