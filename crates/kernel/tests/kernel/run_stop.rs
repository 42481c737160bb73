//! Tests of interrupted work: by a person, by a stopping daemon, by a silent worker.

use std::time::Duration;

use agent_worker_kernel::Principal;
use agent_worker_protocol::{
    Code, DeliveryState, EventKind, EventsRequest, NumberedEvent, Outcome, RunState, WorkerEvent,
};
use tokio::sync::mpsc;

use crate::{
    scripted_worker::{ScriptEnd, ScriptedWorker},
    world::{KernelWorld, code, send_request, team, within},
};

const STOPPED: RunState = RunState::Ended { outcome: Outcome::Stopped };

/// Sets a coder that hangs, and passes its worker to the test.
fn hanging(world: &KernelWorld) -> mpsc::UnboundedReceiver<ScriptedWorker> {
    let (workers, hung) = mpsc::unbounded_channel();
    world.machine.set_worker_script("coder", move |worker| {
        workers.send(worker.clone()).unwrap();
        async move { worker.hang().await }
    });
    hung
}

#[tokio::test(start_paused = true)]
async fn a_users_stop_ends_the_run_and_everything_of_it() {
    let world = KernelWorld::new().await;
    let mut hung = hanging(&world);
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    let worker = within(hung.recv()).await.unwrap();
    let (_, coder) = worker.principal().await.unwrap();
    world.send_to_team("@coder more").await;
    let stopped = world.stop(run).await.unwrap();
    assert_eq!((stopped.attempts, stopped.processes), (vec!["coder".parse().unwrap()], 1));
    assert_eq!(world.machine.live_worker_count(), 0, "it answers when the processes are gone");
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state, view.turns), (STOPPED, 0));
    for dropped in &view.dropped {
        assert_eq!(dropped.why.as_deref(), Some("stopped by the user"));
    }
    assert_eq!(view.dropped.len(), 2);
    assert!(!world.machine.keeps_environment(run));

    let event = WorkerEvent::Retry { why: "late".into() };
    let events = vec![NumberedEvent { no: 2, ts: world.now().wall, event }];
    let late = EventsRequest { events, live: Vec::new() };
    let reported = world.kernel.attempts().report(&coder, worker.job.attempt, late).await;
    assert_eq!(code(reported), Some(Code::StaleEpoch));
    let said = world.kernel.messages().send(&coder, None, send_request(None, "@lead help")).await;
    assert_eq!(code(said), Some(Code::StaleEpoch));
    assert_eq!(code(worker.principal().await), Some(Code::Unauthorized));
    let user = world
        .kernel
        .messages()
        .send(&Principal::User, None, send_request(Some("@team"), "@lead hi"))
        .await;
    assert_eq!(code(user), Some(Code::NoRun));
    let again = world.stop(run).await;
    assert_eq!(code(again), Some(Code::RunEnded));
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_the_setup_wakes_no_agent() {
    let world = KernelWorld::new().await;
    world.machine.set_shell_script(|_| std::future::pending());
    let run = world.run(&team("coder", "setup: [{ shell: sleep 9 }]\nkickoff: '@coder go'")).await;
    world.pass_time(Duration::from_secs(1)).await;
    world.stop(run).await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, STOPPED);
    world.pass_time(Duration::from_mins(1)).await;
    assert!(world.machine.turns().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drain_leases_nothing_waits_and_interrupts_the_rest_without_blame() {
    let world = KernelWorld::new().await;
    let _hung = hanging(&world);
    world.machine.set_worker_script("quick", |worker| async move {
        worker.pass_time(Duration::from_secs(5)).await;
        worker.send("@lead your turn").await.unwrap();
        ScriptEnd::quiet()
    });
    let file = team("coder quick lead", "kickoff: '@coder @quick go'");
    let run = world.run(&file).await;
    world.wait_for_report(run, "coder", 1).await;
    world.wait_for_report(run, "quick", 1).await;
    world.drain(10).await;
    assert_eq!((world.after(world.now()), world.machine.live_worker_count()), (10_000, 0));
    let states: Vec<_> =
        world.receipts(1).await.iter().map(|one| (one.state, one.failures)).collect();
    assert_eq!(states, [(DeliveryState::Pending, 0), (DeliveryState::Acted, 0)]);
    assert_eq!(world.receipts(2).await[0].state, DeliveryState::Pending);
    assert!(world.machine.turns_of("lead").is_empty());
    let cut = world.wait_for_event(run, |event| event.data()["end"] == "interrupted").await;
    assert_eq!(cut.cause.as_deref(), Some("interrupted: the daemon stopped"));
    let new = world.begin_run(agent_worker_protocol::RunMode::Run, "other", &file).await;
    assert_eq!(code(new), Some(Code::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_as_soon_as_the_last_worker_has() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        worker.pass_time(Duration::from_secs(3)).await;
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.drain(10).await;
    assert_eq!(world.after(world.now()), 3_000);
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Acted);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_silent_beyond_its_own_clocks_is_ended_and_counted() {
    let world = KernelWorld::new().await;
    let _hung = hanging(&world);
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    let ended =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    // 5 min of silence, plus 30 s and the kill grace by which the daemon's limit exceeds the worker's own.
    assert_eq!(world.wall_after(ended.ts), 340_000);
    assert_eq!(
        (&ended.data()["class"], &ended.data()["end"]),
        (&"timeout".into(), &"failed".into())
    );
    let view = world.wait_until_ended(run).await;
    assert_eq!(view.dead_letters[0].failures, 3);
    assert_eq!(world.machine.live_worker_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_sends_heartbeats_lives_until_its_timeout() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        loop {
            worker.pass_time(Duration::from_secs(10)).await;
            worker.heartbeat().await.unwrap();
        }
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    let ended =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    assert_eq!(world.wall_after(ended.ts), (30 * 60 + 40) * 1_000);
    assert_eq!(ended.data()["class"], "timeout");
}
