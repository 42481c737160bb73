//! Tests of the attention list and the actions on it.

use std::time::Duration;

use agent_worker_kernel::{
    Attention, DeadLetterAction, Error, InstanceSelector, ListingScope, PageRequest, Principal,
};
use agent_worker_protocol::{
    Code, DeliveryState, EffectKey, EventKind, FailureClass, Outcome, RunId, RunState, Seq,
    api::{DeadReply, DeadRequest},
};
use serde_json::json;

use crate::{
    agent_join::{mock_agent_request, new_agent},
    scripted_worker::ScriptEnd,
    world::{KernelWorld, code, instance_selector, problem, team, within},
};

/// Builds a request about the team's dead letters: all of them, or one message's, of all agents or one.
fn dead(seq: Option<i64>, agent: Option<&str>) -> DeadRequest {
    DeadRequest {
        target: Some("@team".parse().unwrap()),
        project: None,
        seq: seq.map(Seq::new),
        agent: agent.map(|agent| agent.parse().unwrap()),
        why: None,
    }
}

async fn resolve_dead_letters(
    world: &KernelWorld,
    request: DeadRequest,
    action: DeadLetterAction,
) -> Result<DeadReply, Error> {
    within(world.kernel.attention().resolve_dead_letter(&Principal::User, None, request, action))
        .await
}

/// Starts a team whose agents fail three times and then succeed, and waits for the result of `@all go`.
async fn failing(world: &KernelWorld, agents: &str, rest: &str) -> RunId {
    for agent in agents.split_whitespace() {
        world.machine.set_worker_script(agent, |worker| async move {
            match worker.nth {
                1..=3 => ScriptEnd::fails(FailureClass::Fatal),
                _ => ScriptEnd::done("at last"),
            }
        });
    }
    let run = world.start(&team(agents, &format!("kickoff: '@all go'\n{rest}"))).await;
    for _ in agents.split_whitespace() {
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::DeliveryDead)).await;
    }
    world.pass_time(Duration::from_mins(1)).await;
    run
}

/// Returns the redelivered letters: they are pending or leased by now.
fn redriven(reply: &DeadReply) -> Vec<(i64, &str)> {
    for receipt in &reply.receipts {
        assert!(!matches!(receipt.state, DeliveryState::Dead | DeliveryState::Dropped));
    }
    reply.receipts.iter().map(|one| (one.seq.get(), one.agent.as_str())).collect()
}

async fn listed(world: &KernelWorld) -> Vec<(i64, String, bool)> {
    let place = instance_selector("@team");
    let letters = world
        .kernel
        .attention()
        .dead_letters(&Principal::User, &place, ListingScope::All, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    for letter in &letters {
        assert_eq!(letter.message.seq, letter.receipt.seq);
        assert_eq!(letter.message.body, "@all go");
        assert_eq!(letter.receipt.why.as_deref(), Some("failed (fatal): scripted fatal"));
    }
    letters
        .iter()
        .map(|one| (one.receipt.seq.get(), one.receipt.agent.to_string(), one.live))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_listed_and_tried_again_with_reset_counts() {
    let world = KernelWorld::new().await;
    let run = failing(&world, "coder lead", "").await;
    assert_eq!(listed(&world).await, [(1, "coder".into(), true), (1, "lead".into(), true)]);
    let reply =
        resolve_dead_letters(&world, dead(Some(1), Some("coder")), DeadLetterAction::Redrive)
            .await
            .unwrap();
    assert_eq!(redriven(&reply), [(1, "coder")]);
    world.wait_for_event(run, |event| event.data()["end"] == "ok").await;
    let receipt = world.receipts(1).await.remove(0);
    assert_eq!((receipt.state, receipt.failures), (DeliveryState::Acted, 0));
    assert_eq!(receipt.answer.as_deref(), Some("at last"));
    assert_eq!(listed(&world).await, [(1, "lead".into(), true)]);
    let reply =
        resolve_dead_letters(&world, dead(None, None), DeadLetterAction::Redrive).await.unwrap();
    assert_eq!(redriven(&reply), [(1, "lead")]);
    for (request, message) in [
        (dead(None, None), "there is no dead letter in @team"),
        (dead(Some(1), None), "there is no dead letter #1 in @team"),
        (dead(Some(7), None), "there is no dead letter #7 in @team"),
    ] {
        let refused =
            problem(resolve_dead_letters(&world, request, DeadLetterAction::Redrive).await);
        assert_eq!((refused.code, refused.message.as_str()), (Code::NotFound, message));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_given_up_with_a_reason_also_when_its_run_is_over() {
    let world = KernelWorld::new().await;
    let run = failing(&world, "coder lead", "").await;
    let request = DeadRequest { why: Some("not worth it".into()), ..dead(Some(1), Some("lead")) };
    resolve_dead_letters(&world, request, DeadLetterAction::Drop).await.unwrap();
    let receipt = world.receipts(1).await.remove(1);
    assert_eq!(receipt.state, DeliveryState::Dropped);
    assert_eq!(receipt.why.as_deref(), Some("not worth it by user"));
    world.stop(run).await.unwrap();
    assert_eq!(listed(&world).await, [(1, "coder".into(), false)]);
    let late =
        problem(resolve_dead_letters(&world, dead(None, None), DeadLetterAction::Redrive).await);
    assert_eq!((late.code, late.message.as_str()), (Code::NoRun, "@team has no live run"));
    resolve_dead_letters(&world, dead(None, None), DeadLetterAction::Drop).await.unwrap();
    assert!(listed(&world).await.is_empty());
    assert_eq!(world.receipts(1).await[0].why.as_deref(), Some("dropped by user"));
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_for_an_agent_that_left_does_not_block_retries_of_others() {
    let world = KernelWorld::new().await;
    let run = failing(&world, "coder lead", "").await;
    within(world.kernel.agents().remove(&Principal::User, &instance_selector("coder@team")))
        .await
        .unwrap();
    assert_eq!(listed(&world).await.len(), 2, "it is not lost in silence");
    let reply =
        resolve_dead_letters(&world, dead(None, None), DeadLetterAction::Redrive).await.unwrap();
    assert_eq!(redriven(&reply), [(1, "lead")]);
    world.wait_for_event(run, |event| event.data()["end"] == "ok").await;
    assert_eq!(
        code(resolve_dead_letters(&world, dead(Some(1), None), DeadLetterAction::Redrive).await),
        Some(Code::NotFound)
    );
    new_agent(&world, mock_agent_request(Some("coder"), Some("@team"))).await.unwrap();
    resolve_dead_letters(&world, dead(Some(1), None), DeadLetterAction::Redrive).await.unwrap();
    world.pass_time(Duration::from_millis(1)).await;
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Acted);
}

#[tokio::test(start_paused = true)]
async fn a_redrive_under_a_key_happens_once() {
    let world = KernelWorld::new().await;
    let run = failing(&world, "coder", "").await;
    world.machine.set_worker_script("coder", |_| async { ScriptEnd::fails(FailureClass::Fatal) });
    let redrive = || {
        let key = EffectKey::new("k1".into(), "dead_redrive", &json!({ "seq": 1 }));
        world.kernel.attention().resolve_dead_letter(
            &Principal::User,
            Some(key),
            dead(Some(1), None),
            DeadLetterAction::Redrive,
        )
    };
    redrive().await.unwrap();
    let died = std::cell::Cell::new(0);
    world
        .wait_for_event(run, |event| {
            died.set(died.get() + u32::from(event.kind() == Some(EventKind::DeliveryDead)));
            died.get() == 2
        })
        .await;
    // The letter died again; the repeated call returns the result of the first.
    redrive().await.unwrap();
    world.pass_time(Duration::from_mins(1)).await;
    assert_eq!(world.machine.turns().len(), 6);
}

fn attention_lines(items: &[Attention]) -> Vec<String> {
    let line = |item: &Attention| {
        let agent = item.agent.as_ref().map_or("-", |agent| agent.as_str());
        format!("{:?} {agent}: {}; {:?}", item.need.kind(), item.what, item.need)
    };
    items.iter().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn every_item_that_waits_for_a_person_is_listed_with_the_step_that_it_needs() {
    let world = KernelWorld::new().await;
    let (everywhere, whole) = (InstanceSelector::default(), PageRequest::whole());
    let attention =
        || world.kernel.attention().list(&Principal::User, &everywhere, ListingScope::All, &whole);
    let run = failing(&world, "coder lead", "limits: { turns: 6 }").await;
    within(world.kernel.agents().stop(&Principal::User, &instance_selector("lead@team")))
        .await
        .unwrap();
    world.send_to_team("@coder once more").await;
    world.wait_until_paused(run).await;
    assert_eq!(
        attention_lines(&attention().await.unwrap().items),
        [
            "Paused -: turn limit (6 turns taken in the last 24 hours, 6 allowed), room again at 2026-01-02T00:00:00.000Z; Resume(ResumeRequest { hops: None, turns: Some(12), wall: None, cost_micros: None, tokens: None })",
            "DeadLetter coder: #1 was not done: failed (fatal): scripted fatal; Redrive(Seq(1))",
            "DeadLetter lead: #1 was not done: failed (fatal): scripted fatal; Redrive(Seq(1))",
            "AgentStopped lead: stopped by the user; ResumeAgent",
        ]
    );
    let near = InstanceSelector { target: None, project: Some(world.folder().join("deep")) };
    let near = world
        .kernel
        .attention()
        .list(&Principal::User, &near, ListingScope::Live, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    assert_eq!(near.len(), 4);
    let far = InstanceSelector { target: None, project: Some("/elsewhere".into()) };
    let far = world
        .kernel
        .attention()
        .list(&Principal::User, &far, ListingScope::Live, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    assert!(far.is_empty());
    world.stop(run).await.unwrap();
    assert_eq!(world.view(run).await.state, RunState::Ended { outcome: Outcome::Stopped });
    assert!(attention().await.unwrap().items.is_empty(), "nothing of a run that is over waits");
}
