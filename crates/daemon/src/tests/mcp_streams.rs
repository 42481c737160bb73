//! Streams over the MCP door: sessions of the older revisions, and what is told over them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    house::{Answer, House, Question, Standstill, Stream},
    mcp::Era,
};

const OLD: Era = Era::Initialized("2025-11-25");
const NEW: Era = Era::Requests;

/// How a client with these capabilities begins.
fn introduction(capabilities: &Value) -> Question {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "1"},
    });
    OLD.question("initialize", params)
}

fn listening() -> Value {
    json!({"experimental": {"agent-worker/stream": {}}})
}

/// The session an answer begins, if any.
fn session(answer: &Answer) -> Option<String> {
    let line = answer.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    line.map(|id| id.trim().to_owned())
}

/// Begins a session in the name of `token`, or as the user.
async fn begin(house: &House, token: Option<&str>) -> String {
    let hello = named(introduction(&listening()), token);
    let id = session(&house.as_user(hello).await).expect("a session");
    let initialized = OLD.question("notifications/initialized", json!({}));
    let initialized =
        initialized.body(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
    let initialized = named(initialized, token).header("Mcp-Session-Id", &id);
    assert_eq!(house.as_user(initialized).await.status, 202);
    id
}

fn named(question: Question, token: Option<&str>) -> Question {
    match token {
        Some(token) => question.token(token),
        None => question,
    }
}

fn of(question: Question, id: &str, token: Option<&str>) -> Question {
    named(question.header("Mcp-Session-Id", id), token)
}

/// Opens a session's stream.
async fn open(house: &House, id: &str, token: Option<&str>) -> Stream {
    let get = Question::get("/mcp")
        .header("Accept", "text/event-stream")
        .header("MCP-Protocol-Version", "2025-11-25");
    house.listen(of(get, id, token)).await
}

#[tokio::test]
async fn only_who_asks_for_a_stream_gets_a_session() {
    let house = House::open().await;
    for (capabilities, expected) in [
        (json!({}), false),
        (json!({"roots": {}}), false),
        (json!({"elicitation": {}}), true),
        (json!({"sampling": {}}), true),
        (listening(), true),
    ] {
        let answer = house.as_user(introduction(&capabilities)).await;
        assert_eq!(session(&answer).is_some(), expected, "{capabilities}: {answer:?}");
        let json = answer.head.contains("content-type: application/json");
        assert_eq!(json, !expected, "{capabilities}: {answer:?}");
        assert_eq!(answer.body.contains(r#""subscribe":true"#), expected, "{answer:?}");
    }
    // Nobody gets one in the era without.
    let discover = house.as_user(NEW.question("server/discover", json!({}))).await;
    assert_eq!(session(&discover), None, "{discover:?}");
}

#[tokio::test]
async fn a_session_does_not_exist_for_anybody_but_its_owner() {
    let house = House::open().await;
    let ours = house.client_token().await;
    let theirs = house.token_for("other", &[], &[]).await;
    let id = begin(&house, Some(&ours)).await;
    let list = || OLD.question("tools/list", json!({}));
    let get = || {
        Question::get("/mcp")
            .header("Accept", "text/event-stream")
            .header("MCP-Protocol-Version", "2025-11-25")
    };
    let leave = || Question::new("DELETE", "/mcp").header("MCP-Protocol-Version", "2025-11-25");
    for stranger in [Some(theirs.as_str()), Some(house.job.token.as_str()), None] {
        for question in [list(), get(), leave()] {
            let answer = house.as_user(of(question, &id, stranger)).await;
            assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{stranger:?}");
        }
    }
    let answer = house.as_user(of(list(), &id, Some(&ours))).await;
    assert!(answer.body.contains("channel_send"), "{answer:?}");
    assert_eq!(house.as_user(of(leave(), &id, Some(&ours))).await.status, 202);
    let over = house.as_user(of(list(), &id, Some(&ours))).await;
    assert_eq!(over.refusal(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn one_owner_has_so_many_sessions_and_the_one_unused_for_longest_goes() {
    let house = House::open().await;
    let mut ids = Vec::new();
    for _ in 0..16 {
        ids.push(begin(&house, None).await);
    }
    // The first has a stream, so the second is the one that goes.
    let mut stream = open(&house, &ids[0], None).await;
    let ping = |id: &str| of(OLD.question("ping", json!({})), id, None);
    assert_eq!(house.as_user(ping(&ids[0])).await.status, 200);
    ids.push(begin(&house, None).await);
    for (n, id) in ids.iter().enumerate() {
        let expected = if n == 1 { 404 } else { 200 };
        assert_eq!(house.as_user(ping(id)).await.status, expected, "{n}");
    }
    subscribe(&house, &ids[0], "aw://team/main/channel").await;
    say(&house, "hello").await;
    stream.hear("notifications/resources/updated").await;
}

#[tokio::test]
async fn a_session_that_nobody_uses_or_hears_ends_by_itself() {
    let house = House::open().await;
    let (unused, heard) = (begin(&house, None).await, begin(&house, None).await);
    let mut stream = open(&house, &heard, None).await;
    // Its answer has begun, so it counts.
    subscribe(&house, &heard, "aw://team/main/channel").await;
    say(&house, "hello").await;
    stream.hear("notifications/resources/updated").await;
    let time = Standstill::begin();
    time.pass(Duration::from_mins(31)).await;
    let ping = |id: &str| of(OLD.question("ping", json!({})), id, None);
    // Time stands still, so that it is looked so many times.
    let mut looks = 0;
    while house.as_user(ping(&unused)).await.status != 404 {
        looks += 1;
        assert!(looks < 1000, "it is still there");
    }
    assert_eq!(house.as_user(ping(&heard)).await.status, 200);
}

async fn subscribe(house: &House, id: &str, uri: &str) {
    let subscribe = OLD.question("resources/subscribe", json!({ "uri": uri }));
    let answer = house.as_user(of(subscribe, id, None)).await;
    assert!(answer.body.contains(r#""result":{}"#), "{answer:?}");
}

async fn say(house: &House, text: &str) {
    let said = json!({"target": "@team", "message": text}).to_string();
    assert_eq!(house.as_user(Question::post("/messages", said)).await.status, 200);
}

async fn write(house: &House, path: &str, text: &str) {
    let written = json!({"target": "@team", "content": text, "mode": "append"}).to_string();
    let answer = house.as_user(Question::post(&format!("/documents/{path}"), written)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn what_is_subscribed_to_is_told_when_it_changes_and_nothing_else() {
    let house = House::open().await;
    let id = begin(&house, None).await;
    let mut stream = open(&house, &id, None).await;
    subscribe(&house, &id, "aw://team/main/document/notes.md").await;
    say(&house, "this is not asked for").await;
    write(&house, "other.md", "nor this").await;
    write(&house, "notes.md", "x").await;
    let updated = stream.hear("notifications/resources/updated").await;
    assert_eq!(updated, json!({"uri": "aw://team/main/document/notes.md"}));
    subscribe(&house, &id, "aw://team/main/channel").await;
    say(&house, "@reviewer look").await;
    let updated = stream.hear("notifications/resources/updated").await;
    assert_eq!(updated, json!({"uri": "aw://team/main/channel"}));
    let mention = stream.hear("notifications/mention").await;
    assert_eq!(
        (&mention["from"], &mention["target"], &mention["message"]),
        (&json!("user"), &json!("reviewer"), &json!("@reviewer look"))
    );
    assert!(mention["timestamp"].is_string(), "{mention}");
    let stop = OLD.question("resources/unsubscribe", json!({"uri": "aw://team/main/channel"}));
    house.as_user(of(stop, &id, None)).await;
    say(&house, "unheard").await;
    write(&house, "notes.md", "y").await;
    let next = stream.next().await.unwrap();
    assert_eq!(next["params"]["uri"], "aw://team/main/document/notes.md");
}

#[tokio::test]
async fn an_agent_hears_when_it_is_mentioned_and_not_when_others_are() {
    let house = House::open().await;
    let token = Some(house.job.token.as_str());
    let id = begin(&house, token).await;
    let mut stream = open(&house, &id, token).await;
    say(&house, "@reviewer not for coder").await;
    say(&house, "@coder for you").await;
    let mention = stream.next().await.unwrap();
    assert_eq!(mention["method"], "notifications/mention");
    assert_eq!(mention["params"]["message"], "@coder for you");
    assert_eq!(stream.status(), "200");
    // With the attempt its session is over, and so is the stream.
    let stop = Question::post("/agents/coder@team/stop", "").header("Content-Type", "");
    assert_eq!(house.as_user(stop).await.status, 200);
    while stream.next().await.is_some() {}
}

#[tokio::test]
async fn a_request_of_the_era_without_sessions_is_told_what_changes() {
    let house = House::open().await;
    let uris = ["aw://team/main/document/notes.md", "aw://team/main/channel", "file:///etc/passwd"];
    let listen = NEW.question(
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": uris, "toolsListChanged": true}}),
    );
    let mut stream = house.listen(listen).await;
    let accepted = stream.hear("notifications/subscriptions/acknowledged").await;
    assert_eq!(accepted["notifications"], json!({"resourceSubscriptions": uris[..2]}));
    write(&house, "notes.md", "x").await;
    let updated = stream.hear("notifications/resources/updated").await;
    assert_eq!(updated["uri"], uris[0]);
    say(&house, "hello").await;
    assert_eq!(stream.hear("notifications/resources/updated").await["uri"], uris[1]);
    // A daemon that leaves says so in good order.
    house.shutdown.close_streams();
    let last = stream.next().await.unwrap();
    assert!(last.get("result").is_some(), "{last}");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn nobody_listens_to_what_they_may_not_read() {
    let house = House::open().await;
    let other = house
        .file("other", "name: other\nagents:\n  quick: { backend: mock }\nkickoff: '@quick go'\n");
    let started = house.as_user(Question::post("/serve", other.to_string())).await;
    assert_eq!(started.status, 200, "{started:?}");
    let token = Some(house.job.token.as_str());
    let uri = "aw://other/main/channel";
    let read = named(NEW.question("resources/read", json!({ "uri": uri })), token);
    let read = house.as_user(read).await.json();
    assert_eq!(read["error"]["data"]["code"], "forbidden", "{read}");
    let listen = NEW.question(
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": [uri]}}),
    );
    let mut stream = house.listen(named(listen, token)).await;
    stream.hear("notifications/subscriptions/acknowledged").await;
    let end = stream.next().await.unwrap();
    assert_eq!(end["error"]["data"]["code"], "forbidden", "{end}");
    let id = begin(&house, token).await;
    let subscribe = OLD.question("resources/subscribe", json!({ "uri": uri }));
    let answer = house.as_user(of(subscribe, &id, token)).await;
    assert!(answer.body.contains("forbidden"), "{answer:?}");
    // And who holds no stream is told how to get one.
    let none = OLD.question("resources/subscribe", json!({"uri": "aw://team/main/channel"}));
    let none = house.as_user(none).await.json();
    assert!(none["error"]["message"].as_str().unwrap().contains("agent-worker/stream"), "{none}");
}
