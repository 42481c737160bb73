//! Claude Code: `claude -p`, which reads and writes a stream of JSON events.
//!
//! The prompt is the first line of its input. The adapter closes the input after the result, unless a message to the running
//! turn (`claude/messages.rs`) has made the program start a further turn.

mod failure;
mod messages;
mod model_args;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
};

use agent_worker_protocol::{
    AgentName, ArgumentPattern, CredentialMode, PermissionAction, PermissionMode, Permissions,
    ToolPattern, TurnMessage, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use self::{
    failure::retry_event,
    messages::{ClaudeMessages, user_line},
    model_args::add_model_args,
};
use crate::program::{
    ProgramAdapter, ProgramEvent, ProgramExit, ProgramInvocation, ProgramOutcome, ProgramTurn,
    conversation::ProgramStep, file_mentions::mask_agent_mentions, private_files, usd_to_micros,
};
use crate::{
    approval_gate,
    attachments::{InlineImage, attachment_folder, inline_images},
    model::ToolResult,
    tool_server::{TEAM_SERVER_NAME, ToolServerEndpoint},
    turn::{TurnContext, TurnRequest},
};

/// Maximum number of retries by the program. Its default retries for two minutes with a key that the provider
/// refuses.
const MAX_RETRIES: &str = "3";

/// Tools that act past the daemon: they reach other sessions of the program, work after the end of the turn, or change the
/// mode or the folder of the program, without a receipt, a limit or an approval.
pub(in crate::program) const BYPASSING_TOOLS: [&str; 15] = [
    "CronCreate",
    "CronDelete",
    "CronList",
    "DesignSync",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitPlanMode",
    "ExitWorktree",
    "ListAgents",
    "Monitor",
    "ScheduleWakeup",
    "SendMessage",
    "TaskOutput",
    "TaskStop",
    "Workflow",
];

/// Tools that change files.
const EDIT_TOOLS: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];
/// Tools in plan mode: those that read, and those whose denial tells the model about the mode. A tool that is not listed is
/// not offered, because the program may call it without asking.
const PLAN_TOOLS: [&str; 11] = [
    "Bash",
    "Edit",
    "Glob",
    "Grep",
    "LS",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// State of reading the program's output.
#[derive(Default)]
struct Claude {
    /// The conversation to continue.
    last: Option<ClaudeSession>,
    has_begun: bool,
    /// Tool names of the open calls, by call id.
    open_calls: HashMap<String, String>,
    /// The program's own code for a last message that is not from a model.
    error: Option<String>,
    messages: ClaudeMessages,
    /// The agents of the team, for the text of a message.
    team: Vec<AgentName>,
    /// Results of the turns before the last one.
    earlier_results: Vec<String>,
    end: Option<ClaudeResult>,
}

/// The data that the next turn needs to continue.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct ClaudeSession {
    id: String,
    /// Cost of the whole conversation so far: the program always counts from the beginning.
    cost_micros: u64,
}

/// The final event of the program.
#[derive(Deserialize)]
struct ClaudeResult {
    is_error: bool,
    #[serde(default)]
    result: Option<String>,
    /// The answer as a value, if the model has given it in the form of `--json-schema`.
    #[serde(default)]
    structured_output: Option<Value>,
    #[serde(default)]
    errors: Vec<String>,
    subtype: String,
    session_id: String,
    #[serde(default)]
    num_turns: u64,
    #[serde(default)]
    api_error_status: Option<u64>,
    #[serde(default)]
    terminal_reason: Option<String>,
    #[serde(default)]
    total_cost_usd: f64,
    #[serde(default)]
    usage: ClaudeUsage,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaudeUsage {
    #[serde(rename = "input_tokens")]
    input: u64,
    #[serde(rename = "cache_creation_input_tokens")]
    cached: u64,
    #[serde(rename = "cache_read_input_tokens")]
    from_cache: u64,
    #[serde(rename = "output_tokens")]
    output: u64,
}

/// The events that the adapter reads. Others are skipped, so that a newer version may send more.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ClaudeEvent {
    System(ClaudeSystemEvent),
    #[serde(rename = "stream_event")]
    Stream {
        event: Value,
    },
    Assistant {
        message: ClaudeMessage,
        error: Option<String>,
    },
    User {
        message: ClaudeMessage,
    },
    Result(ClaudeResult),
    /// Progress of a line of the input.
    CommandLifecycle {
        command_uuid: Uuid,
        state: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum ClaudeSystemEvent {
    Init {
        session_id: String,
    },
    ApiRetry {
        error_status: Option<u64>,
        error: Option<Value>,
        retry_delay_ms: f64,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct ClaudeMessage {
    /// Blocks, or only a text, which repeats earlier events.
    content: Value,
}

/// Creates the adapter of one process.
pub(super) fn adapter(session: Option<&Value>) -> Box<dyn ProgramAdapter> {
    let last = session.and_then(|session| ClaudeSession::deserialize(session).ok());
    Box::new(Claude { last, ..Claude::default() })
}

impl ProgramAdapter for Claude {
    fn invocation(&mut self, turn: &ProgramTurn<'_>) -> io::Result<ProgramInvocation> {
        let TurnContext { request, folders, .. } = turn.context;
        let server = |ToolServerEndpoint { url, token }: &ToolServerEndpoint| {
            let headers = json!({"Authorization": format!("Bearer {token}")});
            json!({"type": "http", "url": url, "headers": headers})
        };
        let servers = json!({TEAM_SERVER_NAME: server(turn.tool_server), approval_gate::GATE_SERVER_NAME: server(turn.gate)});
        let servers = json!({"mcpServers": servers});
        let servers =
            private_files::write_private_file(&folders.attempt, "mcp.json", &servers.to_string())?;
        let system = private_files::write_private_file(
            &folders.attempt,
            "system.md",
            &request.system_prompt,
        )?;
        self.messages = ClaudeMessages::new(turn.context.identity.attempt_id);
        self.team.clone_from(&request.team);
        let mut invocation = ProgramInvocation {
            keeps_input_open: true,
            takes_messages: true,
            ..ProgramInvocation::default()
        };
        add_prompt(request, &mut invocation)?;
        invocation.args(["-p", "--output-format", "stream-json", "--verbose"]);
        invocation.args(["--input-format", "stream-json"]);
        invocation.args(["--include-partial-messages", "--strict-mcp-config"]);
        invocation.args(["--mcp-config", &servers, "--append-system-prompt-file", &system]);
        invocation.args(["--allowedTools", &format!("mcp__{TEAM_SERVER_NAME}")]);
        // The program sends its permission requests to this tool.
        invocation.args(["--permission-prompt-tool", &approve_tool()]);
        let mut settings = json!({});
        add_permission_args(&turn.context.permissions, &mut settings, &mut invocation);
        if let CredentialMode::Isolated = turn.mode {
            exclude_home_memory(&turn.context.child_env.env, &mut settings);
        }
        if settings != json!({}) {
            invocation.args(["--settings", &settings.to_string()]);
        }
        add_model_args(turn, &mut invocation);
        if let Some(last) = &self.last {
            invocation.args(["--resume", &last.id]);
        }
        // A command in the background would outlive the answer, and nobody would read its output.
        invocation.env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1");
        // A resumed conversation would keep the system prompt of its first turn, with the team of that time.
        invocation.args(["--system-prompt-snapshot", "off"]);
        // A search for tools would cost one step per turn.
        invocation.env("ENABLE_TOOL_SEARCH", "false");
        // `@path` in a message would insert the text of that file, regardless of the author and of the permissions.
        invocation.env("CLAUDE_CODE_DISABLE_FILE_MENTIONS", "1");
        invocation.env("DISABLE_AUTOUPDATER", "1");
        invocation.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        invocation.env("CLAUDE_CODE_MAX_RETRIES", MAX_RETRIES);
        if let Some(url) = &turn.endpoint.base_url {
            invocation.env("ANTHROPIC_BASE_URL", url);
        }
        if let CredentialMode::Isolated = turn.mode {
            invocation.env(
                "CLAUDE_CONFIG_DIR",
                &private_files::create_private_folder(&folders.keep.join("claude"))?,
            );
        }
        Ok(invocation)
    }

    fn parse_line(&mut self, line: &str) -> Vec<ProgramEvent> {
        match serde_json::from_str(line) {
            Ok(ClaudeEvent::System(ClaudeSystemEvent::Init { session_id })) => {
                self.has_begun = true;
                let cost_micros = self.last.as_ref().map_or(0, |last| last.cost_micros);
                vec![ClaudeSession { id: session_id, cost_micros }.session_event()]
            }
            Ok(ClaudeEvent::System(ClaudeSystemEvent::ApiRetry {
                error_status,
                error,
                retry_delay_ms,
            })) => {
                vec![retry_event(error_status, error.as_ref(), retry_delay_ms)]
            }
            Ok(ClaudeEvent::Stream { event }) => text_delta_event(&event).into_iter().collect(),
            Ok(ClaudeEvent::Assistant { message, error }) => {
                self.error = error;
                self.tool_events(message)
            }
            Ok(ClaudeEvent::User { message }) => self.tool_events(message),
            Ok(ClaudeEvent::Result(end)) => self.result_events(end),
            Ok(
                ClaudeEvent::System(ClaudeSystemEvent::Other)
                | ClaudeEvent::CommandLifecycle { .. }
                | ClaudeEvent::Other,
            )
            | Err(_) => Vec::new(),
        }
    }

    fn handle_line(&mut self, line: &str) -> Vec<ProgramStep> {
        if let Ok(ClaudeEvent::CommandLifecycle { command_uuid, state }) =
            serde_json::from_str(line)
        {
            return self.messages.handle_report(command_uuid, &state).into_iter().collect();
        }
        let had_result = self.has_result();
        let mut steps: Vec<_> =
            self.parse_line(line).into_iter().map(ProgramStep::Report).collect();
        if self.has_result() && !had_result {
            steps.push(ProgramStep::EndInput);
        }
        steps
    }

    fn handle_message(&mut self, message: TurnMessage) -> Vec<ProgramStep> {
        let text = mask_agent_mentions(&message.text, &self.team);
        vec![self.messages.send(message.seq, &json!(text))]
    }

    fn has_result(&self) -> bool {
        self.end.is_some()
    }

    fn outcome(&mut self, exit: &ProgramExit) -> ProgramOutcome {
        let Some(end) = self.end.take() else {
            return ProgramOutcome::Failed(exit.crash_failure());
        };
        // The program reports `success` for a turn whose provider never answered.
        if !end.is_error && exit.is_clean() {
            if let Some(answer) = end.structured_output {
                return ProgramOutcome::Answered(answer.to_string());
            }
            let results = std::mem::take(&mut self.earlier_results).into_iter().chain(end.result);
            return ProgramOutcome::Answered(results.collect::<Vec<_>>().join("\n\n"));
        }
        if self.last.is_some() && !self.has_begun && end.num_turns == 0 {
            return ProgramOutcome::SessionLost;
        }
        ProgramOutcome::Failed(end.into_failure(self.error.as_deref()))
    }
}

/// Adds the prompt, with its images, as the first line of the program's input stream.
fn add_prompt(request: &TurnRequest, invocation: &mut ProgramInvocation) -> io::Result<()> {
    let prompt = mask_agent_mentions(&request.prompt, &request.team);
    if let Some(folder) = attachment_folder(&request.attachments) {
        // The program asks for permission to read anything outside of its folders.
        invocation.args(["--add-dir", &folder.to_string_lossy()]);
    }
    let images = inline_images(&request.attachments)?;
    let blocks = images.iter().map(InlineImage::anthropic_block);
    let text = json!({"type": "text", "text": prompt});
    let content: Vec<Value> = std::iter::once(text).chain(blocks).collect();
    invocation.stdin = format!("{}\n", user_line(None, &json!(content)));
    Ok(())
}

/// Returns the name of the gate's tool, as the program spells it.
fn approve_tool() -> String {
    format!("mcp__{}__{}", approval_gate::GATE_SERVER_NAME, approval_gate::APPROVE_TOOL_NAME)
}

/// Excludes the memory of the user. The program reads the memory of every folder above its own, and the home may be one
/// of them.
pub(in crate::program) fn exclude_home_memory(
    env: &BTreeMap<String, String>,
    settings: &mut Value,
) {
    if let Some(home) = env.get("HOME").filter(|home| !home.is_empty()) {
        settings["claudeMdExcludes"] =
            json!([format!("{}/.claude/**", home.trim_end_matches('/'))]);
    }
}

/// Adds the arguments that restrict the program's own tools and that make it ask for them. By its own rules it
/// reads, and runs commands that only read, without asking.
fn add_permission_args(
    permissions: &Permissions,
    settings: &mut Value,
    invocation: &mut ProgramInvocation,
) {
    let Permissions { default, allow, ask, deny, on_ask: _, mode } = permissions;
    let is_whole = |pattern: &&ToolPattern| *pattern.argument() == ArgumentPattern::Any;
    let names = |patterns: &mut dyn Iterator<Item = &ToolPattern>| {
        patterns.map(|pattern| pattern.tool().to_owned()).collect::<BTreeSet<_>>()
    };
    let joined = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(",");
    let mut asked = names(&mut ask.iter().chain(deny.iter().filter(|it| !is_whole(it))));
    let mode_tools: &[&str] = match mode {
        Some(PermissionMode::AcceptEdits) => &EDIT_TOOLS,
        Some(PermissionMode::Plan) => &PLAN_TOOLS,
        None => &[],
    };
    let mode_tools = || mode_tools.iter().map(|tool| (*tool).to_owned());
    if *default == Some(PermissionAction::Deny) || *mode == Some(PermissionMode::Plan) {
        asked.extend(names(&mut allow.iter().filter(|it| !is_whole(it))));
        let mut offered = names(&mut allow.iter().chain(ask));
        offered.extend(mode_tools());
        invocation.args(["--tools", &joined(offered)]);
    }
    // The daemon decides about these calls, whatever the user's settings allow.
    asked.extend(mode_tools());
    if mode.is_some() {
        invocation.args(["--permission-mode", "default"]);
    }
    if !asked.is_empty() {
        settings["permissions"] = json!({ "ask": asked });
    }
    let mut never = names(&mut deny.iter().filter(is_whole));
    never.extend(BYPASSING_TOOLS.map(str::to_owned));
    // Without this, the program offers the tool of the gate to the models of its own agents.
    never.insert(approve_tool());
    invocation.args(["--disallowedTools", &joined(never)]);
}

impl Claude {
    /// Returns tool calls and their results. The text has already arrived in deltas.
    fn tool_events(&mut self, message: ClaudeMessage) -> Vec<ProgramEvent> {
        let Value::Array(blocks) = message.content else { return Vec::new() };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut heard = Vec::new();
        for mut block in blocks {
            if block["type"] == "tool_use" {
                let (id, tool) = (text(&block["id"]), text(&block["name"]));
                self.open_calls.insert(id.clone(), tool.clone());
                heard.push(ProgramEvent::ToolCalled { id, tool, args: block["input"].take() });
            } else if block["type"] == "tool_result" {
                let id = text(&block["tool_use_id"]);
                let tool = self.open_calls.remove(&id).unwrap_or_default();
                let result = content_text(&block["content"]);
                let result = match block["is_error"].as_bool() {
                    Some(true) => ToolResult::Failed(result),
                    Some(false) | None => ToolResult::Done(result),
                };
                heard.push(ProgramEvent::ToolAnswered { id, tool, result });
            }
        }
        heard
    }

    fn result_events(&mut self, end: ClaudeResult) -> Vec<ProgramEvent> {
        let before = self.last.as_ref().map_or(0, |last| last.cost_micros);
        let cost_micros = usd_to_micros(end.total_cost_usd).max(before);
        let ClaudeUsage { input, cached, from_cache, output } = end.usage;
        let usage = Usage {
            input_tokens: input + cached + from_cache,
            output_tokens: output,
            cost_micros: Some(cost_micros - before),
            cost_reckoned: false,
        };
        let mut heard = Vec::new();
        if self.has_begun {
            heard.push(ClaudeSession { id: end.session_id.clone(), cost_micros }.session_event());
        }
        if usage.input_tokens + usage.output_tokens > 0 || usage.cost_micros > Some(0) {
            heard.push(ProgramEvent::Usage(usage));
        }
        if self.messages.is_any_open() && !end.is_error {
            // The program starts a further turn with the message.
            self.last = Some(ClaudeSession { id: end.session_id, cost_micros });
            self.earlier_results.extend(end.result);
        } else {
            self.end = Some(end);
        }
        heard
    }
}

impl ClaudeSession {
    fn session_event(&self) -> ProgramEvent {
        ProgramEvent::Session(json!(self))
    }
}

/// Returns the next text, if the event is a text delta.
fn text_delta_event(event: &Value) -> Option<ProgramEvent> {
    let delta = event.get("delta").filter(|_| event["type"] == "content_block_delta")?;
    let text = delta.get("text").filter(|_| delta["type"] == "text_delta")?.as_str()?;
    Some(ProgramEvent::Text(text.to_owned()))
}

/// Returns a text, or the joined texts of blocks.
fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}
