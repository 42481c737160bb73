//! Effects happen once per key, and the next attempt gets them in its journal.

use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{Outcome, Seq};
use agent_worker_store::{Blame, Error, Lease, ListRange, Once, Store, WriteContext};

use crate::team::{
    NOW, Team, agent, client, crashed, cut_short, end, keyed, ok, shown, text, user,
};

/// Sends "ping" under a key.
async fn ping(team: &Team, by: WriteContext, key: &str) -> Result<Once<Seq>, Error> {
    team.append(keyed(by, key, "ping"), text("ping", &[])).await
}

fn new_seq(seq: i64) -> Once<Seq> {
    Once::New(Seq::new(seq))
}

fn deduplicated_seq(seq: i64) -> Once<Seq> {
    Once::Deduplicated(Seq::new(seq))
}

fn journal(lease: &Lease) -> Vec<&str> {
    lease.journal.iter().map(|entry| entry.result.as_str()).collect()
}

pub(crate) async fn two_equal_calls_are_two_effects_and_a_retry_repeats_neither(
    store: Arc<dyn Store>,
) {
    for failure in [crashed(), cut_short(Blame::Uncounted { max: 10 }), cut_short(Blame::None)] {
        let team = Team::new(&store, &["a"]).await;
        team.say("go", &["a"]).await;
        let first = team.lease("a").await;
        // The worker numbers its equal calls, so each has a key of its own.
        assert_eq!(ping(&team, agent(&first), "k1").await.unwrap(), new_seq(2));
        assert_eq!(ping(&team, agent(&first), "k2").await.unwrap(), new_seq(3));
        team.finish(&first, failure).await;
        let second = team.lease("a").await;
        assert_eq!(journal(&second), ["2", "3"]);
        assert_eq!(second.journal[0].tool, "send");
        assert!(second.journal[0].arguments.is_some(), "{:?}", second.journal);
        assert_eq!(ping(&team, agent(&second), "k1").await.unwrap(), deduplicated_seq(2));
        assert_eq!(ping(&team, agent(&second), "k2").await.unwrap(), deduplicated_seq(3));
        assert_eq!(ping(&team, agent(&second), "k3").await.unwrap(), new_seq(4));
    }
}

pub(crate) async fn a_key_stands_for_one_call(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    for (by, first) in [(agent(&lease), 2), (user(), 3), (client("ci"), 4)] {
        assert_eq!(ping(&team, by.clone(), "k").await.unwrap(), new_seq(first));
        assert_eq!(ping(&team, by.clone(), "k").await.unwrap(), deduplicated_seq(first));
        let other = team.append(keyed(by, "k", "pong"), text("pong", &[])).await;
        assert!(matches!(other, Err(Error::KeyReused)), "{other:?}");
    }
    // Without a key each request is a new effect.
    for seq in 5..7 {
        assert_eq!(team.append(agent(&lease), text("ping", &[])).await.unwrap(), new_seq(seq));
    }
}

pub(crate) async fn a_users_key_outlives_the_run_and_expires(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    assert_eq!(ping(&team, user(), "k").await.unwrap(), new_seq(1));
    team.settle(end(Outcome::Done)).await;
    assert_eq!(ping(&team, user(), "k").await.unwrap(), deduplicated_seq(1));
    assert!(matches!(ping(&team, user(), "other").await, Err(Error::NoRun)));
    team.start(crate::team::new_run(&["a"])).await;
    assert_eq!(store.effect_expire(NOW.store).await.unwrap(), 0);
    assert_eq!(ping(&team, user(), "k").await.unwrap(), deduplicated_seq(1));
    assert_eq!(store.effect_expire(NOW.store.plus(Duration::from_millis(1))).await.unwrap(), 1);
    assert_eq!(ping(&team, user(), "k").await.unwrap(), new_seq(2));
}

pub(crate) async fn each_caller_has_its_own_keys(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    team.say("go", &["a", "b"]).await;
    let (a, b) = (team.lease("a").await, team.lease("b").await);
    let callers = [user(), client("ci"), client("CI"), agent(&a), agent(&b)];
    for (by, seq) in callers.into_iter().zip(2..) {
        assert_eq!(ping(&team, by, "k").await.unwrap(), new_seq(seq));
    }
}

pub(crate) async fn an_agents_keys_go_when_nothing_it_was_shown_is_open(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let (one, two) = (team.say("1", &["a"]).await, team.say("2", &["a"]).await);
    let batch = team.lease("a").await;
    assert_eq!(shown(&batch), [one, two]);
    ping(&team, agent(&batch), "k").await.unwrap();
    team.finish(&batch, crashed()).await;
    // Each delivery is alone now: the first succeeds, but the second may still need the journal.
    let first = team.lease("a").await;
    assert_eq!((shown(&first), first.journal.len()), (vec![one], 1));
    team.finish(&first, ok()).await;
    let second = team.lease("a").await;
    assert_eq!((shown(&second), second.journal.len()), (vec![two], 1));
    assert_eq!(ping(&team, agent(&second), "k").await.unwrap(), new_seq(4));
    team.finish(&second, ok()).await;
    team.say("3", &["a"]).await;
    let third = team.lease("a").await;
    ping(&team, agent(&third), "k").await.unwrap();
    team.finish(&third, crashed()).await;
    assert_eq!(journal(&team.lease("a").await), ["6"]);
}

pub(crate) async fn the_journal_has_what_attempts_did_that_were_shown_the_same(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    for _ in 0..2 {
        team.say("together", &["a"]).await;
    }
    let batch = team.lease("a").await;
    ping(&team, agent(&batch), "b").await.unwrap();
    ping(&team, agent(&batch), "a").await.unwrap();
    team.finish(&batch, crashed()).await;
    let first = team.lease("a").await;
    assert_eq!((shown(&first).len(), journal(&first)), (1, vec!["3", "4"]));
    ping(&team, agent(&first), "only of the first").await.unwrap();
    team.finish(&first, ok()).await;
    let second = team.lease("a").await;
    assert_eq!((shown(&second).len(), journal(&second)), (1, vec!["3", "4"]));
}

pub(crate) async fn the_journal_knows_mail_that_was_only_looked_at(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    let looked_at = team.say("by the way", &["a"]).await;
    store.inbox_show(lease.fence.clone(), ListRange::first(9)).await.unwrap();
    ping(&team, agent(&lease), "k").await.unwrap();
    team.finish(&lease, ok()).await;
    let next = team.lease("a").await;
    assert_eq!((shown(&next), journal(&next)), (vec![looked_at], vec!["3"]));
}
