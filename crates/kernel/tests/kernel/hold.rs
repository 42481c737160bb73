//! Tests of the hold: after a stop by the user a daemon starts nothing before a user or a client gives the agents work.

use std::time::Duration;

use agent_worker_kernel::{PageRequest, Principal, Runner as _, WakeCondition};
use agent_worker_protocol::{
    AgentState, Code, Outcome, RunId, RunMode, RunState,
    api::{AgentRequest, ResumeRequest, SuggestRequest, SuggestionRequest},
};

use crate::{
    scripted_worker::ScriptEnd,
    world::{KernelWorld, StoreLocation, code, instance_selector, send_request, team},
};

const DONE: RunState = RunState::Ended { outcome: Outcome::Done };

/// Returns a world whose user stopped the daemon before an agent was woken, with the next daemon.
async fn held_world(file: &str) -> (KernelWorld, RunId) {
    let mut world = KernelWorld::on_disk().await;
    let run = world.begin_run(RunMode::Run, "team", file).await.unwrap().run;
    world.machine.hold_next_daemon();
    world.drain(0).await;
    world.machine.detach_kernel();
    world.restart_daemon().await;
    (world, run)
}

#[tokio::test(start_paused = true)]
async fn a_held_daemon_runs_no_setup_and_wakes_no_agent_and_says_so() {
    let (world, run) =
        held_world(&team("coder", "setup: [{ shell: make }]\nkickoff: '@coder go'")).await;
    let before = world.machine.commands().len();
    world.pass_time(Duration::from_hours(3)).await;
    assert_eq!((world.machine.commands().len(), world.machine.turns().len()), (before, 0));
    let view = world.view(run).await;
    assert_eq!((&view.state, view.held, view.imminent), (&RunState::Setup, true, None));
    assert!(world.kernel.health().is_held());
    world.kernel.health().release_hold(&Principal::User).await.unwrap();
    let view = world.wait_until_ended(run).await;
    assert_eq!((view.state, view.turns, view.held), (DONE, 1, false));
    assert!(!world.machine.hold_is_set(), "the next daemon is not held");
}

#[tokio::test(start_paused = true)]
async fn an_agent_with_messages_is_paused_until_the_hold_ends() {
    let mut world = KernelWorld::on_disk().await;
    let run = world.start(&team("coder lead", "")).await;
    let idle = world.view(run).await;
    assert!(idle.agents.iter().all(|agent| agent.state == AgentState::Idle), "{:?}", idle.agents);
    world.machine.set_worker_script("coder", |worker| async move {
        worker.pass_time(Duration::from_mins(5)).await;
        ScriptEnd::quiet()
    });
    world.send_to_team("@coder go").await;
    world.wait_for_report(run, "coder", 1).await;
    // The stop ends the turn; its message waits.
    world.machine.hold_next_daemon();
    world.drain(0).await;
    world.machine.detach_kernel();
    world.restart_daemon().await;
    world.pass_time(Duration::from_hours(1)).await;
    let detail = async |agent: &str| {
        let selector = instance_selector(agent);
        world.kernel.agents().detail(&Principal::User, &selector).await.unwrap()
    };
    let coder = detail("coder@team").await;
    let paused = AgentState::Paused { why: "the daemon was stopped".into() };
    assert_eq!((coder.view.state, coder.wakes_when), (paused, WakeCondition::HoldReleased));
    assert_eq!(detail("lead@team").await.view.state, AgentState::Idle);
    assert_eq!(world.machine.turns_of("coder").len(), 1);
    world.send_to_team("@lead hello").await;
    world.wait_for_report(run, "coder", 2).await;
}

async fn suggest(world: &KernelWorld) {
    let request = r#"{"target": "@team", "file": "notes.md", "suggestion": "a title"}"#;
    let request: SuggestRequest = serde_json::from_str(request).unwrap();
    world.kernel.suggestions().create(&Principal::User, None, request).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_from_the_user_or_a_client_ends_the_hold_and_taking_work_away_does_not() {
    let user = &Principal::User;
    let rest = "context: { documentOwner: lead }\nkickoff: '@coder go'";
    let file = team("coder lead", rest);
    for (gives, name) in [
        (true, "send"),
        (true, "run"),
        (true, "resume"),
        (true, "agent resume"),
        (true, "new"),
        (true, "suggestion"),
        (false, "resume with a limit"),
        (false, "a message to an unknown agent"),
        (false, "agent stop"),
        (false, "pause"),
        (false, "stop"),
        (false, "reads"),
    ] {
        let (world, run) = held_world(&file).await;
        let kernel = &world.kernel;
        let coder = instance_selector("coder@team");
        match name {
            "send" => drop(world.send_to_team("@lead hi").await),
            "run" => drop(
                world
                    .begin_run(RunMode::Run, "other", &team("x", "kickoff: '@x go'"))
                    .await
                    .unwrap(),
            ),
            "resume" => {
                let request = ResumeRequest::default();
                assert!(!kernel.runs().resume(user, None, run, request).await.unwrap().held);
            }
            "resume with a limit" => {
                let request = ResumeRequest { turns: Some(900), ..ResumeRequest::default() };
                let refused = kernel.runs().resume(user, None, run, request).await;
                assert_eq!(code(refused), Some(Code::Conflict), "it is not paused");
            }
            "suggestion" => suggest(&world).await,
            "agent resume" => drop(kernel.agents().resume(user, &coder).await.unwrap()),
            "new" => {
                let request: AgentRequest =
                    serde_json::from_str(r#"{"name": "solo", "backend": "mock"}"#).unwrap();
                kernel.agents().create(user, None, request).await.unwrap();
            }
            "a message to an unknown agent" => {
                let request = send_request(Some("ghost@team"), "hi");
                assert!(kernel.messages().send(user, None, request).await.is_err());
            }
            "agent stop" => drop(kernel.agents().stop(user, &coder).await.unwrap()),
            "pause" => drop(kernel.runs().pause(user, run).await),
            "stop" => drop(world.stop(run).await.unwrap()),
            _ => drop((world.view(run).await, world.channel().await)),
        }
        assert_eq!(world.kernel.health().is_held(), !gives, "{name}");
        assert_eq!(world.machine.hold_is_set(), !gives, "{name}");
        world.pass_time(Duration::from_mins(1)).await;
        assert_eq!(world.machine.turns().is_empty(), !gives, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_hold_does_not_count_for_the_wall_limit() {
    let file = team("coder", "limits: { wall: 1h }\nkickoff: '@coder go'");
    let (world, run) = held_world(&file).await;
    world.pass_time(Duration::from_hours(5)).await;
    assert_eq!(world.view(run).await.wall_used_ms, 0);
    world.kernel.health().release_hold(&Principal::User).await.unwrap();
    let view = world.wait_until_ended(run).await;
    assert_eq!(view.state, DONE);
    assert!(view.wall_used_ms < 60_000, "{}", view.wall_used_ms);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_a_stopping_daemon_accepts_ends_the_hold_of_the_next_one() {
    let options = agent_worker_kernel::Options::default();
    let mut world = KernelWorld::with(StoreLocation::File, options, 1).await;
    let run = world.start(&team("coder lead", "")).await;
    world.machine.set_worker_script("lead", |worker| async move {
        worker.pass_time(Duration::from_mins(1)).await;
        ScriptEnd::quiet()
    });
    world.send_to_team("@lead go").await;
    world.wait_for_report(run, "lead", 1).await;
    world.machine.hold_next_daemon();
    tokio::join!(world.kernel.drain(Duration::from_mins(5)), async {
        world.pass_time(Duration::from_secs(1)).await;
        world.send_to_team("@coder and you").await;
    });
    world.machine.detach_kernel();
    world.restart_daemon().await;
    world.wait_for_report(run, "coder", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_long_hold_interrupts_no_run() {
    let mut world = KernelWorld::on_disk().await;
    world.machine.set_worker_script("coder", |worker| async move {
        worker.pass_time(Duration::from_mins(1)).await;
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder", "limits: { wall: 1h }\nkickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.machine.hold_next_daemon();
    world.drain(0).await;
    world.machine.detach_kernel();
    world.pass_time(Duration::from_hours(30)).await;
    world.restart_daemon().await;
    let view = world.view(run).await;
    assert_eq!((view.state, view.held), (RunState::Running, true), "not interrupted");
    world.pass_time(Duration::from_hours(30)).await;
    world.kernel.health().release_hold(&Principal::User).await.unwrap();
    let view = world.wait_until_ended(run).await;
    assert_eq!(view.state, DONE);
    assert!(view.wall_used_ms < 120_000, "{}", view.wall_used_ms);
}

#[tokio::test(start_paused = true)]
async fn a_message_after_the_mark_removes_it_also_before_the_daemon_drains() {
    let world = KernelWorld::new().await;
    world.start(&team("coder lead", "")).await;
    world.machine.hold_next_daemon();
    world.channel().await;
    assert!(world.machine.hold_is_set(), "a read keeps it");
    world.send_to_team("@lead hi").await;
    assert!(!world.machine.hold_is_set());
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_suggestion_ends_the_hold() {
    let mut world = KernelWorld::on_disk().await;
    let run = world.start(&team("coder lead", "context: { documentOwner: lead }")).await;
    world.machine.set_worker_script("coder", |worker| async move {
        let (kernel, who) = worker.principal().await.unwrap();
        if worker.nth == 1 {
            let request = r#"{"file": "notes.md", "suggestion": "a title"}"#;
            let request: SuggestRequest = serde_json::from_str(request).unwrap();
            kernel.suggestions().create(&who, None, request).await.unwrap();
        }
        ScriptEnd::quiet()
    });
    world.send_to_team("@coder go").await;
    world.wait_for_report(run, "lead", 1).await;
    world.pass_time(Duration::from_mins(1)).await;
    world.machine.hold_next_daemon();
    world.drain(0).await;
    world.machine.detach_kernel();
    world.restart_daemon().await;
    let (user, place) = (&Principal::User, instance_selector("@team"));
    let suggestions = world.kernel.suggestions();
    let page = PageRequest::whole();
    let open = suggestions.list(user, &place, &page).await.unwrap().items[0].suggestion;
    let request = r#"{"target": "@team", "accept": true}"#;
    let request: SuggestionRequest = serde_json::from_str(request).unwrap();
    suggestions.answer(user, None, open, request).await.unwrap();
    assert!(!world.kernel.health().is_held() && !world.machine.hold_is_set());
}
