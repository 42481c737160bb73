//! Tests of final answers: a hand-off wakes its agent in the transaction that ends the turn, and other mentions are
//! recorded.

use std::time::Duration;

use agent_worker_protocol::{
    AgentName, DeliveryState, EventKind, FailureClass, Message, MessageKind, Outcome, PauseCause,
    Priority, RunId, RunState,
    api::{ProposalRequest, RunView, SendRequest},
};

use crate::{
    agent_join::{global_run, mock_agent_request, new_agent, send_to},
    scripted_worker::{ScriptEnd, ScriptGate},
    world::{KernelWorld, send_request, team, within},
};

const DONE: RunState = RunState::Ended { outcome: Outcome::Done };

/// Sets agents that end each turn with the same answer.
fn answering(world: &KernelWorld, answers: &[(&str, &'static str)]) {
    for (agent, answer) in answers {
        let answer = *answer;
        world.machine.set_worker_script(agent, move |_| async move { ScriptEnd::done(answer) });
    }
}

/// Returns the answers as `seq from → to: body`.
async fn answers(world: &KernelWorld) -> Vec<String> {
    let channel = world.channel().await.into_iter();
    channel.filter(|message| message.kind == MessageKind::Answer).map(|m| answer_text(&m)).collect()
}

fn answer_text(message: &Message) -> String {
    let Message { seq, from, body, to, .. } = message;
    let to = to.iter().map(AgentName::as_str).collect::<Vec<_>>().join(" ");
    format!("#{seq} {from} → {to}: {body}")
}

/// Returns the unheard mentions of a run as `seq from agent`.
fn unheard(view: &RunView) -> Vec<String> {
    let mentions = view.unheard.iter();
    mentions.map(|mention| format!("#{} {} {}", mention.seq, mention.from, mention.agent)).collect()
}

async fn run_to_end(world: &KernelWorld, agents: &str, rest: &str) -> (RunId, RunView) {
    let run = world.run(&team(agents, rest)).await;
    (run, world.wait_until_ended(run).await)
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_in_an_answer_wakes_its_agent() {
    let world = KernelWorld::new().await;
    answering(&world, &[("a", "Line 42 is wrong.\n\n@b please fix line 42"), ("b", "Fixed.")]);
    let (_, view) = run_to_end(&world, "a b c", "kickoff: '@a review it'").await;
    assert_eq!((view.state.clone(), view.turns), (DONE, 2));
    assert_eq!(
        answers(&world).await,
        ["#2 a → b: Line 42 is wrong.\n\n@b please fix line 42", "#3 b → : Fixed."]
    );
    assert_eq!(unheard(&view), [""; 0]);
    let hops: Vec<_> = world.channel().await.iter().map(|message| message.hops).collect();
    assert_eq!(hops, [0, 1, 2]);
    let [receipt] = &world.receipts(2).await[..] else { panic!("one delivery was expected") };
    assert_eq!((receipt.state, receipt.answer.as_deref()), (DeliveryState::Acted, Some("Fixed.")));
}

#[tokio::test(start_paused = true)]
async fn a_mention_that_is_no_hand_off_is_recorded() {
    let world = KernelWorld::new().await;
    answering(&world, &[("a", "I fixed it; @b and @c may look.")]);
    let (run, view) = run_to_end(&world, "a b c", "kickoff: '@a fix it'").await;
    assert_eq!((view.state.clone(), view.turns), (DONE, 1));
    assert_eq!(unheard(&view), ["#2 a b", "#2 a c"]);
    let story = world.events_of(run).await;
    let events = story.iter().filter(|event| event.kind() == Some(EventKind::MentionUnheard));
    let events: Vec<_> =
        events.map(|event| (event.agent.clone(), event.data().into_owned())).collect();
    let a: Option<AgentName> = Some("a".parse().unwrap());
    assert_eq!(
        events,
        [
            (a.clone(), serde_json::json!({"seq": 2, "agent": "b"})),
            (a, serde_json::json!({"seq": 2, "agent": "c"})),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_records_answers_delivers_none() {
    let world = KernelWorld::new().await;
    answering(&world, &[("a", "@b please fix line 42")]);
    let (_, view) = run_to_end(&world, "a b", "answers: record\nkickoff: '@a go'").await;
    assert_eq!((view.state.clone(), view.turns), (DONE, 1));
    assert_eq!(unheard(&view), ["#2 a b"]);
}

#[tokio::test(start_paused = true)]
async fn agents_that_share_nothing_do_not_get_answers() {
    let world = KernelWorld::new().await;
    answering(&world, &[("a", "@b please fix line 42")]);
    let (_, view) = run_to_end(&world, "a b", "context: false\nkickoff: '@a go'").await;
    assert_eq!((view.turns, unheard(&view)), (1, vec!["#2 a b".to_owned()]));
}

/// Returns the causes of the unheard mentions of a run.
async fn unheard_causes(world: &KernelWorld, run: RunId) -> Vec<Option<String>> {
    let story = world.events_of(run).await.into_iter();
    let events = story.filter(|event| event.kind() == Some(EventKind::MentionUnheard));
    events.map(|event| event.cause).collect()
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_not_pass_a_closed_gate_of_channel_send() {
    let world = KernelWorld::new().await;
    answering(&world, &[("a", "@b please fix; ask @c"), ("b", "Fixed.")]);
    let file = "agents:\n  a: { backend: mock, requires: { channel_send: release } }\n  \
        b: { backend: mock }\n  c: { backend: mock }\n\
        gates: { release: { electorate: [user], rule: unanimous } }\n";
    let run = world.start(file).await;
    world.send_to_team("@a go").await;
    world.pass_time(Duration::from_mins(1)).await;
    assert_eq!(answers(&world).await, ["#2 a → : @b please fix; ask @c"]);
    assert_eq!(unheard(&world.view(run).await), ["#2 a b", "#2 a c"]);
    let gate = ProposalRequest {
        title: "Release it?".into(),
        gate: Some("release".into()),
        binding: true,
        ..ProposalRequest::default()
    };
    world.propose(gate).await.unwrap();
    world.vote(1, "approve").await.unwrap();
    world.send_to_team("@a go").await;
    world.pass_time(Duration::from_mins(1)).await;
    let delivered = answers(&world).await;
    assert!(delivered.iter().any(|answer| answer.contains(" a → b: ")), "{delivered:?}");
    world.stop(run).await.unwrap();
    let closed = "`channel_send` is blocked: the gate `release` is closed".to_owned();
    assert_eq!(unheard_causes(&world, run).await, [Some(closed), None, None], "only b got work");
}

#[tokio::test(start_paused = true)]
async fn the_prompt_of_an_agent_that_may_not_send_says_that_its_answer_wakes_no_agent() {
    let world = KernelWorld::new().await;
    for agent in ["a", "b"] {
        world.machine.set_worker_script(agent, |worker| async move {
            let says = worker.job.system_prompt.contains("your answer and wakes no agent");
            ScriptEnd::done(if says { "wakes none" } else { "delivered" })
        });
    }
    let file = "agents:\n  a: { backend: mock, requires: { channel_send: release } }\n  \
        b: { backend: mock }\nkickoff: '@a @b go'\n";
    let run = world.run(file).await;
    world.wait_until_ended(run).await;
    let mut found: Vec<_> = answers(&world).await.iter().map(|one| one[3..].to_owned()).collect();
    found.sort();
    assert_eq!(found, ["a → : wakes none", "b → : delivered"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_hands_work_to_two_agents_has_high_priority() {
    let world = KernelWorld::new().await;
    answering(&world, &[("a", "@b @c please coordinate"), ("b", "@c done"), ("c", "@all done")]);
    run_to_end(&world, "a b c", "kickoff: '@a go'").await;
    let channel = world.channel().await.into_iter();
    let found: Vec<_> = channel.map(|message| (message.to.len(), message.priority)).collect();
    let (normal, high) = (Priority::Normal, Priority::High);
    assert_eq!(found[..2], [(1, normal), (2, high)]);
    assert!(found[2..].iter().all(|(to, priority)| *to < 2 && *priority == normal), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_ten_megabytes_of_mentions_is_settled() {
    let world = KernelWorld::new().await;
    let answer = "@all ".repeat(2_000_000) + "\n\n@b3 look";
    world.machine.set_worker_script("a", move |_| {
        let answer = answer.clone();
        async move { ScriptEnd::done(&answer) }
    });
    let others: Vec<_> = (0..60).map(|number| format!("b{number}")).collect();
    let agents = format!("a {}", others.join(" "));
    let (_, view) = run_to_end(&world, &agents, "kickoff: '@a go'").await;
    assert_eq!((view.state.clone(), view.turns, view.unheard.len()), (DONE, 1, 20));
    assert!(unheard(&view).contains(&"#2 a b3".to_owned()), "{:?}", unheard(&view));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_the_turn_messaged_does_not_get_the_answer_too() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("a", |worker| async move {
        worker.send("@b fix line 42").await.unwrap();
        let cc = vec!["c".parse().unwrap()];
        worker.send_as(SendRequest { cc, ..send_request(None, "@b see") }).await.unwrap();
        ScriptEnd::done("@b fix line 42\n\n@c test it")
    });
    let (_, view) = run_to_end(&world, "a b c", "kickoff: '@a go'").await;
    let sent = answers(&world).await;
    assert_eq!(sent, ["#4 a → c: @b fix line 42\n\n@c test it"], "`cc` wakes no agent");
    assert_eq!(unheard(&view), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_an_earlier_turn_does_not_count_and_one_of_an_earlier_attempt_does() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("a", |worker| async move {
        match (worker.job.woken_by.as_str(), worker.nth) {
            ("@a first", _) => {
                worker.send("@b one").await.unwrap();
                ScriptEnd::quiet()
            }
            ("@a second", _) => ScriptEnd::done("@b two"),
            (_, 3) => {
                worker.send("@b three").await.unwrap();
                ScriptEnd::fails(FailureClass::Fatal)
            }
            _ => ScriptEnd::done("@b three"),
        }
    });
    let run = world.start(&team("a b", "kickoff: '@a first'")).await;
    for (message, turns) in [("@a second", 4), ("@a third", 7)] {
        world.pass_time(Duration::from_mins(10)).await;
        world.send_to_team(message).await;
        world.pass_time(Duration::from_mins(10)).await;
        assert_eq!(world.view(run).await.turns, turns, "{message}");
    }
    assert_eq!(answers(&world).await, ["#4 a → b: @b two", "#7 a → : @b three"]);
    assert_eq!(unheard(&world.view(run).await), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn two_agents_that_thank_each_other_stop() {
    let world = KernelWorld::new().await;
    answering(&world, &[("a", "@b thanks"), ("b", "@a thanks")]);
    let (_, view) = run_to_end(&world, "a b", "kickoff: '@a go'").await;
    assert_eq!((view.state.clone(), view.turns), (DONE, 2));
    assert_eq!(answers(&world).await, ["#2 a → b: @b thanks", "#3 b → : @a thanks"]);
    assert_eq!(unheard(&view), ["#3 b a"]);
    let cause = "an answer of a woke this turn, so the conversation ends";
    assert_eq!(view.unheard[0].cause.as_deref(), Some(cause));
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_to_a_misspelt_agent_is_unheard_with_a_suggestion() {
    let world = KernelWorld::new().await;
    answering(&world, &[("lead", "@codr please fix line 42")]);
    let (_, view) = run_to_end(&world, "lead coder", "kickoff: '@lead go'").await;
    assert_eq!((view.state.clone(), unheard(&view)), (DONE, vec!["#2 lead codr".to_owned()]));
    let cause = "there is no agent codr; did you mean coder?";
    assert_eq!(view.unheard[0].cause.as_deref(), Some(cause));
}

#[tokio::test(start_paused = true)]
async fn three_agents_that_answer_in_a_circle_pause_at_the_hop_limit() {
    let world = KernelWorld::new().await;
    answering(&world, &[("a", "@b next"), ("b", "@c next"), ("c", "@a next")]);
    let run = world.run(&team("a b c", "limits: { hops: 4 }\nkickoff: '@a go'")).await;
    let paused = world.wait_until_paused(run).await;
    assert_eq!(paused.data()["cause"]["limit"], "hops");
    within(world.machine.wait_until_empty()).await;
    let channel = world.channel().await;
    let last = channel.last().unwrap();
    assert_eq!((last.hops, answer_text(last).as_str()), (5, "#6 b → c: @c next"));
    assert_eq!(world.receipts(6).await[0].state, DeliveryState::Pending, "stored and not leased");
    assert_eq!(world.view(run).await.turns, 5);
    let cause = world.view(run).await.state;
    assert!(matches!(cause, RunState::Paused { cause: PauseCause::Limit { .. } }), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_a_stopped_agent_waits_like_any_message() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("b", |_| async { ScriptEnd::fails(FailureClass::Auth) });
    world.machine.set_worker_script("a", |worker| async move {
        worker.pass_time(Duration::from_mins(1)).await;
        ScriptEnd::done("@b please fix")
    });
    let (_, view) = run_to_end(&world, "a b", "kickoff: '@a @b go'").await;
    assert_eq!(view.state, RunState::Ended { outcome: Outcome::Failed });
    assert_eq!(answers(&world).await, ["#2 a → b: @b please fix"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_written_without_a_daemon_is_delivered_by_the_next_one() {
    let mut world = KernelWorld::on_disk().await;
    let gate = ScriptGate::default();
    let waits = gate.clone();
    world.machine.set_worker_script("a", move |_| {
        let gate = waits.clone();
        async move {
            gate.wait_open().await;
            ScriptEnd::done("@b please fix")
        }
    });
    answering(&world, &[("b", "Fixed, @a.")]);
    let run = world.run(&team("a b", "kickoff: '@a go'")).await;
    world.wait_for_report(run, "a", 1).await;
    world.stop_daemon().await;
    gate.open();
    within(world.machine.wait_until_empty()).await;
    assert_eq!(world.restart_daemon().await.settled, 1);
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state.clone(), view.turns), (DONE, 2));
    assert_eq!(answers(&world).await, ["#2 a → b: @b please fix", "#3 b → : Fixed, @a."]);
    assert_eq!(unheard(&view), ["#3 b a"]);
}

#[tokio::test(start_paused = true)]
async fn standalone_agents_hand_over_in_their_answers() {
    let world = KernelWorld::new().await;
    new_agent(&world, mock_agent_request(Some("ann"), None)).await.unwrap();
    new_agent(&world, mock_agent_request(Some("ben"), None)).await.unwrap();
    answering(&world, &[("ann", "@ben please look"), ("ben", "Done.")]);
    send_to(&world, "ann", "go").await;
    let run = global_run(&world).await;
    world.pass_time(Duration::from_mins(1)).await;
    assert_eq!(world.view(run).await.turns, 2);
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_shown_the_messages_that_the_failed_attempt_sent() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("a", |worker| async move {
        if worker.nth == 1 {
            worker.send("@b please fix line 42").await.unwrap();
            return ScriptEnd::fails(FailureClass::Fatal);
        }
        ScriptEnd::done(&worker.job.prompt)
    });
    run_to_end(&world, "a b", "kickoff: '@a go'").await;
    let prompt = world.channel().await.into_iter().find(|m| m.kind == MessageKind::Answer).unwrap();
    let expected = "An earlier attempt already did this; do not do it again:\n\
        - channel_send (message: \"@b please fix line 42\") → 2";
    assert!(prompt.body.ends_with(expected), "{}", prompt.body);
}
