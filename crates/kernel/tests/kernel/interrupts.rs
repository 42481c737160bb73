//! Tests of turns that a person interrupts: their mail stays, and no failure is counted.

use agent_worker_kernel::Principal;
use agent_worker_protocol::{
    Code, EventKind, Outcome, RunState,
    api::{NowOutcome, SendRequest},
};

use crate::{
    scripted_worker::{ScriptEnd, ScriptedWorker},
    world::{KernelWorld, code, instance_selector, send_request, team},
};

/// Hangs in the first turn, and ends the later ones at once.
async fn hang_once(worker: ScriptedWorker) -> ScriptEnd {
    if worker.nth == 1 { worker.hang().await } else { ScriptEnd::quiet() }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_turn_keeps_its_mail_and_counts_as_no_failure() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", hang_once);
    let run = world.run(&team("coder", "kickoff: '@coder first'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.send_to_team("@coder more").await;
    let (user, coder) = (Principal::User, instance_selector("coder@team"));
    let reply = world.kernel.agents().interrupt(&user, &coder).await.unwrap();
    assert_eq!(reply.ended.map(|end| end.to_string()).as_deref(), Some("interrupted by user"));
    let story = world.events_of(run).await;
    let ended = story.iter().filter(|event| event.kind() == Some(EventKind::AttemptEnded));
    let dealt: Vec<_> = ended
        .map(|event| format!("{} {}", event.data()["acted"], event.data()["pending"]))
        .collect();
    assert_eq!(dealt, ["[] [1]", "[1,2] []"]);
    let turns = world.machine.turns().into_iter().map(|turn| turn.woken_by);
    assert_eq!(turns.collect::<Vec<_>>(), ["@coder first", "@coder first\n@coder more"]);
    assert_eq!(world.receipts(1).await[0].failures, 0);
    assert_eq!(world.view(run).await.state, RunState::Ended { outcome: Outcome::Done });
}

#[tokio::test(start_paused = true)]
async fn an_idle_agent_has_no_turn_to_interrupt() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "")).await;
    let coder = instance_selector("coder@team");
    let reply = world.kernel.agents().interrupt(&Principal::User, &coder).await.unwrap();
    assert_eq!((reply.attempt, reply.ended, reply.processes), (None, None, 0));
}

#[tokio::test(start_paused = true)]
async fn an_agent_interrupts_no_turn() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker: ScriptedWorker| async move {
        let (kernel, who) = worker.principal().await.unwrap();
        let refused = kernel.agents().interrupt(&who, &instance_selector("coder@team")).await;
        ScriptEnd::done(if code(refused) == Some(Code::Forbidden) { "refused" } else { "allowed" })
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_until_ended(run).await;
    assert_eq!(world.channel().await.last().unwrap().body, "refused");
}

#[tokio::test(start_paused = true)]
async fn a_message_for_now_interrupts_the_turn_and_the_next_one_has_both() {
    for alone in [false, true] {
        let world = KernelWorld::new().await;
        world.machine.set_worker_script("coder", hang_once);
        let run = world.start(&team("coder", "")).await;
        let first = SendRequest { alone, ..send_request(Some("coder@team"), "first") };
        let now = SendRequest { now: true, ..send_request(Some("coder@team"), "stop") };
        let send = async |request| {
            world.kernel.messages().send(&Principal::User, None, request).await.unwrap()
        };
        send(first).await;
        world.wait_for_report(run, "coder", 1).await;
        let reply = send(now).await;
        assert_eq!(reply.now[0].outcome, NowOutcome::Interrupted);
        world.wait_for_report(run, "coder", 2).await;
        let turns = world.machine.turns().into_iter().map(|turn| turn.woken_by);
        assert_eq!(turns.collect::<Vec<_>>(), ["first", "first\nstop"], "alone: {alone}");
        assert_eq!(world.receipts(1).await[0].failures, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_for_now_starts_the_turn_of_an_idle_agent() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "")).await;
    let now = SendRequest { now: true, ..send_request(Some("coder@team"), "go") };
    let reply = world.kernel.messages().send(&Principal::User, None, now).await.unwrap();
    assert_eq!(reply.now[0].outcome, NowOutcome::Started);
}

#[tokio::test(start_paused = true)]
async fn an_agent_sends_no_message_for_now() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker: ScriptedWorker| async move {
        let request = SendRequest { now: true, ..send_request(None, "@lead go") };
        let refused = code(worker.send_as(request).await) == Some(Code::Forbidden);
        ScriptEnd::done(if refused { "refused" } else { "allowed" })
    });
    let run = world.run(&team("lead coder", "kickoff: '@coder go'")).await;
    world.wait_until_ended(run).await;
    assert_eq!(world.channel().await.last().unwrap().body, "refused");
}
