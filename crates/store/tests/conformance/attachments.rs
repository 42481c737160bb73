//! Files of messages: stored with their message, once, and for as long as the message.

use std::sync::Arc;

use agent_worker_protocol::{Attachment, Outcome, ResourceId, Sender};
use agent_worker_store::{
    Error, ListRange, MessageOrder, MessageQuery, NewAttachment, NewMessage, NewRun, Once,
    Recipient, Retention, Store, Wake,
};

use crate::team::{NOW, Team, crashed, end, keyed, name, new_run, text, user};

/// A content that is stored in a file and not in its row.
const LARGE: usize = 3 * 1024 * 1024;

fn file(name: &str, content: Vec<u8>) -> NewAttachment {
    let media_type = "application/octet-stream".into();
    NewAttachment { name: name.parse().unwrap(), media_type, content }
}

fn with_files(body: &str, to: &[&str], attachments: Vec<NewAttachment>) -> NewMessage {
    NewMessage { attachments, ..text(body, to) }
}

async fn attachments(team: &Team) -> Vec<Vec<Attachment>> {
    let query = MessageQuery {
        run: None,
        after: agent_worker_protocol::Seq::new(0),
        before: None,
        search: None,
        to: None,
        order: MessageOrder::OldestFirst,
        limit: 99,
    };
    let list = team.store.message_list(team.workflow, query).await.unwrap();
    list.into_iter().map(|message| message.attachments).collect()
}

async fn content(team: &Team, id: ResourceId) -> Option<Vec<u8>> {
    match team.store.resource_get(team.workflow, id, 0..u64::MAX).await {
        Ok(part) => Some(part.bytes),
        Err(Error::NotFound("resource")) => None,
        Err(error) => panic!("{error}"),
    }
}

async fn resources(team: &Team) -> usize {
    team.store.resource_list(team.workflow, ListRange::all()).await.unwrap().len()
}

pub(crate) async fn the_files_of_a_message_come_back_as_they_were_sent(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.say("without", &["a"]).await;
    let files =
        vec![file("small", vec![1, 255]), file("large", vec![7; LARGE]), file("empty", vec![])];
    let seq = team.post(with_files("with", &["a"], files)).await;
    let all = attachments(&team).await;
    assert_eq!(all[0], []);
    let sizes: Vec<_> = all[1].iter().map(|one| (one.name.as_str(), one.size)).collect();
    assert_eq!(sizes, [("small", 2), ("large", LARGE as u64), ("empty", 0)]);
    for (one, expected) in all[1].iter().zip([vec![1, 255], vec![7; LARGE], vec![]]) {
        assert_eq!(content(&team, one.resource).await, Some(expected), "{one}");
    }
    assert_eq!(store.instance_verify(team.workflow).await.unwrap(), seq);
    let listed = store.resource_list(team.workflow, ListRange::all()).await.unwrap();
    assert!(listed.iter().all(|info| info.created_by == Some(Sender::User)), "{listed:?}");
}

pub(crate) async fn a_refused_message_leaves_no_file(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let files = || vec![file("small", vec![1]), file("large", vec![7; LARGE])];
    let mut unknown = with_files("go", &[], files());
    unknown.recipients.push(Recipient { agent: name("ghost"), wake: Wake::Batched });
    assert!(team.append(user(), unknown).await.is_err());
    assert_eq!((resources(&team).await, attachments(&team).await.len()), (0, 0));
    team.settle(end(Outcome::Done)).await;
    let late = team.append(user(), with_files("go", &["a"], files())).await;
    assert!(matches!(late, Err(Error::NoRun)), "{late:?}");
    assert_eq!(resources(&team).await, 0);
}

pub(crate) async fn a_repeated_message_stores_its_files_once(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let send = |args: &'static str, byte| {
        let files = vec![file("large", vec![byte; LARGE])];
        team.append(keyed(user(), "k", args), with_files("go", &["a"], files))
    };
    let first = send("x", 7).await.unwrap();
    let Once::New(seq) = first else { panic!("{first:?}") };
    assert_eq!(send("x", 7).await.unwrap(), Once::Deduplicated(seq));
    assert!(matches!(send("y", 8).await, Err(Error::KeyReused)));
    let all = attachments(&team).await;
    assert_eq!((all.len(), resources(&team).await), (1, 1));
    assert_eq!(content(&team, all[0][0].resource).await, Some(vec![7; LARGE]));
}

pub(crate) async fn a_redelivered_message_has_its_files_again(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.post(with_files("go", &["a"], vec![file("shot.png", vec![1, 2])])).await;
    let first = team.lease("a").await;
    team.finish(&first, crashed()).await;
    let again = team.lease("a").await;
    let shown = |lease: &agent_worker_store::Lease| lease.messages[0].message.attachments.clone();
    assert_eq!(shown(&again), shown(&first));
    assert_eq!(content(&team, shown(&again)[0].resource).await, Some(vec![1, 2]));
}

pub(crate) async fn files_live_as_long_as_a_message_that_has_them(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    let memory = || NewRun { retention: Retention::WhileLive, ..new_run(&["a"]) };
    let send = |team: &Team, byte| {
        let files = vec![file("f", vec![byte; LARGE])];
        let (store, workflow) = (Arc::clone(&team.store), team.workflow);
        async move {
            let message = with_files("go", &[], files);
            store.message_append(user(), workflow, message, None, NOW).await.unwrap();
        }
    };
    // 1 is first in a run that is kept, 2 first in one that is not, 3 only in one that is not.
    send(&team, 1).await;
    team.settle(end(Outcome::Done)).await;
    team.start(memory()).await;
    for byte in 1..=3 {
        send(&team, byte).await;
    }
    let third = attachments(&team).await[3][0].resource;
    team.settle(end(Outcome::Done)).await;
    team.start(new_run(&["a"])).await;
    send(&team, 2).await;
    team.settle(end(Outcome::Done)).await;
    store.instance_forget(team.workflow).await.unwrap();
    let left = attachments(&team).await;
    assert_eq!(left.len(), 2);
    for (files, byte) in left.iter().zip([1, 2]) {
        assert_eq!(content(&team, files[0].resource).await, Some(vec![byte; LARGE]));
    }
    assert_eq!(content(&team, third).await, None);
}
