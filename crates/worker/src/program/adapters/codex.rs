//! Codex: `codex exec`, which writes a stream of JSON events and ends.

use std::{io, time::Duration};

use agent_worker_protocol::{CredentialMode, FailureClass, Keyword as _, PermissionAction, hash};
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
    turn::{TurnContext, TurnFailure, TurnRequest},
};

/// Variables that the settings name, so that no secret is among the arguments.
pub(in crate::program) const MODEL_KEY: &str = "AGENT_WORKER_MODEL_KEY";
const TOOLS_KEY: &str = "AGENT_WORKER_TOOLS_KEY";
/// Maximum size of one argument, with space for its name.
const MAX_ARGUMENT_BYTES: usize = 120 * 1024;

/// The program's own tools, as events name them.
const SHELL_TOOL_NAME: &str = "shell";
const PATCH_TOOL_NAME: &str = "apply_patch";
const SEARCH_TOOL_NAME: &str = "web_search";
/// Prefixes of error messages that the provider's status follows.
const STATUS_PREFIXES: [&str; 2] = ["unexpected status ", "exceeded retry limit, last status: "];
/// Error for a response that broke off.
const STREAM_DISCONNECTED: &str = "stream disconnected before completion";
/// Maximum number of retries by the program.
const MAX_RETRIES: u32 = 2;
/// Maximum pause before a retry of the program. The worker takes over longer pauses.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);
/// Setting that makes the program log each response of its provider, and the marker of such a log line.
const LOG_FILTER_VARIABLE: (&str, &str) = ("RUST_LOG", "error,codex_http_client::client=debug");
const RESPONSE_LOG_MARKER: &str = " codex_http_client::client: Request completed ";
/// Complaint of the program about an unknown conversation.
const SESSION_LOST_MESSAGE: &str = "no rollout found for thread id";

/// Introduces instructions that replace those of the first turn.
const CHANGED_INSTRUCTIONS: &str =
    "Your instructions have changed since this conversation began. These replace the earlier ones:";

/// State of reading the program's output.
#[derive(Default)]
struct Codex {
    last: Option<CodexThread>,
    /// Hash of the instructions that the thread has after this turn.
    instructions: String,
    id: Option<String>,
    answer: Option<String>,
    end: Option<Result<(), String>>,
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

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct CodexUsage {
    /// All input tokens, including cache reads and cache writes.
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
    /// A retry, or a repetition of the turn's failure.
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
    /// A call to the team's server or to a server of the user.
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

/// Returns a short hash of the instructions of a thread.
fn instructions_hash(text: &str) -> String {
    let hash = hash(&[text.as_bytes()]);
    hash[..8].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Returns the sandbox mode, unless the user's settings decide. The program never asks for permission: a call that
/// its sandbox forbids fails.
fn sandbox_mode(default: PermissionAction) -> Option<&'static str> {
    match default {
        PermissionAction::Allow => Some("workspace-write"),
        PermissionAction::Deny => Some("read-only"),
        PermissionAction::Ask => None,
    }
}

/// Adds the attached images. The option splits its value at commas, and takes any number of values, so that another
/// option has to follow.
fn add_images(request: &TurnRequest, invocation: &mut ProgramInvocation) {
    let images = request.attachments.iter().filter(|file| file.is_image());
    let paths = images.map(|file| file.path.to_string_lossy());
    for path in paths.filter(|path| !path.contains(',')) {
        invocation.args(["--image", &path]);
    }
}

/// Creates the adapter of one process.
pub(super) fn adapter(session: Option<&Value>) -> Box<dyn ProgramAdapter> {
    let last = session.and_then(|session| CodexThread::deserialize(session).ok());
    Box::new(Codex { last, ..Codex::default() })
}

impl ProgramAdapter for Codex {
    fn invocation(&mut self, turn: &ProgramTurn<'_>) -> io::Result<ProgramInvocation> {
        let TurnContext { request, folders, .. } = turn.context;
        let mut invocation =
            ProgramInvocation { stdin: request.prompt.clone(), ..ProgramInvocation::default() };
        self.instructions = instructions_hash(&request.system_prompt);
        if self.last.as_ref().is_some_and(|last| last.instructions != self.instructions) {
            // A resumed thread keeps the instructions of its first turn, with the team of that time.
            invocation.stdin = format!(
                "{CHANGED_INSTRUCTIONS}\n\n{}\n\n{}",
                request.system_prompt, request.prompt
            );
        }
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
            let why = "codex does not accept a system prompt over 120 KiB";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        set("developer_instructions", instructions);
        // No user can answer it: the model asks a person with the team's own tool.
        set("tools.experimental_request_user_input.enabled", "false".to_owned());
        if let Some(effort) = request.effort {
            set("model_reasoning_effort", toml_string(effort.word()));
        }
        if let Some(sandbox) = sandbox_mode(turn.context.permissions.default) {
            set("sandbox_mode", toml_string(sandbox));
        }
        if let CredentialMode::Isolated = turn.mode {
            set("model_provider", toml_string("given"));
            set("model_providers.given", provider_settings(&turn.endpoint));
            // Its list of skills includes those of the user's home.
            set("skills.include_instructions", "false".to_owned());
        }
        if let Some(model) = &turn.model {
            invocation.args(["--model", model]);
        }
        add_images(request, &mut invocation);
        invocation.args(["--disable", "plugins", "--disable", "apps"]);
        invocation.env(TOOLS_KEY, &turn.tool_server.token);
        // The program's own commands do not inherit the variable.
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
                let instructions = self.instructions.clone();
                vec![ProgramEvent::Session(json!(CodexThread {
                    id: thread_id,
                    instructions,
                    ..before
                }))]
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
    /// Returns the usage since the last turn, and the counts from which the next turn starts.
    fn usage_events(&self, all: CodexUsage) -> Vec<ProgramEvent> {
        let CodexThread { id, usage: before, .. } = self.last.clone().unwrap_or_default();
        let id = self.id.clone().unwrap_or(id);
        let share = ModelTokenUsage {
            model: None,
            input: all.input.saturating_sub(before.input),
            from_cache: all.from_cache.saturating_sub(before.from_cache),
            into_cache: all.into_cache.saturating_sub(before.into_cache),
            output: all.output.saturating_sub(before.output),
        };
        vec![
            ProgramEvent::Session(json!(CodexThread {
                id,
                instructions: self.instructions.clone(),
                usage: all
            })),
            ProgramEvent::UsageByModel(vec![share]),
        ]
    }

    fn completed_item_events(&mut self, item: CodexItem) -> Vec<ProgramEvent> {
        if let CodexItemKind::AgentMessage { text } = item.kind {
            // The last message is the answer.
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
    /// Returns the tool's name and its result.
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

/// Returns the name of an MCP tool in Claude's spelling, so that all events of a team use one form.
fn mcp_tool_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

/// Returns the provider settings for a key from the environment.
fn provider_settings(endpoint: &ModelEndpoint) -> String {
    let url = endpoint.base_url.as_deref().unwrap_or_else(|| provider_url("openai"));
    format!(
        "{{name=\"given\",base_url={},env_key={},wire_api=\"responses\",request_max_retries={MAX_RETRIES},stream_max_retries={MAX_RETRIES}}}",
        toml_string(url),
        toml_string(MODEL_KEY)
    )
}

/// Returns the same settings as a file, for agents that start the program without passing arguments on.
pub(in crate::program) fn settings_file(endpoint: &ModelEndpoint, model: Option<&str>) -> String {
    let model = model.map(|model| format!("model={}\n", toml_string(model))).unwrap_or_default();
    format!(
        "{model}model_provider=\"given\"\nmodel_providers.given={}\n",
        provider_settings(endpoint)
    )
}

/// Quotes a string for TOML, whose escapes include those of JSON.
fn toml_string(text: &str) -> String {
    Value::from(text).to_string()
}

/// Reports a retry, from `Reconnecting... 1/5 (why)`, or gives up if the retry is futile. Rate limits also give up,
/// because the program would wait as long as the provider demands, even an hour, without reporting the duration.
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

/// Returns a failure if the provider demands a longer pause than the program may wait, because the program would
/// wait silently.
/// `method=POST url=… status=503 Service Unavailable headers={"retry-after": "600", …} version=HTTP/1.1`
fn long_pause_failure(answered: &str) -> Option<TurnFailure> {
    let (_, status) = answered.split_once(" status=")?;
    let status: u64 = status.split(' ').next()?.parse().ok()?;
    let class = class_of_status(status);
    let (_, after) = answered.split_once("\"retry-after\": \"")?;
    let after = Duration::from_secs(after.split('"').next()?.parse().ok()?);
    let may_wait = matches!(class, FailureClass::Transient | FailureClass::RateLimited);
    let is_long = may_wait && after > MAX_RETRY_DELAY;
    is_long.then(|| {
        let why = format!("status {status}, retry after {} s", after.as_secs());
        let retry_at = Some(time_of_day().plus(after));
        TurnFailure { retry_at, ..TurnFailure::new(class, why) }
    })
}

/// Returns the class of a failure by the status or the provider's code in the error, never by its message.
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
