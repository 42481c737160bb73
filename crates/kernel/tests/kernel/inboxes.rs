//! Tests of mail during a turn: shown again until a turn that was shown it succeeds.

use agent_worker_kernel::{InstanceSelector, PageRequest};
use agent_worker_protocol::{
    DeliveryState, Event, EventKind, FailureClass, Outcome, RunId, RunState, Seq,
};

use crate::{
    scripted_worker::{ScriptEnd, ScriptGate, ScriptedWorker},
    world::{KernelWorld, team},
};

/// Runs a coder whose first turn waits until the user has sent `@coder more`, and then runs `script`.
async fn mail_during_a_turn<F, S>(world: &KernelWorld, script: S) -> RunId
where
    S: Fn(ScriptedWorker) -> F + Send + Sync + 'static,
    F: Future<Output = ScriptEnd> + Send + 'static,
{
    let gate = ScriptGate::default();
    let go = gate.clone();
    world.machine.set_worker_script("coder", move |worker| {
        let (gate, script) = (gate.clone(), script(worker));
        async move {
            gate.wait_open().await;
            script.await
        }
    });
    let run = world.run(&team("coder", "kickoff: '@coder first'")).await;
    world.wait_for_report(run, "coder", 1).await;
    assert_eq!(world.send_to_team("@coder more").await.seq, Seq::new(2));
    go.open();
    run
}

fn woken_by(world: &KernelWorld) -> Vec<String> {
    world.machine.turns().into_iter().map(|turn| turn.woken_by).collect()
}

/// Returns the results of each attempt's deliveries: `acted`, `pending`.
fn dealt(story: &[Event]) -> Vec<(String, String)> {
    let ended = story.iter().filter(|event| event.kind() == Some(EventKind::AttemptEnded));
    ended
        .map(|event| (event.data()["acted"].to_string(), event.data()["pending"].to_string()))
        .collect()
}

fn pair(acted: &str, pending: &str) -> (String, String) {
    (acted.to_owned(), pending.to_owned())
}

#[tokio::test(start_paused = true)]
async fn mail_that_was_not_looked_at_is_shown_in_a_later_turn() {
    let world = KernelWorld::new().await;
    let run = mail_during_a_turn(&world, |_| async { ScriptEnd::quiet() }).await;
    let story = world.events_of(run).await;
    assert_eq!(dealt(&story), [pair("[1]", "[]"), pair("[2]", "[]")]);
    assert_eq!(woken_by(&world), ["@coder first", "@coder more"]);
}

#[tokio::test(start_paused = true)]
async fn mail_that_was_only_looked_at_is_shown_again() {
    let world = KernelWorld::new().await;
    let run = mail_during_a_turn(&world, |worker| async move {
        let seen = worker.inbox().await.unwrap();
        assert_eq!(seen.len(), usize::from(worker.nth == 1));
        ScriptEnd::quiet()
    })
    .await;
    let story = world.events_of(run).await;
    assert_eq!(dealt(&story), [pair("[1]", "[]"), pair("[2]", "[]")]);
}

#[tokio::test(start_paused = true)]
async fn mail_that_was_named_without_being_shown_is_not_acked() {
    let world = KernelWorld::new().await;
    let run = mail_during_a_turn(&world, |worker| async move {
        assert_eq!(worker.ack(Seq::new(99)).await.unwrap().with_this_turn, []);
        ScriptEnd::quiet()
    })
    .await;
    let story = world.events_of(run).await;
    assert_eq!(dealt(&story), [pair("[1]", "[]"), pair("[2]", "[]")]);
}

#[tokio::test(start_paused = true)]
async fn mail_that_was_shown_and_named_is_acked_with_the_turn() {
    let world = KernelWorld::new().await;
    let run = mail_during_a_turn(&world, |worker| async move {
        assert_eq!(worker.inbox().await.unwrap()[0].body, "@coder more");
        assert_eq!(worker.ack(Seq::new(2)).await.unwrap().with_this_turn, [Seq::new(2)]);
        ScriptEnd::quiet()
    })
    .await;
    let story = world.events_of(run).await;
    assert_eq!(dealt(&story), [pair("[1,2]", "[]")]);
    assert_eq!(world.receipts(2).await[0].state, DeliveryState::Acted);
}

#[tokio::test(start_paused = true)]
async fn mail_that_joined_a_turn_that_failed_is_pending_again_without_blame() {
    let world = KernelWorld::new().await;
    let run = mail_during_a_turn(&world, |worker| async move {
        if worker.nth > 1 {
            return ScriptEnd::quiet();
        }
        worker.inbox().await.unwrap();
        worker.ack(Seq::new(2)).await.unwrap();
        ScriptEnd::fails(FailureClass::Fatal)
    })
    .await;
    let story = world.events_of(run).await;
    assert_eq!(dealt(&story), [pair("[]", "[1,2]"), pair("[1]", "[]"), pair("[2]", "[]")]);
    let failures: Vec<_> =
        [world.receipts(1).await, world.receipts(2).await].map(|all| all[0].failures).into();
    assert_eq!(failures, [1, 0]);
    assert_eq!(world.view(run).await.state, RunState::Ended { outcome: Outcome::Done });
}

#[tokio::test(start_paused = true)]
async fn only_mail_on_the_page_that_an_agent_read_is_acked() {
    let world = KernelWorld::new().await;
    let gate = ScriptGate::default();
    let go = gate.clone();
    world.machine.set_worker_script("coder", move |worker| {
        let gate = gate.clone();
        async move {
            gate.wait_open().await;
            if worker.nth == 1 {
                let (kernel, who) = worker.principal().await.unwrap();
                let read = async |after| {
                    let page = PageRequest::new(Some(1), after).unwrap();
                    kernel.inbox().peek(&who, &InstanceSelector::default(), &page).await.unwrap()
                };
                let first = read(None).await;
                assert_eq!(first.items.len(), 1);
                assert_eq!(first.items[0].message.seq, Seq::new(3));
                let acked = worker.ack(Seq::new(4)).await.unwrap().with_this_turn;
                assert_eq!(acked, [Seq::new(3)], "the agent saw no other message");
                let second = read(first.next).await;
                assert_eq!(second.items[0].message.seq, Seq::new(2));
                let last = read(second.next).await;
                assert_eq!(last.items[0].message.seq, Seq::new(4));
                assert_eq!(last.next, None, "no page follows the last one");
                let acked = worker.ack(Seq::new(2)).await.unwrap().with_this_turn;
                assert_eq!(acked, [Seq::new(2)]);
            }
            ScriptEnd::quiet()
        }
    });
    let run = world.run(&team("coder", "kickoff: '@coder first'")).await;
    world.wait_for_report(run, "coder", 1).await;
    for text in ["@coder second", "@coder third is urgent", "@coder fourth"] {
        world.send_to_team(text).await;
    }
    go.open();
    let story = world.events_of(run).await;
    assert_eq!(dealt(&story), [pair("[1,2,3]", "[]"), pair("[4]", "[]")]);
}
