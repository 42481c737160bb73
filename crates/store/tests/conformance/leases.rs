//! The start of attempts, and the messages that each leases.

use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{Epoch, EventKind, LimitKind, PauseCause, Priority, RunMode, RunState};
use agent_worker_store::{
    Blame, LeaseFacts, LeaseOutcome, LeaseRule, LeaseStep, LimitScope, NewMessage, NewRun,
    NotBefore, ReadyAgent, RunStep, Settlement, Store, WaitReason, Wake,
};
use tokio::task::JoinSet;

use crate::{
    rules::LEASE_RULE,
    team::{
        LIMITS, NOW, Team, attempt, crashed, cut_short, delivered, name, new_run, ok, seqs, shown,
        text, user,
    },
};

async fn ready(team: &Team) -> Vec<ReadyAgent> {
    team.store.agent_ready(team.workflow).await.unwrap()
}

pub(crate) async fn of_thirty_two_racers_one_gets_the_lease(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    for _ in 0..2 {
        team.post(delivered(Wake::Alone, text("go", &["a"]))).await;
    }
    let mut racers = JoinSet::new();
    for _ in 0..32 {
        let team = team.clone();
        racers.spawn(async move { team.try_lease("a").await });
    }
    let won: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
    assert_eq!(won.len(), 1);
    assert_eq!(won[0].fence.epoch, Epoch::new(1));
    assert_eq!(store.attempt_live().await.unwrap().len(), 1);
}

pub(crate) async fn mail_that_does_not_wake_waits_for_mail_that_does(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let cc = team.post(delivered(Wake::No, text("fyi", &["a"]))).await;
    assert_eq!(ready(&team).await, []);
    assert!(team.try_lease("a").await.is_none());
    let waking = team.say("go", &["a"]).await;
    assert_eq!(ready(&team).await.len(), 1);
    let lease = team.lease("a").await;
    assert_eq!((shown(&lease), lease.oldest), (vec![waking, cc], waking));
    assert_eq!(ready(&team).await, []);
}

pub(crate) async fn an_activation_keeps_its_name_over_uncounted_failures(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let first = team.say("go", &["a"]).await;
    for round in 0..3 {
        let lease = team.lease("a").await;
        assert_eq!((lease.oldest, lease.number, lease.setbacks), (first, 1, round));
        assert_eq!(lease.messages.len(), usize::try_from(round).unwrap() + 1);
        let stored = store.attempt_get(lease.id).await.unwrap();
        assert_eq!((stored.oldest, stored.number, stored.setbacks), (first, 1, round));
        team.post(NewMessage { priority: Priority::High, ..text("urgent", &["a"]) }).await;
        team.finish(&lease, cut_short(Blame::Uncounted { max: 10 })).await;
    }
}

pub(crate) async fn mail_that_is_to_be_taken_alone_is(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("1", &["a"]).await;
    team.post(delivered(Wake::Alone, text("2", &["a"]))).await;
    team.say("3", &["a"]).await;
    for expected in [&[1, 3][..], &[2]] {
        let lease = team.lease("a").await;
        assert_eq!(shown(&lease), seqs(expected));
        team.finish(&lease, ok()).await;
    }
}

pub(crate) async fn one_activation_takes_at_most_twenty_messages(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let oldest = team.say("first", &["a"]).await;
    for _ in 0..30 {
        team.post(NewMessage { priority: Priority::High, ..text("urgent", &["a"]) }).await;
    }
    let lease = team.lease("a").await;
    assert_eq!((lease.messages.len(), lease.oldest), (20, oldest));
    assert_eq!(shown(&lease).last(), Some(&oldest));
    assert_eq!(team.inbox("a").await.len(), 11);
}

pub(crate) async fn an_agent_that_is_stopped_or_not_due_is_not_leased(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let due = NOW.plus(Duration::from_secs(5));
    let wait = NotBefore { at: due.store, wait: WaitReason::BackOff, why: "crashed".into() };
    let lease = team.lease("a").await;
    team.finish(&lease, Settlement { not_before: Some(wait.clone()), ..crashed() }).await;
    assert!(team.try_lease("a").await.is_none());
    assert_eq!(ready(&team).await, [ReadyAgent { name: name("a"), not_before: Some(due.store) }]);
    let row = &store.agent_list(team.workflow).await.unwrap()[0];
    assert_eq!((&row.not_before, row.waiting, row.turns), (&Some(wait), 1, 1));
    let lease = team.lease_at("a", due).await.unwrap();
    team.finish(&lease, Settlement { stop: Some("no key".into()), ..crashed() }).await;
    let row = &store.agent_list(team.workflow).await.unwrap()[0];
    assert_eq!((row.stopped.as_deref(), &row.not_before), (Some("no key"), &None));
    assert!(team.lease_at("a", due).await.is_none());
    assert_eq!(ready(&team).await, []);
    team.settle(crate::team::end(agent_worker_protocol::Outcome::Failed)).await;
    team.start(new_run(&["a"])).await;
    team.say("go", &["a"]).await;
    assert_eq!(team.lease("a").await.fence.epoch, Epoch::new(3));
}

pub(crate) async fn a_run_that_does_not_run_leases_nothing(store: Arc<dyn Store>) {
    let instance = "w:setup".parse().unwrap();
    let workflow = store.instance_open("/p".into(), instance).await.unwrap();
    let new = new_run(&["a"]);
    let team = Team { store: Arc::clone(&store), workflow, run: new.id };
    store.run_create(workflow, new, NOW).await.unwrap();
    team.say("go", &["a"]).await;
    assert!(team.try_lease("a").await.is_none());
    store.run_start(team.run, None, NOW).await.unwrap();
    team.settle(RunStep::Pause(PauseCause::User)).await;
    assert!(team.try_lease("a").await.is_none());
    assert_eq!(ready(&team).await, []);
    team.settle(RunStep::Resume).await;
    assert_eq!(ready(&team).await.len(), 1);
    assert!(team.try_lease("a").await.is_some());
}

pub(crate) async fn a_limit_pauses_the_run_in_the_lease(store: Arc<dyn Store>) {
    fn one_turn(facts: &LeaseFacts) -> LeaseStep {
        assert_eq!(facts.limit_scope, LimitScope::Team);
        assert_eq!((facts.mode, facts.limits), (RunMode::Run, LIMITS));
        assert_eq!(facts.turns_today, facts.turns);
        let detail = format!("{} + {} of 1", facts.turns, facts.attempts);
        let reached = facts.turns + facts.attempts >= 1;
        if !reached {
            return LeaseStep::Start;
        }
        LeaseStep::Pause(PauseCause::limit(LimitKind::Turns, detail))
    }
    let team = Team::new(&store, &["a", "b"]).await;
    team.say("go", &["a", "b"]).await;
    let lease = team.lease("a").await;
    let rule = LeaseRule { may_start: one_turn, ..LEASE_RULE };
    let ask = || store.attempt_lease(team.workflow, name("b"), attempt(), rule, NOW);
    let LeaseOutcome::Paused(cause) = ask().await.unwrap() else { panic!("a pause was expected") };
    assert_eq!(cause.to_string(), "turn limit (0 + 1 of 1)");
    assert_eq!(store.run_get(team.run).await.unwrap().state, RunState::Paused { cause });
    assert!(matches!(ask().await.unwrap(), LeaseOutcome::NotReady));
    // A live attempt finishes.
    team.finish(&lease, ok()).await;
    assert_eq!(store.run_get(team.run).await.unwrap().turns, 1);
}

pub(crate) async fn a_standalone_agent_at_its_limit_is_stopped_alone(store: Arc<dyn Store>) {
    fn one_turn(facts: &LeaseFacts) -> LeaseStep {
        assert_eq!((facts.limit_scope, facts.attempts), (LimitScope::Standalone, 0));
        match facts.turns_today {
            0 => LeaseStep::Start,
            more => LeaseStep::Stop(format!("{more} taken")),
        }
    }
    let global = "global".parse().unwrap();
    let workflow = store.instance_open("/".into(), global).await.unwrap();
    let new = NewRun { mode: RunMode::Start, ..new_run(&["a", "b"]) };
    let team = Team { store: Arc::clone(&store), workflow, run: new.id };
    store.run_create(workflow, new, NOW).await.unwrap();
    store.run_start(team.run, None, NOW).await.unwrap();
    let later = NOW.plus(Duration::from_secs(1));
    let rule = LeaseRule { may_start: one_turn, ..LEASE_RULE };
    let ask = async |agent| {
        let leased = store.attempt_lease(workflow, name(agent), attempt(), rule, later).await;
        leased.unwrap()
    };
    team.say("one", &["a", "b"]).await;
    let LeaseOutcome::Attempt(lease) = ask("a").await else { panic!("a lease was expected") };
    let LeaseOutcome::Attempt(_) = ask("b").await else {
        panic!("what a does is not b's business")
    };
    store.attempt_finish(lease.fence.clone(), ok(), later).await.unwrap();
    team.say("two", &["a"]).await;
    let LeaseOutcome::Stopped(why) = ask("a").await else { panic!("a stop was expected") };
    assert_eq!(why, "1 taken");
    let agents = store.agent_list(workflow).await.unwrap();
    let stopped: Vec<_> = agents.iter().map(|agent| agent.stopped.as_deref()).collect();
    assert_eq!(stopped, [Some("1 taken"), None]);
    assert_eq!(store.run_get(team.run).await.unwrap().state, RunState::Running);
    let events = team.events().await;
    let told = events.iter().find(|event| event.kind() == Some(EventKind::AgentStopped)).unwrap();
    assert_eq!(told.cause.as_deref(), Some("1 taken"));
    // The turns of a resumed agent are counted from zero.
    store.agent_resume(user(), workflow, name("a"), later).await.unwrap();
    assert!(matches!(ask("a").await, LeaseOutcome::Attempt(_)));
}

pub(crate) async fn a_token_finds_its_attempt_while_it_lives(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let new = attempt();
    let leased = store.attempt_lease(team.workflow, name("a"), new, LEASE_RULE, NOW).await.unwrap();
    let LeaseOutcome::Attempt(lease) = leased else { panic!("a lease was expected") };
    let found = store.attempt_by_token(new.token).await.unwrap().unwrap();
    assert_eq!((found.id, &found.fence, found.run), (lease.id, &lease.fence, team.run));
    assert_eq!(lease.settings, "{\"n\":\"a\"}");
    assert_eq!(store.attempt_live().await.unwrap()[0].id, lease.id);
    let live = store.agent_list(team.workflow).await.unwrap()[0].live.unwrap();
    assert_eq!((live.attempt, live.since), (lease.id, NOW.wall));
    team.finish(&lease, ok()).await;
    assert!(store.attempt_by_token(new.token).await.unwrap().is_none());
    assert!(store.attempt_live().await.unwrap().is_empty());
    let stored = store.attempt_get(lease.id).await.unwrap();
    assert_eq!(stored.ended, Some(agent_worker_protocol::AttemptEnd::Ok));
}
