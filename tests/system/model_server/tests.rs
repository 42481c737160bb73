//! Tests of the scripted model itself, over every API.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::{KEY, ModelServer};

/// Sends a request with a key, and returns the status and the raw response.
fn ask(server: &ModelServer, key: &str, path: &str, body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let body = body.to_string();
    let method = if path.ends_with("/models") { "GET" } else { "POST" };
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nX-Api-Key: {key}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split_whitespace().nth(1).unwrap().parse().unwrap(), answer)
}

/// Returns the same request for each API: its path, and its body for a prompt.
fn requests_by_api(prompt: &str) -> [(&'static str, Value); 4] {
    let messages = json!([{"role": "user", "content": prompt}]);
    let namespace = json!({"type": "namespace", "name": "mcp__team", "tools": [{"type": "function", "name": "look"}]});
    let contents = json!([{"role": "user", "parts": [{"text": prompt}]}]);
    let declared = json!([{"functionDeclarations": [{"name": "mcp_team_look"}]}]);
    [
        (
            "/v1/messages",
            json!({"messages": messages, "stream": true, "tools": [{"name": "mcp__team__look"}]}),
        ),
        ("/v1/responses", json!({"input": messages, "stream": true, "tools": [namespace]})),
        (
            "/v1/chat/completions",
            json!({"messages": messages, "stream": true, "tools": [{"function": {"name": "look"}}]}),
        ),
        (
            "/v1beta/models/m:streamGenerateContent",
            json!({"contents": contents, "tools": declared}),
        ),
    ]
}

/// Returns the path for a response in one piece.
fn non_streaming_path(path: &str) -> String {
    path.replace(":streamGenerate", ":generate")
}

#[test]
fn a_prompt_is_carried_out_over_every_wire() {
    let server = ModelServer::start();
    let names = ["mcp__team__look", "look", "look", "mcp_team_look"];
    for ((path, body), name) in
        requests_by_api("@you\nCALL look {\"at\":7}\nSAY two words").iter().zip(names)
    {
        let (status, answer) = ask(&server, KEY, path, body);
        assert!(status == 200 && answer.contains(&format!("\"{name}\"")), "{answer}");
        assert!(
            answer.contains("\"namespace\":\"mcp__team\"") == path.ends_with("responses"),
            "{answer}"
        );
        assert!(answer.ends_with("\r\n0\r\n\r\n"), "whole: {answer}");
    }
    for (path, body) in requests_by_api("SAY two words\nUSAGE 7 3") {
        let (_, answer) = ask(&server, KEY, path, &body);
        assert!(answer.contains("\"two \"") && answer.contains("\"words\""), "{answer}");
        assert!(answer.contains(":7,") && answer.contains(":3"), "its tokens: {answer}");
    }
    assert_eq!(server.requests().len(), 8);
}

#[test]
fn answers_come_in_one_piece_where_that_is_asked_for() {
    let server = ModelServer::start();
    for (path, mut body) in requests_by_api("SAY two words") {
        body["stream"] = json!(false);
        let (_, answer) = ask(&server, KEY, &non_streaming_path(path), &body);
        assert!(answer.contains("\"two words\"") && !answer.contains("data: "), "{answer}");
    }
    for path in ["/v1/messages/count_tokens", "/v1beta/models/m:countTokens"] {
        let (_, answer) = ask(&server, KEY, path, &json!({"messages": []}));
        assert!(answer.contains("okens\":3}"), "{answer}");
    }
    assert!(ask(&server, KEY, "/v1/models", &json!({})).1.contains("scripted"));
}

#[test]
fn a_client_with_another_key_is_refused_and_so_is_a_client_that_is_to_be_refused() {
    let server = ModelServer::start();
    for (path, body) in requests_by_api("FAIL 429 1\nRETRY_AFTER 9") {
        let (status, answer) = ask(&server, "another", path, &body);
        assert_eq!(status, 401, "{answer}");
    }
    assert_eq!(ask(&server, "another", "/v1/models", &json!({})).0, 401);
    let (path, body) = &requests_by_api("FAIL 429 1\nRETRY_AFTER 9")[0];
    let (status, answer) = ask(&server, KEY, path, body);
    assert!(status == 429 && answer.contains("retry-after: 9\r\n"), "{answer}");
    assert_eq!(ask(&server, KEY, path, body).0, 200);
}

#[test]
fn an_answer_is_held_until_it_may_go_on_and_another_breaks_off() {
    let server = ModelServer::start();
    for (n, (path, body)) in requests_by_api("HOLD\nSAY one two three").iter().enumerate() {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&server, KEY, path, body).1);
            server.wait_held(n + 1);
            assert!(!asked.is_finished());
            server.release_held();
            assert!(asked.join().unwrap().contains("three"));
        });
    }
    for (path, mut body) in requests_by_api("CUT\nSAY one two three") {
        let (status, answer) = ask(&server, KEY, path, &body);
        assert!(status == 200 && !answer.contains("three"), "{answer}");
        assert!(!answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
        body["stream"] = json!(false);
        let (_, answer) = ask(&server, KEY, &non_streaming_path(path), &body);
        let length = answer.split("content-length: ").nth(1).unwrap().split_once('\r').unwrap().0;
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        assert!(body.len() < length.parse().unwrap(), "{answer}");
    }
}

#[test]
fn the_newest_program_counts_and_goes_on_after_each_result() {
    let server = ModelServer::start();
    let (path, mut body) = requests_by_api("").into_iter().next().unwrap();
    let result = |text| json!({"type": "tool_result", "tool_use_id": "1", "content": text});
    let first = json!({"role": "user", "content": "CALL look {}\nSAY first"});
    let second = json!({"role": "user", "content": "CALL look {}\nCALL look {\"again\":1}\nECHO"});
    let mut messages = vec![first, json!({"role": "user", "content": [result("old")]}), second];
    let mut expected = ["\"partial_json\":\"{}\"", "again", "\"text\":\"seen\""].into_iter();
    for answer in ["", "new", "seen"] {
        if !answer.is_empty() {
            messages.push(json!({"role": "user", "content": [result(answer), {"type": "text", "text": "a reminder"}]}));
        }
        body["messages"] = json!(messages);
        let (_, answer) = ask(&server, KEY, path, &body);
        assert!(answer.contains(expected.next().unwrap()), "{answer}");
    }
}
