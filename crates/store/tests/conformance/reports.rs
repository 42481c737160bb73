//! Reports of a worker about its attempt.

use std::sync::Arc;

use agent_worker_protocol::{
    AttemptId, Finished, NumberedEvent, Usage, WorkerEvent, WorkerOutcome,
};
use agent_worker_store::{Blame, Error, Lease, Store};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::team::{NOW, Team, crashed, cut_short, ok, user};

fn event(no: i64, event: WorkerEvent) -> NumberedEvent {
    NumberedEvent { no, ts: NOW.wall, event }
}

fn retry(no: i64) -> NumberedEvent {
    event(no, WorkerEvent::Retry { why: format!("number {no}") })
}

pub(crate) async fn each_number_is_stored_once_and_none_is_left_out(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    let report = |events| store.attempt_events(lease.id, events, NOW);
    assert_eq!(report(vec![]).await.unwrap(), 0);
    let started = event(1, WorkerEvent::Started { pid: 7, sandbox: None });
    assert_eq!(report(vec![started.clone(), retry(2)]).await.unwrap(), 2);
    assert_eq!(report(vec![started, retry(2), retry(3)]).await.unwrap(), 3);
    assert_eq!(report(vec![retry(1)]).await.unwrap(), 3);
    let gap = report(vec![retry(4), retry(6)]).await;
    assert!(matches!(gap, Err(Error::InvalidValue(_))), "{gap:?}");
    assert_eq!(store.attempt_get(lease.id).await.unwrap().last_no, 3);
    let told: Vec<_> = team.events().await.split_off(4);
    let told: Vec<_> =
        told.iter().map(|event| (event.body.kind_word(), event.data().into_owned())).collect();
    assert_eq!(
        told,
        [
            ("attempt.running", json!({ "pid": 7 })),
            ("retry", json!({ "why": "number 2" })),
            ("retry", json!({ "why": "number 3" })),
        ]
    );
    let stranger = AttemptId::new(Uuid::from_u64_pair(9, 9));
    let nobody = store.attempt_events(stranger, vec![retry(1)], NOW).await;
    assert!(matches!(nobody, Err(Error::NotFound("attempt"))));
}

pub(crate) async fn what_was_used_adds_up(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let usage = |input_tokens, output_tokens, cost_micros| Usage {
        input_tokens,
        output_tokens,
        cost_micros,
        cost_reckoned: false,
    };
    let reckoned = |usage| Usage { cost_reckoned: true, ..usage };
    let report = async |reports: [Usage; 2]| {
        team.say("go", &["a"]).await;
        let lease = team.lease("a").await;
        let events = (1..).zip(reports).map(|(no, usage)| event(no, WorkerEvent::Usage(usage)));
        store.attempt_events(lease.id, events.collect(), NOW).await.unwrap();
        team.finish(&lease, ok()).await;
        store.attempt_get(lease.id).await.unwrap().usage
    };
    let total = async || {
        let agents = store.agent_list(team.workflow).await.unwrap();
        assert_eq!(store.run_get(team.run).await.unwrap().usage, agents[0].usage);
        (agents[0].usage, agents[0].turns)
    };
    // A report without tokens has no cost.
    assert_eq!(
        report([usage(1, 2, Some(5)), usage(0, 0, None)]).await,
        usage(1, 2, Some(5)),
        "a cost that is told"
    );
    let told_and_reckoned = report([usage(1, 1, Some(1)), reckoned(usage(1, 1, Some(2)))]).await;
    assert_eq!(told_and_reckoned, reckoned(usage(2, 2, Some(3))));
    assert_eq!(total().await, (reckoned(usage(3, 4, Some(8))), 2));
    // A sum with an unknown part is unknown from then on.
    assert_eq!(report([usage(1, 1, Some(5)), usage(1, 0, None)]).await, usage(2, 1, None));
    assert_eq!(report([usage(1, 1, Some(5)), usage(1, 1, Some(5))]).await, usage(2, 2, Some(10)));
    assert_eq!(total().await, (usage(7, 7, None), 4));
}

pub(crate) async fn a_conversation_goes_on_until_a_failure_that_counts(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let turn = async |says: Option<Value>, end| {
        team.say("go", &["a"]).await;
        let lease = team.lease("a").await;
        let events =
            (1..).zip(says).map(|(no, session)| event(no, WorkerEvent::Session { session }));
        store.attempt_events(lease.id, events.collect(), NOW).await.unwrap();
        team.finish(&lease, end).await;
        lease.session
    };
    let [one, two] = [1, 2].map(|n| json!({ "id": n }));
    assert_eq!(turn(Some(one.clone()), ok()).await, None);
    assert_eq!(turn(None, ok()).await, Some(one.clone()));
    assert_eq!(turn(Some(two.clone()), cut_short(Blame::None)).await, Some(one));
    let lease = team.lease("a").await;
    assert_eq!(lease.session, Some(two), "what was cut short continues");
    team.finish(&lease, crashed()).await;
    assert_eq!(
        team.lease("a").await.session,
        None,
        "what failed is not tried again in the same one"
    );
    team.say("go", &["b"]).await;
    assert_eq!(team.lease("b").await.session, None, "it is the agent's own");
}

pub(crate) async fn a_clear_ends_the_conversations_also_that_of_a_running_turn(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    let report = async |lease: &Lease, id| {
        let session = json!({ "id": id });
        let events = vec![event(1, WorkerEvent::Session { session })];
        store.attempt_events(lease.id, events, NOW).await.unwrap();
    };
    team.say("one", &["a"]).await;
    let first = team.lease("a").await;
    report(&first, 1).await;
    team.finish(&first, ok()).await;
    team.say("two", &["a"]).await;
    let second = team.lease("a").await;
    assert_eq!(second.session, Some(json!({"id": 1})));
    store.instance_clear(user(), team.workflow, NOW).await.unwrap();
    report(&second, 2).await;
    team.finish(&second, ok()).await;
    team.say("three", &["a"]).await;
    let third = team.lease("a").await;
    assert_eq!(third.session, None, "it began before the messages were cleared");
    report(&third, 3).await;
    team.finish(&third, ok()).await;
    team.say("four", &["a"]).await;
    assert_eq!(team.lease("a").await.session, Some(json!({"id": 3})));
}

pub(crate) async fn each_attempt_keeps_its_own_conversation(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    for says in [Some(json!({"id": 1})), None, Some(json!({"id": 2}))] {
        team.say("go", &["a"]).await;
        let lease = team.lease("a").await;
        let events =
            (1..).zip(says).map(|(no, session)| event(no, WorkerEvent::Session { session }));
        store.attempt_events(lease.id, events.collect(), NOW).await.unwrap();
        team.finish(&lease, ok()).await;
    }
    let attempts = store.attempt_list(team.workflow, "a".parse().unwrap(), 9).await.unwrap();
    let sessions: Vec<_> = attempts.into_iter().map(|attempt| attempt.session).collect();
    assert_eq!(sessions, [Some(json!({"id": 2})), None, Some(json!({"id": 1}))]);
}

pub(crate) async fn the_last_word_is_kept(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    let before = team.events().await.len();
    let finished = Finished { text: "done".into(), outcome: WorkerOutcome::Ok, session: None };
    let last = event(1, WorkerEvent::Finished(finished.clone()));
    assert_eq!(store.attempt_events(lease.id, vec![last], NOW).await.unwrap(), 1);
    let stored = store.attempt_get(lease.id).await.unwrap();
    assert_eq!((stored.finished, stored.ended), (Some(finished), None));
    assert_eq!(team.events().await.len(), before);
}

pub(crate) async fn an_ended_attempt_reports_nothing_more(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    team.finish(&lease, ok()).await;
    let late = store.attempt_events(lease.id, vec![retry(1)], NOW).await;
    assert!(matches!(late, Err(Error::Fenced)), "{late:?}");
}
