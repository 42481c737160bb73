//! Tests of `provider: memory`: the rows of a run are deleted after its end.

use std::time::Duration;

use agent_worker_protocol::{Outcome, RunState};
use agent_worker_store::{RunStep, RunStore as _};

use crate::{
    scripted_worker::ScriptEnd,
    world::{KernelWorld, StoreLocation, instance_selector, problem, team},
};
use agent_worker_kernel::{Options, Principal};

const FILE: &str = "context: { provider: memory }\nkickoff: '@coder go'";

#[tokio::test(start_paused = true)]
async fn what_is_kept_in_memory_is_gone_ten_seconds_after_the_end() {
    let world = KernelWorld::new().await;
    let run = world.run(&team("coder", FILE)).await;
    let done = RunState::Ended { outcome: Outcome::Done };
    assert_eq!(world.wait_until_ended(run).await.state, done);
    world.pass_time(Duration::from_millis(9_999)).await;
    assert_eq!(world.channel().await.len(), 1, "whoever watched it end has time to read it");
    world.pass_time(Duration::from_millis(2)).await;
    assert!(world.channel().await.is_empty());
    assert_eq!(world.view(run).await.state, done, "that it ran, and how it ended, stays");
    let selector = instance_selector("@team");
    let file = world.kernel.documents().default_path(&Principal::User, &selector).await;
    let forgotten = "the data of this run of @team was deleted: `provider: memory` deletes the data of a run at its end";
    assert_eq!(problem(file).message, forgotten);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_for_good_stays() {
    let world = KernelWorld::new().await;
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_until_ended(run).await;
    world.pass_time(Duration::from_mins(1)).await;
    assert_eq!(world.channel().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_an_ended_run_left_in_memory_is_gone_when_the_next_daemon_has_started() {
    let mut world = KernelWorld::with(StoreLocation::File, Options::default(), 1).await;
    world.machine.set_worker_script("coder", |worker| async move {
        worker.send("a word").await.unwrap();
        worker.hang().await
    });
    let run = world.run(&team("coder", FILE)).await;
    world.wait_for_report(run, "coder", 1).await;
    world.stop_daemon().await;
    // The state that a daemon leaves if it is killed right after its last commit.
    let end = |_: &_| RunStep::End { outcome: Outcome::Done, why: "over".into(), error: None };
    world.store.run_settle(run, Box::new(end), world.now()).await.unwrap();
    assert!(!world.channel().await.is_empty());
    world.machine.kill_all().await;
    world.restart_daemon().await;
    assert!(world.channel().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_in_memory_that_still_lives_is_not_forgotten_by_a_restart() {
    let mut world = KernelWorld::on_disk().await;
    world.machine.set_worker_script("coder", |worker| async move {
        worker.pass_time(Duration::from_mins(1)).await;
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder", FILE)).await;
    world.wait_for_report(run, "coder", 1).await;
    world.stop_daemon().await;
    world.restart_daemon().await;
    assert_eq!(world.channel().await.len(), 1);
    assert_eq!(world.wait_until_ended(run).await.state, RunState::Ended { outcome: Outcome::Done });
}
