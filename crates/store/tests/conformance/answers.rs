//! Answers to a sender's messages.

use std::sync::{Arc, Mutex};

use agent_worker_protocol::{
    DeliveryState, EventBody, EventKind, LimitKind, MessageKind, Outcome, PauseCause, Role,
    RunState, Sender, Seq, VerdictOutcome,
    api::{TeamVerdict, UnheardMention},
};
use agent_worker_store::{
    AnswerDraft, AnswerFacts, AnswerRule, AnswerStep, Error, FinishedAttempt, Lease, MessageOrder,
    MessageQuery, NewMessage, NewRun, NewVerdict, Once, Settlement, Store, UnheardAgent, Wake,
    WakingMessage,
};

use crate::team::{
    NOW, Team, agent, answered, crashed, delivered, end, keyed, name, new_run, ok, shown, text,
    user,
};

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
        before: None,
        search: None,
        to: None,
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
    let finished = team
        .finish(&lease, Settlement { answer: Some(text("half", &[]).into()), ..crashed() })
        .await;
    assert_eq!((finished.answer, finished.pending), (None, vec![seq]));
    assert_eq!(team.state(seq, "a").await, DeliveryState::Pending);
    assert_eq!(team.inbox(name("a").as_str()).await, [seq]);
}

/// Settles an attempt with an answer whose rule returns `step`, and returns the facts that the rule got.
async fn answer_with(
    team: &Team,
    lease: &Lease,
    step: AnswerStep,
) -> (FinishedAttempt, AnswerFacts) {
    let seen = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&seen);
    let rule: AnswerRule = Arc::new(move |facts: &AnswerFacts| {
        *slot.lock().unwrap() = Some(facts.clone());
        step.clone()
    });
    let draft = AnswerDraft { message: text("@b next", &[]), rule: Some(rule) };
    let finished = team.finish(lease, Settlement { answer: Some(draft), ..ok() }).await;
    let facts = seen.lock().unwrap().take().unwrap();
    (finished, facts)
}

pub(crate) async fn an_answer_is_delivered_to_the_recipients_that_the_rule_decides(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b", "c"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    let cause = Some("a gate is closed".to_owned());
    let unheard = vec![UnheardAgent { agent: name("c"), cause }];
    let step = AnswerStep { recipients: vec![name("b")], unheard, ..AnswerStep::default() };
    let (finished, facts) = answer_with(&team, &lease, step).await;
    assert_eq!(facts.team, [name("a"), name("b"), name("c")]);
    assert_eq!(facts.messaged, []);
    let user = WakingMessage { from: Sender::User, kind: MessageKind::Message };
    assert_eq!(facts.woken_by, [user]);
    let seq = finished.answer.unwrap();
    assert_eq!(team.inbox("b").await, [seq]);
    assert_eq!(team.facts().await.waking, 1, "the run does not end before b has acted");
    let snapshot = team.store.run_snapshot(team.run).await.unwrap();
    let cause = Some("a gate is closed".to_owned());
    let unheard = UnheardMention { seq, from: name("a"), agent: name("c"), cause };
    assert_eq!(snapshot.unheard, [unheard]);
    let lease = team.lease("b").await;
    let (_, facts) = answer_with(&team, &lease, AnswerStep::default()).await;
    let answer = WakingMessage { from: Sender::Agent(name("a")), kind: MessageKind::Answer };
    assert_eq!(facts.woken_by, [answer]);
}

pub(crate) async fn an_answer_beyond_a_limit_is_stored_and_pauses_the_run(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    let pause = Some(PauseCause::limit(LimitKind::Hops, "51 of 50".to_owned()));
    let step = AnswerStep { recipients: vec![name("b")], pause, ..AnswerStep::default() };
    let (finished, _) = answer_with(&team, &lease, step).await;
    assert_eq!(team.inbox("b").await, [finished.answer.unwrap()]);
    assert!(matches!(team.facts().await.state, RunState::Paused { .. }));
    assert!(team.try_lease("b").await.is_none());
}

pub(crate) async fn the_agents_that_an_activation_messaged_are_known_at_its_end(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b", "c", "d"]).await;
    team.say("first", &["a"]).await;
    let lease = team.lease("a").await;
    team.append(agent(&lease), text("of another turn", &["d"])).await.unwrap();
    team.finish(&lease, ok()).await;
    team.say("second", &["a"]).await;
    let lease = team.lease("a").await;
    team.append(agent(&lease), text("of an earlier attempt", &["b"])).await.unwrap();
    team.finish(&lease, crashed()).await;
    team.say("from the user", &["d"]).await;
    let lease = team.lease("a").await;
    let read_along = delivered(Wake::No, text("fyi", &["d"]));
    team.append(agent(&lease), read_along).await.unwrap();
    team.append(agent(&lease), text("of this attempt", &["c"])).await.unwrap();
    let (_, facts) = answer_with(&team, &lease, AnswerStep::default()).await;
    assert_eq!(facts.messaged, [name("b"), name("c")]);
}

pub(crate) async fn agents_that_an_earlier_attempt_with_the_same_message_messaged_are_known(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b", "c"]).await;
    let (first, second) = (team.say("one", &["a"]).await, team.say("two", &["a"]).await);
    let lease = team.lease("a").await;
    assert_eq!(shown(&lease), [first, second]);
    team.append(agent(&lease), text("for both", &["b"])).await.unwrap();
    team.finish(&lease, crashed()).await;
    // After a counted failure each message gets an attempt of its own.
    let lease = team.lease("a").await;
    assert_eq!(shown(&lease), [first]);
    team.append(agent(&lease), text("for the first", &["c"])).await.unwrap();
    let (_, facts) = answer_with(&team, &lease, AnswerStep::default()).await;
    assert_eq!(facts.messaged, [name("b"), name("c")]);
    let lease = team.lease("a").await;
    assert_eq!(shown(&lease), [second]);
    let (_, facts) = answer_with(&team, &lease, AnswerStep::default()).await;
    assert_eq!(facts.messaged, [name("b")], "the second attempt was not shown this message");
}

pub(crate) async fn an_answer_is_linked_to_the_messages_that_its_turn_acted_on(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b"]).await;
    let (first, second) = (team.say("one", &["a"]).await, team.say("two", &["a"]).await);
    let fyi = team.post(delivered(Wake::No, text("by the way", &["a"]))).await;
    let other = team.say("for b", &["b"]).await;
    let lease = team.lease("a").await;
    let answer = team.finish(&lease, answered("both done")).await.answer.unwrap();
    let message = |seq: Seq| {
        let query = MessageQuery {
            run: None,
            after: Seq::new(seq.get() - 1),
            before: None,
            search: None,
            to: None,
            order: MessageOrder::OldestFirst,
            limit: 1,
        };
        let (store, workflow) = (Arc::clone(&team.store), team.workflow);
        async move { store.message_list(workflow, query).await.unwrap().remove(0) }
    };
    let linked = message(answer).await;
    assert_eq!((linked.reply_to, &linked.acts_on), (Some(first), &vec![first, second, fyi]));
    assert_eq!(message(first).await.acts_on, []);
    let events = team.events().await.into_iter();
    let messages = events.filter_map(|event| match event.body {
        EventBody::Message(message) if message.seq == answer => Some(message.acts_on),
        _ => None,
    });
    assert_eq!(messages.collect::<Vec<_>>(), [vec![first, second, fyi]]);
    let thanks = team.post(NewMessage { reply_to: Some(answer), ..text("thanks", &[]) }).await;
    for question in [first, second, fyi] {
        let (none, all) = (Seq::new(0), 99);
        let thread = team.store.message_thread(team.workflow, question, none, all).await.unwrap();
        let seqs: Vec<Seq> = thread.iter().map(|message| message.seq).collect();
        assert_eq!(seqs, [question, answer, thanks]);
    }
    let thread = team.store.message_thread(team.workflow, other, Seq::new(0), 99).await.unwrap();
    assert_eq!(thread.len(), 1);
    team.store.instance_verify(team.workflow).await.unwrap();
}

pub(crate) async fn the_newest_answer_of_each_agent_belongs_to_its_run(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a", "b"]).await;
    for said in ["one", "two"] {
        team.say("go", &["a"]).await;
        let lease = team.lease("a").await;
        team.finish(&lease, answered(said)).await;
    }
    team.say("go", &["b"]).await;
    let lease = team.lease("b").await;
    team.finish(&lease, ok()).await;
    let answers = async |run| {
        let found = store.run_snapshot(run).await.unwrap().answers;
        let seqs = found.iter().map(|(_, seq)| *seq).collect();
        let texts = store.message_get(team.workflow, seqs).await.unwrap();
        let names = found.into_iter().map(|(agent, _)| agent.to_string());
        names.zip(texts.into_iter().map(|message| message.body)).collect::<Vec<_>>()
    };
    let first = team.run;
    assert_eq!(answers(first).await, [("a".to_owned(), "two".to_owned())]);
    team.settle(end(Outcome::Done)).await;
    team.start(new_run(&["a", "b"])).await;
    assert_eq!(store.run_snapshot(team.run).await.unwrap().answers, []);
    assert_eq!(store.run_snapshot(first).await.unwrap().answers.len(), 1, "a run keeps its own");
    store.instance_clear(user(), team.workflow, NOW).await.unwrap();
    assert_eq!(store.run_snapshot(first).await.unwrap().answers, [], "cleared messages are hidden");
}

async fn set_verdict(
    team: &Team,
    lease: &Lease,
    outcome: VerdictOutcome,
    summary: &str,
) -> Result<Once<TeamVerdict>, Error> {
    let new = NewVerdict { outcome, summary: summary.to_owned() };
    team.store.verdict_set(agent(lease), team.workflow, new, NOW).await
}

pub(crate) async fn the_coordinator_and_the_finisher_set_a_verdict_that_never_becomes_better(
    store: Arc<dyn Store>,
) {
    let mut team = Team::new(&store, &["a", "b", "c"]).await;
    team.settle(end(Outcome::Done)).await;
    let roles = vec![(Role::Finisher, name("a")), (Role::Coordinator, name("b"))];
    team.start(NewRun { roles, ..new_run(&["a", "b", "c"]) }).await;
    team.say("go", &["a", "b", "c"]).await;
    let [a, b, c] = [team.lease("a").await, team.lease("b").await, team.lease("c").await];
    let refused = set_verdict(&team, &c, VerdictOutcome::Done, "no").await.unwrap_err();
    assert_eq!(refused.to_string(), "only `a` or `b` may set the verdict of this run");
    assert_eq!(store.run_snapshot(team.run).await.unwrap().verdict, None);
    set_verdict(&team, &a, VerdictOutcome::Done, "fine").await.unwrap();
    set_verdict(&team, &b, VerdictOutcome::Failed, "broken").await.unwrap();
    let better = set_verdict(&team, &a, VerdictOutcome::Done, "fine after all").await;
    assert!(matches!(better, Err(Error::VerdictFixed(by)) if by == name("b")));
    set_verdict(&team, &a, VerdictOutcome::Failed, "broken for good").await.unwrap();
    let new = || NewVerdict { outcome: VerdictOutcome::Failed, summary: "once".to_owned() };
    let by = || keyed(agent(&a), "k", "once");
    let first = store.verdict_set(by(), team.workflow, new(), NOW).await.unwrap();
    let again = store.verdict_set(by(), team.workflow, new(), NOW).await.unwrap();
    assert!(!first.is_deduplicated() && again.is_deduplicated());
    let verdict = store.run_snapshot(team.run).await.unwrap().verdict;
    let expected =
        TeamVerdict { outcome: VerdictOutcome::Failed, summary: "once".into(), by: name("a") };
    assert_eq!(verdict, Some(expected));
    let events = team.events().await;
    let told = events.iter().filter(|event| event.kind() == Some(EventKind::RunVerdict));
    let told: Vec<_> = told.map(|event| event.data()["summary"].clone()).collect();
    assert_eq!(told, ["fine", "broken", "broken for good", "once"]);
    team.finish(&a, ok()).await;
    let late = set_verdict(&team, &a, VerdictOutcome::Failed, "late").await;
    assert!(matches!(late, Err(Error::Fenced)), "{late:?}");
    team.finish(&b, ok()).await;
    team.finish(&c, ok()).await;
    team.settle(end(Outcome::Done)).await;
    team.start(new_run(&["a"])).await;
    assert_eq!(store.run_snapshot(team.run).await.unwrap().verdict, None, "a new run has none");
}
