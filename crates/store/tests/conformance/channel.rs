//! Messages and their total order.

use std::sync::Arc;

use agent_worker_protocol::{
    DeliveryState, LimitKind, Message, MessageKind, Millis, Outcome, PauseCause, Priority,
    ResourceId, RunState, Sender, Seq,
};
use agent_worker_store::{
    Error, LeaseOutcome, MessageOrder, MessageQuery, NewMessage, NewRun, Now, Once, Recipient,
    Retention, Store, Wake,
};
use tokio::task::JoinSet;

use crate::{
    rules::LEASE_RULE,
    team::{NOW, Team, attempt, client, delivered, end, name, new_run, seqs, text, user},
};

fn all() -> MessageQuery {
    let order = MessageOrder::OldestFirst;
    MessageQuery {
        run: None,
        after: Seq::new(0),
        before: None,
        search: None,
        to: None,
        order,
        limit: 1_000,
    }
}

async fn list(team: &Team, query: MessageQuery) -> Vec<Seq> {
    let messages = team.store.message_list(team.workflow, query).await.unwrap();
    messages.iter().map(|message| message.seq).collect()
}

pub(crate) async fn a_reader_sees_no_gap_while_eight_write(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let team = team.clone();
        writers.spawn(async move {
            for n in 0..100 {
                team.say(&format!("{writer}.{n}"), &["a", "b"]).await;
            }
        });
    }
    let mut seen: Vec<Seq> = Vec::new();
    while seen.len() < 800 {
        let after = seen.last().copied().unwrap_or_default();
        seen.extend(list(&team, MessageQuery { after, limit: 50, ..all() }).await);
    }
    writers.join_all().await;
    assert_eq!(seen, seqs(&(1..=800).collect::<Vec<_>>()));
    assert_eq!(store.instance_verify(team.workflow).await.unwrap(), Seq::new(800));
    assert_eq!(team.inbox("b").await.len(), 800);
}

pub(crate) async fn a_thread_is_a_message_and_whatever_replies_to_it(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let reply = async |to: i64| {
        let new = NewMessage { reply_to: Some(Seq::new(to)), ..text("so", &[]) };
        team.append(user(), new).await.unwrap().value()
    };
    team.say("one", &[]).await;
    team.say("two", &[]).await;
    for to in [1, 2, 3, 1, 5] {
        reply(to).await;
    }
    let thread = async |seq: i64, after: i64, limit: u32| {
        let (seq, after) = (Seq::new(seq), Seq::new(after));
        let read = team.store.message_thread(team.workflow, seq, after, limit).await?;
        Ok::<_, Error>(read.into_iter().map(|message| message.seq).collect::<Vec<_>>())
    };
    assert_eq!(thread(1, 0, 99).await.unwrap(), seqs(&[1, 3, 5, 6, 7]));
    assert_eq!(thread(1, 0, 2).await.unwrap(), seqs(&[1, 3]), "the oldest first");
    assert_eq!(thread(1, 3, 2).await.unwrap(), seqs(&[5, 6]), "and on from there");
    assert_eq!(thread(3, 0, 99).await.unwrap(), seqs(&[3, 5, 7]), "from the middle on");
    assert_eq!(thread(2, 0, 99).await.unwrap(), seqs(&[2, 4]));
    assert_eq!(thread(7, 0, 99).await.unwrap(), seqs(&[7]));
    let none = thread(8, 0, 99).await;
    assert!(matches!(none, Err(Error::NotFound("message"))), "{none:?}");
}

pub(crate) async fn a_message_comes_back_as_it_was_written(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let first = team.say("first", &[]).await;
    let resource = Some(ResourceId::new([7; 32]));
    let new = NewMessage {
        kind: MessageKind::System,
        body: "zweite Nachricht: 请@a看".into(),
        data: vec![0..6, 8..9],
        reply_to: Some(first),
        hops: 3,
        priority: Priority::High,
        resource,
        recipients: vec![
            Recipient { agent: name("b"), wake: Wake::No },
            Recipient { agent: name("a"), wake: Wake::Batched },
        ],
        attachments: Vec::new(),
    };
    let seq = team.append(client("ci"), new).await.unwrap().value();
    let query = MessageQuery { after: first, ..all() };
    let expected = Message {
        seq,
        run: team.run,
        ts: NOW.wall,
        from: Sender::Client("ci".into()),
        kind: MessageKind::System,
        body: "zweite Nachricht: 请@a看".into(),
        acts_on: Vec::new(),
        reply_to: Some(first),
        hops: 3,
        priority: Priority::High,
        to: vec![name("a")],
        cc: vec![name("b")],
        resource,
        attachments: Vec::new(),
    };
    assert_eq!(store.message_list(team.workflow, query).await.unwrap(), [expected]);
    assert_eq!(store.instance_verify(team.workflow).await.unwrap(), seq);
}

pub(crate) async fn a_message_reaches_each_recipient_once(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["Coder", "reviewer"]).await;
    let mut message = delivered(Wake::No, text("go", &["coder", "reviewer"]));
    message.recipients.push(Recipient { agent: name("CODER"), wake: Wake::Alone });
    let seq = team.post(message).await;
    let receipts = store.message_receipts(team.workflow, seq).await.unwrap();
    let names: Vec<_> = receipts.iter().map(|receipt| receipt.agent.to_string()).collect();
    assert_eq!(names, ["Coder", "reviewer"]);
    assert!(receipts.iter().all(|receipt| receipt.state == DeliveryState::Pending));
    assert!(team.try_lease("reviewer").await.is_none());
    assert_eq!(team.lease("cODER").await.fence.agent.as_str(), "Coder");
}

pub(crate) async fn a_message_with_an_unknown_recipient_is_refused_whole(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let refused = team.append(user(), text("go", &["a", "ghost"])).await;
    assert!(matches!(refused, Err(Error::NotFound("agent"))), "{refused:?}");
    assert_eq!(list(&team, all()).await, []);
    assert_eq!(team.inbox("a").await, []);
    assert_eq!(team.say("go", &["a"]).await, Seq::new(1));
}

pub(crate) async fn without_a_live_run_no_message_can_be_sent(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    team.settle(end(agent_worker_protocol::Outcome::Done)).await;
    assert!(matches!(team.append(user(), text("hi", &[])).await, Err(Error::NoRun)));
    let instance = "elsewhere".parse().unwrap();
    let fresh = store.instance_open("/p".into(), instance).await.unwrap();
    let refused = store.message_append(user(), fresh, text("hi", &[]), None, NOW).await;
    assert!(matches!(refused, Err(Error::NoRun)));
}

pub(crate) async fn a_channel_is_read_from_either_end(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    for body in ["one", "two", "three", "four"] {
        team.say(body, &[]).await;
    }
    let newest = MessageQuery { order: MessageOrder::NewestFirst, limit: 2, ..all() };
    assert_eq!(list(&team, newest.clone()).await, seqs(&[3, 4]));
    assert_eq!(list(&team, MessageQuery { after: Seq::new(3), ..newest }).await, seqs(&[4]));
    assert_eq!(list(&team, MessageQuery { limit: 2, ..all() }).await, seqs(&[1, 2]));
}

pub(crate) async fn a_time_has_a_position_in_the_channel(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let base = NOW.wall.get();
    let append_at = async |offset: i64| {
        let now = Now { wall: Millis::new(base + offset), ..NOW };
        let message = text("so", &[]);
        store.message_append(user(), team.workflow, message, None, now).await.unwrap();
    };
    let position = async |offset: i64| {
        let time = Millis::new(base + offset);
        store.message_position(team.workflow, time).await.unwrap().get()
    };
    assert_eq!(position(0).await, 0, "an empty channel");
    for offset in [10, 20, 20, 30, 40] {
        append_at(offset).await;
    }
    for (offset, expected) in
        [(-5, 0), (9, 0), (10, 1), (19, 1), (20, 3), (25, 3), (39, 4), (40, 5), (99, 5)]
    {
        assert_eq!(position(offset).await, expected, "after {offset}");
    }
    // The clock is set back: each position is a place where the channel passes the time.
    append_at(15).await;
    append_at(50).await;
    let times = [10, 20, 20, 30, 40, 15, 50];
    for offset in 0..60 {
        let at = usize::try_from(position(offset).await).unwrap();
        let is_later = |time: &i64| *time > offset;
        assert!(at == 0 || !is_later(&times[at - 1]), "before the position of {offset}");
        assert!(times.get(at).is_none_or(is_later), "after the position of {offset}");
    }
}

pub(crate) async fn a_channel_is_read_by_run_and_by_text(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    for body in ["Deploy now", "100% of a_b", "deployed"] {
        team.say(body, &[]).await;
    }
    let first = team.run;
    team.settle(end(agent_worker_protocol::Outcome::Done)).await;
    team.start(new_run(&["a"])).await;
    team.say("deploy again", &[]).await;
    let found = async |text: &str, run| {
        let search = Some(text.to_owned());
        list(&team, MessageQuery { search, run, order: MessageOrder::NewestFirst, ..all() }).await
    };
    assert_eq!(found("DEPLOY", None).await, seqs(&[1, 3, 4]));
    assert_eq!(found("deploy", Some(first)).await, seqs(&[1, 3]));
    assert_eq!(found("deploy", Some(team.run)).await, seqs(&[4]));
    assert_eq!(found("0% of a_", None).await, seqs(&[2]));
    assert_eq!(found("a%b", None).await, []);
    assert_eq!(list(&team, MessageQuery { run: Some(first), ..all() }).await, seqs(&[1, 2, 3]));
}

pub(crate) async fn a_text_is_found_whatever_its_letters_and_however_short(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    for body in [
        "Fix the LEXER",
        "请看这个文件",
        "Größe ÄNDERN",
        "say \"quoted\" AND (x OR y*)",
        "ab",
        "end\0of text",
    ] {
        team.say(body, &[]).await;
    }
    let find = async |text: &str| {
        list(&team, MessageQuery { search: Some(text.to_owned()), ..all() }).await
    };
    // Found by a scan, by the index alone, and by both.
    for round in ["unprepared", "prepared", "half prepared"] {
        for (text, expected) in [
            ("lexer", &[1][..]),
            ("x the l", &[1]),
            ("看这", &[2]),
            ("这个文", &[2]),
            ("gRÖSSe", &[]),
            ("größe ä", &[3]),
            ("ÄN", &[3]),
            ("\"quoted\" and", &[4]),
            ("\"", &[4]),
            ("y*)", &[4]),
            ("x OR z", &[]),
            ("lexer OR", &[]),
            ("AB", &[5]),
            ("d\0of", &[6]),
            ("d\0ox", &[]),
            ("f text", &[6]),
            ("%e%", &[]),
        ] {
            assert_eq!(find(text).await, seqs(expected), "{text:?} {round}");
        }
        if round == "unprepared" {
            while store.message_index(4).await.unwrap() {}
        } else {
            team.say("later", &[]).await;
        }
    }
}

pub(crate) async fn a_search_goes_from_either_end_and_stops_at_its_limit(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    for n in 0..40 {
        team.say(&format!("needle {n}"), &[]).await;
        team.say("hay", &[]).await;
        if n == 20 {
            while store.message_index(7).await.unwrap() {}
        }
    }
    let find = async |order, after: i64, limit| {
        let search = Some("NEEDLE".to_owned());
        let query = MessageQuery {
            search,
            to: None,
            order,
            after: Seq::new(after),
            before: None,
            limit,
            run: None,
        };
        let found = list(&team, query).await;
        (found.len(), found[0].get(), found[found.len() - 1].get())
    };
    assert_eq!(find(MessageOrder::NewestFirst, 0, 99).await, (40, 1, 79));
    assert_eq!(find(MessageOrder::NewestFirst, 0, 30).await, (30, 21, 79));
    assert_eq!(find(MessageOrder::NewestFirst, 0, 3).await, (3, 75, 79));
    assert_eq!(find(MessageOrder::OldestFirst, 0, 3).await, (3, 1, 5));
    assert_eq!(find(MessageOrder::OldestFirst, 1, 30).await, (30, 3, 61));
    assert_eq!(find(MessageOrder::OldestFirst, 43, 2).await, (2, 45, 47));
}

pub(crate) async fn what_was_forgotten_is_not_found(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    let other = Team::new(&store, &["a"]).await;
    other.say("needle elsewhere", &[]).await;
    team.settle(end(Outcome::Done)).await;
    team.start(NewRun { retention: Retention::WhileLive, ..new_run(&["a"]) }).await;
    team.say("needle", &[]).await;
    assert!(!store.message_index(99).await.unwrap());
    let find = async |team: &Team| {
        list(team, MessageQuery { search: Some("needle".into()), ..all() }).await
    };
    assert_eq!(find(&team).await, seqs(&[1]));
    team.settle(end(Outcome::Done)).await;
    store.instance_forget(team.workflow).await.unwrap();
    assert_eq!(find(&team).await, []);
    // A forgotten message also uses no part of the limit.
    team.start(new_run(&["a"])).await;
    team.say("another needle", &[]).await;
    let first = MessageQuery { search: Some("needle".into()), limit: 1, ..all() };
    assert_eq!(list(&team, first).await, seqs(&[2]));
    team.settle(end(Outcome::Done)).await;
    store.instance_remove(team.workflow).await.unwrap();
    assert_eq!(find(&other).await, seqs(&[1]));
}

pub(crate) async fn a_message_over_a_limit_is_stored_and_its_run_paused_in_one_step(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a"]).await;
    let cause = PauseCause::limit(LimitKind::Hops, "51 of 50".to_owned());
    let sent = store
        .message_append(user(), team.workflow, text("go", &["a"]), Some(cause.clone()), NOW)
        .await
        .unwrap();
    assert_eq!(sent, Once::New(Seq::new(1)));
    assert_eq!(store.run_get(team.run).await.unwrap().state, RunState::Paused { cause });
    let leased =
        store.attempt_lease(team.workflow, name("a"), attempt(), LEASE_RULE, NOW).await.unwrap();
    assert!(matches!(leased, LeaseOutcome::NotReady));
    assert_eq!(team.kinds().await, ["run.setup", "run.running", "message", "run.paused"]);
}
