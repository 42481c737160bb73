//! One turn of a conversation in the Agent Client Protocol, without the pipes: a line in, what to do about it out.
//!
//! `initialize`, then `session/load` or `session/new` with the team's tools, then one `session/prompt`. The outcome is the
//! prompt's answer: its stop reason, or its error's code. Invariant: no request is answered with an option that holds for
//! more than this one call.

use std::collections::HashMap;

use agent_worker_protocol::{FailureClass, api::PermitRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::Heard,
    agents::{Memory, Preset, Says, System},
    call::{Call, Stage},
    failure::failure,
    usage::Ledger,
};
use crate::{
    door::{Entrance, SERVER},
    model::Failure,
};

/// The only version there is.
const VERSION: u64 = 1;
const NO_METHOD: i64 = -32601;

/// What a turn is made of.
pub(super) struct Brief<'a> {
    pub(super) preset: Option<&'static Preset>,
    pub(super) cwd: &'a str,
    /// Where our tools are.
    pub(super) door: &'a Entrance,
    /// The file it has them from, where it is not to be told by the protocol.
    pub(super) servers: Option<String>,
    pub(super) system_prompt: &'a str,
    pub(super) prompt: &'a str,
    /// What the last turn said its conversation is.
    pub(super) session: Option<&'a Value>,
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Pass(Heard),
    Write(Value),
    Ask(Question),
    End(Result<String, Failure>),
}

/// A request for permission, and how it can be answered.
#[derive(Debug, PartialEq)]
pub(super) struct Question {
    id: Value,
    pub(super) request: PermitRequest,
    once: Option<Value>,
    never: Option<Value>,
}

/// What is said to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    Once,
    No,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Welcome,
    /// An earlier conversation, which it tells once more.
    Load,
    Open,
    Mode,
    Answer,
}

/// One turn.
pub(super) struct Client<'a> {
    brief: Brief<'a>,
    phase: Phase,
    /// The number of the request that is waited for.
    waiting: u64,
    session: Option<String>,
    can_load: bool,
    calls: HashMap<String, Call>,
    answer: String,
    ledger: Ledger,
    /// Its requests that are not answered yet.
    unanswered: Vec<Value>,
    /// Something it asked for was refused.
    was_refused: bool,
    is_cancelled: bool,
}

/// A message of either side.
#[derive(Deserialize)]
struct Message {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    result: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Petition {
    tool_call: Box<Call>,
    options: Vec<Choice>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Choice {
    option_id: Value,
    kind: String,
}

#[derive(Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
enum Update {
    AgentMessageChunk {
        content: Value,
    },
    #[serde(rename = "tool_call", alias = "tool_call_update")]
    Call(Box<Call>),
    #[serde(rename = "usage_update")]
    Used {
        cost: Option<Value>,
    },
    #[serde(other)]
    Other,
}

impl<'a> Client<'a> {
    pub(super) fn new(brief: Brief<'a>) -> Self {
        Self {
            ledger: Ledger::new(brief.preset, brief.session),
            brief,
            phase: Phase::Welcome,
            waiting: 0,
            session: None,
            can_load: false,
            calls: HashMap::new(),
            answer: String::new(),
            unanswered: Vec::new(),
            was_refused: false,
            is_cancelled: false,
        }
    }

    /// The first message.
    pub(super) fn begin(&mut self) -> Value {
        let capabilities =
            json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let us = json!({"name": "agent-worker", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({
            "protocolVersion": VERSION, "clientCapabilities": capabilities, "clientInfo": us,
        });
        self.request(Phase::Welcome, "initialize", &params)
    }

    /// What a line of its means. What is no message of the protocol is nothing.
    pub(super) fn hear(&mut self, line: &str) -> Vec<Step> {
        let Ok(message) = serde_json::from_str(line) else { return Vec::new() };
        match message {
            Message { id: Some(id), method: Some(method), params, .. } => {
                vec![self.asked(id, &method, params)]
            }
            Message { method: Some(method), mut params, .. } => {
                let is_here = params["sessionId"].as_str() == self.session.as_deref();
                let update = params["update"].take();
                // What comes before the prompt is told once more.
                if method != "session/update" || !is_here || self.phase != Phase::Answer {
                    return Vec::new();
                }
                let update = Update::deserialize(update).unwrap_or(Update::Other);
                self.updated(update).into_iter().map(Step::Pass).collect()
            }
            Message { id: Some(id), result, error, .. } if id == self.waiting => match error {
                Some(error) => self.refused(&error),
                None => self.answered(&result.unwrap_or_default()),
            },
            Message { .. } => Vec::new(),
        }
    }

    /// The answer to what it asked for: yes to this one call, or no.
    pub(super) fn decided(&mut self, question: Question, permit: Permit) -> Value {
        let Question { id, once, never, .. } = question;
        self.unanswered.retain(|unanswered| *unanswered != id);
        self.was_refused |= permit == Permit::No;
        let choice = match permit {
            Permit::Once => once.or(never),
            Permit::No => never,
        };
        let outcome = match choice {
            Some(option) => json!({"outcome": "selected", "optionId": option}),
            None => json!({"outcome": "cancelled"}),
        };
        json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}})
    }

    /// What tells it to stop, if there is anything to stop. Nobody answers its requests any more.
    pub(super) fn cancel(&mut self) -> Vec<Value> {
        let Some(session) = self.session.as_deref().filter(|_| self.phase == Phase::Answer) else {
            return Vec::new();
        };
        self.is_cancelled = true;
        let params = json!({"sessionId": session});
        let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
        let unanswered = std::mem::take(&mut self.unanswered);
        let unanswered = unanswered.into_iter().map(|id| {
            json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "cancelled"}}})
        });
        std::iter::once(cancel).chain(unanswered).collect()
    }

    fn request(&mut self, phase: Phase, method: &str, params: &Value) -> Value {
        self.phase = phase;
        self.waiting += 1;
        json!({"jsonrpc": "2.0", "id": self.waiting, "method": method, "params": params})
    }

    /// It wants something of us. We have no files and no terminal for it.
    fn asked(&mut self, id: Value, method: &str, params: Value) -> Step {
        if method != "session/request_permission" {
            let error =
                json!({"code": NO_METHOD, "message": format!("there is no `{method}` here")});
            return Step::Write(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
        let Ok(Petition { tool_call, options }) = Petition::deserialize(params) else {
            let outcome = json!({"outcome": {"outcome": "cancelled"}});
            return Step::Write(json!({"jsonrpc": "2.0", "id": id, "result": outcome}));
        };
        let option = |kinds: [&str; 2]| {
            let of = |kind| options.iter().find(|option| option.kind == kind);
            kinds.into_iter().find_map(of).map(|option| option.option_id.clone())
        };
        let says = self.says();
        let call = self.calls.entry(tool_call.id().to_owned()).or_default();
        call.hear(*tool_call);
        let (is_ours, request) = (call.ours(says).is_some(), call.request(says));
        // Never what would hold for later calls too. What would refuse those too is still a refusal.
        let (once, never) =
            (option(["allow_once", "allow_once"]), option(["reject_once", "reject_always"]));
        let question = Question { id, request, once, never };
        // The team's own tools ask nobody.
        if is_ours {
            return Step::Write(self.decided(question, Permit::Once));
        }
        self.unanswered.push(question.id.clone());
        Step::Ask(question)
    }

    fn updated(&mut self, update: Update) -> Vec<Heard> {
        match update {
            Update::AgentMessageChunk { content } => match content["text"].as_str() {
                Some(text) if !text.is_empty() => {
                    self.answer.push_str(text);
                    vec![Heard::Text(text.to_owned())]
                }
                _ => Vec::new(),
            },
            Update::Call(said) => self.called(*said),
            Update::Used { cost } => {
                self.ledger.cost(cost.as_ref());
                Vec::new()
            }
            Update::Other => Vec::new(),
        }
    }

    /// Tells of a call when its arguments are there, and of its end.
    fn called(&mut self, said: Call) -> Vec<Heard> {
        // What was said so far led to a call and is no answer.
        self.answer.clear();
        let (id, says) = (said.id().to_owned(), self.says());
        let call = self.calls.entry(id.clone()).or_default();
        call.hear(said);
        let stage = call.stage();
        let mut heard = Vec::new();
        if stage != Stage::Announced && !std::mem::replace(&mut call.is_told, true) {
            let (tool, args) = (call.tool(says), call.args(says));
            heard.push(Heard::Called { id: id.clone(), tool, args });
        }
        if stage == Stage::Over {
            let (tool, result) = (call.tool(says), call.result());
            self.calls.remove(&id);
            heard.push(Heard::Answered { id, tool, result });
        }
        heard
    }

    fn says(&self) -> Says {
        self.brief.preset.map(|preset| preset.says).unwrap_or_default()
    }

    /// What was waited for is there.
    fn answered(&mut self, result: &Value) -> Vec<Step> {
        match self.phase {
            Phase::Welcome => vec![self.welcomed(result)],
            Phase::Load | Phase::Open => self.opened(result),
            Phase::Mode => vec![Step::Write(self.prompt())],
            Phase::Answer => self.ended(result),
        }
    }

    fn refused(&mut self, error: &Value) -> Vec<Step> {
        match self.phase {
            Phase::Load => {
                let why = "its conversation is gone; it begins a new one".to_owned();
                self.ledger.begin_anew();
                vec![Step::Pass(Heard::Retry(why)), Step::Write(self.open())]
            }
            // It goes on in the mode it is in.
            Phase::Mode => vec![Step::Write(self.prompt())],
            Phase::Welcome | Phase::Open => vec![Step::End(Err(failure(error)))],
            Phase::Answer => {
                let mut steps = self.accounts(&Value::Null);
                steps.push(Step::End(Err(failure(error))));
                steps
            }
        }
    }

    fn welcomed(&mut self, result: &Value) -> Step {
        let fatal = |why: String| Step::End(Err(Failure::new(FailureClass::Fatal, why)));
        let version = &result["protocolVersion"];
        if *version != VERSION {
            return fatal(format!("it speaks version {version} of the protocol, not {VERSION}"));
        }
        let can = &result["agentCapabilities"];
        if can["mcpCapabilities"]["http"] != true {
            return fatal(
                "it takes no MCP server over HTTP, so it has no way to the team's tools".into(),
            );
        }
        let memory = self.brief.preset.map_or(Memory::AsItSays, |preset| preset.memory);
        self.can_load = memory == Memory::AsItSays && can["loadSession"] == true;
        let last = self.ledger.conversation().filter(|_| self.can_load).map(str::to_owned);
        let Some(last) = last else {
            self.ledger.begin_anew();
            return Step::Write(self.open());
        };
        let mut params = self.place();
        params["sessionId"] = json!(last);
        self.session = Some(last);
        Step::Write(self.request(Phase::Load, "session/load", &params))
    }

    fn open(&mut self) -> Value {
        self.session = None;
        let params = self.place();
        self.request(Phase::Open, "session/new", &params)
    }

    /// Where a session works, and with which tools.
    fn place(&self) -> Value {
        let Entrance { url, token } = self.brief.door;
        let headers = json!([{"name": "Authorization", "value": format!("Bearer {token}")}]);
        let server = json!({"type": "http", "name": SERVER, "url": url, "headers": headers});
        let file = self.brief.servers.as_deref();
        let servers = if file.is_some() { Vec::new() } else { vec![server] };
        let mut params = json!({"cwd": self.brief.cwd, "mcpServers": servers});
        if let Some(System::Meta(meta)) = self.brief.preset.map(|preset| &preset.system) {
            params["_meta"] = meta(self.brief.system_prompt, file);
        }
        params
    }

    fn opened(&mut self, result: &Value) -> Vec<Step> {
        if let Some(id) = result["sessionId"].as_str() {
            self.session = Some(id.to_owned());
        }
        let Some(session) = self.session.clone() else {
            let why = "it began no conversation";
            return vec![Step::End(Err(Failure::new(FailureClass::Fatal, why)))];
        };
        let mut steps = Vec::new();
        if self.can_load {
            steps.push(Step::Pass(Heard::Session(self.ledger.conversation_is(&session))));
        }
        let modes = &result["modes"];
        let offered = |mode: &&str| {
            let modes = modes["availableModes"].as_array().into_iter().flatten();
            modes.into_iter().any(|offered| offered["id"] == **mode)
        };
        let mode = self.brief.preset.and_then(|preset| preset.mode).filter(offered);
        steps.push(Step::Write(match mode.filter(|mode| modes["currentModeId"] != *mode) {
            Some(mode) => {
                let params = json!({"sessionId": session, "modeId": mode});
                self.request(Phase::Mode, "session/set_mode", &params)
            }
            None => self.prompt(),
        }));
        steps
    }

    fn prompt(&mut self) -> Value {
        let Brief { preset, system_prompt, prompt, .. } = self.brief;
        let text = |text: &str| json!({"type": "text", "text": text});
        let blocks = match preset.map(|preset| &preset.system) {
            Some(System::Meta(_)) => vec![text(prompt)],
            Some(System::Prompt) | None => {
                vec![text(&format!("{system_prompt}\n\n")), text(prompt)]
            }
        };
        let params = json!({"sessionId": self.session, "prompt": blocks});
        self.request(Phase::Answer, "session/prompt", &params)
    }

    fn ended(&mut self, result: &Value) -> Vec<Step> {
        let mut steps = self.accounts(result);
        let answer = std::mem::take(&mut self.answer);
        let fatal = |why: &str| Err(Failure::new(FailureClass::Fatal, why));
        let is_whole = self.brief.preset.is_none_or(|preset| (preset.is_whole)(result));
        steps.push(Step::End(match result["stopReason"].as_str() {
            Some("end_turn") if is_whole => Ok(answer),
            Some("end_turn") => {
                Err(Failure::new(FailureClass::Crash, "no answer of its model came to its end"))
            }
            // Some stop there when they may not do what they wanted.
            Some("cancelled") if self.was_refused && !self.is_cancelled => Ok(answer),
            // Nobody else did: it was told to end, or ends by itself.
            Some("cancelled") => Err(Failure::new(FailureClass::Crash, "it stopped in the middle")),
            Some("max_tokens") => fatal("its answer was longer than it may be"),
            Some("max_turn_requests") => fatal("it asked its model more often than it may"),
            Some("refusal") => fatal("its model refused to go on"),
            Some(_) | None => fatal("it did not say how its turn ended"),
        }));
        steps
    }

    /// What it has used, and what the next turn has to know to go on.
    fn accounts(&mut self, result: &Value) -> Vec<Step> {
        let usage = self.ledger.close(result).map(Heard::Usage);
        let session = self.session.as_deref().filter(|_| self.can_load);
        let session = session.map(|session| Heard::Session(self.ledger.conversation_is(session)));
        session.into_iter().chain(usage).map(Step::Pass).collect()
    }
}
