//! Tests of the wall limit: the time that counts, the grace period of live turns, and a run that stays paused.

use std::time::Duration;

use agent_worker_kernel::{Principal, ShellOutcome, WatchSubject};
use agent_worker_protocol::{
    DeliveryState, Event, EventKind, LimitKind, Outcome, PauseCause, QuestionId, RunId, RunMode,
    RunState, Sender, Span,
    api::{AnswerRequest, AskRequest, ProposalRequest, ResumeRequest, RunReport, RunVerdict},
};

use crate::{
    scripted_worker::{ScriptEnd, ScriptGate, ScriptedWorker},
    world::{KernelWorld, team},
};

const DONE: RunState = RunState::Ended { outcome: Outcome::Done };
const HOUR: i64 = 3_600_000;

fn is_at_wall(state: &RunState) -> bool {
    let RunState::Paused { cause } = state else { return false };
    matches!(cause, PauseCause::Limit { limit: LimitKind::Wall, .. })
}

/// Waits for the end of the first attempt.
async fn first_end(world: &KernelWorld, run: RunId) -> Event {
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await
}

async fn resume(world: &KernelWorld, run: RunId, wall: Option<Span>) -> bool {
    let request = ResumeRequest { wall, ..ResumeRequest::default() };
    world.kernel.runs().resume(&Principal::User, None, run, request).await.is_ok()
}

/// Sets a coder whose first turn works for `time`, and whose later turns end at once.
fn coder_works_for(world: &KernelWorld, time: Duration) {
    world.machine.set_worker_script("coder", move |worker| async move {
        if worker.nth == 1 {
            worker.pass_time(time).await;
        }
        ScriptEnd::quiet()
    });
}

/// Sets a coder whose first turn works for a minute and asks a question.
fn coder_asks(world: &KernelWorld) {
    world.machine.set_worker_script("coder", |worker: ScriptedWorker| async move {
        worker.pass_time(Duration::from_mins(1)).await;
        if worker.nth == 1 {
            let (kernel, who) = worker.principal().await.unwrap();
            let request = AskRequest { question: "Which colour?".into(), options: None };
            kernel.questions().ask(&who, None, request).await.unwrap();
        }
        ScriptEnd::quiet()
    });
}

async fn answer(world: &KernelWorld) {
    let target = Some("@team".parse().unwrap());
    let request = AnswerRequest { target, project: None, answer: "Blue.".into() };
    let answered = world.kernel.questions();
    answered.answer(&Principal::User, None, QuestionId::new(1), request).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_in_the_grace_period_counts_and_the_run_stays_paused_with_nothing_left() {
    let world = KernelWorld::new().await;
    coder_works_for(&world, Duration::from_secs(89));
    let run = world.run(&team("coder", "limits: { wall: 1m }\nkickoff: '@coder go'")).await;
    let paused = world.wait_until_paused(run).await;
    assert_eq!(world.wall_after(paused.ts), 60_000);
    let view = world.view(run).await;
    assert_eq!(view.grace_ends.map(|end| world.wall_after(end)), Some(90_000));
    assert_eq!((view.wall_used_ms, view.is_at_rest()), (60_000, false));
    assert_eq!(first_end(&world, run).await.data()["end"], "ok");
    world.pass_time(Duration::from_hours(5)).await;
    let view = world.view(run).await;
    assert!(is_at_wall(&view.state) && view.is_at_rest(), "{}", view.state);
    assert_eq!((view.grace_ends, view.wall_used_ms, view.turns), (None, 60_000, 1));
    let report = RunReport::of(&view).unwrap();
    assert_eq!((report.outcome, report.outcome.exit_code()), (RunVerdict::Limit, 3));
    assert!(!resume(&world, run, None).await, "its time is up");
    assert!(resume(&world, run, Some(Span::from_secs(3 * 3600))).await);
    assert_eq!(world.wait_until_ended(run).await.state, DONE, "nothing is left");
}

#[tokio::test(start_paused = true)]
async fn a_turn_beyond_the_grace_period_is_stopped_without_blame_and_its_messages_wait() {
    for (limits, grace) in [("{ wall: 1m }", 30_000), ("{ wall: 1m, wall_grace: 5s }", 5_000)] {
        for jump in [0, -HOUR, 48 * HOUR] {
            let world = KernelWorld::new().await;
            coder_works_for(&world, Duration::from_hours(1));
            let file = team("coder", &format!("limits: {limits}\nkickoff: '@coder go'"));
            let run = world.run(&file).await;
            world.wait_until_paused(run).await;
            world.clock.shift_wall(jump);
            let ended = first_end(&world, run).await;
            assert_eq!(world.wall_after(ended.ts), 60_000 + grace + jump, "{limits}");
            let cause = "interrupted: the run reached its wall limit";
            assert_eq!(ended.cause.as_deref(), Some(cause));
            world.machine.wait_until_empty().await;
            let receipt = world.receipts(1).await.remove(0);
            assert_eq!((receipt.state, receipt.failures), (DeliveryState::Pending, 0));
            let view = world.view(run).await;
            assert!(is_at_wall(&view.state) && view.is_at_rest(), "{}", view.state);
            assert_eq!((view.turns, view.last_failures.len()), (0, 0), "it is no failure");
            assert!(resume(&world, run, Some(Span::from_secs(3600))).await);
            assert_eq!(world.wait_until_ended(run).await.state, DONE);
            assert_eq!(world.machine.turns().len(), 2);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_grace_period_goes_on_over_a_restart_with_an_adopted_worker() {
    let mut world = KernelWorld::on_disk().await;
    world.machine.set_worker_script("coder", |worker| async move { worker.hang().await });
    let file = team("coder", "limits: { wall: 1m, wall_grace: 50s }\nkickoff: '@coder go'");
    let run = world.run(&file).await;
    world.wait_for_report(run, "coder", 1).await;
    world.pass_time(Duration::from_secs(40)).await;
    world.stop_daemon().await;
    assert_eq!(world.restart_daemon().await.adopted, 1);
    let paused = world.wait_until_paused(run).await;
    assert_eq!(world.wall_after(paused.ts), 60_000, "the time before the restart counts");
    world.pass_time(Duration::from_secs(10)).await;
    world.stop_daemon().await;
    world.pass_time(Duration::from_secs(20)).await;
    assert_eq!(world.restart_daemon().await.adopted, 1);
    assert_eq!(world.view(run).await.wall_used_ms, 60_000);
    let ended = first_end(&world, run).await;
    assert_eq!(world.wall_after(ended.ts), 110_000);
    world.machine.wait_until_empty().await;
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_person_does_not_count_whether_the_person_is_there_or_not() {
    for person_is_there in [false, true] {
        let world = KernelWorld::new().await;
        coder_asks(&world);
        let file = team("coder", "limits: { wall: 3m }\nkickoff: '@coder go'");
        let run = world.run(&file).await;
        let watched = WatchSubject::RunUntilIdle(run);
        let feed = world.kernel.runs().watch(&Principal::User, watched, None).await.unwrap();
        let person = person_is_there.then(|| feed.with_presence_of(&Principal::User));
        first_end(&world, run).await;
        world.pass_time(Duration::from_hours(7)).await;
        let view = world.view(run).await;
        let waits = RunState::Paused { cause: PauseCause::Human };
        assert_eq!(view.state, if person_is_there { RunState::Running } else { waits });
        assert_eq!(view.wall_used_ms, 60_000);
        answer(&world).await;
        let view = world.wait_until_ended(run).await;
        assert_eq!((view.state, view.wall_used_ms), (DONE, 120_000));
        assert_eq!(view.lasted_ms, 7 * 3_600_000 + 120_000, "the duration is what it was");
        drop(person);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_with_an_answered_question_has_the_rest_of_its_time() {
    let world = KernelWorld::new().await;
    coder_asks(&world);
    let run = world.start(&team("coder", "limits: { wall: 90s }\nkickoff: '@coder go'")).await;
    first_end(&world, run).await;
    world.pass_time(Duration::from_hours(2)).await;
    answer(&world).await;
    let answered = world.after(world.now());
    let paused = world.wait_until_paused(run).await;
    assert_eq!(world.wall_after(paused.ts) - answered, 30_000, "the clock of a `start` as well");
}

#[tokio::test(start_paused = true)]
async fn a_pause_by_the_user_does_not_count() {
    let world = KernelWorld::new().await;
    let gate = ScriptGate::default();
    let waits = gate.clone();
    world.machine.set_worker_script("coder", move |worker| {
        let gate = waits.clone();
        async move {
            gate.wait_open().await;
            worker.send("@lead your turn").await.unwrap();
            ScriptEnd::quiet()
        }
    });
    world.machine.set_worker_script("lead", |worker| async move {
        worker.pass_time(Duration::from_secs(40)).await;
        ScriptEnd::quiet()
    });
    let file = team("coder lead", "limits: { wall: 1m }\nkickoff: '@coder go'");
    let run = world.run(&file).await;
    world.wait_for_report(run, "coder", 1).await;
    world.pass_time(Duration::from_secs(10)).await;
    world.kernel.runs().pause(&Principal::User, run).await.unwrap();
    world.pass_time(Duration::from_mins(4)).await;
    gate.open();
    assert_eq!(first_end(&world, run).await.data()["end"], "ok");
    world.pass_time(Duration::from_hours(3)).await;
    assert_eq!(world.view(run).await.wall_used_ms, 10_000);
    assert!(resume(&world, run, None).await);
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state, view.wall_used_ms), (DONE, 50_000));
}

#[tokio::test(start_paused = true)]
async fn the_absence_of_the_daemon_that_interrupts_a_run_does_not_count() {
    let mut world = KernelWorld::on_disk().await;
    coder_works_for(&world, Duration::from_secs(30));
    let run = world.run(&team("coder", "limits: { wall: 10m }\nkickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.stop_daemon().await;
    world.machine.kill_all().await;
    world.pass_time(Duration::from_hours(3)).await;
    world.restart_daemon().await;
    let view = world.view(run).await;
    assert_eq!(view.state, RunState::Paused { cause: PauseCause::Interrupted });
    assert_eq!(view.wall_used_ms, 0);
    assert!(resume(&world, run, None).await);
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_in_the_grace_period_lets_the_live_turn_finish() {
    let world = KernelWorld::new().await;
    coder_works_for(&world, Duration::from_secs(150));
    let run = world.run(&team("coder", "limits: { wall: 1m }\nkickoff: '@coder go'")).await;
    world.wait_until_paused(run).await;
    world.pass_time(Duration::from_secs(20)).await;
    assert!(resume(&world, run, Some(Span::from_secs(3600))).await);
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state, view.turns, view.wall_used_ms), (DONE, 1, 130_000));
}

/// Starts a run in which `long` works for four minutes while two other agents reach the hop limit at once.
async fn run_at_its_hop_limit(world: &KernelWorld, limits: &str) -> RunId {
    world.machine.set_worker_script("long", |worker| async move {
        if worker.nth == 1 {
            worker.pass_time(Duration::from_mins(4)).await;
        }
        ScriptEnd::quiet()
    });
    for (agent, text) in [("ping", "@pong hello"), ("pong", "@ping hello")] {
        world.machine.set_worker_script(agent, move |worker| async move {
            worker.send(text).await.unwrap();
            ScriptEnd::quiet()
        });
    }
    let rest = format!("limits: {{ hops: 2, {limits} }}\nkickoff: '@long @ping go'");
    let run = world.run(&team("long ping pong", &rest)).await;
    let paused = world.wait_until_paused(run).await;
    assert_eq!(paused.data()["cause"]["limit"], "hops");
    assert!(world.wall_after(paused.ts) < 1_000);
    run
}

/// Waits for the end of the turn of `long`.
async fn long_end(world: &KernelWorld, run: RunId) -> Event {
    let is_end = |event: &Event| {
        let is_long = event.agent.as_ref().is_some_and(|agent| agent.as_str() == "long");
        is_long && event.kind() == Some(EventKind::AttemptEnded)
    };
    world.wait_for_event(run, is_end).await
}

#[tokio::test(start_paused = true)]
async fn the_wall_limit_holds_for_a_live_turn_of_a_run_that_another_limit_paused() {
    let world = KernelWorld::new().await;
    let run = run_at_its_hop_limit(&world, "wall: 1m").await;
    world.pass_time(Duration::from_secs(40)).await;
    let view = world.view(run).await;
    assert!((40_000..41_000).contains(&view.wall_used_ms), "{}", view.wall_used_ms);
    let ended = long_end(&world, run).await;
    assert_eq!(world.wall_after(ended.ts), 90_000, "the limit and the grace period");
    assert_eq!(ended.cause.as_deref(), Some("interrupted: the run reached its wall limit"));
    world.machine.wait_until_empty().await;
    world.pass_time(Duration::from_hours(1)).await;
    let view = world.view(run).await;
    assert!(is_at_wall(&view.state) && view.is_at_rest(), "{}", view.state);
    assert_eq!(view.wall_used_ms, 60_000);
}

#[tokio::test(start_paused = true)]
async fn the_wall_limit_holds_for_a_live_turn_of_a_run_at_its_turn_limit() {
    let world = KernelWorld::new().await;
    coder_works_for(&world, Duration::from_mins(4));
    let file = team("coder lead", "limits: { turns: 1, wall: 1m }\nkickoff: '@coder @lead go'");
    let run = world.run(&file).await;
    let paused = world.wait_until_paused(run).await;
    assert_eq!(paused.data()["cause"]["limit"], "turns");
    let ended = first_end(&world, run).await;
    assert_eq!(world.wall_after(ended.ts), 90_000);
    world.machine.wait_until_empty().await;
    assert!(is_at_wall(&world.view(run).await.state));
}

#[tokio::test(start_paused = true)]
async fn a_pause_at_another_limit_counts_only_until_its_live_turns_are_over() {
    let world = KernelWorld::new().await;
    let run = run_at_its_hop_limit(&world, "wall: 10m").await;
    assert_eq!(long_end(&world, run).await.data()["end"], "ok");
    world.pass_time(Duration::from_hours(9)).await;
    let view = world.view(run).await;
    assert!(!is_at_wall(&view.state), "{}", view.state);
    assert!((240_000..241_000).contains(&view.wall_used_ms), "{}", view.wall_used_ms);
}

#[tokio::test(start_paused = true)]
async fn a_pause_by_the_user_stops_the_time_of_a_run_at_another_limit() {
    let world = KernelWorld::new().await;
    let run = run_at_its_hop_limit(&world, "wall: 1m").await;
    world.pass_time(Duration::from_secs(20)).await;
    world.kernel.runs().pause(&Principal::User, run).await.unwrap();
    assert_eq!(long_end(&world, run).await.data()["end"], "ok");
    let view = world.view(run).await;
    assert_eq!(view.state, RunState::Paused { cause: PauseCause::User });
    assert!((20_000..21_000).contains(&view.wall_used_ms), "{}", view.wall_used_ms);
}

#[tokio::test(start_paused = true)]
async fn a_long_absence_of_the_daemon_does_not_count_for_a_run_at_another_limit() {
    let mut world = KernelWorld::on_disk().await;
    let run = run_at_its_hop_limit(&world, "wall: 10m").await;
    world.pass_time(Duration::from_secs(20)).await;
    world.stop_daemon().await;
    world.machine.kill_all().await;
    world.pass_time(Duration::from_hours(3)).await;
    world.restart_daemon().await;
    world.pass_time(Duration::from_secs(1)).await;
    let view = world.view(run).await;
    assert!(view.wall_used_ms < 60_000, "{}", view.wall_used_ms);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_vote_in_which_only_people_are_missing_does_not_count() {
    let world = KernelWorld::new().await;
    let gate = ScriptGate::default();
    let waits = gate.clone();
    world.machine.set_worker_script("coder", move |_| {
        let gate = waits.clone();
        async move {
            gate.wait_open().await;
            ScriptEnd::quiet()
        }
    });
    let run = world.run(&team("coder", "limits: { wall: 1m }\nkickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    let request = ProposalRequest {
        title: "Ship it?".into(),
        electorate: Some(vec![Sender::User]),
        deadline: Some(Span::from_secs(9 * 3600)),
        ..ProposalRequest::default()
    };
    world.propose(request).await.unwrap();
    world.pass_time(Duration::from_secs(20)).await;
    gate.open();
    world.pass_time(Duration::from_hours(5)).await;
    let view = world.view(run).await;
    assert_eq!((view.state, view.wall_used_ms), (RunState::Running, 20_000));
    world.vote(1, "approve").await.unwrap();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
}

#[tokio::test(start_paused = true)]
async fn time_in_which_the_machine_slept_does_not_count_in_a_run_nor_in_its_setup() {
    for mode in [RunMode::Run, RunMode::Start] {
        let world = KernelWorld::new().await;
        let gates = [ScriptGate::default(), ScriptGate::default()];
        let [set_up, worked] = gates.clone();
        world.machine.set_shell_script(move |_| {
            let gate = set_up.clone();
            async move {
                gate.wait_open().await;
                ShellOutcome { status: Some(0), stdout: Vec::new(), stderr: String::new() }
            }
        });
        world.machine.set_worker_script("coder", move |_| {
            let gate = worked.clone();
            async move {
                gate.wait_open().await;
                ScriptEnd::quiet()
            }
        });
        let rest = "setup: [{ shell: make }]\nlimits: { wall: 10m }\nkickoff: '@coder go'";
        let run = world.begin_run(mode, "team", &team("coder", rest)).await.unwrap().run;
        world.pass_time(Duration::from_secs(7)).await;
        tokio::time::advance(Duration::from_hours(3)).await;
        world.pass_time(Duration::from_secs(7)).await;
        gates[0].open();
        world.wait_for_report(run, "coder", 1).await;
        world.pass_time(Duration::from_secs(7)).await;
        tokio::time::advance(Duration::from_hours(3)).await;
        world.pass_time(Duration::from_secs(7)).await;
        let view = world.view(run).await;
        assert_eq!(view.state, RunState::Running, "{mode:?}");
        assert!((20_000..60_000).contains(&view.wall_used_ms), "{}", view.wall_used_ms);
        gates[1].open();
        first_end(&world, run).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_absence_of_the_daemon_does_not_count_for_a_start_nor_for_a_setup() {
    let mut world = KernelWorld::on_disk().await;
    coder_works_for(&world, Duration::from_mins(1));
    let file = team("coder", "limits: { wall: 10m }\nkickoff: '@coder go'");
    let started = world.start(&file).await;
    world.wait_for_report(started, "coder", 1).await;
    // A setup without a command could be over before the daemon stops.
    world.machine.set_shell_script(|_| std::future::pending());
    let file =
        team("coder", "setup: [{ shell: make }]\nlimits: { wall: 10m }\nkickoff: '@coder go'");
    let set_up = world.begin_run(RunMode::Run, "other", &file).await.unwrap().run;
    world.stop_daemon().await;
    assert_eq!(world.view(set_up).await.state, RunState::Setup);
    world.machine.kill_all().await;
    world.pass_time(Duration::from_hours(3)).await;
    world.machine.set_shell_script(|_| async {
        ShellOutcome { status: Some(0), ..ShellOutcome::default() }
    });
    world.restart_daemon().await;
    assert_eq!(world.wait_until_ended(set_up).await.state, DONE);
    world.pass_time(Duration::from_mins(2)).await;
    let view = world.view(started).await;
    assert_eq!(view.state, RunState::Running);
    assert!(view.wall_used_ms < 300_000, "{}", view.wall_used_ms);
}

#[tokio::test(start_paused = true)]
async fn the_wall_limit_holds_while_the_daemon_drains() {
    let world = KernelWorld::new().await;
    coder_works_for(&world, Duration::from_hours(1));
    let run = world.run(&team("coder", "limits: { wall: 1m }\nkickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    let (ended, ()) = tokio::join!(first_end(&world, run), world.drain(2 * 3600));
    assert_eq!(world.wall_after(ended.ts), 90_000, "the limit and the grace period");
    assert_eq!(ended.cause.as_deref(), Some("interrupted: the run reached its wall limit"));
    assert!(world.wall_after(world.now().wall) < 120_000, "the drain ends with the last turn");
}
