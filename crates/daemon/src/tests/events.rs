//! The event log as a stream: in order, without a gap, and with an end.

use std::time::Duration;

use agent_worker_host::EventStream;
use agent_worker_kernel::Principal;
use agent_worker_protocol::{
    EventKind,
    api::{SendReply, SendRequest},
};
use serde_json::json;
use tokio::time::timeout;

use super::house::House;

const DEADLINE: Duration = Duration::from_secs(20);

async fn say(house: &House, text: &str) -> SendReply {
    let request: SendRequest =
        serde_json::from_value(json!({"target": "@team", "message": text})).unwrap();
    house.kernel.send(&Principal::User, None, request).await.unwrap()
}

/// Reads up to and including the message `text`: the id of each event and, for messages, what was said.
async fn until(events: &mut EventStream, text: &str) -> Vec<(String, EventKind)> {
    let mut seen = Vec::new();
    loop {
        let next = timeout(DEADLINE, events.next()).await.unwrap().unwrap();
        let (id, event) = next.unwrap();
        assert_eq!(event.pos.unwrap().to_string(), id);
        seen.push((id, event.kind));
        if event.kind == EventKind::Message && event.data["body"] == text {
            return seen;
        }
    }
}

#[tokio::test]
async fn a_reader_that_was_cut_goes_on_without_a_gap() {
    let house = House::open().await;
    let path = format!("/events?run={}", house.run);
    for n in 0..300 {
        say(&house, &format!("m{n}")).await;
    }
    let mut whole = house.user().events(&path, None).await.unwrap();
    let whole = until(&mut whole, "m299").await;
    let ids: Vec<i64> = whole.iter().map(|(id, _)| id.parse().unwrap()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");

    let mut first = house.user().events(&path, None).await.unwrap();
    let mut pieces = until(&mut first, "m150").await;
    drop(first);
    let last = pieces.last().unwrap().0.clone();
    let mut second = house.user().events(&path, Some(last.clone())).await.unwrap();
    pieces.extend(until(&mut second, "m299").await);
    assert_eq!(pieces, whole);

    let by_query = format!("{path}&after={last}");
    let mut third = house.user().events(&by_query, None).await.unwrap();
    let rest = whole.iter().position(|(id, _)| *id == last).unwrap() + 1;
    assert_eq!(until(&mut third, "m299").await, whole[rest..]);
}

#[tokio::test]
async fn a_watch_of_an_instance_begins_now_and_hears_what_comes() {
    let house = House::open().await;
    say(&house, "before").await;
    let mut events = house.user().events("/events?target=@team", None).await.unwrap();
    say(&house, "after").await;
    let seen = until(&mut events, "after").await;
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[tokio::test]
async fn a_runs_stream_ends_with_the_run() {
    let house = House::open().await;
    let path = format!("/events?run={}", house.run);
    let mut events = house.user().events(&path, None).await.unwrap();
    house.kernel.run_stop(&Principal::User, house.run).await.unwrap();
    let mut last = None;
    while let Some((_, event)) = timeout(DEADLINE, events.next()).await.unwrap().unwrap() {
        last = Some(event.kind);
    }
    assert_eq!(last, Some(EventKind::RunEnded));
}

#[tokio::test]
async fn streams_end_when_the_doors_close() {
    let house = House::open().await;
    let mut events = house.user().events("/events?target=@team", None).await.unwrap();
    house.shutdown.close_streams();
    assert!(timeout(DEADLINE, events.next()).await.unwrap().unwrap().is_none());
}
