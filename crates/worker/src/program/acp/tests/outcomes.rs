//! The outcomes of turns, cancellation, and agents without tools.

use super::*;

#[test]
fn a_command_of_codex_is_asked_for_as_its_shell_gets_it() {
    let input = json!({"call_id": "c1", "started_at_ms": 7, "command": ["/bin/bash", "-lc", "rm -r x"], "cwd": "/a",
        "reason": null, "parsed_cmd": [{"cmd": "rm"}]});
    let call = json!({"toolCallId": "c1", "kind": "execute", "title": "rm", "rawInput": input});
    let stream = session_opened_lines(&json!({"sessionId": "s"}))
        + &permit_request_line(&call, &["allow_once"]);
    let read = Replay::with_agent("codex").read(&stream);
    assert!(read.contains("asks for execute {\"command\":\"rm -r x\",\"cwd\":\"/a\"}\n"), "{read}");
}

#[test]
fn a_command_of_codex_for_no_known_shell_is_asked_for_as_a_whole() {
    for command in [
        json!(["/x/evil", "-lc", "git diff"]),
        json!(["./bash", "-lc", "git diff"]),
        json!(["bash", "-lc", "git diff", "x"]),
        json!(["bash", "-lc", ["git diff"]]),
    ] {
        let call = json!({"toolCallId": "c1", "kind": "execute", "rawInput": {"command": command}});
        let stream = session_opened_lines(&json!({"sessionId": "s"}))
            + &permit_request_line(&call, &["allow_once"]);
        let read = Replay::with_agent("codex").read(&stream);
        assert!(read.contains(&format!("asks for execute {{\"command\":{command}}}\n")), "{read}");
    }
}

#[test]
fn a_request_has_the_paths_that_only_the_protocol_names() {
    let asked = |call: &Value| {
        let stream = session_opened_lines(&json!({"sessionId": "s"}))
            + &permit_request_line(call, &["allow_once"]);
        Replay::with_agent(None).read(&stream)
    };
    let call = |kind: &str, input: &Value| {
        json!({"toolCallId": "c", "kind": kind, "rawInput": input, "locations": [{"path": "/a"}, {"path": "/b"}],
            "content": [{"type": "diff", "path": "/c"}, {"type": "diff", "path": "/b"}]})
    };
    let read = asked(&call("edit", &json!({"path": "/a", "x": 1})));
    let listed = r#"{"locations":[{"path":"/c"},{"path":"/b"}],"path":"/a","x":1}"#;
    assert!(read.contains(&format!("asks for edit {listed}\n")), "{read}");
    let read = asked(&call("edit", &json!("text")));
    let listed = r#"{"input":"text","locations":[{"path":"/c"},{"path":"/b"},{"path":"/a"}]}"#;
    assert!(read.contains(&format!("asks for edit {listed}\n")), "{read}");
    let read = asked(&call("execute", &json!({"command": "ls"})));
    assert!(read.contains("asks for execute {\"command\":\"ls\"}\n"), "{read}");
}

#[test]
fn the_outcome_is_the_stop_reason_or_the_errors_code_and_never_the_text() {
    let replay = Replay::with_agent(None);
    let words = json!({"sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "Error 401: rate limit"}});
    let end = |line: &Value| {
        let stream = session_opened_lines(&json!({"sessionId": "s"}))
            + &update_line(&words)
            + &line.to_string();
        replay.read(&stream).lines().last().unwrap().to_owned()
    };
    let stop = |reason: &str| end(&json!({"id": 3, "result": {"stopReason": reason}}));
    let error = |code: i64, data: &Value| {
        end(&json!({"id": 3, "error": {"code": code, "message": "429 rate limit", "data": data}}))
    };
    let kind = |kind: &str| error(-32603, &json!({"errorKind": kind}));
    insta::assert_snapshot!([
        stop("end_turn"), stop("max_tokens"), stop("max_turn_requests"), stop("refusal"), stop("cancelled"), stop("?"),
        error(-32000, &Value::Null), error(-32603, &Value::Null), error(401, &Value::Null), error(402, &Value::Null),
        error(429, &Value::Null), error(503, &Value::Null), error(400, &Value::Null), error(1, &Value::Null),
        kind("authentication_failed"), kind("billing_error"), kind("rate_limit"), kind("server_error"), kind("unknown"),
    ].join("\n"), @r#"
    = Error 401: rate limit
    = fatal: the answer reached the token limit
    = fatal: the agent reached its limit of model requests per turn
    = fatal: the model refused to continue
    = crash: the agent stopped before the end of its turn
    = fatal: the agent returned no known stop reason
    = auth: 429 rate limit
    = fatal: 429 rate limit
    = auth: 429 rate limit
    = billing: 429 rate limit
    = rate_limited: 429 rate limit
    = transient: 429 rate limit
    = fatal: 429 rate limit
    = fatal: 429 rate limit
    = auth: 429 rate limit
    = billing: 429 rate limit
    = rate_limited: 429 rate limit
    = transient: 429 rate limit
    = fatal: 429 rate limit
    "#);
    let bad = r#"{"id":3,"error":{"code":400,"message":"{\"error\":{\"details\":[{\"reason\":\"API_KEY_INVALID\"}]}}"}}"#;
    assert!(end(&serde_json::from_str(bad).unwrap()).starts_with("= auth: "));
}

#[test]
fn one_that_cannot_have_the_teams_tools_is_not_begun_with() {
    let replay = Replay::with_agent(None);
    let welcome = |version: u64, can: &Value| {
        let result = json!({"protocolVersion": version, "agentCapabilities": can});
        replay.read(&json!({"id": 1, "result": result}).to_string())
    };
    let http = json!({"mcpCapabilities": {"http": true}});
    assert!(welcome(1, &http).ends_with("> \"session/new\""), "{}", welcome(1, &http));
    assert!(welcome(2, &http).ends_with("= fatal: the agent uses protocol version 2, not 1"));
    assert!(welcome(1, &json!({})).contains("= fatal: the agent does not support MCP over HTTP"));
}

#[test]
fn a_turn_that_is_cancelled_leaves_no_request_unanswered() {
    let replay = Replay::with_agent(None);
    let mut client = replay.client();
    client.initialize_request();
    assert_eq!(client.cancel_messages(), Vec::<Value>::new(), "nothing to stop yet");
    session_opened_lines(&json!({"sessionId": "s"}))
        .lines()
        .for_each(|line| drop(client.handle_line(line)));
    client.handle_line(&permit_request_line(
        &json!({"toolCallId": "c", "kind": "edit"}),
        &["allow_once"],
    ));
    let files = client.handle_line(r#"{"id":7,"method":"fs/read_text_file","params":{}}"#);
    let Some(AcpStep::Send(refusal)) = files.into_iter().next() else { panic!("no answer") };
    assert_eq!(refusal["error"]["code"], -32601);
    let cancelled = json!({"outcome": {"outcome": "cancelled"}});
    let expected = [
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}),
        json!({"jsonrpc": "2.0", "id": "p", "result": cancelled}),
    ];
    assert_eq!(client.cancel_messages(), expected);
}

fn text_chunk(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

/// Builds the state of a thread that Codex reports.
fn thread_status(kind: &str) -> Value {
    json!({"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": {"type": kind}}}})
}

#[test]
fn a_turn_without_a_whole_answer_has_failed_by_the_rules_of_its_agent() {
    let words = text_chunk("unexpected status 529");
    let status = json!({"sessionUpdate": "session_info_update", "_meta": {"codex": {"error":
        {"codexErrorInfo": {"responseStreamConnectionFailed": {"httpStatusCode": 529}}}}}});
    let (system_error, active) = (thread_status("systemError"), thread_status("active"));
    let (own, other) = (text_chunk("Error: 503 scripted"), text_chunk("done"));
    let retry = text_chunk("Info: Request failed due to a transient API error. Retrying...");
    let remark = text_chunk("Model metadata for `m` not found.");
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "kind": "execute",
        "status": "completed", "rawInput": {}});
    let nothing_used =
        json!({"stopReason": "end_turn", "usage": null, "_meta": {"quota": {"model_usage": []}}});
    let used = json!({"stopReason": "end_turn", "usage": {"inputTokens": 5, "outputTokens": 1}});
    let end = json!({"stopReason": "end_turn"});
    for (agent, updates, result, expected) in [
        (
            Some("codex"),
            vec![&status, &words],
            &nothing_used,
            "= transient: the model completed no answer: unexpected status 529",
        ),
        (
            Some("codex"),
            vec![&words],
            &nothing_used,
            "= transient: the model completed no answer: unexpected status 529",
        ),
        // The failure of a request after a tool call.
        (
            Some("codex"),
            vec![&system_error, &words],
            &used,
            "= transient: the model completed no answer: unexpected status 529",
        ),
        (Some("codex"), vec![&system_error, &active, &words], &used, "= unexpected status 529"),
        (
            Some("copilot"),
            vec![&call, &own],
            &used,
            "= transient: the model completed no answer: Error: 503 scripted",
        ),
        (Some("copilot"), vec![&own, &call, &words, &retry, &other], &used, "= done"),
        (Some("codex"), vec![&remark, &other], &used, "= done"),
        (Some("codex"), vec![&words], &used, "= unexpected status 529"),
        (
            Some("copilot"),
            vec![&words],
            &end,
            "= transient: the model completed no answer: unexpected status 529",
        ),
        (Some("copilot"), vec![&words], &used, "= unexpected status 529"),
        (None, vec![], &end, "= crash: the model completed no answer"),
        (None, vec![&words], &end, "= unexpected status 529"),
        (None, vec![&call], &end, "= "),
    ] {
        let updates: String = updates.into_iter().map(update_line).collect();
        let last = json!({"id": 3, "result": result}).to_string();
        let stream = session_opened_lines(&json!({"sessionId": "s"})) + &updates + &last;
        let read = Replay::with_agent(agent).read(&stream);
        let found = read.lines().last().unwrap();
        assert_eq!(found.trim_end(), expected.trim_end(), "{agent:?}: {read}");
    }
}

#[test]
fn an_agent_that_stops_after_a_denied_request_has_failed() {
    let mut replay = Replay::with_agent(None);
    replay.permit = AcpPermitDecision::Reject;
    let stream = session_opened_lines(&json!({"sessionId": "s"}))
        + &permit_request_line(&json!({"toolCallId": "c", "kind": "edit"}), &["reject_once"])
        + &prompt_result_line("cancelled");
    let read = replay.read(&stream);
    let expected = "= permission: the agent stopped because a request was denied";
    assert_eq!(read.lines().last(), Some(expected), "{read}");
    // It ends its turn as if it were done, and says nothing, or only that it stopped.
    let words = |text: &str| {
        update_line(
            &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
        )
    };
    let used = json!({"id": 3, "result": {"stopReason": "end_turn", "usage": {"inputTokens": 5, "outputTokens": 1}}});
    for (agent, after, expected) in [
        (None, String::new(), expected),
        (Some("copilot"), words("Info: Operation cancelled by user"), expected),
        (None, words("I did something else."), "= I did something else."),
        (Some("copilot"), words("Something else."), "= Something else."),
    ] {
        let mut replay = Replay::with_agent(agent);
        replay.permit = AcpPermitDecision::Reject;
        let stream = session_opened_lines(&json!({"sessionId": "s"}))
            + &permit_request_line(&json!({"toolCallId": "c", "kind": "edit"}), &["reject_once"])
            + &after
            + &used.to_string();
        let read = replay.read(&stream);
        assert_eq!(read.lines().last(), Some(expected), "{agent:?}: {read}");
    }
}

#[test]
fn an_error_has_the_reason_of_its_data_and_the_class_of_the_providers_status() {
    let end = |error: &Value| {
        let stream = session_opened_lines(&json!({"sessionId": "s"}))
            + &json!({"id": 3, "error": error}).to_string();
        Replay::with_agent("qwen").read(&stream).lines().last().unwrap().to_owned()
    };
    for (data, expected) in [
        (json!({"details": "401 scripted 401"}), "= auth: Internal error: 401 scripted 401"),
        (json!({"details": "429 slow down"}), "= rate_limited: Internal error: 429 slow down"),
        (json!("529 overloaded"), "= transient: Internal error: 529 overloaded"),
        (
            json!({"message": "unexpected status 529 <unknown>: x", "codex_error_info": "other"}),
            "= transient: Internal error: unexpected status 529 <unknown>: x",
        ),
        (
            json!({"message": "m", "codex_error_info": {"response_too_many_failed_attempts": {"http_status_code": 429}}}),
            "= rate_limited: Internal error: m",
        ),
        (
            json!({"message": "stream disconnected before completion: x"}),
            "= transient: Internal error: stream disconnected before completion: x",
        ),
        (json!({"details": "no number"}), "= fatal: Internal error: no number"),
        (json!({"details": "4011 files"}), "= fatal: Internal error: 4011 files"),
    ] {
        let error = json!({"code": -32603, "message": "Internal error", "data": data});
        assert_eq!(end(&error), expected);
    }
}

#[test]
fn a_permitted_call_is_reported_as_running_before_the_agent_says_so() {
    let replay = Replay::with_agent("gemini");
    let mut client = replay.client();
    client.initialize_request();
    let opened = session_opened_lines(&json!({"sessionId": "s"}));
    opened.lines().for_each(|line| drop(client.handle_line(line)));
    let call = json!({"toolCallId": "c", "kind": "execute", "title": "sleep 9"});
    let asked = client.handle_line(&permit_request_line(&call, &["allow_once"]));
    let Some(AcpStep::RequestPermit(question)) = asked.into_iter().next() else {
        panic!("no question")
    };
    assert_eq!(client.permitted_call(&question, AcpPermitDecision::Reject), None);
    let running = client.permitted_call(&question, AcpPermitDecision::AllowOnce);
    let Some(ProgramEvent::ToolCalled { id, tool, .. }) = running else { panic!("{running:?}") };
    assert_eq!((&*id, &*tool), ("c", "execute"));
    assert_eq!(client.permitted_call(&question, AcpPermitDecision::AllowOnce), None, "once");
}
