//! Tests of stopping, resuming and removing an agent: no process is left, and no delivery is lost silently.

use std::time::Duration;

use agent_worker_kernel::{ListingScope, PageRequest, Principal};
use agent_worker_protocol::{
    AgentState, Code, DeliveryState, EventKind, FailureClass, Outcome, RunState, Target,
};
use agent_worker_store::{AttemptStore as _, RunStore as _, WriteActor, WriteContext};

use crate::{
    agent_join::{global_run, mock_agent_request, new_agent, send_to},
    scripted_worker::ScriptEnd,
    world::{KernelWorld, code, instance_selector, problem, send_request, team, within},
};

const FAILED: RunState = RunState::Ended { outcome: Outcome::Failed };

/// Returns the state of an agent.
async fn state(world: &KernelWorld, agent: &str) -> AgentState {
    let place = instance_selector(agent);
    let mut views = world
        .kernel
        .agents()
        .list(&Principal::User, &place, ListingScope::All, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    assert_eq!(views.len(), 1);
    views.remove(0).state
}

/// Sets a coder that hangs in its first turn and ends ok in every other.
fn hangs_once(world: &KernelWorld) {
    world.machine.set_worker_script("coder", |worker| async move {
        match worker.nth {
            1 => worker.hang().await,
            _ => ScriptEnd::done("finished"),
        }
    });
}

#[tokio::test(start_paused = true)]
async fn an_agent_stopped_in_its_turn_has_its_mail_again_when_it_is_resumed() {
    let world = KernelWorld::new().await;
    hangs_once(&world);
    let run = world.start(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    let coder = instance_selector("coder@team");
    let stopped = within(world.kernel.agents().stop(&Principal::User, &coder)).await.unwrap();
    assert_eq!((stopped.agent.as_str(), stopped.processes), ("coder", 1));
    assert_eq!(
        (stopped.instance.to_string().as_str(), world.machine.live_worker_count()),
        ("team", 0)
    );
    let ended =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    assert_eq!(
        (ended.cause.as_deref(), &ended.data()["end"]),
        (Some("stopped"), &"stopped".into())
    );
    let receipt = world.receipts(1).await.remove(0);
    assert_eq!((receipt.state, receipt.failures), (DeliveryState::Pending, 0));
    assert_eq!(state(&world, "coder").await.to_string(), "stopped: stopped by the user");

    let sent = world.send_to_team("@coder more").await;
    assert_eq!((sent.woken, sent.stopped), (vec![stopped.agent.clone()], vec![stopped.agent]));
    world.pass_time(Duration::from_hours(1)).await;
    assert_eq!(world.machine.turns().len(), 1, "a stopped agent was woken");
    assert_eq!(world.view(run).await.agents[0].waiting, 2);
    let view = world.kernel.agents().resume(&Principal::User, &coder).await.unwrap();
    assert!(!matches!(view.state, AgentState::Stopped { .. }), "{}", view.state);
    world.wait_for_report(run, "coder", 2).await;
    world.wait_for_event(run, |event| event.data()["end"] == "ok").await;
    for seq in [1, 2] {
        assert_eq!(world.receipts(seq).await[0].answer.as_deref(), Some("finished"));
    }
    assert_eq!(state(&world, "coder").await, AgentState::Idle);
    assert_eq!(world.view(run).await.turns, 1, "what was stopped is no turn");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_last_agent_is_stopped_fails_and_names_what_was_not_done() {
    let world = KernelWorld::new().await;
    hangs_once(&world);
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    within(world.kernel.agents().stop(&Principal::User, &instance_selector("coder@team")))
        .await
        .unwrap();
    let story = world.events_of(run).await;
    let why = "1 message for a stopped agent";
    assert_eq!(story.last().unwrap().cause.as_deref(), Some(why));
    let view = world.view(run).await;
    assert_eq!(view.state, FAILED);
    let dropped: Vec<_> =
        view.dropped.iter().map(|one| (one.seq.get(), one.agent.as_str())).collect();
    assert_eq!(dropped, [(1, "coder")]);
    assert_eq!(view.dropped[0].why.as_deref(), Some("the agent was stopped by the user"));
    let late =
        world.kernel.agents().resume(&Principal::User, &instance_selector("coder@team")).await;
    assert_eq!(code(late), Some(Code::NoRun));
    let late = world.kernel.agents().stop(&Principal::User, &instance_selector("coder@team")).await;
    assert_eq!(problem(late).message, "@team has no live run");
}

#[tokio::test(start_paused = true)]
async fn a_stop_answers_when_the_worker_is_gone_and_until_then_it_is_stopping() {
    let world = KernelWorld::new().await;
    hangs_once(&world);
    world.machine.set_exit_delay(Duration::from_secs(8));
    let run = world.start(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    let coder = instance_selector("coder@team");
    let stop = world.kernel.agents().stop(&Principal::User, &coder);
    let look = async {
        world.pass_time(Duration::from_secs(7)).await;
        (state(&world, "coder").await, world.machine.live_worker_count())
    };
    let (stopped, meanwhile) = within(async { tokio::join!(stop, look) }).await;
    assert_eq!(meanwhile, (AgentState::Stopping, 1));
    assert_eq!((stopped.unwrap().processes, world.machine.live_worker_count()), (1, 0));
    assert_eq!(world.after(world.now()), 8_000);
    assert!(matches!(state(&world, "coder").await, AgentState::Stopped { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_leaves_is_not_kept_by_an_agent_that_is_being_stopped() {
    let mut world = KernelWorld::new().await;
    hangs_once(&world);
    world.machine.set_exit_delay(Duration::from_secs(20));
    let run = world.start(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    let kernel = world.kernel.clone();
    let coder = instance_selector("coder@team");
    let stop = kernel.agents().stop(&Principal::User, &coder);
    let leave = async {
        world.pass_time(Duration::from_secs(1)).await;
        world.stop_daemon().await;
    };
    drop(within(async { tokio::join!(stop, leave) }).await);
    assert_eq!(world.after(world.now()), 15_000, "the time to kill, and five seconds");
    assert_eq!(world.restart_daemon().await.adopted, 1);
    let ended =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    assert_eq!((ended.cause.as_deref(), world.wall_after(ended.ts)), (Some("stopped"), 20_000));
    world.pass_time(Duration::from_millis(1)).await;
    assert_eq!(state(&world, "coder").await.to_string(), "stopped: stopped by the user");
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Pending);
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_agent_was_stopped_when_the_daemon_vanished_is_ended_by_the_next() {
    let mut world = KernelWorld::new().await;
    hangs_once(&world);
    let run = world.start(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    let workflow = world.store.run_get(run).await.unwrap().workflow;
    let (by, coder) = (WriteContext::new(WriteActor::User), "coder".parse().unwrap());
    world.store.agent_stop(by, workflow, coder, "enough".into(), world.now()).await.unwrap();
    world.stop_daemon().await;
    assert_eq!((world.machine.live_worker_count(), world.restart_daemon().await.adopted), (1, 1));
    let ended =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    assert_eq!((ended.cause.as_deref(), world.wall_after(ended.ts)), (Some("stopped"), 0));
    assert_eq!(world.machine.live_worker_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_agent_stopped_by_a_refused_key_works_again_once_it_is_resumed() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        match worker.nth {
            1 => ScriptEnd::fails(FailureClass::Auth),
            _ => ScriptEnd::quiet(),
        }
    });
    let run = world.start(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AgentStopped)).await;
    world.pass_time(Duration::from_hours(1)).await;
    assert_eq!(state(&world, "coder").await.to_string(), "stopped: auth: scripted auth");
    world.kernel.agents().resume(&Principal::User, &instance_selector("coder")).await.unwrap();
    world.wait_for_event(run, |event| event.data()["end"] == "ok").await;
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Acted);
    let event =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AgentResumed)).await;
    assert_eq!(event.by.as_deref(), Some("user"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_waits_after_a_failure_is_tried_at_once_when_it_is_resumed() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        match worker.nth {
            1 => ScriptEnd::rate_limited(worker.now().plus(Duration::from_hours(5))),
            _ => ScriptEnd::quiet(),
        }
    });
    let run = world.run(&team("coder", "limits: { wall: 9h }\nkickoff: '@coder go'")).await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    world.pass_time(Duration::from_mins(1)).await;
    world.kernel.agents().resume(&Principal::User, &instance_selector("coder@team")).await.unwrap();
    let view = world.wait_until_ended(run).await;
    assert_eq!(world.wall_after(view.ended.unwrap()), 60_000);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_removed_is_gone_with_its_mail_and_its_name_is_free_again() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("alice", |worker| async move {
        match worker.nth {
            1 => ScriptEnd::fails(FailureClass::Fatal),
            2 => worker.hang().await,
            _ => ScriptEnd::quiet(),
        }
    });
    let env = [("PATH".to_owned(), "/alice".to_owned())].into();
    let asked =
        agent_worker_protocol::api::AgentRequest { env, ..mock_agent_request(Some("alice"), None) };
    new_agent(&world, asked.clone()).await.unwrap();
    let run = global_run(&world).await;
    send_to(&world, "alice", "go").await;
    world.wait_for_report(run, "alice", 2).await;
    let gone = within(world.kernel.agents().remove(&Principal::User, &instance_selector("alice")))
        .await
        .unwrap();
    assert_eq!((gone.agent.as_str(), gone.processes), ("alice", 1));
    assert!(world.machine.environment(run).is_empty(), "its environment is forgotten");
    let dropped = &world.view(run).await.dropped;
    assert_eq!(dropped[0].why.as_deref(), Some("alice was removed"));
    let unheard = world
        .kernel
        .messages()
        .send(&Principal::User, None, send_request(Some("alice"), "hello"))
        .await;
    assert_eq!(problem(unheard).message, "there is no agent `alice`");
    let hello = send_request(Some("@global"), "@alice hello");
    let said = world.kernel.messages().send(&Principal::User, None, hello).await.unwrap();
    assert_eq!((said.woken.len(), said.unknown[0].name.as_str()), (0, "alice"));

    new_agent(&world, asked).await.unwrap();
    send_to(&world, "alice", "go").await;
    world.wait_for_event(run, |event| event.data()["end"] == "ok").await;
    let row = world.store.run_get(run).await.unwrap();
    let attempts =
        world.store.attempt_list(row.workflow, "alice".parse().unwrap(), 9).await.unwrap();
    let epochs: Vec<_> = attempts.iter().map(|attempt| attempt.fence.epoch.get()).collect();
    assert_eq!(epochs, [3, 2, 1], "its numbers go on");
    let stats = world
        .kernel
        .runs()
        .stats(
            &Principal::User,
            &instance_selector("@global"),
            ListingScope::All,
            &PageRequest::whole(),
        )
        .await
        .unwrap()
        .items;
    let agent_stats = &stats[0].agents[0].stats;
    assert_eq!(
        (agent_stats.turns, agent_stats.failed),
        (1, 0),
        "what it did before it left is not its own"
    );
    assert_eq!((stats[0].total.turns, stats[0].total.failed), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_over_before_its_last_agent_is_taken_out_is_no_error() {
    let world = KernelWorld::new().await;
    hangs_once(&world);
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    // Another agent joins elsewhere meanwhile; joins and removals are serialized.
    let added = world.store.withhold_answer("agent_add");
    let joining = Box::pin(new_agent(&world, mock_agent_request(None, None)));
    let coder = instance_selector("coder@team");
    let removing = Box::pin(async {
        added.reached().await;
        let remove = world.kernel.agents().remove(&Principal::User, &coder);
        let over = async {
            let view = world.wait_until_ended(run).await;
            added.clone().release();
            view
        };
        tokio::join!(remove, over)
    });
    let (joined, (removed, view)) = within(async { tokio::join!(joining, removing) }).await;
    joined.unwrap();
    assert_eq!((view.state, view.dropped.len()), (FAILED, 1));
    assert_eq!(removed.unwrap().processes, 1);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_agent_cannot_be_stopped_and_is_named() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "")).await;
    for (target, expected) in [
        ("zoe@team", "there is no agent `zoe` in @team"),
        ("zoe", "there is no agent `zoe`"),
        ("@team", "name an agent: agent or agent@workflow:tag"),
    ] {
        let kernel = &world.kernel;
        let place = instance_selector(target);
        assert_eq!(problem(kernel.agents().stop(&Principal::User, &place).await).message, expected);
        assert_eq!(
            problem(kernel.agents().remove(&Principal::User, &place).await).message,
            expected
        );
        assert_eq!(
            problem(kernel.agents().resume(&Principal::User, &place).await).message,
            expected
        );
    }
    let target: Target = "coder@team".parse().unwrap();
    let stopped =
        world.kernel.agents().stop(&Principal::User, &instance_selector(&target.to_string())).await;
    assert_eq!(stopped.unwrap().processes, 0, "one that does nothing has none");
}
