//! Tests of failures: number and time of retries, and dead letters.

use std::time::Duration;

use agent_worker_kernel::Principal;
use agent_worker_protocol::{
    AgentState, Backend, DeliveryState, EventKind, FailureClass, MessageKind, Outcome, RunId,
    RunMode, RunState,
};

use crate::{
    scripted_worker::{ScriptEnd, ScriptGate, ScriptedWorker},
    world::{KernelWorld, instance_selector, team},
};

const FAILED: RunState = RunState::Ended { outcome: Outcome::Failed };

/// Runs a coder that gets all of `mail` at once, and runs `script` from then on.
async fn with_mail<F, S>(world: &KernelWorld, mail: &[String], script: S) -> RunId
where
    S: Fn(ScriptedWorker) -> F + Send + Sync + 'static,
    F: Future<Output = ScriptEnd> + Send + 'static,
{
    let gate = ScriptGate::default();
    let go = gate.clone();
    world.machine.set_worker_script("coder", move |worker| {
        let (gate, first, script) = (gate.clone(), worker.nth == 1, script(worker));
        async move {
            if first {
                gate.wait_open().await;
                return ScriptEnd::quiet();
            }
            script.await
        }
    });
    let run = world.run(&team("coder", "kickoff: '@coder hold on'")).await;
    world.wait_for_report(run, "coder", 1).await;
    for body in mail {
        world.send_to_team(body).await;
    }
    go.open();
    run
}

/// Returns the start time of each attempt of the coder, in milliseconds.
fn began(world: &KernelWorld) -> Vec<i64> {
    world.machine.turns_of("coder").iter().map(|turn| world.after(turn.began)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_fatal_failure_is_tried_three_times_with_growing_pauses() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |_| async { ScriptEnd::fails(FailureClass::Fatal) });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    let view = world.wait_until_ended(run).await;
    assert_eq!(began(&world), [0, 1_000, 3_000]);
    let numbers: Vec<_> = world.machine.turns().iter().map(|turn| turn.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(
        (view.state, view.dead_letters.len(), view.dead_letters[0].failures),
        (FAILED, 1, 3)
    );
    let told = world.channel().await.pop().unwrap();
    assert_eq!(told.kind, MessageKind::System);
    assert_eq!(told.body, "Message 1 for coder is a dead letter: failed (fatal): scripted fatal");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_leaves_without_a_word_has_crashed() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        if worker.nth == 1 { ScriptEnd::Crashes } else { ScriptEnd::quiet() }
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    let ended =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    assert_eq!(ended.data()["class"], "crash");
    world.wait_until_ended(run).await;
    assert_eq!(began(&world), [0, 1_000]);
    assert_eq!(world.receipts(1).await[0].failures, 1);
}

#[tokio::test(start_paused = true)]
async fn a_poison_message_has_three_attempts_and_other_messages_lose_one_turn() {
    let world = KernelWorld::new().await;
    let mut mail: Vec<String> = (1..=20).map(|n| format!("@coder good {n}")).collect();
    mail.insert(7, "@coder poison".to_owned());
    let run = with_mail(&world, &mail, |worker| async move {
        let poisoned = worker.job.woken_by.contains("poison");
        if poisoned { ScriptEnd::fails(FailureClass::Fatal) } else { ScriptEnd::quiet() }
    })
    .await;
    let view = world.wait_until_ended(run).await;
    let turns = world.machine.turns_of("coder");
    let poisoned: Vec<_> = turns.iter().filter(|turn| turn.woken_by.contains("poison")).collect();
    assert_eq!(poisoned.iter().map(|turn| turn.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(poisoned[1].woken_by, "@coder poison", "from the second try on by itself");
    assert_eq!((view.state, view.dead_letters.len(), view.dropped.len()), (FAILED, 1, 0));
    assert_eq!(
        view.dead_letters[0].seq.get(),
        9,
        "the kickoff is 1, seven good ones are before it"
    );
    for seq in (1..=22).filter(|seq| *seq != 9) {
        assert_eq!(world.receipts(seq).await[0].state, DeliveryState::Acted, "message {seq}");
    }
    let told = world.channel().await.into_iter().filter(|one| one.kind == MessageKind::System);
    assert_eq!(told.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_tried_again_together_and_die_after_ten_in_a_row() {
    let world = KernelWorld::new().await;
    let mail = ["@coder one", "@coder two"].map(str::to_owned);
    let run =
        with_mail(&world, &mail, |_| async { ScriptEnd::fails(FailureClass::Transient) }).await;
    let view = world.wait_until_ended(run).await;
    let seconds: Vec<_> = began(&world)[1..].iter().map(|at| at / 1_000).collect();
    assert_eq!(seconds, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511]);
    let turns = world.machine.turns_of("coder");
    assert!(turns[1..].iter().all(|turn| turn.woken_by == "@coder one\n@coder two"));
    assert!(view.dead_letters.iter().all(|letter| letter.failures == 0), "none of them counts");
    assert_eq!((view.state, view.dead_letters.len()), (FAILED, 2));
    assert_eq!(world.wall_after(view.ended.unwrap()), 511_000, "the dead are not waited for");
}

#[tokio::test(start_paused = true)]
async fn a_success_in_between_resets_the_count() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        match worker.nth {
            9 => {
                worker.send("@lead again").await.unwrap();
                ScriptEnd::quiet()
            }
            18 => ScriptEnd::quiet(),
            _ => ScriptEnd::fails(FailureClass::Transient),
        }
    });
    world.machine.set_worker_script("lead", |worker| async move {
        worker.send("@coder once more").await.unwrap();
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    assert_eq!(world.wait_until_ended(run).await.state, RunState::Ended { outcome: Outcome::Done });
    assert_eq!(world.machine.turns_of("coder").len(), 18);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_parks_until_the_named_instant_and_not_a_moment_less() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        match worker.nth {
            1 => ScriptEnd::rate_limited(worker.now().plus(Duration::from_millis(90_500))),
            _ => ScriptEnd::quiet(),
        }
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    world.send_to_team("@coder are you there?").await;
    world.pass_time(Duration::from_millis(90_499)).await;
    let AgentState::Parked { until, .. } = world.view(run).await.agents.remove(0).state else {
        panic!("not parked: {:?}", world.view(run).await.agents);
    };
    assert_eq!(world.wall_after(until), 90_500);
    assert_eq!(world.wait_until_ended(run).await.state, RunState::Ended { outcome: Outcome::Done });
    assert_eq!(began(&world), [0, 90_500]);
    assert_eq!(world.receipts(1).await[0].failures, 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_stops_the_agent_and_drops_its_mail_at_the_end() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |_| async { ScriptEnd::fails(FailureClass::Auth) });
    world.machine.set_worker_script("lead", |worker| async move {
        worker.pass_time(Duration::from_secs(10)).await;
        worker.send("@coder still there?").await.unwrap();
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder lead", "kickoff: '@all go'")).await;
    let stopped =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AgentStopped)).await;
    assert_eq!(stopped.cause.as_deref(), Some("auth: scripted auth"));
    let view = world.wait_until_ended(run).await;
    assert_eq!(began(&world), [0], "it is not tried again");
    assert_eq!((view.state, world.wall_after(view.ended.unwrap())), (FAILED, 10_000));
    let failed = view.agents.iter().find(|agent| agent.name.as_str() == "coder").unwrap();
    let failed = failed.last_failure.as_ref().unwrap();
    assert_eq!(
        (failed.class, &*failed.message, world.wall_after(failed.at), failed.recovered),
        (FailureClass::Auth, "scripted auth", 0, false)
    );
    let [last] = &view.last_failures[..] else { panic!("{:?}", view.last_failures) };
    assert_eq!((last.agent.as_str(), &last.failure), ("coder", failed));
    let dropped: Vec<_> =
        view.dropped.iter().map(|one| (one.seq.get(), one.agent.to_string())).collect();
    assert_eq!(dropped, [(1, "coder".to_owned()), (2, "coder".to_owned())]);
    let states: Vec<_> = world.receipts(1).await.iter().map(|receipt| receipt.state).collect();
    assert_eq!(states, [DeliveryState::Dropped, DeliveryState::Acted]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_be_prepared_is_a_failure_and_not_a_busy_loop() {
    let world = KernelWorld::new().await;
    let machine = world.machine.clone();
    world.machine.set_worker_script("lead", move |worker| {
        let machine = machine.clone();
        async move {
            machine.lose_environments();
            worker.send("@coder go").await.unwrap();
            ScriptEnd::quiet()
        }
    });
    let run = world.run(&team("lead coder", "kickoff: '@lead go'")).await;
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state, view.dead_letters.len()), (FAILED, 1));
    assert_eq!(world.wall_after(view.ended.unwrap()), 3_000);
}

#[tokio::test(start_paused = true)]
async fn a_missing_program_stops_the_agent_at_once_and_its_mail_waits_for_the_installation() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        match worker.nth {
            1 => ScriptEnd::fails(FailureClass::MissingProgram),
            _ => ScriptEnd::done("installed"),
        }
    });
    let run = world.start(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AgentStopped)).await;
    world.pass_time(Duration::from_hours(1)).await;
    assert_eq!(world.machine.turns().len(), 1, "it is not tried again");
    let coder = &world.view(run).await.agents[0];
    assert_eq!(coder.state.to_string(), "stopped: missing_program: scripted missing_program");
    assert_eq!(coder.waiting, 1);
    let place = instance_selector("coder@team");
    world.kernel.agents().resume(&Principal::User, &place).await.unwrap();
    world.pass_time(Duration::from_secs(1)).await;
    assert_eq!(world.view(run).await.answers[&"coder".parse().unwrap()].text, "installed");
}

#[tokio::test(start_paused = true)]
async fn a_path_of_a_workflow_file_is_relative_to_the_file() {
    let world = KernelWorld::new().await;
    for agent in ["path", "bare", "absolute", "vendor"] {
        world.machine.set_worker_script(agent, |worker| async move {
            let words = match &worker.job.backend {
                Backend::Command { command } => command.clone(),
                Backend::Native(native) => [&native.command[..], &native.args].concat(),
                _ => panic!("a command"),
            };
            ScriptEnd::done(&format!("{} in {}", words.join(" "), worker.job.cwd.display()))
        });
    }
    let file = "agents:
  path: { backend: command, command: [bin/agent.sh, ./data, ../x, a/b, './a b'], cwd: ./sub }
  bare: { backend: command, command: [agent] }
  absolute: { backend: command, command: /opt/agent, cwd: /srv }
  vendor: { backend: claude, command: ./claude, args: [--add-dir, ../docs], cwd: . }
kickoff: '@all go'
";
    let request = world.run_request(RunMode::Run, "teams/review", file);
    let run = world.kernel.runs().create(&Principal::User, request).await.unwrap().run;
    let view = world.wait_until_ended(run).await;
    let root = world.folder().canonicalize().unwrap();
    let (root, teams) = (root.display(), root.join("teams").display().to_string());
    let told: Vec<_> = view.answers.values().map(|answer| answer.text.clone()).collect();
    let expected = [
        "/opt/agent in /srv".to_owned(),
        format!("agent in {root}"),
        format!("{teams}/bin/agent.sh {teams}/data {teams}/../x a/b ./a b in {teams}/sub"),
        format!("{teams}/claude --add-dir {teams}/../docs in {teams}"),
    ];
    assert_eq!(told, expected);
}
