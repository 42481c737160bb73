//! Tests of every route with every kind of caller: access matches the document, and invalid input is reported as
//! such.

use serde_json::{Value, json};

use super::{
    fixture::{DaemonFixture, TestRequest},
    openapi_contract::{accepts_body, operations, who_may},
};

/// Returns a valid request for an operation, and the status that the user gets.
pub(super) fn valid_request(
    fixture: &DaemonFixture,
    method: &str,
    path: &str,
) -> (TestRequest, u16) {
    let (question, status) = if method == "GET" {
        let (path, status) = valid_get(fixture, path);
        (TestRequest::get(&path), status)
    } else {
        let (path, body, status) = valid_change(fixture, method, path);
        let bare = || TestRequest::new(method, &path);
        (body.map_or_else(bare, |body| TestRequest::post(&path, body.to_string())), status)
    };
    (question.header("Accept", "application/json, text/event-stream"), status)
}

fn valid_get(fixture: &DaemonFixture, path: &str) -> (String, u16) {
    match path {
        "/health" | "/doctor" | "/openapi.json" | "/tokens" | "/feedback" => (path.to_owned(), 200),
        "/resources" | "/agents" | "/runs" | "/stats" | "/messages" | "/attention" | "/dead"
        | "/document" | "/documents" | "/workflows" | "/proposals" | "/questions"
        | "/approvals" | "/grants" | "/suggestions" | "/turns" => {
            (format!("{path}?target=@team"), 200)
        }
        // No attempt has this id; the response is the same for every caller that may ask.
        "/turns/{id}" => ("/turns/ffffffff".to_owned(), 404),
        "/runs/{id}" => (format!("/runs/{}", fixture.run), 200),
        "/agents/{target}" | "/agents/{target}/tools" => {
            (path.replace("{target}", "coder%40team"), 200)
        }
        "/logs" | "/inbox" => (format!("{path}?target=coder@team"), 200),
        // A stream has no end; a request for an unknown target is refused at once.
        "/events" => ("/events?target=@nowhere".to_owned(), 404),
        "/messages/{seq}/receipts" => ("/messages/1/receipts?target=@team".to_owned(), 200),
        "/documents/{path}" | "/revisions/{path}" | "/diffs/{path}" => {
            (format!("{}?target=@team", path.replace("{path}", "a/b.md")), 404)
        }
        // Without a session there is no stream to read; clients know this status.
        "/mcp" => (path.to_owned(), 405),
        "/proposals/{id}" => ("/proposals/1?target=@team".to_owned(), 404),
        // The resource does not exist; the response is the same for every caller.
        "/resources/{id}" => (format!("/resources/{}?target=@team", "0".repeat(64)), 404),
        other => panic!("say how {other} is asked"),
    }
}

/// Paths of proposals, questions, approvals and suggestions.
const DECISION_PATHS: [&str; 5] =
    ["/proposals", "/questions", "/approvals", "/grants", "/suggestions"];

fn valid_decision(path: &str) -> (String, Option<Value>, u16) {
    let same = || path.to_owned();
    match path {
        "/proposals" => (same(), Some(json!({"target": "@team", "title": "Ship it?"})), 200),
        "/proposals/{id}/vote" => {
            let vote = json!({"target": "@team", "choice": "approve"});
            ("/proposals/1/vote".to_owned(), Some(vote), 404)
        }
        "/proposals/{id}/cancel" => {
            ("/proposals/1/cancel".to_owned(), Some(json!({"target": "@team"})), 404)
        }
        "/questions/{id}/answer" => {
            let answer = json!({"target": "@team", "answer": "yes"});
            ("/questions/1/answer".to_owned(), Some(answer), 404)
        }
        "/approvals/{id}/approve" | "/approvals/{id}/deny" | "/grants/{id}/revoke" => {
            (path.replace("{id}", "1"), Some(json!({"target": "@team"})), 404)
        }
        "/suggestions" => (same(), Some(json!({"target": "@team", "suggestion": "better"})), 200),
        "/suggestions/{seq}" => {
            ("/suggestions/99".to_owned(), Some(json!({"target": "@team", "accept": true})), 404)
        }
        other => panic!("say how {other} is asked"),
    }
}

/// Returns a request of a worker, which is refused because no test here is that worker.
fn worker_report(fixture: &DaemonFixture, path: &str) -> (String, Option<Value>, u16) {
    let body = match path {
        "/attempts/{id}/events" => {
            let started =
                json!({"no": 1, "ts": "2026-01-01T00:00:00.000Z", "kind": "started", "pid": 1});
            json!({"events": [started]})
        }
        // A shorter list would wait for a message.
        "/attempts/{id}/messages" => json!({"accepted": vec![1; 101]}),
        "/attempts/{id}/spend" => json!({"tokens": 1}),
        // A shorter call would wait for an approval.
        "/attempts/{id}/approvals" => json!({"call": "c".repeat(999), "tool": "Bash", "args": {}}),
        other => panic!("say how {other} is asked"),
    };
    (path.replace("{id}", &fixture.job.attempt.to_string()), Some(body), 403)
}

fn valid_change(fixture: &DaemonFixture, method: &str, path: &str) -> (String, Option<Value>, u16) {
    let run = fixture.run;
    let same = || path.to_owned();
    let team = || Some(json!({"target": "@team"}));
    match (method, path) {
        ("DELETE", "/mcp") => (same(), None, 405),
        ("DELETE", "/tokens/{name}") => ("/tokens/other".to_owned(), None, 404),
        ("DELETE", "/agents/{target}")
        | (
            "POST",
            "/agents/{target}/stop" | "/agents/{target}/interrupt" | "/agents/{target}/resume",
        ) => (path.replace("{target}", "reviewer@team"), None, 200),
        ("POST", "/agents/{target}/mock") => {
            let script = json!({"rules": [{"say": "hi"}]});
            (path.replace("{target}", "reviewer@team"), Some(script), 200)
        }
        ("POST", "/runs/{id}/stop") => (format!("/runs/{run}/stop?now=true"), None, 200),
        ("POST", "/runs/{id}/pause") => (format!("/runs/{run}/pause"), None, 200),
        ("POST", "/runs/{id}/resume") => (format!("/runs/{run}/resume"), Some(json!({})), 409),
        ("POST", "/release") => (same(), None, 204),
        ("POST", "/shutdown") => (same(), Some(json!({"mode": "drain"})), 202),
        ("POST", "/tokens") => (same(), Some(json!({"name": "new"})), 200),
        ("POST", "/feedback") => (same(), Some(json!({"message": "fine"})), 200),
        ("POST", "/agents") => {
            let third = json!({"target": "@team", "name": "third", "backend": "mock", "mock": [{"say": "hi"}]});
            (same(), Some(third), 200)
        }
        ("POST", "/runs" | "/run" | "/serve") => {
            (same(), Some(json!({"file": "/nowhere/team.yaml", "cwd": "/nowhere"})), 400)
        }
        ("POST", "/messages") => {
            (same(), Some(json!({"target": "@team", "message": "hello"})), 200)
        }
        ("POST", "/resources") => {
            (same(), Some(json!({"target": "@team", "content": "long"})), 200)
        }
        ("POST", "/inbox/ack") => (same(), Some(json!({"until": 1})), 403),
        ("POST", "/dead/redrive" | "/dead/drop") => (same(), team(), 404),
        ("POST", "/documents/{path}") => {
            let more = json!({"target": "@team", "content": "x", "mode": "append"});
            ("/documents/a/b.md".to_owned(), Some(more), 200)
        }
        ("POST", path) if DECISION_PATHS.iter().any(|noun| path.starts_with(noun)) => {
            valid_decision(path)
        }
        ("POST", "/workflows/clear") => (same(), team(), 200),
        ("POST", "/workflows/remove") => (same(), team(), 409),
        ("POST", path) if path.starts_with("/attempts/") => worker_report(fixture, path),
        ("POST", "/mcp") => {
            (same(), Some(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})), 200)
        }
        other => panic!("say how {other:?} is asked"),
    }
}

#[tokio::test]
async fn every_route_answers_permitted_callers_and_refuses_others() {
    for (method, path) in operations() {
        let fixture = DaemonFixture::open().await;
        let token = fixture.client_token().await;
        let ask = || valid_request(&fixture, &method, &path).0;
        let nobody = fixture.over_tcp(ask()).await.status;
        let client = fixture.over_tcp(ask().token(&token)).await.status;
        let agent = fixture.over_tcp(ask().token(&fixture.job.token)).await.status;
        let user = fixture.as_user(ask()).await.status;
        let expected = valid_request(&fixture, &method, &path).1;
        assert_eq!(user, expected, "the user: {method} {path}");
        let others = match who_may(&method, &path) {
            "Open to every caller." => [200, 200, 200],
            // For an agent, a target outside its instance is forbidden, not missing.
            "A client's token must allow `read`." if path == "/events" => [401, 404, 403],
            // The message belongs to the user.
            _ if path == "/messages/{seq}/receipts" => [401, 403, 403],
            // The agent owns the documents and does not suggest changes to itself.
            _ if (method.as_str(), path.as_str()) == ("POST", "/suggestions") => [401, 200, 409],
            // The rights of an agent are those of a default token. An agent votes without a permission, and never
            // answers its own requests to a person.
            "A client's token must allow `approve`."
                if ["/questions", "/approvals", "/grants"]
                    .iter()
                    .any(|noun| path.starts_with(noun)) =>
            {
                [401, 403, 403]
            }
            "A client's token must allow `approve`." => [401, 403, expected],
            "Open to every identified caller."
            | "A client's token must allow `read`."
            | "A client's token must allow `send`."
            | "A client's token must allow `send` or `approve`."
            | "A client's token must allow `documents`." => [401, expected, expected],
            granted if granted.starts_with("A client's token must allow ") => [401, 403, 403],
            "Open only to the user." => [401, 403, 403],
            "Open only to agents."
                if path.ends_with("/approvals") || path.ends_with("/messages") =>
            {
                [401, 403, 413]
            }
            "Open only to agents." => [401, 403, 200],
            other => panic!("{other}"),
        };
        assert_eq!([nobody, client, agent], others, "nobody, client, agent: {method} {path}");
    }
}

#[tokio::test]
async fn nonsense_is_the_askers_fault_at_every_route() {
    let fixture = DaemonFixture::open().await;
    let mut bad = Vec::new();
    for (method, path) in operations() {
        for name in ["%00", "%ff", "%2e%2e%2fx", "co%20der", "-1", "99999999999999999999", "."] {
            if path.contains('{') {
                let start = path.find('{').unwrap();
                let end = path.find('}').unwrap() + 1;
                let path = format!("{}{name}{}", &path[..start], &path[end..]);
                bad.push(TestRequest::post(&path, "{}").method(&method));
            }
        }
        for query in
            ["target=co%20der", "target=%ff", "project=%00", "all=2", "after=-1", "nonsense"]
        {
            let (question, _) = valid_request(&fixture, &method, &path);
            bad.push(question.query(query));
        }
        if method == "POST" && path != "/mcp" && takes_a_body(&path) {
            let (question, _) = valid_request(&fixture, &method, &path);
            for body in ["", "{", "[]", "null", "1", "\"x\"", "\u{0}", "{\"nonsense\": 1}"] {
                bad.push(question.clone().body(body));
            }
        }
    }
    assert!(bad.len() > 300, "{}", bad.len());
    for question in bad {
        let shown = format!("{question:?}");
        let answer = fixture.as_user(question).await;
        assert!(answer.status < 500, "{shown}: {answer:?}");
        if answer.status >= 400 {
            answer.refusal();
        }
    }
}

fn takes_a_body(path: &str) -> bool {
    !path.ends_with("/stop")
        && !path.ends_with("/interrupt")
        && !path.ends_with("/pause")
        && !path.ends_with("{target}/resume")
}

#[test]
fn a_body_with_an_unknown_field_is_refused_by_the_document_too() {
    let fine = json!({"message": "hello", "target": "@team"});
    assert!(accepts_body("/messages", &fine));
    for bad in [json!({"message": "hello", "form": "coder"}), json!({"message": 1}), Value::Null] {
        assert!(!accepts_body("/messages", &bad), "{bad}");
    }
    assert!(accepts_body("/run", &json!({"file": "/a", "cwd": "/"})), "`mode` may be left out");
}
