//! Tests of streams over MCP: sessions of the older revisions, and their notifications.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    fixture::{DaemonFixture, ManualTime, TestEventStream, TestRequest, TestResponse},
    mcp::ClientEra,
};

const OLD: ClientEra = ClientEra::Initialized("2025-11-25");
const NEW: ClientEra = ClientEra::Stateless;

/// Builds the `initialize` request of a client with these capabilities.
fn initialize_request(capabilities: &Value) -> TestRequest {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "1"},
    });
    OLD.request("initialize", params)
}

fn stream_capability() -> Value {
    json!({"experimental": {"agent-worker/stream": {}}})
}

/// Returns the id of the session that a response starts, if any.
fn session(answer: &TestResponse) -> Option<String> {
    let line = answer.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    line.map(|id| id.trim().to_owned())
}

/// Starts a session with `token`, or as the user.
async fn begin_session(fixture: &DaemonFixture, token: Option<&str>) -> String {
    let hello = with_token(initialize_request(&stream_capability()), token);
    let id = session(&fixture.as_user(hello).await).expect("a session");
    let initialized = OLD.request("notifications/initialized", json!({}));
    let initialized =
        initialized.body(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
    let initialized = with_token(initialized, token).header("Mcp-Session-Id", &id);
    assert_eq!(fixture.as_user(initialized).await.status, 202);
    id
}

fn with_token(question: TestRequest, token: Option<&str>) -> TestRequest {
    match token {
        Some(token) => question.token(token),
        None => question,
    }
}

fn in_session(question: TestRequest, id: &str, token: Option<&str>) -> TestRequest {
    with_token(question.header("Mcp-Session-Id", id), token)
}

/// Opens the stream of a session.
async fn open(fixture: &DaemonFixture, id: &str, token: Option<&str>) -> TestEventStream {
    let get = TestRequest::get("/mcp")
        .header("Accept", "text/event-stream")
        .header("MCP-Protocol-Version", "2025-11-25");
    fixture.open_event_stream(in_session(get, id, token)).await
}

#[tokio::test]
async fn only_who_asks_for_a_stream_gets_a_session() {
    let fixture = DaemonFixture::open().await;
    for (capabilities, expected) in [
        (json!({}), false),
        (json!({"roots": {}}), false),
        (json!({"elicitation": {}}), true),
        (json!({"sampling": {}}), true),
        (stream_capability(), true),
    ] {
        let answer = fixture.as_user(initialize_request(&capabilities)).await;
        assert_eq!(session(&answer).is_some(), expected, "{capabilities}: {answer:?}");
        let json = answer.head.contains("content-type: application/json");
        assert_eq!(json, !expected, "{capabilities}: {answer:?}");
        assert_eq!(answer.body.contains(r#""subscribe":true"#), expected, "{answer:?}");
    }
    // A client of the stateless era gets no session.
    let discover = fixture.as_user(NEW.request("server/discover", json!({}))).await;
    assert_eq!(session(&discover), None, "{discover:?}");
}

#[tokio::test]
async fn a_session_does_not_exist_for_any_caller_but_its_owner() {
    let fixture = DaemonFixture::open().await;
    let ours = fixture.client_token().await;
    let theirs = fixture.token_for("other", &[], &[]).await;
    let id = begin_session(&fixture, Some(&ours)).await;
    let list = || OLD.request("tools/list", json!({}));
    let get = || {
        TestRequest::get("/mcp")
            .header("Accept", "text/event-stream")
            .header("MCP-Protocol-Version", "2025-11-25")
    };
    let leave = || TestRequest::new("DELETE", "/mcp").header("MCP-Protocol-Version", "2025-11-25");
    for stranger in [Some(theirs.as_str()), Some(fixture.job.token.as_str()), None] {
        for question in [list(), get(), leave()] {
            let answer = fixture.as_user(in_session(question, &id, stranger)).await;
            assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{stranger:?}");
        }
    }
    let answer = fixture.as_user(in_session(list(), &id, Some(&ours))).await;
    assert!(answer.body.contains("channel_send"), "{answer:?}");
    assert_eq!(fixture.as_user(in_session(leave(), &id, Some(&ours))).await.status, 202);
    let over = fixture.as_user(in_session(list(), &id, Some(&ours))).await;
    assert_eq!(over.refusal(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn one_owner_has_so_many_sessions_and_the_one_unused_for_longest_goes() {
    let fixture = DaemonFixture::open().await;
    let mut ids = Vec::new();
    for _ in 0..16 {
        ids.push(begin_session(&fixture, None).await);
    }
    // The first session has a stream, so the second one is evicted.
    let mut stream = open(&fixture, &ids[0], None).await;
    let ping = |id: &str| in_session(OLD.request("ping", json!({})), id, None);
    assert_eq!(fixture.as_user(ping(&ids[0])).await.status, 200);
    ids.push(begin_session(&fixture, None).await);
    for (n, id) in ids.iter().enumerate() {
        let expected = if n == 1 { 404 } else { 200 };
        assert_eq!(fixture.as_user(ping(id)).await.status, expected, "{n}");
    }
    subscribe(&fixture, &ids[0], "aw://team/main/channel").await;
    send_message(&fixture, "hello").await;
    stream.next_with_method("notifications/resources/updated").await;
}

#[tokio::test]
async fn the_sessions_of_a_token_are_counted_however_its_header_is_spelled() {
    let fixture = DaemonFixture::open().await;
    let token = fixture.client_token().await;
    let spelled = |question: TestRequest, spaces: usize| {
        question.header("Authorization", &format!("Bearer{}{token}", " ".repeat(spaces)))
    };
    let mut ids = Vec::new();
    for n in 0..17 {
        let hello = spelled(initialize_request(&stream_capability()), n % 9 + 1);
        ids.push(session(&fixture.as_user(hello).await).expect("a session"));
    }
    for (n, id) in ids.iter().enumerate() {
        let ping = OLD.request("ping", json!({})).header("Mcp-Session-Id", id);
        let expected = if n == 0 { 404 } else { 200 };
        assert_eq!(fixture.as_user(spelled(ping, 1)).await.status, expected, "{n}");
    }
}

#[tokio::test]
async fn an_owner_whose_sessions_all_have_a_stream_gets_no_further_session() {
    let fixture = DaemonFixture::open().await;
    let mut streams = Vec::new();
    for _ in 0..16 {
        let id = begin_session(&fixture, None).await;
        streams.push(open(&fixture, &id, None).await);
        // The response of the stream has started, so the stream counts as open.
        let ping = in_session(OLD.request("ping", json!({})), &id, None);
        assert_eq!(fixture.as_user(ping).await.status, 200);
    }
    let answer = fixture.as_user(initialize_request(&stream_capability())).await;
    assert_eq!((answer.status, session(&answer)), (200, None), "{answer:?}");
}

#[tokio::test]
async fn a_session_without_requests_and_streams_ends_by_itself() {
    let fixture = DaemonFixture::open().await;
    let (unused, heard) =
        (begin_session(&fixture, None).await, begin_session(&fixture, None).await);
    let mut stream = open(&fixture, &heard, None).await;
    // The response of the stream has started, so the stream counts as open.
    subscribe(&fixture, &heard, "aw://team/main/channel").await;
    send_message(&fixture, "hello").await;
    stream.next_with_method("notifications/resources/updated").await;
    let time = ManualTime::start();
    time.advance(Duration::from_mins(31)).await;
    let ping = |id: &str| in_session(OLD.request("ping", json!({})), id, None);
    // Time does not advance, so the loop is limited by a count.
    let mut looks = 0;
    while fixture.as_user(ping(&unused)).await.status != 404 {
        looks += 1;
        assert!(looks < 1000, "it is still there");
    }
    assert_eq!(fixture.as_user(ping(&heard)).await.status, 200);
}

async fn subscribe(fixture: &DaemonFixture, id: &str, uri: &str) {
    let subscribe = OLD.request("resources/subscribe", json!({ "uri": uri }));
    let answer = fixture.as_user(in_session(subscribe, id, None)).await;
    assert!(answer.body.contains(r#""result":{}"#), "{answer:?}");
}

async fn send_message(fixture: &DaemonFixture, text: &str) {
    let said = json!({"target": "@team", "message": text}).to_string();
    assert_eq!(fixture.as_user(TestRequest::post("/messages", said)).await.status, 200);
}

async fn write(fixture: &DaemonFixture, path: &str, text: &str) {
    let written = json!({"target": "@team", "content": text, "mode": "append"}).to_string();
    let answer = fixture.as_user(TestRequest::post(&format!("/documents/{path}"), written)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn only_changes_of_subscribed_resources_are_notified() {
    let fixture = DaemonFixture::open().await;
    let id = begin_session(&fixture, None).await;
    let mut stream = open(&fixture, &id, None).await;
    subscribe(&fixture, &id, "aw://team/main/document/notes.md").await;
    send_message(&fixture, "this is not asked for").await;
    write(&fixture, "other.md", "nor this").await;
    write(&fixture, "notes.md", "x").await;
    let updated = stream.next_with_method("notifications/resources/updated").await;
    assert_eq!(updated, json!({"uri": "aw://team/main/document/notes.md"}));
    subscribe(&fixture, &id, "aw://team/main/channel").await;
    send_message(&fixture, "@reviewer look").await;
    let updated = stream.next_with_method("notifications/resources/updated").await;
    assert_eq!(updated, json!({"uri": "aw://team/main/channel"}));
    let mention = stream.next_with_method("notifications/mention").await;
    assert_eq!(
        (&mention["from"], &mention["target"], &mention["message"]),
        (&json!("user"), &json!("reviewer"), &json!("@reviewer look"))
    );
    assert!(mention["timestamp"].is_string(), "{mention}");
    let stop = OLD.request("resources/unsubscribe", json!({"uri": "aw://team/main/channel"}));
    fixture.as_user(in_session(stop, &id, None)).await;
    send_message(&fixture, "unheard").await;
    write(&fixture, "notes.md", "y").await;
    let next = stream.next().await.unwrap();
    assert_eq!(next["params"]["uri"], "aw://team/main/document/notes.md");
}

#[tokio::test]
async fn an_agent_is_notified_of_its_own_mentions_only() {
    let fixture = DaemonFixture::open().await;
    let token = Some(fixture.job.token.as_str());
    let id = begin_session(&fixture, token).await;
    let mut stream = open(&fixture, &id, token).await;
    send_message(&fixture, "@reviewer not for coder").await;
    send_message(&fixture, "@coder for you").await;
    let mention = stream.next().await.unwrap();
    assert_eq!(mention["method"], "notifications/mention");
    assert_eq!(mention["params"]["message"], "@coder for you");
    assert_eq!(stream.status(), "200");
    // The session ends with the attempt, and so does the stream.
    let stop = TestRequest::post("/agents/coder@team/stop", "").header("Content-Type", "");
    assert_eq!(fixture.as_user(stop).await.status, 200);
    while stream.next().await.is_some() {}
}

#[tokio::test]
async fn a_request_of_the_era_without_sessions_receives_changes() {
    let fixture = DaemonFixture::open().await;
    let uris = ["aw://team/main/document/notes.md", "aw://team/main/channel", "file:///etc/passwd"];
    let listen = NEW.request(
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": uris, "toolsListChanged": true}}),
    );
    let mut stream = fixture.open_event_stream(listen).await;
    let accepted = stream.next_with_method("notifications/subscriptions/acknowledged").await;
    assert_eq!(accepted["notifications"], json!({"resourceSubscriptions": uris[..2]}));
    write(&fixture, "notes.md", "x").await;
    let updated = stream.next_with_method("notifications/resources/updated").await;
    assert_eq!(updated["uri"], uris[0]);
    send_message(&fixture, "hello").await;
    assert_eq!(stream.next_with_method("notifications/resources/updated").await["uri"], uris[1]);
    // A daemon that stops ends the stream with a result.
    fixture.shutdown.close_streams();
    let last = stream.next().await.unwrap();
    assert!(last.get("result").is_some(), "{last}");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_stream_and_a_session_watch_a_limited_number_of_resources() {
    let fixture = DaemonFixture::open().await;
    let uris: Vec<_> = (0..1_001).map(|n| format!("aw://team/main/document/{n}.md")).collect();
    let params = json!({"notifications": {"resourceSubscriptions": uris}});
    let mut stream = fixture.open_event_stream(NEW.request("subscriptions/listen", params)).await;
    let accepted = stream.next_with_method("notifications/subscriptions/acknowledged").await;
    let accepted = &accepted["notifications"]["resourceSubscriptions"];
    assert_eq!(accepted, &json!(uris[..1_000]));
    let id = begin_session(&fixture, None).await;
    for uri in &uris[..1_000] {
        subscribe(&fixture, &id, uri).await;
    }
    let one_more = OLD.request("resources/subscribe", json!({ "uri": uris[1_000] }));
    let answer = fixture.as_user(in_session(one_more, &id, None)).await;
    assert!(answer.body.contains("a session has at most 1000 subscriptions"), "{answer:?}");
}

#[tokio::test]
async fn subscriptions_count_as_streams_of_their_token() {
    let fixture = DaemonFixture::open().await;
    let token = fixture.client_token().await;
    let listen = || {
        let channel = ["aw://team/main/channel"];
        let params = json!({"notifications": {"resourceSubscriptions": channel}});
        NEW.request("subscriptions/listen", params).token(&token)
    };
    let mut open = Vec::new();
    for _ in 0..32 {
        let mut stream = fixture.open_event_stream(listen()).await;
        stream.next_with_method("notifications/subscriptions/acknowledged").await;
        open.push(stream);
    }
    let refused = fixture.as_user(listen()).await;
    assert_eq!(refused.refusal(), (429, "limit".to_owned()));
    let events = TestRequest::get("/events?target=@team").token(&token);
    assert_eq!(fixture.as_user(events).await.refusal(), (429, "limit".to_owned()));
    open.pop();
    fixture
        .wait_until(async || {
            let mut stream = fixture.open_event_stream(listen()).await;
            let first = stream.next().await;
            first.is_some_and(|event| event["method"] == "notifications/subscriptions/acknowledged")
        })
        .await;
}

#[tokio::test]
async fn a_caller_cannot_subscribe_to_resources_that_it_may_not_read() {
    let fixture = DaemonFixture::open().await;
    let other = fixture
        .file("other", "name: other\nagents:\n  quick: { backend: mock }\nkickoff: '@quick go'\n");
    let started = fixture.as_user(TestRequest::post("/serve", other.to_string())).await;
    assert_eq!(started.status, 200, "{started:?}");
    let token = Some(fixture.job.token.as_str());
    let uri = "aw://other/main/channel";
    let read = with_token(NEW.request("resources/read", json!({ "uri": uri })), token);
    let read = fixture.as_user(read).await.json();
    assert_eq!(read["error"]["data"]["code"], "forbidden", "{read}");
    let listen = NEW.request(
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": [uri]}}),
    );
    let mut stream = fixture.open_event_stream(with_token(listen, token)).await;
    stream.next_with_method("notifications/subscriptions/acknowledged").await;
    let end = stream.next().await.unwrap();
    assert_eq!(end["error"]["data"]["code"], "forbidden", "{end}");
    let id = begin_session(&fixture, token).await;
    let subscribe = OLD.request("resources/subscribe", json!({ "uri": uri }));
    let answer = fixture.as_user(in_session(subscribe, &id, token)).await;
    assert!(answer.body.contains("forbidden"), "{answer:?}");
    // A client without a stream gets a hint about how to get one.
    let none = OLD.request("resources/subscribe", json!({"uri": "aw://team/main/channel"}));
    let none = fixture.as_user(none).await.json();
    assert!(none["error"]["message"].as_str().unwrap().contains("agent-worker/stream"), "{none}");
}
