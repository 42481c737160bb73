//! Commands of tasks that do not come to their end by themselves: stopped, paused, too slow, or stopped by a sibling.

use std::process::{Child, Stdio};

use super::worlds::{lines, states, task_rows, wait_for_line};
use crate::world::{CommandOutput, World, is_alive, wait_for};

/// A command that ignores SIGTERM, as do a child in its own session and one that has cleared its environment too.
const STUBBORN: &str = "trap '' TERM; setsid sh -c \"trap '' TERM; sleep 600\" & echo $! >> first; \
    env -i \"$(command -v setsid)\" sleep 601 & echo $! >> first; sleep 602 & echo $! >> first; \
    mv first children; wait";

fn quick_to_kill() -> World {
    World::with(&[("AGENT_WORKER_KILL_GRACE", "200ms")])
}

fn spawn_run(world: &World, yaml: &str) -> Child {
    let file = world.file("team.yaml", yaml);
    let mut run = world.command(&["run", file.to_str().unwrap()]);
    run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end_of(run: Child) -> CommandOutput {
    CommandOutput::from(run.wait_with_output().unwrap())
}

fn script(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn assert_gone(children: &str) {
    assert_eq!(children.lines().count(), 3, "{children}");
    for pid in children.lines() {
        assert!(!is_alive(pid.parse().unwrap()), "{pid} of {children:?} is alive");
    }
}

#[test]
fn a_stopped_run_leaves_no_process_of_its_command_and_no_false_result() {
    for how in [&["stop", "@team"][..], &["stop", "@team", "--now"]] {
        let world = quick_to_kill();
        let yaml = format!(
            "name: team\ntasks:\n  - {{ name: a, shell: {} }}\n  - {{ name: b, shell: touch never }}\n",
            script(STUBBORN)
        );
        let run = spawn_run(&world, &yaml);
        let children = wait_for_line(&world, "children");
        let said = world.run(how);
        assert_eq!(said.code, 0, "{said:?}");
        assert_gone(&children);
        let said = end_of(run);
        assert_eq!(said.code, 130, "{said:?}");
        assert_eq!(states(&world), "a:stopped", "{how:?}");
        assert!(!world.project().join("never").exists());
    }
}

#[test]
fn a_paused_run_finishes_its_command_and_starts_no_other_until_it_is_resumed() {
    let world = World::new();
    let yaml = r#"name: team
tasks:
  - { name: a, shell: "echo a >> ran; echo up > up; until [ -e go ]; do sleep 0.02; done" }
  - { name: b, shell: "if [ -e resumed ]; then echo b >> ran; else echo early >> ran; fi" }
"#;
    let file = world.file("team.yaml", yaml);
    assert_eq!(world.run(&["up", file.to_str().unwrap()]).code, 0);
    wait_for_line(&world, "up");
    assert_eq!(world.run(&["pause", "@team"]).code, 0);
    world.file("go", "");
    wait_for("the first task", || (states(&world) == "a:done").then_some(()));
    // A daemon that starts looks at every task.
    assert_eq!(world.run(&["daemon", "restart"]).code, 0);
    assert_eq!(world.list(&["runs", "--json"])[0]["state"], "paused");
    assert_eq!(states(&world), "a:done");
    world.file("resumed", "");
    let said = world.run(&["resume", "@team", "--detach"]);
    assert_eq!(said.code, 0, "{said:?}");
    wait_for("the second task", || (lines(&world, "ran").len() == 2).then_some(()));
    assert_eq!(lines(&world, "ran"), ["a", "b"]);
}

#[test]
fn a_command_that_takes_too_long_fails_and_leaves_no_process() {
    let world = quick_to_kill();
    let yaml = format!(
        "name: team\ntasks:\n  - {{ name: a, shell: {}, timeout: 1s, continue_on_error: true }}\n\
         \x20 - name: b\n    shell: 'echo ${{{{ tasks.a.state }}}}: ${{{{ tasks.a.error }}}} > told'\n",
        script(STUBBORN)
    );
    let run = spawn_run(&world, &yaml);
    let children = wait_for_line(&world, "children");
    let told = wait_for_line(&world, "told");
    assert_gone(&children);
    assert_eq!(told, "failed: the command took longer than 1s (`timeout`)");
    let said = end_of(run);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(states(&world), "a:failed b:done");
}

#[test]
fn a_failed_task_of_a_block_with_fail_fast_stops_its_siblings() {
    let world = quick_to_kill();
    let yaml = format!(
        "name: team\nagents: {{ coder: {{ backend: mock, mock: [{{ run: \"echo up > turn; exec sleep 603\" }}] }} }}\n\
         tasks:\n  - name: all\n    parallel:\n      fail_fast: true\n      tasks:\n\
         \x20       - {{ name: bad, shell: 'until [ -e children ] && [ -e turn ]; do sleep 0.02; done; exit 3' }}\n\
         \x20       - {{ name: slow, shell: {} }}\n\
         \x20       - {{ name: asked, send: work, to: coder }}\n\
         \x20       - {{ name: nested, then: [{{ name: deep, shell: sleep 604 }}, {{ name: deeper, shell: touch never }}] }}\n\
         \x20       - {{ name: later, needs: [slow], shell: touch never }}\n\
         \x20 - {{ name: next, shell: touch never }}\n\
         \x20 - {{ name: clean, if: always(), shell: 'echo clean > clean' }}\n",
        script(STUBBORN)
    );
    let said = end_of(spawn_run(&world, &yaml));
    assert_eq!(said.code, 1, "{said:?}\n{}", world.log());
    assert!(said.stderr.contains("task `all/bad` failed"), "{said:?}");
    assert_eq!(
        states(&world),
        "all:failed all/asked:stopped all/bad:failed all/later:skipped all/nested:stopped \
         all/nested/deep:stopped all/nested/deeper:skipped all/slow:stopped clean:done next:skipped"
    );
    assert_gone(&wait_for_line(&world, "children"));
    assert!(!world.project().join("never").exists());
    assert_eq!(lines(&world, "clean"), ["clean"]);
}

#[test]
fn at_the_wall_limit_a_command_ends_and_runs_again_when_the_run_is_resumed() {
    let world = quick_to_kill();
    let yaml = format!(
        "name: team\nlimits: {{ wall: 2s, wall_grace: 200ms }}\ntasks:\n\
         \x20 - {{ name: a, shell: 'echo a >> ran' }}\n  - {{ name: b, shell: {} }}\n",
        script(&format!("echo b >> ran; if [ -e go ]; then exit 0; fi; {STUBBORN}"))
    );
    let run = spawn_run(&world, &yaml);
    let children = wait_for_line(&world, "children");
    let said = end_of(run);
    assert_eq!(said.code, 3, "{said:?}\n{}", world.log());
    wait_for("the end of the command", || {
        children.lines().all(|pid| !is_alive(pid.parse().unwrap())).then_some(())
    });
    assert_eq!(states(&world), "a:done b:running");
    world.file("go", "");
    let said = world.run(&["resume", "@team", "--wall", "1h"]);
    assert_eq!(said.code, 0, "{said:?}\n{}", world.log());
    assert_eq!(lines(&world, "ran"), ["a", "b", "b"]);
    assert_eq!(states(&world), "a:done b:done");
    assert_eq!(task_rows(&world)["b"].attempts, 2);
}
