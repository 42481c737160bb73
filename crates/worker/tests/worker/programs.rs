//! Programs as backends: their input, their tools, and their outcomes.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use agent_worker_protocol::{
    Backend, CredentialMode, EffectKey, FailureClass, Native, PermissionAction, SessionPolicy,
    Span, Usage, WorkerEvent, WorkerJob, WorkerOutcome,
};
use serde_json::{Value, json};

use crate::{
    process::{WorkerProcess, job, run_worker},
    stub_daemon::{LIST_TOOLS, PERMIT_CALL, ReceivedRequest, ScriptedReply, StubDaemon},
};

/// Speaks MCP to the tool server with nothing but a shell: `ask TOKEN BODY` prints the whole response.
pub(crate) const MCP_SHELL_FUNCTIONS: &str = r#"
url=${AGENT_WORKER_MCP_URL#http://}
AGENT_WORKER_MCP_TOKEN=${AGENT_WORKER_MCP_TOKEN_FILE:+$(cat "$AGENT_WORKER_MCP_TOKEN_FILE")}
ask() {
    exec 3<>"/dev/tcp/${url%%:*}/$(p=${url#*:}; echo "${p%%/*}")"
    printf 'POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s' "${3:-/mcp}" "$1" "${#2}" "$2" >&3
    cat <&3
}
call() { ask "$AGENT_WORKER_MCP_TOKEN" '{"jsonrpc":"2.0","id":7,"method":"'"$1"'","params":'"$2"'}' | tail -n 1; echo; }
"#;

pub(crate) fn write_script(daemon: &StubDaemon, name: &str, text: &str) -> PathBuf {
    let path = daemon.folder.path().join(name);
    fs::write(&path, format!("#!/bin/bash\n{text}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

pub(crate) fn executable_job(daemon: &StubDaemon, text: &str) -> WorkerJob {
    let path = write_script(daemon, "agent.sh", &format!("{MCP_SHELL_FUNCTIONS}{text}"));
    let command = vec![path.to_str().unwrap().to_owned()];
    WorkerJob { backend: Backend::Command { command }, ..job(daemon, json!({})) }
}

pub(crate) fn native_job(daemon: &StubDaemon, cli: &str, text: &str) -> WorkerJob {
    let path = write_script(daemon, "vendor.sh", &format!("{MCP_SHELL_FUNCTIONS}{text}"));
    let command = vec![path.to_str().unwrap().to_owned()];
    let (mode, session) = (Some(CredentialMode::Isolated), SessionPolicy::Continue);
    let backend =
        Backend::Native(Native { cli: cli.into(), command, args: Vec::new(), mode, session });
    WorkerJob { backend, ..job(daemon, json!({})) }
}

/// Returns true if the daemon received such an event.
pub(crate) fn has_posted_event(daemon: &StubDaemon, wanted: impl Fn(&WorkerEvent) -> bool) -> bool {
    daemon.posted_events().iter().any(|posted| wanted(&posted.event))
}

pub(crate) fn failure_of(outcome: WorkerOutcome) -> (FailureClass, String) {
    match outcome {
        WorkerOutcome::Failed { class, why, .. } => (class, why),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_program_reads_its_turn_and_its_last_line_is_its_answer() {
    let daemon = StubDaemon::accepting();
    let mut job = executable_job(&daemon, "cat; echo; echo; echo 'The end.'; echo");
    job.session = Some(json!({"n": 1}));
    let mut worker = WorkerProcess::start(&job).await;
    let finished = worker.wait_finished().await;
    assert_eq!((finished.text.as_str(), finished.outcome), ("The end.", WorkerOutcome::Ok));
    let log = worker.log();
    let turn: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let expected = json!({
        "agent": "coder", "instance": "review:pr-1", "activation": "coder/7", "attempt": 1,
        "system_prompt": "You are coder.", "prompt": "What woke you: fix it", "woken_by": "fix it",
        "model": null, "session": {"n": 1},
    });
    assert_eq!(turn, expected);
}

#[tokio::test]
async fn what_a_program_says_in_events_is_reported_as_such() {
    let daemon = StubDaemon::accepting();
    let job = executable_job(
        &daemon,
        r#"
        echo '{"kind":"usage","input_tokens":5,"output_tokens":2,"cost_micros":9}'
        echo '{"kind":"session","session":{"id":"s"}}'
        echo '{"kind":"retry","why":"busy"}'
        echo '{"kind":"finished","text":"Done."}'
        echo 'a stray line'"#,
    );
    let finished = run_worker(&job).await;
    assert_eq!((finished.text.as_str(), finished.outcome), ("Done.", WorkerOutcome::Ok));
    let usage =
        Usage { input_tokens: 5, output_tokens: 2, cost_micros: Some(9), ..Usage::default() };
    for event in [
        WorkerEvent::Usage(usage),
        WorkerEvent::Session { session: json!({"id": "s"}) },
        WorkerEvent::Retry { why: "busy".into() },
    ] {
        assert!(has_posted_event(&daemon, |posted| *posted == event), "{event:?}");
    }
}

#[tokio::test]
async fn a_programs_end_is_what_it_says_or_its_exit_status() {
    for (text, class, why) in [
        ("echo fine; echo oops >&2; exit 3", FailureClass::Fatal, "exit status 3: oops"),
        ("exit 75", FailureClass::Transient, "exit status 75"),
        ("kill -9 $$", FailureClass::Fatal, "ended by signal 9"),
        (
            r#"echo '{"kind":"finished","outcome":"failed","class":"auth","why":"no key"}'"#,
            FailureClass::Auth,
            "no key",
        ),
        (r#"echo '{"kind":"finished","text":"ok"}'; exit 1"#, FailureClass::Fatal, "exit status 1"),
    ] {
        let daemon = StubDaemon::accepting();
        let finished = run_worker(&executable_job(&daemon, text)).await;
        assert_eq!(failure_of(finished.outcome), (class, why.to_owned()), "{text}");
    }
}

#[tokio::test]
async fn calls_through_the_tool_server_reach_the_daemon_in_the_attempts_name_with_a_key() {
    let daemon = StubDaemon::accepting();
    let args = r#"{"name":"channel_send","arguments":{"message":"hi"}}"#;
    let job =
        executable_job(&daemon, &format!("call tools/call '{args}'; call tools/call '{args}'"));
    let finished = run_worker(&job).await;
    let answer: Value = serde_json::from_str(&finished.text).unwrap();
    let result =
        json!({"content": [{"type": "text", "text": "channel_send done"}], "isError": false});
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 7, "result": result}));
    let numbered = |n| EffectKey::nth_call_key("channel_send", &json!({"message": "hi"}), n);
    let calls =
        daemon.tool_calls().into_iter().filter(|(tool, _)| tool != LIST_TOOLS).collect::<Vec<_>>();
    let keys: Vec<Value> = calls.iter().map(|(_, args)| args["idempotency_key"].clone()).collect();
    assert_eq!(keys, [json!(numbered(1)), json!(numbered(2))]);
    let called = |posted: &WorkerEvent| matches!(posted, WorkerEvent::ToolCall { tool, .. } if tool == "channel_send");
    assert!(has_posted_event(&daemon, called), "an event tells of it");
}

#[tokio::test]
async fn the_tool_server_speaks_mcp_and_accepts_only_its_token() {
    let daemon = StubDaemon::accepting();
    let job = executable_job(
        &daemon,
        r#"
        call initialize '{"protocolVersion":"2025-06-18"}'
        call initialize '{"protocolVersion":"1999-01-01"}'
        call tools/list '{}'
        call server/discover '{}'
        ask wrong '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' | head -n 1
        ask "$AGENT_WORKER_MCP_TOKEN" '{"jsonrpc":"2.0","method":"notifications/initialized"}' | head -n 1
        echo end"#,
    );
    let mut worker = WorkerProcess::start(&job).await;
    assert_eq!(worker.wait_finished().await.text, "end");
    let log = worker.log();
    let lines: Vec<&str> = log.lines().collect();
    let answer = |n: usize| serde_json::from_str::<Value>(lines[n]).unwrap();
    assert_eq!(answer(0)["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answer(1)["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answer(2)["result"]["tools"], json!([{"name": "channel_send", "inputSchema": {}}]));
    assert_eq!(answer(3)["error"]["code"], -32601);
    assert!(lines[4].starts_with("HTTP/1.1 401"), "{log}");
    assert!(lines[5].starts_with("HTTP/1.1 202"), "{log}");
}

#[tokio::test]
async fn a_vendors_program_that_never_looks_at_the_tools_has_failed() {
    let result = r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s"}'"#;
    let daemon = StubDaemon::accepting();
    let (class, why) = failure_of(run_worker(&native_job(&daemon, "claude", result)).await.outcome);
    assert_eq!(class, FailureClass::Fatal);
    assert!(why.ends_with("never listed the team's tools"), "{why}");
}

#[tokio::test]
async fn a_program_that_waits_for_its_provider_in_vain_is_not_waited_for() {
    let waits = r#"
        echo '{"id":1,"result":{}}'
        echo '{"method":"error","params":{"error":{"message":"Reconnecting... 1/2","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":429}},"additionalDetails":"exceeded retry limit, last status: 429 Too Many Requests"},"willRetry":true,"threadId":"t","turnId":"u"}}'
        exec sleep 600"#;
    let daemon = StubDaemon::accepting();
    let (class, why) = failure_of(run_worker(&native_job(&daemon, "codex", waits)).await.outcome);
    assert_eq!(class, FailureClass::RateLimited);
    assert_eq!(why, "exceeded retry limit, last status: 429 Too Many Requests");
}

/// Reads the address and the token as `claude` does, from the file that its arguments name.
pub(crate) const LIST_TOOLS_SCRIPT: &str = r#"
for arg; do [ "$last" = --mcp-config ] && config=$arg; last=$arg; done
AGENT_WORKER_MCP_TOKEN=$(sed 's/.*Bearer \([0-9a-f]*\).*/\1/' "$config")
url=$(sed 's/.*"url":"http:..\([^"]*\)".*/\1/' "$config")
call tools/list '{}' >&2
"#;

#[tokio::test]
async fn a_vendors_program_gets_its_prompt_and_no_secret_among_its_arguments() {
    let daemon = StubDaemon::accepting();
    let result = r#"
        echo "args: $*" >&2; echo "prompt: $(head -n 1)" >&2; echo "config: $CLAUDE_CONFIG_DIR" >&2
        stat -c 'mode: %a' "$config" >&2
        echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s"}'"#;
    let job = native_job(&daemon, "claude", &format!("{LIST_TOOLS_SCRIPT}{result}"));
    let mut worker = WorkerProcess::start(&job).await;
    assert_eq!(worker.wait_finished().await.text, "Done.");
    let log = worker.log();
    assert!(log.contains(r#""text":"What woke you: fix it"#), "{log}");
    let keep = job.keep.join("claude");
    assert!(log.contains(&format!("config: {}", keep.display())) && keep.is_dir(), "{log}");
    assert!(log.contains("mode: 600"), "{log}");
    let args = log.lines().find(|line| line.starts_with("args: ")).unwrap();
    let file = fs::read_to_string(job.folder.join("mcp.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let header = file["mcpServers"]["team"]["headers"]["Authorization"].as_str().unwrap();
    let token = header.strip_prefix("Bearer ").unwrap();
    assert!(!args.contains(token) && !args.contains("s3cret"), "{args}");
    assert!(
        daemon
            .requests()
            .iter()
            .any(|heard| matches!(heard, ReceivedRequest::Call { tool, .. } if tool == LIST_TOOLS))
    );
}

#[tokio::test]
async fn a_lost_conversation_is_restarted_in_the_same_attempt() {
    let daemon = StubDaemon::accepting();
    let text = r#"
        case "$*" in
        *--resume*) echo '{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"session_id":"old"}'; exit 1;;
        esac
        echo '{"type":"system","subtype":"init","session_id":"new"}'
        echo '{"type":"result","subtype":"success","is_error":false,"result":"Anew.","session_id":"new"}'"#;
    let mut job = native_job(&daemon, "claude", &format!("{LIST_TOOLS_SCRIPT}{text}"));
    job.session = Some(json!({"id": "old", "cost_micros": 5}));
    assert_eq!(run_worker(&job).await.text, "Anew.");
    let keep = job.keep.join("claude");
    let open = format!(
        "cd {} && CLAUDE_CONFIG_DIR={} claude --resume new",
        job.cwd.display(),
        keep.display()
    );
    let session = json!({"id": "new", "cost_micros": 0, "open": open});
    assert!(has_posted_event(&daemon, |event| *event
        == WorkerEvent::Session { session: session.clone() }));
}

#[tokio::test]
async fn a_call_that_is_held_when_its_program_ends_is_dropped_and_the_turn_ends() {
    let daemon = StubDaemon::new(|heard| match heard {
        ReceivedRequest::Events(_) => ScriptedReply::Accept,
        ReceivedRequest::Call { tool, .. } if tool == LIST_TOOLS => ScriptedReply::Accept,
        ReceivedRequest::Call { .. } => ScriptedReply::Hang,
    });
    let args = r#"{"name":"channel_send","arguments":{"message":"hi"}}"#;
    let job = executable_job(
        &daemon,
        &format!(
            "(call tools/call '{args}' >/dev/null) & until [ -e heard ]; do sleep 0.01; done; echo gone"
        ),
    );
    let mut worker = WorkerProcess::start(&job).await;
    let is_send = |heard: &ReceivedRequest| matches!(heard, ReceivedRequest::Call { tool, .. } if tool == "channel_send");
    daemon.wait_until(|all| all.iter().any(is_send)).await;
    fs::write(daemon.folder.path().join("heard"), "").unwrap();
    assert_eq!(worker.wait_finished().await.text, "gone");
}

#[tokio::test]
async fn who_gives_up_is_not_waited_for() {
    let daemon = StubDaemon::accepting();
    let refused = r#"{"type":"system","subtype":"api_retry","error_status":401,"error":"authentication_failed","retry_delay_ms":5}"#;
    let text = format!("{LIST_TOOLS_SCRIPT} echo '{refused}'; exec sleep 1000");
    let (class, why) = failure_of(run_worker(&native_job(&daemon, "claude", &text)).await.outcome);
    assert_eq!((class, why.as_str()), (FailureClass::Auth, "authentication_failed (status 401)"));
    let daemon = StubDaemon::accepting();
    let later = refused.replace("401", "429").replace(":5}", ":600000}");
    let text = format!("{LIST_TOOLS_SCRIPT} echo '{later}'; exec sleep 1000");
    match run_worker(&native_job(&daemon, "claude", &text)).await.outcome {
        WorkerOutcome::Failed { class: FailureClass::RateLimited, retry_at: Some(_), .. } => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_counts_though_the_prompt_was_never_read() {
    let daemon = StubDaemon::accepting();
    // The process that is left behind holds the other end of a full pipe.
    let mut job = executable_job(&daemon, "sleep 1000 >/dev/null 2>&1 & echo done");
    job.prompt = "x".repeat(300_000);
    assert_eq!(run_worker(&job).await.text, "done");
}

#[tokio::test]
async fn an_event_that_is_not_understood_is_a_failure_and_no_answer() {
    for line in [
        r#"{"kind":"finished","outcome":"failed","class":"quota","why":"no more"}"#,
        r#"{"kind":"finished","outcome":"maybe"}"#,
        r#"{"kind":"usage","input_tokens":1.5,"output_tokens":2}"#,
    ] {
        let daemon = StubDaemon::accepting();
        let finished =
            run_worker(&executable_job(&daemon, &format!("echo answer; echo '{line}'"))).await;
        let (class, why) = failure_of(finished.outcome);
        assert_eq!(class, FailureClass::Fatal);
        assert!(why.starts_with("the program wrote an invalid event: "), "{why}");
    }
    let daemon = StubDaemon::accepting();
    let other = r#"{"kind":"fruit","name":"apple"}"#;
    assert_eq!(run_worker(&executable_job(&daemon, &format!("echo '{other}'"))).await.text, other);
}

#[tokio::test]
async fn a_program_has_no_shell_of_ours() {
    let daemon = StubDaemon::accepting();
    let args = r#"{"name":"shell","arguments":{"command":"touch made"}}"#;
    run_worker(&executable_job(&daemon, &format!("call tools/call '{args}'"))).await;
    assert!(!daemon.folder.path().join("made").exists());
    assert!(
        daemon.tool_calls().iter().any(|(tool, _)| tool == "shell"),
        "the daemon is asked, and has none"
    );
}

#[tokio::test]
async fn what_a_turn_leaves_for_the_next_is_bounded() {
    let daemon = StubDaemon::accepting();
    let text = r#"printf '{"kind":"retry","why":"%0100000d"}\n' 0; printf '{"kind":"session","session":"%0100000d"}\n' 0"#;
    let (class, why) = failure_of(run_worker(&executable_job(&daemon, text)).await.outcome);
    assert_eq!(
        (class, why.as_str()),
        (FailureClass::Fatal, "the session data of the program is longer than 64 KiB")
    );
    assert!(has_posted_event(
        &daemon,
        |event| matches!(event, WorkerEvent::Retry { why } if why.len() < 1000)
    ));
}

/// Also reads the token of the gate, through which the program asks itself: `permit TOOL INPUT` prints the answer.
const GATE_SCRIPT: &str = r#"
gate=$(sed 's/.*"gate":{"headers":{"Authorization":"Bearer \([0-9a-f]*\)".*/\1/' "$config")
permit() {
    ask "$gate" '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"approve","arguments":{"tool_name":"'"$1"'","input":'"$2"',"tool_use_id":"t-'"$3"'"}}}' /gate \
        | sed -n 's/^data: //p' | tail -n 1
}
end() { echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s"}'; }
"#;

#[tokio::test]
async fn what_claude_would_ask_a_person_for_is_asked_of_the_daemon_and_nothing_else_is_allowed() {
    let mut first = true;
    let daemon = StubDaemon::new(move |heard| match heard {
        ReceivedRequest::Call { tool, args, .. } if tool == PERMIT_CALL => {
            match args["args"]["command"].as_str() {
                Some("ls") if std::mem::take(&mut first) => {
                    ScriptedReply::Result(json!({"permit": "open", "approval": 1}))
                }
                Some("ls") => ScriptedReply::Accept,
                _ => ScriptedReply::Result(json!({"permit": "deny", "why": "denied by user"})),
            }
        }
        ReceivedRequest::Call { .. } | ReceivedRequest::Events(_) => ScriptedReply::Accept,
    });
    let text = r#"
        echo "args: $*" >&2
        { permit Bash '{"command":"ls"}' 1; permit Bash '{"command":"rm"}' 1; permit mcp__gate__approve '{"tool_name":"Bash"}' 3
          permit mcp__gateway__open '{"command":"ls"}' 1
          ask "$AGENT_WORKER_MCP_TOKEN" '{"jsonrpc":"2.0","id":1,"method":"ping"}' /gate | head -n 1
          ask "$gate" '{"jsonrpc":"2.0","id":1,"method":"ping"}' | head -n 1; } >told
        end"#;
    let mut job = native_job(&daemon, "claude", &format!("{LIST_TOOLS_SCRIPT}{GATE_SCRIPT}{text}"));
    job.permissions.deny = vec!["WebFetch".parse().unwrap(), "Bash(rm*)".parse().unwrap()];
    let mut worker = WorkerProcess::start(&job).await;
    assert_eq!(worker.wait_finished().await.text, "Done.");
    let told = fs::read_to_string(daemon.folder.path().join("told")).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    let said = |n: usize| {
        let answer: Value = serde_json::from_str(lines[n]).unwrap();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    assert_eq!(said(0), json!({"behavior": "allow", "updatedInput": {"command": "ls"}}));
    assert_eq!(said(1), json!({"behavior": "deny", "message": "denied by user"}));
    assert_eq!(said(2)["behavior"], "deny", "nobody approves its own requests");
    assert_eq!(said(3)["behavior"], "allow", "another server is asked for as any");
    assert!(lines[4].starts_with("HTTP/1.1 401") && lines[5].starts_with("HTTP/1.1 401"), "{told}");
    let asked: Vec<_> =
        daemon.tool_calls().into_iter().filter(|(tool, _)| tool == PERMIT_CALL).collect();
    let request = |call: &str, tool: &str, command: &str| json!({"call": call, "tool": tool, "args": {"command": command}});
    // Each call is separate, whatever id the program gives it; only an open request is repeated.
    let expected = [
        request("0", "Bash", "ls"),
        request("0", "Bash", "ls"),
        request("1", "Bash", "rm"),
        request("2", "mcp__gateway__open", "ls"),
    ];
    assert_eq!(asked.into_iter().map(|(_, args)| args).collect::<Vec<_>>(), expected);
    let log = worker.log();
    assert!(log.contains("--permission-prompt-tool mcp__gate__approve"), "{log}");
    let denied = "--disallowedTools CronCreate,CronDelete,CronList,DesignSync,EnterPlanMode,EnterWorktree,ExitPlanMode,ExitWorktree,ListAgents,Monitor,ScheduleWakeup,SendMessage,TaskOutput,TaskStop,WebFetch,Workflow,mcp__gate__approve ";
    let asked = "--settings {\"permissions\":{\"ask\":[\"Bash\"]}} --max-turns 30 ";
    assert!(log.contains(denied) && log.contains(asked) && !log.contains("--tools"), "{log}");
}

#[tokio::test]
async fn claude_has_only_the_tools_that_are_named_where_the_rest_is_denied() {
    let daemon = StubDaemon::accepting();
    let text = r#"echo "args: $*" >&2; end"#;
    let mut job = native_job(&daemon, "claude", &format!("{LIST_TOOLS_SCRIPT}{GATE_SCRIPT}{text}"));
    job.permissions.default = Some(PermissionAction::Deny);
    job.permissions.allow = ["Read", "Bash(ls*)"].map(|text| text.parse().unwrap()).to_vec();
    job.permissions.ask = vec!["Edit".parse().unwrap()];
    let mut worker = WorkerProcess::start(&job).await;
    assert_eq!(worker.wait_finished().await.text, "Done.");
    let log = worker.log();
    let asked = "--settings {\"permissions\":{\"ask\":[\"Bash\",\"Edit\"]}}";
    assert!(log.contains("--tools Bash,Edit,Read ") && log.contains(asked), "{log}");
}

#[tokio::test]
async fn a_result_of_claude_ends_the_turn_though_the_program_stays() {
    let daemon = StubDaemon::accepting();
    let result = r#"
        echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s"}'
        sleep 300"#;
    let mut job = native_job(&daemon, "claude", &format!("{LIST_TOOLS_SCRIPT}{result}"));
    job.limits.silence = Span::from_secs(20);
    let finished = run_worker(&job).await;
    assert_eq!((finished.text.as_str(), finished.outcome), ("Done.", WorkerOutcome::Ok));
}

#[tokio::test]
async fn a_turn_without_a_person_present_to_approve_can_fail() {
    let daemon = StubDaemon::new(|heard| match heard {
        ReceivedRequest::Call { tool, .. } if tool == PERMIT_CALL => {
            ScriptedReply::Result(json!({"permit": "fail", "why": "nobody is there"}))
        }
        ReceivedRequest::Call { .. } | ReceivedRequest::Events(_) => ScriptedReply::Accept,
    });
    let text = "permit Bash '{}' 1 >&2; sleep 60; end";
    let job = native_job(&daemon, "claude", &format!("{LIST_TOOLS_SCRIPT}{GATE_SCRIPT}{text}"));
    let (class, why) = failure_of(run_worker(&job).await.outcome);
    assert_eq!(class, FailureClass::Permission);
    assert_eq!(why, "Bash was not approved: nobody is there");
}

#[tokio::test]
async fn codex_writes_in_its_folder_if_everything_is_allowed_and_gets_no_sandbox_option_by_default()
{
    for (default, sandbox) in [
        (Some(PermissionAction::Allow), Some("workspace-write")),
        (Some(PermissionAction::Ask), Some("read-only")),
        (Some(PermissionAction::Deny), Some("read-only")),
        (None, None),
    ] {
        let daemon = StubDaemon::accepting();
        let mut job = native_job(&daemon, "codex", r#"echo "args: $*" >&2"#);
        job.permissions.default = default;
        let mut worker = WorkerProcess::start(&job).await;
        worker.wait_finished().await;
        let log = worker.log();
        let given = log.split("sandbox_mode=\"").nth(1).and_then(|rest| rest.split('"').next());
        assert_eq!(given, sandbox, "{log}");
    }
}
