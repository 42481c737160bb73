//! Codex: `codex app-server`, a conversation of one thread and one turn over stdin and stdout.
//!
//! `initialize`, then `thread/resume` or `thread/start`, then one `turn/start`. The outcome is the status of
//! `turn/completed`. The program asks for permission with requests of its own (`codex/request.rs`).

mod failure;
mod item;
mod message;
mod messages;
mod request;
mod settings;

use std::{collections::HashMap, io};

use agent_worker_protocol::{FailureClass, TurnMessage, hash};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(in crate::program) use self::settings::{MODEL_KEY, set_temp_folder, settings_file};
use self::{
    failure::long_pause_failure,
    item::{CodexItem, CodexItemKind},
    message::{CodexErrorMessage, CodexMessage, CodexNotification, CodexTurn},
    messages::{CodexMessages, client_id},
    request::{CodexRequest, handle_request},
    settings::{program_invocation, thread_params, turn_params},
};
use crate::{
    pricing::ModelTokenUsage,
    program::{
        ProgramAdapter, ProgramEvent, ProgramExit, ProgramInvocation, ProgramOutcome, ProgramTurn,
        StderrLine,
        conversation::{ProgramReply, ProgramStep},
    },
    turn::TurnFailure,
};

/// Ids of our requests. Further requests count from the last one.
const INITIALIZE_ID: u64 = 1;
const THREAD_ID: u64 = 2;
const TURN_ID: u64 = 3;

/// Marker of a log line about a response of the provider.
const RESPONSE_LOG_MARKER: &str = " codex_http_client::client: Request completed ";
/// Complaint of the program about an unknown conversation.
const SESSION_LOST_MESSAGE: &str = "no rollout found for thread id";
/// Introduces instructions that replace those of the first turn.
const CHANGED_INSTRUCTIONS: &str =
    "Your instructions have changed since this conversation began. These replace the earlier ones:";

/// State of the conversation.
#[derive(Default)]
struct Codex {
    last: Option<CodexThread>,
    /// Hash of the instructions that the thread has after this turn.
    instructions: String,
    thread_params: Value,
    turn_params: Value,
    thread: Option<String>,
    turn: Option<String>,
    /// The id of our last request.
    last_id: u64,
    /// Calls that have started, with the details that a permission request omits.
    open_items: HashMap<String, CodexItem>,
    open_requests: Vec<CodexRequest>,
    /// Messages to the running turn.
    messages: CodexMessages,
    /// Usage of the whole thread so far.
    usage: Option<CodexUsage>,
    answer: Option<String>,
    is_cancelled: bool,
    end: Option<CodexEnd>,
}

/// The end of the conversation.
enum CodexEnd {
    Completed,
    Failed(TurnFailure),
    SessionLost,
}

/// The data that the next turn needs to continue.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct CodexThread {
    id: String,
    /// Hash of the instructions that the thread has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    instructions: String,
    /// Usage of the whole thread so far: the program always counts from the beginning.
    #[serde(flatten)]
    usage: CodexUsage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
struct CodexUsage {
    /// All input tokens, including cache reads and cache writes.
    #[serde(rename = "input_tokens", alias = "inputTokens")]
    input: u64,
    #[serde(rename = "cached_input_tokens", alias = "cachedInputTokens")]
    from_cache: u64,
    #[serde(rename = "cache_write_input_tokens", alias = "cacheWriteInputTokens")]
    into_cache: u64,
    #[serde(rename = "output_tokens", alias = "outputTokens")]
    output: u64,
}

/// Returns a short hash of the instructions of a thread.
fn instructions_hash(text: &str) -> String {
    let hash = hash(&[text.as_bytes()]);
    hash[..8].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Creates the adapter of one process.
pub(super) fn adapter(session: Option<&Value>) -> Box<dyn ProgramAdapter> {
    let last = session.and_then(|session| CodexThread::deserialize(session).ok());
    Box::new(Codex {
        last,
        thread_params: json!({}),
        turn_params: json!({}),
        last_id: TURN_ID,
        ..Codex::default()
    })
}

impl ProgramAdapter for Codex {
    fn invocation(&mut self, turn: &ProgramTurn<'_>) -> io::Result<ProgramInvocation> {
        let request = &turn.context.request;
        self.instructions = instructions_hash(&request.system_prompt);
        self.thread_params = thread_params(turn);
        let mut text = request.prompt.clone();
        match &self.last {
            None => self.thread_params["developerInstructions"] = json!(request.system_prompt),
            // A continued thread keeps the instructions of its first turn, with the team of that time.
            Some(last) if last.instructions != self.instructions => {
                text = format!("{CHANGED_INSTRUCTIONS}\n\n{}\n\n{text}", request.system_prompt);
            }
            Some(_) => {}
        }
        self.turn_params = turn_params(turn);
        let images = request.attachments.iter().filter(|file| file.is_image());
        let images = images.map(|file| json!({"type": "localImage", "path": file.path}));
        let input = std::iter::once(json!({"type": "text", "text": text})).chain(images);
        self.turn_params["input"] = input.collect();
        let us = json!({"name": "agent-worker", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"clientInfo": us, "capabilities": {"experimentalApi": true}});
        let first = json!({"id": INITIALIZE_ID, "method": "initialize", "params": params});
        Ok(ProgramInvocation { stdin: format!("{first}\n"), ..program_invocation(turn)? })
    }

    fn handle_line(&mut self, line: &str) -> Vec<ProgramStep> {
        let Ok(message) = serde_json::from_str(line) else { return Vec::new() };
        match message {
            CodexMessage { id: Some(id), method: Some(method), params, .. } => {
                let (step, request) = handle_request(id, &method, params, &self.open_items);
                self.open_requests.extend(request);
                vec![step]
            }
            CodexMessage { method: Some(method), params, .. } => {
                let notification = CodexNotification::parse(&method, params);
                notification.map(|it| self.handle_notification(it)).unwrap_or_default()
            }
            CodexMessage { id: Some(id), error: Some(error), .. } => self.handle_error(&id, error),
            CodexMessage { id: Some(id), result, .. } => self.handle_result(&id, &result),
            CodexMessage { .. } => Vec::new(),
        }
    }

    fn handle_reply(&mut self, question: &Value, reply: ProgramReply) -> Vec<ProgramStep> {
        let Some(at) = self.open_requests.iter().position(|request| request.id == *question) else {
            return Vec::new();
        };
        let request = self.open_requests.swap_remove(at);
        // The explanation comes first, so that the model reads it with the refusal.
        let explanation = request.denial_params(&reply);
        let explanation = explanation.map(|params| self.further_request("turn/steer", &params));
        explanation.into_iter().chain([request.reply_step(&reply)]).collect()
    }

    fn handle_message(&mut self, message: TurnMessage) -> Vec<ProgramStep> {
        self.messages.waiting.push_back(message);
        self.steer_steps()
    }

    fn cancel_steps(&mut self) -> Vec<ProgramStep> {
        let (Some(thread), Some(turn)) = (&self.thread, &self.turn) else { return Vec::new() };
        let params = json!({"threadId": thread, "turnId": turn});
        self.is_cancelled = true;
        vec![self.further_request("turn/interrupt", &params)]
    }

    fn parse_stderr_line(&mut self, line: &str) -> StderrLine {
        let Some((_, answered)) = line.split_once(RESPONSE_LOG_MARKER) else {
            return StderrLine::Complaint;
        };
        let failure = long_pause_failure(answered);
        StderrLine::LogEntry(failure.map(ProgramEvent::GaveUp).into_iter().collect())
    }

    fn has_result(&self) -> bool {
        self.end.is_some()
    }

    fn outcome(&mut self, exit: &ProgramExit) -> ProgramOutcome {
        match self.end.take() {
            Some(CodexEnd::Completed) if exit.is_clean() => {
                ProgramOutcome::Answered(self.answer.take().unwrap_or_default())
            }
            Some(CodexEnd::Failed(failure)) => ProgramOutcome::Failed(failure),
            Some(CodexEnd::SessionLost) => ProgramOutcome::SessionLost,
            Some(CodexEnd::Completed) | None => ProgramOutcome::Failed(exit.crash_failure()),
        }
    }
}

impl Codex {
    fn further_request(&mut self, method: &str, params: &Value) -> ProgramStep {
        self.last_id += 1;
        send_request(self.last_id, method, params)
    }

    fn handle_result(&mut self, id: &Value, result: &Value) -> Vec<ProgramStep> {
        match id.as_u64() {
            Some(INITIALIZE_ID) => {
                let started = ProgramStep::Send(json!({"method": "initialized"}));
                vec![started, self.thread_request()]
            }
            Some(THREAD_ID) => self.handle_thread(result),
            Some(TURN_ID) => {
                self.turn = result["turn"]["id"].as_str().map(str::to_owned);
                self.steer_steps()
            }
            Some(id) => self.messages.accept(id).into_iter().collect(),
            None => Vec::new(),
        }
    }

    fn thread_request(&mut self) -> ProgramStep {
        let mut params = self.thread_params.take();
        match &self.last {
            Some(last) => {
                params["threadId"] = json!(last.id);
                params["excludeTurns"] = json!(true);
                send_request(THREAD_ID, "thread/resume", &params)
            }
            None => send_request(THREAD_ID, "thread/start", &params),
        }
    }

    /// Passes the waiting messages on to the turn, once it has started.
    fn steer_steps(&mut self) -> Vec<ProgramStep> {
        let (Some(thread), Some(turn)) = (self.thread.clone(), self.turn.clone()) else {
            return Vec::new();
        };
        let mut steps = Vec::new();
        while let Some(TurnMessage { seq, text }) = self.messages.waiting.pop_front() {
            let params = json!({
                "threadId": thread, "expectedTurnId": turn, "clientUserMessageId": client_id(seq),
                "input": [{"type": "text", "text": text}],
            });
            steps.push(self.further_request("turn/steer", &params));
            self.messages.sent.insert(self.last_id, seq);
        }
        steps
    }

    /// Reports the session and starts the turn.
    fn handle_thread(&mut self, result: &Value) -> Vec<ProgramStep> {
        let Some(id) = result["thread"]["id"].as_str() else {
            return self.fail_with(FailureClass::Fatal, "the program started no conversation");
        };
        self.thread = Some(id.to_owned());
        let mut params = self.turn_params.take();
        params["threadId"] = json!(id);
        let usage = self.last.as_ref().map(|last| last.usage).unwrap_or_default();
        let session = ProgramStep::Report(self.session_event(usage));
        vec![session, send_request(TURN_ID, "turn/start", &params)]
    }

    fn handle_error(&mut self, id: &Value, error: CodexErrorMessage) -> Vec<ProgramStep> {
        let CodexErrorMessage { message } = error;
        match id.as_u64() {
            Some(THREAD_ID) if self.last.is_some() && message.contains(SESSION_LOST_MESSAGE) => {
                self.end_with(CodexEnd::SessionLost)
            }
            // For example because the program does not reach the team's tools.
            Some(INITIALIZE_ID | THREAD_ID) => {
                let why = format!("the program ended without a result: {message}");
                self.fail_with(FailureClass::Crash, &why)
            }
            Some(TURN_ID) => self.fail_with(FailureClass::Fatal, &message),
            // A turn that is over is neither steered nor interrupted.
            Some(id) => self.messages.refuse(id).into_iter().collect(),
            None => Vec::new(),
        }
    }

    fn handle_notification(&mut self, notification: CodexNotification) -> Vec<ProgramStep> {
        let events = match notification {
            CodexNotification::ItemStarted(params) => {
                let event = params.item.tool_call_event();
                self.open_items.insert(params.item.id.clone(), params.item);
                event.into_iter().collect()
            }
            CodexNotification::ItemCompleted(params) => {
                self.open_items.remove(&params.item.id);
                if let CodexItemKind::UserMessage { client_id } = &params.item.kind {
                    let own = client_id.as_ref().filter(|_| self.is_own_thread(&params.thread_id));
                    return own.and_then(|id| messages::joined(id)).into_iter().collect();
                }
                self.completed_item_events(params.item, &params.thread_id)
            }
            CodexNotification::TokenUsage(params) => {
                if self.is_own_thread(&params.thread_id) {
                    self.usage = Some(params.token_usage.total);
                }
                Vec::new()
            }
            CodexNotification::Error(params) if params.will_retry => {
                vec![params.error.retry_event()]
            }
            // The end of the turn repeats the error.
            CodexNotification::Error(_) => Vec::new(),
            CodexNotification::TurnCompleted(params) => {
                if !self.is_own_thread(&params.thread_id) || self.end.is_some() {
                    return Vec::new();
                }
                return self.handle_turn_end(params.turn);
            }
        };
        events.into_iter().map(ProgramStep::Report).collect()
    }

    /// Returns true for the thread of this turn. The program's own agents have other threads.
    fn is_own_thread(&self, thread: &str) -> bool {
        self.thread.as_deref() == Some(thread)
    }

    fn completed_item_events(&mut self, item: CodexItem, thread: &str) -> Vec<ProgramEvent> {
        if let CodexItemKind::AgentMessage { text } = item.kind {
            if !self.is_own_thread(thread) {
                return Vec::new();
            }
            // The last message is the answer.
            self.answer = Some(text.clone());
            return vec![ProgramEvent::Text(text)];
        }
        item.tool_result_event().into_iter().collect()
    }

    fn handle_turn_end(&mut self, turn: CodexTurn) -> Vec<ProgramStep> {
        let mut steps = self.usage_steps();
        let failed = |class, why| CodexEnd::Failed(TurnFailure::new(class, why));
        let end = match (turn.status.as_str(), turn.error) {
            ("completed", _) => CodexEnd::Completed,
            (_, Some(error)) => CodexEnd::Failed(error.turn_failure()),
            ("interrupted", None) if self.is_cancelled => {
                CodexEnd::Failed(TurnFailure::cancelled())
            }
            ("interrupted", None) => {
                failed(FailureClass::Crash, "the program stopped before the end of its turn")
            }
            (_, None) => {
                failed(FailureClass::Fatal, "the program reported no cause of its failure")
            }
        };
        steps.extend(self.end_with(end));
        steps
    }

    /// Reports the usage since the last turn, and the counts from which the next turn starts.
    fn usage_steps(&self) -> Vec<ProgramStep> {
        let before = self.last.as_ref().map(|last| last.usage).unwrap_or_default();
        let Some(all) = self.usage.filter(|all| *all != before) else { return Vec::new() };
        let share = ModelTokenUsage {
            model: None,
            input: all.input.saturating_sub(before.input),
            from_cache: all.from_cache.saturating_sub(before.from_cache),
            into_cache: all.into_cache.saturating_sub(before.into_cache),
            output: all.output.saturating_sub(before.output),
        };
        let events = [self.session_event(all), ProgramEvent::UsageByModel(vec![share])];
        events.map(ProgramStep::Report).into()
    }

    fn session_event(&self, usage: CodexUsage) -> ProgramEvent {
        let id = self.thread.clone().unwrap_or_default();
        let instructions = self.instructions.clone();
        ProgramEvent::Session(json!(CodexThread { id, instructions, usage }))
    }

    fn fail_with(&mut self, class: FailureClass, why: &str) -> Vec<ProgramStep> {
        self.end_with(CodexEnd::Failed(TurnFailure::new(class, why)))
    }

    fn end_with(&mut self, end: CodexEnd) -> Vec<ProgramStep> {
        self.end = Some(end);
        vec![ProgramStep::EndInput]
    }
}

fn send_request(id: u64, method: &str, params: &Value) -> ProgramStep {
    ProgramStep::Send(json!({"id": id, "method": method, "params": params}))
}
