//! At most one attempt of an agent is live, and only that attempt may write.

use std::sync::Arc;

use agent_worker_protocol::{Epoch, Seq};
use agent_worker_store::{
    Blame, DocumentBase, DocumentWrite, Error, Fence, Lease, ListRange, Store,
};

use crate::team::{NOW, Team, agent, cut_short, keyed, ok, text};

async fn assert_fenced(team: &Team, old: &Lease) {
    let store = &team.store;
    let write = DocumentWrite {
        workflow: team.workflow,
        path: "notes.md".parse().unwrap(),
        content: "late".into(),
        base: DocumentBase::Append,
        max_bytes: 4096,
    };
    let fence = || old.fence.clone();
    let refusals = [
        team.append(agent(old), text("late", &[])).await.err(),
        team.append(keyed(agent(old), "k", "early"), text("early", &[])).await.err(),
        store.inbox_show(fence(), ListRange::first(9)).await.err(),
        store.inbox_ack(fence(), Seq::new(99)).await.err(),
        store.document_put(agent(old), write, NOW).await.err(),
        store.resource_put(agent(old), team.workflow, "t".into(), vec![1], NOW.wall).await.err(),
        store.attempt_events(old.id, Vec::new(), NOW).await.err(),
        store.attempt_finish(fence(), ok(), NOW).await.err(),
    ];
    for (number, refusal) in refusals.iter().enumerate() {
        assert!(matches!(refusal, Some(Error::Fenced)), "{number}: {refusal:?}");
    }
}

pub(crate) async fn a_late_attempt_is_refused_before_and_after_the_next_lease(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    team.say("go", &["a"]).await;
    let old = team.lease("a").await;
    team.append(keyed(agent(&old), "k", "early"), text("early", &[])).await.unwrap();
    team.finish(&old, cut_short(Blame::None)).await;
    assert_fenced(&team, &old).await;
    let next = team.lease("a").await;
    assert_eq!(next.fence.epoch, Epoch::new(2));
    assert_fenced(&team, &old).await;
    team.append(agent(&next), text("in time", &[])).await.unwrap();
    assert_eq!(store.instance_verify(team.workflow).await.unwrap(), Seq::new(3));
}

pub(crate) async fn an_attempt_writes_in_its_own_instance_only(store: Arc<dyn Store>) {
    let (here, there) = (Team::new(&store, &["a"]).await, Team::new(&store, &["a"]).await);
    for team in [&here, &there] {
        team.say("go", &["a"]).await;
    }
    let (lease, _other) = (here.lease("a").await, there.lease("a").await);
    assert!(matches!(there.append(agent(&lease), text("hi", &[])).await, Err(Error::Fenced)));
}

pub(crate) async fn names_differ_in_more_than_case(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["Coder"]).await;
    team.say("go", &["coder"]).await;
    let lease = team.lease("CODER").await;
    assert!(team.try_lease("coder").await.is_none());
    let shouted = Fence { agent: "CODER".parse().unwrap(), ..lease.fence.clone() };
    assert_eq!(store.inbox_show(shouted.clone(), ListRange::first(9)).await.unwrap(), []);
    let said = team.append(agent(&Lease { fence: shouted, ..lease.clone() }), text("x", &[])).await;
    let seq = said.unwrap().value();
    let spelt = team.events().await.last().unwrap().data()["from"].clone();
    assert_eq!((seq, spelt), (Seq::new(2), "Coder".into()));
    assert_eq!(store.agent_list(team.workflow).await.unwrap()[0].messages, 1);
}
