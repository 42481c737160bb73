//! Tests of the memory that request bodies may take: no caller takes the memory of another one.

use std::time::Duration;

use serde_json::json;
use tokio::{io::AsyncReadExt as _, net::UnixStream, time::timeout};

use super::{
    fixture::{DaemonFixture, TestRequest},
    mcp::ClientEra,
};

const MIB: usize = 1024 * 1024;
/// A timeout longer than a body may stall, and far shorter than a large body may take.
const STALL_DEADLINE: Duration = Duration::from_secs(12);

/// Sends a body of `size` bytes as the holder of `token`, without its last byte.
async fn stall(fixture: &DaemonFixture, token: &str, size: usize) -> UnixStream {
    let request = TestRequest::post("/resources", vec![b' '; size]).token(token);
    fixture.send_request(request.unfinished()).await
}

/// Returns the status of a body of `size` spaces; a body that fits into the budget is refused with 400.
async fn status_of_body(fixture: &DaemonFixture, token: Option<&str>, size: usize) -> u16 {
    let request = TestRequest::post("/resources", vec![b' '; size]);
    let request = match token {
        Some(token) => request.token(token),
        None => request,
    };
    fixture.as_user(request).await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_bodies_of_an_agent_leave_room_for_the_user_and_other_agents() {
    let fixture = DaemonFixture::open().await;
    let (_, other) = fixture.start_team("other").await;
    let mut stalled = Vec::new();
    for _ in 0..4 {
        stalled.push(stall(&fixture, &fixture.job.token, 64 * MIB).await);
    }
    assert_eq!(status_of_body(&fixture, None, 90 * MIB).await, 400, "the user");
    assert_eq!(status_of_body(&fixture, Some(&other.token), 90 * MIB).await, 400, "another agent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_body_of_a_client_leaves_room_for_another_client() {
    let fixture = DaemonFixture::open().await;
    let one = fixture.token_for("one", &[], &[]).await;
    let other = fixture.token_for("other", &[], &[]).await;
    let _stalled = stall(&fixture, &one, 90 * MIB).await;
    assert_eq!(status_of_body(&fixture, Some(&one), 8 * MIB).await, 503, "the same client");
    assert_eq!(status_of_body(&fixture, Some(&other), 90 * MIB).await, 400, "another client");
}

#[tokio::test]
async fn a_body_that_stalls_is_refused_although_its_size_allows_more_time() {
    let fixture = DaemonFixture::open().await;
    let mut stream = stall(&fixture, &fixture.job.token, 4 * MIB).await;
    let mut head = [0; 12];
    timeout(STALL_DEADLINE, stream.read_exact(&mut head)).await.unwrap().unwrap();
    assert_eq!(&head, b"HTTP/1.1 400");
}

#[tokio::test]
async fn a_body_of_too_many_values_is_refused_on_every_path() {
    let fixture = DaemonFixture::open().await;
    let many = "[0],".repeat(60_000) + "0";
    let message = format!(r#"{{"message": [{many}]}}"#);
    let call = |method: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params":
            {"name": "channel_send", "arguments": {"message": "MANY"}}})
        .to_string()
        .replace("\"MANY\"", &format!("[{many}]"))
    };
    let mcp = |body: String| ClientEra::Stateless.request("tools/call", json!({})).body(&body);
    for request in [
        TestRequest::post("/messages", message.clone()),
        TestRequest::post("/runs", message.clone()),
        TestRequest::post("/messages", message).header("Idempotency-Key", "k"),
        mcp(call("tools/call")),
        mcp(call("initialize")),
    ] {
        let answer = fixture.as_user(request).await;
        assert_eq!(answer.refusal(), (413, "too_large".to_owned()), "{answer:?}");
        assert!(answer.body.contains("100000 JSON values"), "{answer:?}");
    }
}
