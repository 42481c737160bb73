//! Tests of limits of cost and tokens of a `start`, which count the last 24 hours.

use std::time::Duration;

use agent_worker_kernel::{Options, Principal};
use agent_worker_protocol::{
    EventKind, LimitKind, PauseCause, RunId, RunState, Span, SpendReply, SpendRequest, Usage,
    WorkerEvent,
};
use tokio::sync::mpsc;

use crate::{
    agent_join::{global_run, mock_agent_request, new_agent, send_to},
    scripted_worker::{ScriptEnd, ScriptedWorker},
    world::{KernelWorld, StoreLocation, instance_selector, team, within},
};

const MINUTE: i64 = 60_000;
const DAY: Duration = Duration::from_hours(24);

async fn world(disk: StoreLocation) -> KernelWorld {
    // Without the sweep, a run continues only by its own timer.
    let sweep_interval = Span::from_secs(100 * 60 * 60);
    KernelWorld::with(disk, Options { sweep_interval, ..Options::default() }, 1).await
}

/// Reports tokens as used.
async fn use_tokens(worker: &ScriptedWorker, input_tokens: u64) {
    let usage = Usage { input_tokens, cost_micros: Some(0), ..Usage::default() };
    worker.post_event(WorkerEvent::Usage(usage)).await.unwrap();
}

/// Starts a team whose agent uses 60 tokens in a turn and may use 100 in a day.
async fn start(world: &KernelWorld) -> RunId {
    world.machine.set_worker_script("coder", |worker| async move {
        use_tokens(&worker, 60).await;
        ScriptEnd::quiet()
    });
    world.start(&team("coder", "limits: { tokens: 100 }\nkickoff: '@coder go'")).await
}

/// Returns the instants at which the turns began, in minutes.
fn minutes(world: &KernelWorld) -> Vec<i64> {
    let turns = world.machine.turns();
    turns.iter().map(|turn| world.after(turn.began) / MINUTE).collect()
}

/// Returns the milliseconds of store time between the start of the world and the time that a paused run names.
async fn room_at(world: &KernelWorld, run: RunId) -> Option<i64> {
    match world.view(run).await.state {
        RunState::Paused { cause: PauseCause::Limit { limit, room_at, .. } } => {
            assert_eq!(limit, LimitKind::Tokens);
            let now = world.now();
            room_at.map(|at| at.get() - now.wall.get() + world.after(now))
        }
        other => panic!("{other}"),
    }
}

/// Lets time pass until this many milliseconds after the start of the world.
async fn pass_until(world: &KernelWorld, at: i64) {
    let left = u64::try_from(at - world.after(world.now())).unwrap();
    world.pass_time(Duration::from_millis(left)).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_at_its_limit_goes_on_by_itself_when_the_spend_is_a_day_old() {
    let world = world(StoreLocation::Memory).await;
    let run = start(&world).await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    world.pass_time(Duration::from_hours(1)).await;
    world.send_to_team("@coder more").await;
    let paused = world.wait_until_paused(run).await;
    let cause = paused.cause.unwrap();
    let words = "token limit (120 tokens used in the last 24 hours, 100 allowed), room again at ";
    assert!(cause.starts_with(words), "{cause}");
    world.send_to_team("@coder and more").await;
    let room = room_at(&world, run).await.unwrap();
    assert!((24 * 60..=24 * 60 + 10).contains(&(room / MINUTE)), "{room}");
    pass_until(&world, room - 1).await;
    assert_eq!(minutes(&world), [0, 60]);
    world.pass_time(Duration::from_millis(2)).await;
    world.machine.wait_until_empty().await;
    let last = minutes(&world)[2];
    assert!((24 * 60..=24 * 60 + 10).contains(&last), "{last}");
    // Two turns of the last day count now, the third has waited for the first of them.
    assert_eq!(world.view(run).await.usage.input_tokens, 180);
}

#[tokio::test(start_paused = true)]
async fn the_window_is_the_same_after_a_restart_and_whatever_the_wall_clock_shows() {
    for jump in [-3_600_000, 48 * 3_600_000] {
        let mut world = world(StoreLocation::File).await;
        let run = start(&world).await;
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
        world.pass_time(Duration::from_hours(1)).await;
        world.send_to_team("@coder more").await;
        world.wait_until_paused(run).await;
        world.send_to_team("@coder and more").await;
        let room = room_at(&world, run).await.unwrap();
        world.stop_daemon().await;
        world.clock.shift_wall(jump);
        world.pass_time(Duration::from_hours(2)).await;
        world.restart_daemon().await;
        assert_eq!(room_at(&world, run).await, Some(room), "set by {jump} ms");
        pass_until(&world, room - 60 * MINUTE).await;
        assert_eq!(minutes(&world), [0, 60], "set by {jump} ms");
        pass_until(&world, room + 2).await;
        world.machine.wait_until_empty().await;
        assert_eq!(minutes(&world).len(), 3, "set by {jump} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_waits_for_its_own_room_and_the_suggested_limit_has_it() {
    let world = world(StoreLocation::Memory).await;
    let (replies, mut received) = mpsc::unbounded_channel();
    world.machine.set_worker_script("coder", move |worker| {
        let replies = replies.clone();
        async move {
            let (kernel, principal) = worker.principal().await.unwrap();
            // The first call begins its answer and reports nothing.
            for (tokens, lost) in [(60, false), (70, true)] {
                let request = SpendRequest { cost_micros: None, tokens, lost };
                let attempt = worker.job.attempt;
                let reply = kernel.attempts().reserve_spend(&principal, attempt, request).await;
                replies.send(reply.unwrap()).unwrap();
            }
            worker.hang().await
        }
    });
    let run = world.start(&team("coder", "limits: { tokens: 100 }\nkickoff: '@coder go'")).await;
    assert_eq!(within(received.recv()).await, Some(SpendReply::Reserved));
    assert_eq!(within(received.recv()).await, Some(SpendReply::Refused));
    let view = world.view(run).await;
    let RunState::Paused { cause } = &view.state else { panic!("{}", view.state) };
    let words = "token limit (at most 60 tokens used in the last 24 hours, 60 of it by calls without a report \
        and up to 70 for the next call, 100 allowed)";
    assert!(cause.to_string().starts_with(words), "{cause}");
    assert!(room_at(&world, run).await.unwrap() / MINUTE >= 24 * 60);
    assert_eq!(view.needs.tokens, Some(260), "twice the 60 that count and the 70 of the call");
    let resumed = world.kernel.runs().resume(&Principal::User, None, run, view.needs).await;
    assert_eq!(resumed.unwrap().limits.spend.tokens, Some(260));
}

#[tokio::test(start_paused = true)]
async fn a_standalone_agent_at_its_limit_stops_alone_and_a_person_gives_it_another_day() {
    let world = world(StoreLocation::Memory).await;
    for agent in ["crow", "owl"] {
        new_agent(&world, mock_agent_request(Some(agent), None)).await.unwrap();
        world.machine.set_worker_script(agent, |worker| async move {
            let (input_tokens, cost_micros) = (1, Some(20_000_000));
            let usage = Usage { input_tokens, cost_micros, ..Usage::default() };
            worker.post_event(WorkerEvent::Usage(usage)).await.unwrap();
            ScriptEnd::quiet()
        });
    }
    let run = global_run(&world).await;
    let ended =
        |event: &agent_worker_protocol::Event| event.kind() == Some(EventKind::AttemptEnded);
    send_to(&world, "crow", "go").await;
    world.wait_for_event(run, ended).await;
    send_to(&world, "crow", "once more").await;
    let stopped =
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AgentStopped)).await;
    let why = "cost limit ($20 spent in the last 24 hours, $20 allowed)";
    assert_eq!(stopped.cause.as_deref(), Some(why));
    world.pass_time(DAY * 2).await;
    assert_eq!(world.machine.turns_of("crow").len(), 1, "it does not continue by itself");
    send_to(&world, "owl", "go").await;
    world.pass_time(Duration::from_secs(1)).await;
    assert_eq!(world.machine.turns_of("owl").len(), 1);
    world.kernel.agents().resume(&Principal::User, &instance_selector("crow")).await.unwrap();
    world.pass_time(Duration::from_secs(1)).await;
    assert_eq!(world.machine.turns_of("crow").len(), 2);
}
