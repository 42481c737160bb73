//! Tests of the MCP interface: both eras, over both transports, by every kind of caller.

use serde_json::{Map, Value, json};

use super::{
    fixture::{DaemonFixture, TestRequest, TestResponse},
    mcp_targets,
};

const AGENT_TOOLS: [&str; 20] = [
    "channel_send",
    "channel_read",
    "inbox_check",
    "inbox_ack",
    "workflow_agents",
    "document_read",
    "document_write",
    "document_append",
    "document_list",
    "document_create",
    "document_suggest",
    "suggestion_answer",
    "resource_create",
    "resource_read",
    "feedback_submit",
    "proposal_create",
    "vote",
    "proposal_status",
    "proposal_cancel",
    "ask_human",
];

/// The protocol era of a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum ClientEra {
    /// Sends self-contained requests, since 2026-07-28.
    Stateless,
    /// Sends requests after `initialize`, in this revision.
    Initialized(&'static str),
}

impl ClientEra {
    pub(super) fn request(self, method: &str, mut params: Value) -> TestRequest {
        let version = match self {
            Self::Stateless => "2026-07-28",
            Self::Initialized(version) => version,
        };
        if let Self::Stateless = self {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let name =
            params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let question = TestRequest::post("/mcp", body.to_string())
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", version);
        match self {
            Self::Stateless => question.header("Mcp-Method", method).header("Mcp-Name", &name),
            Self::Initialized(_) => question,
        }
    }

    pub(super) fn call(self, tool: &str, args: &Value) -> TestRequest {
        self.request("tools/call", json!({"name": tool, "arguments": args}))
    }
}

/// A caller of one era over the socket with one token.
struct McpCaller<'a> {
    fixture: &'a DaemonFixture,
    token: &'a str,
}

impl McpCaller<'_> {
    async fn ask(&self, question: TestRequest) -> Value {
        self.fixture.as_user(question.token(self.token)).await.json()
    }

    async fn call(&self, tool: &str, args: Value) -> Value {
        let answer = self.ask(ClientEra::Stateless.call(tool, &args)).await;
        answer.get("result").cloned().unwrap_or_else(|| panic!("{tool}: {answer}"))
    }

    /// Calls a tool and returns its structured result, which must equal its text.
    async fn call_ok(&self, tool: &str, args: Value) -> Value {
        let result = self.call(tool, args).await;
        assert_eq!(result["isError"], json!(false), "{tool}: {result}");
        same_as_text(&result)
    }

    /// Calls a tool and returns the code of its refusal.
    async fn call_refused(&self, tool: &str, args: Value) -> String {
        let result = self.call(tool, args).await;
        assert_eq!(result["isError"], json!(true), "{tool}: {result}");
        same_as_text(&result)["code"].as_str().unwrap().to_owned()
    }

    /// Sends an invalid call and returns the message of the protocol error.
    async fn call_malformed(&self, tool: &str, args: Value) -> String {
        let answer = self.ask(ClientEra::Stateless.call(tool, &args)).await;
        assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    }
}

fn same_as_text(result: &Value) -> Value {
    let text = result["content"][0]["text"].as_str().unwrap();
    let structured = result["structuredContent"].clone();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structured);
    structured
}

fn names(list: &TestResponse) -> Vec<String> {
    let list = list.json();
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn both_eras_are_spoken_over_tcp_and_the_socket() {
    let fixture = DaemonFixture::open().await;
    for era in [
        ClientEra::Stateless,
        ClientEra::Initialized("2025-11-25"),
        ClientEra::Initialized("2025-06-18"),
    ] {
        let greeting = match era {
            ClientEra::Stateless => era.request("server/discover", json!({})),
            ClientEra::Initialized(version) => {
                let client = json!({"name": "test", "version": "1"});
                let params = json!({
                    "protocolVersion": version, "capabilities": {}, "clientInfo": client,
                });
                era.request("initialize", params)
            }
        };
        let list = era.request("tools/list", json!({}));
        let call = era.call("channel_send", &json!({"message": "hello"}));
        for tcp in [false, true] {
            let ask = async |question: &TestRequest| {
                let question = question.clone().token(&fixture.job.token);
                if tcp { fixture.over_tcp(question).await } else { fixture.as_user(question).await }
            };
            let greeted = ask(&greeting).await;
            assert!(greeted.body.contains(r#""name":"agent-worker""#), "{era:?} {greeted:?}");
            assert!(!greeted.head.contains("mcp-session-id"), "{era:?} {greeted:?}");
            if let ClientEra::Initialized(version) = era {
                assert_eq!(greeted.json()["result"]["protocolVersion"], version);
                let initialized = r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#;
                let initialized = TestRequest::post("/mcp", initialized)
                    .header("Accept", "application/json, text/event-stream")
                    .header("MCP-Protocol-Version", version);
                assert_eq!(ask(&initialized).await.status, 202);
            }
            assert_eq!(names(&ask(&list).await), AGENT_TOOLS, "{era:?}");
            let said = ask(&call).await.json();
            assert_eq!(said["result"]["structuredContent"]["instance"], "team", "{era:?} {said}");
        }
    }
}

#[tokio::test]
async fn a_list_of_tools_depends_on_who_asks_and_is_short() {
    let fixture = DaemonFixture::open().await;
    let client = fixture.client_token().await;
    let list = || ClientEra::Stateless.request("tools/list", json!({}));
    let of_agent = fixture.as_user(list().token(&fixture.job.token)).await;
    assert_eq!(names(&of_agent), AGENT_TOOLS);
    assert!(of_agent.body.len() <= 8 * 1024, "{} bytes", of_agent.body.len());
    let expected: Vec<&str> = AGENT_TOOLS
        .into_iter()
        .filter(|name| !name.starts_with("inbox_"))
        .filter(|name| !["ask_human", "feedback_submit"].contains(name))
        .collect();
    let more = |names: &[&'static str]| [&expected[..], names].concat();
    let all = [
        "workflow_list",
        "run_list",
        "run_status",
        "run_start",
        "run_stop",
        "run_resume",
        "agent_show",
        "agent_new",
        "agent_stop",
        "agent_interrupt",
        "agent_resume",
        "agent_remove",
        "approval_list",
        "approval_answer",
        "grant_list",
        "grant_revoke",
        "question_list",
        "question_answer",
        "dead_list",
        "dead_redrive",
        "dead_drop",
    ];
    let of_client = fixture.over_tcp(list().token(&client)).await;
    let of_user = fixture.as_user(list()).await;
    let reads =
        |name: &&str| name.ends_with("_list") || ["run_status", "agent_show"].contains(name);
    let mut of_clients = more(&all.into_iter().filter(reads).collect::<Vec<_>>());
    of_clients.retain(|name| *name != "vote");
    for (list, expected) in [(&of_client, of_clients), (&of_user, more(&all))] {
        assert_eq!(names(list), expected);
        for tool in list.json()["result"]["tools"].as_array().unwrap() {
            mcp_targets::assert_place_arguments(tool);
        }
    }
    for name in ["target", "project"] {
        assert!(!of_agent.body.contains(&format!("\"{name}\"")), "{name}");
    }
    let anonymous = fixture.over_tcp(list()).await;
    assert_eq!(anonymous.refusal(), (401, "unauthorized".to_owned()));
}

#[tokio::test]
async fn an_agent_is_offered_exactly_the_tools_that_work_in_its_team() {
    let fixture = DaemonFixture::open().await;
    let unshared = ["inbox_check", "inbox_ack", "resource_read", "feedback_submit", "ask_human"];
    let is_document =
        |name: &&str| name.starts_with("document_") || name.starts_with("suggestion_");
    let plain: Vec<&str> = AGENT_TOOLS.into_iter().filter(|name| !is_document(name)).collect();
    for (name, context, expected) in [
        ("finishes", "finisher: coder", [&AGENT_TOOLS[..], &["run_finish"]].concat()),
        ("other-finishes", "finisher: reviewer", AGENT_TOOLS.to_vec()),
        ("channel-only", "context: { channel: { file: c.md } }", plain),
        ("alone", "context: false", unshared.to_vec()),
        (
            "alone-finishes",
            "context: false\nfinisher: coder",
            [&unshared[..], &["run_finish"]].concat(),
        ),
    ] {
        let (_, job) = fixture.start_team_with(name, context).await;
        let list = ClientEra::Stateless.request("tools/list", json!({})).token(&job.token);
        let list = fixture.as_user(list).await;
        assert_eq!(names(&list), expected, "{name}");
        // Only the one agent that sets the verdict pays for that tool.
        let most = if expected.contains(&"run_finish") { 8 * 1024 + 512 } else { 8 * 1024 };
        assert!(list.body.len() <= most, "{name}: {} bytes", list.body.len());
    }
}

#[tokio::test]
async fn every_tool_says_whether_it_only_reads() {
    let fixture = DaemonFixture::open().await;
    let list = ClientEra::Stateless.request("tools/list", json!({})).token(&fixture.job.token);
    for tool in fixture.as_user(list).await.json()["result"]["tools"].as_array().unwrap() {
        let hints = &tool["annotations"];
        let reads = [
            "channel_read",
            "inbox_check",
            "workflow_agents",
            "document_read",
            "document_list",
            "resource_read",
            "proposal_status",
        ];
        if reads.contains(&tool["name"].as_str().unwrap()) {
            assert_eq!(hints, &json!({"readOnlyHint": true}));
        } else {
            assert_eq!(hints["destructiveHint"], json!(false), "{tool}");
            assert_eq!(hints["openWorldHint"], json!(false), "{tool}");
            assert!(tool["inputSchema"]["properties"].get("idempotency_key").is_some(), "{tool}");
        }
    }
}

#[tokio::test]
async fn a_key_makes_an_effect_happen_once() {
    let fixture = DaemonFixture::open().await;
    let coder = McpCaller { fixture: &fixture, token: &fixture.job.token };
    let args = |message: &str| json!({"message": message, "idempotency_key": "k1"});
    let first = coder.call_ok("channel_send", args("look @reviewer")).await;
    assert_eq!(first.get("deduplicated"), None);
    let again = coder.call_ok("channel_send", args("look @reviewer")).await;
    assert_eq!((&again["seq"], &again["deduplicated"]), (&first["seq"], &json!(true)));
    assert_eq!(coder.call_refused("channel_send", args("look elsewhere")).await, "conflict");
    let append = || json!({"content": "x", "idempotency_key": "k2"});
    assert_eq!(coder.call_ok("document_append", append()).await["revision"], json!(1));
    let again = coder.call_ok("document_append", append()).await;
    assert_eq!(again, json!({"file": "notes.md", "revision": 1, "deduplicated": true}));
    let read = coder.call_ok("document_read", json!({"idempotency_key": "ignored"})).await;
    assert_eq!(read["content"], "x\n", "the next addition starts a line");
}

#[tokio::test]
async fn a_document_is_replaced_only_by_who_has_read_it() {
    let fixture = DaemonFixture::open().await;
    let coder = McpCaller { fixture: &fixture, token: &fixture.job.token };
    let made = coder.call_ok("document_create", json!({"file": "plan.md", "content": "a"})).await;
    assert_eq!(made, json!({"file": "plan.md", "revision": 1}));
    let again = json!({"file": "plan.md", "content": "b"});
    assert_eq!(coder.call_refused("document_create", again.clone()).await, "conflict");
    let write = |base: i64| json!({"file": "plan.md", "content": "b", "base_revision": base});
    assert_eq!(coder.call_ok("document_write", write(1)).await["revision"], json!(2));
    assert_eq!(coder.call_refused("document_write", write(1)).await, "conflict");
    let append = |file: &str| {
        let body = json!({"target": "@team", "mode": "append", "content": "c"}).to_string();
        TestRequest::post(&format!("/documents/{file}"), body)
    };
    assert_eq!(fixture.as_user(append("plan.md")).await.status, 200);
    assert_eq!(fixture.as_user(append("other.md")).await.status, 200);
    let hint = "read it with document_read, then document_write with its revision as base_revision";
    for file in ["plan.md", "other.md"] {
        let blind = json!({"file": file, "content": "d"});
        let refused = coder.call("document_write", blind.clone()).await;
        assert_eq!(refused["structuredContent"]["code"], "conflict", "{file}");
        let told = refused["structuredContent"]["hint"].as_str().unwrap();
        assert_eq!(told, hint, "{file}");
        let read = coder.call_ok("document_read", json!({"file": file})).await;
        let next = read["revision"].as_i64().unwrap() + 1;
        assert_eq!(coder.call_ok("document_write", blind).await["revision"], json!(next), "{file}");
    }
    let none = coder.call_ok("document_read", json!({"file": "none.md"})).await;
    assert_eq!((&none["content"], &none["revision"]), (&json!(""), &json!(0)));
    let first = json!({"file": "none.md", "content": "x", "base_revision": 0});
    assert_eq!(coder.call_ok("document_write", first.clone()).await["revision"], 1);
    assert_eq!(coder.call_refused("document_write", first).await, "conflict", "it exists now");
}

#[tokio::test]
async fn calls_that_make_no_sense_are_errors_that_help() {
    let fixture = DaemonFixture::open().await;
    let coder = McpCaller { fixture: &fixture, token: &fixture.job.token };
    for (tool, args, expected) in [
        ("chanel_send", json!({}), "`channel_send`"),
        ("frobnicate", json!({}), "document_list"),
        ("channel_send", json!({}), "`message` is missing"),
        ("channel_send", json!({"message": "x", "too": "coder"}), "unknown field `too`"),
        ("channel_send", json!({"message": "x", "to": "co der"}), "`co der`"),
        ("channel_send", json!({"message": "x", "idempotency_key": 1}), "idempotency_key"),
        ("channel_send", json!({"message": "x", "idempotency_key": ""}), "idempotency key"),
        ("channel_read", json!({"since": "yesterday"}), "yesterday"),
        ("document_read", json!({"file": "../../etc/passwd"}), "etc/passwd"),
        ("resource_read", json!({"id": "12"}), "64 hex digits"),
        ("workflow_agents", json!({"x": 1}), "unknown field `x`; the fields are `target`"),
    ] {
        let message = coder.call_malformed(tool, args.clone()).await;
        assert!(message.contains(expected) && message.contains(tool), "{tool} {args}: {message}");
    }
}

#[tokio::test]
async fn refusals_are_answers_a_model_can_read() {
    let fixture = DaemonFixture::open().await;
    let coder = McpCaller { fixture: &fixture, token: &fixture.job.token };
    let client = fixture.client_token().await;
    let client = McpCaller { fixture: &fixture, token: &client };
    for (caller, tool, args, code) in [
        (&coder, "channel_send", json!({"message": "x", "to": "ghost"}), "not_found"),
        (&coder, "channel_send", json!({"message": "x", "target": "@other"}), "forbidden"),
        (&client, "inbox_check", json!({}), "forbidden"),
        (&client, "channel_read", json!({"target": "@nowhere"}), "not_found"),
        (&client, "resource_read", json!({"target": "@team", "id": "0".repeat(64)}), "not_found"),
    ] {
        assert_eq!(caller.call_refused(tool, args.clone()).await, code, "{tool} {args}");
    }
}

#[tokio::test]
async fn old_names_and_a_models_loose_ways_are_understood() {
    let fixture = DaemonFixture::open().await;
    let coder = McpCaller { fixture: &fixture, token: &fixture.job.token };
    let sent = coder.call_ok("channel_send", json!({"message": "x", "to": "@reviewer"})).await;
    assert_eq!(sent["woken"], json!(["reviewer"]));
    let nulls = json!({"message": "y", "to": null, "cc": ["reviewer"], "reply_to": null});
    assert_eq!(coder.call_ok("channel_send", nulls).await["cc"], json!(["reviewer"]));
    let peeked = coder.call_ok("channel_peek", json!({"since": sent["seq"].to_string()})).await;
    assert_eq!(peeked["messages"][0]["body"], "y");
    for (old, args) in
        [("channel_mentions", json!({"unread_only": true})), ("inbox_read", json!({}))]
    {
        assert_eq!(coder.call_ok(old, args).await, json!({"messages": []}));
    }
    let say = |text: &str| {
        let body = json!({"target": "@team", "message": text}).to_string();
        fixture.as_user(TestRequest::post("/messages", body))
    };
    assert_eq!(say("@reviewer first").await.status, 200);
    assert_eq!(say("@coder second").await.status, 200);
    let bodies = |reply: &Value| {
        let messages = reply["messages"].as_array().unwrap().iter();
        messages.map(|message| message["body"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let newest = coder.call_ok("channel_mentions", json!({"limit": "1"})).await;
    assert_eq!(bodies(&newest), ["@coder second"]);
    let unread = coder.call_ok("channel_mentions", json!({"unread_only": true})).await;
    assert_eq!(bodies(&unread), ["@coder second"]);
    let seq = &unread["messages"][0]["seq"];
    let early = coder.call_ok("inbox_ack", json!({"until": "2001-01-01T00:00:00Z"})).await;
    assert_eq!(early["with_this_turn"], json!([]), "the message is newer");
    let ack = coder.call_ok("inbox_ack", json!({"until": unread["messages"][0]["ts"]})).await;
    assert_eq!(ack["with_this_turn"], json!([seq]));
    let request = json!({
        "title": "Ship it?", "type": "decision", "timeoutSeconds": 60,
        "resolution": {"type": "plurality", "quorum": 1, "tieBreaker": "first"},
    });
    let made = coder.call_ok("proposal_create", request).await;
    let ballot = json!({"proposal": made["proposal"].to_string(), "choice": "approve"});
    let voted = coder.call_ok("vote", ballot).await;
    assert_eq!((&voted["state"], &voted["winner"]), (&json!("resolved"), &json!("approve")));
    let shown = coder.call_ok("proposal_status", json!({"proposal": "1"})).await;
    let shown = &shown["proposals"][0];
    assert_eq!((&shown["resolved_by"], &shown["counts"]["approve"]), (&json!("quorum"), &json!(1)));
}

/// Returns the schema without undescribed properties, so that every field of a result must be described.
fn strict(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema["additionalProperties"] = json!(false);
    schema
}

/// Returns the output schemas of all tools: the user sees them in full, an agent only those of its own tools.
async fn output_schemas(fixture: &DaemonFixture, coder: &McpCaller<'_>) -> Map<String, Value> {
    let list = || ClientEra::Stateless.request("tools/list", json!({}));
    let (told, own) = (fixture.as_user(list()).await.json(), coder.ask(list()).await);
    let mut schemas = Map::new();
    for list in [own, told] {
        for tool in list["result"]["tools"].as_array().unwrap() {
            schemas.insert(tool["name"].as_str().unwrap().into(), tool["outputSchema"].clone());
        }
    }
    schemas
}

#[tokio::test]
async fn what_a_tool_gives_is_what_its_schema_says() {
    let fixture = DaemonFixture::open().await;
    let coder = McpCaller { fixture: &fixture, token: &fixture.job.token };
    let schemas = output_schemas(&fixture, &coder).await;
    let long = "x".repeat(40_000);
    let resource = coder.call_ok("resource_create", json!({"content": "abc"})).await;
    let user_says = json!({"target": "@team", "message": "@coder look"}).to_string();
    assert_eq!(fixture.as_user(TestRequest::post("/messages", user_says)).await.status, 200);
    let client = fixture.client_token().await;
    let client = McpCaller { fixture: &fixture, token: &client };
    let suggestion = json!({"target": "@team", "suggestion": "more", "new": "z"});
    let suggested = client.call_ok("document_suggest", suggestion).await;
    let validator = jsonschema::validator_for(&strict(&schemas["document_suggest"])).unwrap();
    assert!(validator.is_valid(&suggested), "{suggested}");
    let accept = json!({"suggestion": suggested["suggestion"], "accept": true});
    let mut called = vec!["document_suggest"];
    for (tool, args) in [
        ("suggestion_answer", accept),
        ("resource_create", json!({"content": "abc", "type": "text/x"})),
        ("resource_read", json!({"id": resource["id"], "range": [1, 2]})),
        ("channel_send", json!({"message": "@reviewer @revewer", "idempotency_key": "k"})),
        ("channel_send", json!({"message": "@reviewer @revewer", "idempotency_key": "k"})),
        ("channel_send", json!({"message": long, "reply_to": 1})),
        ("channel_read", json!({})),
        ("inbox_check", json!({})),
        ("inbox_ack", json!({"until": 2})),
        ("workflow_agents", json!({})),
        ("document_create", json!({"file": "a.md", "content": "x"})),
        ("document_append", json!({"content": "x", "idempotency_key": "d"})),
        ("document_append", json!({"content": "x", "idempotency_key": "d"})),
        ("document_write", json!({"content": "y", "base_revision": 2})),
        ("document_read", json!({})),
        ("document_list", json!({})),
        ("feedback_submit", json!({"message": "more words", "idempotency_key": "f"})),
        ("feedback_submit", json!({"message": "more words", "idempotency_key": "f"})),
        ("proposal_create", json!({"title": "Ship it?", "electorate": ["coder"]})),
        ("vote", json!({"proposal": 1, "choice": "approve", "reason": "why not"})),
        ("proposal_create", json!({"title": "Again?", "options": ["yes", "no"]})),
        ("proposal_status", json!({})),
        ("proposal_status", json!({"proposal": 1})),
        ("proposal_cancel", json!({"proposal": 2})),
        ("ask_human", json!({"question": "Really?", "options": ["yes", "no"]})),
    ] {
        let given = coder.call_ok(tool, args).await;
        let validator = jsonschema::validator_for(&strict(&schemas[tool])).unwrap();
        let violations: Vec<_> =
            validator.iter_errors(&given).map(|error| error.to_string()).collect();
        assert!(violations.is_empty(), "{tool} {given}: {violations:?}");
        called.push(tool);
    }
    assert!(AGENT_TOOLS.iter().all(|tool| called.contains(tool)));
    let feedback = fixture.as_user(TestRequest::get("/feedback")).await.items();
    assert_eq!(feedback.as_array().unwrap().len(), 1, "what is repeated is kept once: {feedback}");
    assert_eq!((&feedback[0]["by"], &feedback[0]["instance"]), (&json!("coder"), &json!("team")));
    // Some clients validate a refusal against the schema too.
    let refusal = coder.call("channel_send", json!({"message": "x", "to": "ghost"})).await;
    let validator = jsonschema::validator_for(&schemas["channel_send"]).unwrap();
    assert!(validator.is_valid(&refusal["structuredContent"]), "{refusal}");
}
