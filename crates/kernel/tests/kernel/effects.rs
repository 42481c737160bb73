//! Tests of effects in a retried attempt: which calls happen again and which do not.

use agent_worker_protocol::{FailureClass, Outcome, RunState, api::SendReply};
use tokio::sync::mpsc;

use crate::{
    scripted_worker::ScriptEnd,
    world::{KernelWorld, team},
};

#[tokio::test(start_paused = true)]
async fn a_retry_repeats_no_message_and_is_shown_the_messages_already_sent() {
    let world = KernelWorld::new().await;
    let (replies, mut seen) = mpsc::unbounded_channel();
    world.machine.set_worker_script("coder", move |worker| {
        let replies = replies.clone();
        async move {
            for message in ["@lead ready", "@lead ready"] {
                replies.send(worker.send(message).await.unwrap()).unwrap();
            }
            if worker.nth == 1 { ScriptEnd::fails(FailureClass::Fatal) } else { ScriptEnd::quiet() }
        }
    });
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    let view = world.wait_until_ended(run).await;
    assert_eq!(view.state, RunState::Ended { outcome: Outcome::Done });
    let seen: Vec<_> = std::iter::from_fn(|| seen.try_recv().ok())
        .map(|reply: SendReply| (reply.seq.get(), reply.deduplicated))
        .collect();
    assert_eq!(seen[2..], [(seen[0].0, true), (seen[1].0, true)]);
    assert!(seen[0].0 != seen[1].0, "two equal calls of one attempt are two messages");
    let said = world.channel().await;
    assert_eq!(said.iter().filter(|message| message.body == "@lead ready").count(), 2);
    let retry = &world.machine.turns_of("coder")[1];
    assert_eq!(retry.number, 2);
    assert!(retry.prompt.contains("This is attempt 2"), "{}", retry.prompt);
    let line = "- channel_send (message: \"@lead ready\") →";
    assert_eq!(retry.prompt.matches(line).count(), 2, "{}", retry.prompt);
}

#[tokio::test(start_paused = true)]
async fn the_next_activation_can_send_the_same_message_again() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        worker.send("@lead ready").await.unwrap();
        ScriptEnd::quiet()
    });
    world.machine.set_worker_script("lead", |worker| async move {
        if worker.nth == 1 {
            worker.send("@coder once more").await.unwrap();
        }
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_until_ended(run).await;
    let said = world.channel().await;
    assert_eq!(said.iter().filter(|message| message.body == "@lead ready").count(), 2);
    let second = &world.machine.turns_of("coder")[1];
    assert!(!second.prompt.contains("channel_send →"), "{}", second.prompt);
}
