//! Tests of joining and leaving agents over HTTP.

use serde_json::{Value, json};

use super::fixture::{DaemonFixture, TestRequest};

async fn post(fixture: &DaemonFixture, path: &str, body: Value) -> Value {
    let answer = fixture.as_user(TestRequest::post(path, body.to_string())).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

fn standalone(name: &str) -> Value {
    json!({"name": name, "backend": "mock", "mock": [{"say": "hi"}], "system": "You are calm."})
}

#[tokio::test]
async fn an_agent_joins_is_explained_stops_goes_on_and_leaves() {
    let fixture = DaemonFixture::open().await;
    let joined = post(&fixture, "/agents", standalone("helper")).await;
    assert_eq!((&joined["name"], &joined["instance"]), (&json!("helper"), &json!("global")));
    let detail = fixture.as_user(TestRequest::get("/agents/helper")).await.json();
    assert_eq!((&detail["state"], &detail["system"]), (&json!("idle"), &json!("You are calm.")));
    assert_eq!(detail["run_state"]["state"], "running");
    let stopped = post(&fixture, "/agents/helper/stop", Value::Null).await;
    assert_eq!(stopped, json!({"agent": "helper", "instance": "global", "processes": 0}));
    let detail = fixture.as_user(TestRequest::get("/agents/helper")).await.json();
    assert_eq!(detail["state"], "stopped");
    let waiting = fixture.as_user(TestRequest::get("/attention")).await.items();
    assert_eq!(
        (&waiting[0]["kind"], &waiting[0]["agent"]),
        (&json!("agent_stopped"), &json!("helper"))
    );
    let resumed = post(&fixture, "/agents/helper/resume", Value::Null).await;
    assert_eq!(resumed["state"], "idle");
    let gone = fixture.as_user(TestRequest::new("DELETE", "/agents/helper")).await;
    assert_eq!(gone.json()["agent"], "helper");
    let missing = fixture.as_user(TestRequest::get("/agents/helper")).await;
    assert_eq!(missing.refusal(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn a_target_in_a_path_is_read_encoded_or_not() {
    let fixture = DaemonFixture::open().await;
    for path in [
        "/agents/coder",
        "/agents/coder@team",
        "/agents/coder%40team%3Amain",
        "/agents/CODER@team:main",
    ] {
        let answer = fixture.as_user(TestRequest::get(path)).await;
        assert_eq!(answer.json()["name"], "coder", "{path}");
    }
    let whole = fixture.as_user(TestRequest::get("/agents/%40team")).await;
    assert_eq!(whole.refusal(), (400, "bad_request".to_owned()));
}

#[tokio::test]
async fn a_key_lets_an_agent_join_once() {
    let fixture = DaemonFixture::open().await;
    let join = |key: &str| {
        TestRequest::post("/agents", standalone("helper").to_string())
            .header("Idempotency-Key", key)
    };
    let first = fixture.as_user(join("k1")).await;
    assert_eq!((first.status, fixture.as_user(join("k1")).await.json()), (200, first.json()));
    assert_eq!(fixture.as_user(join("k2")).await.refusal(), (409, "conflict".to_owned()));
    let body = r#"{"backend": "mock", "mock": [{"say": "hi"}]}"#;
    let nameless = || TestRequest::post("/agents", body).header("Idempotency-Key", "k3");
    let first = fixture.as_user(nameless()).await.json();
    assert_eq!(
        (&first["name"], fixture.as_user(nameless()).await.json()),
        (&json!("a0"), first.clone())
    );
}

#[tokio::test]
async fn an_agent_looks_into_its_own_inbox_and_acks_what_it_saw() {
    let fixture = DaemonFixture::open().await;
    for text in ["@coder more", "@coder and more"] {
        post(&fixture, "/messages", json!({"target": "@team", "message": text})).await;
    }
    let as_coder =
        async |question: TestRequest| fixture.over_tcp(question.token(&fixture.job.token)).await;
    let ack = |until: i64| TestRequest::post("/inbox/ack", json!({"until": until}).to_string());
    assert_eq!(as_coder(ack(9)).await.json(), json!({"with_this_turn": []}), "it has seen nothing");
    // Messages that another caller reads do not count as shown to the agent.
    let looked = fixture.as_user(TestRequest::get("/inbox?target=coder@team")).await.json();
    assert_eq!(looked["items"].as_array().unwrap().len(), 2);
    assert_eq!(as_coder(ack(9)).await.json(), json!({"with_this_turn": []}));
    let own = as_coder(TestRequest::get("/inbox")).await.json();
    let bodies: Vec<&Value> = own["items"].as_array().unwrap().iter().map(|m| &m["body"]).collect();
    assert_eq!(own["agent"], "coder");
    assert_eq!(bodies, ["@coder more", "@coder and more"]);
    let first = own["items"][0]["seq"].as_i64().unwrap();
    assert_eq!(as_coder(ack(first)).await.json(), json!({"with_this_turn": [first]}));
    assert_eq!(
        as_coder(TestRequest::get("/inbox")).await.json()["items"][0]["body"],
        "@coder and more"
    );
    let others = as_coder(TestRequest::get("/inbox?target=reviewer@team")).await;
    assert_eq!(others.refusal(), (403, "forbidden".to_owned()));
    let whose = fixture.as_user(TestRequest::get("/inbox?target=@team")).await;
    assert_eq!(whose.refusal(), (400, "bad_request".to_owned()));
}

#[tokio::test]
async fn a_log_is_read_from_where_one_was() {
    let fixture = DaemonFixture::open().await;
    let log = fixture.as_user(TestRequest::get("/logs?target=coder@team")).await.json();
    assert_eq!(
        (&log["text"], &log["next"], &log["ended"]),
        (&json!("printed\n"), &json!(8), &json!(false))
    );
    let none = fixture.as_user(TestRequest::get("/logs?target=reviewer@team")).await;
    assert_eq!(none.refusal(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn feedback_is_kept_and_read_by_the_user() {
    let fixture = DaemonFixture::open().await;
    let token = fixture.client_token().await;
    let say = TestRequest::post("/feedback", r#"{"message": "clear errors"}"#);
    assert_eq!(fixture.over_tcp(say.token(&token)).await.json()["by"], "client:ci");
    let list = fixture.as_user(TestRequest::get("/feedback")).await.items();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["message"]), (1, &json!("clear errors")));
}
