//! Tests of `retry`, `for_each` and `finally`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent_worker_kernel::{Principal, ShellCommand, ShellOutcome};
use agent_worker_protocol::{
    DeliveryState, EventBody, Outcome, RunId, Sender, TaskState,
    api::{ResumeRequest, RunView},
};
use agent_worker_store::{OutputContent, TaskRow};
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    procedures::{outcome, rows, run_to_end, shell, states, world},
    scripted_worker::ScriptEnd,
    world::{KernelWorld, team, within},
};

/// A command that fails until it has run this often.
fn set_failures(world: &KernelWorld, failures: usize) {
    let ran = Arc::new(AtomicUsize::new(0));
    world.machine.set_shell_script(move |_| {
        let fails = ran.fetch_add(1, Ordering::Relaxed) < failures;
        async move {
            let status = Some(if fails { 3 } else { 0 });
            ShellOutcome { status, stdout: Vec::new(), stderr: "bad luck".into() }
        }
    });
}

/// Fails with the values that contain `bad`.
async fn shell_or_bad(command: ShellCommand) -> ShellOutcome {
    if command.prepared.files.iter().any(|file| file.value.contains("bad")) {
        return ShellOutcome { status: Some(3), stdout: Vec::new(), stderr: "bad luck".into() };
    }
    shell(command).await
}

async fn row(world: &KernelWorld, run: RunId, path: &str) -> TaskRow {
    let rows = rows(world, run).await;
    rows.into_iter().find(|row| row.key.path.as_str() == path && row.key.item == 0).unwrap()
}

async fn output(world: &KernelWorld, run: RunId, path: &str) -> String {
    match row(world, run, path).await.output.unwrap().content {
        OutputContent::Inline(text) => text,
        OutputContent::Resource(id) => panic!("{id:?}"),
    }
}

/// Returns the bodies of the messages that the tasks sent.
async fn sent(world: &KernelWorld) -> Vec<String> {
    let messages = world.channel().await.into_iter();
    messages.filter(|one| one.from == Sender::User).map(|one| one.body).collect()
}

fn assert_done(view: &RunView) {
    assert_eq!(outcome(view), Some(Outcome::Done), "{:?}", view.error);
}

#[tokio::test(start_paused = true)]
async fn a_failed_command_starts_again_after_a_pause_that_doubles() {
    let file = "tasks: [{ name: a, shell: x, retry: { max_attempts: 4, backoff: 10s } }]";
    for (failures, starts, seconds, state) in [(2, 3, 30, "a:done"), (9, 4, 70, "a:failed")] {
        let world = world().await;
        set_failures(&world, failures);
        let begin = Instant::now();
        let (_, states) = run_to_end(&world, file).await;
        assert_eq!((states.as_str(), world.machine.commands().len()), (state, starts));
        let took = begin.elapsed().as_secs();
        assert!((seconds..seconds + 10).contains(&took), "{took}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_pause_before_an_attempt_begins_the_pause_again() {
    let mut world = KernelWorld::on_disk().await;
    set_failures(&world, 1);
    let file = "tasks: [{ name: a, shell: x, retry: { max_attempts: 2, backoff: 5m } }]";
    let run = world.run(file).await;
    world.wait_for_event(run, |event| matches!(event.body, EventBody::TaskStarted(_))).await;
    world.pass_time(Duration::from_mins(2)).await;
    world.restart_daemon().await;
    let begin = Instant::now();
    assert_done(&world.wait_until_ended(run).await);
    let took = begin.elapsed().as_secs();
    assert!((300..330).contains(&took), "{took}");
    assert_eq!(world.machine.commands().len(), 2);
    assert_eq!(row(&world, run, "a").await.attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_in_the_pause_starts_no_attempt() {
    let world = world().await;
    set_failures(&world, 9);
    let file = "tasks: [{ name: a, shell: x, retry: { max_attempts: 9, backoff: 1h } }]";
    let run = world.run(file).await;
    world.wait_for_event(run, |event| matches!(event.body, EventBody::TaskStarted(_))).await;
    world.pass_time(Duration::from_mins(1)).await;
    world.stop(run).await.unwrap();
    world.wait_until_ended(run).await;
    assert_eq!(states(&world, run).await, "a:stopped");
    assert_eq!(world.machine.commands().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn items_run_one_after_the_other_and_give_the_array_of_their_outputs() {
    let world = world().await;
    let file = "tasks:
  - { name: a, shell: 'echo ${{ item }} ${{ index }}', for_each: '[\"x\",{\"k\":[1,2]},null]', as: all }
  - { name: b, shell: 'echo ${{ all }}' }
";
    let run = world.run(file).await;
    assert_done(&world.wait_until_ended(run).await);
    assert_eq!(states(&world, run).await, "a:done a[1]:done a[2]:done a[3]:done b:done");
    let all = output(&world, run, "a").await;
    let texts: Vec<String> = serde_json::from_str(&all).unwrap();
    let ends: Vec<Vec<&str>> =
        texts.iter().map(|text| text.split(' ').rev().take(2).collect()).collect();
    assert_eq!(ends, [["0", "x"], ["1", "{\"k\":[1,2]}"], ["2", ""]], "{all}");
    assert!(output(&world, run, "b").await.ends_with(&all));
    assert_eq!(world.machine.peak_concurrency().shells, 1);
    let started: Vec<Option<u32>> = world
        .events_of(run)
        .await
        .into_iter()
        .filter_map(|event| match event.body {
            EventBody::TaskStarted(data) => Some(data.item),
            _ => None,
        })
        .collect();
    assert_eq!(started, [None, Some(1), Some(2), Some(3), None]);
}

#[tokio::test(start_paused = true)]
async fn at_most_max_items_run_at_once() {
    let world = world().await;
    let file = "tasks: [{ name: a, shell: sleep 10, for_each: '[1,2,3,4,5,6,7]', max: 3 }]";
    let begin = Instant::now();
    let (view, _) = run_to_end(&world, file).await;
    assert_done(&view);
    assert_eq!(world.machine.peak_concurrency().shells, 3);
    let took = begin.elapsed().as_secs();
    assert!((30..40).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn all_items_run_after_a_failed_one_which_fails_the_task_or_is_null() {
    let items = "shell: 'echo ${{ item }}', for_each: '[\"bad\",\"b\",\"bad\",\"d\"]'";
    let world = world().await;
    world.machine.set_shell_script(shell_or_bad);
    let (view, found) =
        run_to_end(&world, &format!("tasks: [{{ name: a, {items} }}, {{ shell: never }}]")).await;
    assert_eq!(found, "2:skipped a:failed a[1]:failed a[2]:done a[3]:failed a[4]:done");
    let expected = "task `a` failed: 2 of 4 items failed, the first is item 1: the command ended with status 3: bad luck";
    assert_eq!(view.error.unwrap().message, expected);

    let file = format!("tasks: [{{ name: a, {items}, continue_on_error: true }}]");
    let run = world.run(&file).await;
    assert_done(&world.wait_until_ended(run).await);
    let all = output(&world, run, "a").await;
    let texts: Vec<Option<String>> = serde_json::from_str(&all).unwrap();
    let is_null: Vec<bool> = texts.iter().map(Option::is_none).collect();
    assert_eq!(is_null, [true, false, true, false], "{all}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_array_is_done_and_a_value_that_is_no_array_or_too_long_fails() {
    let world = world().await;
    let run = world.run("tasks: [{ name: a, shell: x, for_each: '[]', format: json }]").await;
    assert_done(&world.wait_until_ended(run).await);
    assert_eq!(output(&world, run, "a").await, "[]");
    assert_eq!(world.machine.commands().len(), 0);
    let long = format!("[{}1]", "1,".repeat(1_000));
    for (array, why) in [
        ("v", "line 3: `for_each` must give an array, not text: `v`; write `lines(v)`"),
        (long.as_str(), "line 3: `for_each` has 1001 items, and at most 1000 are allowed"),
    ] {
        let file =
            format!("tasks:\n  - {{ shell: x, as: v }}\n  - {{ shell: y, for_each: '{array}' }}\n");
        let (view, found) = run_to_end(&world, &file).await;
        assert_eq!(found, "1:done 2:failed");
        let message = view.error.unwrap().message;
        assert!(message.starts_with(&format!("task `2` failed: {why}")), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_only_the_items_without_an_end_continue() {
    let mut world = KernelWorld::on_disk().await;
    let gate = Arc::new(Semaphore::new(1));
    let held = Arc::clone(&gate);
    world.machine.set_shell_script(move |_| {
        let gate = Arc::clone(&held);
        async move {
            gate.acquire().await.unwrap().forget();
            ShellOutcome { status: Some(0), ..ShellOutcome::default() }
        }
    });
    let run = world.run("tasks: [{ name: a, shell: x, for_each: '[1,2,3,4]', max: 2 }]").await;
    within(async {
        while world.machine.commands().len() < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    world.restart_daemon().await;
    let running = rows(&world, run).await.into_iter();
    let running = running.filter(|row| row.key.item > 0 && row.state == TaskState::Running);
    assert_eq!(running.count(), 2);
    gate.add_permits(3);
    assert_done(&world.wait_until_ended(run).await);
    assert_eq!(world.machine.commands().len(), 4);
    assert!(rows(&world, run).await.iter().all(|row| row.attempts == 1));
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_starts_no_further_item_until_it_is_resumed() {
    let world = world().await;
    let run = world.run("tasks: [{ name: a, shell: sleep 30, for_each: '[1,2,3]' }]").await;
    world.wait_for_event(run, |event| matches!(event.body, EventBody::TaskStarted(_))).await;
    world.kernel.runs().pause(&Principal::User, run).await.unwrap();
    world.pass_time(Duration::from_mins(2)).await;
    assert_eq!(states(&world, run).await, "a:running a[1]:done");
    let request = ResumeRequest::default();
    world.kernel.runs().resume(&Principal::User, None, run, request).await.unwrap();
    assert_done(&world.wait_until_ended(run).await);
    assert_eq!(states(&world, run).await, "a:done a[1]:done a[2]:done a[3]:done");
}

#[tokio::test(start_paused = true)]
async fn fail_fast_stops_the_items_that_run_and_starts_no_others() {
    let world = world().await;
    let file = "tasks:
  - name: p
    parallel:
      fail_fast: true
      tasks:
        - { name: a, shell: sleep 600, for_each: '[1,2,3]', max: 2 }
        - { name: g, then: [{ shell: sleep 5 }, { shell: fail }] }
";
    let (view, found) = run_to_end(&world, file).await;
    assert_eq!(
        found,
        "p:failed p/a:stopped p/a[1]:stopped p/a[2]:stopped p/g:failed p/g/1:done p/g/2:failed"
    );
    let message = view.error.unwrap().message;
    assert!(message.contains("task `p/a` stopped: stopped before all of its items"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn each_item_of_a_message_is_one_message_and_each_of_a_command_has_its_own_attempts() {
    let world = world().await;
    world.machine.set_worker_script("coder", |_| async { ScriptEnd::done("fine") });
    let rest = "tasks: [{ name: ask, send: 'read ${{ item }}', to: coder, for_each: '[\"a\",\"b\"]', max: 2 }]";
    let run = world.run(&team("coder", rest)).await;
    assert_done(&world.wait_until_ended(run).await);
    assert_eq!(output(&world, run, "ask").await, "[\"fine\",\"fine\"]");
    assert_eq!(sent(&world).await, ["read a", "read b"]);

    set_failures(&world, 2);
    let file = "tasks: [{ name: a, shell: x, for_each: '[1,2]', retry: { max_attempts: 3 } }]";
    let run = world.run(file).await;
    assert_done(&world.wait_until_ended(run).await);
    let attempts: Vec<u32> = rows(&world, run).await.iter().map(|row| row.attempts).collect();
    assert_eq!(attempts, [1, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_sent_again_and_no_failure_of_the_run() {
    let world = world().await;
    let turns = Arc::new(AtomicUsize::new(0));
    world.machine.set_worker_script("coder", move |_| {
        let is_first = turns.fetch_add(1, Ordering::Relaxed) == 0;
        async move { if is_first { ScriptEnd::Crashes } else { ScriptEnd::done("ready") } }
    });
    let file = "agents: { coder: { backend: mock, retry: { max_attempts: 1 } } }
tasks: [{ name: ask, send: go, to: coder, as: x, retry: { max_attempts: 2, backoff: 10s } }]
";
    let run = world.run(file).await;
    assert_done(&world.wait_until_ended(run).await);
    let asked = row(&world, run, "ask").await;
    assert_eq!((asked.state, asked.attempts), (TaskState::Done, 2));
    assert_eq!(output(&world, run, "ask").await, "ready");
    assert_eq!(sent(&world).await, ["go", "go"]);
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Dropped);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_an_answer_in_time_is_sent_again_once_also_after_a_restart() {
    for restarts in [false, true] {
        let mut world = KernelWorld::on_disk().await;
        let turns = Arc::new(AtomicUsize::new(0));
        world.machine.set_worker_script("coder", move |_| {
            let is_first = turns.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                if is_first {
                    tokio::time::sleep(Duration::from_hours(9)).await;
                }
                ScriptEnd::done("ready")
            }
        });
        let rest = "tasks: [{ name: ask, send: go, to: coder, timeout: 60s, retry: { max_attempts: 2, backoff: 2m } }]";
        let begin = Instant::now();
        let run = world.run(&team("coder", rest)).await;
        if restarts {
            world.pass_time(Duration::from_secs(100)).await;
            assert_eq!(world.receipts(1).await[0].state, DeliveryState::Dropped);
            world.restart_daemon().await;
        }
        assert_done(&world.wait_until_ended(run).await);
        // Time passes while a daemon restarts.
        let took = begin.elapsed().as_secs();
        let pause_ends = if restarts { 100 + 120 } else { 60 + 120 };
        assert!(took >= pause_ends && (restarts || took < 250), "{took}");
        assert_eq!(row(&world, run, "ask").await.attempts, 2);
        assert_eq!(sent(&world).await, ["go", "go"]);
        assert_eq!(world.machine.turns_of("coder").len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_stays_unanswered_is_sent_as_often_as_its_attempts() {
    let world = world().await;
    world.machine.set_worker_script("coder", |_| async { ScriptEnd::Crashes });
    let file = "agents: { coder: { backend: mock, retry: { max_attempts: 1 } } }
tasks: [{ name: ask, send: go, to: coder, retry: { max_attempts: 2, backoff: 1s } }]
";
    let (view, found) = run_to_end(&world, file).await;
    assert_eq!(found, "ask:failed");
    let message = view.error.unwrap().message;
    assert!(message.contains("the agent `coder` gave the message up"), "{message}");
    assert_eq!(sent(&world).await, ["go", "go"]);
}

#[tokio::test(start_paused = true)]
async fn finally_runs_after_a_failure_and_reads_every_task_but_not_after_a_stop() {
    let world = world().await;
    let file = "tasks: [{ name: a, shell: fail }, { name: b, shell: x }]
finally: [{ name: c, shell: 'echo ${{ tasks.a.state }} ${{ tasks.b.state }}' }]
";
    let run = world.run(file).await;
    let view = world.wait_until_ended(run).await;
    assert_eq!(states(&world, run).await, "a:failed b:skipped finally/c:done");
    assert!(output(&world, run, "finally/c").await.ends_with("failed skipped"));
    let expected = "task `a` failed: the command ended with status 3: bad luck";
    assert_eq!(view.error.unwrap().message, expected);

    let file = "tasks: [{ name: a, shell: x }]\nfinally: [{ name: c, shell: fail }]";
    let (view, states_then) = run_to_end(&world, file).await;
    assert_eq!(states_then, "a:done finally/c:failed");
    let expected = "task `finally/c` failed: the command ended with status 3: bad luck";
    assert_eq!(view.error.unwrap().message, expected);

    let file = "tasks: [{ name: a, shell: sleep 600 }]\nfinally: [{ name: c, shell: x }]";
    let run = world.run(file).await;
    world.wait_for_event(run, |event| matches!(event.body, EventBody::TaskStarted(_))).await;
    world.stop(run).await.unwrap();
    world.wait_until_ended(run).await;
    assert_eq!(states(&world, run).await, "a:stopped");
}
