//! Replayed output streams of the real programs.

/// Includes a stream from `crates/worker/streams`.
macro_rules! stream {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/streams/", $name, ".jsonl"))
    };
}

/// Includes a log from the same folder.
macro_rules! log {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/streams/", $name, ".log"))
    };
}

mod codex;
mod messages;

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus};

use agent_worker_protocol::api::PermitRequest;
use serde_json::{Value, json};

use super::{conversation::QuestionSubject, *};

/// Replays a stream with this exit status, and describes each line and the outcome.
fn replay(cli: &str, session: Option<&Value>, stream: &str, code: i32) -> String {
    replay_with_stderr(cli, session, stream, code, "on stderr")
}

/// Replays a stream of a program that wrote this to stderr.
fn replay_with_stderr(
    cli: &str,
    session: Option<&Value>,
    stream: &str,
    code: i32,
    complaint: &str,
) -> String {
    let mut vendor = find_adapter(cli).unwrap()(session);
    let steps = stream.lines().flat_map(|line| vendor.handle_line(line)).collect();
    let mut lines = describe_steps(steps);
    lines.push(describe_outcome(vendor.as_mut(), code, complaint));
    lines.join("\n")
}

fn describe_outcome(vendor: &mut dyn ProgramAdapter, code: i32, complaint: &str) -> String {
    let status = ExitStatus::from_raw(code << 8);
    let stderr_tail = complaint.to_owned();
    let exit = ProgramExit { status, stderr_tail, ended_after_result: false };
    match vendor.outcome(&exit) {
        ProgramOutcome::Answered(text) => format!("= {text}"),
        ProgramOutcome::Failed(TurnFailure { class, why, .. }) => {
            format!("= {class}: {}", truncate(&why, 60))
        }
        ProgramOutcome::SessionLost => "= forgot".to_owned(),
    }
}

/// Describes steps in order. Texts that follow each other are one.
fn describe_steps(steps: Vec<ProgramStep>) -> Vec<String> {
    let mut said = String::new();
    let mut lines = Vec::new();
    for step in steps {
        let line = match step {
            ProgramStep::Report(ProgramEvent::Text(text)) => {
                said.push_str(&text);
                continue;
            }
            ProgramStep::Report(event) => describe_event(event),
            ProgramStep::Send(line) => match (line["method"].as_str(), line.get("message")) {
                (Some(method), _) => format!("sends {method} {}", line["params"]),
                (None, Some(message)) => format!("sends user {message}"),
                (None, None) => format!("replies {}", line["result"]),
            },
            ProgramStep::Ask(question) => match question.subject {
                QuestionSubject::Call(PermitRequest { tool, args, .. }) => {
                    format!("asks for {tool} {args}")
                }
                QuestionSubject::User(questions) => format!("asks its user {questions}"),
            },
            ProgramStep::Message(step) => format!("{step:?}"),
            ProgramStep::EndInput => "ends the input".to_owned(),
        };
        if !said.is_empty() {
            lines.push(format!("says {:?}", std::mem::take(&mut said)));
        }
        lines.push(line);
    }
    if !said.is_empty() {
        lines.push(format!("says {said:?}"));
    }
    lines
}

/// Replays a log and describes each line.
fn replay_log(cli: &str, log: &str) -> String {
    let mut vendor = find_adapter(cli).unwrap()(None);
    let mut lines = Vec::new();
    for line in log.lines() {
        match vendor.parse_stderr_line(line) {
            StderrLine::LogEntry(heard) | StderrLine::RoutineEntry(heard) => {
                lines.extend(heard.into_iter().map(describe_event));
            }
            StderrLine::Complaint => lines.push("complains".to_owned()),
        }
    }
    lines.extend(vendor.wait_limit().map(|(_, failure)| format!("waits: {}", failure.class)));
    lines.join("\n")
}

fn describe_event(heard: ProgramEvent) -> String {
    match heard {
        ProgramEvent::Text(text) => text,
        ProgramEvent::ToolCalled { tool, args, .. } => format!("calls {tool} {args}"),
        ProgramEvent::ToolAnswered { tool, result, .. } => {
            let how = if result.is_done() { "answers" } else { "fails" };
            format!("{tool} {how}: {}", truncate(result.text(), 60))
        }
        ProgramEvent::ToolsStarted => "tools start".to_owned(),
        ProgramEvent::ToolsEnded => "tools end".to_owned(),
        ProgramEvent::Usage(usage) => {
            format!("used {} {} {:?}", usage.input_tokens, usage.output_tokens, usage.cost_micros)
        }
        ProgramEvent::UsageByModel(shares) => {
            let shares = shares.iter().map(|share| {
                let ModelTokenUsage { model, input, from_cache, into_cache, output } = share;
                let model = model.as_deref().unwrap_or("what it was told");
                format!(
                    "{input} ({from_cache} from cache, {into_cache} into it) {output} of {model}"
                )
            });
            format!("used {}", shares.collect::<Vec<_>>().join(", "))
        }
        ProgramEvent::Retry(why) => format!("retries: {why}"),
        ProgramEvent::Session(session) => format!("session {session}"),
        ProgramEvent::GaveUp(TurnFailure { class, why, .. }) => format!("gives up: {class}: {why}"),
    }
}

#[test]
fn a_stream_of_claude_code_means_the_same_every_time() {
    insta::assert_snapshot!(replay("claude", None, stream!("claude-ok"), 0), @r#"
    session {"cost_micros":0,"id":"5a08da14-5cf1-44e7-aade-55ace23c1b92"}
    calls mcp__team__document_append {"content":"- a line\n"}
    mcp__team__document_append answers: {"file":"notes.md","revision":1}
    calls Bash {"command":"echo hi"}
    Bash answers: hi
    says "All done."
    session {"cost_micros":1350,"id":"5a08da14-5cf1-44e7-aade-55ace23c1b92"}
    used 300 30 Some(1350)
    ends the input
    = All done.
    "#);
    insta::assert_snapshot!(replay("claude", None, stream!("claude-refused"), 143), @r#"
    session {"cost_micros":0,"id":"2409a181-4f76-4bdc-a439-8d892285a3ab"}
    gives up: auth: authentication_failed (status 401)
    = crash: the program ended without a result: exit status 143: on stde…
    "#);
    insta::assert_snapshot!(replay("claude", None, stream!("claude-rate-limited"), 1), @r#"
    session {"cost_micros":0,"id":"b166c96e-36bb-434e-bb92-b88ceb599fca"}
    retries: rate_limit (status 429)
    retries: rate_limit (status 429)
    retries: rate_limit (status 429)
    session {"cost_micros":0,"id":"b166c96e-36bb-434e-bb92-b88ceb599fca"}
    ends the input
    = rate_limited: API Error: Request rejected (429) · scripted 429
    "#);
    insta::assert_snapshot!(replay("claude", None, stream!("claude-overloaded"), 1), @r#"
    session {"cost_micros":0,"id":"688969a2-3a1d-45e3-a7e9-4db884d9e55e"}
    retries: overloaded (status 529)
    retries: overloaded (status 529)
    retries: overloaded (status 529)
    session {"cost_micros":0,"id":"688969a2-3a1d-45e3-a7e9-4db884d9e55e"}
    ends the input
    = transient: API Error: 529 scripted 529. This is a server-side issue, us…
    "#);
    insta::assert_snapshot!(replay("claude", None, stream!("claude-bad-request"), 1), @r#"
    session {"cost_micros":0,"id":"0302ea6a-7a55-4dac-9dc7-4e4dbf1e94c6"}
    session {"cost_micros":0,"id":"0302ea6a-7a55-4dac-9dc7-4e4dbf1e94c6"}
    ends the input
    = fatal: API Error: 400 scripted 400
    "#);
    insta::assert_snapshot!(replay("claude", None, stream!("claude-cut"), 0), @r#"
    session {"cost_micros":0,"id":"c09ae780-07ff-4c86-83dc-2e87cfc3ac36"}
    retries: unknown
    retries: unknown
    says "one "
    retries: unknown
    session {"cost_micros":765,"id":"c09ae780-07ff-4c86-83dc-2e87cfc3ac36"}
    used 200 11 Some(765)
    ends the input
    = one two three four five six
    "#);
}

#[test]
fn a_stream_of_gemini_means_the_same_every_time() {
    insta::assert_snapshot!(replay("gemini", None, stream!("gemini-ok"), 0), @r#"
    session {"id":"6dcf1b38-825e-4e3d-8181-abddfaf0841a"}
    calls mcp__team__document_append {"content":"- a line\n"}
    mcp__team__document_append answers: {"file":"notes.md","revision":1}
    calls list_directory {"dir_path":"."}
    list_directory answers: 
    says "All done."
    used 300 (0 from cache, 0 into it) 30 of fake
    = All done.
    "#);
    insta::assert_snapshot!(replay("gemini", None, stream!("gemini-refused"), 145), @r#"
    session {"id":"6ad6573d-7a8f-4d06-ae24-bde1cca65f2f"}
    = auth: [API Error: {"error":{"code":401,"message":"scripted 401","s…
    "#);
    insta::assert_snapshot!(replay("gemini", None, stream!("gemini-rate-limited"), 173), @r#"
    session {"id":"79ee0365-52f9-473a-b736-9e9cdd03fc09"}
    = rate_limited: [API Error: scripted 429]
    Please wait and try again later. T…
    "#);
    insta::assert_snapshot!(replay("gemini", None, stream!("gemini-overloaded"), 17), @r#"
    session {"id":"9d053157-12f2-4db7-99fc-a8706cb2edbf"}
    = transient: [API Error: {"error":{"code":529,"message":"scripted 529","s…
    "#);
    insta::assert_snapshot!(replay("gemini", None, stream!("gemini-bad-request"), 144), @r#"
    session {"id":"30c794dc-a3c5-4e0f-aef9-d19a10f756be"}
    = fatal: [API Error: {"error":{"code":400,"message":"scripted 400","s…
    "#);
    insta::assert_snapshot!(replay("gemini", None, stream!("gemini-cut"), 1), @r#"
    session {"id":"aaa64b00-3613-4bde-9961-84c17379735b"}
    says "one two three "
    = transient: [API Error: terminated]
    "#);
    insta::assert_snapshot!(replay("gemini", None, stream!("gemini-unfinished"), 0), @r#"
    session {"id":"a8393442-77b8-4fa2-8c67-1fceb35efb9a"}
    says "these are these are these are "
    used 300 (0 from cache, 0 into it) 30 of fake
    = transient: Model stream ended without a finish reason.
    "#);
}

#[test]
fn a_stream_of_opencode_means_the_same_every_time() {
    insta::assert_snapshot!(replay("opencode", None, stream!("opencode-ok"), 0), @r#"
    session {"id":"ses_e1e7d5125ffeOFnidafxoR53kR"}
    calls mcp__team__channel_send {"message":"hi @ws"}
    mcp__team__channel_send answers: {"ok":true}
    tools end
    used 100 10 None
    calls bash {"command":"echo hi","description":"d"}
    bash answers: hi
    
    tools end
    used 100 10 None
    says "All done."
    tools end
    used 100 10 None
    = All done.
    "#);
    insta::assert_snapshot!(replay("opencode", None, stream!("opencode-refused"), 1), @r#"
    session {"id":"ses_e1e89c4d5ffefm5KOMNY6OXaU5"}
    = auth: scripted 401
    "#);
    insta::assert_snapshot!(replay("opencode", None, stream!("opencode-bad-request"), 1), @r#"
    session {"id":"ses_e1e7d1344ffebgB4uf5TnI4tse"}
    = fatal: scripted 400
    "#);
}

#[test]
fn who_waits_without_a_word_for_a_provider_is_known_by_its_log() {
    insta::assert_snapshot!(replay_log("opencode", log!("opencode-overloaded")), @r#"
    retries: AI_APICallError: scripted 529
    complains
    retries: AI_APICallError: scripted 529
    gives up: transient: AI_APICallError: scripted 529
    gives up: transient: AI_APICallError: scripted 529
    waits: transient
    "#);
    insta::assert_snapshot!(replay_log("opencode", log!("opencode-rate-limited")), @r#"
    complains
    waits: transient
    "#);
    insta::assert_snapshot!(replay_log("opencode", log!("opencode-cut")), @r#"
    retries: AI_APICallError: Cannot connect to API: The socket connection was closed unexpectedly. For more information, pass `verbose: true` in the second argument to fetch() (cause: Error: The socket connection was closed unexpectedly. For more information, pass `verbose: true` in the second argument to fetch())
    waits: transient
    "#);
    insta::assert_snapshot!(replay_log("opencode", log!("opencode-tool")), @r#"
    tools start
    tools start
    tools start
    "#);
    let paused = log!("codex-paused");
    insta::assert_snapshot!(replay_log("codex", paused), @r#"
    gives up: transient: status 503, retry after 600 s
    "#);
    // The program handles a short pause, and every other response, itself.
    assert_eq!(replay_log("codex", &paused.replace("\"600\"", "\"5\"")), "");
    assert_eq!(replay_log("codex", &paused.replace("status=503", "status=200")), "");
    assert_eq!(replay_log("codex", "required MCP servers failed to initialize: team"), "complains");
}

/// A stream as the vendor documents it; no recording exists.
const CURSOR: &str = r#"{"type":"system","subtype":"init","apiKeySource":"env","cwd":"/p","session_id":"c6b6","model":"Auto","permissionMode":"default"}
{"type":"user","message":{"role":"user","content":[{"type":"text","text":"go"}]},"session_id":"c6b6"}
{"type":"thinking","subtype":"delta","text":"hm","session_id":"c6b6"}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I look."}]},"session_id":"c6b6"}
{"type":"tool_call","subtype":"started","call_id":"t1","tool_call":{"readToolCall":{"args":{"path":"a.txt"}}},"session_id":"c6b6"}
{"type":"tool_call","subtype":"completed","call_id":"t1","tool_call":{"readToolCall":{"args":{"path":"a.txt"},"result":{"success":{"content":"hi"}}}},"session_id":"c6b6"}
{"type":"tool_call","subtype":"started","call_id":"t2","tool_call":{"mcpToolCall":{"args":{"name":"team-channel_send","args":{"message":"hi"},"toolCallId":"t2","providerIdentifier":"team","toolName":"channel_send"}}},"session_id":"c6b6"}
{"type":"tool_call","subtype":"completed","call_id":"t2","tool_call":{"mcpToolCall":{"args":{"providerIdentifier":"team","toolName":"channel_send"},"result":{"rejected":{"reason":"no"}}}},"session_id":"c6b6"}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"All done."}]},"session_id":"c6b6"}
{"type":"result","subtype":"success","is_error":false,"duration_ms":5,"result":"I look.All done.","session_id":"c6b6"}
"#;

#[test]
fn a_stream_as_cursor_documents_it_means_this() {
    insta::assert_snapshot!(replay("cursor", None, CURSOR, 0), @r#"
    session {"id":"c6b6"}
    says "I look."
    calls read {"path":"a.txt"}
    read answers: {"content":"hi"}
    calls mcp__team__channel_send {"message":"hi"}
    mcp__team__channel_send fails: {"rejected":{"reason":"no"}}
    says "All done."
    = All done.
    "#);
    let failed = CURSOR.replace("\"is_error\":false", "\"is_error\":true");
    assert!(replay("cursor", None, &failed, 1).ends_with("= fatal: I look.All done."));
    let silent = replay("cursor", None, "", 1);
    assert_eq!(silent, "= crash: the program ended without a result: exit status 1: on stderr");
}

#[test]
fn a_conversation_that_goes_on_is_paid_for_once() {
    let session = json!({"id": "a", "cost_micros": 1000});
    let said = replay("claude", Some(&session), stream!("claude-ok"), 0);
    assert!(said.contains("used 300 30 Some(350)"), "{said}");
    let before =
        json!({"id": "a", "input_tokens": 200, "output_tokens": 20, "cached_input_tokens": 50});
    let stream = stream!("codex-ok");
    let stream = stream.replace("\"cachedInputTokens\":0", "\"cachedInputTokens\":120");
    let said = replay("codex", Some(&before), &stream, 0);
    assert!(said.contains("used 100 (70 from cache, 0 into it) 10 of"), "{said}");
}

#[test]
fn what_gemini_thinks_is_paid_for_and_each_model_has_its_share() {
    let line = r#"{"type":"result","status":"success","stats":{"total_tokens":130,"input_tokens":100,"output_tokens":10,
        "models":{"gemini-2.5-pro":{"total_tokens":90,"input_tokens":70,"output_tokens":5,"cached":40},
        "gemini-2.5-flash":{"total_tokens":40,"input_tokens":30,"output_tokens":5,"cached":0}}}}"#;
    let said = replay("gemini", None, &line.replace('\n', ""), 0);
    assert_eq!(
        said,
        "used 30 (0 from cache, 0 into it) 10 of gemini-2.5-flash, 70 (40 from cache, 0 into it) 20 of gemini-2.5-pro\n= "
    );
    let without = r#"{"type":"result","status":"success","stats":{"total_tokens":9,"input_tokens":7,"output_tokens":2}}"#;
    let said = replay("gemini", None, without, 0);
    assert_eq!(said, "used 7 (0 from cache, 0 into it) 2 of \n= ", "tokens are not lost");
}

#[test]
fn who_does_not_know_the_conversation_has_forgotten_it_and_who_never_had_one_has_failed() {
    let gone = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"session_id":"a"}"#;
    let session = json!({"id": "a", "cost_micros": 0, "input_tokens": 0, "output_tokens": 0});
    for (cli, stream, complaint) in [
        ("claude", gone, ""),
        ("gemini", "", "Error resuming session: Invalid session identifier \"a\"."),
        ("opencode", "", "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mSession not found"),
    ] {
        let said = |session, complaint| replay_with_stderr(cli, session, stream, 1, complaint);
        let is_lost = |said: &str| said.lines().last() == Some("= forgot");
        assert!(is_lost(&said(Some(&session), complaint)), "{cli}");
        assert!(!is_lost(&said(None, complaint)), "{cli}");
        let other = said(Some(&session), "Error: could not reach the server `team`");
        assert_eq!(is_lost(&other), cli == "claude", "{cli}: {other}");
    }
}

#[test]
fn a_key_that_google_does_not_know_is_refused_though_it_says_bad_request() {
    let reason = r#"{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"API_KEY_INVALID\"}"#;
    let bare = stream!("gemini-bad-request");
    let refused =
        bare.replace(r#"\"status\":\"INVALID_ARGUMENT\""#, &format!(r#"\"details\":[{reason}]"#));
    assert!(replay("gemini", None, bare, 144).contains("= fatal: "));
    assert!(replay("gemini", None, &refused, 144).contains("= auth: "), "{refused}");
}

#[test]
fn a_success_that_ends_with_a_failing_status_is_none() {
    for (cli, stream) in [
        ("claude", stream!("claude-ok")),
        ("codex", stream!("codex-ok")),
        ("gemini", stream!("gemini-ok")),
        ("opencode", stream!("opencode-ok")),
        ("cursor", CURSOR),
    ] {
        let said = replay(cli, None, stream, 3);
        assert!(!said.ends_with("= All done."), "{cli}: {said}");
    }
}

#[test]
fn what_an_agent_writes_about_errors_is_no_error() {
    let said = "Error: rate limit. API Error: 401 unexpected status 429 Too Many Requests";
    for (cli, stream) in [
        ("claude", stream!("claude-ok")),
        ("codex", stream!("codex-ok")),
        ("opencode", stream!("opencode-ok")),
        ("cursor", CURSOR),
    ] {
        let stream = stream.replace("All done.", said);
        assert!(replay(cli, None, &stream, 0).ends_with(&format!("= {said}")), "{cli}");
    }
}
