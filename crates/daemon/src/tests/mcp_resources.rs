//! Tests of the rest of the MCP interface: resources, prompts, completion.

use serde_json::{Value, json};

use super::{
    fixture::{DaemonFixture, TestRequest},
    mcp::ClientEra,
};

const NEW: ClientEra = ClientEra::Stateless;

async fn call_method(
    fixture: &DaemonFixture,
    token: Option<&str>,
    method: &str,
    params: Value,
) -> Value {
    let question = NEW.request(method, params);
    let question = match token {
        Some(token) => question.token(token),
        None => question,
    };
    fixture.as_user(question).await.json()
}

fn uris(list: &Value) -> Vec<&str> {
    let list = list["result"]["resources"].as_array().unwrap_or_else(|| panic!("{list}"));
    list.iter().map(|one| one["uri"].as_str().unwrap()).collect()
}

/// Creates a team with one document.
async fn fixture_with_document() -> DaemonFixture {
    let fixture = DaemonFixture::open().await;
    let document = json!({"target": "@team", "content": "# Notes", "mode": "append"}).to_string();
    let written = fixture.as_user(TestRequest::post("/documents/design/api.md", document)).await;
    assert_eq!(written.status, 200, "{written:?}");
    fixture
}

#[tokio::test]
async fn every_caller_sees_its_own_resources() {
    let fixture = fixture_with_document().await;
    let coder = Some(fixture.job.token.as_str());
    let own =
        ["aw://team/main/channel", "aw://team/main/inbox", "aw://team/main/document/design/api.md"];
    let list = call_method(&fixture, coder, "resources/list", json!({})).await;
    assert_eq!(uris(&list), own);
    assert_eq!(list["result"]["cacheScope"], "private", "{list}");
    let all = call_method(&fixture, None, "resources/list", json!({})).await;
    assert!(uris(&all).contains(&own[0]) && uris(&all).contains(&own[2]), "{all}");
    assert!(!uris(&all).contains(&own[1]), "{all}");
    for uri in own {
        let read = call_method(&fixture, coder, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(read["result"]["contents"][0]["uri"], uri, "{read}");
    }
    let read = call_method(&fixture, None, "resources/read", json!({"uri": own[2]})).await;
    let content = &read["result"]["contents"][0];
    assert_eq!(
        (&content["text"], &content["mimeType"]),
        (&json!("# Notes"), &json!("text/markdown"))
    );
    let inbox = call_method(&fixture, None, "resources/read", json!({"uri": own[1]})).await;
    assert_eq!(inbox["error"]["data"]["code"], "bad_request", "{inbox}");
}

#[tokio::test]
async fn an_unknown_resource_address_is_refused_with_that_address() {
    let fixture = fixture_with_document().await;
    for uri in [
        "aw://team/main/document/none.md",
        "aw://nowhere/main/channel",
        "aw://team/main/document/../../../../etc/passwd",
        "file:///etc/passwd",
    ] {
        let read = call_method(&fixture, None, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(
            (&read["error"]["code"], &read["error"]["data"]["uri"]),
            (&json!(-32602), &json!(uri)),
            "{read}"
        );
    }
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let fixture = DaemonFixture::open().await;
    for n in 0..101 {
        let document = json!({"target": "@team", "content": "x", "mode": "append"}).to_string();
        fixture.as_user(TestRequest::post(&format!("/documents/{n}.md"), document)).await;
    }
    let coder = Some(fixture.job.token.as_str());
    let first = call_method(&fixture, coder, "resources/list", json!({})).await;
    assert_eq!(uris(&first).len(), 100);
    let cursor = first["result"]["nextCursor"].clone();
    let second = call_method(&fixture, coder, "resources/list", json!({ "cursor": cursor })).await;
    assert_eq!((uris(&second).len(), second["result"].get("nextCursor")), (3, None));
    let wrong = call_method(&fixture, coder, "resources/list", json!({"cursor": "x"})).await;
    assert_eq!(wrong["error"]["code"], json!(-32602), "{wrong}");
}

#[tokio::test]
async fn roles_are_listed_as_prompts() {
    let fixture = DaemonFixture::open().await;
    let list = call_method(&fixture, None, "prompts/list", json!({})).await;
    let names: Vec<_> =
        list["result"]["prompts"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["coordinator", "reviewer", "document_owner"]);
    let get = json!({"name": "reviewer", "arguments": {"agent": "coder"}});
    let got = call_method(&fixture, None, "prompts/get", get).await;
    let text = got["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("the work of coder"), "{text}");
    let none = call_method(&fixture, None, "prompts/get", json!({"name": "poet"})).await;
    assert!(none["error"]["message"].as_str().unwrap().contains("coordinator"), "{none}");
}

#[tokio::test]
async fn names_that_are_there_complete_what_was_begun() {
    let fixture = fixture_with_document().await;
    let complete = async |reference: Value, name: &str, value: &str| {
        let argument = json!({"name": name, "value": value});
        let params = json!({"ref": reference, "argument": argument});
        let done = call_method(&fixture, None, "completion/complete", params).await;
        done["result"]["completion"]["values"].clone()
    };
    let prompt = || json!({"type": "ref/prompt", "name": "reviewer"});
    let template =
        || json!({"type": "ref/resource", "uri": "aw://{workflow}/{tag}/document/{+path}"});
    for (reference, name, value, expected) in [
        (prompt(), "agent", "", json!(["coder", "reviewer"])),
        (prompt(), "agent", "Re", json!(["reviewer"])),
        (prompt(), "agent", "x", json!([])),
        (prompt(), "file", "de", json!(["design/api.md"])),
        (prompt(), "goal", "", json!([])),
        (template(), "workflow", "t", json!(["team"])),
        (template(), "path", "", json!(["design/api.md"])),
    ] {
        assert_eq!(complete(reference, name, value).await, expected, "{name} {value}");
    }
}

#[tokio::test]
async fn a_proposal_is_read_by_its_number_in_its_own_instance() {
    let fixture = DaemonFixture::open().await;
    let coder = Some(fixture.job.token.as_str());
    let args = json!({"title": "Ship it?", "options": ["yes", "no"]});
    let made = NEW.call("proposal_create", &args).token(&fixture.job.token);
    let made = fixture.as_user(made).await.json();
    assert_eq!(made["result"]["isError"], json!(false), "{made}");
    let read =
        call_method(&fixture, coder, "resources/read", json!({"uri": "aw://team/main/proposal/1"}))
            .await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
    assert!(text.contains("Ship it?"), "{text}");
    let none =
        call_method(&fixture, coder, "resources/read", json!({"uri": "aw://team/main/proposal/2"}))
            .await;
    assert_eq!(none["error"]["code"], json!(-32602), "{none}");
    let other =
        call_method(&fixture, coder, "resources/read", json!({"uri": "aw://else/main/proposal/1"}))
            .await;
    assert_eq!(other["error"]["data"]["code"], "forbidden", "{other}");
}
