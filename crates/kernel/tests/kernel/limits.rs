//! Tests of limits: a run pauses in one step and keeps everything.

use std::{cell::Cell, time::Duration};

use agent_worker_kernel::{ListingScope, Options, PageRequest, Principal};
use agent_worker_protocol::{
    AgentName, DeliveryState, Event, EventKind, Keyword as _, LimitKind, PauseCause, RunId,
    RunState, Span,
};
use tokio::sync::mpsc;

use crate::{
    agent_join::{global_run, hand_over_workers, mock_agent_request, new_agent, send_to},
    scripted_worker::ScriptEnd,
    world::{KernelWorld, StoreLocation, instance_selector, team, within},
};

fn is(event: &Event, agent: &str) -> bool {
    event.agent.as_ref().map(AgentName::as_str) == Some(agent)
}

/// Starts two agents that answer each other forever.
async fn ping_pong(world: &KernelWorld, limits: &str) -> RunId {
    for (agent, answer) in [("ping", "@pong hello"), ("pong", "@ping hello")] {
        world.machine.set_worker_script(agent, move |worker| async move {
            worker.send(answer).await.unwrap();
            ScriptEnd::quiet()
        });
    }
    world.run(&team("ping pong", &format!("limits: {limits}\nkickoff: '@ping go'"))).await
}

/// Returns the limit of a pause, and checks that nothing is leased afterwards.
async fn tripped(world: &KernelWorld, run: RunId, paused: &Event) -> LimitKind {
    world.machine.wait_until_empty().await;
    let before = world.machine.turns().len();
    world.pass_time(Duration::from_hours(3)).await;
    assert_eq!(world.machine.turns().len(), before, "something was leased in a paused run");
    let RunState::Paused { cause } = world.view(run).await.state else {
        panic!("not paused: {paused:?}")
    };
    let PauseCause::Limit { limit, .. } = cause else { panic!("paused by {cause}") };
    assert_eq!(paused.data()["cause"]["limit"], limit.word());
    limit
}

#[tokio::test(start_paused = true)]
async fn two_agents_that_answer_each_other_for_ever_pause_at_the_hop_limit() {
    let world = KernelWorld::new().await;
    let run = ping_pong(&world, "{ hops: 5 }").await;
    let paused = world.wait_until_paused(run).await;
    assert_eq!(tripped(&world, run, &paused).await, LimitKind::Hops);
    let hops: Vec<_> = world.channel().await.iter().map(|message| message.hops).collect();
    assert_eq!(hops, [0, 1, 2, 3, 4, 5, 6], "the message over the limit is stored");
    assert_eq!(world.receipts(7).await[0].state, DeliveryState::Pending, "and not leased");
    assert_eq!(world.machine.turns().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn the_turn_limit_pauses_before_the_turn_that_would_be_too_many() {
    let world = KernelWorld::new().await;
    let run = ping_pong(&world, "{ turns: 3 }").await;
    let paused = world.wait_until_paused(run).await;
    assert_eq!(tripped(&world, run, &paused).await, LimitKind::Turns);
    assert_eq!((world.machine.turns().len(), world.view(run).await.turns), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn the_wall_limit_pauses_at_its_instant_and_lets_the_living_finish() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        worker.pass_time(Duration::from_secs(80)).await;
        worker.send("@lead done").await.unwrap();
        ScriptEnd::quiet()
    });
    let file = team("coder lead", "limits: { wall: 61s }\nkickoff: '@coder go'");
    let run = world.run(&file).await;
    let paused = world.wait_until_paused(run).await;
    assert_eq!(world.wall_after(paused.ts), 61_000);
    assert_eq!(tripped(&world, run, &paused).await, LimitKind::Wall);
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Acted);
    assert_eq!(world.receipts(2).await[0].state, DeliveryState::Pending);
}

#[tokio::test(start_paused = true)]
async fn an_agent_parked_beyond_the_wall_pauses_the_run_at_once() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        ScriptEnd::rate_limited(worker.now().plus(Duration::from_mins(2)))
    });
    let run = world.run(&team("coder", "limits: { wall: 1m }\nkickoff: '@coder go'")).await;
    let paused = world.wait_until_paused(run).await;
    assert_eq!(world.wall_after(paused.ts), 0);
    assert_eq!(tripped(&world, run, &paused).await, LimitKind::Wall);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_can_still_work_keeps_a_run_with_a_parked_agent_alive() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        ScriptEnd::rate_limited(worker.now().plus(Duration::from_mins(2)))
    });
    world.machine.set_worker_script("lead", |worker| async move {
        worker.pass_time(Duration::from_secs(30)).await;
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder lead", "limits: { wall: 1m }\nkickoff: '@all go'")).await;
    let paused = world.wait_until_paused(run).await;
    assert_eq!(world.wall_after(paused.ts), 30_000);
}

#[tokio::test(start_paused = true)]
async fn a_start_pauses_after_500_turns_and_goes_on_when_they_are_a_day_old() {
    const DAY: i64 = 24 * 60 * 60 * 1_000;
    let sweep_interval = Span::from_secs(60);
    let world = KernelWorld::with(
        StoreLocation::Memory,
        Options { sweep_interval, ..Options::default() },
        1,
    )
    .await;
    for (agent, answer) in [("ping", "@pong hello"), ("pong", "@ping hello")] {
        world.machine.set_worker_script(agent, move |worker| async move {
            worker.pass_time(Duration::from_secs(1)).await;
            worker.send(answer).await.unwrap();
            ScriptEnd::quiet()
        });
    }
    let file = team("ping pong", "limits: { hops: 1000 }\nkickoff: '@ping go'");
    let run = world.start(&file).await;
    let paused = world.wait_until_paused(run).await;
    let cause = paused.cause.as_deref().unwrap();
    assert!(cause.starts_with("turn limit (") && cause.contains("in the last 24 hours"), "{cause}");
    world.machine.wait_until_empty().await;
    world.pass_time(Duration::from_millis(1)).await;
    assert_eq!((world.after(world.now()), world.view(run).await.turns), (500_001, 500));
    world.pass_time(Duration::from_secs(24 * 60 * 60 - 500)).await;
    assert_eq!(world.view(run).await.turns, 500, "the first of them ended less than a day ago");
    world.pass_time(Duration::from_mins(2)).await;
    let began: Vec<_> = world.machine.turns().iter().map(|turn| world.after(turn.began)).collect();
    assert!((DAY + 1_000..=DAY + 61_000).contains(&began[500]), "{} ms", began[500]);
    world.pass_time(Duration::from_mins(20)).await;
    let began: Vec<_> = world.machine.turns().iter().map(|turn| world.after(turn.began)).collect();
    assert_eq!(began.len(), 1_000);
    for (before, after) in began.iter().zip(&began[500..]) {
        assert!(after - before >= DAY, "more than 500 between {before} and {after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_chain_of_standalone_agents_ends_at_the_hop_limit_and_the_others_go_on() {
    let world = KernelWorld::new().await;
    let (refusals, mut refused) = mpsc::unbounded_channel();
    for (agent, answer) in [("ping", "@pong hello"), ("pong", "@ping hello")] {
        let refusals = refusals.clone();
        world.machine.set_worker_script(agent, move |worker| {
            let refusals = refusals.clone();
            async move {
                if let Err(error) = worker.send(answer).await {
                    refusals.send(error.to_string()).unwrap();
                }
                ScriptEnd::quiet()
            }
        });
    }
    for agent in ["ping", "pong", "owl"] {
        new_agent(&world, mock_agent_request(Some(agent), None)).await.unwrap();
    }
    send_to(&world, "ping", "go").await;
    let told = within(refused.recv()).await.unwrap();
    assert_eq!(told, "not sent: hop limit (a chain of 51 messages, 50 allowed)");
    let run = global_run(&world).await;
    // A worker ends before its turn is counted.
    let ended = Cell::new(0);
    let is_last = |event: &Event| {
        ended.set(ended.get() + u32::from(event.kind() == Some(EventKind::AttemptEnded)));
        ended.get() == 51
    };
    world.wait_for_event(run, is_last).await;
    let view = world.view(run).await;
    assert_eq!((view.state, view.turns), (RunState::Running, 51));
    send_to(&world, "owl", "and you?").await;
    world
        .wait_for_event(run, |event| {
            event.kind() == Some(EventKind::AttemptEnded) && is(event, "owl")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_standalone_agent_has_its_own_turns_and_a_person_gives_it_more() {
    let world = KernelWorld::new().await;
    for agent in ["crow", "owl"] {
        new_agent(&world, mock_agent_request(Some(agent), None)).await.unwrap();
    }
    let run = global_run(&world).await;
    world.pass_time(Duration::from_secs(1)).await;
    let (mut crows, mut owls) =
        (hand_over_workers(&world, "crow"), hand_over_workers(&world, "owl"));
    for _ in 0..500 {
        send_to(&world, "crow", "go").await;
        within(crows.recv()).await.unwrap();
    }
    send_to(&world, "owl", "go").await;
    within(owls.recv()).await.unwrap();
    send_to(&world, "crow", "once more").await;
    let stopped =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AgentStopped)).await;
    let why = "turn limit (500 turns taken in the last 24 hours, 500 allowed)";
    assert!(is(&stopped, "crow") && stopped.cause.as_deref() == Some(why), "{stopped:?}");
    send_to(&world, "owl", "go").await;
    within(owls.recv()).await.unwrap();
    let view = world.view(run).await;
    assert_eq!((view.state, view.agents[0].turns), (RunState::Running, 500));
    let items = world
        .kernel
        .attention()
        .list(
            &Principal::User,
            &instance_selector("@global"),
            ListingScope::All,
            &PageRequest::whole(),
        )
        .await;
    assert_eq!(items.unwrap().items[0].what, why);
    world.pass_time(Duration::from_secs(1)).await;
    world.kernel.agents().resume(&Principal::User, &instance_selector("crow")).await.unwrap();
    let job = within(crows.recv()).await.unwrap().job;
    assert!(job.prompt.contains("once more"), "what waited is done");
}
