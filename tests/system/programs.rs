//! Programs as agents: the examples, as the documentation has them.

use std::{fs, path::Path};

use crate::world::{World, skipped};

/// Whether a world's agents find it.
fn has(program: &str) -> bool {
    ["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|it| Path::new(it).join(program).exists())
}

#[test]
fn agents_of_ones_own_are_any_executables() {
    if !["python3", "curl"].into_iter().all(has) {
        skipped("agents in Python and shell (needs python3, curl)");
        return;
    }
    let world = World::new();
    let examples = world.project().join("examples");
    fs::create_dir(&examples).unwrap();
    for name in ["agent.py", "agent.sh", "own.yaml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
        fs::copy(path, examples.join(name)).unwrap();
    }
    let run = world.run(&["run", "examples/own.yaml"]);
    assert_eq!(run.code, 0, "{run:?}");
    let answers = ["counter (answer): Counted.", "clerk (answer): Noted in notes.md."];
    assert!(answers.iter().all(|answer| run.stdout.contains(answer)), "{run:?}");
    let notes = world.run(&["doc", "read"]);
    assert_eq!(notes.stdout, "- clerk was asked: @clerk there are 1 files here\n");
}
