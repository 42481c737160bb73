//! Where a run stops by itself: paused in one step, with everything kept.

use std::time::Duration;

use agent_worker_kernel::{Breadth, Options, Principal};
use agent_worker_protocol::{
    AgentName, DeliveryState, Event, EventKind, LimitKind, PauseCause, RunId, RunState, Span,
};
use tokio::sync::mpsc;

use crate::{
    joining::{global, handing, mock, new, tell},
    worker::End,
    world::{Disk, World, place, team, within},
};

fn is(event: &Event, agent: &str) -> bool {
    event.agent.as_ref().map(AgentName::as_str) == Some(agent)
}

/// Two agents that answer each other for ever.
async fn ping_pong(world: &World, limits: &str) -> RunId {
    for (agent, answer) in [("ping", "@pong hello"), ("pong", "@ping hello")] {
        world.machine.plays(agent, move |worker| async move {
            worker.send(answer).await.unwrap();
            End::quiet()
        });
    }
    world.run(&team("ping pong", &format!("limits: {limits}\nkickoff: '@ping go'"))).await
}

/// The limit a pause tells of; nothing is leased from then on, however long one waits.
async fn tripped(world: &World, run: RunId, paused: &Event) -> LimitKind {
    world.machine.empty().await;
    let before = world.machine.turns().len();
    world.pass(Duration::from_hours(3)).await;
    assert_eq!(world.machine.turns().len(), before, "something was leased in a paused run");
    let RunState::Paused { cause } = world.view(run).await.state else {
        panic!("not paused: {paused:?}")
    };
    let PauseCause::Limit { limit, .. } = cause else { panic!("paused by {cause}") };
    assert_eq!(paused.data["cause"]["limit"], limit.word());
    limit
}

#[tokio::test(start_paused = true)]
async fn two_agents_that_answer_each_other_for_ever_pause_at_the_hop_limit() {
    let world = World::new().await;
    let run = ping_pong(&world, "{ hops: 5 }").await;
    let paused = world.paused(run).await;
    assert_eq!(tripped(&world, run, &paused).await, LimitKind::Hops);
    let hops: Vec<_> = world.channel().await.iter().map(|message| message.hops).collect();
    assert_eq!(hops, [0, 1, 2, 3, 4, 5, 6], "the message over the limit is stored");
    assert_eq!(world.receipts(7).await[0].state, DeliveryState::Pending, "and not leased");
    assert_eq!(world.machine.turns().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn the_turn_limit_pauses_before_the_turn_that_would_be_too_many() {
    let world = World::new().await;
    let run = ping_pong(&world, "{ turns: 3 }").await;
    let paused = world.paused(run).await;
    assert_eq!(tripped(&world, run, &paused).await, LimitKind::Turns);
    assert_eq!((world.machine.turns().len(), world.view(run).await.turns), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn the_wall_limit_pauses_at_its_instant_and_lets_the_living_finish() {
    let world = World::new().await;
    world.machine.plays("coder", |worker| async move {
        worker.rest(Duration::from_mins(2)).await;
        worker.send("@lead done").await.unwrap();
        End::quiet()
    });
    let file = team("coder lead", "limits: { wall: 61s }\nkickoff: '@coder go'");
    let run = world.run(&file).await;
    let paused = world.paused(run).await;
    assert_eq!(world.wall_after(paused.ts), 61_000);
    assert_eq!(tripped(&world, run, &paused).await, LimitKind::Wall);
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Acted);
    assert_eq!(world.receipts(2).await[0].state, DeliveryState::Pending);
}

#[tokio::test(start_paused = true)]
async fn an_agent_parked_beyond_the_wall_pauses_the_run_at_once() {
    let world = World::new().await;
    world.machine.plays("coder", |worker| async move {
        End::rate_limited(worker.now().plus(Duration::from_mins(2)))
    });
    let run = world.run(&team("coder", "limits: { wall: 1m }\nkickoff: '@coder go'")).await;
    let paused = world.paused(run).await;
    assert_eq!(world.wall_after(paused.ts), 0);
    assert_eq!(tripped(&world, run, &paused).await, LimitKind::Wall);
}

#[tokio::test(start_paused = true)]
async fn somebody_who_can_still_work_keeps_a_run_with_a_parked_agent_going() {
    let world = World::new().await;
    world.machine.plays("coder", |worker| async move {
        End::rate_limited(worker.now().plus(Duration::from_mins(2)))
    });
    world.machine.plays("lead", |worker| async move {
        worker.rest(Duration::from_secs(30)).await;
        End::quiet()
    });
    let run = world.run(&team("coder lead", "limits: { wall: 1m }\nkickoff: '@all go'")).await;
    let paused = world.paused(run).await;
    assert_eq!(world.wall_after(paused.ts), 30_000);
}

#[tokio::test(start_paused = true)]
async fn a_start_pauses_after_500_turns_and_goes_on_when_they_are_a_day_old() {
    const DAY: i64 = 24 * 60 * 60 * 1_000;
    let sweep = Span::from_secs(60);
    let world = World::with(Disk::Memory, Options { sweep, ..Options::default() }, 1).await;
    for (agent, answer) in [("ping", "@pong hello"), ("pong", "@ping hello")] {
        world.machine.plays(agent, move |worker| async move {
            worker.rest(Duration::from_secs(1)).await;
            worker.send(answer).await.unwrap();
            End::quiet()
        });
    }
    let file = team("ping pong", "limits: { hops: 1000 }\nkickoff: '@ping go'");
    let run = world.start(&file).await;
    let paused = world.paused(run).await;
    let cause = paused.cause.as_deref().unwrap();
    assert!(cause.starts_with("turn limit (") && cause.contains("in the last 24 hours"), "{cause}");
    world.machine.empty().await;
    world.pass(Duration::from_millis(1)).await;
    assert_eq!((world.after(world.now()), world.view(run).await.turns), (500_001, 500));
    world.pass(Duration::from_secs(24 * 60 * 60 - 500)).await;
    assert_eq!(world.view(run).await.turns, 500, "the first of them ended less than a day ago");
    world.pass(Duration::from_mins(2)).await;
    let began: Vec<_> = world.machine.turns().iter().map(|turn| world.after(turn.began)).collect();
    assert!((DAY + 1_000..=DAY + 61_000).contains(&began[500]), "{} ms", began[500]);
    world.pass(Duration::from_mins(20)).await;
    let began: Vec<_> = world.machine.turns().iter().map(|turn| world.after(turn.began)).collect();
    assert_eq!(began.len(), 1_000);
    for (before, after) in began.iter().zip(&began[500..]) {
        assert!(after - before >= DAY, "more than 500 between {before} and {after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_chain_of_standalone_agents_ends_at_the_hop_limit_and_the_others_go_on() {
    let world = World::new().await;
    let (refusals, mut refused) = mpsc::unbounded_channel();
    for (agent, answer) in [("ping", "@pong hello"), ("pong", "@ping hello")] {
        let refusals = refusals.clone();
        world.machine.plays(agent, move |worker| {
            let refusals = refusals.clone();
            async move {
                if let Err(error) = worker.send(answer).await {
                    refusals.send(error.to_string()).unwrap();
                }
                End::quiet()
            }
        });
    }
    for agent in ["ping", "pong", "owl"] {
        new(&world, mock(Some(agent), None)).await.unwrap();
    }
    tell(&world, "ping", "go").await;
    let told = within(refused.recv()).await.unwrap();
    assert_eq!(told, "not sent: hop limit (a chain of 51 messages, 50 allowed)");
    world.machine.empty().await;
    let run = global(&world).await;
    let view = world.view(run).await;
    assert_eq!((view.state, view.turns), (RunState::Running, 51));
    tell(&world, "owl", "and you?").await;
    world.until(run, |event| event.kind == EventKind::AttemptEnded && is(event, "owl")).await;
}

#[tokio::test(start_paused = true)]
async fn a_standalone_agent_has_its_own_turns_and_a_person_gives_it_more() {
    let world = World::new().await;
    for agent in ["crow", "owl"] {
        new(&world, mock(Some(agent), None)).await.unwrap();
    }
    let run = global(&world).await;
    world.pass(Duration::from_secs(1)).await;
    let (mut crows, mut owls) = (handing(&world, "crow"), handing(&world, "owl"));
    for _ in 0..500 {
        tell(&world, "crow", "go").await;
        within(crows.recv()).await.unwrap();
    }
    tell(&world, "owl", "go").await;
    within(owls.recv()).await.unwrap();
    tell(&world, "crow", "once more").await;
    let stopped = world.until(run, |event| event.kind == EventKind::AgentStopped).await;
    let why = "turn limit (500 turns taken in the last 24 hours, 500 allowed)";
    assert!(is(&stopped, "crow") && stopped.cause.as_deref() == Some(why), "{stopped:?}");
    tell(&world, "owl", "go").await;
    within(owls.recv()).await.unwrap();
    let view = world.view(run).await;
    assert_eq!((view.state, view.agents[0].turns), (RunState::Running, 500));
    let items = world.kernel.attention(&Principal::User, &place("@global"), Breadth::All).await;
    assert_eq!(items.unwrap()[0].what, why);
    world.pass(Duration::from_secs(1)).await;
    world.kernel.agent_resume(&Principal::User, &place("crow")).await.unwrap();
    let job = within(crows.recv()).await.unwrap().job;
    assert!(job.prompt.contains("once more"), "what waited is done");
}
