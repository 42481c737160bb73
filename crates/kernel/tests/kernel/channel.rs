//! Reading on, and saying something twice by mistake.

use std::time::Duration;

use agent_worker_kernel::{Error, Principal, Reading};
use agent_worker_protocol::{
    Code, DeliveryState, EffectKey, Priority, Seq,
    api::{SendReply, SendRequest},
};
use agent_worker_store::Store as _;
use serde_json::json;

use crate::{
    joining::{mock, new},
    patient::Fault,
    worker::End,
    world::{World, code, place, request, team, within},
};

/// The bodies a reader is given.
async fn bodies(world: &World, since: Option<i64>, limit: u32) -> Vec<String> {
    let since = since.map(Seq::new);
    let reading = Reading { since, limit: Some(limit), ..Reading::default() };
    let read = world.kernel.messages(&Principal::User, &place("@team"), reading).await.unwrap();
    read.messages.into_iter().map(|message| message.body).collect()
}

#[tokio::test(start_paused = true)]
async fn whoever_reads_on_gets_the_oldest_they_have_not_seen_and_jumps_over_nothing() {
    let world = World::new().await;
    world.start(&team("coder", "kickoff: one")).await;
    world.pass(Duration::from_millis(1)).await;
    for body in ["two", "three", "four", "five"] {
        world.say(body).await;
    }
    assert_eq!(bodies(&world, None, 2).await, ["four", "five"], "the newest, oldest first");
    assert_eq!(bodies(&world, Some(0), 2).await, ["one", "two"]);
    assert_eq!(bodies(&world, Some(2), 2).await, ["three", "four"]);
    assert_eq!(bodies(&world, Some(4), 2).await, ["five"]);
    assert!(bodies(&world, Some(5), 2).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn where_a_message_stands_is_told_to_its_sender_and_to_the_user() {
    let world = World::new().await;
    world.machine.plays("coder", |worker| async move {
        let sent = worker.send("@lead look").await.unwrap().seq;
        let (kernel, who) = worker.principal().await.unwrap();
        let place = agent_worker_kernel::Place::default();
        let reading = Reading { receipts: true, ..Reading::default() };
        let read = kernel.messages(&who, &place, reading).await.unwrap();
        let told: Vec<_> = read.receipts.iter().map(|one| (one.seq, one.agent.as_str())).collect();
        assert_eq!((read.messages.len(), told), (2, vec![(sent, "lead")]), "its own alone");
        assert_eq!(kernel.receipts(&who, &place, sent).await.unwrap().receipts, read.receipts);
        assert_eq!(code(kernel.receipts(&who, &place, Seq::new(1)).await), Some(Code::Forbidden));
        End::quiet()
    });
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.over(run).await;
    let reading = Reading { receipts: true, ..Reading::default() };
    let read = world.kernel.messages(&Principal::User, &place("@team"), reading).await.unwrap();
    let told: Vec<_> = read.receipts.iter().map(|one| (one.seq.get(), one.state)).collect();
    assert_eq!(told, [(1, DeliveryState::Acted), (2, DeliveryState::Acted)], "the user's are all");
}

#[tokio::test(start_paused = true)]
async fn a_thread_is_read_whole_and_not_searched() {
    let world = World::new().await;
    world.start(&team("coder", "kickoff: one")).await;
    world.pass(Duration::from_millis(1)).await;
    world.say("two").await;
    let reply = SendRequest { reply_to: Some(Seq::new(1)), ..request(Some("@team"), "three") };
    world.kernel.send(&Principal::User, None, reply).await.unwrap();
    let thread = Reading { thread: Some(Seq::new(1)), ..Reading::default() };
    let (user, at) = (&Principal::User, &place("@team"));
    let bodies = world.kernel.messages(user, at, thread.clone()).await.unwrap().messages;
    let bodies: Vec<_> = bodies.iter().map(|one| one.body.as_str()).collect();
    assert_eq!(bodies, ["one", "three"]);
    let searched = Reading { search: Some("one".to_owned()), ..thread };
    let searched = world.kernel.messages(user, at, searched).await;
    assert_eq!(code(searched), Some(Code::BadRequest));
    let none = Reading { thread: Some(Seq::new(9)), ..Reading::default() };
    assert_eq!(code(world.kernel.messages(user, at, none).await), Some(Code::NotFound));
}

/// The user says `message` in the team's channel, under `key`.
async fn say_once(world: &World, key: &str, message: &str) -> Result<SendReply, Error> {
    let key = EffectKey::new(key.to_owned(), "message", &json!({ "message": message }));
    let request = request(Some("@team"), message);
    world.kernel.send(&Principal::User, Some(key), request).await
}

#[tokio::test(start_paused = true)]
async fn a_send_repeated_after_the_end_of_its_run_gets_its_first_answer() {
    let world = World::new().await;
    world.machine.plays("coder", |worker| async move { worker.hang().await });
    let run = world.run(&team("coder lead", "kickoff: '@coder go'")).await;
    world.working(run, "coder", 1).await;
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
async fn a_send_to_somebody_who_joined_is_repeated_like_any_other_after_the_end() {
    let world = World::new().await;
    let run = world.start(&team("coder", "")).await;
    new(&world, mock(Some("bob"), Some("@team"))).await.unwrap();
    let first = say_once(&world, "k1", "@bob hello").await.unwrap();
    world.stop(run).await.unwrap();
    let again = say_once(&world, "k1", "@bob hello").await.unwrap();
    assert_eq!(again, SendReply { deduplicated: true, ..first });
}

#[tokio::test(start_paused = true)]
async fn a_send_to_a_run_that_is_over_and_forgotten_is_refused_as_any_other() {
    let world = World::new().await;
    let file = team("coder", "context: { provider: memory }\nkickoff: '@coder go'");
    let run = world.run(&file).await;
    world.over(run).await;
    world.pass(Duration::from_secs(11)).await;
    assert!(world.channel().await.is_empty());
    assert_eq!(code(say_once(&world, "k1", "@coder hello").await), Some(Code::NoRun));
}

#[tokio::test(start_paused = true)]
async fn what_many_say_is_soon_ready_to_be_searched_and_found_newest_first() {
    let world = World::new().await;
    world.start(&team("coder", "kickoff: one")).await;
    for n in 0..520 {
        world.say(&format!("needle {n}")).await;
    }
    let nothing_more = 0;
    within(async {
        while world.store.message_index(nothing_more).await.unwrap() {
            world.pass(Duration::from_millis(10)).await;
        }
    })
    .await;
    let took = world.after(world.now());
    assert!(took < 5_000, "{took} ms");
    let reading = Reading { search: Some("NEEDLE 51".into()), ..Reading::default() };
    let found = world.kernel.messages(&Principal::User, &place("@team"), reading).await.unwrap();
    let bodies: Vec<_> = found.messages.iter().map(|message| message.body.as_str()).collect();
    assert_eq!((bodies[0], bodies[1], bodies.len()), ("needle 519", "needle 518", 11));
}

#[tokio::test(start_paused = true)]
async fn while_somebody_speaks_nothing_is_made_ready_to_be_searched() {
    let world = World::new().await;
    world.start(&team("coder", "kickoff: one")).await;
    world.store.spoil("message_index", Fault::Broken);
    for n in 0..600 {
        world.say(&format!("needle {n}")).await;
        world.pass(Duration::from_millis(10)).await;
    }
    assert!(!world.store.has_spoilt_all(), "asked for meanwhile");
    world.pass(Duration::from_millis(200)).await;
    assert!(world.store.has_spoilt_all(), "asked for as soon as nobody speaks");
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_as_urgent_is_first_in_the_inbox_without_an_urgent_word() {
    let world = World::new().await;
    world.machine.plays("coder", |worker| async move { worker.hang().await });
    let run = world.start(&team("coder", "kickoff: '@coder go'")).await;
    world.working(run, "coder", 1).await;
    world.say("@coder when you can").await;
    let mut urgent = request(Some("@team"), "@coder now");
    urgent.priority = Priority::High;
    world.kernel.send(&Principal::User, None, urgent).await.unwrap();
    let inbox = world.kernel.inbox_look(&Principal::User, &place("coder")).await.unwrap();
    let order: Vec<_> = inbox.messages.iter().map(|mail| mail.message.seq.get()).collect();
    assert_eq!(order, [3, 2]);
}
