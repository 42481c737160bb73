//! One turn of a conversation in the Agent Client Protocol, without the pipes: a line in, steps out.
//!
//! `initialize`, then `session/load` or `session/new` with the team's tools, then one `session/prompt`. The outcome
//! is the response to the prompt: its stop reason, or the code of its error. Invariant: no permission request is
//! answered with an option that applies to more than this one call.

use std::collections::HashMap;

use agent_worker_backends::{AcpSessionSupport, AcpToolNaming};
use agent_worker_protocol::FailureClass;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::ProgramEvent,
    call::{AcpCallStage, AcpToolCall},
    failure::{
        AcpThreadState, failure_from_error, incomplete_turn, provider_status, stopped_after_refusal,
    },
    message::{AcpMessage, AcpUpdate},
    notice::AcpNotice,
    permit::{AcpPermitDecision, AcpPermitParams, AcpPermitQuestion},
    turn_input::{AcpAcceptedInput, AcpTurnInput},
    usage::AcpUsageTracker,
};
use crate::{
    tool_server::{TEAM_SERVER_NAME, ToolServerEndpoint},
    turn::TurnFailure,
};

/// The only version of the protocol.
const PROTOCOL_VERSION: u64 = 1;
const METHOD_NOT_FOUND: i64 = -32601;

/// The next action of the caller.
#[derive(Debug, PartialEq)]
pub(super) enum AcpStep {
    Report(ProgramEvent),
    Send(Value),
    RequestPermit(AcpPermitQuestion),
    End(Result<String, TurnFailure>),
}

/// The response that the client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcpPhase {
    Initialize,
    /// An earlier conversation, which the agent replays.
    Load,
    NewSession,
    SetMode,
    Prompt,
}

/// The reaction of the agent to a refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcpRefusal {
    /// No request was refused.
    None,
    /// The agent has done nothing since the last refusal.
    Idle,
    /// The agent continued after it.
    Continued,
}

impl AcpRefusal {
    /// Notes an action of the agent after a refusal.
    fn note_action(&mut self) {
        if *self == Self::Idle {
            *self = Self::Continued;
        }
    }
}

/// The client side of one turn.
pub(super) struct AcpClient<'a> {
    input: AcpTurnInput<'a>,
    phase: AcpPhase,
    /// The id of the pending request.
    pending_id: u64,
    session: Option<String>,
    can_load: bool,
    accepts: AcpAcceptedInput,
    calls: HashMap<String, AcpToolCall>,
    answer: String,
    usage_tracker: AcpUsageTracker,
    /// Requests of the agent that are not answered yet.
    open_requests: Vec<Value>,
    /// True once the agent has called a tool, or has asked for permission to call one.
    has_called: bool,
    /// The status of a failed request to the provider, if the agent reports it.
    provider_status: Option<u64>,
    /// The state of the conversation, as the agent reported it.
    thread: AcpThreadState,
    /// The last text, and its meaning if it is the agent's own.
    last_text: (String, Option<AcpNotice>),
    refusal: AcpRefusal,
    is_cancelled: bool,
}

impl<'a> AcpClient<'a> {
    pub(super) fn new(input: AcpTurnInput<'a>) -> Self {
        Self {
            usage_tracker: AcpUsageTracker::new(
                input.preset.map(|preset| preset.spec),
                input.session,
            ),
            input,
            phase: AcpPhase::Initialize,
            pending_id: 0,
            session: None,
            can_load: false,
            accepts: AcpAcceptedInput::default(),
            calls: HashMap::new(),
            answer: String::new(),
            open_requests: Vec::new(),
            has_called: false,
            provider_status: None,
            thread: AcpThreadState::Working,
            last_text: (String::new(), None),
            refusal: AcpRefusal::None,
            is_cancelled: false,
        }
    }

    /// Builds the first message.
    pub(super) fn initialize_request(&mut self) -> Value {
        // With `notices`, an agent reports its own warnings in updates of their own, not as text of its answer.
        let capabilities = json!({
            "fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false, "session": {"notices": {}},
        });
        let us = json!({"name": "agent-worker", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({
            "protocolVersion": PROTOCOL_VERSION, "clientCapabilities": capabilities, "clientInfo": us,
        });
        self.start_request(AcpPhase::Initialize, "initialize", &params)
    }

    /// Interprets a line of the agent. Ignores a line that is no message of the protocol.
    pub(super) fn handle_line(&mut self, line: &str) -> Vec<AcpStep> {
        let Ok(message) = serde_json::from_str(line) else { return Vec::new() };
        match message {
            AcpMessage { id: Some(id), method: Some(method), params, .. } => {
                vec![self.handle_request(id, &method, params)]
            }
            AcpMessage { method: Some(method), mut params, .. } => {
                let is_here = params["sessionId"].as_str() == self.session.as_deref();
                let update = params["update"].take();
                // Updates before the prompt replay the earlier conversation.
                if method != "session/update" || !is_here || self.phase != AcpPhase::Prompt {
                    return Vec::new();
                }
                let update = AcpUpdate::deserialize(update).unwrap_or(AcpUpdate::Other);
                self.handle_update(update).into_iter().map(AcpStep::Report).collect()
            }
            AcpMessage { id: Some(id), result, error, .. } if id == self.pending_id => {
                match error {
                    Some(error) => self.handle_error(&error),
                    None => self.handle_result(&result.unwrap_or_default()),
                }
            }
            AcpMessage { .. } => Vec::new(),
        }
    }

    /// Builds the answer to a permission request: allows this one call, or rejects it.
    pub(super) fn permit_response(
        &mut self,
        question: AcpPermitQuestion,
        permit: AcpPermitDecision,
    ) -> Value {
        self.open_requests.retain(|unanswered| *unanswered != question.id);
        if permit == AcpPermitDecision::Reject {
            self.refusal = AcpRefusal::Idle;
        }
        question.response(permit)
    }

    /// Reports a permitted call as running: some agents send no update between the permission and the result.
    pub(super) fn permitted_call(
        &mut self,
        question: &AcpPermitQuestion,
        permit: AcpPermitDecision,
    ) -> Option<ProgramEvent> {
        let says = self.tool_naming();
        let call = self.calls.get_mut(&question.call_id)?;
        let is_new = permit == AcpPermitDecision::AllowOnce && !call.is_reported;
        is_new.then(|| {
            call.is_reported = true;
            let (id, tool, args) = (call.id().to_owned(), call.tool_name(says), call.args(says));
            ProgramEvent::ToolCalled { id, tool, args }
        })
    }

    /// Returns the messages that stop the agent, if a prompt is running, and answers its open requests as
    /// cancelled.
    pub(super) fn cancel_messages(&mut self) -> Vec<Value> {
        let Some(session) = self.session.as_deref().filter(|_| self.phase == AcpPhase::Prompt)
        else {
            return Vec::new();
        };
        self.is_cancelled = true;
        let params = json!({"sessionId": session});
        let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
        let unanswered = std::mem::take(&mut self.open_requests);
        let unanswered = unanswered.into_iter().map(|id| {
            json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "cancelled"}}})
        });
        std::iter::once(cancel).chain(unanswered).collect()
    }

    fn start_request(&mut self, phase: AcpPhase, method: &str, params: &Value) -> Value {
        self.phase = phase;
        self.pending_id += 1;
        json!({"jsonrpc": "2.0", "id": self.pending_id, "method": method, "params": params})
    }

    /// Handles a request of the agent. The client offers no files and no terminal.
    fn handle_request(&mut self, id: Value, method: &str, params: Value) -> AcpStep {
        if method != "session/request_permission" {
            let error =
                json!({"code": METHOD_NOT_FOUND, "message": format!("unknown method `{method}`")});
            return AcpStep::Send(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
        let Ok(AcpPermitParams { tool_call, options }) = AcpPermitParams::deserialize(params)
        else {
            let outcome = json!({"outcome": {"outcome": "cancelled"}});
            return AcpStep::Send(json!({"jsonrpc": "2.0", "id": id, "result": outcome}));
        };
        self.has_called = true;
        let says = self.tool_naming();
        let call = self.calls.entry(tool_call.id().to_owned()).or_default();
        call.merge_update(*tool_call);
        let (is_ours, request) = (call.team_tool(says).is_some(), call.permit_request(says));
        let question = AcpPermitQuestion::new(id, request, &options);
        // The team's own tools need no permission.
        if is_ours {
            return AcpStep::Send(self.permit_response(question, AcpPermitDecision::AllowOnce));
        }
        self.open_requests.push(question.id.clone());
        AcpStep::RequestPermit(question)
    }

    fn handle_update(&mut self, update: AcpUpdate) -> Vec<ProgramEvent> {
        match update {
            AcpUpdate::AgentMessageChunk { content } => match content["text"].as_str() {
                Some(text) if !text.is_empty() => self.text_events(text),
                _ => Vec::new(),
            },
            AcpUpdate::ToolCall(said) => self.tool_call_events(*said),
            AcpUpdate::UsageUpdate { cost } => {
                self.usage_tracker.record_cost(cost.as_ref());
                Vec::new()
            }
            AcpUpdate::SessionInfo { meta } => {
                self.provider_status = provider_status(&meta).or(self.provider_status);
                self.thread = AcpThreadState::find(&meta).unwrap_or(self.thread);
                Vec::new()
            }
            AcpUpdate::Other => Vec::new(),
        }
    }

    /// Adds a text to the answer, unless it is the agent's own.
    fn text_events(&mut self, text: &str) -> Vec<ProgramEvent> {
        let notice = self.input.preset.and_then(|preset| (preset.hooks.notice)(text));
        match notice {
            Some(AcpNotice::Remark) => return Vec::new(),
            Some(AcpNotice::Retry) => {
                self.answer.clear();
                return vec![ProgramEvent::Retry(text.to_owned())];
            }
            Some(AcpNotice::Failure) => self.answer.clear(),
            Some(AcpNotice::Refusal) => {}
            None => self.refusal.note_action(),
        }
        self.last_text = (text.to_owned(), notice);
        self.answer.push_str(text);
        vec![ProgramEvent::Text(text.to_owned())]
    }

    /// Reports a call once its arguments are complete, and reports its end.
    fn tool_call_events(&mut self, said: AcpToolCall) -> Vec<ProgramEvent> {
        // The text so far preceded a call and is not the answer.
        self.answer.clear();
        self.last_text = (String::new(), None);
        self.has_called = true;
        let (id, says) = (said.id().to_owned(), self.tool_naming());
        // The refused call itself ends with an update.
        if !self.calls.contains_key(&id) {
            self.refusal.note_action();
        }
        let call = self.calls.entry(id.clone()).or_default();
        call.merge_update(said);
        let stage = call.stage();
        let mut heard = Vec::new();
        if stage != AcpCallStage::Announced && !std::mem::replace(&mut call.is_reported, true) {
            let (tool, args) = (call.tool_name(says), call.args(says));
            heard.push(ProgramEvent::ToolCalled { id: id.clone(), tool, args });
        }
        if stage == AcpCallStage::Ended {
            let (tool, result) = (call.tool_name(says), call.result());
            self.calls.remove(&id);
            heard.push(ProgramEvent::ToolAnswered { id, tool, result });
        }
        heard
    }

    fn tool_naming(&self) -> AcpToolNaming {
        self.input.preset.map(|preset| preset.spec.tool_naming).unwrap_or_default()
    }

    /// Handles the response to the pending request.
    fn handle_result(&mut self, result: &Value) -> Vec<AcpStep> {
        match self.phase {
            AcpPhase::Initialize => vec![self.handle_initialized(result)],
            AcpPhase::Load | AcpPhase::NewSession => self.handle_session_opened(result),
            AcpPhase::SetMode => vec![AcpStep::Send(self.prompt_request())],
            AcpPhase::Prompt => self.handle_prompt_result(result),
        }
    }

    fn handle_error(&mut self, error: &Value) -> Vec<AcpStep> {
        match self.phase {
            AcpPhase::Load => {
                let why = "the agent lost its conversation; starting a new one".to_owned();
                self.usage_tracker.reset_session();
                vec![
                    AcpStep::Report(ProgramEvent::Retry(why)),
                    AcpStep::Send(self.new_session_request()),
                ]
            }
            // The agent continues in its current mode.
            AcpPhase::SetMode => vec![AcpStep::Send(self.prompt_request())],
            AcpPhase::Initialize | AcpPhase::NewSession => {
                vec![AcpStep::End(Err(failure_from_error(error)))]
            }
            AcpPhase::Prompt => {
                let mut steps = self.usage_steps(&Value::Null);
                steps.push(AcpStep::End(Err(failure_from_error(error))));
                steps
            }
        }
    }

    fn handle_initialized(&mut self, result: &Value) -> AcpStep {
        let fatal = |why: String| AcpStep::End(Err(TurnFailure::new(FailureClass::Fatal, why)));
        let version = &result["protocolVersion"];
        if *version != PROTOCOL_VERSION {
            return fatal(format!(
                "the agent uses protocol version {version}, not {PROTOCOL_VERSION}"
            ));
        }
        let can = &result["agentCapabilities"];
        if can["mcpCapabilities"]["http"] != true {
            return fatal(
                "the agent does not support MCP over HTTP, so it cannot reach the team's tools"
                    .into(),
            );
        }
        self.accepts = AcpAcceptedInput::of_capabilities(can);
        let memory = self
            .input
            .preset
            .map_or(AcpSessionSupport::AsAdvertised, |preset| preset.spec.session_support);
        self.can_load = memory == AcpSessionSupport::AsAdvertised && can["loadSession"] == true;
        let last = self.usage_tracker.session_id().filter(|_| self.can_load).map(str::to_owned);
        let Some(last) = last else {
            self.usage_tracker.reset_session();
            return AcpStep::Send(self.new_session_request());
        };
        let mut params = self.session_params();
        params["sessionId"] = json!(last);
        self.session = Some(last);
        AcpStep::Send(self.start_request(AcpPhase::Load, "session/load", &params))
    }

    fn new_session_request(&mut self) -> Value {
        self.session = None;
        let params = self.session_params();
        self.start_request(AcpPhase::NewSession, "session/new", &params)
    }

    /// Builds the working folder and the tool servers of a session.
    fn session_params(&self) -> Value {
        let ToolServerEndpoint { url, token } = self.input.tool_server;
        let headers = json!([{"name": "Authorization", "value": format!("Bearer {token}")}]);
        let server =
            json!({"type": "http", "name": TEAM_SERVER_NAME, "url": url, "headers": headers});
        let file = self.input.tools_file.as_deref();
        let servers = if file.is_some() { Vec::new() } else { vec![server] };
        let mut params = json!({"cwd": self.input.cwd, "mcpServers": servers});
        if let Some(folder) = self.input.attachment_folder.filter(|_| self.accepts.folders) {
            // An agent may ask for permission to read anything outside of its folders.
            params["additionalDirectories"] = json!([folder]);
        }
        if let Some(meta) = self.input.preset.and_then(|preset| preset.hooks.session_meta) {
            params["_meta"] = meta(self.input.system_prompt, file);
        }
        params
    }

    fn handle_session_opened(&mut self, result: &Value) -> Vec<AcpStep> {
        if let Some(id) = result["sessionId"].as_str() {
            self.session = Some(id.to_owned());
        }
        let Some(session) = self.session.clone() else {
            let why = "the agent started no conversation";
            return vec![AcpStep::End(Err(TurnFailure::new(FailureClass::Fatal, why)))];
        };
        let mut steps = Vec::new();
        if self.can_load {
            steps.push(AcpStep::Report(ProgramEvent::Session(
                self.usage_tracker.session_json(&session),
            )));
        }
        let modes = &result["modes"];
        let offered = |mode: &&str| {
            let modes = modes["availableModes"].as_array().into_iter().flatten();
            modes.into_iter().any(|offered| offered["id"] == **mode)
        };
        let mode = self.input.preset.and_then(|preset| preset.spec.mode).filter(offered);
        steps.push(AcpStep::Send(match mode.filter(|mode| modes["currentModeId"] != *mode) {
            Some(mode) => {
                let params = json!({"sessionId": session, "modeId": mode});
                self.start_request(AcpPhase::SetMode, "session/set_mode", &params)
            }
            None => self.prompt_request(),
        }));
        steps
    }

    fn prompt_request(&mut self) -> Value {
        let blocks = self.input.prompt_blocks(self.accepts);
        let params = json!({"sessionId": self.session, "prompt": blocks});
        self.start_request(AcpPhase::Prompt, "session/prompt", &params)
    }

    fn handle_prompt_result(&mut self, result: &Value) -> Vec<AcpStep> {
        let mut steps = self.usage_steps(result);
        let answer = std::mem::take(&mut self.answer);
        let fatal = |why: &str| Err(TurnFailure::new(FailureClass::Fatal, why));
        let is_whole = if let Some(preset) = self.input.preset {
            let has_failed = self.thread == AcpThreadState::Failed
                || self.last_text.1 == Some(AcpNotice::Failure);
            !has_failed && (preset.hooks.is_complete)(result)
        } else {
            // An unknown agent that did nothing at all did not reach its model.
            let is_used = self.usage_tracker.turn_usage(result).is_some();
            !answer.is_empty() || self.has_called || is_used
        };
        steps.push(AcpStep::End(match result["stopReason"].as_str() {
            Some("end_turn") if self.refusal == AcpRefusal::Idle => Err(stopped_after_refusal()),
            Some("end_turn") if is_whole => Ok(answer),
            Some("end_turn") => {
                Err(incomplete_turn(self.provider_status, &answer, &self.last_text.0))
            }
            // Some agents stop this way after a refusal, and leave the rest of the work undone.
            Some("cancelled") if self.refusal != AcpRefusal::None && !self.is_cancelled => {
                Err(stopped_after_refusal())
            }
            // In all other cases the worker cancelled the turn, or the agent stopped by itself.
            Some("cancelled") => Err(TurnFailure::new(
                FailureClass::Crash,
                "the agent stopped before the end of its turn",
            )),
            Some("max_tokens") => fatal("the answer reached the token limit"),
            Some("max_turn_requests") => {
                fatal("the agent reached its limit of model requests per turn")
            }
            Some("refusal") => fatal("the model refused to continue"),
            Some(_) | None => fatal("the agent returned no known stop reason"),
        }));
        steps
    }

    /// Reports the usage, and the session that the next turn needs to continue.
    fn usage_steps(&mut self, result: &Value) -> Vec<AcpStep> {
        let usage = self.usage_tracker.turn_usage(result).map(ProgramEvent::Usage);
        let session = self.session.as_deref().filter(|_| self.can_load);
        let session =
            session.map(|session| ProgramEvent::Session(self.usage_tracker.session_json(session)));
        session.into_iter().chain(usage).map(AcpStep::Report).collect()
    }
}
