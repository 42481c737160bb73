//! Tests of procedures: the order of the tasks, their values, the end of the run, and restarts in the middle.

use std::{sync::Arc, time::Duration};

use agent_worker_kernel::{Principal, ShellCommand, ShellOutcome};
use agent_worker_protocol::{
    EventBody, Outcome, RunId, RunState, TaskState,
    api::{ResumeRequest, RunErrorCode, RunView},
};
use agent_worker_store::{OutputContent, TaskRow, TaskStore as _};

use crate::{
    scripted_worker::ScriptEnd,
    world::{KernelWorld, team, within},
};
use tokio::sync::Semaphore;

/// Carries out a script of a test: `fail`, `sleep SECONDS`, or text that is printed, with the values in their places.
pub(crate) async fn shell(command: ShellCommand) -> ShellOutcome {
    let mut script = command.prepared.script.clone();
    for file in &command.prepared.files {
        script.push(' ');
        script.push_str(&file.value);
    }
    let word = script.split_whitespace().next().unwrap_or_default().to_owned();
    let rest = script.strip_prefix(&word).unwrap_or_default().trim().to_owned();
    match word.as_str() {
        "fail" => ShellOutcome { status: Some(3), stdout: Vec::new(), stderr: "bad luck".into() },
        "sleep" => {
            tokio::time::sleep(Duration::from_secs(rest.parse().unwrap())).await;
            ShellOutcome { status: Some(0), ..ShellOutcome::default() }
        }
        _ => ShellOutcome { status: Some(0), stdout: script.into_bytes(), stderr: String::new() },
    }
}

pub(crate) async fn world() -> KernelWorld {
    let world = KernelWorld::new().await;
    world.machine.set_shell_script(shell);
    world
}

pub(crate) async fn run_to_end(world: &KernelWorld, file: &str) -> (RunView, String) {
    let run = world.run(file).await;
    let view = world.wait_until_ended(run).await;
    (view, states(world, run).await)
}

pub(crate) async fn rows(world: &KernelWorld, run: RunId) -> Vec<TaskRow> {
    world.store.task_list(run).await.unwrap()
}

/// Returns the final states, such as `a:done b:skipped`.
pub(crate) async fn states(world: &KernelWorld, run: RunId) -> String {
    let rows = rows(world, run).await;
    let text = |row: &TaskRow| match row.key.item {
        0 => format!("{}:{}", row.key.path, row.state),
        item => format!("{}[{item}]:{}", row.key.path, row.state),
    };
    rows.iter().map(text).collect::<Vec<_>>().join(" ")
}

pub(crate) fn outcome(view: &RunView) -> Option<Outcome> {
    match view.state {
        RunState::Ended { outcome } => Some(outcome),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_with_tasks_and_no_agents_runs_them_in_order_and_is_done() {
    let world = world().await;
    let file = "tasks:
  - { shell: one, as: x }
  - { name: b, shell: 'echo ${{ x }}', as: y }
  - { name: c, shell: 'echo ${{ tasks.b.state }} ${{ y }}', as: z }
";
    let run = world.run(file).await;
    let view = world.wait_until_ended(run).await;
    assert_eq!(outcome(&view), Some(Outcome::Done), "{:?}", view.error);
    assert_eq!(states(&world, run).await, "1:done b:done c:done");
    let outputs: Vec<Option<OutputContent>> =
        rows(&world, run).await.into_iter().map(|row| Some(row.output?.content)).collect();
    assert!(outputs.iter().all(Option::is_some), "{outputs:?}");
    let last = format!("{:?}", outputs.last());
    assert!(last.contains("done") && last.contains("one"), "{last}");
    let kinds = world.events_of(run).await;
    let ended = kinds.iter().filter(|event| matches!(event.body, EventBody::TaskEnded(_)));
    assert_eq!(ended.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_skips_the_rest_and_fails_the_run_by_name() {
    let world = world().await;
    let file = "tasks:
  - { name: a, shell: ok }
  - { name: b, shell: fail }
  - { name: c, shell: never }
";
    let (view, states) = run_to_end(&world, file).await;
    assert_eq!(states, "a:done b:failed c:skipped");
    let error = view.error.unwrap();
    assert_eq!(error.code, RunErrorCode::TaskFailed);
    let expected = "task `b` failed: the command ended with status 3: bad luck";
    assert_eq!(error.message, expected);
    assert_eq!(world.machine.commands().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_task_is_done_with_the_answer_and_its_text_is_the_output() {
    let world = world().await;
    world.machine.set_worker_script("coder", |_| async { ScriptEnd::done("42 lines") });
    let rest = "tasks:
  - { name: ask, send: count the lines, to: coder, as: count }
  - { name: use, shell: 'echo ${{ count }}', as: used }
";
    let run = world.run(&team("coder", rest)).await;
    let view = world.wait_until_ended(run).await;
    assert_eq!(outcome(&view), Some(Outcome::Done), "{:?}", view.error);
    assert_eq!(states(&world, run).await, "ask:done use:done");
    let used = format!("{:?}", rows(&world, run).await[1].output);
    assert!(used.contains("42 lines"), "{used}");
    assert_eq!(world.machine.turns_of("coder").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_fails_its_task() {
    let world = world().await;
    world.machine.set_worker_script("coder", |_| async { ScriptEnd::Crashes });
    let rest = "tasks: [{ name: ask, send: go, to: coder }, { name: next, shell: x }]";
    let (view, states) = run_to_end(&world, &team("coder", rest)).await;
    assert_eq!(states, "ask:failed next:skipped");
    let message = view.error.unwrap().message;
    assert!(
        message.starts_with("task `ask` failed: the agent `coder` gave the message up"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn tasks_begin_when_the_team_rests_after_the_kickoff() {
    let world = world().await;
    world.machine.set_worker_script("coder", |_| async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        ScriptEnd::done("ready")
    });
    let rest = "kickoff: '@coder prepare'\ntasks: [{ name: a, shell: x }]";
    let run = world.run(&team("coder", rest)).await;
    world.wait_until_ended(run).await;
    let events = world.events_of(run).await;
    let place = |wanted: &dyn Fn(&EventBody) -> bool| {
        events.iter().position(|event| wanted(&event.body)).unwrap()
    };
    let answered = place(&|body| matches!(body, EventBody::AttemptEnded(_)));
    let started = place(&|body| matches!(body, EventBody::TaskStarted(_)));
    assert!(answered < started, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_parallel_block_runs_at_most_its_maximum_at_once() {
    let world = world().await;
    let tasks: Vec<String> = (0..7).map(|_| "{ shell: sleep 10 }".to_owned()).collect();
    let file = format!(
        "tasks:\n  - name: p\n    parallel: {{ max: 3, tasks: [{}] }}\n  - {{ name: z, shell: ok }}\n",
        tasks.join(", ")
    );
    let begin = tokio::time::Instant::now();
    let (view, _) = run_to_end(&world, &file).await;
    assert_eq!(outcome(&view), Some(Outcome::Done), "{:?}", view.error);
    assert_eq!(world.machine.peak_concurrency().shells, 3);
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(40), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_outlives_a_daemon_is_adopted_and_not_repeated() {
    let mut world = KernelWorld::on_disk().await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    world.machine.set_shell_script(move |_| {
        let gate = Arc::clone(&held);
        async move {
            gate.acquire().await.unwrap().forget();
            ShellOutcome { status: Some(0), ..ShellOutcome::default() }
        }
    });
    let run = world.run("tasks: [{ name: a, shell: x }, { name: b, shell: y }]").await;
    world.wait_for_event(run, |event| matches!(event.body, EventBody::TaskStarted(_))).await;
    within(async {
        while world.machine.shells() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    world.stop_daemon().await;
    world.restart_daemon().await;
    gate.add_permits(2);
    let view = world.wait_until_ended(run).await;
    assert_eq!(outcome(&view), Some(Outcome::Done), "{:?}", view.error);
    assert_eq!(world.machine.commands().len(), 2);
    assert!(rows(&world, run).await.iter().all(|row| row.attempts == 1));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_run_stops_its_commands_and_says_so_in_every_row() {
    let world = world().await;
    let file = "tasks: [{ name: a, shell: sleep 600 }, { name: b, shell: ok }]";
    let run = world.run(file).await;
    world.wait_for_event(run, |event| matches!(event.body, EventBody::TaskStarted(_))).await;
    world.stop(run).await.unwrap();
    world.wait_until_ended(run).await;
    assert_eq!(states(&world, run).await, "a:stopped");
    assert_eq!(world.machine.shells(), 0);
    let stopped: Vec<TaskState> = world
        .events_of(run)
        .await
        .into_iter()
        .filter_map(|event| match event.body {
            EventBody::TaskEnded(data) => Some(data.state),
            _ => None,
        })
        .collect();
    assert_eq!(stopped, [TaskState::Stopped]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_starts_no_task_until_it_is_resumed() {
    let world = world().await;
    let file = "tasks: [{ name: a, shell: sleep 30 }, { name: b, shell: ok }]";
    let run = world.run(file).await;
    world.wait_for_event(run, |event| matches!(event.body, EventBody::TaskStarted(_))).await;
    world.kernel.runs().pause(&Principal::User, run).await.unwrap();
    world.pass_time(Duration::from_mins(2)).await;
    assert_eq!(states(&world, run).await, "a:done");
    let request = ResumeRequest::default();
    world.kernel.runs().resume(&Principal::User, None, run, request).await.unwrap();
    let view = world.wait_until_ended(run).await;
    assert_eq!(outcome(&view), Some(Outcome::Done), "{:?}", view.error);
    assert_eq!(states(&world, run).await, "a:done b:done");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_fails_by_itself_fails_the_run_and_one_that_may_fail_does_not() {
    let world = world().await;
    for (tasks, expected) in [
        (
            "- { name: g, if: tasks.a.state, then: [{ shell: x }] }",
            Some("task `g` failed: line 3: `if` must give true or false"),
        ),
        ("- { name: g, continue_on_error: true, then: [{ shell: fail }] }", None),
        (
            "- { name: g, if: 'false', shell: x, else: [{ name: e, shell: fail }] }",
            Some("task `g/else/e` failed: the command ended with status 3"),
        ),
    ] {
        let file = format!("tasks:\n  - {{ name: a, shell: ok }}\n  {tasks}\n");
        let (view, states) = run_to_end(&world, &file).await;
        match (view.error.clone(), expected) {
            (None, None) => assert_eq!(outcome(&view), Some(Outcome::Done), "{states}"),
            (Some(error), Some(expected)) => {
                assert!(error.message.starts_with(expected), "{}", error.message);
            }
            (error, expected) => panic!("{error:?}, not {expected:?}: {states}"),
        }
    }
}
