//! Tests of whole runs: woken agents, concurrency, and the end.

use std::time::Duration;

use agent_worker_kernel::{InstanceSelector, ListingScope, Options, PageRequest, Principal};
use agent_worker_protocol::{AgentState, Code, EventKind, Outcome, RunMode, RunState, WorkerLimit};

use crate::{
    machine::PeakConcurrency,
    scripted_worker::{ScriptEnd, ScriptGate},
    world::{KernelWorld, StoreLocation, code, problem, team},
};

const DONE: RunState = RunState::Ended { outcome: Outcome::Done };

#[tokio::test(start_paused = true)]
async fn a_kickoff_wakes_exactly_the_agents_that_it_mentions() {
    let world = KernelWorld::new().await;
    let run = world.run(&team("lead coder reviewer", "kickoff: '@coder and @lead, go'")).await;
    let view = world.wait_until_ended(run).await;
    let mut woken: Vec<_> =
        world.machine.turns().iter().map(|turn| turn.agent.to_string()).collect();
    woken.sort();
    assert_eq!(woken, ["coder", "lead"]);
    assert_eq!((view.state, view.turns), (DONE, 2));
    world.pass_time(Duration::from_millis(1)).await;
    assert!(!world.machine.keeps_environment(run), "what it was given is forgotten with its end");
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_when_no_agent_has_work_left() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("lead", |worker| async move {
        worker.pass_time(Duration::from_mins(1)).await;
        worker.send("@coder your turn").await.unwrap();
        ScriptEnd::done("asked the coder")
    });
    world.machine.set_worker_script("coder", |worker| async move {
        worker.pass_time(Duration::from_mins(1)).await;
        ScriptEnd::done("it works")
    });
    let run = world.run(&team("lead coder", "kickoff: '@lead go'")).await;
    let story = world.events_of(run).await;
    let last = story.last().unwrap();
    assert_eq!(
        (last.kind(), last.cause.as_deref()),
        (Some(EventKind::RunEnded), Some("no agent has anything left to do"))
    );
    assert_eq!(
        world.wall_after(last.ts),
        120_000,
        "not before the coder's turn, and at once after it"
    );
    assert_eq!(story.iter().filter(|event| event.kind() == Some(EventKind::RunEnded)).count(), 1);
    let said: Vec<_> = world.channel().await.into_iter().map(|message| message.body).collect();
    assert_eq!(said, ["@lead go", "@coder your turn", "asked the coder", "it works"]);
    assert_eq!(world.view(run).await.state, DONE);
}

#[tokio::test(start_paused = true)]
async fn an_agent_has_one_turn_at_a_time_and_mail_folds_into_the_next() {
    let world = KernelWorld::new().await;
    let gate = ScriptGate::default();
    let go = gate.clone();
    world.machine.set_worker_script("coder", move |worker| {
        let gate = gate.clone();
        async move {
            if worker.nth == 1 {
                gate.wait_open().await;
            }
            ScriptEnd::quiet()
        }
    });
    let run = world.run(&team("coder", "kickoff: '@coder one'")).await;
    world.wait_for_report(run, "coder", 1).await;
    for body in ["@coder two", "@coder three", "@coder four"] {
        world.send_to_team(body).await;
    }
    world.pass_time(Duration::from_mins(1)).await;
    go.open();
    assert_eq!(world.wait_until_ended(run).await.state, DONE);
    let woken_by: Vec<_> = world.machine.turns().into_iter().map(|turn| turn.woken_by).collect();
    assert_eq!(woken_by, ["@coder one", "@coder two\n@coder three\n@coder four"]);
    assert_eq!(world.machine.peak_concurrency().of_one_agent, 1);
}

#[tokio::test(start_paused = true)]
async fn mail_wakes_an_idle_agent_at_once_and_not_at_the_next_sweep() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("lead", |worker| async move {
        worker.pass_time(Duration::from_millis(1_001)).await;
        worker.send("@coder now").await.unwrap();
        worker.pass_time(Duration::from_mins(1)).await;
        ScriptEnd::quiet()
    });
    let run = world.start(&team("lead coder", "kickoff: '@lead go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.pass_time(Duration::from_millis(100_002)).await;
    world.send_to_team("@coder again").await;
    world.wait_for_report(run, "coder", 2).await;
    let turns = world.machine.turns_of("coder");
    let began: Vec<_> = turns.iter().map(|turn| world.after(turn.began)).collect();
    assert_eq!(began, [1_001, 101_003]);
}

#[tokio::test(start_paused = true)]
async fn no_more_workers_live_at_once_than_allowed_on_the_machine_and_in_an_instance() {
    let options = Options { workers: 3, workers_per_instance: 2, ..Options::default() };
    let world = KernelWorld::with(StoreLocation::Memory, options, 1).await;
    for agent in ["a1", "a2", "a3", "b1", "b2", "b3"] {
        world.machine.set_worker_script(agent, |worker| async move {
            worker.pass_time(Duration::from_secs(10)).await;
            ScriptEnd::quiet()
        });
    }
    let mut runs = Vec::new();
    for (name, agents) in [("alpha", "a1 a2 a3"), ("beta", "b1 b2 b3")] {
        let file = team(agents, "kickoff: '@all go'");
        runs.push(world.begin_run(RunMode::Run, name, &file).await.unwrap().run);
    }
    for run in runs {
        assert_eq!(world.wait_until_ended(run).await.state, DONE);
    }
    let peak =
        PeakConcurrency { on_the_machine: 3, in_one_instance: 2, of_one_agent: 1, shells: 0 };
    assert_eq!(world.machine.peak_concurrency(), peak);
    assert_eq!(world.after(world.now()), 20_000, "six turns of 10 s, three at once");
}

#[tokio::test(start_paused = true)]
async fn a_file_sets_the_workers_of_its_run_and_a_queued_agent_names_the_limit() {
    let options = Options { workers: 4, workers_per_instance: 1, ..Options::default() };
    let world = KernelWorld::with(StoreLocation::Memory, options, 1).await;
    for agent in ["a1", "a2", "a3", "b1", "b2", "b3"] {
        world.machine.set_worker_script(agent, |worker| async move {
            worker.pass_time(Duration::from_secs(10)).await;
            ScriptEnd::quiet()
        });
    }
    let queued = async |run| {
        let view = world.view(run).await;
        let states = view.agents.iter().map(|agent| agent.state.clone());
        states.filter(|state| matches!(state, AgentState::Queued { .. })).collect::<Vec<_>>()
    };
    let two = team("a1 a2 a3", "limits: { workers: 2 }\nkickoff: '@all go'");
    let two = world.begin_run(RunMode::Run, "alpha", &two).await.unwrap().run;
    world.pass_time(Duration::from_secs(1)).await;
    let of_run = AgentState::Queued { full: Some(WorkerLimit::Run { workers: 2 }) };
    assert_eq!(queued(two).await, [of_run]);
    let three = team("b1 b2 b3", "limits: { workers: 3 }\nkickoff: '@all go'");
    let three = world.begin_run(RunMode::Run, "beta", &three).await.unwrap().run;
    world.pass_time(Duration::from_secs(1)).await;
    let of_daemon = AgentState::Queued { full: Some(WorkerLimit::Daemon { workers: 4 }) };
    assert_eq!(queued(three).await, [of_daemon]);
    for run in [two, three] {
        assert_eq!(world.wait_until_ended(run).await.state, DONE);
    }
    assert_eq!(world.machine.peak_concurrency().on_the_machine, 4);
}

#[tokio::test(start_paused = true)]
async fn an_instance_has_one_live_run_and_a_start_never_ends_by_itself() {
    let world = KernelWorld::new().await;
    let file = team("coder", "kickoff: '@coder go'");
    let run = world.start(&file).await;
    world.wait_for_event(run, |event| event.kind() == Some(EventKind::AttemptEnded)).await;
    world.pass_time(Duration::from_hours(3)).await;
    assert_eq!(world.view(run).await.state, RunState::Running);
    let second = world.begin_run(RunMode::Run, "team", &file).await;
    assert_eq!(code(second), Some(Code::Conflict));
}

#[tokio::test(start_paused = true)]
async fn a_live_run_is_listed_though_a_hundred_newer_ones_have_ended() {
    let world = KernelWorld::new().await;
    let live = world.start(&team("coder", "")).await;
    for _ in 0..101 {
        world.pass_time(Duration::from_millis(1)).await;
        let short = world.begin_run(RunMode::Run, "short", &team("coder", "kickoff: nobody")).await;
        world.wait_until_ended(short.unwrap().run).await;
    }
    // A run that ends in the millisecond of the first page keeps its place among the live ones.
    world.pass_time(Duration::from_millis(1)).await;
    let everywhere = InstanceSelector::default();
    let all = world
        .kernel
        .runs()
        .list(&Principal::User, &everywhere, ListingScope::All, &PageRequest::default())
        .await
        .unwrap()
        .items;
    assert_eq!((all[0].run, &all[0].state), (live, &RunState::Running));
    assert_eq!(all.len(), 100);
    let rest: Vec<_> = all[1..].iter().map(|view| world.wall_after(view.started)).collect();
    assert_eq!(rest, (3..=101).rev().collect::<Vec<_>>(), "the newest of the others");
}

#[tokio::test(start_paused = true)]
async fn an_unset_variable_is_refused_with_its_place_in_the_file() {
    let world = KernelWorld::new().await;
    let file = team("coder", "kickoff: '@coder go to ${{ env.PLACE }}'");
    let refused = problem(world.begin_run(RunMode::Run, "team", &file).await);
    assert_eq!(refused.code, Code::BadRequest);
    let line = file.lines().position(|line| line.contains("PLACE")).unwrap() + 1;
    let place = format!("team.yaml:{line}:");
    assert!(refused.message.contains(&place), "{}", refused.message);
    assert!(refused.message.contains("PLACE is not set"), "{}", refused.message);
}
