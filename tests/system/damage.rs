//! Changed bytes in the database: every interface names the row, and all other data can be read and exported.

use serde_json::Value;

use crate::world::{World, kill, wait_for};

const TEAM: &str = "name: team\nagents:\n  a: { backend: mock, mock: [{ say: first }, { say: second }] }\nkickoff: '@a go'\n";

/// Returns a home with messages and two documents of a team; no daemon runs.
fn team_with_documents() -> World {
    let world = World::new();
    let mut daemon = world.daemon();
    let file = world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["start", "--detach", file.to_str().unwrap()]).code, 0);
    wait_for("the agent's answer", || {
        world.run(&["export", "@team", "--format", "md"]).stdout.contains("> first").then_some(())
    });
    for (name, text) in [("plan.md", "the plan"), ("notes.md", "the notes")] {
        let written = world.run(&["doc", "create", "--target", "@team", name, text]);
        assert_eq!(written.code, 0, "{}", written.stderr);
    }
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    kill(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
    world
}

fn change(world: &World, statement: &str) {
    #[expect(clippy::disallowed_methods, reason = "the disk does not go through the store either")]
    let db = rusqlite::Connection::open(world.home().join("agent-worker.db")).unwrap();
    assert_eq!(db.execute(statement, []).unwrap(), 1, "{statement}");
}

#[test]
fn a_damaged_row_is_named_everywhere_and_the_rest_is_exported() {
    let world = team_with_documents();
    let whole = world.run(&["export", "@team", "--format", "md"]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert!(
        whole.stdout.contains("> @a go") && whole.stdout.contains("the plan"),
        "{}",
        whole.stdout
    );
    world.run(&["daemon", "stop"]);
    change(&world, "UPDATE message SET body = '@a gq' WHERE seq = 1");
    change(&world, "UPDATE document SET content = 'the plaN' WHERE path = 'plan.md'");

    let exported = world.run(&["export", "@team", "--format", "md"]);
    assert_eq!(exported.code, 1, "{}", exported.stderr);
    for named in ["message `1`", "document `plan.md 1`"] {
        assert!(exported.stderr.contains(named), "{named}: {}", exported.stderr);
    }
    assert!(
        !exported.stdout.contains("gq") && !exported.stdout.contains("the plaN"),
        "{}",
        exported.stdout
    );
    assert!(
        exported.stdout.contains("> first") && exported.stdout.contains("the notes"),
        "{}",
        exported.stdout
    );

    let (code, refused) =
        world.envelope(&["doc", "read", "--target", "@team", "plan.md", "--json"]);
    assert_eq!((code, &refused["error"]["code"]), (1, &Value::from("damaged")), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("plan.md 1"), "{refused}");

    // Both damaged rows were read before the first run of the doctor.
    let status = world.json(&["daemon", "status", "--json"]);
    assert_eq!(status["damaged"].as_array().unwrap().len(), 2, "{status}");
    let doctor = world.run(&["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.stdout);
    let report = doctor.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for named in ["message `1` of @team", "document `plan.md 1` of @team"] {
        assert!(report.contains(named), "{named}: {report}");
    }
    assert!(world.log().contains("a stored row is damaged"), "{}", world.log());
    world.run(&["daemon", "stop"]);
}

#[test]
fn rows_of_an_earlier_version_are_counted_by_the_doctor() {
    let world = team_with_documents();
    change(&world, "UPDATE document SET checksum = NULL WHERE path = 'plan.md'");
    let doctor = world.run(&["doctor"]);
    assert_eq!(doctor.code, 0, "{}", doctor.stdout);
    let report = doctor.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("1 row written by an earlier version has no checksum"), "{report}");
    world.run(&["daemon", "stop"]);
}

#[test]
fn a_daemon_starts_though_a_run_is_damaged_and_its_instance_can_be_removed() {
    let world = team_with_documents();
    change(&world, "UPDATE run SET script = script || ' '");
    let doctor = world.run(&["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.stdout);
    assert!(doctor.stdout.contains("run `1`"), "{}", doctor.stdout);
    let removed = world.run(&["rm", "@team", "--yes"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert_eq!(world.run(&["doctor"]).code, 0);
    world.run(&["daemon", "stop"]);
}
