//! Gemini CLI: `gemini -o stream-json`, which writes a stream of JSON events and ends.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::Path,
};

use agent_worker_protocol::{CredentialMode, Effort, FailureClass};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::program::{
    ProgramAdapter, ProgramEvent, ProgramExit, ProgramInvocation, ProgramOutcome, ProgramTurn,
    class_of_status, endpoint::provider_url, file_mentions::escape_file_mentions, private_files,
};
use crate::{
    attachments::attachment_folder,
    model::ToolResult,
    pricing::ModelTokenUsage,
    tool_server::{TEAM_SERVER_NAME, ToolServerEndpoint},
    turn::{TurnContext, TurnFailure, TurnLimits},
};

/// Error for a response that broke off but resembles a complete one.
const STREAM_CUT_MESSAGE: &str = "Model stream ended without a finish reason.";
/// Maximum number of requests by the program. Its default retries for minutes without reporting that.
const MAX_ATTEMPTS: u32 = 3;

/// Complaints of the program about an unknown conversation. A conversation whose first answer broke off was never saved.
const SESSION_LOST_MESSAGES: [&str; 2] =
    ["Invalid session identifier", "No previous sessions found"];
/// Exit status of the program if it has neither a key nor a login.
const EXIT_NOT_LOGGED_IN: i32 = 41;
/// Complaint of the program about a reached limit of its steps.
const STEP_LIMIT_MESSAGE: &str = "Reached max session turns";

/// State of reading the program's output.
#[derive(Default)]
struct Gemini {
    last: Option<GeminiSession>,
    answer: String,
    /// Tool names of the open calls, by call id.
    open_calls: HashMap<String, String>,
    /// The last complaint of the program. Some results give no other reason.
    last_error: Option<String>,
    end: Option<Result<(), String>>,
}

/// The data that the next turn needs to continue.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct GeminiSession {
    id: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum GeminiEvent {
    Init {
        session_id: String,
    },
    Message {
        role: String,
        content: String,
    },
    ToolUse {
        tool_name: String,
        tool_id: String,
        #[serde(default)]
        parameters: Value,
    },
    ToolResult {
        tool_id: String,
        status: String,
        #[serde(default)]
        output: Value,
    },
    /// An error or a warning; the result shows if the turn failed.
    Error {
        message: String,
    },
    Result {
        status: String,
        error: Option<GeminiError>,
        #[serde(default)]
        stats: GeminiStats,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct GeminiError {
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GeminiStats {
    #[serde(flatten)]
    all: GeminiTokens,
    models: BTreeMap<String, GeminiTokens>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GeminiTokens {
    /// Total tokens, including reasoning.
    total_tokens: u64,
    /// Input tokens, including cached ones.
    input_tokens: u64,
    cached: u64,
    output_tokens: u64,
}

/// Creates the adapter of one process.
pub(super) fn adapter(session: Option<&Value>) -> Box<dyn ProgramAdapter> {
    let last = session.and_then(|session| GeminiSession::deserialize(session).ok());
    Box::new(Gemini { last, ..Gemini::default() })
}

impl ProgramAdapter for Gemini {
    fn invocation(&mut self, turn: &ProgramTurn<'_>) -> io::Result<ProgramInvocation> {
        let TurnContext { request, folders, limits, .. } = turn.context;
        let mut invocation = ProgramInvocation::default();
        let folder = &turn.context.child_env.cwd;
        let mut settings = mcp_settings(turn.tool_server);
        add_limit_settings(&mut settings, limits);
        if let Some(effort) = request.effort {
            add_effort_settings(&mut settings, effort);
        }
        match turn.mode {
            CredentialMode::Isolated => {
                let home = folders.keep.join("gemini");
                let own = home.join(".gemini");
                private_files::create_private_folder(&own)?;
                add_key_settings(&mut settings);
                private_files::write_private_file(&own, "settings.json", &settings.to_string())?;
                private_files::write_private_file(
                    &own,
                    "GEMINI.md",
                    &fenced(&request.system_prompt),
                )?;
                invocation.env("GEMINI_CLI_HOME", &private_files::create_private_folder(&home)?);
                invocation.stdin = escape_file_mentions(&request.prompt, folder);
            }
            CredentialMode::Login => {
                let settings = private_files::write_private_file(
                    &folders.attempt,
                    "gemini.json",
                    &settings.to_string(),
                )?;
                invocation.env("GEMINI_CLI_SYSTEM_SETTINGS_PATH", &settings);
                // The program has no option for a system prompt in addition to the user's own.
                let prompt = format!("{}\n\n{}", request.system_prompt, request.prompt);
                invocation.stdin = escape_file_mentions(&prompt, folder);
            }
        }
        invocation.args(["-o", "stream-json", "--skip-trust"]);
        invocation.args(["--allowed-mcp-server-names", TEAM_SERVER_NAME]);
        add_attachment_folder(turn, &mut invocation);
        if let Some(model) = &turn.model {
            invocation.args(["--model", model]);
        }
        if let Some(last) = &self.last {
            invocation.args(["--resume", &last.id]);
        }
        // If its provider fails, the program writes the conversation to this folder, readable by every user.
        invocation.env("TMPDIR", &private_files::create_temp_folder(folders)?);
        // The program would otherwise start itself a second time, needlessly.
        invocation.env("GEMINI_CLI_NO_RELAUNCH", "true");
        set_model_endpoint(turn, &mut invocation);
        Ok(invocation)
    }

    fn parse_line(&mut self, line: &str) -> Vec<ProgramEvent> {
        match serde_json::from_str(line) {
            Ok(GeminiEvent::Init { session_id }) => {
                vec![ProgramEvent::Session(json!(GeminiSession { id: session_id }))]
            }
            Ok(GeminiEvent::Message { role, content }) if role == "assistant" => {
                self.answer.push_str(&content);
                vec![ProgramEvent::Text(content)]
            }
            Ok(GeminiEvent::ToolUse { tool_name, tool_id, parameters }) => {
                // The text so far preceded a call and is not the answer.
                self.answer.clear();
                let tool = canonical_tool_name(&tool_name);
                self.open_calls.insert(tool_id.clone(), tool.clone());
                vec![ProgramEvent::ToolCalled { id: tool_id, tool, args: parameters }]
            }
            Ok(GeminiEvent::ToolResult { tool_id, status, output }) => {
                let tool = self.open_calls.remove(&tool_id).unwrap_or_default();
                let text = match output {
                    Value::String(text) => text,
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                let result = match status.as_str() {
                    "success" => ToolResult::Done(text),
                    _ => ToolResult::Failed(text),
                };
                vec![ProgramEvent::ToolAnswered { id: tool_id, tool, result }]
            }
            Ok(GeminiEvent::Error { message }) => {
                self.last_error = Some(message);
                Vec::new()
            }
            Ok(GeminiEvent::Result { status, error, stats }) => {
                let complaint = self.last_error.take().unwrap_or_else(|| status.clone());
                let problem = error.map_or(complaint, |error| error.message);
                self.end = Some(if status == "success" { Ok(()) } else { Err(problem) });
                stats.into_usage_event().into_iter().collect()
            }
            Ok(GeminiEvent::Message { .. } | GeminiEvent::Other) | Err(_) => Vec::new(),
        }
    }

    fn outcome(&mut self, exit: &ProgramExit) -> ProgramOutcome {
        match self.end.take() {
            Some(Ok(())) if exit.status.success() => {
                ProgramOutcome::Answered(std::mem::take(&mut self.answer))
            }
            Some(Err(why)) if why.starts_with(STEP_LIMIT_MESSAGE) => {
                let why = "the model still called tools at the limit of its steps (max_steps)";
                ProgramOutcome::Failed(TurnFailure::new(FailureClass::Fatal, why))
            }
            Some(Err(why)) => {
                ProgramOutcome::Failed(TurnFailure::new(failure_class(&why, exit), why))
            }
            None if self.last.is_some()
                && SESSION_LOST_MESSAGES.iter().any(|lost| exit.stderr_contains(lost)) =>
            {
                ProgramOutcome::SessionLost
            }
            None if exit.status.code() == Some(EXIT_NOT_LOGGED_IN) => {
                ProgramOutcome::Failed(TurnFailure::new(FailureClass::Auth, exit.description()))
            }
            Some(Ok(())) | None => ProgramOutcome::Failed(exit.crash_failure()),
        }
    }
}

impl GeminiStats {
    fn into_usage_event(self) -> Option<ProgramEvent> {
        let mut shares: Vec<_> = self.models.into_iter().map(GeminiTokens::model_usage).collect();
        if shares.is_empty() {
            let unknown_model = String::new();
            shares.push(GeminiTokens::model_usage((unknown_model, self.all)));
        }
        shares.retain(|share| share.input + share.output > 0);
        (!shares.is_empty()).then_some(ProgramEvent::UsageByModel(shares))
    }
}

impl GeminiTokens {
    fn model_usage((model, tokens): (String, Self)) -> ModelTokenUsage {
        let Self { total_tokens, input_tokens: input, cached, output_tokens } = tokens;
        // Reasoning tokens cost the same as output tokens.
        let output = total_tokens.saturating_sub(input).max(output_tokens);
        ModelTokenUsage { model: Some(model), input, from_cache: cached, into_cache: 0, output }
    }
}

/// Returns the settings that the program needs in addition to the user's.
fn mcp_settings(endpoint: &ToolServerEndpoint) -> Value {
    let headers = json!({"Authorization": format!("Bearer {}", endpoint.token)});
    let mut settings = general_settings();
    // Without it, the program would search all folders for a file whose name contains that of an agent.
    settings["context"] = json!({"fileFiltering": {"enableRecursiveFileSearch": false}});
    settings["mcpServers"] = json!({TEAM_SERVER_NAME: {"type": "http", "url": endpoint.url, "headers": headers, "trust": true}});
    settings
}

fn general_settings() -> Value {
    // In its plan mode, which its model may enter without asking, the program offers no tools of servers.
    let general = json!({
        "enableAutoUpdate": false, "maxAttempts": MAX_ATTEMPTS, "plan": {"enabled": false},
    });
    json!({ "general": general })
}

/// Adds the limits of the turn: the program counts a model call as a turn, and every chat model extends `chat-base`.
fn add_limit_settings(settings: &mut Value, limits: &TurnLimits) {
    if let Some(steps) = limits.max_steps {
        settings["model"] = json!({"maxSessionTurns": steps});
    }
    if let Some(tokens) = limits.max_tokens {
        let limited = json!({"generateContentConfig": {"maxOutputTokens": tokens}});
        let every_chat = json!({"match": {"model": "chat-base"}, "modelConfig": limited});
        add_model_override(settings, every_chat);
    }
}

/// Adds the effort of reasoning. The models of version 2.5 take a budget of tokens, and those of version 3 a level.
fn add_effort_settings(settings: &mut Value, effort: Effort) {
    let (budget, level) = match effort {
        Effort::Low => (1_024, "LOW"),
        Effort::Medium => (8_192, "MEDIUM"),
        Effort::High | Effort::Xhigh | Effort::Max => (24_576, "HIGH"),
    };
    let thinking = |config: Value| json!({"generateContentConfig": {"thinkingConfig": config}});
    for (models, config) in [
        ("chat-base-2.5", json!({ "thinkingBudget": budget })),
        ("chat-base-3", json!({ "thinkingLevel": level })),
    ] {
        let limited = json!({"match": {"model": models}, "modelConfig": thinking(config)});
        add_model_override(settings, limited);
    }
}

fn add_model_override(settings: &mut Value, one: Value) {
    match &mut settings["modelConfigs"]["customOverrides"] {
        Value::Array(all) => all.push(one),
        none => *none = json!([one]),
    }
}

/// Adds the settings of the isolated mode: the program uses the key and sends no usage statistics.
fn add_key_settings(settings: &mut Value) {
    settings["security"] = json!({"auth": {"selectedType": "gemini-api-key"}});
    settings["privacy"] = json!({"usageStatisticsEnabled": false});
}

/// Sets the endpoint of the model.
fn set_model_endpoint(turn: &ProgramTurn<'_>, invocation: &mut ProgramInvocation) {
    match (&turn.endpoint.base_url, turn.mode) {
        (Some(url), _) => invocation.env("GOOGLE_GEMINI_BASE_URL", url),
        (None, CredentialMode::Isolated) => {
            // Set explicitly, because a file `.env` in the project could name another endpoint, which would get the
            // key.
            invocation.env("GOOGLE_GEMINI_BASE_URL", provider_url("google"));
        }
        (None, CredentialMode::Login) => {}
    }
}

/// Writes the settings of an agent that gets its tools through the protocol. In isolated mode its folder already
/// exists.
pub(in crate::program) fn write_acp_settings(
    turn: &ProgramTurn<'_>,
    invocation: &mut ProgramInvocation,
) -> io::Result<()> {
    let mut settings = general_settings();
    if let Some(home) = invocation.env.get("GEMINI_CLI_HOME") {
        let own = Path::new(home).join(".gemini");
        private_files::create_private_folder(&own)?;
        add_key_settings(&mut settings);
        private_files::write_private_file(&own, "settings.json", &settings.to_string())?;
    } else {
        let settings = private_files::write_private_file(
            &turn.context.folders.attempt,
            "gemini.json",
            &settings.to_string(),
        )?;
        invocation.env("GEMINI_CLI_SYSTEM_SETTINGS_PATH", &settings);
    }
    add_attachment_folder(turn, invocation);
    set_model_endpoint(turn, invocation);
    Ok(())
}

/// Adds the folder of attached files: the program reads no file outside of its folders.
fn add_attachment_folder(turn: &ProgramTurn<'_>, invocation: &mut ProgramInvocation) {
    if let Some(folder) = attachment_folder(&turn.context.request.attachments) {
        invocation.args(["--include-directories", &folder.to_string_lossy()]);
    }
}

/// Fences a text, because the program expands no mention inside a fence. The fence is longer than any in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}\n")
}

/// Returns a tool's name in Claude's spelling, so that all events of a team use one form.
fn canonical_tool_name(tool: &str) -> String {
    match tool
        .strip_prefix("mcp_")
        .and_then(|tool| tool.strip_prefix(TEAM_SERVER_NAME)?.strip_prefix('_'))
    {
        Some(tool) => format!("mcp__{TEAM_SERVER_NAME}__{tool}"),
        None => tool.to_owned(),
    }
}

/// Returns the class of a failure by the provider's response inside the error, or by the exit status, which is the
/// provider's status as far as it fits into a byte; never by the message.
fn failure_class(error: &str, exit: &ProgramExit) -> FailureClass {
    if error == STREAM_CUT_MESSAGE {
        return FailureClass::Transient;
    }
    let Some(answer) = error.strip_prefix("[API Error: ") else { return FailureClass::Fatal };
    let answer: Option<Value> =
        answer.strip_suffix(']').and_then(|answer| serde_json::from_str(answer).ok());
    // Google returns 400 for an unknown key.
    if answer.as_ref().is_some_and(|answer| has_reason(answer, "API_KEY_INVALID")) {
        return FailureClass::Auth;
    }
    let code = answer.and_then(|answer| answer.pointer("/error/code")?.as_u64());
    let status = exit.status.code().and_then(|code| u64::try_from(code).ok());
    match (code, status) {
        (Some(code), _) => class_of_status(code),
        (None, Some(low @ 144..=255)) => class_of_status(low + 256),
        // The provider did not answer, or its response broke off.
        (None, _) => FailureClass::Transient,
    }
}

/// Returns true if a response contains the reason, also inside a nested response that is stored as text.
pub(in crate::program) fn has_reason(answer: &Value, wanted: &str) -> bool {
    match answer {
        Value::Object(fields) => {
            fields.get("reason").is_some_and(|reason| reason == wanted)
                || fields.values().any(|value| has_reason(value, wanted))
        }
        Value::Array(items) => items.iter().any(|item| has_reason(item, wanted)),
        Value::String(text) if text.starts_with('{') => {
            serde_json::from_str(text).is_ok_and(|inner| has_reason(&inner, wanted))
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_every_one_in_it() {
        assert_eq!(fenced("ask @lead"), "```\nask @lead\n```\n");
        assert_eq!(fenced("a `b` ````c"), "`````\na `b` ````c\n`````\n");
    }
}
