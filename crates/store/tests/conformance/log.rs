//! The event log, its change hints, and the tokens of clients.

use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{
    EventBody, Message, Outcome, Permission, Position, RetryData, Scopes, SetupRanData,
    api::TokenView,
};
use agent_worker_store::{
    ChangeCursor, Error, EventQuery, NotBefore, Settlement, Store, WaitReason,
};
use serde_json::{Value, json};

use crate::team::{
    NOW, Team, agent, answered, crashed, end, name, new_run, run_id, text, token, user,
};

pub(crate) async fn events_replay_what_happened_with_the_messages_themselves(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b"]).await;
    let seq = team.say("go", &["a", "b"]).await;
    let lease = team.lease("a").await;
    team.append(agent(&lease), text("working", &[])).await.unwrap();
    let at = NOW.plus(Duration::from_secs(1));
    let wait = Some(NotBefore { at: at.store, wait: WaitReason::BackOff, why: "crashed".into() });
    team.finish(&lease, Settlement { not_before: wait, ..crashed() }).await;
    let again = team.lease_at("a", at).await.unwrap();
    team.finish(&again, answered("done")).await;
    let ran = EventBody::SetupRan(SetupRanData {
        line: 3,
        name: None,
        status: Some(0),
        bytes: 12,
        ms: 7,
    });
    let cause = Some("make".to_owned());
    store.event_append(team.run, ran.clone(), cause, NOW).await.unwrap();
    team.settle(end(Outcome::Done)).await;
    let late = store.event_append(team.run, ran.clone(), None, NOW).await;
    assert!(matches!(late, Err(Error::NoRun)), "nothing follows the end of a run: {late:?}");

    let events = team.events().await;
    let expected = [
        "run.setup",
        "run.running",
        "message",
        "attempt.starting",
        "message",
        "attempt.ended",
        "attempt.starting",
        "message",
        "attempt.ended",
        "setup.ran",
        "delivery.dropped",
        "run.ended",
    ];
    assert_eq!(events.iter().map(|event| event.body.kind_word()).collect::<Vec<_>>(), expected);
    let positions: Vec<_> = events.iter().filter_map(|event| event.pos).collect();
    assert_eq!(positions, (1..=12).map(Position::new).collect::<Vec<_>>());
    assert!(events.iter().all(|event| event.run == Some(team.run)));
    assert_eq!((events[0].ts, events[6].ts), (NOW.wall, at.wall));
    let sent: Message = serde_json::from_value(events[2].data().into_owned()).unwrap();
    assert_eq!((sent.seq, sent.body.as_str(), sent.to.len()), (seq, "go", 2));
    assert_eq!((events[2].by.as_deref(), events[4].by.as_deref()), (Some("user"), Some("a")));
    assert_eq!((events[4].attempt, &events[4].data()["body"]), (Some(lease.id), &json!("working")));
    assert_eq!(*events[3].data(), json!({ "seqs": [seq], "number": 1 }));
    assert_eq!((&events[3].agent, events[3].attempt), (&Some(name("a")), Some(lease.id)));
    assert_eq!(events[5].cause.as_deref(), Some("failed (crash): gone"));
    assert_eq!((events[5].next, &events[5].data()["pending"]), (Some(at.wall), &json!([seq])));
    assert_eq!(
        (&events[8].data()["end"], &events[8].data()["acted"]),
        (&json!("ok"), &json!([seq]))
    );
    assert_eq!((&events[9].cause, &events[9].body), (&Some("make".into()), &ran));
    assert_eq!((&events[10].agent, &events[10].data()["seq"]), (&Some(name("b")), &json!(seq)));
    assert_eq!(events[11].data()["outcome"], "done");
}

pub(crate) async fn an_event_of_another_version_is_read_as_it_was_written(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let other = |kind: &str, data: Value| EventBody::Other { kind: kind.to_owned(), data };
    let more = json!({ "why": "busy", "wait_ms": 12 });
    let written = [
        other("agent.dreamt", json!({ "of": ["sheep", { "legs": 4 }], "at": 1.5 })),
        other("agent.slept", Value::Null),
        other("run.paused", json!({ "state": "paused", "cause": { "cause": "budget" } })),
        other("retry", more.clone()),
    ];
    let before = team.events().await.len();
    for body in &written {
        store.event_append(team.run, body.clone(), None, NOW).await.unwrap();
    }
    let read = team.events().await.split_off(before);
    for (event, body) in read.iter().zip(&written) {
        assert_eq!(event.body.kind_word(), body.kind_word());
        assert_eq!(*event.data(), body.data());
    }
    let bodies: Vec<_> = read.iter().map(|event| event.body.clone()).collect();
    assert_eq!(bodies[..3], written[..3], "no type fits");
    assert_eq!(bodies[3], EventBody::Retry(RetryData { why: "busy".into() }));
    assert_eq!(read[3].received.as_deref(), Some(&more), "a field that no type has");
}

pub(crate) async fn the_events_of_one_run_are_read_by_themselves(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    let first = team.run;
    team.say("one", &[]).await;
    team.settle(end(Outcome::Done)).await;
    team.start(new_run(&["a"])).await;
    team.say("two", &[]).await;
    let list = async |run, after, limit| {
        let after = Position::new(after);
        let query = EventQuery { workflow: team.workflow, run, after, limit };
        let events = store.event_list(query).await.unwrap();
        events.iter().filter_map(|event| event.pos).map(Position::get).collect::<Vec<_>>()
    };
    assert_eq!(list(Some(first), 0, 99).await, [1, 2, 3, 4]);
    assert_eq!(list(Some(team.run), 0, 99).await, [5, 6, 7]);
    assert_eq!(list(Some(team.run), 5, 1).await, [6]);
    assert_eq!(list(None, 3, 3).await, [4, 5, 6]);
    assert_eq!(list(Some(run_id()), 0, 99).await, [0; 0]);
    assert_eq!(store.event_last(team.workflow).await.unwrap(), Position::new(7));
}

pub(crate) async fn a_change_wakes_its_waiter_once_it_is_committed(store: Arc<dyn Store>) {
    let (team, other) = (Team::new(&store, &["a"]).await, Team::new(&store, &["a"]).await);
    let mut seen = store.change_wait(team.workflow, ChangeCursor::default()).await;
    for n in 1..=20_usize {
        let wait = store.change_wait(team.workflow, seen);
        let write = async {
            other.say("not for them", &[]).await;
            team.say("news", &["a"]).await;
        };
        (seen, ()) = tokio::join!(wait, write);
        assert_eq!(team.inbox("a").await.len(), n);
    }
    // A refused write, a read and a decision to stay wake no task.
    let quiet = store.change_wait(team.workflow, seen);
    let refused = async {
        other.say("not for them", &[]).await;
        team.append(user(), text("x", &["ghost"])).await.unwrap_err();
        team.facts().await;
        store.message_receipts(team.workflow, agent_worker_protocol::Seq::new(1)).await.unwrap();
        store.heartbeat_put(NOW.store).await.unwrap();
    };
    tokio::select! {
        biased;
        _ = quiet => panic!("something was heard"),
        () = refused => {}
    }
}

pub(crate) async fn a_token_is_given_once_and_can_be_taken_back(store: Arc<dyn Store>) {
    let some = Scopes {
        allow: [Permission::Run].into(),
        instances: vec!["/p@review:*".parse().unwrap(), "@*:pr-1".parse().unwrap()],
        env: ["COLOR".to_owned()].into(),
    };
    let usual = Scopes::default;
    store.token_put("ci".into(), token(1), some.clone(), NOW.wall).await.unwrap();
    let taken = store.token_put("ci".into(), token(2), usual(), NOW.wall).await;
    assert!(matches!(taken, Err(Error::Exists("token"))));
    store.token_put("CI".into(), token(3), usual(), NOW.wall).await.unwrap();
    let view = |name: &str, scopes| TokenView { name: name.into(), created: NOW.wall, scopes };
    assert_eq!(store.token_find(token(1)).await.unwrap(), Some(view("ci", some.clone())));
    assert_eq!(store.token_find(token(2)).await.unwrap(), None);
    assert_eq!(store.token_hash("ci".into()).await.unwrap(), Some(token(1)));
    assert_eq!(store.token_hash("cI".into()).await.unwrap(), None);
    let all = [view("CI", usual()), view("ci", some)];
    assert_eq!(store.token_list().await.unwrap(), all);
    store.token_remove("ci".into()).await.unwrap();
    assert_eq!(store.token_find(token(1)).await.unwrap(), None);
    let gone = store.token_remove("ci".into()).await;
    assert!(matches!(gone, Err(Error::NotFound("token"))));
}

pub(crate) async fn a_heartbeat_is_found_again(store: Arc<dyn Store>) {
    assert_eq!(store.heartbeat_last().await.unwrap(), None);
    for now in [NOW.store, NOW.store.plus(Duration::from_secs(5))] {
        store.heartbeat_put(now).await.unwrap();
        assert_eq!(store.heartbeat_last().await.unwrap(), Some(now));
    }
}
