//! Procedures whose daemon or worker is killed, restarted or stopped: each command runs once, unless its own worker was
//! killed or stopped, and each message is sent once. `AW_TASK_KILLS` is the number of kills of the daemon.

use std::{
    fs,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

use super::worlds::{lines, states, task_rows, wait_for_line};
use crate::world::{CommandOutput, World, is_alive, kill, wait_for};

/// Twelve tasks. Each command adds its name to the file `ran`, takes some time, and passes a value on.
const PROCEDURE: &str = r#"name: build
agents:
  coder: { backend: mock, mock: [{ sleep: 60ms, say: coded }] }
  critic: { backend: mock, mock: [{ on: second, sleep: 40ms, say: fine }, { sleep: 80ms, say: hm }] }
tasks:
  - { name: a, as: a, shell: "echo a >> ran; sleep 0.06; echo 1" }
  - { name: b, as: b, send: "write ${{ a }}", to: coder }
  - name: first
    parallel:
      - { name: c, as: c, shell: "echo c >> ran; sleep 0.1; echo ${{ b }}" }
      - { name: d, as: d, shell: "echo d >> ran; sleep 0.02; echo 2", format: json }
      - { name: e, as: e, send: "judge ${{ b }}", to: critic }
      - name: then
        then:
          - { name: f, shell: "echo f >> ran; sleep 0.03" }
          - { name: g, as: g, shell: "echo g >> ran; sleep 0.03; echo 3" }
  - { name: h, if: "${{ d == 2 && e == 'hm' }}", as: h, shell: "echo h >> ran; sleep 0.04; echo ${{ c }}${{ g }}" }
  - { name: i, if: "${{ d == 3 }}", shell: "echo i >> ran" }
  - name: second
    parallel:
      max: 2
      tasks:
        - { name: j, shell: "echo j >> ran; sleep 0.05" }
        - { name: k, as: k, send: "the second ${{ h }}", to: critic }
        - { name: l, shell: "echo l >> ran; sleep 0.05" }
  - { name: m, shell: "echo m >> ran; printf '%s' ${{ h }}-${{ k }} > result" }
"#;
const SHELLS: [&str; 9] = ["a", "c", "d", "f", "g", "h", "j", "l", "m"];
const STATES: &str = "a:done b:done first:done first/c:done first/d:done first/e:done first/then:done \
    first/then/f:done first/then/g:done h:done i:skipped m:done second:done second/j:done second/k:done second/l:done";
const MESSAGES: [&str; 3] = ["write 1", "judge coded", "the second coded3"];

#[expect(
    clippy::disallowed_methods,
    reason = "how long the nightly runs is a setting of the test itself"
)]
fn kills() -> usize {
    std::env::var("AW_TASK_KILLS").map_or(20, |text| text.parse().unwrap())
}

/// Returns pseudo-random delays, which are the same for the same seed.
fn moments(seed: u64) -> impl Iterator<Item = Duration> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis((state >> 33) % 400)
    })
}

fn spawn_run(world: &World, file: &str) -> Child {
    let mut run = world.command(&["run", file, "--json"]);
    run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn is_running(run: &mut Child) -> bool {
    run.try_wait().unwrap().is_none()
}

/// Checks the end of a run of `PROCEDURE`, and that each of its effects happened once.
fn check_run(world: &World, run: Child) {
    let said = CommandOutput::from(run.wait_with_output().unwrap());
    assert_eq!(said.code, 0, "{said:?}\n{}", world.log());
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(report["outcome"], "done", "{report}");
    let mut ran = lines(world, "ran");
    ran.sort();
    assert_eq!(ran, SHELLS, "each command runs once\n{}", world.log());
    assert_eq!(states(world), STATES);
    assert_eq!(fs::read_to_string(world.project().join("result")).unwrap(), "coded3-fine");
    let channel = world.json(&["peek", "@build", "-n", "1000", "--json"]);
    let items = channel["items"].as_array().unwrap();
    let mut bodies: Vec<&str> = items.iter().filter_map(|item| item["body"].as_str()).collect();
    bodies.sort_unstable();
    let mut expected = [&MESSAGES[..], &["coded", "fine", "hm"]].concat();
    expected.sort_unstable();
    assert_eq!(bodies, expected, "each message is sent once and answered once");
    let sent = task_rows(world).values().filter(|row| row.message.is_some()).count();
    assert_eq!(sent, MESSAGES.len());
}

/// Starts runs of `PROCEDURE` and disturbs their daemon at random moments, until `count` disturbances have happened in
/// the middle of a run.
fn disturb(world: &World, seed: u64, count: usize, disturb: impl Fn(&World)) {
    let file = world.file("build.yaml", PROCEDURE);
    let mut moments = moments(seed);
    let mut done = 0;
    while done < count {
        for name in ["ran", "result"] {
            let _ = fs::remove_file(world.project().join(name));
        }
        world.run(&["rm", "@build", "--yes"]);
        let mut run = spawn_run(world, file.to_str().unwrap());
        wait_for("the first command", || (!lines(world, "ran").is_empty()).then_some(()));
        // At most four in a run: the next daemon gets time to continue.
        for moment in moments.by_ref().take(4) {
            thread::park_timeout(moment);
            if done == count || !is_running(&mut run) {
                break;
            }
            disturb(world);
            done += 1;
        }
        check_run(world, run);
    }
}

fn kill_daemon(world: &World) {
    let daemon = wait_for("a daemon", || world.daemon_pid());
    kill(daemon, "KILL");
    wait_for("its death", || (!is_alive(daemon)).then_some(()));
    // The next one is started by this command, or by the one that follows the run.
    world.list(&["runs", "--json"]);
}

#[test]
fn a_procedure_whose_daemon_is_killed_at_any_moment_runs_each_task_once() {
    let world = World::new();
    disturb(&world, 2026, kills(), kill_daemon);
}

#[test]
fn a_restart_of_the_daemon_repeats_no_task() {
    let world = World::new();
    disturb(&world, 7, kills().min(8), |world| {
        let said = world.run(&["daemon", "restart"]);
        assert_eq!(said.code, 0, "{said:?}");
    });
}

#[test]
fn a_stop_of_the_daemon_interrupts_commands_and_only_those_are_repeated() {
    let world =
        World::with(&[("AGENT_WORKER_KILL_GRACE", "200ms"), ("AGENT_WORKER_DRAIN_GRACE", "50ms")]);
    let yaml = r#"name: halves
agents: { coder: { backend: mock, mock: [{ run: "echo coder >> ran", say: ok }] } }
tasks:
  - { name: a, shell: "echo a >> ran" }
  - { name: b, send: go, to: coder }
  - name: both
    parallel:
      - { name: quick, shell: "echo quick >> ran" }
      - { name: slow, shell: "echo slow >> ran; echo up > up1; until [ -e go ]; do sleep 0.02; done" }
      - { name: long, shell: "echo long >> ran; echo up > up2; until [ -e go ]; do sleep 0.02; done" }
  - { name: z, shell: "echo z >> ran" }
"#;
    let file = world.file("halves.yaml", yaml);
    let said = world.run(&["up", file.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{said:?}");
    wait_for_line(&world, "up1");
    wait_for_line(&world, "up2");
    wait_for("the quick task", || (task_rows(&world)["both/quick"].state == "done").then_some(()));
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    assert!(world.processes().is_empty(), "{:?}", world.processes());
    let rows = task_rows(&world);
    assert_eq!((rows["both/slow"].state.as_str(), rows["both/slow"].attempts), ("running", 1));
    world.file("go", "");
    assert_eq!(world.run(&["daemon", "start"]).code, 0);
    wait_for("the last task", || (lines(&world, "ran").last()? == "z").then_some(()));
    let mut ran = lines(&world, "ran");
    ran.sort();
    assert_eq!(ran, ["a", "coder", "long", "long", "quick", "slow", "slow", "z"]);
    let attempts = |path: &str| task_rows(&world)[path].attempts;
    assert_eq!(["a", "both/quick", "both/slow", "both/long"].map(attempts), [1, 1, 2, 2]);
}

/// Returns the worker of a task.
fn worker_of(world: &World, task: &str) -> u32 {
    let is_its = |pid: u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environ.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        variables.any(|it| it.starts_with("AGENT_WORKER_TASK=") && it.ends_with(task))
    };
    let processes = world.processes().into_iter();
    let mut workers =
        processes.filter(|(pid, line)| line.trim_end().ends_with(" worker") && is_its(*pid));
    workers.next().unwrap().0
}

#[test]
fn a_command_whose_worker_is_killed_runs_again_after_nothing_of_it_is_left() {
    for restarts_daemon in [false, true] {
        let world = World::new();
        let yaml = r#"name: lost
tasks:
  - { name: before, shell: "echo before >> ran" }
  - name: a
    shell: |
      echo a >> ran
      if [ -e children ]; then
        while read -r pid; do if readlink -q "/proc/$pid/exe"; then echo "$pid" >> alive; fi; done < children
        exit 0
      fi
      trap '' TERM
      setsid sleep 631 & echo $! >> first
      env -i "$(command -v setsid)" sleep 632 & echo $! >> first
      sleep 633 & echo $! >> first
      mv first children
      wait
  - { name: z, shell: "echo z >> ran" }
"#;
        let file = world.file("lost.yaml", yaml);
        let run = spawn_run(&world, file.to_str().unwrap());
        let children = wait_for_line(&world, "children");
        let worker = worker_of(&world, "/a");
        if restarts_daemon {
            // The next daemon has adopted the worker, and is not the parent of its children.
            assert_eq!(world.run(&["daemon", "restart"]).code, 0);
        }
        kill(worker, "KILL");
        let said = CommandOutput::from(run.wait_with_output().unwrap());
        assert_eq!(said.code, 0, "{restarts_daemon}: {said:?}\n{}", world.log());
        assert_eq!(lines(&world, "ran"), ["before", "a", "a", "z"], "{restarts_daemon}");
        assert_eq!(lines(&world, "alive"), Vec::<String>::new(), "{restarts_daemon}");
        assert_eq!(children.lines().count(), 3);
        assert!(children.lines().all(|pid| !is_alive(pid.parse().unwrap())), "{children}");
        assert_eq!(task_rows(&world)["a"].attempts, 2);
    }
}
