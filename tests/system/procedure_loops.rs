//! `retry`, `for_each` and `finally` with real commands, across a killed daemon.

use std::{fs, process::Stdio};

use crate::world::{CommandOutput, World, kill, wait_for};

/// Items that append to `ran`; the second one fails until `go` exists, which the first attempt creates.
const FLOW: &str = "name: flow
tasks:
  - { shell: 'printf \"a\\nb\\nc\\n\"', as: names, format: lines }
  - name: each
    for_each: names
    shell: |
      echo ${{ item }}${{ index }} >> ran
      echo $AGENT_WORKER_TASK >> marks
      touch at-${{ item }}
      until [ -e go ]; do sleep 0.05; done
      if [ ${{ index }} = 1 ] && ! [ -e failed ]; then touch failed; exit 3; fi
      printf %s ${{ item.toUpperCase() }}
    retry: { max_attempts: 2, backoff: 100ms }
    as: all
  - { shell: 'exit 4' }
finally:
  - { shell: 'printf %s ${{ all }} ${{ tasks.each.state }} > result' }
";

#[test]
fn items_are_carried_out_once_each_across_a_killed_daemon_and_finally_runs_after_a_failure() {
    let world = World::new();
    world.file("flow.yaml", FLOW);
    let mut run = world.command(&["run", "flow.yaml"]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the first item", || world.project().join("at-a").exists().then_some(()));
    kill(world.daemon_pid().unwrap(), "KILL");
    let status = world.run(&["ls"]);
    assert_eq!(status.code, 0, "{status:?}");
    world.file("go", "");
    let said = CommandOutput::from(run.wait_with_output().unwrap());
    assert_eq!(said.code, 1, "{said:?}\n{}", world.log());
    assert!(said.stderr.contains("task `3` failed: the command ended with status 4"), "{said:?}");
    let read = |name: &str| fs::read_to_string(world.project().join(name)).unwrap();
    assert_eq!(read("ran"), "a0\nb1\nb1\nc2\n");
    assert_eq!(read("result"), "[\"A\",\"B\",\"C\"]done");
    // The environment names the item, the same in each attempt.
    let marks = read("marks");
    let ends: Vec<&str> =
        marks.lines().filter_map(|mark| mark.split_once('/')).map(|it| it.1).collect();
    assert_eq!(ends, ["each/1", "each/2", "each/2", "each/3"], "{marks}");
}
