//! Codex: `codex exec`, which writes a stream of JSON events and ends.

use std::{io, time::Duration};

use agent_worker_protocol::{CredentialMode, FailureClass, PermissionAction};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::program::{
    ModelEndpoint, ProgramAdapter, ProgramEvent, ProgramExit, ProgramInvocation, ProgramOutcome,
    ProgramTurn, class_of_status, endpoint::provider_url, private_files,
};
use crate::{
    clocks::time_of_day,
    model::ToolResult,
    pricing::ModelTokenUsage,
    tool_server::TEAM_SERVER_NAME,
    turn::{TurnContext, TurnFailure},
};

/// Variables that its settings name, so that nothing secret is among its arguments.
pub(in crate::program) const MODEL_KEY: &str = "AGENT_WORKER_MODEL_KEY";
const TOOLS_KEY: &str = "AGENT_WORKER_TOOLS_KEY";
/// What one argument may have, with room for its name.
const MAX_ARGUMENT_BYTES: usize = 120 * 1024;

/// Its own tools, as events call them.
const SHELL_TOOL_NAME: &str = "shell";
const PATCH_TOOL_NAME: &str = "apply_patch";
const SEARCH_TOOL_NAME: &str = "web_search";
/// Its errors begin so, and then comes the provider's status.
const STATUS_PREFIXES: [&str; 2] = ["unexpected status ", "exceeded retry limit, last status: "];
/// Its error for an answer that broke off.
const STREAM_DISCONNECTED: &str = "stream disconnected before completion";
/// How often it may ask its provider again by itself.
const MAX_RETRIES: u32 = 2;
/// A provider that wants a longer pause gets it from us.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);
/// What lets it log each answer of its provider, and where such a line has what it says.
const LOG_FILTER_VARIABLE: (&str, &str) = ("RUST_LOG", "error,codex_http_client::client=debug");
const RESPONSE_LOG_MARKER: &str = " codex_http_client::client: Request completed ";
/// What it complains of when it knows no such conversation.
const SESSION_LOST_MESSAGE: &str = "no rollout found for thread id";

/// What it has said so far.
#[derive(Default)]
struct Codex {
    last: Option<CodexThread>,
    id: Option<String>,
    answer: Option<String>,
    end: Option<Result<(), String>>,
}

/// What the next turn needs to go on.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct CodexThread {
    id: String,
    /// By all of it so far: it counts from the beginning every time.
    #[serde(flatten)]
    usage: CodexUsage,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct CodexUsage {
    /// With those that the cache has to do with.
    #[serde(rename = "input_tokens")]
    input: u64,
    #[serde(rename = "cached_input_tokens")]
    from_cache: u64,
    #[serde(rename = "cache_write_input_tokens")]
    into_cache: u64,
    #[serde(rename = "output_tokens")]
    output: u64,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum CodexEvent {
    #[serde(rename = "thread.started")]
    ThreadStarted { thread_id: String },
    #[serde(rename = "item.started")]
    ItemStarted { item: CodexItem },
    #[serde(rename = "item.completed")]
    ItemCompleted { item: CodexItem },
    #[serde(rename = "turn.completed")]
    TurnCompleted { usage: CodexUsage },
    #[serde(rename = "turn.failed")]
    TurnFailed { error: CodexError },
    /// It asks again; or what the turn's failure says once more.
    #[serde(rename = "error")]
    ErrorMessage { message: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct CodexError {
    message: String,
}

#[derive(Deserialize)]
struct CodexItem {
    id: String,
    #[serde(flatten)]
    kind: CodexItemKind,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CodexItemKind {
    AgentMessage {
        text: String,
    },
    CommandExecution {
        command: String,
        #[serde(default)]
        aggregated_output: String,
        #[serde(default)]
        exit_code: Option<i64>,
    },
    FileChange {
        #[serde(default)]
        changes: Value,
        #[serde(default)]
        status: String,
    },
    WebSearch {
        #[serde(default)]
        query: String,
    },
    /// Ours, and those of servers that the person has.
    McpToolCall {
        server: String,
        tool: String,
        #[serde(default)]
        arguments: Value,
        #[serde(default)]
        result: Option<Value>,
        #[serde(default)]
        error: Option<CodexError>,
    },
    #[serde(other)]
    Other,
}

/// What it may do to files, where that is not for its own settings to say. It asks for nothing: what its sandbox keeps it
/// from fails.
fn sandbox_mode(default: PermissionAction) -> Option<&'static str> {
    match default {
        PermissionAction::Allow => Some("workspace-write"),
        PermissionAction::Deny => Some("read-only"),
        PermissionAction::Ask => None,
    }
}

/// Makes the adapter of one process.
pub(super) fn adapter(session: Option<&Value>) -> Box<dyn ProgramAdapter> {
    let last = session.and_then(|session| CodexThread::deserialize(session).ok());
    Box::new(Codex { last, ..Codex::default() })
}

impl ProgramAdapter for Codex {
    fn invocation(&self, turn: &ProgramTurn<'_>) -> io::Result<ProgramInvocation> {
        let TurnContext { request, folders, .. } = turn.context;
        let mut invocation =
            ProgramInvocation { stdin: request.prompt.clone(), ..ProgramInvocation::default() };
        invocation.args(["exec", "--json", "--skip-git-repo-check"]);
        let mut set = |key: &str, value: String| {
            invocation.args.extend(["-c".to_owned(), format!("{key}={value}")]);
        };
        set(
            &format!("mcp_servers.{TEAM_SERVER_NAME}"),
            format!(
                "{{url={},bearer_token_env_var={},required=true,default_tools_approval_mode=\"approve\"}}",
                toml_string(&turn.tool_server.url),
                toml_string(TOOLS_KEY)
            ),
        );
        let instructions = toml_string(&request.system_prompt);
        if instructions.len() > MAX_ARGUMENT_BYTES {
            let why = "codex takes no system prompt over 120 KiB";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        set("developer_instructions", instructions);
        if let Some(sandbox) = sandbox_mode(turn.context.permissions.default) {
            set("sandbox_mode", toml_string(sandbox));
        }
        if let CredentialMode::Isolated = turn.mode {
            set("model_provider", toml_string("given"));
            set("model_providers.given", provider_settings(&turn.endpoint));
        }
        if let Some(model) = &turn.model {
            invocation.args(["--model", model]);
        }
        invocation.args(["--disable", "plugins", "--disable", "apps"]);
        invocation.env(TOOLS_KEY, &turn.tool_server.token);
        // Its own commands get none of it.
        invocation.args(["-c", "shell_environment_policy.exclude=[\"RUST_LOG\"]"]);
        invocation.env(LOG_FILTER_VARIABLE.0, LOG_FILTER_VARIABLE.1);
        if let CredentialMode::Isolated = turn.mode {
            invocation.env(
                "CODEX_HOME",
                &private_files::create_private_folder(&folders.keep.join("codex"))?,
            );
            invocation.env(MODEL_KEY, turn.endpoint.key.as_deref().unwrap_or_default());
        }
        if let Some(last) = &self.last {
            invocation.args(["resume", &last.id]);
        }
        invocation.args(["-"]);
        Ok(invocation)
    }

    fn parse_line(&mut self, line: &str) -> Vec<ProgramEvent> {
        match serde_json::from_str(line) {
            Ok(CodexEvent::ThreadStarted { thread_id }) => {
                self.id = Some(thread_id.clone());
                let before = self.last.clone().unwrap_or_default();
                vec![ProgramEvent::Session(json!(CodexThread { id: thread_id, ..before }))]
            }
            Ok(CodexEvent::ItemStarted { item }) => item.tool_call_event().into_iter().collect(),
            Ok(CodexEvent::ItemCompleted { item }) => self.completed_item_events(item),
            Ok(CodexEvent::TurnCompleted { usage }) => {
                self.end = Some(Ok(()));
                self.usage_events(usage)
            }
            Ok(CodexEvent::TurnFailed { error }) => {
                self.end = Some(Err(error.message));
                Vec::new()
            }
            Ok(CodexEvent::ErrorMessage { message }) => retry_event(&message).into_iter().collect(),
            Ok(CodexEvent::Other) | Err(_) => Vec::new(),
        }
    }

    fn parse_log_line(&mut self, line: &str) -> Option<Vec<ProgramEvent>> {
        let (_, answered) = line.split_once(RESPONSE_LOG_MARKER)?;
        Some(long_pause_failure(answered).map(ProgramEvent::GaveUp).into_iter().collect())
    }

    fn outcome(&mut self, exit: &ProgramExit) -> ProgramOutcome {
        match self.end.take() {
            Some(Ok(())) if exit.status.success() => {
                ProgramOutcome::Answered(self.answer.take().unwrap_or_default())
            }
            Some(Err(why)) => ProgramOutcome::Failed(TurnFailure::new(class_of_error(&why), why)),
            None if self.last.is_some() && exit.stderr_contains(SESSION_LOST_MESSAGE) => {
                ProgramOutcome::SessionLost
            }
            Some(Ok(())) | None => ProgramOutcome::Failed(exit.crash_failure()),
        }
    }
}

impl Codex {
    /// What was used since the last turn, and where the next one begins to count.
    fn usage_events(&self, all: CodexUsage) -> Vec<ProgramEvent> {
        let CodexThread { id, usage: before } = self.last.clone().unwrap_or_default();
        let id = self.id.clone().unwrap_or(id);
        let share = ModelTokenUsage {
            model: None,
            input: all.input.saturating_sub(before.input),
            from_cache: all.from_cache.saturating_sub(before.from_cache),
            into_cache: all.into_cache.saturating_sub(before.into_cache),
            output: all.output.saturating_sub(before.output),
        };
        vec![
            ProgramEvent::Session(json!(CodexThread { id, usage: all })),
            ProgramEvent::UsageByModel(vec![share]),
        ]
    }

    fn completed_item_events(&mut self, item: CodexItem) -> Vec<ProgramEvent> {
        if let CodexItemKind::AgentMessage { text } = item.kind {
            // The last one is the answer.
            self.answer = Some(text.clone());
            return vec![ProgramEvent::Text(text)];
        }
        let CodexItem { id, kind: what } = item;
        let Some((tool, result)) = what.tool_result() else { return Vec::new() };
        vec![ProgramEvent::ToolAnswered { id, tool, result }]
    }
}

impl CodexItem {
    fn tool_call_event(self) -> Option<ProgramEvent> {
        let Self { id, kind: what } = self;
        let (tool, args) = match what {
            CodexItemKind::CommandExecution { command, .. } => {
                (SHELL_TOOL_NAME.to_owned(), json!({"command": command}))
            }
            CodexItemKind::FileChange { changes, .. } => {
                (PATCH_TOOL_NAME.to_owned(), json!({"changes": changes}))
            }
            CodexItemKind::WebSearch { query } => {
                (SEARCH_TOOL_NAME.to_owned(), json!({"query": query}))
            }
            CodexItemKind::McpToolCall { server, tool, arguments, .. } => {
                (mcp_tool_name(&server, &tool), arguments)
            }
            CodexItemKind::AgentMessage { .. } | CodexItemKind::Other => return None,
        };
        Some(ProgramEvent::ToolCalled { id, tool, args })
    }
}

impl CodexItemKind {
    /// Which tool it was, and what it answered.
    fn tool_result(self) -> Option<(String, ToolResult)> {
        let judged = |is_done, text| {
            if is_done { ToolResult::Done(text) } else { ToolResult::Failed(text) }
        };
        Some(match self {
            Self::CommandExecution { aggregated_output, exit_code, .. } => {
                (SHELL_TOOL_NAME.to_owned(), judged(exit_code == Some(0), aggregated_output))
            }
            Self::FileChange { status, .. } => {
                (PATCH_TOOL_NAME.to_owned(), judged(status == "completed", status))
            }
            Self::WebSearch { .. } => {
                (SEARCH_TOOL_NAME.to_owned(), ToolResult::Done(String::new()))
            }
            Self::McpToolCall { server, tool, result, error, .. } => {
                let result = match error {
                    Some(CodexError { message }) => ToolResult::Failed(message),
                    None => ToolResult::Done(result.unwrap_or_default().to_string()),
                };
                (mcp_tool_name(&server, &tool), result)
            }
            Self::AgentMessage { .. } | Self::Other => return None,
        })
    }
}

/// A tool of another server, spelt as Claude spells it: events of one team look alike.
fn mcp_tool_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

/// Where its model is, for a key from the environment.
fn provider_settings(endpoint: &ModelEndpoint) -> String {
    let url = endpoint.base_url.as_deref().unwrap_or_else(|| provider_url("openai"));
    format!(
        "{{name=\"given\",base_url={},env_key={},wire_api=\"responses\",request_max_retries={MAX_RETRIES},stream_max_retries={MAX_RETRIES}}}",
        toml_string(url),
        toml_string(MODEL_KEY)
    )
}

/// The same as a file of settings: those who start it for others pass no arguments on.
pub(in crate::program) fn settings_file(endpoint: &ModelEndpoint, model: Option<&str>) -> String {
    let model = model.map(|model| format!("model={}\n", toml_string(model))).unwrap_or_default();
    format!(
        "{model}model_provider=\"given\"\nmodel_providers.given={}\n",
        provider_settings(endpoint)
    )
}

/// A string in TOML. JSON's escapes are among TOML's.
fn toml_string(text: &str) -> String {
    Value::from(text).to_string()
}

/// It asks again, unless that is in vain: `Reconnecting... 1/5 (why)`. Who asked too often is let wait by us: it waits for as
/// long as the provider says, an hour if need be, without a word of how long.
fn retry_event(message: &str) -> Option<ProgramEvent> {
    let (_, why) = message.strip_prefix("Reconnecting... ")?.split_once(" (")?;
    let why = why.strip_suffix(')').unwrap_or(why);
    Some(match class_of_error(why) {
        class @ (FailureClass::Auth | FailureClass::Billing | FailureClass::RateLimited) => {
            ProgramEvent::GaveUp(TurnFailure::new(class, why))
        }
        _ => ProgramEvent::Retry(why.to_owned()),
    })
}

/// The pause that an answer of its provider asks for, if that is not for it to wait for: it would without a word.
/// `method=POST url=… status=503 Service Unavailable headers={"retry-after": "600", …} version=HTTP/1.1`
fn long_pause_failure(answered: &str) -> Option<TurnFailure> {
    let (_, status) = answered.split_once(" status=")?;
    let status: u64 = status.split(' ').next()?.parse().ok()?;
    let class = class_of_status(status);
    let (_, after) = answered.split_once("\"retry-after\": \"")?;
    let after = Duration::from_secs(after.split('"').next()?.parse().ok()?);
    let is_long = class == FailureClass::Transient && after > MAX_RETRY_DELAY;
    is_long.then(|| {
        let why = format!("status {status}, and not to be asked again for {} s", after.as_secs());
        let retry_at = Some(time_of_day().plus(after));
        TurnFailure { retry_at, ..TurnFailure::new(class, why) }
    })
}

/// The class of a failure, by where its own error has a status or the provider's code, never by its words.
fn class_of_error(error: &str) -> FailureClass {
    let body: Option<Value> = serde_json::from_str(error).ok();
    let code = body.as_ref().and_then(|body| body.pointer("/error/code")?.as_str());
    match code {
        Some("context_length_exceeded") => return FailureClass::ContextOverflow,
        Some("insufficient_quota") => return FailureClass::Billing,
        Some(_) | None => {}
    }
    if error.starts_with(STREAM_DISCONNECTED) {
        return FailureClass::Transient;
    }
    let status = STATUS_PREFIXES
        .iter()
        .find_map(|before| error.strip_prefix(before)?.split(' ').next()?.parse().ok());
    status.map_or(FailureClass::Fatal, class_of_status)
}
