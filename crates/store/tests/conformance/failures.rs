//! The states of a delivery whose attempts fail.

use std::sync::Arc;

use agent_worker_protocol::{
    DeliveryState, FailureClass, Message, MessageKind, Outcome, Seq,
    api::{AgentFailure, LastFailure},
};
use agent_worker_store::{Blame, Error, Lease, MessageOrder, MessageQuery, Store};

use crate::team::{
    NOW, Team, answered, crashed, cut_short, end, name, new_run, ok, shown, text, user,
};

async fn newest(team: &Team) -> Message {
    let order = MessageOrder::NewestFirst;
    let query = MessageQuery {
        run: None,
        after: Seq::new(0),
        before: None,
        search: None,
        to: None,
        order,
        limit: 1,
    };
    team.store.message_list(team.workflow, query).await.unwrap().remove(0)
}

/// Runs failing attempts until `seq` is dead; returns their number.
async fn work_until_dead(team: &Team, blame: Blame, seq: Seq) -> u32 {
    let mut attempts = 0;
    while team.state(seq, "a").await == DeliveryState::Pending {
        attempts += 1;
        let lease = team.lease("a").await;
        assert_eq!(lease.setbacks, attempts - 1);
        team.finish(&lease, cut_short(blame)).await;
        assert!(attempts < 50, "it never dies");
    }
    attempts
}

pub(crate) async fn a_poison_message_dies_alone_after_three_attempts(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    for n in 1..=20 {
        team.say(if n == 7 { "poison" } else { "good" }, &["a"]).await;
    }
    let (mut attempts, mut numbers) = (0, Vec::new());
    while let Some(lease) = team.try_lease("a").await {
        attempts += 1;
        let poisoned = lease.messages.iter().any(|shown| shown.message.body == "poison");
        if poisoned {
            numbers.push((lease.messages.len(), lease.number));
        }
        team.finish(&lease, if poisoned { crashed() } else { ok() }).await;
    }
    assert_eq!((attempts, numbers), (22, vec![(20, 1), (1, 2), (1, 3)]));
    assert_eq!(team.state(Seq::new(7), "a").await, DeliveryState::Dead);
    for seq in (1..=20).filter(|seq| *seq != 7) {
        assert_eq!(team.state(Seq::new(seq), "a").await, DeliveryState::Acted);
    }
    assert_eq!(team.facts().await.dead, 1);
}

pub(crate) async fn a_dead_letter_is_notified_and_listed_and_can_be_tried_again(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    let seq = team.say("poison", &["a"]).await;
    for _ in 0..3 {
        let lease = team.lease("a").await;
        team.finish(&lease, crashed()).await;
    }
    let note = newest(&team).await;
    assert_eq!(note.kind, MessageKind::System);
    assert_eq!(note.body, "a could not do 1: failed (crash): gone");
    assert_eq!((note.from.to_string().as_str(), note.hops, note.to), ("system", 0, vec![]));
    let [dead] = &store.run_failures(team.run).await.unwrap()[..] else { panic!("one is dead") };
    assert_eq!((dead.seq, dead.state, dead.failures), (seq, DeliveryState::Dead, 3));
    assert_eq!(dead.why.as_deref(), Some("failed (crash): gone"));

    let again = || store.delivery_redrive(user(), team.workflow, name("A"), seq, NOW);
    again().await.unwrap();
    assert!(matches!(again().await, Err(Error::WrongDeliveryState(DeliveryState::Pending))));
    team.say("another", &["a"]).await;
    let lease = team.lease("a").await;
    assert_eq!((shown(&lease), lease.number), (vec![seq], 1));
    team.finish(&lease, answered("at last")).await;
    let [receipt] = &store.message_receipts(team.workflow, seq).await.unwrap()[..] else {
        panic!("one recipient")
    };
    assert_eq!((receipt.state, receipt.failures), (DeliveryState::Acted, 0));
    assert_eq!((&receipt.why, receipt.answer.as_deref()), (&None, Some("at last")));
    assert_eq!(store.run_failures(team.run).await.unwrap(), []);
    let kinds = team.kinds().await;
    for kind in ["delivery.dead", "delivery.pending"] {
        assert_eq!(kinds.iter().filter(|word| **word == kind).count(), 1, "{kind}");
    }
}

pub(crate) async fn ten_uncounted_failures_in_a_row_are_enough(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let seq = team.say("go", &["a"]).await;
    assert_eq!(work_until_dead(&team, Blame::Uncounted { max: 10 }, seq).await, 10);
    let receipt = store.message_receipts(team.workflow, seq).await.unwrap().remove(0);
    assert_eq!((receipt.state, receipt.failures), (DeliveryState::Dead, 0));
    store.delivery_redrive(user(), team.workflow, name("a"), seq, NOW).await.unwrap();
    assert_eq!(team.lease("a").await.setbacks, 0);
}

pub(crate) async fn a_counted_failure_ends_the_row_of_uncounted_ones(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let end = async |how, expected| {
        let lease = team.lease("a").await;
        assert_eq!((lease.number, lease.setbacks), expected);
        team.finish(&lease, how).await;
    };
    end(cut_short(Blame::Uncounted { max: 2 }), (1, 0)).await;
    end(crashed(), (1, 1)).await;
    end(cut_short(Blame::Uncounted { max: 2 }), (2, 0)).await;
    end(ok(), (2, 1)).await;
}

pub(crate) async fn an_attempt_without_blame_never_counts(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let seq = team.say("go", &["a"]).await;
    for _ in 0..30 {
        let lease = team.lease("a").await;
        assert_eq!((lease.number, lease.setbacks, shown(&lease)), (1, 0, vec![seq]));
        team.finish(&lease, cut_short(Blame::None)).await;
    }
    assert_eq!(store.run_get(team.run).await.unwrap().turns, 0);
}

pub(crate) async fn a_message_that_no_attempt_holds_can_be_given_up(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let seq = team.say("go", &["a", "b"]).await;
    let lease = team.lease("a").await;
    let give_up = |agent: &str| {
        let why = "not needed".to_owned();
        store.delivery_drop(user(), team.workflow, name(agent), seq, why, NOW)
    };
    assert!(matches!(give_up("a").await, Err(Error::WrongDeliveryState(DeliveryState::Leased))));
    give_up("b").await.unwrap();
    assert!(matches!(give_up("b").await, Err(Error::WrongDeliveryState(DeliveryState::Dropped))));
    assert!(matches!(give_up("c").await, Err(Error::NotFound("delivery"))));
    assert_eq!(team.facts().await.dropped, 1);
    let failures = store.run_failures(team.run).await.unwrap();
    assert_eq!(failures[0].why.as_deref(), Some("not needed by user"));
    team.finish(&lease, ok()).await;
    assert!(matches!(give_up("a").await, Err(Error::WrongDeliveryState(DeliveryState::Acted))));
    assert!(team.try_lease("b").await.is_none());
    assert_eq!(team.append(user(), text("on", &[])).await.unwrap().value(), Seq::new(2));
}

pub(crate) async fn the_last_failure_of_an_agent_stays_with_its_run(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a", "b"]).await;
    let first = team.run;
    let failures = async |run| {
        let snapshot = store.run_snapshot(run).await.unwrap();
        let one = |failed: &AgentFailure| {
            let LastFailure { class, message, attempt, recovered, .. } = &failed.failure;
            (failed.agent.to_string(), *class, message.clone(), *attempt, *recovered)
        };
        snapshot.last_failures.iter().map(one).collect::<Vec<_>>()
    };
    let gone = |agent: &str, lease: &Lease, recovered| {
        (agent.to_owned(), FailureClass::Crash, "gone".to_owned(), lease.id, recovered)
    };
    assert_eq!(failures(first).await, []);
    team.say("go", &["a", "b"]).await;
    let (_, b) = (team.finish(&team.lease("a").await, crashed()).await, team.lease("b").await);
    team.finish(&b, crashed()).await;
    let second = team.lease("a").await;
    team.finish(&second, crashed()).await;
    assert_eq!(failures(first).await, [gone("a", &second, false), gone("b", &b, false)]);
    team.finish(&team.lease("b").await, cut_short(Blame::None)).await;
    team.finish(&team.lease("a").await, ok()).await;
    assert_eq!(failures(first).await, [gone("a", &second, true), gone("b", &b, false)]);
    team.say("again", &["a"]).await;
    let third = team.lease("a").await;
    team.finish(&third, crashed()).await;
    assert_eq!(failures(first).await, [gone("a", &third, false), gone("b", &b, false)]);
    // The next run starts without failures, and the cause of the first one is still known.
    team.settle(end(Outcome::Failed)).await;
    team.start(new_run(&["a", "b"])).await;
    assert_eq!(failures(team.run).await, []);
    team.say("once more", &["a"]).await;
    team.finish(&team.lease("a").await, ok()).await;
    assert_eq!(failures(team.run).await, []);
    assert_eq!(failures(first).await, [gone("a", &third, false), gone("b", &b, false)]);
}
