//! opencode: `opencode run --format json`, which writes a stream of JSON events and ends.
//!
//! What it tries again by itself it tries for ever, and says so only in its log: one that is at it for too long is not
//! waited for.

use std::{io, time::Duration};

use agent_worker_backends::find_provider;
use agent_worker_protocol::{CredentialMode, FailureClass, PermissionAction, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::program::{
    ProgramAdapter, ProgramEvent, ProgramExit, ProgramInvocation, ProgramOutcome, ProgramTurn,
    class_of_status, endpoint::ModelEndpoint, private_files, usd_to_micros,
};
use crate::{
    model::ToolResult,
    tool_server::TEAM_SERVER_NAME,
    turn::{TurnContext, TurnFailure},
};

/// The variable that its settings name, so that no key stands in them.
const MODEL_KEY: &str = "AGENT_WORKER_MODEL_KEY";
/// How often it may ask its provider again by itself, and how long it may wait before it does.
const MAX_RETRIES: u32 = 3;
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);
/// How long it waits for a tool of ours. Its own default is a minute, and a daemon that restarts may take longer.
const TOOL_TIMEOUT_MS: u64 = 600_000;
/// What it complains of when it knows no such conversation.
const SESSION_LOST_MESSAGE: &str = "Session not found";
/// How its log tells that the provider did not answer the conversation itself: it also asks for titles.
const STREAM_ERROR_MARKERS: [&str; 3] =
    [" level=ERROR ", " message=\"stream error\" ", " small=false "];
/// What it may do where it may do nothing by itself.
const READ_ONLY_TOOLS: [&str; 4] = ["glob", "grep", "list", "read"];

/// What it has said so far.
#[derive(Default)]
struct Opencode {
    last: Option<OpencodeSession>,
    has_begun: bool,
    /// What it said in this step.
    answer: String,
    /// Why its last step ended.
    reason: Option<String>,
    error: Option<OpencodeError>,
    /// Why its provider did not answer, how often in a row, and since when.
    provider_failure: Option<(String, u32, Instant)>,
}

/// What the next turn needs to go on.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct OpencodeSession {
    id: String,
}

#[derive(Deserialize)]
struct OpencodeLine {
    #[serde(rename = "sessionID")]
    session: String,
    #[serde(flatten)]
    event: OpencodeEvent,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OpencodeEvent {
    StepStart,
    Text {
        part: OpencodeText,
    },
    /// A call and its result at once.
    ToolUse {
        part: OpencodeToolUse,
    },
    StepFinish {
        part: OpencodeStepFinish,
    },
    Error {
        error: OpencodeError,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct OpencodeText {
    text: String,
}

#[derive(Deserialize)]
struct OpencodeToolUse {
    tool: String,
    #[serde(rename = "callID")]
    id: String,
    state: OpencodeToolState,
}

#[derive(Deserialize)]
struct OpencodeToolState {
    status: String,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    output: String,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
struct OpencodeStepFinish {
    reason: String,
    tokens: OpencodeTokens,
    #[serde(default)]
    cost: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OpencodeTokens {
    total: Option<u64>,
    input: u64,
    output: u64,
    reasoning: u64,
    cache: OpencodeCacheTokens,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OpencodeCacheTokens {
    read: u64,
    write: u64,
}

/// Its own name for what went wrong, and what the provider said.
#[derive(Deserialize)]
struct OpencodeError {
    name: String,
    #[serde(default)]
    data: OpencodeErrorData,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OpencodeErrorData {
    message: String,
    status_code: Option<u64>,
    response_body: String,
}

/// Makes the adapter of one process.
pub(super) fn adapter(session: Option<&Value>) -> Box<dyn ProgramAdapter> {
    let last = session.and_then(|session| OpencodeSession::deserialize(session).ok());
    Box::new(Opencode { last, ..Opencode::default() })
}

impl ProgramAdapter for Opencode {
    fn invocation(&self, turn: &ProgramTurn<'_>) -> io::Result<ProgramInvocation> {
        let TurnContext { request, folders, .. } = turn.context;
        let mut invocation =
            ProgramInvocation { stdin: request.prompt.clone(), ..ProgramInvocation::default() };
        let system = private_files::write_private_file(
            &folders.attempt,
            "system.md",
            &request.system_prompt,
        )?;
        let headers = json!({"Authorization": format!("Bearer {}", turn.tool_server.token)});
        let mut settings = json!({
            "autoupdate": false,
            "share": "disabled",
            // The project's own, which it does not look for: see below.
            "instructions": [system, turn.context.child_env.cwd.join("AGENTS.md")],
            "mcp": {TEAM_SERVER_NAME: {
                "type": "remote", "url": turn.tool_server.url, "headers": headers, "oauth": false, "enabled": true,
                "timeout": TOOL_TIMEOUT_MS,
            }},
            // What is refused is told to the model, which may do something else.
            "experimental": {"mcp_timeout": TOOL_TIMEOUT_MS, "continue_loop_on_deny": true},
            "permission": permission_rules(turn.context.permissions.default),
        });
        // A title would be one more thing to ask the model for.
        let title = format!("{}@{}", turn.context.identity.agent, turn.context.identity.instance);
        invocation.args(["run", "--pure", "--format", "json", "--title", &title]);
        invocation.args(["--print-logs", "--log-level", "ERROR"]);
        if let Some(model) = &turn.model {
            if let Some((provider, name)) = model.split_once('/') {
                settings["provider"] = json!({provider: provider_settings(provider, name, turn)});
            }
            invocation.args(["--model", model]);
        }
        if let Some(last) = &self.last {
            invocation.args(["--session", &last.id]);
        }
        invocation.env("OPENCODE_CONFIG_CONTENT", &settings.to_string());
        // It would write into the project's `.opencode`.
        invocation.env("OPENCODE_DISABLE_PROJECT_CONFIG", "1");
        invocation.env("OPENCODE_DISABLE_AUTOUPDATE", "1");
        invocation.env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1");
        if let CredentialMode::Isolated = turn.mode {
            let own = folders.keep.join("opencode");
            for (name, folder) in [
                ("XDG_CONFIG_HOME", "config"),
                ("XDG_DATA_HOME", "data"),
                ("XDG_STATE_HOME", "state"),
                ("XDG_CACHE_HOME", "cache"),
                ("npm_config_cache", "npm"),
                // Where it looks for `.opencode` of a person.
                ("OPENCODE_TEST_HOME", "home"),
            ] {
                invocation.env(name, &private_files::create_private_folder(&own.join(folder))?);
            }
            for elsewhere in ["OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"] {
                invocation.env(elsewhere, "");
            }
            invocation.env("OPENCODE_DISABLE_CLAUDE_CODE", "1");
            invocation.env("OPENCODE_DISABLE_MODELS_FETCH", "1");
            invocation.env(MODEL_KEY, turn.endpoint.key.as_deref().unwrap_or_default());
        }
        Ok(invocation)
    }

    fn parse_line(&mut self, line: &str) -> Vec<ProgramEvent> {
        let Ok(OpencodeLine { session, event }) = serde_json::from_str(line) else {
            return Vec::new();
        };
        self.provider_failure = None;
        let mut heard = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            heard.push(ProgramEvent::Session(json!(OpencodeSession { id: session })));
        }
        match event {
            OpencodeEvent::StepStart => self.answer.clear(),
            OpencodeEvent::Text { part: OpencodeText { text } } => {
                self.answer.push_str(&text);
                heard.push(ProgramEvent::Text(text));
            }
            OpencodeEvent::ToolUse { part: OpencodeToolUse { tool, id, state } } => {
                let tool = canonical_tool_name(&tool);
                let result = match state.status.as_str() {
                    "completed" => ToolResult::Done(state.output),
                    _ => ToolResult::Failed(state.error),
                };
                let called = ProgramEvent::ToolCalled {
                    id: id.clone(),
                    tool: tool.clone(),
                    args: state.input,
                };
                heard.extend([called, ProgramEvent::ToolAnswered { id, tool, result }]);
            }
            OpencodeEvent::StepFinish { part: OpencodeStepFinish { reason, tokens, cost } } => {
                self.reason = Some(reason);
                heard.push(ProgramEvent::Usage(tokens.usage(cost)));
            }
            OpencodeEvent::Error { error } => self.error = Some(error),
            OpencodeEvent::Other => {}
        }
        heard
    }

    fn parse_log_line(&mut self, line: &str) -> Option<Vec<ProgramEvent>> {
        if !STREAM_ERROR_MARKERS.iter().all(|part| line.contains(part)) {
            return None;
        }
        let why = line.split_once(" error.error=").map_or(line, |(_, why)| why);
        let why = serde_json::from_str(why).unwrap_or_else(|_| why.to_owned());
        let before = self.provider_failure.take();
        let times = before.as_ref().map_or(1, |(_, times, _)| times + 1);
        self.provider_failure = Some((why.clone(), times, Instant::now()));
        if times > MAX_RETRIES {
            return Some(vec![ProgramEvent::GaveUp(TurnFailure::new(
                FailureClass::Transient,
                why,
            ))]);
        }
        // The first is no try yet: what is in vain for good follows it at once.
        Some(before.map(|(why, ..)| ProgramEvent::Retry(why)).into_iter().collect())
    }

    fn wait_limit(&self) -> Option<(Instant, TurnFailure)> {
        let (why, _, since) = self.provider_failure.as_ref()?;
        Some((*since + MAX_RETRY_DELAY, TurnFailure::new(FailureClass::Transient, why)))
    }

    fn outcome(&mut self, exit: &ProgramExit) -> ProgramOutcome {
        match (self.error.take(), self.reason.take()) {
            (Some(error), _) => ProgramOutcome::Failed(error.into_failure()),
            (None, Some(reason)) if reason != "tool-calls" && exit.status.success() => {
                ProgramOutcome::Answered(std::mem::take(&mut self.answer))
            }
            (None, None) if self.last.is_some() && exit.stderr_contains(SESSION_LOST_MESSAGE) => {
                ProgramOutcome::SessionLost
            }
            (None, Some(_) | None) => ProgramOutcome::Failed(exit.crash_failure()),
        }
    }
}

impl OpencodeTokens {
    fn usage(&self, cost: f64) -> Usage {
        let Self { total, input, output, reasoning, cache } = self;
        let input_tokens = input + cache.read + cache.write;
        // Whether what it thought is in what it wrote differs between providers; it is in the total.
        let output_tokens =
            total.map_or(output + reasoning, |all| all.saturating_sub(input_tokens));
        // Nothing is also what it says when it knows no price.
        let cost_micros = Some(usd_to_micros(cost)).filter(|micros| *micros > 0);
        Usage { input_tokens, output_tokens, cost_micros, cost_reckoned: false }
    }
}

impl OpencodeError {
    fn into_failure(self) -> TurnFailure {
        let Self { name, data: OpencodeErrorData { message, status_code, response_body } } = self;
        let body: Option<Value> = serde_json::from_str(&response_body).ok();
        let code = body.as_ref().and_then(|body| body.pointer("/error/code")?.as_str());
        let class = match (&*name, status_code, code) {
            ("APIError", _, Some("insufficient_quota")) => FailureClass::Billing,
            ("APIError", _, Some("context_length_exceeded")) | ("ContextOverflowError", ..) => {
                FailureClass::ContextOverflow
            }
            ("APIError", Some(status), _) => class_of_status(status),
            // There was no answer, or it broke off.
            ("APIError", None, _) => FailureClass::Transient,
            ("ProviderAuthError", ..) => FailureClass::Auth,
            _ => FailureClass::Fatal,
        };
        TurnFailure::new(class, if message.is_empty() { name } else { message })
    }
}

/// What it has to know of a provider. One that only the environment knows speaks as most do.
fn provider_settings(provider: &str, name: &str, turn: &ProgramTurn<'_>) -> Value {
    let ModelEndpoint { base_url, key } = &turn.endpoint;
    let mut options = Map::new();
    let mut settings = json!({});
    if let Some(url) = base_url {
        let url = url.trim_end_matches('/');
        let path = if let Some(provider) = find_provider(provider) {
            provider.version_path
        } else {
            settings["npm"] = json!("@ai-sdk/openai-compatible");
            settings["models"] = json!({name: {}});
            ""
        };
        let url = url.strip_suffix(path).unwrap_or(url);
        options.insert("baseURL".to_owned(), json!(format!("{url}{path}")));
    }
    if turn.mode == CredentialMode::Isolated && key.is_some() {
        options.insert("apiKey".to_owned(), json!(format!("{{env:{MODEL_KEY}}}")));
    }
    settings["options"] = Value::Object(options);
    settings
}

/// What it may do by itself. The last that fits holds, and they are told in the order of the alphabet.
fn permission_rules(default: PermissionAction) -> Value {
    let ours = format!("{TEAM_SERVER_NAME}_*");
    match default {
        PermissionAction::Allow => json!({"*": "allow", ours: "allow"}),
        PermissionAction::Ask => json!({ours: "allow"}),
        PermissionAction::Deny => {
            let mut rules = json!({"*": "deny", ours: "allow"});
            for tool in READ_ONLY_TOOLS {
                rules[tool] = json!("allow");
            }
            rules
        }
    }
}

/// A tool's name as Claude spells it: events of one team look alike.
fn canonical_tool_name(tool: &str) -> String {
    match tool.strip_prefix(TEAM_SERVER_NAME).and_then(|tool| tool.strip_prefix('_')) {
        Some(tool) => format!("mcp__{TEAM_SERVER_NAME}__{tool}"),
        None => tool.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_told_so_that_the_last_that_fits_is_the_one_that_is_meant() {
        let told = permission_rules(PermissionAction::Deny).to_string();
        assert!(told.starts_with("{\"*\":\"deny\","), "{told}");
        assert!(told.ends_with("\"team_*\":\"allow\"}"), "{told}");
    }

    #[test]
    fn what_was_thought_is_counted_once_and_a_price_that_is_not_known_is_none() {
        let tokens = |text| serde_json::from_str::<OpencodeTokens>(text).unwrap();
        let all = tokens(
            r#"{"total":180,"input":100,"output":10,"reasoning":5,"cache":{"read":50,"write":20}}"#,
        );
        let usage = all.usage(0.0);
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.cost_micros), (170, 10, None));
        let usage = tokens(r#"{"input":100,"output":10,"reasoning":5}"#).usage(0.000_002);
        assert_eq!(
            (usage.input_tokens, usage.output_tokens, usage.cost_micros),
            (100, 15, Some(2))
        );
    }
}
