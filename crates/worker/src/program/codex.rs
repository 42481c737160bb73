//! Codex: `codex exec`, which writes a stream of JSON events and ends.

use std::{io, time::Duration};

use agent_worker_protocol::{Cli, FailureClass, Mode, Stance};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Endpoint, Exit, Heard, Invocation, Turn, Vendor, Verdict, class_of, files, models::model_for,
};
use crate::{
    clocks::time_of_day,
    door::SERVER,
    model::{Failure, ToolResult},
    models::Share,
};

/// Variables that its settings name, so that nothing secret is among its arguments.
pub(super) const MODEL_KEY: &str = "AGENT_WORKER_MODEL_KEY";
const TOOLS_KEY: &str = "AGENT_WORKER_TOOLS_KEY";
const OPENAI: &str = "https://api.openai.com/v1";
/// What one argument may have, with room for its name.
const LONGEST_ARGUMENT: usize = 120 * 1024;

/// Its own tools, as events call them.
const SHELL: &str = "shell";
const PATCH: &str = "apply_patch";
const SEARCH: &str = "web_search";
/// Its errors begin so, and then comes the provider's status.
const STATUS_AFTER: [&str; 2] = ["unexpected status ", "exceeded retry limit, last status: "];
/// Its error for an answer that broke off.
const BROKE_OFF: &str = "stream disconnected before completion";
/// How often it may ask its provider again by itself.
const RETRIES: u32 = 2;
/// A provider that wants a longer pause gets it from us.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// What lets it log each answer of its provider, and where such a line has what it says.
const LOG: (&str, &str) = ("RUST_LOG", "error,codex_http_client::client=debug");
const ANSWERED: &str = " codex_http_client::client: Request completed ";
/// What it complains of when it knows no such conversation.
const FORGOT: &str = "no rollout found for thread id";

/// What it has said so far.
#[derive(Default)]
pub(super) struct Codex {
    last: Option<Thread>,
    id: Option<String>,
    answer: Option<String>,
    end: Option<Result<(), String>>,
}

/// What the next turn needs to go on.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Thread {
    id: String,
    /// By all of it so far: it counts from the beginning every time.
    #[serde(flatten)]
    used: Used,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Used {
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
enum Event {
    #[serde(rename = "thread.started")]
    Thread { thread_id: String },
    #[serde(rename = "item.started")]
    Began { item: Item },
    #[serde(rename = "item.completed")]
    Done { item: Item },
    #[serde(rename = "turn.completed")]
    Completed { usage: Used },
    #[serde(rename = "turn.failed")]
    Failed { error: Problem },
    /// It asks again; or what the turn's failure says once more.
    #[serde(rename = "error")]
    Trouble { message: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Problem {
    message: String,
}

#[derive(Deserialize)]
struct Item {
    id: String,
    #[serde(flatten)]
    what: What,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum What {
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
        error: Option<Problem>,
    },
    #[serde(other)]
    Other,
}

/// What it may do to files, where that is not for its own settings to say. It asks for nothing: what its sandbox keeps it
/// from fails.
fn sandbox(default: Stance) -> Option<&'static str> {
    match default {
        Stance::Allow => Some("workspace-write"),
        Stance::Deny => Some("read-only"),
        Stance::Ask => None,
    }
}

impl Codex {
    pub(super) fn new(session: Option<&Value>) -> Self {
        let last = session.and_then(|session| Thread::deserialize(session).ok());
        Self { last, ..Self::default() }
    }
}

impl Vendor for Codex {
    fn invocation(&self, turn: &Turn<'_>) -> io::Result<Invocation> {
        let job = turn.job;
        let mut invocation = Invocation { stdin: job.prompt.clone(), ..Invocation::default() };
        invocation.args(["exec", "--json", "--skip-git-repo-check"]);
        let mut set = |key: &str, value: String| {
            invocation.args.extend(["-c".to_owned(), format!("{key}={value}")]);
        };
        set(
            &format!("mcp_servers.{SERVER}"),
            format!(
                "{{url={},bearer_token_env_var={},required=true,default_tools_approval_mode=\"approve\"}}",
                quoted(&turn.door.url),
                quoted(TOOLS_KEY)
            ),
        );
        let instructions = quoted(&job.system_prompt);
        if instructions.len() > LONGEST_ARGUMENT {
            let why = "codex takes no system prompt over 120 KiB";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        set("developer_instructions", instructions);
        if let Some(sandbox) = sandbox(job.permissions.default) {
            set("sandbox_mode", quoted(sandbox));
        }
        if let Mode::Isolated = turn.mode {
            set("model_provider", quoted("given"));
            set("model_providers.given", provider(&turn.endpoint));
        }
        if let Some(model) = model_for(Cli::Codex, job.model.as_deref()) {
            invocation.args(["--model", &model]);
        }
        invocation.args(["--disable", "plugins", "--disable", "apps"]);
        invocation.env(TOOLS_KEY, &turn.door.token);
        // Its own commands get none of it.
        invocation.args(["-c", "shell_environment_policy.exclude=[\"RUST_LOG\"]"]);
        invocation.env(LOG.0, LOG.1);
        if let Mode::Isolated = turn.mode {
            invocation.env("CODEX_HOME", &files::folder(&job.keep.join("codex"))?);
            invocation.env(MODEL_KEY, turn.endpoint.key.as_deref().unwrap_or_default());
        }
        if let Some(last) = &self.last {
            invocation.args(["resume", &last.id]);
        }
        invocation.args(["-"]);
        Ok(invocation)
    }

    fn hear(&mut self, line: &str) -> Vec<Heard> {
        match serde_json::from_str(line) {
            Ok(Event::Thread { thread_id }) => {
                self.id = Some(thread_id.clone());
                let before = self.last.clone().unwrap_or_default();
                vec![Heard::Session(json!(Thread { id: thread_id, ..before }))]
            }
            Ok(Event::Began { item }) => item.called().into_iter().collect(),
            Ok(Event::Done { item }) => self.done(item),
            Ok(Event::Completed { usage }) => {
                self.end = Some(Ok(()));
                self.used(usage)
            }
            Ok(Event::Failed { error }) => {
                self.end = Some(Err(error.message));
                Vec::new()
            }
            Ok(Event::Trouble { message }) => retry(&message).into_iter().collect(),
            Ok(Event::Other) | Err(_) => Vec::new(),
        }
    }

    fn logs(&mut self, line: &str) -> Option<Vec<Heard>> {
        let (_, answered) = line.split_once(ANSWERED)?;
        Some(pause(answered).map(Heard::GaveUp).into_iter().collect())
    }

    fn verdict(&mut self, exit: &Exit) -> Verdict {
        match self.end.take() {
            Some(Ok(())) if exit.status.success() => {
                Verdict::Answered(self.answer.take().unwrap_or_default())
            }
            Some(Err(why)) => Verdict::Failed(Failure::new(class_in(&why), why)),
            None if self.last.is_some() && exit.says(FORGOT) => Verdict::Forgot,
            Some(Ok(())) | None => Verdict::Failed(exit.wordless()),
        }
    }
}

impl Codex {
    /// What was used since the last turn, and where the next one begins to count.
    fn used(&self, all: Used) -> Vec<Heard> {
        let Thread { id, used: before } = self.last.clone().unwrap_or_default();
        let id = self.id.clone().unwrap_or(id);
        let share = Share {
            model: None,
            input: all.input.saturating_sub(before.input),
            from_cache: all.from_cache.saturating_sub(before.from_cache),
            into_cache: all.into_cache.saturating_sub(before.into_cache),
            output: all.output.saturating_sub(before.output),
        };
        vec![Heard::Session(json!(Thread { id, used: all })), Heard::Spent(vec![share])]
    }

    fn done(&mut self, item: Item) -> Vec<Heard> {
        if let What::AgentMessage { text } = item.what {
            // The last one is the answer.
            self.answer = Some(text.clone());
            return vec![Heard::Text(text)];
        }
        let Item { id, what } = item;
        let Some((tool, result)) = what.result() else { return Vec::new() };
        vec![Heard::Answered { id, tool, result }]
    }
}

impl Item {
    fn called(self) -> Option<Heard> {
        let Self { id, what } = self;
        let (tool, args) = match what {
            What::CommandExecution { command, .. } => {
                (SHELL.to_owned(), json!({"command": command}))
            }
            What::FileChange { changes, .. } => (PATCH.to_owned(), json!({"changes": changes})),
            What::WebSearch { query } => (SEARCH.to_owned(), json!({"query": query})),
            What::McpToolCall { server, tool, arguments, .. } => (named(&server, &tool), arguments),
            What::AgentMessage { .. } | What::Other => return None,
        };
        Some(Heard::Called { id, tool, args })
    }
}

impl What {
    /// Which tool it was, and what it answered.
    fn result(self) -> Option<(String, ToolResult)> {
        let judged = |is_done, text| {
            if is_done { ToolResult::Done(text) } else { ToolResult::Failed(text) }
        };
        Some(match self {
            Self::CommandExecution { aggregated_output, exit_code, .. } => {
                (SHELL.to_owned(), judged(exit_code == Some(0), aggregated_output))
            }
            Self::FileChange { status, .. } => {
                (PATCH.to_owned(), judged(status == "completed", status))
            }
            Self::WebSearch { .. } => (SEARCH.to_owned(), ToolResult::Done(String::new())),
            Self::McpToolCall { server, tool, result, error, .. } => {
                let result = match error {
                    Some(Problem { message }) => ToolResult::Failed(message),
                    None => ToolResult::Done(result.unwrap_or_default().to_string()),
                };
                (named(&server, &tool), result)
            }
            Self::AgentMessage { .. } | Self::Other => return None,
        })
    }
}

/// A tool of another server, spelt as Claude spells it: events of one team look alike.
fn named(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

/// Where its model is, for a key from the environment.
fn provider(endpoint: &Endpoint) -> String {
    let url = endpoint.base_url.as_deref().unwrap_or(OPENAI);
    format!(
        "{{name=\"given\",base_url={},env_key={},wire_api=\"responses\",request_max_retries={RETRIES},stream_max_retries={RETRIES}}}",
        quoted(url),
        quoted(MODEL_KEY)
    )
}

/// The same as a file of settings: those who start it for others pass no arguments on.
pub(super) fn settings(endpoint: &Endpoint, model: Option<&str>) -> String {
    let model = model.map(|model| format!("model={}\n", quoted(model))).unwrap_or_default();
    format!("{model}model_provider=\"given\"\nmodel_providers.given={}\n", provider(endpoint))
}

/// A string in TOML. JSON's escapes are among TOML's.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// It asks again, unless that is in vain: `Reconnecting... 1/5 (why)`. Who asked too often is let wait by us: it waits for as
/// long as the provider says, an hour if need be, without a word of how long.
fn retry(message: &str) -> Option<Heard> {
    let (_, why) = message.strip_prefix("Reconnecting... ")?.split_once(" (")?;
    let why = why.strip_suffix(')').unwrap_or(why);
    Some(match class_in(why) {
        class @ (FailureClass::Auth | FailureClass::Billing | FailureClass::RateLimited) => {
            Heard::GaveUp(Failure::new(class, why))
        }
        _ => Heard::Retry(why.to_owned()),
    })
}

/// The pause that an answer of its provider asks for, if that is not for it to wait for: it would without a word.
/// `method=POST url=… status=503 Service Unavailable headers={"retry-after": "600", …} version=HTTP/1.1`
fn pause(answered: &str) -> Option<Failure> {
    let (_, status) = answered.split_once(" status=")?;
    let status: u64 = status.split(' ').next()?.parse().ok()?;
    let class = class_of(status);
    let (_, after) = answered.split_once("\"retry-after\": \"")?;
    let after = Duration::from_secs(after.split('"').next()?.parse().ok()?);
    let is_long = class == FailureClass::Transient && after > LONGEST_PAUSE;
    is_long.then(|| {
        let why = format!("status {status}, and not to be asked again for {} s", after.as_secs());
        let retry_at = Some(time_of_day().plus(after));
        Failure { retry_at, ..Failure::new(class, why) }
    })
}

/// The class of a failure, by where its own error has a status or the provider's code, never by its words.
fn class_in(error: &str) -> FailureClass {
    let body: Option<Value> = serde_json::from_str(error).ok();
    let code = body.as_ref().and_then(|body| body.pointer("/error/code")?.as_str());
    match code {
        Some("context_length_exceeded") => return FailureClass::ContextOverflow,
        Some("insufficient_quota") => return FailureClass::Billing,
        Some(_) | None => {}
    }
    if error.starts_with(BROKE_OFF) {
        return FailureClass::Transient;
    }
    let status = STATUS_AFTER
        .iter()
        .find_map(|before| error.strip_prefix(before)?.split(' ').next()?.parse().ok());
    status.map_or(FailureClass::Fatal, class_of)
}
