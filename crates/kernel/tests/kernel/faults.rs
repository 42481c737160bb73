//! Tests of a failing store: no lease is left open, nothing runs twice, and a daemon can still stop.

use std::time::Duration;

use agent_worker_kernel::{Options, RecoverySummary};
use agent_worker_protocol::{DeliveryState, EventKind, Outcome, RunId, RunState, Span};

use crate::{
    paused_clock_store::InjectedFault,
    world::{KernelWorld, StoreLocation, team, within},
};

const DONE: RunState = RunState::Ended { outcome: Outcome::Done };

/// Returns the result of a run with one coder and one message: state, turns, leased attempts, started workers.
async fn came_out(world: &KernelWorld, run: RunId) -> (RunState, u32, usize, usize) {
    let view = world.wait_until_ended(run).await;
    let story = world.events_of(run).await;
    let leased =
        story.iter().filter(|event| event.kind() == Some(EventKind::AttemptStarting)).count();
    let receipt = world.receipts(1).await.remove(0);
    assert_eq!((receipt.state, receipt.failures), (DeliveryState::Acted, 0), "nobody is blamed");
    assert!(world.store.has_injected_all(), "nothing went wrong");
    (view.state, view.turns, leased, world.machine.turns().len())
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_may_not_be_committed_is_looked_for_and_starts_no_second_worker() {
    for (fault, leased) in
        [(InjectedFault::UnknownApplied, 2), (InjectedFault::UnknownNotApplied, 1)]
    {
        let world = KernelWorld::new().await;
        world.store.inject_fault("attempt_lease", fault);
        let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
        assert_eq!(came_out(&world, run).await, (DONE, 1, leased, 1), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_looked_for_yet_is_looked_for_later() {
    for (fault, leased) in
        [(InjectedFault::UnknownApplied, 2), (InjectedFault::UnknownNotApplied, 1)]
    {
        let world = KernelWorld::new().await;
        world.store.inject_fault("attempt_lease", fault);
        world.store.inject_fault("attempt_get", InjectedFault::Broken);
        let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
        assert_eq!(came_out(&world, run).await, (DONE, 1, leased, 1), "{fault:?}");
        assert_eq!(world.after(world.now()), 5_000, "one sweep later, {fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_daemon_was_gone_before_the_answer_is_given_back_by_the_next() {
    let mut world = KernelWorld::on_disk().await;
    let lease = world.store.withhold_answer("attempt_lease");
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    within(lease.reached()).await;
    world.stop_daemon().await;
    let found = world.restart_daemon().await;
    assert_eq!(found, RecoverySummary { runs: 1, adopted: 0, settled: 1 });
    assert_eq!(came_out(&world, run).await, (DONE, 1, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_end_may_not_be_committed_ends_once() {
    for fault in [InjectedFault::UnknownApplied, InjectedFault::UnknownNotApplied] {
        let world = KernelWorld::new().await;
        world.store.inject_fault("attempt_finish", fault);
        let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
        assert_eq!(came_out(&world, run).await, (DONE, 1, 1, 1), "{fault:?}");
    }
}

/// Creates a world in which a coder and a lead hang.
async fn two_at_work() -> KernelWorld {
    let world = KernelWorld::new().await;
    for agent in ["coder", "lead"] {
        world.machine.set_worker_script(agent, |worker| async move { worker.hang().await });
    }
    let run = world.run(&team("coder lead", "kickoff: '@all go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.wait_for_report(run, "lead", 1).await;
    world
}

/// Drains, and checks that it took at most the workers' time, the kill grace and 5 s, and that no worker is left.
async fn drains_in_time(world: &KernelWorld) {
    world.drain(10).await;
    let took = world.after(world.now());
    assert!((10_000..=25_000).contains(&took), "{took} ms");
    assert_eq!(world.machine.live_worker_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_in_time_and_leaves_no_worker_though_the_disk_is_full() {
    let world = two_at_work().await;
    world.store.fill_disk();
    drains_in_time(&world).await;
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Leased, "for the next daemon");
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_in_time_and_leaves_no_worker_though_the_store_is_closed() {
    let world = two_at_work().await;
    world.store.close().await;
    drains_in_time(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_leaves_at_once_though_a_turn_could_not_be_started() {
    let options = Options { sweep_interval: Span::from_secs(60), ..Options::default() };
    let world = KernelWorld::with(StoreLocation::Memory, options, 1).await;
    world.store.inject_fault("attempt_lease", InjectedFault::Full);
    world.run(&team("coder", "kickoff: '@coder go'")).await;
    world.pass_time(Duration::from_millis(1)).await;
    assert!(world.store.has_injected_all(), "nothing went wrong");
    world.stop_daemon().await;
    assert_eq!(world.after(world.now()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_could_not_be_started_is_started_by_the_sweep() {
    let world = KernelWorld::new().await;
    world.store.inject_fault("attempt_lease", InjectedFault::Full);
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    assert_eq!(came_out(&world, run).await, (DONE, 1, 1, 1));
    assert_eq!(world.after(world.now()), 5_000);
}
