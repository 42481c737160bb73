//! Tests of resuming a paused run and replacing a live run.

use std::time::Duration;

use agent_worker_kernel::{Error, Options, Principal, WatchSubject};
use agent_worker_protocol::{
    Code, DeliveryState, EffectKey, EventKind, Outcome, ProblemDetails, RunId, RunMode, RunState,
    Span,
    api::{ResumeRequest, RunRequest, RunView},
};
use serde_json::json;

use crate::{
    scripted_worker::{ScriptEnd, ScriptGate},
    world::{KernelWorld, StoreLocation, code, problem, team, within},
};

const DONE: RunState = RunState::Ended { outcome: Outcome::Done };
const STOPPED: RunState = RunState::Ended { outcome: Outcome::Stopped };
const AS_IT_IS: ResumeRequest =
    ResumeRequest { hops: None, turns: None, wall: None, cost_micros: None, tokens: None };

async fn resume(world: &KernelWorld, run: RunId, request: ResumeRequest) -> Result<RunView, Error> {
    world.kernel.runs().resume(&Principal::User, None, run, request).await
}

/// The facts a caller gets who resumes a run that would pause again at once: its mode, and the limits it needs.
async fn refused(
    world: &KernelWorld,
    run: RunId,
    request: ResumeRequest,
) -> (RunMode, ResumeRequest) {
    let problem = problem(resume(world, run, request).await);
    assert_eq!(problem.code, Code::Limit);
    assert!(problem.message.starts_with("@team is paused: "), "{}", problem.message);
    let details = problem.details.map(|details| *details);
    let Some(ProblemDetails::LimitReached { instance, mode, needs, .. }) = details else {
        panic!("{details:?}")
    };
    assert_eq!(instance.to_string(), "team");
    (mode, needs)
}

/// The facts of a `run` that needs more hops.
fn hops(hops: u32) -> (RunMode, ResumeRequest) {
    (RunMode::Run, ResumeRequest { hops: Some(hops), ..AS_IT_IS })
}

/// The facts of a `run` that needs more turns.
fn turns(turns: u32) -> (RunMode, ResumeRequest) {
    (RunMode::Run, ResumeRequest { turns: Some(turns), ..AS_IT_IS })
}

/// The facts of a `run` that needs more time.
fn wall(hours: u64) -> (RunMode, ResumeRequest) {
    (RunMode::Run, ResumeRequest { wall: Some(Span::from_secs(hours * 3600)), ..AS_IT_IS })
}

/// Sets two agents that answer each other `times` times.
fn ping_pong(world: &KernelWorld, times: usize) {
    for (agent, answer) in [("ping", "@pong hello"), ("pong", "@ping hello")] {
        world.machine.set_worker_script(agent, move |worker| async move {
            if worker.nth < times {
                worker.send(answer).await.unwrap();
            }
            ScriptEnd::quiet()
        });
    }
}

/// Makes the coder hang in its first attempt.
fn hang_in_the_first_attempt(world: &KernelWorld) {
    world.machine.set_worker_script("coder", |worker| async move {
        match worker.nth {
            1 => worker.hang().await,
            _ => ScriptEnd::quiet(),
        }
    });
}

/// Returns a world, and a team of one allowed turn, whose coder hangs in its first attempt.
async fn a_team_whose_first_turn_hangs() -> (KernelWorld, String) {
    let world = KernelWorld::new().await;
    hang_in_the_first_attempt(&world);
    (world, team("coder lead", "limits: { turns: 1 }\nkickoff: '@coder go'"))
}

#[tokio::test(start_paused = true)]
async fn a_run_at_its_hop_limit_goes_on_with_a_higher_one_and_keeps_everything() {
    let world = KernelWorld::new().await;
    ping_pong(&world, 6);
    let run = world.run(&team("ping pong", "limits: { hops: 5 }\nkickoff: '@ping go'")).await;
    world.wait_until_paused(run).await;
    assert_eq!(refused(&world, run, AS_IT_IS).await, hops(10));
    let same = ResumeRequest { hops: Some(5), ..AS_IT_IS };
    assert_eq!(refused(&world, run, same).await, hops(10));
    let view = resume(&world, run, ResumeRequest { hops: Some(10), ..AS_IT_IS }).await.unwrap();
    assert_eq!((&view.state, view.limits.hops), (&RunState::Running, 10));
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state, view.turns), (DONE, 11));
    assert_eq!(code(resume(&world, run, AS_IT_IS).await), Some(Code::RunEnded));
}

#[tokio::test(start_paused = true)]
async fn a_run_at_its_turn_limit_goes_on_with_more_turns() {
    let world = KernelWorld::new().await;
    ping_pong(&world, 4);
    let run = world.run(&team("ping pong", "limits: { turns: 3 }\nkickoff: '@ping go'")).await;
    assert_eq!(problem(resume(&world, run, AS_IT_IS).await).message, "@team is not paused");
    world.wait_until_paused(run).await;
    world.pass_time(Duration::from_secs(1)).await;
    assert_eq!(refused(&world, run, AS_IT_IS).await, turns(6));
    resume(&world, run, ResumeRequest { turns: Some(9), ..AS_IT_IS }).await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.turns, 7);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_under_way_is_one_of_those_allowed_until_it_is_cut_short() {
    let (mut world, file) = a_team_whose_first_turn_hangs().await;
    let run = world.run(&file).await;
    world.wait_for_report(run, "coder", 1).await;
    world.send_to_team("@lead go").await;
    world.wait_until_paused(run).await;
    assert_eq!(refused(&world, run, AS_IT_IS).await, turns(2));
    world.stop_daemon().await;
    world.machine.kill_all().await;
    world.restart_daemon().await;
    assert_eq!(resume(&world, run, AS_IT_IS).await.unwrap().state, RunState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_start_at_its_turn_limit_does_not_rest_when_its_live_turn_is_cut_short() {
    let (mut world, file) = a_team_whose_first_turn_hangs().await;
    let run = world.start(&file).await;
    world.wait_for_report(run, "coder", 1).await;
    world.send_to_team("@lead go").await;
    world.wait_until_paused(run).await;
    world.stop_daemon().await;
    world.machine.kill_all().await;
    // The next daemon has taken over and has not yet decided about the run.
    let look = world.store.withhold_answer("agent_ready");
    world.restart_daemon().await;
    look.reached().await;
    let cut_short = world.view(run).await;
    assert!(matches!(cut_short.state, RunState::Paused { .. }), "{:?}", cut_short.state);
    assert!(!cut_short.is_at_rest(), "it has a turn left: {:?}", cut_short.needs);
    look.release();
    let watched = WatchSubject::RunUntilIdle(run);
    let mut feed = world.kernel.runs().watch(&Principal::User, watched, None).await.unwrap();
    let mut resumed = 0;
    while let Some(event) = within(feed.next()).await.unwrap() {
        resumed += u32::from(event.cause.as_deref() == Some("resumed"));
    }
    assert_eq!(resumed, 1, "it went on by itself, and was watched until it rested");
    let rests = world.view(run).await;
    assert!(rests.is_at_rest() && rests.turns == 1, "now it had its turn: {rests:?}");
    assert_eq!(rests.needs, ResumeRequest { turns: Some(2), ..AS_IT_IS });
}

#[tokio::test(start_paused = true)]
async fn the_turn_limit_of_a_start_counts_the_turns_of_one_day() {
    let options = Options { sweep_interval: Span::from_secs(600), ..Options::default() };
    let world = KernelWorld::with(StoreLocation::Memory, options, 1).await;
    ping_pong(&world, 1_000);
    let file = team("ping pong", "limits: { turns: 3, hops: 1000 }\nkickoff: '@ping go'");
    let run = world.start(&file).await;
    world.wait_until_paused(run).await;
    let today = (RunMode::Start, ResumeRequest { turns: Some(6), ..AS_IT_IS });
    assert_eq!(refused(&world, run, AS_IT_IS).await, today);
    world.pass_time(Duration::from_hours(25)).await;
    assert_eq!(world.view(run).await.turns, 6);
    assert_eq!(refused(&world, run, AS_IT_IS).await, today);
}

#[tokio::test(start_paused = true)]
async fn a_run_at_its_wall_goes_on_with_more_time() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        worker.pass_time(Duration::from_mins(2)).await;
        worker.send("@lead done").await.unwrap();
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder lead", "limits: { wall: 1m }\nkickoff: '@coder go'")).await;
    world.wait_until_paused(run).await;
    world.pass_time(Duration::from_hours(1)).await;
    assert_eq!(refused(&world, run, AS_IT_IS).await, wall(2), "the pause does not count");
    let more = ResumeRequest { wall: Some(Span::from_secs(3 * 3600)), ..AS_IT_IS };
    resume(&world, run, more).await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_agents_all_wait_beyond_its_wall_limit_needs_as_much_time_as_they_wait() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        match worker.nth {
            1 => ScriptEnd::rate_limited(worker.now().plus(Duration::from_mins(150))),
            _ => ScriptEnd::quiet(),
        }
    });
    let run = world.run(&team("coder", "limits: { wall: 2h }\nkickoff: '@coder go'")).await;
    world.wait_until_paused(run).await;
    assert_eq!(refused(&world, run, AS_IT_IS).await, wall(4), "its time is not up, but would be");
    let more = ResumeRequest { wall: Some(Span::from_secs(4 * 3600)), ..AS_IT_IS };
    resume(&world, run, more).await.unwrap();
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state, world.wall_after(view.ended.unwrap())), (DONE, 150 * 60_000));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_cut_off_goes_on_where_it_was() {
    let mut world = KernelWorld::new().await;
    hang_in_the_first_attempt(&world);
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.stop_daemon().await;
    world.machine.kill_all().await;
    world.pass_time(Duration::from_mins(11)).await;
    world.restart_daemon().await;
    world.wait_until_paused(run).await;
    resume(&world, run, AS_IT_IS).await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
}

#[tokio::test(start_paused = true)]
async fn a_resume_that_is_repeated_gets_its_first_answer() {
    let world = KernelWorld::new().await;
    ping_pong(&world, 6);
    let run = world.start(&team("ping pong", "limits: { hops: 5 }\nkickoff: '@ping go'")).await;
    world.wait_until_paused(run).await;
    let request = ResumeRequest { hops: Some(50), ..AS_IT_IS };
    let once = |key: &str| {
        let key = EffectKey::new(key.to_owned(), "run_resume", &json!(request));
        world.kernel.runs().resume(&Principal::User, Some(key), run, request)
    };
    once("k1").await.unwrap();
    once("k1").await.unwrap();
    assert_eq!(code(once("k2").await), Some(Code::Conflict));
    let story: Vec<_> = {
        world.stop(run).await.unwrap();
        world.events_of(run).await
    };
    let resumed = story.iter().filter(|event| event.cause.as_deref() == Some("resumed"));
    assert_eq!(resumed.count(), 1);
}

/// Starts a run of the same file that replaces the live run.
async fn replace(world: &KernelWorld, file: &str) -> Result<RunId, Error> {
    let request = RunRequest { replace: true, ..world.run_request(RunMode::Run, "team", file) };
    within(world.kernel.runs().create(&Principal::User, request)).await.map(|started| started.run)
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_replaced_is_gone_before_the_new_ones_agents_begin() {
    let world = KernelWorld::new().await;
    hang_in_the_first_attempt(&world);
    // The worker ignores TERM, and is killed after its grace period.
    world.machine.set_exit_delay(Duration::from_secs(10));
    let file = team("coder", "kickoff: '@coder go'");
    let old = world.run(&file).await;
    world.wait_for_report(old, "coder", 1).await;
    assert_eq!(code(world.begin_run(RunMode::Run, "team", &file).await), Some(Code::Conflict));
    let new = replace(&world, &file).await.unwrap();
    assert_ne!(old, new);
    assert_eq!(world.view(old).await.state, STOPPED);
    assert_eq!(world.wait_until_ended(new).await.state, DONE);
    let began: Vec<_> = world.machine.turns().iter().map(|turn| world.after(turn.began)).collect();
    assert_eq!(began, [0, 10_000]);
    assert_eq!(world.machine.peak_concurrency().of_one_agent, 1);
    assert!(!world.machine.keeps_environment(old));
    let states: Vec<_> = [world.receipts(1).await, world.receipts(2).await].concat();
    let states: Vec<_> = states.into_iter().map(|one| one.state).collect();
    assert_eq!(states, [DeliveryState::Dropped, DeliveryState::Acted]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_be_ended_keeps_its_agent_waiting_in_the_new_run() {
    let world = KernelWorld::new().await;
    hang_in_the_first_attempt(&world);
    world.machine.set_exit_delay(Duration::from_mins(1));
    let file = team("coder lead", "kickoff: '@coder @lead go'");
    let old = world.run(&file).await;
    world.wait_for_report(old, "coder", 1).await;
    let new = replace(&world, &file).await.unwrap();
    assert_eq!(world.after(world.now()), 15_000, "the time to kill, and five seconds");
    let ended = |agent: &'static str| {
        world.wait_for_event(new, move |event| {
            let its = event.agent.as_ref().is_some_and(|name| name.as_str() == agent);
            its && event.kind() == Some(EventKind::AttemptEnded)
        })
    };
    assert_eq!(world.wall_after(ended("lead").await.ts), 15_000);
    assert_eq!(world.wall_after(ended("coder").await.ts), 60_000);
    assert_eq!(world.machine.peak_concurrency().of_one_agent, 1);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_wrong_replaces_nothing_and_where_nothing_runs_nothing_is_in_the_way() {
    let world = KernelWorld::new().await;
    let file = team("coder", "");
    let old = world.start(&file).await;
    assert_eq!(code(replace(&world, "agents: 7").await), Some(Code::BadRequest));
    assert_eq!(world.view(old).await.state, RunState::Running);
    world.stop(old).await.unwrap();
    let new = replace(&world, &team("coder", "kickoff: '@coder go'")).await.unwrap();
    assert_eq!(world.wait_until_ended(new).await.state, DONE);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_paused_by_a_person_finishes_its_turn_and_starts_no_other_until_resumed() {
    let world = KernelWorld::new().await;
    let (gate, opened) = (ScriptGate::default(), ScriptGate::default());
    let (worker_gate, told) = (gate.clone(), opened.clone());
    world.machine.set_worker_script("coder", move |worker| {
        let (gate, told) = (worker_gate.clone(), told.clone());
        async move {
            told.open();
            gate.wait_open().await;
            worker.send("@lead your turn").await.unwrap();
            ScriptEnd::quiet()
        }
    });
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    opened.wait_open().await;
    let view = world.kernel.runs().pause(&Principal::User, run).await.unwrap();
    assert_eq!(view.state.to_string(), "paused: by the user");
    gate.open();
    world.machine.wait_until_empty().await;
    world.pass_time(Duration::from_hours(1)).await;
    assert_eq!(world.machine.turns().len(), 1, "something was leased in a paused run");
    assert_eq!(world.receipts(1).await[0].state, DeliveryState::Acted);
    assert_eq!(world.receipts(2).await[0].state, DeliveryState::Pending);
    // A second pause has the same effect as the first.
    world.kernel.runs().pause(&Principal::User, run).await.unwrap();
    resume(&world, run, AS_IT_IS).await.unwrap();
    world.wait_until_ended(run).await;
    assert_eq!(world.view(run).await.state, DONE);
    assert_eq!(code(world.kernel.runs().pause(&Principal::User, run).await), Some(Code::RunEnded));
}
