//! `provider: memory`: an instance whose rows are deleted with its run.

use std::sync::Arc;

use agent_worker_protocol::{Outcome, Position, ResourceId, Seq};
use agent_worker_store::{
    DocumentBase, DocumentWrite, Error, ListRange, MessageOrder, MessageQuery, NewRun, Retention,
    RunQuery, Store,
};

use crate::team::{NOW, Team, agent, answered, end, keyed, new_run, text, user};

const LARGE: usize = 3 * 1024 * 1024;

fn memory_run() -> NewRun {
    NewRun { retention: Retention::WhileLive, ..new_run(&["a"]) }
}

async fn messages(team: &Team) -> Vec<String> {
    let order = MessageOrder::OldestFirst;
    let query = MessageQuery {
        run: None,
        after: Seq::new(0),
        before: None,
        search: None,
        to: None,
        order,
        limit: 99,
    };
    let list = team.store.message_list(team.workflow, query).await.unwrap();
    list.into_iter().map(|message| message.body).collect()
}

/// Runs a turn with a message, a document, a large and a small resource and an answer, then ends the run. Returns the
/// small resource.
async fn run_to_end(team: &Team) -> ResourceId {
    let store = &team.store;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    team.append(keyed(agent(&lease), "k", "x"), text("did it", &[])).await.unwrap();
    let write = DocumentWrite {
        workflow: team.workflow,
        path: "notes.md".parse().unwrap(),
        content: "noted".into(),
        base: DocumentBase::Append,
        max_bytes: 4096,
    };
    store.document_put(agent(&lease), write, NOW).await.unwrap();
    let put = |size| store.resource_put(user(), team.workflow, "t".into(), vec![7; size], NOW.wall);
    put(LARGE).await.unwrap();
    let small = put(5).await.unwrap();
    team.finish(&lease, answered("done")).await;
    team.settle(end(Outcome::Done)).await;
    small
}

pub(crate) async fn what_is_kept_while_its_run_lives_is_forgotten_after(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    let id = store.resource_put(user(), team.workflow, "t".into(), vec![7; LARGE], NOW.wall).await;
    team.settle(end(Outcome::Done)).await;
    team.start(memory_run()).await;
    let refused = store.instance_forget(team.workflow).await;
    assert!(matches!(refused, Err(Error::RunLive(run)) if run == team.run));
    let small = run_to_end(&team).await;
    for _ in 0..2 {
        store.instance_forget(team.workflow).await.unwrap();
        assert_eq!(messages(&team).await, Vec::<String>::new());
        assert_eq!(store.document_list(team.workflow, ListRange::all()).await.unwrap(), []);
        assert!(!team.events().await.iter().any(|event| event.run == Some(team.run)));
        assert_eq!(store.run_failures(team.run).await.unwrap(), []);
        let row = store.run_get(team.run).await.unwrap();
        assert_eq!((row.script.as_str(), row.messages), ("", 3));
        assert_eq!(store.instance_verify(team.workflow).await.unwrap(), Seq::new(3));
        let gone = store.resource_get(team.workflow, small, 0..3).await;
        assert!(matches!(gone, Err(Error::NotFound("resource"))));
    }
    // Both runs had the large resource, and the first run is kept.
    let part = store.resource_get(team.workflow, id.unwrap(), 0..3).await.unwrap();
    assert_eq!(part.bytes, [7; 3]);
}

pub(crate) async fn numbers_are_never_given_out_again(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    team.settle(end(Outcome::Done)).await;
    team.start(memory_run()).await;
    run_to_end(&team).await;
    let position = store.event_last(team.workflow).await.unwrap();
    store.instance_forget(team.workflow).await.unwrap();
    assert_eq!(store.event_last(team.workflow).await.unwrap(), position);
    team.start(memory_run()).await;
    assert_eq!(team.say("again", &["a"]).await, Seq::new(4));
    let lease = team.lease("a").await;
    assert_eq!(lease.fence.epoch.get(), 2);
    assert_eq!(lease.journal, []);
    let first = team.events().await.into_iter().find(|event| event.run == Some(team.run));
    assert_eq!(first.unwrap().pos, Some(Position::new(position.get() + 1)));
}

pub(crate) async fn runs_that_are_kept_lose_nothing_to_one_that_is_not(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    run_to_end(&team).await;
    for _ in 0..2 {
        team.start(memory_run()).await;
        run_to_end(&team).await;
    }
    team.start(new_run(&["a"])).await;
    run_to_end(&team).await;
    store.instance_forget(team.workflow).await.unwrap();
    let kept = ["go", "did it", "done"];
    assert_eq!(messages(&team).await, [kept, kept].concat());
    assert_eq!(store.instance_verify(team.workflow).await.unwrap(), Seq::new(12));
    assert_eq!(store.run_list(RunQuery::OfInstance(team.workflow, 9)).await.unwrap().len(), 4);
}
