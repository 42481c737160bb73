//! Tests of continued reads and repeated sends.

use std::time::Duration;

use agent_worker_kernel::{ChannelPosition, ChannelQuery, Error, PageRequest, Principal};
use agent_worker_protocol::{
    Code, DeliveryState, EffectKey, Millis, Priority, Seq,
    api::{SendReply, SendRequest},
};
use agent_worker_store::MessageStore as _;
use serde_json::json;

use crate::{
    agent_join::{mock_agent_request, new_agent},
    paused_clock_store::InjectedFault,
    scripted_worker::ScriptEnd,
    world::{KernelWorld, code, instance_selector, send_request, team, within},
};

/// Returns the bodies of a channel read.
async fn bodies(world: &KernelWorld, since: Option<i64>, limit: u32) -> Vec<String> {
    bodies_since(world, since.map(|seq| ChannelPosition::Seq(Seq::new(seq))), limit).await
}

async fn bodies_since(
    world: &KernelWorld,
    since: Option<ChannelPosition>,
    limit: u32,
) -> Vec<String> {
    let page = PageRequest::new(Some(limit), None).unwrap();
    let reading = ChannelQuery { since, page, ..ChannelQuery::default() };
    let read = world
        .kernel
        .messages()
        .list(&Principal::User, &instance_selector("@team"), reading)
        .await
        .unwrap();
    read.items.into_iter().map(|message| message.body).collect()
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_continues_gets_the_oldest_unseen_messages_without_a_gap() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "kickoff: one")).await;
    world.pass_time(Duration::from_millis(1)).await;
    for body in ["two", "three", "four", "five"] {
        world.send_to_team(body).await;
    }
    assert_eq!(bodies(&world, None, 2).await, ["four", "five"], "the newest, oldest first");
    assert_eq!(bodies(&world, Some(0), 2).await, ["one", "two"]);
    assert_eq!(bodies(&world, Some(2), 2).await, ["three", "four"]);
    assert_eq!(bodies(&world, Some(4), 2).await, ["five"]);
    assert!(bodies(&world, Some(5), 2).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_time_with_a_limit_returns_the_first_messages_after_it_and_the_reader_continues() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "kickoff: one")).await;
    world.pass_time(Duration::from_secs(1)).await;
    let time = world.now().wall;
    world.pass_time(Duration::from_secs(1)).await;
    for body in ["two", "three", "four", "five"] {
        world.send_to_team(body).await;
    }
    let since = async |since| bodies_since(&world, Some(since), 2).await;
    assert_eq!(since(ChannelPosition::Time(time)).await, ["two", "three"]);
    assert_eq!(since(ChannelPosition::Seq(Seq::new(3))).await, ["four", "five"]);
    assert_eq!(since(ChannelPosition::Time(Millis::new(0))).await, ["one", "two"]);
    assert!(since(ChannelPosition::Time(world.now().wall)).await.is_empty());
    let thread = ChannelQuery {
        thread: Some(Seq::new(1)),
        since: Some(ChannelPosition::Time(time)),
        ..ChannelQuery::default()
    };
    let place = instance_selector("@team");
    let read = world.kernel.messages().list(&Principal::User, &place, thread).await.unwrap();
    assert!(read.items.is_empty(), "the whole thread is older");
}

#[tokio::test(start_paused = true)]
async fn receipts_of_a_message_are_shown_to_its_sender_and_to_the_user() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move {
        let sent = worker.send("@lead look").await.unwrap().seq;
        let (kernel, who) = worker.principal().await.unwrap();
        let place = agent_worker_kernel::InstanceSelector::default();
        let reading = ChannelQuery { receipts: true, ..ChannelQuery::default() };
        let read = kernel.messages().list(&who, &place, reading).await.unwrap();
        let told: Vec<_> = read.receipts.iter().map(|one| (one.seq, one.agent.as_str())).collect();
        assert_eq!((read.items.len(), told), (2, vec![(sent, "lead")]), "its own alone");
        assert_eq!(
            kernel
                .messages()
                .receipts(&who, &place, sent, &PageRequest::whole())
                .await
                .unwrap()
                .items,
            read.receipts
        );
        assert_eq!(
            code(
                kernel.messages().receipts(&who, &place, Seq::new(1), &PageRequest::whole()).await
            ),
            Some(Code::Forbidden)
        );
        ScriptEnd::quiet()
    });
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_until_ended(run).await;
    let reading = ChannelQuery { receipts: true, ..ChannelQuery::default() };
    let read = world
        .kernel
        .messages()
        .list(&Principal::User, &instance_selector("@team"), reading)
        .await
        .unwrap();
    let told: Vec<_> = read.receipts.iter().map(|one| (one.seq.get(), one.state)).collect();
    assert_eq!(told, [(1, DeliveryState::Acted), (2, DeliveryState::Acted)], "the user's are all");
}

#[tokio::test(start_paused = true)]
async fn a_thread_is_read_whole_and_not_searched() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "kickoff: one")).await;
    world.pass_time(Duration::from_millis(1)).await;
    world.send_to_team("two").await;
    let reply = SendRequest { reply_to: Some(Seq::new(1)), ..send_request(Some("@team"), "three") };
    world.kernel.messages().send(&Principal::User, None, reply).await.unwrap();
    let thread = ChannelQuery { thread: Some(Seq::new(1)), ..ChannelQuery::default() };
    let (user, at) = (&Principal::User, &instance_selector("@team"));
    let bodies = world.kernel.messages().list(user, at, thread.clone()).await.unwrap().items;
    let bodies: Vec<_> = bodies.iter().map(|one| one.body.as_str()).collect();
    assert_eq!(bodies, ["one", "three"]);
    let searched = ChannelQuery { search: Some("one".to_owned()), ..thread };
    let searched = world.kernel.messages().list(user, at, searched).await;
    assert_eq!(code(searched), Some(Code::BadRequest));
    let none = ChannelQuery { thread: Some(Seq::new(9)), ..ChannelQuery::default() };
    assert_eq!(code(world.kernel.messages().list(user, at, none).await), Some(Code::NotFound));
}

/// Sends `message` as the user to the team's channel, with the key `key`.
async fn say_once(world: &KernelWorld, key: &str, message: &str) -> Result<SendReply, Error> {
    let key = EffectKey::new(key.to_owned(), "message", &json!({ "message": message }));
    let request = send_request(Some("@team"), message);
    world.kernel.messages().send(&Principal::User, Some(key), request).await
}

#[tokio::test(start_paused = true)]
async fn a_send_repeated_after_the_end_of_its_run_gets_its_first_answer() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move { worker.hang().await });
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    let first = say_once(&world, "k1", "@lead hello").await.unwrap();
    assert!(!first.deduplicated);
    world.stop(run).await.unwrap();
    let again = say_once(&world, "k1", "@lead hello").await.unwrap();
    assert_eq!(again, SendReply { deduplicated: true, ..first });
    assert_eq!(world.channel().await.len(), 2, "it is said once");
    assert_eq!(code(say_once(&world, "k1", "@lead bye").await), Some(Code::Conflict));
    assert_eq!(code(say_once(&world, "k2", "@lead hello").await), Some(Code::NoRun));
}

#[tokio::test(start_paused = true)]
async fn a_send_to_an_agent_that_joined_is_repeated_like_any_other_after_the_end() {
    let world = KernelWorld::new().await;
    let run = world.start(&team("coder", "")).await;
    new_agent(&world, mock_agent_request(Some("bob"), Some("@team"))).await.unwrap();
    let first = say_once(&world, "k1", "@bob hello").await.unwrap();
    world.stop(run).await.unwrap();
    let again = say_once(&world, "k1", "@bob hello").await.unwrap();
    assert_eq!(again, SendReply { deduplicated: true, ..first });
}

#[tokio::test(start_paused = true)]
async fn a_send_to_a_run_that_is_over_and_forgotten_is_refused_as_any_other() {
    let world = KernelWorld::new().await;
    let file = team("coder", "context: { provider: memory }\nkickoff: '@coder go'");
    let run = world.run(&file).await;
    world.wait_until_ended(run).await;
    world.pass_time(Duration::from_secs(11)).await;
    assert!(world.channel().await.is_empty());
    assert_eq!(code(say_once(&world, "k1", "@coder hello").await), Some(Code::NoRun));
}

#[tokio::test(start_paused = true)]
async fn what_many_say_is_soon_ready_to_be_searched_and_found_newest_first() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "kickoff: one")).await;
    for n in 0..520 {
        world.send_to_team(&format!("needle {n}")).await;
    }
    let nothing_more = 0;
    within(async {
        while world.store.message_index(nothing_more).await.unwrap() {
            world.pass_time(Duration::from_millis(10)).await;
        }
    })
    .await;
    let took = world.after(world.now());
    assert!(took < 5_000, "{took} ms");
    let reading = ChannelQuery { search: Some("NEEDLE 51".into()), ..ChannelQuery::default() };
    let found = world
        .kernel
        .messages()
        .list(&Principal::User, &instance_selector("@team"), reading)
        .await
        .unwrap();
    let bodies: Vec<_> = found.items.iter().map(|message| message.body.as_str()).collect();
    assert_eq!((bodies[0], bodies[1], bodies.len()), ("needle 519", "needle 518", 11));
}

#[tokio::test(start_paused = true)]
async fn no_message_is_indexed_while_new_messages_arrive() {
    let world = KernelWorld::new().await;
    world.start(&team("coder", "kickoff: one")).await;
    world.store.inject_fault("message_index", InjectedFault::Broken);
    for n in 0..600 {
        world.send_to_team(&format!("needle {n}")).await;
        world.pass_time(Duration::from_millis(10)).await;
    }
    assert!(!world.store.has_injected_all(), "asked for meanwhile");
    world.pass_time(Duration::from_millis(200)).await;
    assert!(world.store.has_injected_all(), "asked for as soon as nobody speaks");
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_as_urgent_is_first_in_the_inbox_without_an_urgent_word() {
    let world = KernelWorld::new().await;
    world.machine.set_worker_script("coder", |worker| async move { worker.hang().await });
    let run = world.start(&team("coder", "kickoff: '@coder go'")).await;
    world.wait_for_report(run, "coder", 1).await;
    world.send_to_team("@coder when you can").await;
    let mut urgent = send_request(Some("@team"), "@coder now");
    urgent.priority = Priority::High;
    world.kernel.messages().send(&Principal::User, None, urgent).await.unwrap();
    let inbox = world
        .kernel
        .inbox()
        .peek(&Principal::User, &instance_selector("coder"), &PageRequest::whole())
        .await
        .unwrap();
    let order: Vec<_> = inbox.items.iter().map(|mail| mail.message.seq.get()).collect();
    assert_eq!(order, [3, 2]);
}
