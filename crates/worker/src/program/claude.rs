//! Claude Code: `claude -p`, which writes a stream of JSON events and ends.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    time::Duration,
};

use agent_worker_protocol::{
    Cli, FailureClass, Fit, Mode, Permissions, Stance, ToolPattern, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Exit, Heard, Invocation, Turn, Vendor, Verdict, class_of, files, micros, models::model_for,
};
use crate::{
    clocks::time_of_day,
    door::{Entrance, SERVER},
    gate,
    model::{Failure, ToolResult},
};

/// How often it may ask its provider again by itself. Its own default keeps on for two minutes with a key that is refused.
const RETRIES: &str = "3";
/// A provider that wants a longer pause gets it from us: nobody sits beside a process that sleeps.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What it has said so far.
#[derive(Default)]
pub(super) struct Claude {
    /// The conversation it was told to go on with.
    last: Option<Conversation>,
    has_begun: bool,
    /// Which tools its open calls are for.
    open: HashMap<String, String>,
    /// Its own word for why its last message is no message of a model.
    error: Option<String>,
    end: Option<End>,
}

/// What the next turn needs to go on.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Conversation {
    id: String,
    /// What all of it has cost so far: it counts from the beginning every time.
    cost_micros: u64,
}

/// Its last event.
#[derive(Deserialize)]
struct End {
    is_error: bool,
    #[serde(default)]
    result: Option<String>,
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
    usage: Used,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Used {
    #[serde(rename = "input_tokens")]
    input: u64,
    #[serde(rename = "cache_creation_input_tokens")]
    cached: u64,
    #[serde(rename = "cache_read_input_tokens")]
    from_cache: u64,
    #[serde(rename = "output_tokens")]
    output: u64,
}

/// An event that is of interest. What is not is skipped, so that a newer version may say more.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    System(System),
    #[serde(rename = "stream_event")]
    Stream {
        event: Value,
    },
    Assistant {
        message: Said,
        error: Option<String>,
    },
    User {
        message: Said,
    },
    Result(End),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum System {
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
struct Said {
    /// Blocks, or a text alone, which is nothing new.
    content: Value,
}

impl Claude {
    pub(super) fn new(session: Option<&Value>) -> Self {
        let last = session.and_then(|session| Conversation::deserialize(session).ok());
        Self { last, ..Self::default() }
    }
}

impl Vendor for Claude {
    fn invocation(&self, turn: &Turn<'_>) -> io::Result<Invocation> {
        let job = turn.job;
        let server = |Entrance { url, token }: &Entrance| {
            let headers = json!({"Authorization": format!("Bearer {token}")});
            json!({"type": "http", "url": url, "headers": headers})
        };
        let servers = json!({SERVER: server(turn.door), gate::SERVER: server(turn.gate)});
        let servers = json!({"mcpServers": servers});
        let servers = files::private(&job.folder, "mcp.json", &servers.to_string())?;
        let system = files::private(&job.folder, "system.md", &job.system_prompt)?;
        let mut invocation = Invocation { stdin: job.prompt.clone(), ..Invocation::default() };
        invocation.args(["-p", "--output-format", "stream-json", "--verbose"]);
        invocation.args(["--include-partial-messages", "--strict-mcp-config"]);
        invocation.args(["--mcp-config", &servers, "--append-system-prompt-file", &system]);
        invocation.args(["--allowedTools", &format!("mcp__{SERVER}")]);
        // What it would ask a person for it asks there.
        let asks = format!("mcp__{}__{}", gate::SERVER, gate::TOOL);
        invocation.args(["--permission-prompt-tool", &asks]);
        rules(&job.permissions, &mut invocation);
        if let Some(model) = model_for(Cli::Claude, job.model.as_deref()) {
            invocation.args(["--model", &model]);
        }
        if let Some(last) = &self.last {
            invocation.args(["--resume", &last.id]);
        }
        // Tools that are looked up first would cost a step each turn.
        invocation.env("ENABLE_TOOL_SEARCH", "false");
        // `@path` in a message would be that file's text, whoever wrote the message and whatever is allowed.
        invocation.env("CLAUDE_CODE_DISABLE_ATTACHMENTS", "1");
        invocation.env("DISABLE_AUTOUPDATER", "1");
        invocation.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        invocation.env("CLAUDE_CODE_MAX_RETRIES", RETRIES);
        if let Some(url) = &turn.endpoint.base_url {
            invocation.env("ANTHROPIC_BASE_URL", url);
        }
        if let Mode::Isolated = turn.mode {
            invocation.env("CLAUDE_CONFIG_DIR", &files::folder(&job.keep.join("claude"))?);
        }
        Ok(invocation)
    }

    fn hear(&mut self, line: &str) -> Vec<Heard> {
        match serde_json::from_str(line) {
            Ok(Event::System(System::Init { session_id })) => {
                self.has_begun = true;
                let cost_micros = self.last.as_ref().map_or(0, |last| last.cost_micros);
                vec![Conversation { id: session_id, cost_micros }.heard()]
            }
            Ok(Event::System(System::ApiRetry { error_status, error, retry_delay_ms })) => {
                vec![retry(error_status, error.as_ref(), retry_delay_ms)]
            }
            Ok(Event::Stream { event }) => delta(&event).into_iter().collect(),
            Ok(Event::Assistant { message, error }) => {
                self.error = error;
                self.blocks(message)
            }
            Ok(Event::User { message }) => self.blocks(message),
            Ok(Event::Result(end)) => self.ended(end),
            Ok(Event::System(System::Other) | Event::Other) | Err(_) => Vec::new(),
        }
    }

    fn verdict(&mut self, exit: &Exit) -> Verdict {
        let Some(end) = self.end.take() else { return Verdict::Failed(exit.wordless()) };
        // It says `success` of a turn whose provider never answered.
        if !end.is_error && exit.status.success() {
            return Verdict::Answered(end.result.unwrap_or_default());
        }
        if self.last.is_some() && !self.has_begun && end.num_turns == 0 {
            return Verdict::Forgot;
        }
        Verdict::Failed(end.failure(self.error.as_deref()))
    }
}

/// Says which of its own tools there are at all, and which it asks for whatever its own rules are: by these it reads, and runs
/// commands that only look, without asking.
fn rules(permissions: &Permissions, invocation: &mut Invocation) {
    let Permissions { default, allow, ask, deny, on_ask: _ } = permissions;
    let is_whole = |pattern: &&ToolPattern| *pattern.fit() == Fit::Any;
    let names = |patterns: &mut dyn Iterator<Item = &ToolPattern>| {
        patterns.map(|pattern| pattern.tool().to_owned()).collect::<BTreeSet<_>>()
    };
    let joined = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(",");
    let mut asked = names(&mut ask.iter().chain(deny.iter().filter(|it| !is_whole(it))));
    if let Stance::Deny = default {
        asked.extend(names(&mut allow.iter().filter(|it| !is_whole(it))));
        invocation.args(["--tools", &joined(names(&mut allow.iter().chain(ask)))]);
    }
    if !asked.is_empty() {
        let settings = json!({"permissions": {"ask": asked}});
        invocation.args(["--settings", &settings.to_string()]);
    }
    let never = names(&mut deny.iter().filter(is_whole));
    if !never.is_empty() {
        invocation.args(["--disallowedTools", &joined(never)]);
    }
}

impl Claude {
    /// Calls and their results. Words have come one by one before.
    fn blocks(&mut self, message: Said) -> Vec<Heard> {
        let Value::Array(blocks) = message.content else { return Vec::new() };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut heard = Vec::new();
        for mut block in blocks {
            if block["type"] == "tool_use" {
                let (id, tool) = (text(&block["id"]), text(&block["name"]));
                self.open.insert(id.clone(), tool.clone());
                heard.push(Heard::Called { id, tool, args: block["input"].take() });
            } else if block["type"] == "tool_result" {
                let id = text(&block["tool_use_id"]);
                let tool = self.open.remove(&id).unwrap_or_default();
                let result = written(&block["content"]);
                let result = match block["is_error"].as_bool() {
                    Some(true) => ToolResult::Failed(result),
                    Some(false) | None => ToolResult::Done(result),
                };
                heard.push(Heard::Answered { id, tool, result });
            }
        }
        heard
    }

    fn ended(&mut self, end: End) -> Vec<Heard> {
        let before = self.last.as_ref().map_or(0, |last| last.cost_micros);
        let cost_micros = micros(end.total_cost_usd).max(before);
        let Used { input, cached, from_cache, output } = end.usage;
        let usage = Usage {
            input_tokens: input + cached + from_cache,
            output_tokens: output,
            cost_micros: Some(cost_micros - before),
            cost_reckoned: false,
        };
        let mut heard = Vec::new();
        if self.has_begun {
            heard.push(Conversation { id: end.session_id.clone(), cost_micros }.heard());
        }
        if usage.input_tokens + usage.output_tokens > 0 || usage.cost_micros > Some(0) {
            heard.push(Heard::Usage(usage));
        }
        self.end = Some(end);
        heard
    }
}

impl Conversation {
    fn heard(&self) -> Heard {
        Heard::Session(json!(self))
    }
}

impl End {
    fn failure(self, error: Option<&str>) -> Failure {
        let reason = self.terminal_reason.as_deref();
        let class = match (reason, error, self.api_error_status) {
            (Some("prompt_too_long"), _, _) => FailureClass::ContextOverflow,
            (_, Some("authentication_failed"), _) => FailureClass::Auth,
            (_, Some("billing_error"), _) => FailureClass::Billing,
            (_, Some("rate_limit"), _) => FailureClass::RateLimited,
            (_, _, Some(status)) => class_of(status),
            (_, Some("server_error"), None) => FailureClass::Transient,
            (_, _, None) => FailureClass::Fatal,
        };
        let said = self.result.into_iter().chain(self.errors).collect::<Vec<_>>().join("; ");
        let why = if said.is_empty() { self.subtype } else { said };
        Failure::new(class, why)
    }
}

/// The next words, if it is that.
fn delta(event: &Value) -> Option<Heard> {
    let delta = event.get("delta").filter(|_| event["type"] == "content_block_delta")?;
    let text = delta.get("text").filter(|_| delta["type"] == "text_delta")?.as_str()?;
    Some(Heard::Text(text.to_owned()))
}

/// A text, or blocks with texts in them.
fn written(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// It asks its provider again, unless that is in vain or takes too long.
fn retry(status: Option<u64>, error: Option<&Value>, delay_ms: f64) -> Heard {
    let what = error.and_then(Value::as_str).unwrap_or("the provider cannot be reached");
    let why = match status {
        Some(status) => format!("{what} (status {status})"),
        None => what.to_owned(),
    };
    let class = status.map_or(FailureClass::Transient, class_of);
    let pause = Duration::from_secs_f64((delay_ms / 1000.0).clamp(0.0, 1e9));
    match class {
        FailureClass::Auth | FailureClass::Billing => Heard::GaveUp(Failure::new(class, why)),
        FailureClass::RateLimited | FailureClass::Transient if pause > LONGEST_PAUSE => {
            let retry_at = Some(time_of_day().plus(pause));
            Heard::GaveUp(Failure { retry_at, ..Failure::new(class, why) })
        }
        _ => Heard::Retry(why),
    }
}
