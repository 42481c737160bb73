//! `config.db`: a team with a database file of its own behaves like any other team.

use std::fs;

use crate::world::{World, kill, wait_for};

const TEAM: &str = "agents:
  lead:
    mock:
      - { on: 'ready', calls: [ { tool: document_append, args: { content: \"kept\\n\" } } ], say: thanks }
      - { calls: [ { tool: channel_send, args: { message: '@writer please prepare' } } ], say: asked }
  writer:
    mock: [ { sleep: 1s, calls: [ { tool: channel_send, args: { message: '@lead ready' } } ] } ]
context: { config: { db: '.workflow/${{ workflow.tag }}.db' } }
kickoff: '@lead xylophone'
";

/// Returns true if files in this folder with this prefix contain the team's messages.
fn files_contain_messages(folder: &std::path::Path, file: &str) -> bool {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = files.filter(|entry| entry.file_name().to_string_lossy().starts_with(file));
    let word = b"xylophone";
    files
        .map(|entry| fs::read(entry.path()).unwrap_or_default())
        .any(|bytes| bytes.windows(word.len()).any(|part| part == word))
}

#[test]
fn a_team_with_a_database_of_its_own_works_from_there_also_after_a_kill() {
    let world = World::new();
    let mut daemon = world.daemon();
    world.file("team.yaml", TEAM);
    let begun = world.run(&["start", "team.yaml", "--background"]);
    assert_eq!(begun.code, 0, "{begun:?}");
    wait_for("the writer at work", || {
        let agents = world.list(&["ls", "@team", "--json"]);
        agents
            .as_array()?
            .iter()
            .find(|agent| agent["state"] == "running" && agent["name"] == "writer")?;
        Some(())
    });
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    let mut next = world.daemon();
    let read = || world.run(&["doc", "read", "notes.md"]).stdout;
    wait_for("the document", || (read() == "kept\n").then_some(()));
    let (home, project) = (world.home(), world.project().join(".workflow"));
    assert!(
        files_contain_messages(&project, "main.db")
            && !files_contain_messages(&home, "agent-worker.db")
    );
    let found = world.json(&["peek", "@team", "--find", "XYLO", "--json"]);
    assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found}");
    let health = world.run(&["doctor"]);
    assert!(health.stdout.contains("store"), "{health:?}");
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    // The workflow file now names another database file.
    world.file("team.yaml", &TEAM.replace("${{ workflow.tag }}.db", "other.db"));
    let refused = world.run(&["start", "team.yaml", "--background"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let place = project.join("main.db");
    let why = format!("this team is kept in {}", place.canonicalize().unwrap().display());
    assert!(refused.stderr.contains(&why), "{refused:?}");
    assert_eq!(world.run(&["rm", "@team", "--yes"]).code, 0);
    let left = fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains(".db")).collect();
    assert!(left.is_empty(), "{left:?}");
    world.run(&["daemon", "stop"]);
    next.wait().unwrap();
}
