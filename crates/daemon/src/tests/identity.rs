//! Who one is decides what one may, and comes from the connection or a token alone.

use agent_worker_protocol::{Code, api::ShutdownMode};
use serde_json::{Value, json};

use super::house::{House, Question};

#[tokio::test]
async fn nobody_learns_that_the_daemon_is_well_and_nothing_else() {
    let house = House::open().await;
    let health = house.over_tcp(Question::get("/health")).await;
    assert_eq!(health.json(), json!({"status": "ok", "version": "1.2.3"}));
    for question in [
        Question::get("/agents?all=true"),
        Question::get("/runs"),
        Question::get(&format!("/runs/{}", house.run)),
        Question::get("/messages?target=@team"),
        Question::get("/messages/1/receipts?target=@team"),
        Question::get(&format!("/events?run={}", house.run)),
        Question::get("/tokens"),
        Question::new("DELETE", "/tokens/ci"),
        Question::post("/messages", r#"{"message": "x", "target": "@team"}"#),
        Question::post("/runs", "{}"),
        Question::post("/shutdown", r#"{"mode": "now"}"#),
        Question::post(&format!("/attempts/{}/events", house.job.attempt), "{}"),
        Question::post("/mcp", r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#),
    ] {
        let answer = house.over_tcp(question.clone()).await;
        assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()), "{answer:?}");
        // The daemon's own process and its children are not the user either.
        let answer = house.as_ourselves(question).await;
        assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()), "{answer:?}");
    }
}

#[tokio::test]
async fn the_user_learns_more_of_the_daemons_health() {
    let house = House::open().await;
    let health = house.as_user(Question::get("/health")).await.json();
    assert_eq!(health["status"], "ok");
    assert_eq!(health["pid"], std::process::id());
    assert_eq!(health["address"], house.address.to_string());
    assert_eq!((&health["live_runs"], &health["workers"]), (&json!(1), &json!(1)));
    house.kernel.close().await;
    let health = house.as_user(Question::get("/health")).await.json();
    assert_eq!(health["status"], "draining");
}

#[tokio::test]
async fn a_daemon_that_cannot_write_does_not_say_it_is_well() {
    let house = House::open().await;
    house.kernel.close().await;
    house.store.clone().close().await;
    let health = house.over_tcp(Question::get("/health")).await;
    assert_eq!(health.json(), json!({"status": "read_only", "version": "1.2.3"}));
    let health = house.as_user(Question::get("/health")).await.json();
    assert_eq!(
        (&health["status"], &health["trouble"]),
        (&json!("read_only"), &json!("the store is closed"))
    );
}

#[tokio::test]
async fn a_token_decides_alone_and_dies_with_its_revocation() {
    let house = House::open().await;
    let token = house.client_token().await;
    let agents = || Question::get("/agents?target=@team");
    assert_eq!(house.over_tcp(agents().token(&token)).await.status, 200);
    assert_eq!(house.over_tcp(agents().token(&house.job.token)).await.status, 200);
    // On the user's own socket a client stays a client.
    let forbidden = house.as_user(Question::get("/tokens").token(&token)).await;
    assert_eq!(forbidden.refusal(), (403, "forbidden".to_owned()));
    let shutdown = Question::post("/shutdown", r#"{"mode": "now"}"#);
    for token in [&token, &house.job.token] {
        let forbidden = house.as_user(shutdown.clone().token(token)).await;
        assert_eq!(forbidden.refusal(), (403, "forbidden".to_owned()));
    }
    assert_eq!(house.as_user(Question::new("DELETE", "/tokens/ci")).await.status, 204);
    let gone = house.over_tcp(agents().token(&token)).await;
    assert_eq!(gone.refusal(), (401, "unauthorized".to_owned()));
    assert!(gone.head.contains("www-authenticate: bearer"), "{gone:?}");
}

#[tokio::test]
async fn an_attempts_token_dies_with_the_attempt() {
    let house = House::open().await;
    let report = format!("/attempts/{}/events", house.job.attempt);
    let started = json!({"events": [
        {"no": 1, "ts": "2026-01-01T00:00:00.000Z", "kind": "started", "pid": 1}
    ]});
    let reply: Value = house.worker().post(&report, &started).await.unwrap();
    assert_eq!(reply, json!({"stored": 1, "order": "continue"}));
    let stop = Question::post(&format!("/runs/{}/stop", house.run), "{}");
    assert_eq!(house.as_user(stop).await.json()["attempts"], json!(["coder"]));
    let late = house.worker().post::<_, Value>(&report, &started).await.unwrap_err();
    let agent_worker_host::DialError::Refused(problem) = late else { panic!("{late}") };
    assert_eq!(problem.code, Code::Unauthorized);
}

#[tokio::test]
async fn only_the_user_stops_the_daemon() {
    let house = House::open().await;
    let answer = house.as_user(Question::post("/shutdown", r#"{"mode": "drain"}"#)).await;
    assert_eq!(answer.status, 202);
    assert_eq!(house.shutdown.asked().await, ShutdownMode::Drain);
}
