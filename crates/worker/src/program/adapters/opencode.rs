//! opencode: `opencode run --format json`, which writes a stream of JSON events and ends.
//!
//! The program repeats some requests forever and reports that only in its log, so the worker limits that time.

use std::io;

use agent_worker_backends::find_provider;
use agent_worker_protocol::{CredentialMode, FailureClass, Keyword as _, PermissionAction, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::program::{
    ProgramAdapter, ProgramEvent, ProgramExit, ProgramInvocation, ProgramOutcome, ProgramTurn,
    StderrLine, class_of_status,
    endpoint::ModelEndpoint,
    private_files,
    stream_errors::{StreamErrorStep, StreamErrors},
    usd_to_micros,
};
use crate::{
    attachments::attachment_folder,
    model::ToolResult,
    tool_server::TEAM_SERVER_NAME,
    turn::{TurnContext, TurnFailure},
};

/// Variable that the settings name, so that they contain no key.
const MODEL_KEY: &str = "AGENT_WORKER_MODEL_KEY";
/// Timeout of the program for the team's tools. Its default is one minute, and a restart of the daemon may take
/// longer.
const TOOL_TIMEOUT_MS: u64 = 600_000;
/// Complaint of the program about an unknown conversation.
const SESSION_LOST_MESSAGE: &str = "Session not found";
/// Tools that stay allowed when the default permission is `deny`.
const READ_ONLY_TOOLS: [&str; 4] = ["glob", "grep", "list", "read"];

/// State of reading the program's output.
#[derive(Default)]
struct Opencode {
    last: Option<OpencodeSession>,
    has_begun: bool,
    /// Text of the current step.
    answer: String,
    /// Reason for the end of the last step.
    reason: Option<String>,
    error: Option<OpencodeError>,
    stream_errors: StreamErrors,
}

/// The data that the next turn needs to continue.
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
    /// A call together with its result.
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

/// The program's name of the error, and the provider's message.
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

/// Creates the adapter of one process.
pub(super) fn adapter(session: Option<&Value>) -> Box<dyn ProgramAdapter> {
    let last = session.and_then(|session| OpencodeSession::deserialize(session).ok());
    Box::new(Opencode { last, ..Opencode::default() })
}

impl ProgramAdapter for Opencode {
    fn invocation(&mut self, turn: &ProgramTurn<'_>) -> io::Result<ProgramInvocation> {
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
            // The instructions of the project, which the program does not find itself with the project
            // configuration disabled.
            "instructions": [system, turn.context.child_env.cwd.join("AGENTS.md")],
            "mcp": {TEAM_SERVER_NAME: {
                "type": "remote", "url": turn.tool_server.url, "headers": headers, "oauth": false, "enabled": true,
                "timeout": TOOL_TIMEOUT_MS,
            }},
            // The model reads a refusal and may do something else.
            "experimental": {"mcp_timeout": TOOL_TIMEOUT_MS, "continue_loop_on_deny": true},
            "permission": turn_permissions(turn.context),
        });
        // Without a title the program would request one from the model.
        let title = format!("{}@{}", turn.context.identity.agent, turn.context.identity.instance);
        invocation.args(["run", "--pure", "--format", "json", "--title", &title]);
        invocation.args(["--print-logs", "--log-level", "INFO"]);
        if let Some(model) = &turn.model {
            if let Some((provider, name)) = model.split_once('/') {
                settings["provider"] = json!({provider: provider_settings(provider, name, turn)});
            }
            invocation.args(["--model", model]);
        }
        if let Some(effort) = request.effort {
            invocation.args(["--variant", effort.word()]);
        }
        if let Some(last) = &self.last {
            invocation.args(["--session", &last.id]);
        }
        invocation.env("OPENCODE_CONFIG_CONTENT", &settings.to_string());
        // The program would write into the project's `.opencode`.
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
                // The folder in which the program searches for `.opencode` of a user.
                ("OPENCODE_TEST_HOME", "home"),
            ] {
                invocation.env(name, &private_files::create_private_folder(&own.join(folder))?);
            }
            for elsewhere in ["OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"] {
                invocation.env(elsewhere, "");
            }
            invocation.env("OPENCODE_DISABLE_CLAUDE_CODE", "1");
            invocation.env("OPENCODE_DISABLE_EXTERNAL_SKILLS", "1");
            invocation.env("OPENCODE_DISABLE_MODELS_FETCH", "1");
            invocation.env(MODEL_KEY, turn.endpoint.key.as_deref().unwrap_or_default());
        }
        Ok(invocation)
    }

    fn parse_line(&mut self, line: &str) -> Vec<ProgramEvent> {
        let Ok(OpencodeLine { session, event }) = serde_json::from_str(line) else {
            return Vec::new();
        };
        self.stream_errors.reset();
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
                heard.extend([ProgramEvent::ToolsEnded, ProgramEvent::Usage(tokens.usage(cost))]);
            }
            OpencodeEvent::Error { error } => self.error = Some(error),
            OpencodeEvent::Other => {}
        }
        heard
    }

    fn has_routine_log(&self) -> bool {
        true
    }

    fn parse_stderr_line(&mut self, line: &str) -> StderrLine {
        match self.stream_errors.note_line(line) {
            Some(StreamErrorStep::First) => StderrLine::LogEntry(Vec::new()),
            Some(StreamErrorStep::Retry(event)) => StderrLine::LogEntry(vec![event]),
            Some(StreamErrorStep::GiveUp(failure)) => {
                StderrLine::LogEntry(vec![ProgramEvent::GaveUp(failure)])
            }
            None if !is_routine(line) => StderrLine::Complaint,
            None if is_tool_start(line) => {
                StderrLine::RoutineEntry(vec![ProgramEvent::ToolsStarted])
            }
            None => StderrLine::RoutineEntry(Vec::new()),
        }
    }

    fn wait_limit(&self) -> Option<(Instant, TurnFailure)> {
        self.stream_errors.wait_limit()
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
        // Providers differ in counting reasoning as output; the total includes it.
        let output_tokens =
            total.map_or(output + reasoning, |all| all.saturating_sub(input_tokens));
        // The program also reports 0 for an unknown price.
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
            // The provider did not answer, or its response broke off.
            ("APIError", None, _) => FailureClass::Transient,
            ("ProviderAuthError", ..) => FailureClass::Auth,
            _ => FailureClass::Fatal,
        };
        TurnFailure::new(class, if message.is_empty() { name } else { message })
    }
}

/// Returns the settings of a provider. A provider that only the environment defines gets the `OpenAI`-compatible
/// protocol, which most providers speak.
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

/// Returns the permission rules of a turn.
fn turn_permissions(context: &TurnContext) -> Value {
    let mut rules = permission_rules(context.permissions.default_action());
    if let Some(folder) = attachment_folder(&context.request.attachments) {
        // The program refuses to read a file outside of its folder.
        let pattern = folder.join("*").to_string_lossy().into_owned();
        rules["external_directory"] = json!({pattern: "allow"});
    }
    rules
}

/// Returns the permission rules. The last matching rule applies, and the rules are serialized in alphabetical
/// order.
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

/// Returns true for a line of the program's log that is no error and no warning.
fn is_routine(line: &str) -> bool {
    line.starts_with("timestamp=") && line.split(' ').nth(1) == Some("level=INFO")
}

/// Returns true for the line that precedes the start of a tool. The output has the call only together with its result.
fn is_tool_start(line: &str) -> bool {
    line.contains(" message=evaluated permission=") && line.contains(" action.action=allow ")
}

/// Returns a tool's name in Claude's spelling, so that all events of a team use one form.
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
    fn rules_are_ordered_for_a_program_that_applies_the_last_match() {
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
