//! Tests of sending and reading messages over HTTP.

use agent_worker_protocol::api::{MessagesReply, SendReply};
use serde_json::{Value, json};

use super::{
    fixture::{DaemonFixture, TestRequest},
    scopes::call,
};

fn send(key: &str, message: &str) -> TestRequest {
    let body = json!({"target": "@team", "message": message}).to_string();
    TestRequest::post("/messages", body).header("Idempotency-Key", key)
}

#[tokio::test]
async fn a_key_makes_a_send_happen_once() {
    let fixture = DaemonFixture::open().await;
    let first = fixture.as_user(send("k1", "look @reviewer")).await.json();
    assert_eq!(first["woken"], json!(["reviewer"]));
    assert_eq!(first.get("deduplicated"), None);
    let again = fixture.as_user(send("k1", "look @reviewer")).await.json();
    assert_eq!((&again["seq"], &again["deduplicated"]), (&first["seq"], &json!(true)));
    let other = fixture.as_user(send("k1", "something else")).await;
    assert_eq!(other.refusal(), (409, "conflict".to_owned()));
    let new: SendReply =
        serde_json::from_str(&fixture.as_user(send("k2", "look @reviewer")).await.body).unwrap();
    assert!(new.seq.get() > first["seq"].as_i64().unwrap());
}

#[tokio::test]
async fn a_file_comes_with_its_message_and_belongs_to_the_key() {
    let fixture = DaemonFixture::open().await;
    let send = |key: &str, name: &str, content: &str| {
        let file = json!({"name": name, "content": content});
        let body = json!({"target": "@team", "message": "look", "attachments": [file]});
        TestRequest::post("/messages", body.to_string()).header("Idempotency-Key", key)
    };
    let first = fixture.as_user(send("k1", "shot.png", "iVBORw0KGgo=")).await.json();
    let again = fixture.as_user(send("k1", "shot.png", "iVBORw0KGgo=")).await.json();
    assert_eq!((&again["seq"], &again["deduplicated"]), (&first["seq"], &json!(true)));
    for (name, content) in [("shot.png", "iVBORw0KGgoA"), ("other.png", "iVBORw0KGgo=")] {
        let other = fixture.as_user(send("k1", name, content)).await;
        assert_eq!(other.refusal(), (409, "conflict".to_owned()), "{name}");
    }
    for (name, content) in [("a/b", "AAAA"), ("", "AAAA"), ("a", "%"), ("a", "AAA")] {
        let refused = fixture.as_user(send("k2", name, content)).await;
        assert_eq!(refused.refusal(), (400, "bad_request".to_owned()), "{name} {content}");
    }
    let read = fixture.as_user(TestRequest::get("/messages?target=@team&since=1")).await.items();
    let id = "4c4b6a3be1314ab86138bef4314dde022e600960d8689a2c8f8631802d20dab6";
    let file = json!({"name": "shot.png", "media_type": "image/png", "size": 8, "resource": id});
    assert_eq!(read[0]["attachments"], json!([file]));
    assert_eq!(read.as_array().unwrap().len(), 1);
    let over_mcp = call(&fixture, &fixture.job.token, "channel_read", json!({"since": 1})).await;
    assert_eq!(over_mcp["messages"][0]["attachments"], json!([file]));
    // The worker of an attempt reads the bytes with its token.
    let path = format!("/resources/{id}?range=1..");
    let part = fixture.as_user(TestRequest::get(&path).token(&fixture.job.token)).await.json();
    assert_eq!((&part["encoding"], &part["content"]), (&json!("base64"), &json!("UE5HDQoaCg==")));
}

#[tokio::test]
async fn a_channel_is_read_after_a_message_or_an_instant() {
    let fixture = DaemonFixture::open().await;
    for (key, text) in [("a", "one"), ("b", "two"), ("c", "three")] {
        assert_eq!(fixture.as_user(send(key, text)).await.status, 200);
    }
    let read = async |query: &str| -> Vec<String> {
        let answer =
            fixture.as_user(TestRequest::get(&format!("/messages?target=@team{query}"))).await;
        let reply: MessagesReply = serde_json::from_value(answer.json()).unwrap();
        reply.items.into_iter().map(|message| message.body).collect()
    };
    assert_eq!(read("").await, ["@coder begin", "one", "two", "three"]);
    assert_eq!(read("&since=2").await, ["two", "three"]);
    assert_eq!(read("&limit=1").await, ["three"]);
    assert_eq!(read("&search=TW").await, ["two"]);
    assert_eq!(read("&since=2000-01-01T00:00:00Z&limit=2").await, ["@coder begin", "one"]);
    assert!(read("&since=2999-01-01T00:00:00Z").await.is_empty());
    let standing = async |query: &str| {
        let path = format!("/messages?target=@team&receipts=true{query}");
        fixture.as_user(TestRequest::get(&path)).await.json()["receipts"].clone()
    };
    assert_eq!(standing("").await[0]["seq"], 1);
    assert_eq!(standing("&since=2999-01-01T00:00:00Z").await, Value::Null, "of what is shown");
    let receipts =
        fixture.as_user(TestRequest::get("/messages/1/receipts?target=@team")).await.items();
    let expected = json!([{"seq": 1, "agent": "coder", "state": "leased", "failures": 0}]);
    assert_eq!(receipts, expected);
    let agents = fixture.as_user(TestRequest::get("/agents")).await.items();
    let states: Vec<&Value> =
        agents.as_array().unwrap().iter().map(|agent| &agent["name"]).collect();
    assert_eq!(states, ["coder", "reviewer"]);
}

#[tokio::test]
async fn the_messages_for_an_agent_are_read_page_by_page() {
    let fixture = DaemonFixture::open().await;
    for number in 1..=4 {
        for agent in ["coder", "reviewer"] {
            let key = format!("{agent} {number}");
            let sent = fixture.as_user(send(&key, &format!("@{agent} {number}"))).await;
            assert_eq!(sent.status, 200);
        }
    }
    let read = async |args: Value| {
        let reply = call(&fixture, &fixture.job.token, "channel_mentions", args).await;
        let messages = reply["messages"].as_array().unwrap().iter();
        let bodies = messages.map(|message| message["body"].as_str().unwrap().to_owned());
        (bodies.collect::<Vec<_>>(), reply["next"].clone())
    };
    let (newest, next) = read(json!({"limit": 2})).await;
    assert_eq!(newest, ["@coder 3", "@coder 4"]);
    let (older, next) = read(json!({"limit": 2, "after": next})).await;
    assert_eq!(older, ["@coder 1", "@coder 2"]);
    assert_eq!(
        read(json!({"limit": 2, "after": next})).await,
        (vec!["@coder begin".into()], Value::Null)
    );
    let (oldest, next) = read(json!({"limit": 2, "since": 0})).await;
    assert_eq!(oldest, ["@coder begin", "@coder 1"]);
    assert_eq!(read(json!({"limit": 1, "since": 0, "after": next})).await.0, ["@coder 2"]);
}
