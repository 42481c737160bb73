//! The approval gate: asks the daemon whether a call of the program may happen, and waits for the decision.
//!
//! The program calls this server itself before it carries out a tool call of its model; the server is not meant for
//! the model. Invariant: the gate allows only calls that the daemon has allowed for exactly these arguments. A
//! model that calls the gate itself opens a request and achieves nothing more.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use agent_worker_host::{DaemonSocket, DialError};
use agent_worker_protocol::{
    AttemptId, FailureClass, Keyword as _, ToolName,
    api::{PermitReply, PermitRequest},
    mcp_wire::{McpRpcReply, notification_json},
};
use axum::response::sse::Event;
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use crate::{
    event_reporter::EventReporter,
    model::{ModelToolCall, ToolResult},
    tool_set::ToolSet,
    turn::TurnFailure,
    user_question::{PASSED_ON, QUESTION_TOOL, ask_human_arguments},
};

/// Name of this server in the configuration of programs, followed by the name of its only tool.
pub(crate) const GATE_SERVER_NAME: &str = "gate";
pub(crate) const APPROVE_TOOL_NAME: &str = "approve";

const ASK_RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of one request; the daemon holds a request for less.
const ASK_TIMEOUT: Duration = Duration::from_mins(1);
/// Interval of keepalive events to a waiting program, because programs give up on silence.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Asks the daemon for permission. Clones share the state.
#[derive(Clone)]
pub(crate) struct ToolApprovalGate {
    daemon: DaemonSocket,
    path: String,
    report: EventReporter,
    /// Asks a person instead of the program's own user.
    tools: ToolSet,
    /// Number of requests so far. Every call has its own number, whatever id its program gives: an answer is used
    /// once.
    call_count: Arc<AtomicU64>,
    /// The reason that the turn failed, once the daemon has returned one.
    failed: watch::Sender<Option<String>>,
}

/// Arguments of the approval tool, as a program sends them.
#[derive(Debug, Deserialize)]
pub(crate) struct ApproveToolArguments {
    tool_name: String,
    #[serde(default)]
    input: Value,
}

/// The response to the program as an event stream: keepalive events, then the answer.
pub(crate) struct ApprovalEventStream(mpsc::Receiver<Event>);

impl ToolApprovalGate {
    pub(crate) fn new(
        daemon: DaemonSocket,
        attempt: AttemptId,
        report: EventReporter,
        tools: ToolSet,
    ) -> Self {
        let path = format!("/attempts/{attempt}/approvals");
        let (call_count, failed) = (Arc::default(), watch::Sender::default());
        Self { daemon, path, report, tools, call_count, failed }
    }

    /// Returns the failure once the turn has failed because no person approved a call.
    pub(crate) async fn wait_for_failure(&self) -> TurnFailure {
        let mut failed = self.failed.subscribe();
        loop {
            if let Some(why) = failed.borrow_and_update().clone() {
                return TurnFailure::new(FailureClass::Permission, why);
            }
            // The sender is a field of `self`, so the channel cannot close.
            let _ = failed.changed().await;
        }
    }

    /// Returns the result of `tools/list`: the one tool of the gate.
    pub(crate) fn list_tools_result() -> Value {
        let schema = json!({
            "type": "object",
            "properties": {
                "tool_name": {"type": "string"},
                "input": {"type": "object"},
                "tool_use_id": {"type": "string"},
            },
            "required": ["tool_name", "input"],
        });
        let about = "Requests approval of a call. For the program itself.";
        json!({"tools": [{"name": APPROVE_TOOL_NAME, "description": about, "inputSchema": schema}]})
    }

    /// Answers one call, with keepalive events until the decision. Stops asking once the program has disconnected.
    pub(crate) async fn handle_approve_call(
        self,
        id: Value,
        params: Map<String, Value>,
        tell: ApprovalEventSender,
    ) {
        let progress = params.get("_meta").and_then(|meta| meta.get("progressToken")).cloned();
        let asked = params.get("arguments").cloned().unwrap_or_default();
        let decided = self.approve_tool_result(asked);
        tokio::pin!(decided);
        let mut tick = interval(KEEPALIVE_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sign = 0_u32;
        let answer = loop {
            tokio::select! {
                answer = &mut decided => break answer,
                () = tell.0.closed() => return,
                _ = tick.tick() => {
                    sign += 1;
                    let event = match &progress {
                        Some(token) => message_event(&notification_json(
                            "notifications/progress",
                            &json!({"progressToken": token, "progress": sign}),
                        )),
                        None => Event::default().comment("waiting for a person"),
                    };
                    // A slow reader misses this event.
                    let _ = tell.0.try_send(event);
                }
            }
        };
        let result = json!({"content": [{"type": "text", "text": answer.to_string()}]});
        let _ = tell.0.send(message_event(&McpRpcReply::new(id, result))).await;
    }

    /// Returns the decision in the format that the program expects.
    async fn approve_tool_result(&self, asked: Value) -> Value {
        let deny = |why: String| json!({"behavior": "deny", "message": why});
        let arguments = match ApproveToolArguments::deserialize(asked) {
            Ok(arguments) => arguments,
            Err(error) => return deny(format!("invalid approval request: {error}")),
        };
        let ApproveToolArguments { tool_name, input } = arguments;
        if tool_name.starts_with(&format!("mcp__{GATE_SERVER_NAME}__")) {
            return deny("the approval tool cannot approve itself".to_owned());
        }
        if tool_name == QUESTION_TOOL {
            return deny(self.pass_on_question(&input).await);
        }
        let request = PermitRequest { call: self.next_call_id(), tool: tool_name, args: input };
        match self.request_permit(&request).await {
            Ok(()) => json!({"behavior": "allow", "updatedInput": request.args}),
            Err(why) => deny(why),
        }
    }

    /// Asks a person the question that the program would ask its own user. Returns the reply to the model.
    pub(crate) async fn pass_on_question(&self, input: &Value) -> String {
        let Some(args) = ask_human_arguments(input) else {
            return "the call contains no question".to_owned();
        };
        let id = format!("question-{}", self.next_call_id());
        let call = ModelToolCall { id, tool: ToolName::AskHuman.word().to_owned(), args };
        match self.tools.call(&call).await {
            ToolResult::Done(_) | ToolResult::Image(..) => PASSED_ON.to_owned(),
            ToolResult::Failed(why) => format!("the question was not passed on: {why}"),
        }
    }

    /// Requests permission for exactly this call, to be used once; the error is the reason of a denial.
    pub(crate) async fn request_permit(&self, request: &PermitRequest) -> Result<(), String> {
        match self.ask_daemon(request).await {
            PermitReply::Allow => Ok(()),
            PermitReply::Deny { why } => Err(why),
            PermitReply::Fail { why } => {
                let failure = format!("{} was not approved: {why}", request.tool);
                self.failed.send_replace(Some(failure));
                Err(why)
            }
            // `ask_daemon` never returns this reply: it asks again while a request is open.
            PermitReply::Open { .. } => Err("the request is still open".to_owned()),
        }
    }

    /// Returns an id that is unique among the calls of this attempt.
    pub(crate) fn next_call_id(&self) -> String {
        self.call_count.fetch_add(1, Ordering::Relaxed).to_string()
    }

    /// Asks until the daemon decides, also across its restarts. The time limits are suspended meanwhile.
    async fn ask_daemon(&self, request: &PermitRequest) -> PermitReply {
        let _held = self.report.pause_clocks();
        loop {
            let asked = self.daemon.post::<_, PermitReply>(&self.path, request);
            match timeout(ASK_TIMEOUT, asked).await {
                Ok(Ok(PermitReply::Open { .. })) | Err(_) => {}
                Ok(Ok(reply)) => return reply,
                Ok(Err(DialError::Refused(problem))) if problem.code.status() < 500 => {
                    return PermitReply::Deny { why: problem.message };
                }
                Ok(Err(
                    DialError::Refused(_)
                    | DialError::Garbled { .. }
                    | DialError::Absent { .. }
                    | DialError::Impostor { .. }
                    | DialError::Lost { .. }
                    | DialError::PathTooLong { .. },
                )) => sleep(ASK_RETRY_INTERVAL).await,
            }
        }
    }
}

/// The sending end of a response stream.
pub(crate) struct ApprovalEventSender(mpsc::Sender<Event>);

/// Creates both ends of a response stream.
pub(crate) fn approval_event_channel() -> (ApprovalEventSender, ApprovalEventStream) {
    let (tell, told) = mpsc::channel(2);
    (ApprovalEventSender(tell), ApprovalEventStream(told))
}

fn message_event(message: &impl Serialize) -> Event {
    Event::default().event("message").data(serde_json::to_string(message).unwrap_or_default())
}

impl Stream for ApprovalEventStream {
    type Item = Result<Event, std::convert::Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().0.poll_recv(cx).map(|event| event.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tokio::time::Instant;

    use super::*;
    use crate::turn_history::TurnHistory;
    use crate::{clocks::WorkerApprovalWait, mcp_client::McpClient, worker_log::WorkerLog};

    #[tokio::test(start_paused = true)]
    async fn the_clocks_stand_still_while_an_answer_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = DaemonSocket::at(folder.path().join("daemon.sock"));
        let attempt = AttemptId::new(uuid::Uuid::nil());
        let hour = Duration::from_hours(1);
        let report = EventReporter::open(
            folder.path(),
            attempt,
            daemon.clone(),
            hour,
            TurnHistory::default(),
        )
        .unwrap();
        let log = WorkerLog::new(&BTreeMap::new());
        let tools = ToolSet::new(McpClient::new(daemon.clone()), report.clone(), log);
        let gate = ToolApprovalGate::new(daemon, attempt, report.clone(), tools);
        assert_eq!(report.paused_time(), (Duration::ZERO, WorkerApprovalWait::NotWaiting));
        let waits = async {
            let asked = json!({"tool_name": "Bash", "input": {"command": "ls"}});
            timeout(hour, gate.approve_tool_result(asked)).await
        };
        let looks = async {
            sleep(hour / 2).await;
            report.paused_time().1
        };
        let (waited, meanwhile) = tokio::join!(waits, looks);
        assert!(waited.is_err(), "no daemon, no answer: {waited:?}");
        assert_eq!(meanwhile, WorkerApprovalWait::Waiting);
        assert_eq!(report.paused_time(), (hour, WorkerApprovalWait::NotWaiting));
        assert_eq!(report.last_activity(), Some(Instant::now()), "silence counts from here");
    }
}
