//! Tests of a changed wall clock: no timer is affected, all displayed times are right, and the jump is reported.

use std::time::Duration;

use agent_worker_kernel::Principal;
use agent_worker_protocol::{
    AgentState, Event, EventKind, FailureClass, Outcome, PauseCause, ProposalId, ProposalState,
    RunMode, RunState, Span, api::ProposalRequest,
};

use crate::{
    scripted_worker::ScriptEnd,
    world::{KernelWorld, instance_selector, team},
};

const DONE: RunState = RunState::Ended { outcome: Outcome::Done };
const HOUR: i64 = 3_600_000;
/// Jumps back by an hour, and forward by two days.
const JUMPS: [i64; 2] = [-HOUR, 48 * HOUR];

/// Returns the jumps that a run's events report, in milliseconds.
fn reported(story: &[Event]) -> Vec<i64> {
    let jumps = story.iter().filter(|event| event.kind() == Some(EventKind::ClockJumped));
    jumps.map(|event| event.data()["by_ms"].as_i64().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn retries_come_after_their_pauses_however_the_wall_clock_is_set() {
    for jump in JUMPS {
        let world = KernelWorld::new().await;
        let clock = world.clock.clone();
        world.machine.set_worker_script("coder", move |worker| {
            let clock = clock.clone();
            async move {
                if worker.nth == 2 {
                    clock.shift_wall(jump);
                }
                if worker.nth < 3 {
                    ScriptEnd::fails(FailureClass::Fatal)
                } else {
                    ScriptEnd::quiet()
                }
            }
        });
        let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
        let story = world.events_of(run).await;
        assert_eq!(world.view(run).await.state, DONE);
        let turns = world.machine.turns_of("coder");
        let began: Vec<_> = turns.iter().map(|turn| world.after(turn.began)).collect();
        assert_eq!(began, [0, 1_000, 3_000], "set by {jump} ms");
        assert_eq!(reported(&story), [jump]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_has_the_time_it_is_allowed_however_the_wall_clock_is_set() {
    for jump in JUMPS {
        let world = KernelWorld::new().await;
        for (agent, answer) in [("ping", "@pong hello"), ("pong", "@ping hello")] {
            world.machine.set_worker_script(agent, move |worker| async move {
                worker.pass_time(Duration::from_mins(4)).await;
                worker.send(answer).await.unwrap();
                ScriptEnd::quiet()
            });
        }
        let file = team("ping pong", "limits: { wall: 2h }\nkickoff: '@ping go'");
        let run = world.run(&file).await;
        world.wait_for_report(run, "ping", 1).await;
        world.clock.shift_wall(jump);
        world.pass_time(Duration::from_mins(119)).await;
        assert_eq!(world.view(run).await.state, RunState::Running, "set by {jump} ms");
        world.wait_until_paused(run).await;
        assert_eq!(world.after(world.now()), 2 * HOUR, "set by {jump} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_vote_lasts_as_long_as_it_was_given_and_its_deadline_is_shown_on_the_wall_clock() {
    for jump in JUMPS {
        let world = KernelWorld::new().await;
        let run = world.start(&team("lead coder", "")).await;
        let request = ProposalRequest {
            target: Some("@team".parse().unwrap()),
            title: "Ship it?".into(),
            deadline: Some(Span::from_secs(90)),
            ..ProposalRequest::default()
        };
        world.kernel.proposals().create(&Principal::User, None, request).await.unwrap();
        let proposal = async || {
            let id = ProposalId::new(1);
            world
                .kernel
                .proposals()
                .get(&Principal::User, &instance_selector("@team"), id)
                .await
                .unwrap()
                .proposal
        };
        assert_eq!(world.wall_after(proposal().await.deadline), 90_000);
        world.clock.shift_wall(jump);
        assert_eq!(world.wall_after(proposal().await.deadline), 90_000 + jump);
        let expired = world
            .wait_for_event(run, |event| event.kind() == Some(EventKind::ProposalExpired))
            .await;
        assert_eq!(world.wall_after(expired.ts), 90_000 + jump, "set by {jump} ms");
        assert!(matches!(proposal().await.state, ProposalState::Expired { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_providers_reset_time_is_kept_and_shown_on_the_wall_clock_as_it_is() {
    for jump in JUMPS {
        let world = KernelWorld::new().await;
        world.machine.set_worker_script("coder", |worker| async move {
            match worker.nth {
                1 => ScriptEnd::rate_limited(worker.now().plus(Duration::from_secs(90))),
                _ => ScriptEnd::quiet(),
            }
        });
        let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
        world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
        world.clock.shift_wall(jump);
        let AgentState::Parked { until, .. } = world.view(run).await.agents.remove(0).state else {
            panic!("not parked: {:?}", world.view(run).await.agents);
        };
        assert_eq!(world.wall_after(until), 90_000 + jump);
        assert_eq!(world.wait_until_ended(run).await.state, DONE);
        assert_eq!(world.after(world.machine.turns()[1].began), 90_000, "set by {jump} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn whether_a_run_was_cut_off_long_ago_does_not_depend_on_the_wall_clock() {
    let interrupted = RunState::Paused { cause: PauseCause::Interrupted };
    for (jump, minutes, expected) in
        [(48 * HOUR, 9, RunState::Running), (-HOUR, 11, interrupted.clone())]
    {
        let mut world = KernelWorld::new().await;
        world.machine.set_worker_script("coder", |worker| async move { worker.hang().await });
        let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
        world.wait_for_report(run, "coder", 1).await;
        world.stop_daemon().await;
        world.machine.kill_all().await;
        world.clock.shift_wall(jump);
        world.pass_time(Duration::from_mins(minutes)).await;
        world.restart_daemon().await;
        assert_eq!(world.view(run).await.state, expected, "set by {jump} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_jump_is_one_event_of_every_live_run_and_drift_is_none() {
    let world = KernelWorld::new().await;
    let one = world.start(&team("lead", "")).await;
    let file = team("coder", "");
    let other = world.begin_run(RunMode::Start, "other", &file).await.unwrap().run;
    for jump in [1_900, 5_000, -70_000] {
        world.pass_time(Duration::from_mins(1)).await;
        world.clock.shift_wall(jump);
    }
    world.pass_time(Duration::from_mins(1)).await;
    for run in [one, other] {
        world.stop(run).await.unwrap();
        let story = world.events_of(run).await;
        assert_eq!(reported(&story), [5_000, -70_000]);
    }
}
