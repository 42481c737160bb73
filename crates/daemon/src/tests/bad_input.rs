//! Tests of invalid input: every refusal has the same form, and nothing breaks.

use serde_json::{Value, json};

use super::fixture::{DaemonFixture, TestRequest};
use crate::http::BODY_LIMIT;

fn send(body: &str) -> TestRequest {
    TestRequest::post("/messages", body)
}

#[tokio::test]
async fn every_kind_of_invalid_request_is_answered_with_a_problem() {
    let fixture = DaemonFixture::open().await;
    let fine = r#"{"message": "hello @reviewer", "target": "@team"}"#;
    let some_run = "00000000-0000-0000-0000-000000000000";
    for (question, expected) in [
        (send("{"), (400, "bad_request")),
        (send(""), (400, "bad_request")),
        (send(r#"{"target": "@team"}"#), (400, "bad_request")),
        (send(r#"{"message": "x", "form": "coder"}"#), (400, "bad_request")),
        (send(r#"{"message": "x", "target": "co der"}"#), (400, "bad_request")),
        (send(r#"{"message": "x", "target": "@nowhere"}"#), (404, "not_found")),
        (send(r#"{"message": "x", "target": "@team", "to": ["ghost"]}"#), (404, "not_found")),
        (send(fine).header("Content-Type", "text/plain"), (400, "bad_request")),
        (send(fine).header("Content-Type", ""), (400, "bad_request")),
        (send(fine).header("Idempotency-Key", &"k".repeat(201)), (400, "bad_request")),
        (send(fine).token("aw_wrong"), (401, "unauthorized")),
        (send(fine).header("Authorization", "Basic dXNlcg=="), (401, "unauthorized")),
        (send(fine).header("Host", "evil.example"), (403, "forbidden")),
        (send(fine).header("Host", ""), (400, "bad_request")),
        (send(fine).header("Origin", "http://evil.example"), (403, "forbidden")),
        (TestRequest::get("/nowhere"), (404, "not_found")),
        (TestRequest::get("/nowhere").header("Origin", "null"), (403, "forbidden")),
        (TestRequest::get("/runs/"), (404, "not_found")),
        (TestRequest::new("PUT", "/messages"), (405, "method_not_allowed")),
        (TestRequest::new("DELETE", "/health"), (405, "method_not_allowed")),
        (TestRequest::get("/runs/not-an-id"), (400, "bad_request")),
        (TestRequest::get(&format!("/runs/{some_run}")), (404, "not_found")),
        (TestRequest::get("/agents?live=perhaps"), (400, "bad_request")),
        (TestRequest::get("/agents?all=true"), (400, "bad_request")),
        (TestRequest::get("/agents?limit=0"), (400, "bad_request")),
        (TestRequest::get("/runs?limit=1001"), (400, "bad_request")),
        (TestRequest::get("/messages?target=@team&limit=1001"), (400, "bad_request")),
        (TestRequest::get("/tokens?after=nonsense"), (400, "bad_request")),
        (TestRequest::get("/agents?taget=coder"), (400, "bad_request")),
        (TestRequest::get("/messages?target=@team&limit=-1"), (400, "bad_request")),
        (TestRequest::get("/messages?target=@team&since=yesterday"), (400, "bad_request")),
        (TestRequest::get("/messages/one/receipts?target=@team"), (400, "bad_request")),
        (TestRequest::get("/events?run=1"), (400, "bad_request")),
        (
            TestRequest::get("/events?target=@team").header("Last-Event-ID", "x"),
            (400, "bad_request"),
        ),
        (TestRequest::post("/tokens", r#"{"name": "a/b"}"#), (400, "bad_request")),
        (TestRequest::post("/shutdown", r#"{"mode": "perhaps"}"#), (400, "bad_request")),
        (TestRequest::post("/runs", ""), (400, "bad_request")),
        (TestRequest::post(&format!("/attempts/{some_run}/events"), "{}"), (403, "forbidden")),
    ] {
        let answer = fixture.as_user(question).await;
        let (status, code) = answer.refusal();
        assert_eq!((status, code.as_str()), expected, "{answer:?}");
        assert!(answer.head.contains("content-type: application/json"), "{answer:?}");
        assert!(!answer.head.contains("access-control"), "{answer:?}");
    }
    assert_eq!(fixture.as_user(send(fine)).await.status, 200);
}

#[tokio::test]
async fn a_refusal_names_the_field_without_the_words_of_a_library() {
    let fixture = DaemonFixture::open().await;
    for (question, expected) in [
        (send(r#"{"message": 7}"#), "`message` must be text, not 7"),
        (send(r#"{"target": "@team"}"#), "`message` is missing"),
        (TestRequest::get("/messages?target=@team&limit=x"), "`limit` must be a whole number"),
        (TestRequest::get("/agents?live=perhaps"), "`live` must be true or false"),
        (TestRequest::get("/agents?taget=coder"), "unknown field `taget`; the fields are `target`"),
        (TestRequest::get("/runs/not-an-id"), "must be an id, such as `"),
        (TestRequest::get("/messages/one/receipts?target=@team"), "must be a whole number"),
        (TestRequest::post("/shutdown", r#"{"mode": "perhaps"}"#), "`mode` must be `"),
        (
            TestRequest::post("/agents", r#"{"backend": "command", "command": "./x"}"#),
            "`command` must be a list, not \"./x\"",
        ),
    ] {
        let answer = fixture.as_user(question).await;
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(expected), "{message}");
        for word in ["deserialize", "UUID", "invalid type", "expected", "u32", "i64"] {
            assert!(!message.contains(word), "{message}");
        }
    }
}

#[tokio::test]
async fn missing_and_impossible_resources_are_reported_as_such() {
    let fixture = DaemonFixture::open().await;
    let some_run = "00000000-0000-0000-0000-000000000000";
    for (question, expected) in [
        (TestRequest::get("/agents/co%20der"), (400, "bad_request")),
        (TestRequest::get("/agents/%40team"), (400, "bad_request")),
        (TestRequest::get("/agents/ghost@team"), (404, "not_found")),
        (
            TestRequest::post("/agents", r#"{"name": "x", "backend": "teapot"}"#),
            (400, "bad_request"),
        ),
        (
            TestRequest::post("/agents", r#"{"name": "all", "backend": "mock"}"#),
            (400, "bad_request"),
        ),
        (TestRequest::post("/run", r#"{"file": "team.yaml", "cwd": "."}"#), (400, "bad_request")),
        (TestRequest::post("/serve", r#"{"file": "/no.yaml", "cwd": "/"}"#), (400, "bad_request")),
        (TestRequest::post(&format!("/runs/{some_run}/resume"), "{}"), (404, "not_found")),
        (TestRequest::post(&format!("/runs/{some_run}/stop?now=1"), ""), (400, "bad_request")),
        (TestRequest::get("/documents/.hidden?target=@team"), (400, "bad_request")),
        (TestRequest::get("/documents/a.md?target=@team&revision=x"), (400, "bad_request")),
        (TestRequest::get("/documents/a.md?target=@team"), (404, "not_found")),
        (TestRequest::get("/revisions/a.md?target=@team"), (404, "not_found")),
        (TestRequest::get("/logs"), (400, "bad_request")),
        (TestRequest::get("/inbox?target=ghost@team"), (404, "not_found")),
        (TestRequest::post("/feedback", r#"{"message": " "}"#), (400, "bad_request")),
        (TestRequest::post("/dead/drop", r#"{"target": "@team"}"#), (404, "not_found")),
    ] {
        let answer = fixture.as_user(question).await;
        let (status, code) = answer.refusal();
        assert_eq!((status, code.as_str()), expected, "{answer:?}");
    }
}

#[tokio::test]
async fn mcp_refuses_transport_nonsense_in_the_same_shape() {
    let fixture = DaemonFixture::open().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let mcp = |body: &str| {
        TestRequest::post("/mcp", body).header("Accept", "application/json, text/event-stream")
    };
    for (question, expected) in [
        (mcp("{"), (400, "bad_request")),
        (mcp("[]"), (400, "bad_request")),
        (mcp(&list).header("Accept", "application/json"), (400, "bad_request")),
        (mcp(&list).header("Content-Type", "text/plain"), (400, "bad_request")),
        (mcp(&list).header("MCP-Protocol-Version", "1999-01-01"), (400, "bad_request")),
        (mcp(&list).header("Origin", "http://evil.example"), (403, "forbidden")),
        (mcp(&list).header("Host", "evil.example"), (403, "forbidden")),
        (mcp(&list).token("aw_wrong"), (401, "unauthorized")),
        (TestRequest::get("/mcp"), (405, "method_not_allowed")),
        (TestRequest::new("DELETE", "/mcp"), (405, "method_not_allowed")),
    ] {
        let answer = fixture.as_user(question).await;
        let (status, code) = answer.refusal();
        assert_eq!((status, code.as_str()), expected, "{answer:?}");
    }
    assert_eq!(fixture.as_user(mcp(&list)).await.status, 200);
}

#[tokio::test]
async fn a_value_too_long_for_a_resource_is_too_large_over_http_and_mcp() {
    let fixture = DaemonFixture::open().await;
    let value = "x".repeat(65 * 1024 * 1024);
    let body = format!(r#"{{"target": "@team", "message": "{value}"}}"#);
    assert_eq!(fixture.as_user(send(&body)).await.refusal(), (413, "too_large".to_owned()));
    for tool in ["channel_send", "resource_create"] {
        let argument = if tool == "channel_send" { "message" } else { "content" };
        let body = format!(
            r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {{"name": "{tool}", "arguments": {{"target": "@team", "{argument}": "{value}"}}}}}}"#
        );
        let call = TestRequest::post("/mcp", body);
        let call = call.header("Accept", "application/json, text/event-stream");
        let result = fixture.as_user(call).await.json()["result"].clone();
        assert_eq!(result["isError"], Value::Bool(true), "{result}");
        assert_eq!(result["structuredContent"]["code"], "too_large", "{result}");
    }
}

#[tokio::test]
async fn a_request_longer_than_any_is_refused_after_it_was_read() {
    let fixture = DaemonFixture::open().await;
    for path in ["/messages", "/mcp"] {
        let answer = fixture
            .as_user(TestRequest::post(path, vec![b' '; BODY_LIMIT + 32 * 1024 * 1024]))
            .await;
        assert_eq!(answer.refusal(), (413, "too_large".to_owned()), "{path}");
    }
}
