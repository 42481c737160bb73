//! Tests of identity: it decides the rights of a caller, and comes only from the connection or a token.

use agent_worker_protocol::{Code, api::ShutdownMode};
use serde_json::{Value, json};

use super::fixture::{DaemonFixture, TestRequest};

#[tokio::test]
async fn an_anonymous_caller_can_read_only_the_health_status() {
    let fixture = DaemonFixture::open().await;
    let health = fixture.over_tcp(TestRequest::get("/health")).await;
    assert_eq!(health.json(), json!({"status": "ok", "version": "1.2.3"}));
    for question in [
        TestRequest::get("/agents"),
        TestRequest::get("/runs"),
        TestRequest::get(&format!("/runs/{}", fixture.run)),
        TestRequest::get("/messages?target=@team"),
        TestRequest::get("/messages/1/receipts?target=@team"),
        TestRequest::get(&format!("/events?run={}", fixture.run)),
        TestRequest::get("/tokens"),
        TestRequest::new("DELETE", "/tokens/ci"),
        TestRequest::post("/messages", r#"{"message": "x", "target": "@team"}"#),
        TestRequest::post("/runs", "{}"),
        TestRequest::post("/shutdown", r#"{"mode": "now"}"#),
        TestRequest::post(&format!("/attempts/{}/events", fixture.job.attempt), "{}"),
        TestRequest::post("/mcp", r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#),
    ] {
        let answer = fixture.over_tcp(question.clone()).await;
        assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()), "{answer:?}");
        // The daemon's own process and its children do not count as the user either.
        let answer = fixture.as_ourselves(question).await;
        assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()), "{answer:?}");
    }
}

#[tokio::test]
async fn the_user_learns_more_of_the_daemons_health() {
    let fixture = DaemonFixture::open().await;
    let health = fixture.as_user(TestRequest::get("/health")).await.json();
    assert_eq!(health["status"], "ok");
    assert_eq!(health["pid"], std::process::id());
    assert_eq!(health["address"], fixture.address.to_string());
    assert_eq!((&health["live_runs"], &health["workers"]), (&json!(1), &json!(1)));
    assert_eq!(health["agents"], 2, "coder and reviewer");
    fixture.kernel.close().await;
    let health = fixture.as_user(TestRequest::get("/health")).await.json();
    assert_eq!(health["status"], "draining");
}

#[tokio::test]
async fn a_shutdown_without_a_body_drains() {
    let fixture = DaemonFixture::open().await;
    assert_eq!(fixture.as_user(TestRequest::post("/shutdown", "")).await.status, 202);
    assert_eq!(fixture.shutdown.wait_for_request().await, ShutdownMode::Drain);
}

#[tokio::test]
async fn a_daemon_that_cannot_write_does_not_say_it_is_well() {
    let fixture = DaemonFixture::open().await;
    fixture.kernel.close().await;
    fixture.store.clone().close().await;
    let health = fixture.over_tcp(TestRequest::get("/health")).await;
    assert_eq!(health.json(), json!({"status": "read_only", "version": "1.2.3"}));
    let health = fixture.as_user(TestRequest::get("/health")).await.json();
    assert_eq!(
        (&health["status"], &health["trouble"]),
        (&json!("read_only"), &json!("the store is closed"))
    );
}

#[tokio::test]
async fn a_token_decides_alone_and_dies_with_its_revocation() {
    let fixture = DaemonFixture::open().await;
    let token = fixture.client_token().await;
    let agents = || TestRequest::get("/agents?target=@team");
    assert_eq!(fixture.over_tcp(agents().token(&token)).await.status, 200);
    assert_eq!(fixture.over_tcp(agents().token(&fixture.job.token)).await.status, 200);
    // A client's token makes its caller a client, also on the user's socket.
    let forbidden = fixture.as_user(TestRequest::get("/tokens").token(&token)).await;
    assert_eq!(forbidden.refusal(), (403, "forbidden".to_owned()));
    let shutdown = TestRequest::post("/shutdown", r#"{"mode": "now"}"#);
    for token in [&token, &fixture.job.token] {
        let forbidden = fixture.as_user(shutdown.clone().token(token)).await;
        assert_eq!(forbidden.refusal(), (403, "forbidden".to_owned()));
    }
    assert_eq!(fixture.as_user(TestRequest::new("DELETE", "/tokens/ci")).await.status, 204);
    let gone = fixture.over_tcp(agents().token(&token)).await;
    assert_eq!(gone.refusal(), (401, "unauthorized".to_owned()));
    assert!(gone.head.contains("www-authenticate: bearer"), "{gone:?}");
}

#[tokio::test]
async fn an_attempts_token_dies_with_the_attempt() {
    let fixture = DaemonFixture::open().await;
    let report = format!("/attempts/{}/events", fixture.job.attempt);
    let started = json!({"events": [
        {"no": 1, "ts": "2026-01-01T00:00:00.000Z", "kind": "started", "pid": 1}
    ]});
    let reply: Value = fixture.worker().post(&report, &started).await.unwrap();
    assert_eq!(reply, json!({"stored": 1, "order": "continue"}));
    let stop = TestRequest::post(&format!("/runs/{}/stop", fixture.run), "{}");
    assert_eq!(fixture.as_user(stop).await.json()["attempts"], json!(["coder"]));
    let late = fixture.worker().post::<_, Value>(&report, &started).await.unwrap_err();
    let agent_worker_host::DialError::Refused(problem) = late else { panic!("{late}") };
    assert_eq!(problem.code, Code::Unauthorized);
}

#[tokio::test]
async fn only_the_user_stops_the_daemon() {
    let fixture = DaemonFixture::open().await;
    let answer = fixture.as_user(TestRequest::post("/shutdown", r#"{"mode": "drain"}"#)).await;
    assert_eq!(answer.status, 202);
    assert_eq!(fixture.shutdown.wait_for_request().await, ShutdownMode::Drain);
}
