//! Lists that are read in parts: together the parts are the whole list, also while new entries arrive.

use std::{fmt::Debug, sync::Arc, time::Duration};

use agent_worker_protocol::{DocumentPath, Outcome, Priority, RunId};
use agent_worker_store::{
    DocumentBase, DocumentWrite, InboxKey, ListRange, MessageOrder, MessageQuery, ProposalQuery,
    ResourceKey, RunKey, RunQuery, Store, Wake,
};

use crate::{
    proposals::{propose, terms},
    team::{NOW, Team, delivered, end, name, new_run, seqs, text, user},
};

/// Reads a list in parts of two and requires that they make up the whole list.
async fn read_in_parts<K: Clone, T: PartialEq + Debug>(
    list: impl AsyncFn(ListRange<K>) -> Vec<T>,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    let whole = list(ListRange::all()).await;
    let (mut read, mut after) = (Vec::new(), None);
    loop {
        let part = list(ListRange { after, limit: 2 }).await;
        let is_last = part.len() < 2;
        after = part.last().map(&key);
        read.extend(part);
        if is_last {
            assert_eq!(read, whole);
            return whole;
        }
    }
}

async fn write_document(team: &Team, path: &str, content: &str) {
    let path: DocumentPath = path.parse().unwrap();
    let (workflow, base) = (team.workflow, DocumentBase::Append);
    let write = DocumentWrite { workflow, path, content: content.into(), base, max_bytes: 4096 };
    team.store.document_put(user(), write, NOW).await.unwrap();
}

pub(crate) async fn the_parts_of_a_list_are_the_whole_list(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let workflow = team.workflow;
    for path in ["b.md", "a.md", "c.md", "a.md", "a.md"] {
        write_document(&team, path, "a line\n").await;
    }
    for (number, content) in (0u64..).zip(["one", "two", "three", "four", "five"]) {
        // Two resources are from the same moment.
        let now = NOW.wall.plus(Duration::from_secs(number / 2));
        let (kind, content) = ("text/plain".to_owned(), content.as_bytes().to_vec());
        store.resource_put(user(), workflow, kind, content, now).await.unwrap();
        propose(&team, user(), terms(&["x", "y"], &["a"])).await;
    }
    let documents = async |range| store.document_list(workflow, range).await.unwrap();
    let found = read_in_parts(documents, |info| info.path.clone()).await;
    assert_eq!(
        found.iter().map(|info| info.path.as_str()).collect::<Vec<_>>(),
        ["a.md", "b.md", "c.md"]
    );
    let path: DocumentPath = "a.md".parse().unwrap();
    let history =
        async |range| store.document_history(workflow, path.clone(), range).await.unwrap();
    assert_eq!(read_in_parts(history, |info| info.revision).await.len(), 3);
    let resources = async |range| store.resource_list(workflow, range).await.unwrap();
    let key = |info: &agent_worker_store::ResourceInfo| ResourceKey { ts: info.ts, id: info.id };
    assert_eq!(read_in_parts(resources, key).await.len(), 5);
    let proposals =
        async |range| store.proposal_list(workflow, ProposalQuery::All(range), NOW).await.unwrap();
    assert_eq!(read_in_parts(proposals, |proposal| proposal.id).await.len(), 5);
}

pub(crate) async fn ended_runs_are_read_in_parts_of_one_instance_or_of_all(store: Arc<dyn Store>) {
    let (mut one, mut two) = (Team::new(&store, &["a"]).await, Team::new(&store, &["a"]).await);
    for team in [&mut one, &mut two] {
        for _ in 0..3 {
            team.settle(end(Outcome::Done)).await;
            team.start(new_run(&["a"])).await;
        }
    }
    let read = async |of: Option<Vec<_>>| {
        let list = async |range| {
            let ended = RunQuery::Ended(of.clone(), range);
            let runs = store.run_list(ended).await.unwrap();
            runs.into_iter().map(|run| (run.started, run.id)).collect()
        };
        let runs = read_in_parts(list, |(started, run)| RunKey { started: *started, run: *run });
        runs.await.into_iter().map(|(_, run)| run).collect::<Vec<RunId>>()
    };
    let all = read(None).await;
    assert_eq!(all.len(), 6);
    assert!(!all.contains(&one.run) && !all.contains(&two.run), "live runs are not over");
    assert_eq!(read(Some(vec![one.workflow, two.workflow])).await, all);
    assert_eq!(read(Some(vec![two.workflow])).await.len(), 3);
    assert_eq!(read(Some(vec![])).await, []);
}

pub(crate) async fn an_inbox_is_read_in_parts_in_its_order(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    for (wake, urgent) in [(Wake::No, false), (Wake::Batched, false), (Wake::Batched, true)] {
        for _ in 0..2 {
            let mut message = delivered(wake, text("hello", &["a"]));
            message.priority = if urgent { Priority::High } else { Priority::Normal };
            team.post(message).await;
        }
    }
    let list = async |range| {
        store
            .inbox_pending(team.workflow, name("a"), range)
            .await
            .unwrap()
            .into_iter()
            .map(|mail| {
                let (seq, priority) = (mail.message.seq, mail.message.priority);
                InboxKey { wakes: mail.wakes, priority, seq }
            })
            .collect()
    };
    let mail = read_in_parts(list, |key| *key).await;
    assert_eq!(mail.iter().map(|key| key.seq).collect::<Vec<_>>(), seqs(&[5, 6, 3, 4, 1, 2]));
}

pub(crate) async fn a_channel_is_read_back_from_any_message(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    for number in 1..=7 {
        team.say(if number % 2 == 0 { "even" } else { "odd" }, &[]).await;
    }
    let read = async |before, search: Option<&str>| {
        let query = MessageQuery {
            run: None,
            after: seqs(&[1])[0],
            before,
            search: search.map(str::to_owned),
            to: None,
            order: MessageOrder::NewestFirst,
            limit: 2,
        };
        let messages = store.message_list(team.workflow, query).await.unwrap();
        messages.into_iter().map(|message| message.seq).collect::<Vec<_>>()
    };
    let before = |seq| Some(seqs(&[seq])[0]);
    assert_eq!(read(None, None).await, seqs(&[6, 7]));
    assert_eq!(read(before(6), None).await, seqs(&[4, 5]));
    assert_eq!(read(before(3), None).await, seqs(&[2]));
    assert_eq!(read(before(6), Some("ODD")).await, seqs(&[3, 5]));
    assert_eq!(read(before(3), Some("ODD")).await, []);
}

pub(crate) async fn the_messages_for_an_agent_are_read_in_parts_from_either_end(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b"]).await;
    for number in 1..=4 {
        team.say(&format!("for a {number}"), &["a"]).await;
        team.say("for b", &["b"]).await;
    }
    team.post(delivered(Wake::No, text("for a, in passing", &["a"]))).await;
    let read = async |order, after, before, search: Option<&str>| {
        let search = search.map(str::to_owned);
        let to = Some(name("A"));
        let query =
            MessageQuery { run: Some(team.run), after, before, search, to, order, limit: 2 };
        let messages = store.message_list(team.workflow, query).await.unwrap();
        messages.into_iter().map(|message| message.seq).collect::<Vec<_>>()
    };
    let seq = |seq| seqs(&[seq])[0];
    let (back, forward) = (MessageOrder::NewestFirst, MessageOrder::OldestFirst);
    for search in [None, Some("FOR")] {
        assert_eq!(read(back, seq(0), None, search).await, seqs(&[5, 7]));
        assert_eq!(read(back, seq(0), Some(seq(5)), search).await, seqs(&[1, 3]));
        assert_eq!(read(forward, seq(0), None, search).await, seqs(&[1, 3]));
        assert_eq!(read(forward, seq(3), None, search).await, seqs(&[5, 7]));
        assert_eq!(read(forward, seq(7), None, search).await, []);
    }
}

pub(crate) async fn runs_that_ended_since_a_time_are_listed(store: Arc<dyn Store>) {
    let mut teams = Vec::new();
    for seconds in 1..=3 {
        let team = Team::new(&store, &["a"]).await;
        let (step, now) = (end(Outcome::Done), NOW.plus(Duration::from_secs(seconds)));
        store.run_settle(team.run, Box::new(move |_| step.clone()), now).await.unwrap();
        teams.push(team);
    }
    let since = async |seconds| {
        let time = NOW.plus(Duration::from_secs(seconds)).store;
        let runs = store.run_list(RunQuery::EndedSince(time)).await.unwrap();
        runs.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(since(2).await, [teams[2].run, teams[1].run]);
    assert_eq!(since(4).await, []);
}
