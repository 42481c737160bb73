//! Tests of watches: every stored event once, in order, from any start position.

use std::time::Duration;

use agent_worker_kernel::{Principal, WatchSubject};
use agent_worker_protocol::{Event, EventBody, EventKind, Position, RunId, WorkerEvent};
use agent_worker_store::RunStore as _;

use crate::{
    scripted_worker::{ScriptEnd, ScriptGate},
    world::{KernelWorld, instance_selector, team, within},
};

/// Returns the events of a watch that starts after `after`, until it ends.
async fn seen(world: &KernelWorld, run: RunId, after: Option<Position>) -> Vec<Event> {
    let watched = WatchSubject::Run(run);
    let mut feed = world.kernel.runs().watch(&Principal::User, watched, after).await.unwrap();
    within(async {
        let mut events = Vec::new();
        while let Some(event) = feed.next().await.unwrap() {
            events.push(event);
        }
        events
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumed_anywhere_sees_every_stored_event_once_and_in_order() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("lead", |worker| async move {
        worker.send("@coder go").await.unwrap();
        worker.pass_time(Duration::from_secs(1)).await;
        ScriptEnd::done("asked")
    });
    let run = world.run(&team("lead coder", "kickoff: '@lead go'")).await;
    let live = seen(&world, run, None).await;
    let positions: Vec<_> = live.iter().map(|event| event.pos.unwrap().get()).collect();
    assert_eq!(positions, (1..=i64::try_from(live.len()).unwrap()).collect::<Vec<_>>());
    assert_eq!(live.last().unwrap().kind(), Some(EventKind::RunEnded));
    for from in 0..=live.len() {
        let after = Position::new(i64::try_from(from).unwrap());
        assert_eq!(seen(&world, run, Some(after)).await, live[from..], "after {from}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_more_than_a_page_of_events_misses_none() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        for n in 0..600 {
            worker.post_event(WorkerEvent::Retry { why: n.to_string() }).await.unwrap();
        }
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    for events in [seen(&world, run, None).await, seen(&world, run, None).await] {
        let retries: Vec<_> = events
            .iter()
            .filter(|event| event.kind() == Some(EventKind::Retry))
            .map(|event| event.data()["why"].as_str().unwrap().parse::<u32>().unwrap())
            .collect();
        assert_eq!(retries, (0..600).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_the_end_even_when_it_comes_while_the_page_is_turned() {
    let world = KernelWorld::new().await;
    let gate = ScriptGate::default();
    let go = gate.clone();
    world.machine.set_worker_script("coder", move |_| {
        let gate = gate.clone();
        async move {
            gate.wait_open().await;
            ScriptEnd::quiet()
        }
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    let last = world.wait_for_report(run, "coder", 1).await.pos;
    // The watch reads an empty page; the run ends before the watch reads the state of the run.
    let page = world.store.withhold_answer("event_list");
    let watched = WatchSubject::Run(run);
    let mut feed = world.kernel.runs().watch(&Principal::User, watched, last).await.unwrap();
    let end = async {
        page.reached().await;
        go.open();
        assert_eq!(world.events_of(run).await.last().unwrap().kind(), Some(EventKind::RunEnded));
        page.release();
    };
    let kinds = Box::pin(async {
        let mut kinds = Vec::new();
        while let Some(event) = feed.next().await.unwrap() {
            kinds.push(event.kind().unwrap());
        }
        kinds
    });
    let (kinds, ()) = within(async { tokio::join!(kinds, end) }).await;
    assert_eq!(kinds, [EventKind::AttemptEnded, EventKind::RunEnded]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_seen_after_the_end_of_a_run() {
    let world = KernelWorld::new().await;
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_until_ended(run).await;
    let late = world.store.event_append(run, EventBody::Heartbeat, None, world.now());
    late.await.unwrap_err();
    assert_eq!(seen(&world, run, None).await.last().unwrap().kind(), Some(EventKind::RunEnded));
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_watched_from_now_on_with_what_is_live_in_between() {
    let world = KernelWorld::new().await;
    let (watched, seen) = (ScriptGate::default(), ScriptGate::default());
    let gates = (watched.clone(), seen.clone());
    world.machine.set_worker_script("coder", move |worker| {
        let (watched, seen) = gates.clone();
        async move {
            watched.wait_open().await;
            worker.heartbeat().await.unwrap();
            seen.wait_open().await;
            ScriptEnd::quiet()
        }
    });
    let run = world.run(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    let instance = WatchSubject::Instance(instance_selector("@team"));
    let mut feed = world.kernel.runs().watch(&Principal::User, instance, None).await.unwrap();
    let mut next = async || within(feed.next()).await.unwrap().unwrap();
    watched.open();
    let heartbeat = next().await;
    assert_eq!(
        (heartbeat.kind(), heartbeat.pos),
        (Some(EventKind::Heartbeat), None),
        "it is not stored"
    );
    seen.open();
    let stored =
        [next().await, next().await].map(|event| (event.kind().unwrap(), event.pos.is_some()));
    assert_eq!(stored, [(EventKind::AttemptEnded, true), (EventKind::RunEnded, true)]);
}

#[tokio::test(start_paused = true)]
async fn an_agents_watch_ends_with_its_attempt() {
    let world = KernelWorld::new().await;
    let (send, mut feeds) = tokio::sync::mpsc::unbounded_channel();
    let leave = ScriptGate::default();
    let gate = leave.clone();
    world.machine.set_worker_script("coder", move |worker| {
        let (send, gate) = (send.clone(), gate.clone());
        async move {
            let (kernel, who) = worker.principal().await.unwrap();
            let instance = WatchSubject::Instance(instance_selector("@team"));
            send.send(kernel.runs().watch(&who, instance, None).await.ok()).unwrap();
            gate.wait_open().await;
            ScriptEnd::quiet()
        }
    });
    world.start(&team("coder", "kickoff: '@coder go'")).await;
    let mut feed = within(feeds.recv()).await.unwrap().unwrap();
    world.send_to_team("anything").await;
    let heard = within(feed.next()).await.unwrap().unwrap();
    assert_eq!(heard.kind(), Some(EventKind::Message));
    leave.open();
    while let Some(event) = within(feed.next()).await.unwrap() {
        assert_ne!(event.kind(), Some(EventKind::AttemptEnded), "it lives no more");
    }
}

/// Needs real time: the store's threads race with each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_view_of_a_run_has_the_effects_of_the_events_up_to_its_position_and_no_others() {
    let world = KernelWorld::on_disk().await;
    let run = world.start(&team("coder", "")).await;
    let kernel = world.kernel.clone();
    let mut sending = tokio::task::JoinSet::new();
    sending.spawn(async move {
        for n in 0..400 {
            let note = crate::world::send_request(Some("@team"), &format!("note {n}"));
            kernel.messages().send(&Principal::User, None, note).await.unwrap();
        }
    });
    let mut views = Vec::new();
    while sending.try_join_next().is_none() {
        views.push(world.view(run).await);
    }
    let watched = WatchSubject::Run(run);
    let mut feed = world.kernel.runs().watch(&Principal::User, watched, None).await.unwrap();
    let mut sent = Vec::new();
    while sent.len() < 400 {
        let event = feed.next().await.unwrap().unwrap();
        if event.kind() == Some(EventKind::Message) {
            sent.push(event.pos.unwrap());
        }
    }
    let between = views.iter().filter(|view| view.messages > 0 && view.messages < 400).count();
    assert!(
        between > 10,
        "only {between} of {} views were made while messages were sent",
        views.len()
    );
    for view in views {
        let included = sent.iter().filter(|position| **position <= view.position).count();
        assert_eq!(view.messages as usize, included, "at {:?}", view.position);
    }
}
