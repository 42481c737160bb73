//! Tests of MCP tools that name an instance by its folder, a run by its target, and what waits for a person.

use std::path::PathBuf;

use agent_worker_protocol::{Permission, mcp_wire::PROJECT_HEADER};
use serde_json::{Value, json};

use super::{
    fixture::{DaemonFixture, TestRequest},
    scopes::call,
};

/// Calls a tool as the user, from a folder if one is given.
async fn user_call(
    fixture: &DaemonFixture,
    tool: &str,
    args: Value,
    folder: Option<&str>,
) -> Value {
    let params = json!({"name": tool, "arguments": args});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let mut request = TestRequest::post("/mcp", body.to_string())
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2025-11-25");
    if let Some(folder) = folder {
        request = request.header(PROJECT_HEADER, folder);
    }
    fixture.as_user(request).await.json()["result"]["structuredContent"].clone()
}

/// Starts the workflow `twin` in two folders and returns the folders.
async fn start_twins(fixture: &DaemonFixture) -> [String; 2] {
    let mut folders = Vec::new();
    for name in ["a", "b"] {
        let anywhere = fixture.file("twin", "")["cwd"].clone();
        let folder = PathBuf::from(anywhere.as_str().unwrap()).join(name);
        std::fs::create_dir(&folder).unwrap();
        let folder = folder.canonicalize().unwrap();
        let file = folder.join("twin.yaml");
        std::fs::write(&file, "name: twin\nagents: {a: {backend: mock, mock: []}}\n").unwrap();
        let args = json!({"file": file, "mode": "start"});
        let started = user_call(fixture, "run_start", args, None).await;
        assert_eq!(started["instance"], "twin", "{started}");
        folders.push(folder.to_str().unwrap().to_owned());
    }
    folders.try_into().unwrap()
}

/// Checks that a tool of the user or a client takes an instance; a run is started from a file.
pub(super) fn assert_place_arguments(tool: &Value) {
    let expected = if tool["name"] == "run_start" { Value::Null } else { json!("string") };
    for name in ["target", "project"] {
        assert_eq!(tool["inputSchema"]["properties"][name]["type"], expected, "{tool}");
    }
}

#[tokio::test]
async fn a_workflow_that_is_live_in_two_folders_is_addressed_by_the_callers_folder() {
    let fixture = DaemonFixture::open().await;
    let [a, b] = start_twins(&fixture).await;
    let twin = |project: Option<&str>| json!({"target": "@twin", "project": project});
    let ambiguous = user_call(&fixture, "run_status", twin(None), None).await;
    assert_eq!(ambiguous["code"], "conflict", "{ambiguous}");
    for (project, folder, expected) in [
        (Some(a.as_str()), None, &a),
        (Some(b.as_str()), None, &b),
        (None, Some(a.as_str()), &a),
        (None, Some(b.as_str()), &b),
        (Some(a.as_str()), Some(b.as_str()), &a),
    ] {
        let shown = user_call(&fixture, "run_status", twin(project), folder).await;
        assert_eq!((&shown["project"], &shown["mode"]), (&json!(expected), &json!("start")));
    }
    let send = json!({"target": "@twin", "message": "for b"});
    assert_eq!(user_call(&fixture, "channel_send", send, Some(&b)).await["instance"], "twin");
    let found = async |project: &str| {
        let args = json!({"target": "@twin", "project": project, "search": "for b"});
        let read = user_call(&fixture, "channel_read", args, None).await;
        read["messages"].as_array().unwrap().len()
    };
    assert_eq!([found(&a).await, found(&b).await], [0, 1]);
    let relative = user_call(&fixture, "run_status", twin(Some("b")), None).await;
    assert_eq!(relative["code"], "bad_request", "{relative}");
    for tool in ["run_status", "run_list"] {
        let relative = user_call(&fixture, tool, json!({}), Some("b")).await;
        let expected = "`agent-worker-project` must be an absolute path";
        assert_eq!(
            (&relative["code"], &relative["message"]),
            (&json!("bad_request"), &json!(expected))
        );
    }
    // A folder selects among the instances of a token and adds none.
    let token = fixture.token_for("a-only", &[Permission::Read], &[&a]).await;
    assert_eq!(call(&fixture, &token, "run_status", twin(Some(&b))).await["project"], json!(a));
}

#[tokio::test]
async fn a_mistake_in_the_arguments_is_worded_without_the_words_of_a_library() {
    let fixture = DaemonFixture::open().await;
    for (tool, args, expected) in [
        ("vote", json!({"proposal": "abc"}), "`proposal` must be a whole number, not \"abc\""),
        (
            "channel_read",
            json!({"limit": []}),
            "`limit` must be a whole number of 0 or more, not a list",
        ),
        ("run_status", json!({"run": "nope"}), "`run` must be an id, such as `"),
        ("agent_new", json!({"command": "./x"}), "`command` must be a list, not \"./x\""),
        ("channel_send", json!({"target": 1}), "`target` must be text, not 1"),
        (
            "run_finish",
            json!({"outcome": "bogus", "summary": ""}),
            "`outcome` must be `done` or `failed`, not `bogus`",
        ),
        (
            "question_answer",
            json!({"no": 1}),
            "unknown field `no`; the fields are `id`, `question`, `answer`, `target`, `project`",
        ),
    ] {
        let params = json!({"name": tool, "arguments": args});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let request = TestRequest::post("/mcp", body.to_string())
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2025-11-25");
        let reply = fixture.as_user(request).await.json();
        let message = reply["error"]["message"].as_str().unwrap_or_else(|| panic!("{reply}"));
        assert!(message.starts_with(&format!("{tool}: {expected}")), "{message}");
    }
}

#[tokio::test]
async fn the_folder_of_a_connection_is_no_working_folder_of_a_new_agent() {
    let fixture = DaemonFixture::open().await;
    let [a, _] = start_twins(&fixture).await;
    let token = fixture.token_for("global", Permission::ALL, &["@global"]).await;
    let new = |args: Value| json!({"name": "agent_new", "arguments": args});
    let call = async |args: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": new(args)});
        let request = TestRequest::post("/mcp", body.to_string())
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2025-11-25")
            .header(PROJECT_HEADER, &a);
        let reply = fixture.over_tcp(request.token(&token)).await;
        reply.json()["result"]["structuredContent"].clone()
    };
    let joined = call(json!({"name": "helper", "backend": "mock"})).await;
    assert_eq!(joined["name"], "helper", "{joined}");
    let refused = call(json!({"name": "other", "backend": "mock", "project": a})).await;
    assert_eq!(refused["code"], "forbidden", "{refused}");
}

#[tokio::test]
async fn a_wrong_file_names_the_nearest_one_and_a_paused_run_its_next_step() {
    let fixture = DaemonFixture::open().await;
    let [a, _] = start_twins(&fixture).await;
    let refused =
        user_call(&fixture, "run_start", json!({"file": format!("{a}/twni.yaml")}), None).await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.ends_with(&format!("did you mean `{a}/twin.yaml`?")), "{message}");
    let here = json!({"target": "@twin", "project": a});
    let run = user_call(&fixture, "run_status", here.clone(), None).await;
    assert_eq!(run["hint"], Value::Null, "{run}");
    let pause = format!("/runs/{}/pause", run["run"].as_str().unwrap());
    assert_eq!(fixture.as_user(TestRequest::post(&pause, "")).await.status, 200);
    let run = user_call(&fixture, "run_status", here, None).await;
    let hint = run["hint"].as_str().unwrap_or_else(|| panic!("{run}"));
    assert!(hint.starts_with("continue the run: run_resume with {\"run\":"), "{hint}");
    let shown = TestRequest::get(&format!("/runs/{}", run["run"].as_str().unwrap()));
    let hint = fixture.as_user(shown).await.json()["hint"].as_str().unwrap().to_owned();
    assert!(hint.starts_with("continue the run: `POST /runs/"), "{hint}");
}

#[tokio::test]
async fn a_client_is_told_to_write_with_the_revision_that_it_read() {
    let fixture = DaemonFixture::open().await;
    let write = |base: Value| json!({"target": "@team", "content": "x", "base_revision": base});
    let first = user_call(&fixture, "document_write", write(json!(0)), None).await;
    assert_eq!(first["revision"], 1, "{first}");
    let refused = user_call(&fixture, "document_write", write(Value::Null), None).await;
    let hint = "read it with document_read, then document_write with its revision as base_revision";
    assert_eq!(refused["hint"], hint, "{refused}");
    let second = user_call(&fixture, "document_write", write(json!(1)), None).await;
    assert_eq!(second["revision"], 2, "{second}");
}

#[tokio::test]
async fn a_list_is_narrowed_by_the_folder_of_the_call_and_not_by_that_of_the_connection() {
    let fixture = DaemonFixture::open().await;
    let [a, b] = start_twins(&fixture).await;
    let runs = async |args: Value, folder: Option<&str>| {
        let list = user_call(&fixture, "run_list", args, folder).await;
        list["runs"].as_array().unwrap().len()
    };
    assert_eq!(runs(json!({}), Some(&a)).await, 3);
    assert_eq!(runs(json!({"limit": 2}), None).await, 2);
    assert_eq!(runs(json!({"target": "@twin"}), Some(&a)).await, 1);
    assert_eq!(
        user_call(&fixture, "run_list", json!({"limit": 1001}), None).await["code"],
        "bad_request"
    );
    let only = user_call(&fixture, "workflow_list", json!({"project": b}), None).await;
    let projects: Vec<_> =
        only["workflows"].as_array().unwrap().iter().map(|one| &one["project"]).collect();
    assert!(projects.contains(&&json!(b)) && !projects.contains(&&json!(a)), "{only}");
}

#[tokio::test]
async fn a_run_is_shown_stopped_and_resumed_by_its_target() {
    let fixture = DaemonFixture::open().await;
    let [a, b] = start_twins(&fixture).await;
    let here = json!({"target": "@twin", "project": a});
    let agent = json!({"target": "coder@twin", "project": a});
    let refused = user_call(&fixture, "run_stop", agent, None).await;
    assert_eq!(refused["code"], "bad_request", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("agent_stop"), "{refused}");
    assert_eq!(user_call(&fixture, "run_status", here.clone(), None).await["state"], "running");
    let stopped = user_call(&fixture, "run_stop", here.clone(), None).await;
    assert_eq!(stopped["instance"], "twin", "{stopped}");
    assert_eq!(user_call(&fixture, "run_status", here.clone(), None).await["state"], "ended");
    let there = json!({"target": "@twin", "project": b});
    assert_eq!(user_call(&fixture, "run_status", there, None).await["state"], "running");
    let resumed = user_call(&fixture, "run_resume", here, None).await;
    assert_eq!(resumed["code"], "run_ended", "{resumed}");
    let again =
        user_call(&fixture, "run_stop", json!({"target": "@twin", "project": a}), None).await;
    assert_eq!(again["code"], "run_ended", "{again}");
    for args in [json!({}), json!({"run": fixture.run, "target": "@team"})] {
        let refused = user_call(&fixture, "run_stop", args, None).await;
        assert_eq!(refused["code"], "bad_request", "{refused}");
    }
}

#[tokio::test]
async fn a_token_that_allows_approve_answers_questions_and_requests() {
    let fixture = DaemonFixture::open().await;
    let judge = fixture.token_for("judge", &[Permission::Read, Permission::Approve], &[]).await;
    let asked = json!({"question": "Which colour?", "options": ["red", "blue"]});
    call(&fixture, &fixture.job.token, "ask_human", asked).await;
    let open = call(&fixture, &judge, "question_list", json!({})).await;
    assert_eq!((&open["items"][0]["id"], &open["next"]), (&json!(1), &Value::Null), "{open}");
    assert!(open["items"][0]["project"].is_string(), "{open}");
    let answer = json!({"target": "@team", "id": 1, "answer": "blue"});
    let answered = call(&fixture, &judge, "question_answer", answer).await;
    assert_eq!(answered["woken"], json!(["coder"]), "{answered}");
    assert_eq!(call(&fixture, &judge, "question_list", json!({})).await["items"], json!([]));

    let path = format!("/attempts/{}/approvals", fixture.job.attempt);
    let wanted = json!({"call": "1", "tool": "Bash", "args": {"command": "ls"}}).to_string();
    let worker = fixture.over_tcp(TestRequest::post(&path, wanted).token(&fixture.job.token));
    let decide = async {
        let open = async || call(&fixture, &judge, "approval_list", json!({})).await;
        fixture.wait_until(async || open().await["items"][0]["tool"] == "Bash").await;
        let id = open().await["items"][0]["id"].clone();
        let deny = json!({"target": "@team", "approval": id, "allow": false, "reason": "not now"});
        call(&fixture, &judge, "approval_answer", deny).await
    };
    let (permit, denied) = tokio::join!(worker, decide);
    assert_eq!(denied["answer"], "denied", "{denied}");
    let permit = permit.json();
    assert_eq!(permit["permit"], "deny", "{permit}");
    assert!(permit["why"].as_str().unwrap().contains("not now"), "{permit}");
}

#[tokio::test]
async fn dead_letters_are_listed_redriven_and_dropped() {
    let fixture = DaemonFixture::open().await;
    let text = "name: fragile\nagents: {fragile: {backend: mock, retry: {max_attempts: 1}}}\nkickoff: '@fragile go'\n";
    let mut request = fixture.file("fragile", text);
    request["mode"] = json!("start");
    assert_eq!(fixture.as_user(TestRequest::post("/runs", request.to_string())).await.status, 200);
    let token = fixture.token_for("post", &[Permission::Read, Permission::Letters], &[]).await;
    let dead = async || call(&fixture, &token, "dead_list", json!({"target": "@fragile"})).await;
    let has_one = async || dead().await["items"].as_array().is_some_and(|all| all.len() == 1);
    fixture.wait_until(has_one).await;
    let which = json!({"target": "@fragile", "agent": "fragile"});
    let redriven = call(&fixture, &token, "dead_redrive", which.clone()).await;
    assert_eq!(redriven["receipts"][0]["agent"], "fragile", "{redriven}");
    fixture.wait_until(has_one).await;
    let dropped = call(&fixture, &token, "dead_drop", which).await;
    assert_eq!(dropped["receipts"][0]["state"], "dropped", "{dropped}");
    assert_eq!(dead().await["items"], json!([]));
}

#[tokio::test]
async fn an_agent_that_shares_nothing_still_asks_a_person_and_sets_its_verdict() {
    let fixture = DaemonFixture::open().await;
    let (_, job) = fixture.start_team_with("alone", "context: false\nfinisher: coder").await;
    let call = async |tool: &str, args: Value| call(&fixture, &job.token, tool, args).await;
    let asked = call("ask_human", json!({"question": "Which?"})).await;
    assert_eq!(asked["question"], 1, "{asked}");
    let set = call("run_finish", json!({"outcome": "failed", "summary": "no key"})).await;
    assert_eq!(set, json!({"outcome": "failed", "summary": "no key", "by": "coder"}));
    let better = call("run_finish", json!({"outcome": "done", "summary": "x"})).await;
    assert_eq!(better["code"], "conflict", "{better}");
    let refused = call("channel_send", json!({"message": "x"})).await;
    assert_eq!(refused["code"], "forbidden", "{refused}");
}
