//! What the MCP door has besides tools: resources by address, prompts, completion.

use serde_json::{Value, json};

use super::{
    house::{House, Question},
    mcp::Era,
};

const NEW: Era = Era::Requests;

async fn ask(house: &House, token: Option<&str>, method: &str, params: Value) -> Value {
    let question = NEW.question(method, params);
    let question = match token {
        Some(token) => question.token(token),
        None => question,
    };
    house.as_user(question).await.json()
}

fn uris(list: &Value) -> Vec<&str> {
    let list = list["result"]["resources"].as_array().unwrap_or_else(|| panic!("{list}"));
    list.iter().map(|one| one["uri"].as_str().unwrap()).collect()
}

/// A team with one document, and another instance beside it.
async fn furnished() -> House {
    let house = House::open().await;
    let document = json!({"target": "@team", "content": "# Notes", "mode": "append"}).to_string();
    let written = house.as_user(Question::post("/documents/design/api.md", document)).await;
    assert_eq!(written.status, 200, "{written:?}");
    house
}

#[tokio::test]
async fn everybody_is_shown_what_is_theirs() {
    let house = furnished().await;
    let coder = Some(house.job.token.as_str());
    let own =
        ["aw://team/main/channel", "aw://team/main/inbox", "aw://team/main/document/design/api.md"];
    let list = ask(&house, coder, "resources/list", json!({})).await;
    assert_eq!(uris(&list), own);
    assert_eq!(list["result"]["cacheScope"], "private", "{list}");
    let all = ask(&house, None, "resources/list", json!({})).await;
    assert!(uris(&all).contains(&own[0]) && uris(&all).contains(&own[2]), "{all}");
    assert!(!uris(&all).contains(&own[1]), "{all}");
    for uri in own {
        let read = ask(&house, coder, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(read["result"]["contents"][0]["uri"], uri, "{read}");
    }
    let read = ask(&house, None, "resources/read", json!({"uri": own[2]})).await;
    let content = &read["result"]["contents"][0];
    assert_eq!(
        (&content["text"], &content["mimeType"]),
        (&json!("# Notes"), &json!("text/markdown"))
    );
    let inbox = ask(&house, None, "resources/read", json!({"uri": own[1]})).await;
    assert_eq!(inbox["error"]["data"]["code"], "bad_request", "{inbox}");
}

#[tokio::test]
async fn an_address_of_nothing_is_said_to_be_one() {
    let house = furnished().await;
    for uri in [
        "aw://team/main/document/none.md",
        "aw://nowhere/main/channel",
        "aw://team/main/document/../../../../etc/passwd",
        "file:///etc/passwd",
    ] {
        let read = ask(&house, None, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(
            (&read["error"]["code"], &read["error"]["data"]["uri"]),
            (&json!(-32602), &json!(uri)),
            "{read}"
        );
    }
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let house = House::open().await;
    for n in 0..101 {
        let document = json!({"target": "@team", "content": "x", "mode": "append"}).to_string();
        house.as_user(Question::post(&format!("/documents/{n}.md"), document)).await;
    }
    let coder = Some(house.job.token.as_str());
    let first = ask(&house, coder, "resources/list", json!({})).await;
    assert_eq!(uris(&first).len(), 100);
    let cursor = first["result"]["nextCursor"].clone();
    let second = ask(&house, coder, "resources/list", json!({ "cursor": cursor })).await;
    assert_eq!((uris(&second).len(), second["result"].get("nextCursor")), (3, None));
    let wrong = ask(&house, coder, "resources/list", json!({"cursor": "x"})).await;
    assert_eq!(wrong["error"]["code"], json!(-32602), "{wrong}");
}

#[tokio::test]
async fn parts_to_play_are_told_as_prompts() {
    let house = House::open().await;
    let list = ask(&house, None, "prompts/list", json!({})).await;
    let names: Vec<_> =
        list["result"]["prompts"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["coordinator", "reviewer", "document_owner"]);
    let get = json!({"name": "reviewer", "arguments": {"agent": "coder"}});
    let got = ask(&house, None, "prompts/get", get).await;
    let text = got["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("the work of coder"), "{text}");
    let none = ask(&house, None, "prompts/get", json!({"name": "poet"})).await;
    assert!(none["error"]["message"].as_str().unwrap().contains("coordinator"), "{none}");
}

#[tokio::test]
async fn names_that_are_there_complete_what_was_begun() {
    let house = furnished().await;
    let complete = async |reference: Value, name: &str, value: &str| {
        let argument = json!({"name": name, "value": value});
        let params = json!({"ref": reference, "argument": argument});
        let done = ask(&house, None, "completion/complete", params).await;
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
    let house = House::open().await;
    let coder = Some(house.job.token.as_str());
    let args = json!({"title": "Ship it?", "options": ["yes", "no"]});
    let made = NEW.call("proposal_create", &args).token(&house.job.token);
    let made = house.as_user(made).await.json();
    assert_eq!(made["result"]["isError"], json!(false), "{made}");
    let read =
        ask(&house, coder, "resources/read", json!({"uri": "aw://team/main/proposal/1"})).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
    assert!(text.contains("Ship it?"), "{text}");
    let none =
        ask(&house, coder, "resources/read", json!({"uri": "aw://team/main/proposal/2"})).await;
    assert_eq!(none["error"]["code"], json!(-32602), "{none}");
    let other =
        ask(&house, coder, "resources/read", json!({"uri": "aw://else/main/proposal/1"})).await;
    assert_eq!(other["error"]["data"]["code"], "forbidden", "{other}");
}
