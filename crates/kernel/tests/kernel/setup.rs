//! Tests of the start of a run: its commands, its first message, and failures before any agent is woken.

use std::{collections::BTreeMap, time::Duration};

use agent_worker_kernel::{ListingScope, PageRequest, Principal, ShellOutcome};
use agent_worker_protocol::{
    EventKind, Outcome, RunId, RunMode, RunState,
    api::{RunError, RunErrorCode},
};

use agent_worker_store::RunStore as _;

use crate::scripted_worker::ScriptEnd;
use crate::world::{KernelWorld, instance_selector, team};

fn prints(text: &str) -> ShellOutcome {
    ShellOutcome { status: Some(0), stdout: text.as_bytes().to_vec(), stderr: String::new() }
}

/// Returns the error of a run that failed before its agents started.
async fn failure(world: &KernelWorld, file: &str) -> RunError {
    let run = world.run(file).await;
    let view = world.wait_until_ended(run).await;
    assert_eq!(view.state, RunState::Ended { outcome: Outcome::Failed });
    assert!(world.machine.turns().is_empty(), "somebody was woken");
    view.error.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_a_command_prints_is_filled_in() {
    let world = KernelWorld::new().await;
    world.machine.set_shell_script(|command| async move {
        let files = &command.prepared.files;
        prints(&files.first().map_or("abc\n".to_owned(), |file| format!("<{}>\n", file.value)))
    });
    let file = "\
setup:
  - { shell: git rev-parse HEAD, as: rev }
  - { shell: 'echo \"${{ rev }}\"', as: marked }
kickoff: '@coder look at ${{ rev }} and ${{ marked }}'";
    let run = world.run(&team("coder", file)).await;
    let story = world.events_of(run).await;
    assert_eq!(world.machine.turns()[0].woken_by, "@coder look at abc and <abc>");
    let told: Vec<_> =
        story.iter().filter(|event| event.kind() == Some(EventKind::SetupRan)).collect();
    let names: Vec<_> = told.iter().map(|event| event.data()["as"].clone()).collect();
    assert_eq!(names, ["rev", "marked"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_command_fails_the_run_with_what_it_complained_about() {
    let world = KernelWorld::new().await;
    world.machine.set_shell_script(|_| async {
        ShellOutcome { status: Some(7), stdout: Vec::new(), stderr: "no such branch\n".into() }
    });
    let rest = "setup:\n  - { shell: git diff }\n  - { shell: never }\nkickoff: '@coder go'";
    let error = failure(&world, &team("coder", rest)).await;
    let message = "the setup command on line 4 ended with status 7: no such branch".to_owned();
    assert_eq!(error, RunError { code: RunErrorCode::SetupFailed, message });
    assert_eq!(world.machine.commands().len(), 1, "the next command is not run");
    assert!(world.channel().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_kickoff_without_a_mention_of_an_agent_fails_the_run() {
    let world = KernelWorld::new().await;
    for (kickoff, message) in [
        ("please review", "the kickoff mentions no agent, so none is woken"),
        (
            "@codr please",
            "the kickoff mentions no agent, so none is woken; `@codr` is not an agent, did you mean `@coder`?",
        ),
    ] {
        let error = failure(&world, &team("coder", &format!("kickoff: '{kickoff}'"))).await;
        let message = message.to_owned();
        assert_eq!(error, RunError { code: RunErrorCode::NobodyWoken, message });
    }
    let (place, project) = (instance_selector("@team"), ListingScope::Live);
    let agents = world
        .kernel
        .agents()
        .list(&Principal::User, &place, project, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    assert_eq!(agents[0].state.to_string(), "stopped: its run woke no agent");
}

#[tokio::test(start_paused = true)]
async fn a_mention_inside_a_value_wakes_no_agent() {
    let world = KernelWorld::new().await;
    world.machine.set_shell_script(|_| async { prints("@coder") });
    let rest = "setup: [{ shell: whoami, as: who }]\nkickoff: '${{ who }} please'";
    let error = failure(&world, &team("coder", rest)).await;
    assert_eq!(error.code, RunErrorCode::NobodyWoken);
}

#[tokio::test(start_paused = true)]
async fn a_value_of_ten_megabytes_is_a_resource_and_the_mention_after_it_still_wakes() {
    const SIZE: usize = 10 * 1024 * 1024;
    let world = KernelWorld::on_disk().await;
    world.machine.set_shell_script(|_| async {
        let line = "+ @lead ```\n";
        prints(&line.repeat(SIZE / line.len() + 1)[..SIZE - 1])
    });
    let rest = "setup: [{ shell: git diff, as: diff }]\nkickoff: |\n  ${{ diff }}\n  @coder review";
    let run = world.run(&team("coder lead", rest)).await;
    world.wait_until_ended(run).await;
    let woken: Vec<_> = world.machine.turns().iter().map(|turn| turn.agent.to_string()).collect();
    assert_eq!(woken, ["coder"]);
    let kickoff = world.channel().await.remove(0);
    assert!(kickoff.body.starts_with("+ @lead ```\n"), "a preview is in place");
    assert!(kickoff.body.ends_with("@coder review\n") && kickoff.body.len() < 4_096);
    let (_, id) = kickoff.body.split_once("resource_read, id ").unwrap();
    let id = id[..64].parse().unwrap();
    let end = (SIZE - 100) as u64..SIZE as u64;
    let part = world
        .kernel
        .resources()
        .read(&Principal::User, &instance_selector("@team"), id, Some(end))
        .await
        .unwrap();
    assert_eq!((part.total, part.content.len()), (SIZE as u64 - 1, 99));
}

/// Starts a run whose only setup command never ends, and waits until the command runs.
async fn endless(world: &KernelWorld, rest: &str) -> RunId {
    world.machine.set_shell_script(|_| std::future::pending());
    let setup = "setup: [{ shell: sleep infinity }]\nkickoff: '@coder go'";
    let run = world.run(&team("coder", &format!("{rest}\n{setup}"))).await;
    world.pass_time(Duration::from_secs(1)).await;
    assert_eq!(world.machine.shells(), 1);
    run
}

#[tokio::test(start_paused = true)]
async fn a_setup_that_outlasts_the_wall_limit_fails_the_run_and_its_command_is_ended() {
    let world = KernelWorld::new().await;
    let run = endless(&world, "limits: { wall: 61s }").await;
    let view = world.wait_until_ended(run).await;
    assert_eq!(world.wall_after(view.ended.unwrap()), 61_000);
    assert_eq!(view.state, RunState::Ended { outcome: Outcome::Failed });
    let message = "the setup took longer than the run's time limit (`limits: wall`)".to_owned();
    assert_eq!(view.error, Some(RunError { code: RunErrorCode::SetupFailed, message }));
    world.pass_time(Duration::from_millis(1)).await;
    assert_eq!(world.machine.shells(), 0);
    assert!(!world.machine.keeps_environment(run) && world.machine.turns().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_a_setup_without_blame_and_the_next_daemon_begins_it_again() {
    let mut world = KernelWorld::on_disk().await;
    let run = endless(&world, "").await;
    world.drain(10).await;
    assert_eq!(world.machine.shells(), 0);
    assert_eq!(world.view(run).await.state, RunState::Setup);
    world.machine.set_shell_script(|_| async { prints("") });
    world.restart_daemon().await;
    assert_eq!(world.wait_until_ended(run).await.state, RunState::Ended { outcome: Outcome::Done });
    assert_eq!(world.machine.commands().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_setup_left_is_ended_before_the_next_daemon_begins_it_again() {
    let mut world = KernelWorld::on_disk().await;
    let run = endless(&world, "").await;
    world.stop_daemon().await;
    assert_eq!(world.machine.shells(), 1, "a daemon that is gone ends nothing");
    world.machine.set_shell_script(|_| async { prints("") });
    world.restart_daemon().await;
    assert_eq!(world.wait_until_ended(run).await.state, RunState::Ended { outcome: Outcome::Done });
    assert_eq!(
        (world.machine.peak_concurrency().shells, world.machine.shells()),
        (1, 0),
        "never side by side"
    );
}

#[tokio::test(start_paused = true)]
async fn a_variable_of_env_reaches_its_own_setup_command_and_no_other_process() {
    let world = KernelWorld::new().await;
    world.machine.set_shell_script(|_| async { prints("v1\n") });
    world.machine.set_worker_script("coder", |worker| async move {
        ScriptEnd::done(&worker.job.env.keys().cloned().collect::<Vec<_>>().join(" "))
    });
    let file = "\
setup:
  - { shell: git describe, as: version }
  - shell: gh api user
    env: { GH_TOKEN: '${{ env.MY_TOKEN }}', VERSION: 'v${{ version }}', MODE: fast }
  - { shell: 'true' }
kickoff: '@coder go'";
    let mut request = world.run_request(RunMode::Run, "team", &team("coder", file));
    request.env.insert("MY_TOKEN".to_owned(), "s3cret".to_owned());
    let run = world.kernel.runs().create(&Principal::User, request).await.unwrap().run;
    let events = world.events_of(run).await;
    assert_eq!(world.view(run).await.error, None);
    let names = |env: &BTreeMap<String, String>| env.keys().cloned().collect::<Vec<_>>();
    let commands = world.machine.commands();
    assert_eq!(names(&commands[0].env), ["PATH"]);
    assert_eq!(names(&commands[1].env), ["GH_TOKEN", "MODE", "PATH", "VERSION"]);
    let own = &commands[1].env;
    assert_eq!((&*own["GH_TOKEN"], &*own["VERSION"], &*own["MODE"]), ("s3cret", "vv1", "fast"));
    assert_eq!(names(&commands[2].env), ["PATH"]);
    assert_eq!(world.view(run).await.answers[&"coder".parse().unwrap()].text, "PATH");
    let stored = serde_json::to_string(&events).unwrap();
    assert!(!stored.contains("s3cret"), "{stored}");
    assert!(!world.store.run_get(run).await.unwrap().script.contains("s3cret"));
}

#[tokio::test(start_paused = true)]
async fn a_variable_that_no_environment_can_hold_fails_the_setup() {
    for (printed, why) in
        [("x".repeat(200 * 1024), "is longer than 100 KiB"), ("a\0b".to_owned(), "has a NUL byte")]
    {
        let world = KernelWorld::new().await;
        world.machine.set_shell_script(move |_| {
            let printed = printed.clone();
            async move { prints(&printed) }
        });
        let rest = "setup:\n  - { shell: a, as: big }\n  - { shell: b, env: { BIG: '${{ big }}' } }\nkickoff: '@coder go'";
        let error = failure(&world, &team("coder", rest)).await;
        assert_eq!(error.message, format!("line 5: the value of the setup variable `BIG` {why}"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_command_names_the_variables_of_its_env_instead_of_their_values() {
    let world = KernelWorld::new().await;
    world.machine.set_shell_script(|command| async move {
        let stderr = format!("fatal: {} was refused\n", command.env["TOKEN"]);
        ShellOutcome { status: Some(1), stdout: Vec::new(), stderr }
    });
    let rest = "\
params: [{ name: key, default: hunter2-hunter2 }]
setup:
  - { shell: ./fetch, env: { TOKEN: '${{ params.key }}', MODE: refused } }
kickoff: '@coder go'";
    let error = failure(&world, &team("coder", rest)).await;
    let message = "the setup command on line 5 ended with status 1: fatal: [TOKEN] was refused";
    assert_eq!(error.message, message);
}
