//! Answers to a sender's messages.

use std::sync::Arc;

use agent_worker_protocol::{DeliveryState, MessageKind, Seq};
use agent_worker_store::{MessageOrder, MessageQuery, NewMessage, Settlement, Store};

use crate::team::{Team, agent, answered, crashed, name, ok, text};

async fn answer(team: &Team, seq: Seq) -> Option<String> {
    team.store.message_receipts(team.workflow, seq).await.unwrap().remove(0).answer
}

pub(crate) async fn the_answer_is_the_final_text_of_the_attempt_that_acted(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let (first, second) = (team.say("one", &["a"]).await, team.say("two", &["a"]).await);
    let lease = team.lease("a").await;
    assert_eq!(answer(&team, first).await, None);
    let finished = team.finish(&lease, answered("both done")).await;
    assert_eq!(finished.acted, [first, second]);
    for seq in [first, second] {
        assert_eq!(answer(&team, seq).await.as_deref(), Some("both done"));
    }
    let query = MessageQuery {
        run: None,
        after: second,
        search: None,
        order: MessageOrder::OldestFirst,
        limit: 9,
    };
    let [said] = &team.store.message_list(team.workflow, query).await.unwrap()[..] else {
        panic!("one message was expected");
    };
    assert_eq!((said.kind, &said.from.to_string()), (MessageKind::Answer, &"a".to_owned()));
    assert_eq!((Some(said.seq), &said.to), (finished.answer, &vec![]));
}

pub(crate) async fn without_a_final_text_the_answer_is_what_was_replied(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let seq = team.say("well?", &["a"]).await;
    let lease = team.lease("a").await;
    for body in ["wait", "done"] {
        let reply = NewMessage { reply_to: Some(seq), ..text(body, &[]) };
        team.append(agent(&lease), reply).await.unwrap();
    }
    let elsewhere = NewMessage { reply_to: Some(seq), ..text("not from a", &[]) };
    team.post(elsewhere).await;
    assert_eq!(answer(&team, seq).await, None);
    team.finish(&lease, ok()).await;
    assert_eq!(answer(&team, seq).await.as_deref(), Some("done"));
}

pub(crate) async fn an_answer_of_an_attempt_that_failed_is_not_written(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let seq = team.say("well?", &["a"]).await;
    let lease = team.lease("a").await;
    let finished =
        team.finish(&lease, Settlement { answer: Some(text("half", &[])), ..crashed() }).await;
    assert_eq!((finished.answer, finished.pending), (None, vec![seq]));
    assert_eq!(team.state(seq, "a").await, DeliveryState::Pending);
    assert_eq!(team.inbox(name("a").as_str()).await, [seq]);
}
