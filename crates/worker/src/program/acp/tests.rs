//! Replayed conversations of real agents, and messages that these agents did not send but may.

mod copilot;
mod outcomes;

use serde_json::{Value, json};

use super::{
    super::ProgramEvent,
    client::{AcpClient, AcpStep},
    permit::AcpPermitDecision,
    preset::AcpPreset,
    turn_input::AcpTurnInput,
};
use crate::{
    attachments::InlineImage, tool_server::ToolServerEndpoint, truncation::truncate,
    turn::TurnFailure,
};

struct Replay {
    tool_server: ToolServerEndpoint,
    agent: Option<&'static str>,
    session: Option<Value>,
    images: Vec<InlineImage>,
    permit: AcpPermitDecision,
}

impl Replay {
    fn with_agent(agent: impl Into<Option<&'static str>>) -> Self {
        let tool_server =
            ToolServerEndpoint { url: "http://door/mcp".into(), token: "t0ken".into() };
        Self {
            tool_server,
            agent: agent.into(),
            session: None,
            images: Vec::new(),
            permit: AcpPermitDecision::AllowOnce,
        }
    }

    fn client(&self) -> AcpClient<'_> {
        AcpClient::new(AcpTurnInput {
            preset: self.agent.map(|agent| AcpPreset::find(agent).unwrap()),
            cwd: "/home/somebody/project",
            tool_server: &self.tool_server,
            tools_file: None,
            system_prompt: "You are coder.",
            prompt: "Fix it.",
            images: &self.images,
            attachment_folder: Some("/attempt/attachments"),
            session: self.session.as_ref(),
        })
    }

    /// Replays a conversation and describes each step.
    fn read(&self, stream: &str) -> String {
        let mut client = self.client();
        let mut told = vec![format!("> {}", client.initialize_request()["method"])];
        let mut said = String::new();
        for step in stream.lines().flat_map(|line| {
            let steps = client.handle_line(line);
            steps
                .into_iter()
                .map(|step| describe_step(step, &mut client, self.permit))
                .collect::<Vec<_>>()
        }) {
            match step {
                Ok(text) => said.push_str(&text),
                Err(line) => {
                    if !said.is_empty() {
                        told.push(format!("says {:?}", std::mem::take(&mut said)));
                    }
                    told.push(line);
                }
            }
        }
        told.join("\n")
    }
}

/// Returns the text of the agent, or a line that describes any other step.
fn describe_step(
    step: AcpStep,
    client: &mut AcpClient<'_>,
    permit: AcpPermitDecision,
) -> Result<String, String> {
    Err(match step {
        AcpStep::Report(ProgramEvent::Text(text)) => return Ok(text),
        AcpStep::Report(ProgramEvent::ToolCalled { tool, args, .. }) => {
            format!("calls {tool} {args}")
        }
        AcpStep::Report(ProgramEvent::ToolAnswered { tool, result, .. }) => {
            let how = if result.is_done() { "answers" } else { "fails" };
            format!("{tool} {how}: {}", truncate(result.text(), 60))
        }
        AcpStep::Report(ProgramEvent::Usage(usage)) => {
            format!("used {} {} {:?}", usage.input_tokens, usage.output_tokens, usage.cost_micros)
        }
        AcpStep::Report(ProgramEvent::UsageByModel(shares)) => format!("spent {shares:?}"),
        AcpStep::Report(ProgramEvent::ToolsStarted | ProgramEvent::ToolsEnded) => {
            unreachable!("an agent of the protocol reports each call")
        }
        AcpStep::Report(ProgramEvent::Session(session)) => format!("session {session}"),
        AcpStep::Report(ProgramEvent::Retry(why)) => format!("retries: {why}"),
        AcpStep::Report(ProgramEvent::GaveUp(TurnFailure { why, .. })) => {
            format!("gives up: {why}")
        }
        AcpStep::Send(message) => match message["method"].as_str() {
            Some(method) => format!("> {method:?}"),
            None => format!("> {}", message.get("result").unwrap_or(&message["error"])),
        },
        AcpStep::RequestPermit(question) => {
            let asked = format!("asks for {} {}", question.request.tool, question.request.args);
            format!("{asked}\n> {}", client.permit_response(question, permit)["result"])
        }
        AcpStep::End(Ok(text)) => format!("= {text}"),
        AcpStep::End(Err(TurnFailure { class, why, .. })) => {
            format!("= {class}: {}", truncate(&why, 60))
        }
    })
}

/// Includes a stream from `crates/worker/streams`.
macro_rules! stream {
    ($name:literal) => {
        include_str!(concat!("../../../streams/acp-", $name, ".jsonl"))
    };
}

#[test]
fn a_conversation_with_gemini_means_the_same_every_time() {
    let gemini = Replay::with_agent("gemini");
    insta::assert_snapshot!(gemini.read(stream!("gemini-ok")), @r#"
    > "initialize"
    > "session/new"
    > "session/prompt"
    > {"outcome":{"optionId":"proceed_once","outcome":"selected"}}
    calls mcp__team__channel_send {"content":[{"content":{"text":"{\"message\":\"hi\"}","type":"text"},"type":"content"}],"title":"channel_send (team MCP Server)"}
    mcp__team__channel_send answers: {"done":true}
    asks for execute {"command":"echo once >> ran.txt","content":[{"content":{"text":"[current working directory /home/somebody/project]","type":"text"},"type":"content"}]}
    > {"outcome":{"optionId":"proceed_once","outcome":"selected"}}
    calls execute {"command":"echo once >> ran.txt","content":[{"content":{"text":"[current working directory /home/somebody/project]","type":"text"},"type":"content"}]}
    execute answers: 
    says "All done."
    used 300 30 None
    = All done.
    "#);
    let denied = Replay { permit: AcpPermitDecision::Reject, ..Replay::with_agent("gemini") };
    insta::assert_snapshot!(denied.read(stream!("gemini-denied")), @r#"
    > "initialize"
    > "session/new"
    > "session/prompt"
    > {"outcome":{"optionId":"proceed_once","outcome":"selected"}}
    asks for execute {"command":"echo once >> ran.txt","content":[{"content":{"text":"[current working directory /home/somebody/project]","type":"text"},"type":"content"}]}
    > {"outcome":{"optionId":"cancel","outcome":"selected"}}
    says "All done."
    used 300 30 None
    = All done.
    "#);
    let ends = |stream: &str| gemini.read(stream).lines().last().unwrap().to_owned();
    insta::assert_snapshot!([
        stream!("gemini-refused"), stream!("gemini-rate-limited"), stream!("gemini-overloaded"),
        stream!("gemini-bad-request"), stream!("gemini-cut"),
    ].map(ends).join("\n"), @r#"
    = auth: {"error":{"code":401,"message":"scripted 401","status":"UNAU…
    = rate_limited: scripted 429
    = transient: {"error":{"code":529,"message":"scripted 529","status":"INTE…
    = fatal: {"error":{"code":400,"message":"scripted 400","status":"INVA…
    = transient: terminated
    "#);
}

#[test]
fn a_conversation_with_claude_means_the_same_every_time() {
    let claude = Replay::with_agent("claude");
    insta::assert_snapshot!(claude.read(stream!("claude-ok")), @r#"
    > "initialize"
    > "session/new"
    session {"cost_micros":0,"id":"27eaacbf-7792-4fcf-ba18-4f85d9a7f8a8"}
    > "session/prompt"
    calls mcp__team__channel_send {"message":"hi"}
    > {"outcome":{"optionId":"allow","outcome":"selected"}}
    mcp__team__channel_send answers: {"done":true}
    calls Bash {"command":"echo once >> ran.txt"}
    asks for execute {"command":"echo once >> ran.txt"}
    > {"outcome":{"optionId":"allow","outcome":"selected"}}
    Bash answers: ```console
    (Bash completed with no output)
    ```
    says "All done."
    session {"cost_micros":2250,"id":"27eaacbf-7792-4fcf-ba18-4f85d9a7f8a8"}
    used 300 30 Some(2250)
    = All done.
    "#);
    let denied = Replay { permit: AcpPermitDecision::Reject, ..Replay::with_agent("claude") };
    insta::assert_snapshot!(denied.read(stream!("claude-denied")), @r#"
    > "initialize"
    > "session/new"
    session {"cost_micros":0,"id":"44040455-0809-4718-b8e4-3b1b75b5d421"}
    > "session/prompt"
    calls Bash {"command":"echo once >> ran.txt"}
    asks for execute {"command":"echo once >> ran.txt"}
    > {"outcome":{"optionId":"reject","outcome":"selected"}}
    Bash fails: ```
    User refused permission to run tool
    ```
    says "All done."
    session {"cost_micros":1500,"id":"44040455-0809-4718-b8e4-3b1b75b5d421"}
    used 200 20 Some(1500)
    = All done.
    "#);
    let ends = |stream: &str| claude.read(stream).lines().last().unwrap().to_owned();
    insta::assert_snapshot!([
        stream!("claude-refused"), stream!("claude-rate-limited"), stream!("claude-overloaded"),
    ].map(ends).join("\n"), @r#"
    = auth: Internal error: Failed to authenticate. API Error: 401 scrip…
    = rate_limited: Internal error: API Error: Request rejected (429) · scripte…
    = transient: Internal error: API Error: Repeated 529 Overloaded errors. T…
    "#);
}

#[test]
fn a_conversation_with_qwen_or_codex_means_the_same_every_time() {
    insta::assert_snapshot!(Replay::with_agent("qwen").read(stream!("qwen-ok")), @r#"
    > "initialize"
    > "session/new"
    session {"cost_micros":0,"id":"fb1241e8-2bfa-4d39-b0c3-fd6b176db834"}
    > "session/prompt"
    asks for other {"message":"hi"}
    > {"outcome":{"optionId":"proceed_once","outcome":"selected"}}
    calls mcp__team__channel_send {"message":"hi"}
    mcp__team__channel_send answers: {"done":true}
    asks for execute {"command":"echo once >> ran.txt"}
    > {"outcome":{"optionId":"proceed_once","outcome":"selected"}}
    calls run_shell_command {"command":"echo once >> ran.txt"}
    run_shell_command answers: Command: echo once >> ran.txt
    Directory: (root)
    Output: (emp…
    says "All done."
    session {"cost_micros":0,"id":"fb1241e8-2bfa-4d39-b0c3-fd6b176db834"}
    = All done.
    "#);
    insta::assert_snapshot!(Replay::with_agent("codex").read(stream!("codex-ok")), @r#"
    > "initialize"
    > "session/new"
    session {"cost_micros":0,"id":"01a1e176-ff97-7e70-bae5-d9a01be59e91"}
    > "session/prompt"
    calls mcp__team__channel_send {"arguments":{"message":"hi"},"server":"team","tool":"channel_send"}
    mcp__team__channel_send answers: {"done":true}
    says "All done."
    session {"cost_micros":0,"id":"01a1e176-ff97-7e70-bae5-d9a01be59e91"}
    = All done.
    "#);
}

/// Builds the agent's responses to `initialize` and to the opening of a session.
fn session_opened_lines(result: &Value) -> String {
    let can = json!({"loadSession": true, "mcpCapabilities": {"http": true}});
    let welcome = json!({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": can}});
    format!("{welcome}\n{}\n", json!({"id": 2, "result": result}))
}

fn update_line(update: &Value) -> String {
    format!(
        "{}\n",
        json!({"method": "session/update", "params": {"sessionId": "s", "update": update}})
    )
}

fn permit_request_line(call: &Value, kinds: &[&str]) -> String {
    let options: Vec<_> =
        kinds.iter().map(|kind| json!({"optionId": format!("o-{kind}"), "kind": kind})).collect();
    let params = json!({"sessionId": "s", "toolCall": call, "options": options});
    format!("{}\n", json!({"id": "p", "method": "session/request_permission", "params": params}))
}

fn prompt_result_line(stop: &str) -> String {
    format!("{}\n", json!({"id": 3, "result": {"stopReason": stop}}))
}

#[test]
fn an_answer_holds_for_one_call_only_whatever_it_is_offered() {
    let call = json!({"toolCallId": "c", "kind": "execute", "rawInput": {"command": "ls"}});
    for (permit, offered, expected) in [
        (
            AcpPermitDecision::AllowOnce,
            &["allow_always", "allow_once", "reject_once"][..],
            json!("o-allow_once"),
        ),
        (
            AcpPermitDecision::AllowOnce,
            &["allow_always", "reject_always"],
            json!("o-reject_always"),
        ),
        (AcpPermitDecision::AllowOnce, &["allow_always"], Value::Null),
        (
            AcpPermitDecision::Reject,
            &["allow_once", "reject_always", "reject_once"],
            json!("o-reject_once"),
        ),
        (AcpPermitDecision::Reject, &["allow_once", "allow_always"], Value::Null),
    ] {
        let replay = Replay::with_agent(None);
        let mut client = replay.client();
        client.initialize_request();
        session_opened_lines(&json!({"sessionId": "s"}))
            .lines()
            .for_each(|line| drop(client.handle_line(line)));
        let mut steps = client.handle_line(&permit_request_line(&call, offered));
        let Some(AcpStep::RequestPermit(question)) = steps.pop() else { panic!("{steps:?}") };
        let outcome = client.permit_response(question, permit)["result"]["outcome"].take();
        assert_eq!(outcome["optionId"], expected, "{offered:?}");
        let word = if expected.is_null() { "cancelled" } else { "selected" };
        assert_eq!(outcome["outcome"], word);
    }
}

#[test]
fn the_teams_own_tools_need_no_approval_and_no_other_tool_passes_for_one() {
    let asks = |agent: Option<&'static str>, call: &Value| {
        let stream = session_opened_lines(&json!({"sessionId": "s"}))
            + &permit_request_line(call, &["allow_once", "reject_once"]);
        Replay::with_agent(agent).read(&stream).contains("asks for")
    };
    let named =
        |name: &str| json!({"toolCallId": "c", "kind": "other", "title": "x", "name": name});
    let titled = |kind: &str, title: &str| json!({"toolCallId": "c", "kind": kind, "title": title});
    let given =
        |server: &str| json!({"toolCallId": "c", "rawInput": {"server": server, "tool": "vote"}});
    let (gemini, codex) = (Some("gemini"), Some("codex"));
    for (agent, ours) in [
        (None, named("mcp__team__channel_send")),
        (None, json!({"toolCallId": "c", "_meta": {"toolName": "mcp__team__vote"}})),
        (gemini, titled("other", "channel_send (team MCP Server)")),
        (codex, given("team")),
    ] {
        assert!(!asks(agent, &ours), "{ours}");
    }
    for (agent, other) in [
        // A title or an input may be a model's own text.
        (None, titled("other", "channel_send (team MCP Server)")),
        (None, titled("other", "mcp__team__channel_send")),
        (None, given("team")),
        (None, named("mcp__teams__channel_send")),
        (gemini, titled("execute", "channel_send (team MCP Server)")),
        (gemini, titled("edit", "mcp__team__channel_send")),
        (gemini, titled("other", "rm (team MCP Server)")),
        (gemini, titled("other", "channel_send (team MCP Server) ")),
        (gemini, json!({"toolCallId": "c", "name": "other", "title": "mcp__team__channel_send"})),
        (codex, given("theirs")),
    ] {
        assert!(asks(agent, &other), "{other}");
    }
}

#[test]
fn a_permit_request_has_all_reported_details_of_the_call() {
    let replay = Replay::with_agent(None);
    let first = update_line(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "title": "List",
        "status": "pending", "rawInput": {}}),
    );
    let then = update_line(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawInput": {"command": "ls -l"}}),
    );
    let asked = permit_request_line(&json!({"toolCallId": "c"}), &["allow_once"]);
    let edit = json!({"toolCallId": "d", "kind": "edit", "title": "Change it", "locations": [{"path": "/a/b"}],
        "content": [{"type": "diff", "path": "/a/b", "oldText": "1", "newText": "2"}]});
    let stream = session_opened_lines(&json!({"sessionId": "s"}))
        + &first
        + &then
        + &asked
        + &permit_request_line(&edit, &["allow_once"]);
    let read = replay.read(&stream);
    assert!(read.contains("asks for execute {\"command\":\"ls -l\"}\n"), "{read}");
    assert!(read.contains("asks for edit {\"content\":[{\"newText\":\"2\""), "{read}");
    assert!(read.contains("\"path\":\"/a/b\",\"title\":\"Change it\"}\n"), "{read}");
    assert_eq!(read.matches("calls execute").count(), 1, "{read}");
}

#[test]
fn the_replay_of_a_loaded_conversation_is_ignored() {
    let session = Some(json!({"id": "s", "cost_micros": 2000}));
    let replay = Replay { session, ..Replay::with_agent("opencode") };
    let words = |text: &str| {
        update_line(
            &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
        )
    };
    let opened = session_opened_lines(&json!({}));
    let (welcome, loaded) = opened.split_once('\n').unwrap();
    let cost = json!({"amount": 0.0025, "currency": "USD"});
    let stream = format!("{welcome}\n{}{loaded}", words("Earlier."))
        + &words("Now.")
        + &update_line(
            &json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost}),
        )
        + &prompt_result_line("end_turn");
    insta::assert_snapshot!(replay.read(&stream), @r#"
    > "initialize"
    > "session/load"
    session {"cost_micros":2000,"id":"s"}
    > "session/prompt"
    says "Now."
    session {"cost_micros":2500,"id":"s"}
    used 0 0 Some(500)
    = Now.
    "#);
    // The session is gone: the client opens a new one, and its whole cost belongs to this turn.
    let gone = json!({"id": 2, "error": {"code": -32603, "message": "no such session"}});
    let new_session = json!({"id": 3, "result": {"sessionId": "s"}});
    let stream = format!("{welcome}\n{gone}\n{new_session}\n")
        + &update_line(
            &json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost}),
        )
        + &prompt_result_line("end_turn").replace('3', "4");
    insta::assert_snapshot!(replay.read(&stream), @r#"
    > "initialize"
    > "session/load"
    retries: the agent lost its conversation; starting a new one
    > "session/new"
    session {"cost_micros":0,"id":"s"}
    > "session/prompt"
    session {"cost_micros":2500,"id":"s"}
    used 0 0 Some(2500)
    =
    "#);
}

#[test]
fn the_cost_of_a_turn_is_the_agents_count_and_unknown_if_its_meaning_is_unknown() {
    let used = |agent: Option<&'static str>, session: Option<Value>, micros: u64| {
        let replay = Replay { session, ..Replay::with_agent(agent) };
        let amount = std::time::Duration::from_micros(micros).as_secs_f64();
        let cost = json!({"amount": amount, "currency": "USD"});
        let stream = session_opened_lines(&json!({"sessionId": "s"}))
            + &update_line(
                &json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost}),
            )
            + &prompt_result_line("end_turn");
        let read = replay.read(&stream);
        read.lines().find(|line| line.starts_with("used")).map(str::to_owned)
    };
    let last = || Some(json!({"id": "s", "cost_micros": 100}));
    for (agent, session, expected) in [
        (Some("claude"), last(), Some("used 0 0 Some(500)")),
        (Some("opencode"), last(), Some("used 0 0 Some(400)")),
        (Some("opencode"), None, Some("used 0 0 Some(500)")),
        (None, None, Some("used 0 0 Some(500)")),
        (None, last(), None),
    ] {
        assert_eq!(used(agent, session, 500).as_deref(), expected, "{agent:?}");
    }
    let usage = json!({"inputTokens": 5, "outputTokens": 5});
    let end = json!({"id": 3, "result": {"stopReason": "end_turn", "usage": usage}});
    let stream = format!("{}{end}\n", session_opened_lines(&json!({"sessionId": "s"})));
    assert!(
        !Replay::with_agent(None).read(&stream).contains("used"),
        "nobody knows what it counts"
    );
    assert!(Replay::with_agent("copilot").read(&stream).contains("used 5 5 None"));
}

#[test]
fn an_agent_gets_images_and_the_folder_of_files_only_if_it_accepts_them() {
    let data = "AQID".to_owned();
    let images = vec![InlineImage { media_type: "image/png".into(), data }];
    let replay = Replay { images, ..Replay::with_agent(None) };
    let sent = |result: Value, client: &mut AcpClient<'_>, id: u64| {
        let line = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        match client.handle_line(&line).pop() {
            Some(AcpStep::Send(message)) => message["params"].clone(),
            step => panic!("{step:?}"),
        }
    };
    let image = json!({"type": "image", "mimeType": "image/png", "data": "AQID"});
    let folders = json!(["/attempt/attachments"]);
    for (images, session, expected) in [
        (json!({"image": true}), json!({"additionalDirectories": {}}), (vec![image], folders)),
        (json!({}), json!({}), (vec![], Value::Null)),
    ] {
        let mut client = replay.client();
        client.initialize_request();
        let can = json!({"mcpCapabilities": {"http": true}, "promptCapabilities": images, "sessionCapabilities": session});
        let opened = json!({"protocolVersion": 1, "agentCapabilities": can});
        let new = sent(opened, &mut client, 1);
        let prompt = sent(json!({"sessionId": "s"}), &mut client, 2);
        let blocks = prompt["prompt"].as_array().unwrap()[2..].to_vec();
        assert_eq!((blocks, new["additionalDirectories"].clone()), expected);
    }
}
