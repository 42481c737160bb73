//! Tests of turns that a person interrupts: their mail stays, and no failure is counted.

use std::time::Duration;

use agent_worker_kernel::Principal;
use agent_worker_protocol::{
    Base64Bytes, Code, DeliveryState, EventKind, Outcome, RunState, TurnMessagesRequest,
    WorkerEvent,
    api::{AttachmentRequest, NowOutcome, SendRequest},
};
use serde_json::json;

use crate::{
    scripted_worker::{ScriptEnd, ScriptGate, ScriptedWorker},
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

/// The file of a team whose program takes messages during its turn. The scripted worker stands in for it.
const STEERABLE_TEAM: &str = "agents: { coder: { backend: claude } }";

/// Reports to a test what its first turn got, while the turn runs.
async fn take_messages(worker: ScriptedWorker) -> ScriptEnd {
    if worker.nth > 1 {
        return ScriptEnd::quiet();
    }
    let got = worker.messages(TurnMessagesRequest::default()).await.unwrap().messages;
    let seqs: Vec<_> = got.iter().map(|message| message.seq).collect();
    let after = seqs.last().copied().unwrap_or_default();
    let answer = TurnMessagesRequest {
        after,
        accepted: seqs.clone(),
        refused: Vec::new(),
        mail_after: None,
    };
    let _ = worker.messages(answer).await;
    for seq in seqs {
        worker.post_event(WorkerEvent::Joined { seq }).await.unwrap();
    }
    ScriptEnd::done(&got.into_iter().map(|message| message.text).collect::<String>())
}

fn now_request(message: &str) -> SendRequest {
    SendRequest { now: true, ..send_request(Some("coder@team"), message) }
}

#[tokio::test(start_paused = true)]
async fn a_message_for_now_joins_the_turn_of_a_program_that_takes_it() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", take_messages);
    let run = world.run(&format!("{STEERABLE_TEAM}\nkickoff: '@coder first'")).await;
    world.wait_for_report(run, "coder", 1).await;
    let messages = world.kernel.messages();
    let reply = messages.send(&Principal::User, None, now_request("hurry")).await.unwrap();
    assert_eq!(reply.now[0].outcome, NowOutcome::Joined);
    let ended =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    assert_eq!(ended.data()["acted"], json!([1, 2]));
    let events = world.events_of(run).await;
    let joined = events.iter().find(|event| event.kind() == Some(EventKind::DeliveryJoined));
    assert_eq!(*joined.unwrap().data(), json!({"seq": 2}));
    let answer = world.channel().await.pop().unwrap().body;
    assert!(answer.contains("seq=2 from=user>\nhurry\n"), "{answer}");
    assert_eq!(world.machine.turns().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_for_now_interrupts_a_turn_whose_program_does_not_take_it_in_time() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", hang_once);
    let run = world.start(STEERABLE_TEAM).await;
    world.send_to_team("@coder first").await;
    world.wait_for_report(run, "coder", 1).await;
    let (messages, before) = (world.kernel.messages(), tokio::time::Instant::now());
    let reply = messages.send(&Principal::User, None, now_request("hurry")).await.unwrap();
    assert_eq!(reply.now[0].outcome, NowOutcome::Interrupted);
    assert_eq!(before.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_message_for_now_interrupts_a_turn_whose_program_refuses_it() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker: ScriptedWorker| async move {
        if worker.nth == 1 {
            let got = worker.messages(TurnMessagesRequest::default()).await.unwrap().messages;
            let refused = got.iter().map(|message| message.seq).collect();
            let after = got[0].seq;
            let _ =
                worker.messages(TurnMessagesRequest { after, refused, ..Default::default() }).await;
        }
        ScriptEnd::quiet()
    });
    let run = world.start(STEERABLE_TEAM).await;
    world.send_to_team("@coder first").await;
    world.wait_for_report(run, "coder", 1).await;
    let messages = world.kernel.messages();
    let reply = messages.send(&Principal::User, None, now_request("hurry")).await.unwrap();
    assert_eq!(reply.now[0].outcome, NowOutcome::Interrupted);
    world.wait_for_report(run, "coder", 2).await;
    assert_eq!(world.machine.turns()[1].woken_by, "@coder first\nhurry");
}

#[tokio::test(start_paused = true)]
async fn a_message_with_a_file_interrupts_the_turn_because_programs_get_files_at_its_start() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", hang_once);
    let run = world.start(STEERABLE_TEAM).await;
    world.send_to_team("@coder first").await;
    world.wait_for_report(run, "coder", 1).await;
    let name = "a.txt".parse().unwrap();
    let attachments = vec![AttachmentRequest { name, content: Base64Bytes(b"text".to_vec()) }];
    let request = SendRequest { attachments, ..now_request("see") };
    let before = tokio::time::Instant::now();
    let reply = world.kernel.messages().send(&Principal::User, None, request).await.unwrap();
    assert_eq!(reply.now[0].outcome, NowOutcome::Interrupted);
    assert_eq!(before.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_for_now_leaves_the_turn_of_a_paused_run_alone() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", hang_once);
    let run = world.start(&team("coder", "")).await;
    world.send_to_team("@coder first").await;
    world.wait_for_report(run, "coder", 1).await;
    world.kernel.runs().pause(&Principal::User, run).await.unwrap();
    let messages = world.kernel.messages();
    let reply = messages.send(&Principal::User, None, now_request("hurry")).await.unwrap();
    assert_eq!(reply.now[0].outcome, NowOutcome::Waiting);
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Leased, "the turn goes on");
}

#[tokio::test(start_paused = true)]
async fn a_message_for_now_reaches_the_turn_through_the_next_daemon() {
    let (mut world, gate) = (KernelWorld::on_disk().await, ScriptGate::default());
    let opened = gate.clone();
    world.machine.set_worker_script("coder", move |worker: ScriptedWorker| {
        let gate = gate.clone();
        async move {
            gate.wait_open().await;
            take_messages(worker).await
        }
    });
    let run = world.start(STEERABLE_TEAM).await;
    world.send_to_team("@coder first").await;
    world.wait_for_report(run, "coder", 1).await;
    let messages = world.kernel.messages();
    let sent = messages.send(&Principal::User, None, now_request("hurry"));
    let unanswered = tokio::time::timeout(Duration::from_secs(1), sent).await;
    assert!(unanswered.is_err(), "{unanswered:?}");
    world.stop_daemon().await;
    world.restart_daemon().await;
    opened.open();
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::DeliveryJoined)).await;
    assert_eq!(world.machine.turns().len(), 1);
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
