//! Tests of recovery by the next daemon: nothing is lost, and no finished work runs twice.

use std::time::Duration;

use agent_worker_kernel::{Options, RecoverySummary, ShellOutcome};
use agent_worker_protocol::{
    AgentName, DeliveryState, EventKind, Outcome, PauseCause, RunId, RunState,
};

use crate::{
    scripted_worker::{ScriptEnd, ScriptGate},
    world::{KernelWorld, StoreLocation, team, within},
};

const DONE: RunState = RunState::Ended { outcome: Outcome::Done };

/// Sets a coder whose first turn waits at a gate, then sends `@lead done` and ends with an answer.
fn coder_at_a_gate(world: &KernelWorld) -> ScriptGate {
    let gate = ScriptGate::default();
    let waits = gate.clone();
    world.machine.set_worker_script("coder", move |worker| {
        let gate = waits.clone();
        async move {
            if worker.nth == 1 {
                gate.wait_open().await;
            }
            worker.send("@lead done").await.unwrap();
            ScriptEnd::done("finished")
        }
    });
    gate
}

/// Returns the number of started attempts of an agent, from the log.
async fn attempts(world: &KernelWorld, run: RunId, agent: &str) -> usize {
    let name: AgentName = agent.parse().unwrap();
    let began = |kind| kind == Some(EventKind::AttemptStarting);
    let story = world.events_of(run).await;
    story.iter().filter(|event| began(event.kind()) && event.agent.as_ref() == Some(&name)).count()
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_lives_goes_on_with_the_same_attempt_and_finishes_once() {
    let mut world = KernelWorld::on_disk().await;
    let gate = coder_at_a_gate(&world);
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.stop_daemon().await;
    // The worker's next call finds no daemon and waits for one.
    gate.open();
    world.pass_time(Duration::from_secs(20)).await;
    let found = world.restart_daemon().await;
    assert_eq!(found, RecoverySummary { runs: 1, adopted: 1, settled: 0 });
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state, view.turns), (DONE, 2));
    assert_eq!(attempts(&world, run, "coder").await, 1);
    let said: Vec<_> = world.channel().await.into_iter().map(|message| message.body).collect();
    assert_eq!(said, ["@coder go", "@lead done", "finished"]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_finished_without_a_daemon_is_settled_from_its_event_file() {
    let mut world = KernelWorld::on_disk().await;
    let gate = ScriptGate::default();
    let waits = gate.clone();
    world.machine.set_worker_script("coder", move |_| {
        let gate = waits.clone();
        async move {
            gate.wait_open().await;
            ScriptEnd::done("finished")
        }
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.stop_daemon().await;
    gate.open();
    within(world.machine.wait_until_empty()).await;
    let found = world.restart_daemon().await;
    assert_eq!(found, RecoverySummary { runs: 1, adopted: 0, settled: 1 });
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state, view.turns), (DONE, 1));
    assert_eq!(world.receipts(1).await[0].answer.as_deref(), Some("finished"));
    assert_eq!(world.machine.turns().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_vanished_is_interrupted_and_its_mail_tried_again_without_a_count() {
    let mut world = KernelWorld::on_disk().await;
    let _gate = coder_at_a_gate(&world);
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.stop_daemon().await;
    world.machine.kill_all().await;
    let found = world.restart_daemon().await;
    assert_eq!(found, RecoverySummary { runs: 1, adopted: 0, settled: 1 });
    let ended =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    assert_eq!(ended.data()["end"], "interrupted");
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state, view.turns), (DONE, 2), "an interrupted attempt is no turn");
    let receipt = world.receipts(1).await.remove(0);
    assert_eq!((receipt.state, receipt.failures), (DeliveryState::Acted, 0));
    assert_eq!(world.machine.turns_of("coder").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_takeover_that_a_full_disk_stopped_anywhere_is_made_later_and_once() {
    for method in ["heartbeat_put", "effect_expire", "attempt_events", "attempt_finish", "run_list"]
    {
        let mut world = KernelWorld::on_disk().await;
        let gates = ["one", "two"].map(|agent| {
            let gate = ScriptGate::default();
            let waits = gate.clone();
            world.machine.set_worker_script(agent, move |_| {
                let gate = waits.clone();
                async move {
                    gate.wait_open().await;
                    ScriptEnd::done("finished")
                }
            });
            gate
        });
        let run = world.run(&team("one two", "kickoff: '@one @two go'")).await;
        world.wait_for_report(run, "one", 1).await;
        world.wait_for_report(run, "two", 1).await;
        world.stop_daemon().await;
        // One worker finishes while no daemon runs, the other one stays alive.
        gates[1].open();
        within(world.machine.wait_until_left("two")).await;
        world.restart_on_full_disk(method).await;
        gates[0].open();
        let view = world.wait_until_ended(run).await;
        assert_eq!((view.state, view.turns), (DONE, 2), "{method}");
        assert_eq!(world.machine.turns().len(), 2, "{method}: nothing ran twice");
        assert!(world.store.has_injected_all(), "{method}: nothing went wrong");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_adopted_still_counts_as_one_of_those_allowed() {
    let options = Options { workers: 1, ..Options::default() };
    let mut world = KernelWorld::with(StoreLocation::Memory, options, 1).await;
    let gate = coder_at_a_gate(&world);
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.stop_daemon().await;
    world.restart_daemon().await;
    world.send_to_team("@lead meanwhile").await;
    world.pass_time(Duration::from_mins(1)).await;
    gate.open();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    assert_eq!(world.machine.peak_concurrency().on_the_machine, 1);
}

/// Starts a run and takes its daemon and workers away for this many minutes.
async fn cut_off(world: &mut KernelWorld, minutes: u64) -> RunId {
    coder_at_a_gate(world);
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.stop_daemon().await;
    world.machine.kill_all().await;
    world.pass_time(Duration::from_mins(minutes)).await;
    world.restart_daemon().await;
    run
}

#[tokio::test(start_paused = true)]
async fn a_run_cut_off_a_while_ago_goes_on() {
    let mut world = KernelWorld::new().await;
    let run = cut_off(&mut world, 9).await;
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
}

#[tokio::test(start_paused = true)]
async fn a_run_cut_off_long_ago_waits_for_a_person() {
    let mut world = KernelWorld::new().await;
    let run = cut_off(&mut world, 11).await;
    world.wait_until_paused(run).await;
    world.pass_time(Duration::from_hours(1)).await;
    let cause = PauseCause::Interrupted;
    assert_eq!(world.view(run).await.state, RunState::Paused { cause });
    assert_eq!(world.machine.turns().len(), 1, "something was leased in a paused run");
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Pending);
}

#[tokio::test(start_paused = true)]
async fn a_started_run_goes_on_however_long_ago_it_was_cut_off() {
    let mut world = KernelWorld::on_disk().await;
    let _gate = coder_at_a_gate(&world);
    let run = world.start(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.stop_daemon().await;
    world.machine.kill_all().await;
    world.pass_time(Duration::from_hours(48)).await;
    world.restart_daemon().await;
    world.wait_for_report(run, "lead", 1).await;
    assert_eq!(world.machine.turns_of("coder").len(), 2);
    assert_eq!(world.view(run).await.state, RunState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_run_found_in_its_setup_begins_it_again() {
    let mut world = KernelWorld::on_disk().await;
    world.machine.set_shell_script(|command| async move {
        if command.prepared.script.contains("second") {
            return std::future::pending().await;
        }
        ShellOutcome { status: Some(0), ..ShellOutcome::default() }
    });
    let rest = "setup: [{ shell: first }, { shell: second }]\nkickoff: '@coder go'";
    let run = world.run(&team("coder", rest)).await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::SetupRan)).await;
    world.pass_time(Duration::from_secs(1)).await;
    world.stop_daemon().await;
    assert_eq!(world.view(run).await.state, RunState::Setup);
    world.machine.set_shell_script(|_| async {
        ShellOutcome { status: Some(0), ..ShellOutcome::default() }
    });
    world.restart_daemon().await;
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    let commands: Vec<_> =
        world.machine.commands().iter().map(|one| one.prepared.script.trim().to_owned()).collect();
    assert_eq!(commands, ["first", "second", "first", "second"]);
    assert_eq!(world.channel().await.len(), 1, "one kickoff");
}
