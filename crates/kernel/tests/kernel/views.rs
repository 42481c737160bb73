//! Tests of views: details of an agent, its inbox, its log, statistics, instances.

use std::time::Duration;

use agent_worker_kernel::{
    AgentExplanation, ChannelQuery, InstanceSelector, ListingScope, PageRequest, Principal,
    WakeCondition,
};
use agent_worker_protocol::{
    AgentState, Code, DeliveryState, FailureClass, RunMode, RunState, Seq,
    api::{FeedbackRequest, ResumeRequest},
};

use crate::{
    scripted_worker::{ScriptEnd, ScriptGate},
    world::{KernelWorld, code, instance_selector, problem, team, within},
};

/// Returns the details of an agent.
async fn why(world: &KernelWorld, agent: &str) -> AgentExplanation {
    world.kernel.agents().detail(&Principal::User, &instance_selector(agent)).await.unwrap()
}

/// Returns the state of an agent, and its wake condition.
async fn words(world: &KernelWorld, agent: &str) -> (String, WakeCondition) {
    let detail = why(world, agent).await;
    (detail.view.state.to_string(), detail.wakes_when)
}

#[tokio::test(start_paused = true)]
async fn the_state_of_an_agent_is_shown_with_the_event_that_would_wake_it() {
    let world = KernelWorld::new().await;
    let gate = ScriptGate::default();
    let waits = gate.clone();
    world.machine.set_worker_script("coder", move |worker| {
        let gate = waits.clone();
        async move {
            match worker.nth {
                1 => gate.wait_open().await,
                2 => return ScriptEnd::rate_limited(worker.now().plus(Duration::from_mins(5))),
                _ => return worker.hang().await,
            }
            ScriptEnd::quiet()
        }
    });
    let run = world.start(&team("coder", "limits: { hops: 9 }\nkickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    let shown = |state: &str, wakes| (state.to_owned(), wakes);
    assert_eq!(words(&world, "coder").await, shown("running", WakeCondition::NextTurn));
    gate.open();
    world.wait_for_event(run, |event| event.data()["end"] == "ok").await;
    world.pass_time(Duration::from_millis(1)).await;
    assert_eq!(words(&world, "coder").await, shown("idle", WakeCondition::Mention));
    world.send_to_team("@coder again").await;
    world.wait_for_event(run, |event| event.data()["end"] == "failed").await;
    let parked = "rate-limited until 2026-01-01T00:05:00.001Z: scripted rate_limited";
    let wakes = WakeCondition::Time("2026-01-01T00:05:00.001Z".parse().unwrap());
    assert_eq!(words(&world, "coder").await, shown(parked, wakes));
    world.machine.set_exit_delay(Duration::from_secs(3));
    world.kernel.agents().resume(&Principal::User, &instance_selector("coder")).await.unwrap();
    world.wait_for_report(run, "coder", 3).await;
    let stop = async {
        within(world.kernel.agents().stop(&Principal::User, &instance_selector("coder")))
            .await
            .unwrap();
    };
    let look = async {
        world.pass_time(Duration::from_secs(1)).await;
        words(&world, "coder").await
    };
    let ((), stopping) = tokio::join!(stop, look);
    assert_eq!(stopping, shown("stopping", WakeCondition::ProcessesEnded));
    let stopped = shown("stopped: stopped by the user", WakeCondition::AgentResumed);
    assert_eq!(words(&world, "coder").await, stopped);
    world.stop(run).await.unwrap();
    let over = shown("stopped: its run was stopped", WakeCondition::NewRun);
    assert_eq!(words(&world, "coder").await, over);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_set_up_or_paused_keeps_its_agents_waiting_and_says_so() {
    let world = KernelWorld::new().await;
    world.machine.set_shell_script(|_| std::future::pending());
    let run = world.run(&team("coder", "setup: [{ shell: wait }]\nkickoff: '@coder go'")).await;
    world.pass_time(Duration::from_millis(1)).await;
    assert_eq!(words(&world, "coder").await, ("idle".into(), WakeCondition::SetupDone));
    world.stop(run).await.unwrap();

    for (agent, answer) in [("ping", "@pong hello"), ("pong", "@ping hello")] {
        world.machine.set_worker_script(agent, move |worker| async move {
            worker.send(answer).await.unwrap();
            ScriptEnd::quiet()
        });
    }
    let file = team("ping pong", "limits: { hops: 1 }\nkickoff: '@ping go'");
    let run = world.begin_run(RunMode::Run, "loop", &file).await.unwrap().run;
    world.wait_until_paused(run).await;
    world.machine.wait_until_empty().await;
    world.pass_time(Duration::from_millis(1)).await;
    let (state, wakes) = words(&world, "ping").await;
    assert_eq!(state, "paused: hop limit (a chain of 2 messages, 1 allowed)");
    let more = ResumeRequest { hops: Some(2), ..ResumeRequest::default() };
    assert_eq!(wakes, WakeCondition::RunResumed { needs: more, room_at: None });
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_shown_with_its_mail_and_its_last_attempts() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        match worker.nth {
            1..=6 => ScriptEnd::fails(FailureClass::Transient),
            _ => worker.hang().await,
        }
    });
    let file = "agents:\n  coder: { backend: mock, system_prompt: Be brief. }\n  lead: { backend: mock }\nkickoff: '@coder go'";
    let run = world.start(file).await;
    world.wait_for_report(run, "coder", 7).await;
    for n in 0..25 {
        world.send_to_team(&format!("@coder message {n}")).await;
    }
    let detail = why(&world, "coder@team").await;
    assert_eq!((detail.run, &detail.run_state), (run, &RunState::Running));
    assert_eq!(detail.system.as_deref(), Some("Be brief."));
    assert_eq!(
        (detail.view.waiting, detail.inbox.len()),
        (25, 20),
        "the first twenty, without the one it works on"
    );
    assert_eq!(detail.inbox[0].message.seq, Seq::new(2), "what it was shown is no longer in it");
    let attempts: Vec<_> =
        detail.attempts.iter().map(|one| (one.oldest.get(), one.ended.is_some())).collect();
    assert_eq!(attempts, [(1, false), (1, true), (1, true), (1, true), (1, true)]);
    assert_eq!(why(&world, "lead@team").await.system, None);
}

#[tokio::test(start_paused = true)]
async fn looking_into_an_inbox_shows_and_acks_nothing() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move { worker.hang().await });
    let run = world.start(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.send_to_team("@coder this is urgent").await;
    let look = async |target: &str| {
        world
            .kernel
            .inbox()
            .peek(&Principal::User, &instance_selector(target), &PageRequest::whole())
            .await
    };
    for _ in 0..2 {
        let inbox = look("coder").await.unwrap();
        assert_eq!((inbox.agent.as_str(), inbox.instance.to_string()), ("coder", "team".into()));
        let mail: Vec<_> =
            inbox.items.iter().map(|mail| (mail.message.seq.get(), mail.wakes)).collect();
        assert_eq!(mail, [(2, true)]);
    }
    assert_eq!(world.receipts(2).await[0].state, DeliveryState::Pending);
    assert!(look("lead@team").await.unwrap().items.is_empty());
    assert_eq!(code(look("zoe@team").await), Some(Code::NotFound));
    assert_eq!(problem(look("@team").await).message, "name the agent whose inbox to read");
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_prints_is_read_on_from_anywhere() {
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
    let run = world.start(&team("coder lead", "kickoff: '@coder go'")).await;
    let attempt = world.wait_for_report(run, "coder", 1).await.attempt.unwrap();
    let read = async |after| {
        world
            .kernel
            .agents()
            .read_log(&Principal::User, &instance_selector("coder@team"), None, after)
            .await
            .unwrap()
    };
    let whole = read(0).await;
    assert_eq!((whole.attempt, whole.text), (attempt, format!("printed by {attempt}\n")));
    assert!(!whole.ended);
    let rest = read(8).await;
    assert_eq!((rest.text, rest.next), (format!("by {attempt}\n"), whole.next));
    assert_eq!(read(whole.next).await.next, whole.next);
    gate.open();
    world.wait_for_event(run, |event| event.data()["end"] == "ok").await;
    assert!(read(0).await.ended);
    let never = world
        .kernel
        .agents()
        .read_log(&Principal::User, &instance_selector("lead@team"), None, 0)
        .await;
    assert_eq!(problem(never).message, "there is no attempt of `lead` yet");
}

#[tokio::test(start_paused = true)]
async fn figures_tell_what_was_done_and_how_long_it_took() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        worker.pass_time(Duration::from_secs(2)).await;
        match worker.nth {
            1 => ScriptEnd::fails(FailureClass::Fatal),
            _ => ScriptEnd::done("finished"),
        }
    });
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_until_ended(run).await;
    world.pass_time(Duration::from_hours(1)).await;
    let stats = world
        .kernel
        .runs()
        .stats(
            &Principal::User,
            &instance_selector("@team"),
            ListingScope::All,
            &PageRequest::whole(),
        )
        .await
        .unwrap()
        .items;
    let [stats] = &stats[..] else { panic!("{} of them", stats.len()) };
    assert_eq!((stats.run, stats.lasted_ms), (run, 5_000), "up to its end");
    assert_eq!(stats.project, world.view(run).await.project);
    let total = &stats.total;
    assert_eq!((total.turns, total.failed, total.messages), (2, 1, 2));
    let took = total.took.unwrap();
    assert_eq!((took.p50_ms, took.p95_ms, took.max_ms), (2_000, 2_000, 2_000));
    assert_eq!(total.waited.unwrap().max_ms, 3_000, "the second had waited since the kickoff");
    let agents: Vec<_> = stats
        .agents
        .iter()
        .map(|one| (one.name.as_str(), one.stats.turns, one.stats.messages))
        .collect();
    assert_eq!(agents, [("coder", 2, 1), ("lead", 0, 0)]);
    assert_eq!(stats.agents[1].stats.took, None);
}

#[tokio::test(start_paused = true)]
async fn the_state_of_an_agent_is_shown_with_its_start_time() {
    let world = KernelWorld::new().await;
    let gate = ScriptGate::default();
    let waits = gate.clone();
    world.machine.set_worker_script("coder", move |worker| {
        let gate = waits.clone();
        async move {
            match worker.nth {
                1 => gate.wait_open().await,
                _ => return ScriptEnd::rate_limited(worker.now().plus(Duration::from_hours(5))),
            }
            ScriptEnd::quiet()
        }
    });
    let since = async || {
        let detail = why(&world, "coder").await;
        (detail.view.state.to_string(), world.wall_after(detail.state_since.unwrap()))
    };
    let run = world.start(&team("coder", "")).await;
    world.pass_time(Duration::from_secs(10)).await;
    assert_eq!(since().await, ("idle".into(), 0));
    world.send_to_team("@coder go").await;
    world.wait_for_report(run, "coder", 1).await;
    world.pass_time(Duration::from_secs(5)).await;
    assert_eq!(since().await, ("running".into(), 10_000));
    gate.open();
    world.wait_for_event(run, |event| event.data()["end"] == "ok").await;
    world.pass_time(Duration::from_secs(5)).await;
    assert_eq!(since().await, ("idle".into(), 15_000));
    let ended = why(&world, "coder").await.attempts[0].ended_at;
    assert_eq!(ended.map(|ended| world.wall_after(ended)), Some(15_000));
    world.send_to_team("@coder again").await;
    world.wait_for_event(run, |event| event.data()["end"] == "failed").await;
    world.pass_time(Duration::from_secs(10)).await;
    assert_eq!(
        why(&world, "coder").await.state_since.map(|since| world.wall_after(since)),
        Some(20_000)
    );
    within(world.kernel.agents().stop(&Principal::User, &instance_selector("coder")))
        .await
        .unwrap();
    world.pass_time(Duration::from_secs(10)).await;
    assert_eq!(since().await, ("stopped: stopped by the user".into(), 30_000));
    world.stop(run).await.unwrap();
    world.pass_time(Duration::from_secs(10)).await;
    assert_eq!(since().await, ("stopped: its run was stopped".into(), 40_000));
    assert_eq!(world.wall_after(world.view(run).await.state_since), 40_000);
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_long_text_add_up_to_it() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "")).await;
    let long = format!("a{}", "\u{770b}".repeat(20_000));
    world.send_to_team(&long).await;
    let message = world.channel().await.pop().unwrap();
    let id = message.resource.unwrap();
    let read = async |range| {
        world
            .kernel
            .resources()
            .read(&Principal::User, &instance_selector("@team"), id, Some(range))
            .await
            .unwrap()
    };
    let (mut text, mut from) = (String::new(), 0);
    while from < long.len() as u64 {
        let part = read(from..from + 1_000).await;
        assert_eq!((part.start, part.total), (from, long.len() as u64));
        text.push_str(&part.content);
        from = part.end;
    }
    assert!(text == long, "nothing is missing or replaced");
    assert_eq!(
        read(2..3).await.end,
        3,
        "whoever asks for a piece of a character gets on all the same"
    );
    let beyond = read(90_000..91_000).await;
    assert_eq!((beyond.start, beyond.end, beyond.content.as_str()), (60_001, 60_001, ""));
}

#[tokio::test(start_paused = true)]
async fn a_cleared_channel_hides_its_messages_and_keeps_them() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move { worker.hang().await });
    let run = world.start(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.send_to_team("@coder more").await;
    let cleared = world
        .kernel
        .instances()
        .clear(&Principal::User, None, &instance_selector("@team"))
        .await
        .unwrap();
    assert_eq!((cleared.instance.to_string(), cleared.until), ("team".into(), Seq::new(2)));
    world.send_to_team("hello").await;
    let bodies = async |all_runs| {
        let reading = ChannelQuery { all_runs, ..ChannelQuery::default() };
        let read = world
            .kernel
            .messages()
            .list(&Principal::User, &instance_selector("@team"), reading)
            .await
            .unwrap();
        read.items.into_iter().map(|message| message.body).collect::<Vec<_>>()
    };
    assert_eq!(bodies(false).await, ["hello"]);
    assert_eq!(bodies(true).await, ["@coder go", "@coder more", "hello"]);
    let inbox = world
        .kernel
        .inbox()
        .peek(&Principal::User, &instance_selector("coder"), &PageRequest::whole())
        .await
        .unwrap();
    assert_eq!(inbox.items[0].message.body, "@coder more", "what waits still waits");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_removed_leaves_nothing_and_waits_for_those_who_leave() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move { worker.hang().await });
    world.machine.set_exit_delay(Duration::from_secs(4));
    let run = world.start(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    let team = instance_selector("@team");
    let remove = async {
        world.pass_time(Duration::from_secs(1)).await;
        let removed = world.kernel.instances().remove(&Principal::User, &team).await.unwrap();
        (removed.instance.to_string(), world.machine.live_worker_count(), world.after(world.now()))
    };
    let (stopped, removed) = within(async { tokio::join!(world.stop(run), remove) }).await;
    stopped.unwrap();
    assert_eq!(removed, ("team".into(), 0, 4_000));
    assert_eq!(world.machine.erased_runs(), [run]);
    assert_eq!(code(world.kernel.runs().view(&Principal::User, run).await), Some(Code::NotFound));
    let gone = world.kernel.instances().remove(&Principal::User, &team).await;
    assert_eq!(problem(gone).message, "there is no instance `@team`");
}

#[tokio::test(start_paused = true)]
async fn instances_are_listed_near_or_everywhere() {
    let world = KernelWorld::new().await;
    let live = world.start(&team("coder", "")).await;
    let over = world.begin_run(RunMode::Start, "other", &team("coder", "")).await.unwrap().run;
    world.stop(over).await.unwrap();
    let list = async |project: Option<&std::path::Path>, breadth| {
        let place = InstanceSelector { target: None, project: project.map(Into::into) };
        let views = world
            .kernel
            .instances()
            .list(&Principal::User, &place, breadth, &PageRequest::whole())
            .await
            .unwrap()
            .items;
        let shown = |view: agent_worker_protocol::api::InstanceView| {
            (view.instance.to_string(), view.live, view.last)
        };
        views.into_iter().map(shown).collect::<Vec<_>>()
    };
    let team = ("team".to_owned(), Some(live), Some(live));
    assert_eq!(list(Some(world.folder()), ListingScope::Live).await, std::slice::from_ref(&team));
    assert!(list(Some("/elsewhere".as_ref()), ListingScope::Live).await.is_empty());
    assert_eq!(list(None, ListingScope::All).await, [team, ("other".to_owned(), None, Some(over))]);
}

#[tokio::test(start_paused = true)]
async fn the_store_is_looked_through_and_found_sound() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "kickoff: hello")).await;
    world.pass_time(Duration::from_millis(1)).await;
    let report = world.kernel.health().check_store(&Principal::User).await.unwrap();
    assert_eq!((report.instances, report.messages, report.problems.len()), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn feedback_about_the_program_is_kept_with_its_author() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        let (kernel, who) = worker.principal().await.unwrap();
        let request = FeedbackRequest { message: "too slow".into() };
        kernel.feedback().submit(&who, None, request).await.unwrap();
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_until_ended(run).await;
    let say = async |message: String| {
        world.kernel.feedback().submit(&Principal::User, None, FeedbackRequest { message }).await
    };
    say("nice".into()).await.unwrap();
    assert_eq!(code(say("  ".into()).await), Some(Code::BadRequest));
    assert_eq!(code(say("x".repeat(64 * 1024 + 1)).await), Some(Code::TooLarge));
    let said = world.kernel.feedback().list(&Principal::User, &PageRequest::whole()).await.unwrap();
    let said: Vec<_> = said
        .items
        .iter()
        .map(|one| (&*one.by, one.instance.as_ref().map(ToString::to_string), &*one.message))
        .collect();
    assert_eq!(said, [("user", None, "nice"), ("coder", Some("team".into()), "too slow")]);
}

#[tokio::test(start_paused = true)]
async fn every_live_run_is_listed_however_many_there_are() {
    let world = KernelWorld::new().await;
    for n in 0..101 {
        world.begin_run(RunMode::Start, &format!("w{n}"), &team("coder", "")).await.unwrap();
    }
    let everywhere = InstanceSelector::default();
    let all = world
        .kernel
        .runs()
        .list(&Principal::User, &everywhere, ListingScope::All, &PageRequest::whole())
        .await
        .unwrap()
        .items;
    assert_eq!(all.len(), 101);
    let idle = all.iter().flat_map(|run| &run.agents).all(|one| one.state == AgentState::Idle);
    assert!(idle);
}

#[tokio::test(start_paused = true)]
async fn the_agents_of_an_older_run_are_unknown_and_not_an_empty_list() {
    let world = KernelWorld::new().await;
    let old = world.start(&team("coder", "")).await;
    world.stop(old).await.unwrap();
    let new = world.start(&team("coder", "")).await;
    let keys = async |run| serde_json::to_value(world.view(run).await).unwrap();
    assert_eq!(keys(old).await.get("agents"), None);
    assert_eq!(keys(new).await["agents"][0]["name"], "coder");
}
