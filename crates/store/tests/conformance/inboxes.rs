//! Pending deliveries of an agent, and deliveries that join its turn.

use std::sync::Arc;

use agent_worker_protocol::{DeliveryState, Millis, NumberedEvent, Priority, WorkerEvent};
use agent_worker_store::{Blame, ListRange, NewMessage, Store, Wake};

use crate::team::{NOW, Team, crashed, cut_short, delivered, name, ok, seqs, shown, text};

pub(crate) async fn an_inbox_shows_waking_mail_first_then_urgent_then_by_age(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b"]).await;
    let urgent = |message| NewMessage { priority: Priority::High, ..message };
    team.post(delivered(Wake::No, text("1", &["a"]))).await;
    team.post(delivered(Wake::No, urgent(text("2", &["a"])))).await;
    team.post(text("3", &["a"])).await;
    team.post(text("for another", &["b"])).await;
    team.post(urgent(text("5", &["a"]))).await;
    team.post(text("6", &["a"])).await;
    let mail = store.inbox_pending(team.workflow, name("A"), ListRange::first(4)).await.unwrap();
    let order: Vec<_> = mail.iter().map(|shown| (shown.message.seq.get(), shown.wakes)).collect();
    assert_eq!(order, [(5, true), (3, true), (6, true), (2, false)]);
    assert_eq!(mail[0].message.to, [name("a")]);
}

pub(crate) async fn only_what_was_shown_and_named_is_acked(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let woken_by = team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    assert_eq!(shown(&lease), [woken_by]);
    for body in ["shown, named", "shown", "unseen"] {
        team.say(body, &["a"]).await;
    }
    assert_eq!(store.inbox_ack(lease.fence.clone(), seqs(&[99])[0]).await.unwrap(), []);
    let looked = store.inbox_show(lease.fence.clone(), ListRange::first(2)).await.unwrap();
    assert_eq!(looked.iter().map(|shown| shown.message.seq).collect::<Vec<_>>(), seqs(&[2, 3]));
    let joined = store.inbox_ack(lease.fence.clone(), seqs(&[2])[0]).await.unwrap();
    assert_eq!(joined, seqs(&[2]));
    assert_eq!(team.state(seqs(&[2])[0], "a").await, DeliveryState::Leased);
    let finished = team.finish(&lease, ok()).await;
    assert_eq!(finished.acted, seqs(&[1, 2]));
    assert_eq!(team.inbox("a").await, seqs(&[3, 4]));
    let next = team.lease("a").await;
    assert_eq!(store.inbox_ack(next.fence, seqs(&[9])[0]).await.unwrap(), []);
}

pub(crate) async fn mail_that_joined_a_failed_turn_goes_back_as_it_came(store: Arc<dyn Store>) {
    for failure in [crashed(), cut_short(Blame::Uncounted { max: 10 })] {
        let team = Team::new(&store, &["a"]).await;
        let own = team.say("go", &["a"]).await;
        let lease = team.lease("a").await;
        let joined = team.say("by the way", &["a"]).await;
        let later = team.say("and", &["a"]).await;
        store.inbox_show(lease.fence.clone(), ListRange::first(9)).await.unwrap();
        store.inbox_ack(lease.fence.clone(), joined).await.unwrap();
        assert_eq!(team.finish(&lease, failure.clone()).await.pending, [own, joined]);
        let receipts = store.message_receipts(team.workflow, joined).await.unwrap();
        assert_eq!((receipts[0].state, receipts[0].failures), (DeliveryState::Pending, 0));
        if failure.blame != (Blame::Counted { max: 3 }) {
            continue;
        }
        // The attempt's own mail is tried alone from now on; joined mail is not.
        let again = team.lease("a").await;
        assert_eq!((shown(&again), again.number), (vec![own], 2));
        team.finish(&again, ok()).await;
        let rest = team.lease("a").await;
        assert_eq!((shown(&rest), rest.number), (vec![joined, later], 1));
    }
}

pub(crate) async fn what_an_attempt_was_shown_is_remembered_with_its_hops(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let hops = |hops, body| NewMessage { hops, ..text(body, &["a"]) };
    let first = team.post(hops(4, "go")).await;
    let lease = team.lease("a").await;
    let second = team.post(hops(7, "more")).await;
    for _ in 0..2 {
        store.inbox_show(lease.fence.clone(), ListRange::first(9)).await.unwrap();
    }
    let stored = store.attempt_get(lease.id).await.unwrap();
    assert_eq!(stored.shown, [(first, 4), (second, 7)]);
}

pub(crate) async fn mail_for_a_running_turn_joins_it_when_its_program_has_it(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b"]).await;
    let woken_by = team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    team.say("later", &["a"]).await;
    let now = team.post(delivered(Wake::Now, text("hurry", &["a", "b"]))).await;
    let pending = store.inbox_now(team.workflow, name("A")).await.unwrap();
    assert_eq!(pending.iter().map(|shown| shown.message.seq).collect::<Vec<_>>(), [now]);
    let joined =
        |no, seq| NumberedEvent { no, ts: Millis::new(1), event: WorkerEvent::Joined { seq } };
    // A second report, and one about an unknown message, change nothing.
    let events = vec![joined(1, now), joined(2, now), joined(3, seqs(&[99])[0])];
    store.attempt_events(lease.id, events, NOW).await.unwrap();
    assert_eq!(store.inbox_now(team.workflow, name("a")).await.unwrap(), []);
    assert_eq!(team.state(now, "a").await, DeliveryState::Leased);
    assert_eq!(team.state(now, "b").await, DeliveryState::Pending);
    let shown = store.attempt_get(lease.id).await.unwrap().shown;
    assert_eq!(shown, [(woken_by, 0), (now, 0)]);
    let finished = team.finish(&lease, ok()).await;
    assert_eq!(finished.acted, [woken_by, now]);
}

pub(crate) async fn mail_for_a_running_turn_starts_the_next_one_if_the_turn_ends_first(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    let now = team.post(delivered(Wake::Now, text("hurry", &["a"]))).await;
    team.finish(&lease, ok()).await;
    assert_eq!(shown(&team.lease("a").await), [now]);
}
