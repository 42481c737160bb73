//! Tests of scopes: a token grants only its permissions in its instances; for it, other instances do not exist.

use agent_worker_kernel::Principal;
use agent_worker_protocol::{Keyword as _, Permission, ToolName, api::TokenRequest};
use serde_json::{Value, json};

use super::{
    fixture::{DaemonFixture, TestRequest},
    openapi_contract::{operations, who_may},
    route_access::valid_request,
};

impl DaemonFixture {
    /// Creates a client token with these permissions and instances; empty lists mean the defaults.
    pub(super) async fn token_for(
        &self,
        name: &str,
        allow: &[Permission],
        instances: &[&str],
    ) -> String {
        let allow = (!allow.is_empty()).then(|| allow.iter().copied().collect());
        let instances = instances.iter().map(|pattern| pattern.parse().unwrap()).collect();
        let request =
            TokenRequest { name: name.to_owned(), allow, instances, ..Default::default() };
        self.kernel.tokens().create(&Principal::User, request).await.unwrap().token
    }
}

/// Returns the permission that the document requires for an operation.
fn required_permission(method: &str, path: &str) -> Option<Permission> {
    let word = who_may(method, path).strip_prefix("A client's token must allow `")?;
    // Routes with two alternative permissions have their own test.
    word.strip_suffix("`.").unwrap().parse().ok()
}

/// Returns true for paths that belong to no instance.
fn is_placeless(path: &str) -> bool {
    ["/feedback", "/release", "/shutdown"].contains(&path)
}

fn all_but(one: Permission) -> Vec<Permission> {
    Permission::ALL.iter().copied().filter(|other| *other != one).collect()
}

#[tokio::test]
async fn a_token_is_good_for_what_it_allows_and_nothing_else_at_every_route() {
    let mut seen = Vec::new();
    for (method, path) in operations() {
        let Some(what) = required_permission(&method, &path) else { continue };
        seen.push(what);
        let fixture = DaemonFixture::open().await;
        let mut just = vec![what];
        if ["/run", "/serve"].contains(&path.as_str()) {
            // Events of the run require `read`.
            just.push(Permission::Read);
        }
        let just = fixture.token_for("just", &just, &[]).await;
        let without = fixture.token_for("without", &all_but(what), &[]).await;
        let elsewhere = fixture.token_for("elsewhere", Permission::ALL, &["@elsewhere:*"]).await;
        let here = fixture.token_for("here", Permission::ALL, &["@elsewhere:*", "@team"]).await;
        let (ask, mut expected) = valid_request(&fixture, &method, &path);
        if path == "/messages/{seq}/receipts" {
            // A client may read only the receipts of its own messages, and this message is the user's.
            expected = 403;
        }
        let status = async |token: &str| fixture.over_tcp(ask.clone().token(token)).await.status;
        assert_eq!(status(&without).await, 403, "without: {method} {path}");
        let absent = if is_placeless(&path) { expected } else { 404 };
        assert_eq!(status(&elsewhere).await, absent, "elsewhere: {method} {path}");
        assert_eq!(status(&just).await, expected, "just: {method} {path}");
        let repeated = match path.as_str() {
            // The previous request stopped, removed or took it.
            "/runs/{id}/stop" => 200..=410,
            "/agents/{target}" | "/agents" if method != "GET" => 404..=409,
            "/runs" | "/run" | "/serve" if method == "POST" => 404..=404,
            _ => expected..=expected,
        };
        let again = status(&here).await;
        assert!(repeated.contains(&again), "here: {method} {path}: {again}");
    }
    seen.sort_unstable();
    seen.dedup();
    let unused = Permission::ALL.iter().filter(|known| !seen.contains(known)).collect::<Vec<_>>();
    // Only a part of a request needs this permission.
    assert_eq!(unused, [&Permission::Limits]);
}

/// Returns the permission that a client needs for a tool; none if only agents use the tool.
fn tool_needs(tool: ToolName) -> Option<Permission> {
    match tool {
        ToolName::InboxCheck
        | ToolName::InboxAck
        | ToolName::AskHuman
        | ToolName::FeedbackSubmit
        | ToolName::RunFinish
        // Either of two permissions: a test of its own covers this.
        | ToolName::ProposalCancel => None,
        ToolName::ChannelRead
        | ToolName::WorkflowAgents
        | ToolName::DocumentRead
        | ToolName::DocumentList
        | ToolName::ResourceRead
        | ToolName::ProposalStatus
        | ToolName::WorkflowList
        | ToolName::RunList
        | ToolName::RunStatus
        | ToolName::AgentShow
        | ToolName::ApprovalList
        | ToolName::GrantList
        | ToolName::QuestionList
        | ToolName::DeadList => Some(Permission::Read),
        ToolName::ChannelSend
        | ToolName::ResourceCreate
        | ToolName::ProposalCreate => Some(Permission::Send),
        ToolName::DocumentWrite
        | ToolName::DocumentAppend
        | ToolName::DocumentCreate
        | ToolName::DocumentSuggest
        | ToolName::SuggestionAnswer => Some(Permission::Documents),
        ToolName::Vote
        | ToolName::ApprovalAnswer
        | ToolName::GrantRevoke
        | ToolName::QuestionAnswer => Some(Permission::Approve),
        ToolName::DeadRedrive | ToolName::DeadDrop => Some(Permission::Letters),
        ToolName::RunStart | ToolName::RunStop | ToolName::RunResume => Some(Permission::Run),
        ToolName::AgentNew
        | ToolName::AgentStop
        | ToolName::AgentInterrupt
        | ToolName::AgentResume
        | ToolName::AgentRemove => Some(Permission::Agents),
    }
}

#[tokio::test]
async fn a_tool_is_listed_and_called_where_its_permission_was_given_and_nowhere_else() {
    let fixture = DaemonFixture::open().await;
    for what in Permission::ALL {
        let just = fixture.token_for(&format!("just-{what}"), &[*what], &[]).await;
        let without = fixture.token_for(&format!("without-{what}"), &all_but(*what), &[]).await;
        for tool in ToolName::ALL.iter().filter(|tool| tool_needs(**tool) == Some(*what)) {
            let refused = call(&fixture, &without, tool.word(), json!({"target": "@team"})).await;
            assert_eq!(refused["code"], "forbidden", "without {what}: {}", tool.word());
            let given = call(&fixture, &just, tool.word(), json!({"target": "@elsewhere"})).await;
            assert_ne!(given["code"], "forbidden", "with {what}: {}: {given}", tool.word());
        }
        for (token, given) in [(&just, true), (&without, false)] {
            let listed = listed(&fixture, token).await;
            let wrong = ToolName::ALL.iter().filter(|tool| tool_needs(**tool).is_some());
            let wrong = wrong.filter(|tool| {
                let may = (tool_needs(**tool) == Some(*what)) == given;
                listed.iter().any(|name| name == tool.word()) != may
            });
            let wrong: Vec<_> = wrong.collect();
            assert!(wrong.is_empty(), "{what} {given}: {wrong:?} {listed:?}");
        }
    }
}

pub(super) async fn listed(fixture: &DaemonFixture, token: &str) -> Vec<String> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let question = TestRequest::post("/mcp", body.to_string())
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2025-11-25");
    let answer = fixture.over_tcp(question.token(token)).await.json();
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_agent_reaches_nothing_of_another_instance_by_any_route() {
    for (method, path) in operations() {
        let fixture = DaemonFixture::open().await;
        let (_, stranger) = fixture.start_team("other").await;
        let (ask, _) = valid_request(&fixture, &method, &path);
        let status = fixture.over_tcp(ask.token(&stranger.token)).await.status;
        let expected = match (who_may(&method, &path), path.as_str()) {
            ("Open to every caller.", _) => 200,
            // These name no agent or instance, or always mean the caller's own.
            ("Open to every identified caller.", _) => continue,
            (_, "/feedback") if method == "POST" => 200,
            (_, "/inbox/ack") => 200,
            (_, "/runs/{id}") => 404,
            _ => 403,
        };
        assert_eq!(status, expected, "{method} {path}");
    }
}

pub(super) async fn call(fixture: &DaemonFixture, token: &str, tool: &str, args: Value) -> Value {
    let params = json!({"name": tool, "arguments": args});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let question = TestRequest::post("/mcp", body.to_string())
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2025-11-25");
    let answer = fixture.over_tcp(question.token(token)).await.json();
    answer["result"]["structuredContent"].clone()
}

/// Returns a call of every tool with the names and ids of `@team`.
pub(super) async fn calls_on_team(fixture: &DaemonFixture) -> Vec<(&'static str, Value)> {
    let own = |tool, args| call(fixture, &fixture.job.token, tool, args);
    let kept = own("resource_create", json!({"content": "secret"})).await;
    own("document_append", json!({"content": "secret"})).await;
    let said = own("channel_send", json!({"message": "secret"})).await;
    let voted_on = own("proposal_create", json!({"title": "secret"})).await;
    let (seq, proposal) = (&said["seq"], &voted_on["proposal"]);
    let run = fixture.run.to_string();
    let coder = json!({"target": "coder@team"});
    let here = |mut args: Value| {
        args["target"] = "@team".into();
        args
    };
    vec![
        ("channel_send", here(json!({"message": "hello", "reply_to": seq}))),
        ("channel_read", here(json!({"search": "secret"}))),
        ("inbox_check", here(json!({}))),
        ("inbox_ack", here(json!({"until": seq}))),
        ("workflow_agents", here(json!({}))),
        ("document_read", here(json!({}))),
        ("document_write", here(json!({"content": "mine", "base_revision": 1}))),
        ("document_append", here(json!({"content": "mine"}))),
        ("document_list", here(json!({}))),
        ("document_create", here(json!({"content": "mine", "file": "new.md"}))),
        ("document_suggest", here(json!({"suggestion": "mine", "new": "mine"}))),
        ("suggestion_answer", here(json!({"suggestion": seq, "accept": true}))),
        ("resource_create", here(json!({"content": "mine"}))),
        ("resource_read", here(json!({"id": kept["id"]}))),
        ("feedback_submit", here(json!({"message": "mine"}))),
        ("proposal_create", here(json!({"title": "mine", "work": seq}))),
        ("vote", here(json!({"proposal": proposal, "choice": "approve"}))),
        ("proposal_status", here(json!({"proposal": proposal}))),
        ("proposal_cancel", here(json!({"proposal": proposal}))),
        ("ask_human", here(json!({"question": "mine?"}))),
        ("run_finish", here(json!({"outcome": "failed", "summary": "x"}))),
        ("workflow_list", here(json!({}))),
        ("run_list", here(json!({}))),
        ("run_status", json!({"run": run})),
        ("run_start", json!({"file": fixture.file("team", "x")["file"]})),
        ("run_stop", json!({"run": run})),
        ("run_resume", json!({"run": run})),
        ("agent_show", coder.clone()),
        ("agent_new", here(json!({"backend": "mock"}))),
        ("agent_stop", coder.clone()),
        ("agent_interrupt", coder.clone()),
        ("agent_resume", coder.clone()),
        ("agent_remove", coder),
        ("approval_list", here(json!({}))),
        ("approval_answer", here(json!({"approval": 1, "allow": true}))),
        ("grant_list", here(json!({}))),
        ("grant_revoke", here(json!({"grant": 1}))),
        ("question_list", here(json!({}))),
        ("question_answer", here(json!({"question": 1, "answer": "mine"}))),
        ("dead_list", here(json!({}))),
        ("dead_redrive", here(json!({}))),
        ("dead_drop", here(json!({}))),
    ]
}

/// Returns everything of `@team` that its user can read.
async fn all_of_the_team(fixture: &DaemonFixture) -> Vec<Value> {
    let mut all = Vec::new();
    for path in [
        "/messages?limit=1000&",
        "/documents?",
        "/proposals?all=true&",
        "/resources?",
        "/attention?",
    ] {
        let answer = fixture.as_user(TestRequest::get(&format!("{path}target=@team"))).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        all.push(answer.json());
    }
    all
}

#[tokio::test]
async fn no_tool_reaches_another_instances_data_by_knowing_an_id() {
    let fixture = DaemonFixture::open().await;
    let (_, stranger) = fixture.start_team("other").await;
    let elsewhere = fixture.token_for("elsewhere", Permission::ALL, &["@other"]).await;
    let tools = calls_on_team(&fixture).await;
    let named: Vec<_> = tools.iter().map(|(tool, _)| *tool).collect();
    assert_eq!(named, ToolName::ALL.iter().map(|tool| tool.word()).collect::<Vec<_>>());
    let before = all_of_the_team(&fixture).await;
    // At first the agent has nothing of its own with the same number.
    for (tool, args) in &tools {
        let mut args = args.clone();
        let by_number =
            ["id", "proposal", "suggestion"].iter().any(|name| args.get(*name).is_some());
        if by_number && *tool != "document_suggest" {
            args.as_object_mut().unwrap().remove("target");
            let answer = call(&fixture, &stranger.token, tool, args).await;
            assert_eq!(answer["code"], "not_found", "{tool}: {answer}");
        }
    }
    for (tool, args) in tools {
        let answer = call(&fixture, &elsewhere, tool, args.clone()).await;
        let code = match tool {
            // Only an agent has an inbox, asks a person or sets a verdict.
            "inbox_check" | "inbox_ack" | "ask_human" | "run_finish" => json!("forbidden"),
            // Feedback belongs to no instance.
            "feedback_submit" => Value::Null,
            _ => json!("not_found"),
        };
        assert_eq!(answer["code"], code, "client: {tool}: {answer}");
        let answer = call(&fixture, &stranger.token, tool, args.clone()).await;
        let code = match tool {
            // These always mean the agent's own, whatever the arguments are.
            "inbox_check" | "inbox_ack" | "feedback_submit" | "ask_human" => Value::Null,
            _ => json!("forbidden"),
        };
        assert_eq!(answer["code"], code, "agent: {tool}: {answer}");
        assert!(!answer.to_string().contains("secret"), "agent: {tool}: {answer}");
        // The caller's own instance with the ids of the other instance.
        let mut args = args;
        args.as_object_mut().unwrap().remove("target");
        for token in [&elsewhere, &stranger.token] {
            let answer = call(&fixture, token, tool, args.clone()).await.to_string();
            assert!(!answer.contains("secret"), "{tool}: {answer}");
        }
    }
    assert_eq!(all_of_the_team(&fixture).await, before, "nothing of it was changed");
    let answer = call(&fixture, &elsewhere, "workflow_list", json!({})).await;
    let listed = answer["workflows"].as_array().unwrap();
    assert_eq!(listed.iter().map(|one| &one["instance"]).collect::<Vec<_>>(), ["other"]);
    let answer = call(&fixture, &elsewhere, "run_list", json!({})).await;
    assert_eq!(answer["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_agent_may_not_call_the_tools_of_clients_even_on_its_own_team() {
    let fixture = DaemonFixture::open().await;
    let own = listed(&fixture, &fixture.job.token).await;
    let others = calls_on_team(&fixture).await.into_iter();
    let others: Vec<_> =
        others.filter(|(tool, _)| !own.iter().any(|listed| listed == tool)).collect();
    assert_eq!(others.len(), 22, "{others:?}");
    for (tool, args) in others {
        let answer = call(&fixture, &fixture.job.token, tool, args).await;
        assert_eq!(answer["code"], "forbidden", "{tool}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_may_only_write_documents_writes_the_default_document() {
    let fixture = DaemonFixture::open().await;
    let writer = fixture.token_for("writer", &[Permission::Documents], &["@team"]).await;
    let append = json!({"target": "@team", "content": "a line"});
    let appended = call(&fixture, &writer, "document_append", append).await;
    assert_eq!(appended["revision"], 1, "{appended}");
    let read = call(&fixture, &writer, "document_read", json!({"target": "@team"})).await;
    assert_eq!(read["code"], "forbidden", "{read}");
}

#[tokio::test]
async fn a_client_adds_agents_only_in_folders_and_with_variables_that_its_token_allows() {
    let fixture = DaemonFixture::open().await;
    let global = fixture.token_for("global", Permission::ALL, &["@global"]).await;
    let team = fixture.token_for("team", Permission::ALL, &["@team"]).await;
    let agent = |target: &str, more: Value| {
        let mut args = json!({"target": target, "backend": "mock"});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    for (token, args, expected) in [
        (&global, agent("@global", json!({"cwd": "/root"})), json!("forbidden")),
        (&global, agent("@global", json!({"cwd": "/"})), json!("forbidden")),
        (&global, agent("@global", json!({"env": ["PATH=/evil"]})), json!("forbidden")),
        (&global, agent("@global", json!({"env": ["UNDECLARED=1"]})), json!("forbidden")),
        (&team, agent("@team", json!({"cwd": "/root"})), json!("forbidden")),
        (&team, agent("@team", json!({"cwd": "../.."})), json!("bad_request")),
        (&global, agent("@global", json!({})), Value::Null),
        (&team, agent("@team", json!({})), Value::Null),
    ] {
        let answer = call(&fixture, token, "agent_new", args.clone()).await;
        assert_eq!(answer["code"], expected, "{args}: {answer}");
    }
}

#[tokio::test]
async fn what_a_person_decides_a_client_decides_only_if_granted() {
    let fixture = DaemonFixture::open().await;
    let own = |tool, args| call(&fixture, &fixture.job.token, tool, args);
    let proposal = own("proposal_create", json!({"title": "Which?", "options": ["x", "y"]})).await;
    let proposal = &proposal["proposal"];
    let question = own("ask_human", json!({"question": "Really?"})).await["question"].clone();
    let plain = fixture.token_for("plain", &[], &["@team"]).await;
    let trusted = fixture.token_for("trusted", &[Permission::Approve, Permission::Send], &[]).await;
    let vote = json!({"target": "@team", "proposal": proposal, "choice": "x"});
    let cancel = json!({"target": "@team", "proposal": proposal});
    for (tool, args) in [("vote", &vote), ("proposal_cancel", &cancel)] {
        let refused = call(&fixture, &plain, tool, args.clone()).await;
        assert_eq!(refused["code"], "forbidden", "{tool}: {refused}");
    }
    assert_eq!(call(&fixture, &trusted, "vote", vote).await["state"], "active");
    let seen = json!({"target": "@team", "proposal": proposal});
    let seen = call(&fixture, &plain, "proposal_status", seen).await;
    assert_eq!(seen["proposals"][0]["ballots"][0]["voter"], "client:trusted", "{seen}");
    assert_eq!(call(&fixture, &trusted, "proposal_cancel", cancel).await["by"], "client:trusted");
    let path = format!("/questions/{question}/answer");
    let answer = json!({"target": "@team", "answer": "yes"}).to_string();
    let answered = async |token: &str| {
        fixture.over_tcp(TestRequest::post(&path, answer.clone()).token(token)).await.status
    };
    assert_eq!(answered(&plain).await, 403);
    assert_eq!(answered(&fixture.job.token).await, 403, "an agent does not answer itself");
    assert_eq!(answered(&trusted).await, 200);
    // A client cancels its own proposal without a further permission.
    let mine = json!({"target": "@team", "title": "Mine?"});
    let mine = call(&fixture, &plain, "proposal_create", mine).await["proposal"].clone();
    let cancel = json!({"target": "@team", "proposal": mine});
    assert_eq!(call(&fixture, &plain, "proposal_cancel", cancel).await["state"], "cancelled");
    // A veto needs no `send`, over HTTP or MCP; a caller with neither permission is refused.
    let judge = fixture.token_for("judge", &[Permission::Approve], &[]).await;
    let reader = fixture.token_for("reader", &[Permission::Read, Permission::Documents], &[]).await;
    let third = own("proposal_create", json!({"title": "Third?"})).await["proposal"].clone();
    let fourth = own("proposal_create", json!({"title": "Fourth?"})).await["proposal"].clone();
    let third = json!({"target": "@team", "proposal": third});
    let refused = call(&fixture, &reader, "proposal_cancel", third.clone()).await;
    assert_eq!(refused["code"], "forbidden", "{refused}");
    assert_eq!(call(&fixture, &judge, "proposal_cancel", third).await["by"], "client:judge");
    let path = format!("/proposals/{fourth}/cancel");
    let veto = async |token: &str| {
        let body = json!({"target": "@team"}).to_string();
        fixture.over_tcp(TestRequest::post(&path, body).token(token)).await.status
    };
    assert_eq!([veto(&reader).await, veto(&judge).await], [403, 200]);
}

#[tokio::test]
async fn a_granted_tool_does_what_the_command_does() {
    let fixture = DaemonFixture::open().await;
    let text = "agents: {a: {backend: mock, mock: [], env: [A]}}\nkickoff: '@a go'\n";
    let asked = fixture.file("third", text);
    let file = &asked["file"];
    let allow = [Permission::Read, Permission::Run, Permission::Agents];
    let token = fixture.token_for("ci", &allow, &["@third:*", "@team"]).await;
    let call = |tool, args| call(&fixture, &token, tool, args);
    let keyed = call("run_start", json!({"file": file, "idempotency_key": "k"})).await;
    assert_eq!(keyed["code"], "bad_request");
    let started = call("run_start", json!({"file": file, "tag": "x", "env": ["A=b"]})).await;
    assert_eq!(started["instance"], "third:x", "{started}");
    assert_eq!(call("run_status", json!({"run": started["run"]})).await["instance"], "third:x");
    let more = call("run_resume", json!({"run": started["run"], "turns": 9})).await;
    assert_eq!(more["code"], "forbidden", "giving more is `limits`");
    let stopped = call("run_stop", json!({"run": started["run"]})).await;
    assert_eq!(stopped["instance"], "third:x", "{stopped}");
    let over = call("run_status", json!({"run": started["run"]})).await;
    assert_eq!(over["outcome"], "stopped", "{over}");
    // A file with another workflow name is reported as missing, whatever its content.
    for text in ["name: other\nagents: {a: {backend: mock, mock: []}}\n", "secret: 1\n"] {
        let asked = fixture.file("fourth", text);
        let answer = call("run_start", json!({"file": asked["file"]})).await;
        assert_eq!(answer["code"], "not_found", "{answer}");
        assert!(!answer.to_string().contains("secret"), "{answer}");
    }
    let target = json!({"target": "reviewer@team"});
    assert_eq!(call("agent_stop", target.clone()).await["agent"], "reviewer");
    let shown = call("agent_show", target.clone()).await;
    assert_eq!(shown["why"], "stopped by client:ci", "{shown}");
    assert_eq!(call("agent_resume", target.clone()).await["name"], "reviewer");
    assert_eq!(call("agent_remove", target.clone()).await["agent"], "reviewer");
    assert_eq!(call("agent_show", target).await["code"], "not_found");
}
