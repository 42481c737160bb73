//! An agent of the Agent Client Protocol, as a shell script: the messages it gets, its permissions, and its
//! outcomes.

use std::fs;

use agent_worker_protocol::{
    Acp, Backend, CredentialMode, FailureClass, SessionPolicy, WorkerEvent, WorkerJob,
    WorkerOutcome,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    process::{WorkerProcess, job, run_worker},
    programs::{MCP_SHELL_FUNCTIONS, failure_of, has_posted_event, write_script},
    stub_daemon::{LIST_TOOLS, PERMIT_CALL, ReceivedRequest, ScriptedReply, StubDaemon},
};

/// Answers like an agent, and writes the received messages to `told`. Each test defines the reaction to the prompt.
const AGENT_SCRIPT: &str = r#"
say() { printf '%s\n' "$1"; }
answer() { say '{"jsonrpc":"2.0","id":'"$id"',"result":'"$1"'}'; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'"$1"'}}'; }
words() { update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}'; }
look() { ask "$token" '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' >/dev/null; }
permit() {
    say '{"jsonrpc":"2.0","id":"p'"$1"'","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c'"$1"'","kind":"execute","title":"Run","rawInput":{"command":"'"$2"'"}},"options":[{"optionId":"always","kind":"allow_always"},{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}'
    IFS= read -r reply; printf '%s\n' "$reply" >>told
}
while IFS= read -r line; do
    printf '%s\n' "$line" >>told
    id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case "$line" in
    *'"method":"initialize"'*) answer '{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true}}}' ;;
    *'"method":"session/load"'*) words Earlier; load ;;
    *'"method":"session/new"'*)
        token=$(printf %s "$line" | sed 's/.*Bearer \([0-9a-f]*\).*/\1/')
        url=$(printf %s "$line" | sed 's/.*"url":"http:..\([^"]*\)".*/\1/')
        answer '{"sessionId":"s1"}' ;;
    *'"method":"session/prompt"'*) prompted ;;
    *'"method":"session/cancel"'*) cancelled ;;
    esac
done
"#;

/// Returns a job for the scripted agent with these shell functions.
fn acp_job(daemon: &StubDaemon, functions: &str) -> WorkerJob {
    let path = write_script(
        daemon,
        "agent.sh",
        &format!("{MCP_SHELL_FUNCTIONS}{functions}{AGENT_SCRIPT}"),
    );
    let command = vec![path.to_str().unwrap().to_owned()];
    let (mode, session) = (None, SessionPolicy::Continue);
    let backend = Backend::Acp(Acp { agent: None, command, mode, session });
    WorkerJob { backend, ..job(daemon, json!({})) }
}

const DONE_FUNCTIONS: &str =
    r#"prompted() { look; words "All "; words "done."; answer '{"stopReason":"end_turn"}'; }"#;

/// Returns the messages that the agent received.
fn received_messages(daemon: &StubDaemon) -> Vec<Value> {
    let told = fs::read_to_string(daemon.folder.path().join("told")).unwrap();
    told.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn an_agent_gets_the_tool_server_its_system_prompt_and_its_task() {
    let daemon = StubDaemon::accepting();
    let job = acp_job(&daemon, DONE_FUNCTIONS);
    let finished = run_worker(&job).await;
    assert_eq!((finished.text.as_str(), finished.outcome), ("All done.", WorkerOutcome::Ok));
    let told = received_messages(&daemon);
    let methods: Vec<_> = told.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "session/new", "session/prompt"]);
    let place = &told[1]["params"];
    assert_eq!(place["cwd"], json!(daemon.folder.path().to_str().unwrap()));
    assert_eq!(place["mcpServers"][0]["name"], "team");
    let texts: Vec<_> = told[2]["params"]["prompt"].as_array().unwrap().iter().collect();
    let expected = ["You are coder.\n\n", "What woke you: fix it"]
        .map(|text| json!({"type": "text", "text": text}));
    assert_eq!(texts, expected.iter().collect::<Vec<_>>());
    let session = json!({"id": "s1", "cost_micros": 0});
    assert!(has_posted_event(&daemon, |event| *event
        == WorkerEvent::Session { session: session.clone() }));
    assert!(daemon.tool_calls().iter().any(|(tool, _)| tool == LIST_TOOLS));
}

#[tokio::test]
async fn a_turn_goes_on_with_the_last_conversation_or_says_that_it_is_gone() {
    let daemon = StubDaemon::accepting();
    let functions = format!("{DONE_FUNCTIONS}\nload() {{ answer '{{}}'; }}");
    // The agent gets its tools from the session that it loads.
    let functions = functions.replace("look; ", r#"token=$(sed -n 's/.*Bearer \([0-9a-f]*\).*/\1/p' told | tail -n 1); url=$(sed -n 's/.*"url":"http:..\([^"]*\)".*/\1/p' told | tail -n 1); look; "#);
    let mut job = acp_job(&daemon, &functions);
    job.session = Some(json!({"id": "s1"}));
    assert_eq!(run_worker(&job).await.text, "All done.", "what it tells once more is no answer");
    assert_eq!(received_messages(&daemon)[1]["params"]["sessionId"], "s1");
    let daemon = StubDaemon::accepting();
    let gone = r#"load() { say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32603,"message":"gone"}}'; }"#;
    let mut job = acp_job(&daemon, &format!("{DONE_FUNCTIONS}\n{gone}"));
    job.session = Some(json!({"id": "s1"}));
    assert_eq!(run_worker(&job).await.text, "All done.");
    let gone = |event: &WorkerEvent| matches!(event, WorkerEvent::Retry { why } if why.contains("lost its conversation"));
    assert!(has_posted_event(&daemon, gone));
}

#[tokio::test]
async fn what_it_wants_to_do_is_asked_of_the_daemon_and_answered_for_one_call() {
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
    let asks = DONE_FUNCTIONS.replace("look;", "look; permit 1 ls; permit 2 rm;");
    assert_eq!(run_worker(&acp_job(&daemon, &asks)).await.outcome, WorkerOutcome::Ok);
    let told = received_messages(&daemon);
    let outcome = |id: &str| {
        let answer = told.iter().find(|message| message["id"] == id).unwrap();
        answer["result"]["outcome"]["optionId"].clone()
    };
    assert_eq!((outcome("p1"), outcome("p2")), (json!("yes"), json!("no")));
    let asked: Vec<_> =
        daemon.tool_calls().into_iter().filter(|(tool, _)| tool == PERMIT_CALL).collect();
    let request = |call: &str, command: &str| {
        let args = json!({"command": command});
        json!({"call": call, "tool": "execute", "args": args})
    };
    let expected = [request("0", "ls"), request("0", "ls"), request("1", "rm")];
    assert_eq!(asked.into_iter().map(|(_, args)| args).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_turn_without_a_person_present_to_approve_can_fail() {
    let daemon = StubDaemon::new(|heard| match heard {
        ReceivedRequest::Call { tool, .. } if tool == PERMIT_CALL => {
            ScriptedReply::Result(json!({"permit": "fail", "why": "nobody is there"}))
        }
        ReceivedRequest::Call { .. } | ReceivedRequest::Events(_) => ScriptedReply::Accept,
    });
    let asks = DONE_FUNCTIONS.replace("look;", "look; permit 1 ls; sleep 60;");
    let (class, why) = failure_of(run_worker(&acp_job(&daemon, &asks)).await.outcome);
    assert_eq!(class, FailureClass::Permission);
    assert_eq!(why, "execute was not approved: nobody is there");
}

#[tokio::test]
async fn a_stopped_agent_gets_a_cancellation_and_may_report_its_usage() {
    let daemon = StubDaemon::accepting();
    let waits = r#"
        prompted() { look; prompt=$id; words waiting; }
        cancelled() {
            update '{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.5,"currency":"USD"}}'
            id=$prompt; answer '{"stopReason":"cancelled"}'
        }"#;
    let mut worker = WorkerProcess::start(&acp_job(&daemon, waits)).await;
    daemon
        .wait_until(|all| {
            all.iter().any(
                |heard| matches!(heard, ReceivedRequest::Call { tool, .. } if tool == LIST_TOOLS),
            )
        })
        .await;
    let spoke = |heard: &ReceivedRequest| match heard {
        ReceivedRequest::Events(request) => !request.live.is_empty(),
        ReceivedRequest::Call { .. } => false,
    };
    daemon.wait_until(|all| all.iter().any(spoke)).await;
    worker.signal(Signal::TERM);
    let finished = worker.wait_finished().await;
    assert_eq!(finished.outcome, WorkerOutcome::Interrupted { why: "stopped".into() });
    assert_eq!(received_messages(&daemon).pop().unwrap()["method"], "session/cancel");
    assert!(has_posted_event(
        &daemon,
        |event| matches!(event, WorkerEvent::Usage(usage) if usage.cost_micros == Some(500_000))
    ));
}

#[tokio::test]
async fn how_it_ends_is_known_from_its_answer_and_its_process() {
    for (functions, class, why) in [
        (
            "prompted() { look; words Fine.; echo oops >&2; exit 3; }",
            FailureClass::Crash,
            "the program ended without a result: exit status 3: oops",
        ),
        (
            r#"prompted() { look; say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":429,"message":"slow down"}}'; sleep 60; }"#,
            FailureClass::RateLimited,
            "slow down",
        ),
        (
            r#"prompted() { words Fine.; answer '{"stopReason":"end_turn"}'; }"#,
            FailureClass::Fatal,
            "never listed the team's tools",
        ),
        (
            r#"prompted() { look; answer '{"stopReason":"end_turn"}'; }"#,
            FailureClass::Crash,
            "the model completed no answer",
        ),
        (
            "exec >&-; sleep 60",
            FailureClass::Crash,
            "the agent closed its output before the end of its turn",
        ),
    ] {
        let daemon = StubDaemon::accepting();
        let (seen, said) = failure_of(run_worker(&acp_job(&daemon, functions)).await.outcome);
        assert_eq!(seen, class, "{said}");
        assert!(said.ends_with(why), "{said}");
    }
}

#[tokio::test]
async fn a_known_agent_is_kept_apart_and_no_secret_is_among_its_arguments() {
    let daemon = StubDaemon::accepting();
    let functions = format!("printf '%s\\n' \"$GEMINI_CLI_HOME\" \"$*\" >given\n{DONE_FUNCTIONS}");
    let quota = r#"{"stopReason":"end_turn","_meta":{"quota":{"token_count":{"input_tokens":7,"output_tokens":3},"model_usage":[{}]}}}"#;
    let functions = functions.replace(r#"{"stopReason":"end_turn"}"#, quota);
    let mut job = acp_job(&daemon, &functions);
    let Backend::Acp(acp) = &mut job.backend else { panic!("{job:?}") };
    (acp.agent, acp.mode) = (Some("gemini".into()), Some(CredentialMode::Isolated));
    job.model = Some("google/gemini-2.5-pro".into());
    assert_eq!(run_worker(&job).await.outcome, WorkerOutcome::Ok);
    let given = fs::read_to_string(daemon.folder.path().join("given")).unwrap();
    let home = job.keep.join("acp/gemini");
    let expected = format!(
        "{}\n--acp --skip-trust --allowed-mcp-server-names team --model gemini-2.5-pro\n",
        home.display()
    );
    assert_eq!(given, expected);
    assert!(home.join(".gemini/settings.json").is_file());
    assert!(has_posted_event(
        &daemon,
        |event| matches!(event, WorkerEvent::Usage(usage) if usage.input_tokens == 7)
    ));
}
