//! Tests of the event stream: in order, without a gap, and with an end.

use std::time::Duration;

use agent_worker_host::{DialError, EventStream};
use agent_worker_kernel::Principal;
use agent_worker_protocol::{
    Code, EventKind,
    api::{SendReply, SendRequest},
};
use serde_json::json;
use tokio::time::timeout;

use super::fixture::{DaemonFixture, ManualTime, TestRequest};
use crate::write_timeout::PEER_TIMEOUT;

const DEADLINE: Duration = Duration::from_secs(20);

async fn send_message(fixture: &DaemonFixture, text: &str) -> SendReply {
    let request: SendRequest =
        serde_json::from_value(json!({"target": "@team", "message": text})).unwrap();
    fixture.kernel.messages().send(&Principal::User, None, request).await.unwrap()
}

/// Reads up to and including the message `text`; returns the id and the kind of each event.
async fn read_until_message(events: &mut EventStream, text: &str) -> Vec<(String, EventKind)> {
    let mut seen = Vec::new();
    loop {
        let next = timeout(DEADLINE, events.next()).await.unwrap().unwrap();
        let (id, event) = next.unwrap();
        assert_eq!(event.pos.unwrap().to_string(), id);
        seen.push((id, event.kind().unwrap()));
        if event.kind() == Some(EventKind::Message) && event.data()["body"] == text {
            return seen;
        }
    }
}

#[tokio::test]
async fn a_reader_that_was_cut_goes_on_without_a_gap() {
    let fixture = DaemonFixture::open().await;
    let path = format!("/events?run={}", fixture.run);
    for n in 0..300 {
        send_message(&fixture, &format!("m{n}")).await;
    }
    let mut whole = fixture.user().events(&path, None).await.unwrap();
    let whole = read_until_message(&mut whole, "m299").await;
    let ids: Vec<i64> = whole.iter().map(|(id, _)| id.parse().unwrap()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");

    let mut first = fixture.user().events(&path, None).await.unwrap();
    let mut pieces = read_until_message(&mut first, "m150").await;
    drop(first);
    let last = pieces.last().unwrap().0.clone();
    let mut second = fixture.user().events(&path, Some(last.clone())).await.unwrap();
    pieces.extend(read_until_message(&mut second, "m299").await);
    assert_eq!(pieces, whole);

    let by_query = format!("{path}&after={last}");
    let mut third = fixture.user().events(&by_query, None).await.unwrap();
    let rest = whole.iter().position(|(id, _)| *id == last).unwrap() + 1;
    assert_eq!(read_until_message(&mut third, "m299").await, whole[rest..]);
}

#[tokio::test]
async fn a_watch_of_an_instance_begins_now_and_receives_later_events() {
    let fixture = DaemonFixture::open().await;
    send_message(&fixture, "before").await;
    let mut events = fixture.user().events("/events?target=@team", None).await.unwrap();
    send_message(&fixture, "after").await;
    let seen = read_until_message(&mut events, "after").await;
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[tokio::test]
async fn a_reader_that_was_cut_off_before_its_first_event_resumes_without_a_gap() {
    let fixture = DaemonFixture::open().await;
    send_message(&fixture, "before").await;
    let first = fixture.user().events("/events?target=@team", None).await.unwrap();
    let start = first.last_id().to_owned();
    drop(first);
    send_message(&fixture, "while away").await;
    let mut second = fixture.user().events("/events?target=@team", Some(start)).await.unwrap();
    let seen = read_until_message(&mut second, "while away").await;
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[tokio::test]
async fn a_runs_stream_ends_with_the_run() {
    let fixture = DaemonFixture::open().await;
    let path = format!("/events?run={}", fixture.run);
    let mut events = fixture.user().events(&path, None).await.unwrap();
    fixture.kernel.runs().stop(&Principal::User, fixture.run).await.unwrap();
    let mut last = None;
    while let Some((_, event)) = timeout(DEADLINE, events.next()).await.unwrap().unwrap() {
        last = event.kind();
    }
    assert_eq!(last, Some(EventKind::RunEnded));
}

#[tokio::test]
async fn streams_end_at_shutdown() {
    let fixture = DaemonFixture::open().await;
    let mut events = fixture.user().events("/events?target=@team", None).await.unwrap();
    fixture.shutdown.close_streams();
    assert!(timeout(DEADLINE, events.next()).await.unwrap().unwrap().is_none());
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_delays_no_other_reader_and_continues_without_a_gap() {
    let fixture = DaemonFixture::open().await;
    let token = fixture.client_token().await;
    let clock = ManualTime::start();
    let path = format!("/events?run={}", fixture.run);
    let events = async |after| fixture.client(&token).events(&path, after).await.unwrap();
    let mut stalled = events(None).await;
    let mut other = events(None).await;
    let open = fixture.tasks();
    // More data than all buffers together hold.
    let long = "x".repeat(16 * 1024);
    for n in 0..300 {
        send_message(&fixture, &format!("{n} {long}")).await;
    }
    send_message(&fixture, "last").await;
    let whole = read_until_message(&mut other, "last").await;
    for _ in 0..1000 {
        if fixture.tasks() < open {
            break;
        }
        clock.advance(PEER_TIMEOUT).await;
    }
    assert_eq!(fixture.tasks(), open - 1, "it was cut, and nobody else");

    let mut pieces = Vec::new();
    let cut = loop {
        match stalled.next().await {
            Ok(Some((id, event))) => pieces.push((id, event.kind().unwrap())),
            Ok(None) => panic!("it must not look like the end"),
            Err(error) => break error,
        }
    };
    assert!(matches!(cut, DialError::Lost { .. }), "{cut}");
    assert!(pieces.len() < 100, "what it did not read was not kept for it: {}", pieces.len());
    let last = pieces.last().unwrap().0.clone();
    pieces.extend(read_until_message(&mut events(Some(last)).await, "last").await);
    assert_eq!(pieces, whole);
    send_message(&fixture, "more").await;
    read_until_message(&mut other, "more").await;
}

#[tokio::test]
async fn taking_a_token_back_ends_the_streams_it_opened_and_no_others() {
    let fixture = DaemonFixture::open().await;
    let token = fixture.client_token().await;
    let another = fixture.token_for("other", &[], &[]).await;
    let path = "/events?target=@team";
    let mut first = fixture.client(&token).events(path, None).await.unwrap();
    let mut second = fixture.client(&token).events(path, None).await.unwrap();
    let mut others = [
        fixture.client(&another).events(path, None).await.unwrap(),
        fixture.worker().events(path, None).await.unwrap(),
        fixture.user().events(path, None).await.unwrap(),
    ];
    assert_eq!(fixture.as_user(TestRequest::new("DELETE", "/tokens/ci")).await.status, 204);
    // A new token of the same name is a different token.
    fixture.client_token().await;
    send_message(&fixture, "secret").await;
    for stream in [&mut first, &mut second] {
        assert!(timeout(DEADLINE, stream.next()).await.unwrap().unwrap().is_none());
    }
    for stream in &mut others {
        read_until_message(stream, "secret").await;
    }
    let Err(DialError::Refused(problem)) = fixture.client(&token).events(path, None).await else {
        panic!("it must be refused")
    };
    assert_eq!(problem.code, Code::Unauthorized);
}
