//! opencode: `opencode run --format json`, which writes a stream of JSON events and ends.
//!
//! What it tries again by itself it tries for ever, and says so only in its log: one that is at it for too long is not
//! waited for.

use std::{io, time::Duration};

use agent_worker_protocol::{Cli, FailureClass, Mode, Stance, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    Exit, Heard, Invocation, Turn, Vendor, Verdict, class_of, endpoint::Endpoint, files, micros,
    models::model_for,
};
use crate::{
    door::SERVER,
    model::{Failure, ToolResult},
};

/// The variable that its settings name, so that no key stands in them.
const MODEL_KEY: &str = "AGENT_WORKER_MODEL_KEY";
/// How often it may ask its provider again by itself, and how long it may wait before it does.
const RETRIES: u32 = 3;
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long it waits for a tool of ours. Its own default is a minute, and a daemon that restarts may take longer.
const LONGEST_CALL_MS: u64 = 600_000;
/// What it complains of when it knows no such conversation.
const FORGOT: &str = "Session not found";
/// How its log tells that the provider did not answer the conversation itself: it also asks for titles.
const IN_VAIN: [&str; 3] = [" level=ERROR ", " message=\"stream error\" ", " small=false "];
/// What it may do where it may do nothing by itself.
const HARMLESS: [&str; 4] = ["glob", "grep", "list", "read"];

/// What it has said so far.
#[derive(Default)]
pub(super) struct Opencode {
    last: Option<Conversation>,
    has_begun: bool,
    /// What it said in this step.
    answer: String,
    /// Why its last step ended.
    reason: Option<String>,
    error: Option<Problem>,
    /// Why its provider did not answer, how often in a row, and since when.
    in_vain: Option<(String, u32, Instant)>,
}

/// What the next turn needs to go on.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Conversation {
    id: String,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "sessionID")]
    session: String,
    #[serde(flatten)]
    event: Event,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    StepStart,
    Text {
        part: Said,
    },
    /// A call and its result at once.
    ToolUse {
        part: Called,
    },
    StepFinish {
        part: Step,
    },
    Error {
        error: Problem,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Said {
    text: String,
}

#[derive(Deserialize)]
struct Called {
    tool: String,
    #[serde(rename = "callID")]
    id: String,
    state: State,
}

#[derive(Deserialize)]
struct State {
    status: String,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    output: String,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
struct Step {
    reason: String,
    tokens: Tokens,
    #[serde(default)]
    cost: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tokens {
    total: Option<u64>,
    input: u64,
    output: u64,
    reasoning: u64,
    cache: Cache,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cache {
    read: u64,
    write: u64,
}

/// Its own name for what went wrong, and what the provider said.
#[derive(Deserialize)]
struct Problem {
    name: String,
    #[serde(default)]
    data: Details,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    message: String,
    status_code: Option<u64>,
    response_body: String,
}

impl Opencode {
    pub(super) fn new(session: Option<&Value>) -> Self {
        let last = session.and_then(|session| Conversation::deserialize(session).ok());
        Self { last, ..Self::default() }
    }
}

impl Vendor for Opencode {
    fn invocation(&self, turn: &Turn<'_>) -> io::Result<Invocation> {
        let job = turn.job;
        let mut invocation = Invocation { stdin: job.prompt.clone(), ..Invocation::default() };
        let system = files::private(&job.folder, "system.md", &job.system_prompt)?;
        let headers = json!({"Authorization": format!("Bearer {}", turn.door.token)});
        let mut settings = json!({
            "autoupdate": false,
            "share": "disabled",
            // The project's own, which it does not look for: see below.
            "instructions": [system, job.cwd.join("AGENTS.md")],
            "mcp": {SERVER: {
                "type": "remote", "url": turn.door.url, "headers": headers, "oauth": false, "enabled": true,
                "timeout": LONGEST_CALL_MS,
            }},
            // What is refused is told to the model, which may do something else.
            "experimental": {"mcp_timeout": LONGEST_CALL_MS, "continue_loop_on_deny": true},
            "permission": permission(job.permissions.default),
        });
        // A title would be one more thing to ask the model for.
        let title = format!("{}@{}", job.agent, job.instance);
        invocation.args(["run", "--pure", "--format", "json", "--title", &title]);
        invocation.args(["--print-logs", "--log-level", "ERROR"]);
        if let Some(model) = model(job.model.as_deref()) {
            if let Some((provider, name)) = model.split_once('/') {
                settings["provider"] = json!({provider: settings_of(provider, name, turn)});
            }
            invocation.args(["--model", &model]);
        }
        if let Some(last) = &self.last {
            invocation.args(["--session", &last.id]);
        }
        invocation.env("OPENCODE_CONFIG_CONTENT", &settings.to_string());
        // It would write into the project's `.opencode`.
        invocation.env("OPENCODE_DISABLE_PROJECT_CONFIG", "1");
        invocation.env("OPENCODE_DISABLE_AUTOUPDATE", "1");
        invocation.env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1");
        if let Mode::Isolated = turn.mode {
            let own = job.keep.join("opencode");
            for (name, folder) in [
                ("XDG_CONFIG_HOME", "config"),
                ("XDG_DATA_HOME", "data"),
                ("XDG_STATE_HOME", "state"),
                ("XDG_CACHE_HOME", "cache"),
                ("npm_config_cache", "npm"),
                // Where it looks for `.opencode` of a person.
                ("OPENCODE_TEST_HOME", "home"),
            ] {
                invocation.env(name, &files::folder(&own.join(folder))?);
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

    fn hear(&mut self, line: &str) -> Vec<Heard> {
        let Ok(Line { session, event }) = serde_json::from_str(line) else { return Vec::new() };
        self.in_vain = None;
        let mut heard = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            heard.push(Heard::Session(json!(Conversation { id: session })));
        }
        match event {
            Event::StepStart => self.answer.clear(),
            Event::Text { part: Said { text } } => {
                self.answer.push_str(&text);
                heard.push(Heard::Text(text));
            }
            Event::ToolUse { part: Called { tool, id, state } } => {
                let tool = spelt(&tool);
                let result = match state.status.as_str() {
                    "completed" => ToolResult::Done(state.output),
                    _ => ToolResult::Failed(state.error),
                };
                let called =
                    Heard::Called { id: id.clone(), tool: tool.clone(), args: state.input };
                heard.extend([called, Heard::Answered { id, tool, result }]);
            }
            Event::StepFinish { part: Step { reason, tokens, cost } } => {
                self.reason = Some(reason);
                heard.push(Heard::Usage(tokens.usage(cost)));
            }
            Event::Error { error } => self.error = Some(error),
            Event::Other => {}
        }
        heard
    }

    fn logs(&mut self, line: &str) -> Option<Vec<Heard>> {
        if !IN_VAIN.iter().all(|part| line.contains(part)) {
            return None;
        }
        let why = line.split_once(" error.error=").map_or(line, |(_, why)| why);
        let why = serde_json::from_str(why).unwrap_or_else(|_| why.to_owned());
        let before = self.in_vain.take();
        let times = before.as_ref().map_or(1, |(_, times, _)| times + 1);
        self.in_vain = Some((why.clone(), times, Instant::now()));
        if times > RETRIES {
            return Some(vec![Heard::GaveUp(Failure::new(FailureClass::Transient, why))]);
        }
        // The first is no try yet: what is in vain for good follows it at once.
        Some(before.map(|(why, ..)| Heard::Retry(why)).into_iter().collect())
    }

    fn waits(&self) -> Option<(Instant, Failure)> {
        let (why, _, since) = self.in_vain.as_ref()?;
        Some((*since + LONGEST_PAUSE, Failure::new(FailureClass::Transient, why)))
    }

    fn verdict(&mut self, exit: &Exit) -> Verdict {
        match (self.error.take(), self.reason.take()) {
            (Some(error), _) => Verdict::Failed(error.failure()),
            (None, Some(reason)) if reason != "tool-calls" && exit.status.success() => {
                Verdict::Answered(std::mem::take(&mut self.answer))
            }
            (None, None) if self.last.is_some() && exit.says(FORGOT) => Verdict::Forgot,
            (None, Some(_) | None) => Verdict::Failed(exit.wordless()),
        }
    }
}

impl Tokens {
    fn usage(&self, cost: f64) -> Usage {
        let Self { total, input, output, reasoning, cache } = self;
        let input_tokens = input + cache.read + cache.write;
        // Whether what it thought is in what it wrote differs between providers; it is in the total.
        let output_tokens =
            total.map_or(output + reasoning, |all| all.saturating_sub(input_tokens));
        // Nothing is also what it says when it knows no price.
        let cost_micros = Some(micros(cost)).filter(|micros| *micros > 0);
        Usage { input_tokens, output_tokens, cost_micros, cost_reckoned: false }
    }
}

impl Problem {
    fn failure(self) -> Failure {
        let Self { name, data: Details { message, status_code, response_body } } = self;
        let body: Option<Value> = serde_json::from_str(&response_body).ok();
        let code = body.as_ref().and_then(|body| body.pointer("/error/code")?.as_str());
        let class = match (&*name, status_code, code) {
            ("APIError", _, Some("insufficient_quota")) => FailureClass::Billing,
            ("APIError", _, Some("context_length_exceeded")) | ("ContextOverflowError", ..) => {
                FailureClass::ContextOverflow
            }
            ("APIError", Some(status), _) => class_of(status),
            // There was no answer, or it broke off.
            ("APIError", None, _) => FailureClass::Transient,
            ("ProviderAuthError", ..) => FailureClass::Auth,
            _ => FailureClass::Fatal,
        };
        Failure::new(class, if message.is_empty() { name } else { message })
    }
}

/// The model as it wants it: always with its provider, which may be its own.
fn model(written: Option<&str>) -> Option<String> {
    let name = model_for(Cli::Opencode, written)?;
    // `opencode/openai/gpt-5` says the backend too; `opencode/big-pickle` is a model of its own.
    let rest = name.strip_prefix("opencode/");
    let name = rest.filter(|rest| rest.contains(['/', ':'])).unwrap_or(&name);
    if rest == Some("auto") {
        return None;
    }
    let provider_ends = name.find(['/', ':']);
    Some(match provider_ends {
        Some(at) if name[at..].starts_with(':') => name.replacen(':', "/", 1),
        Some(_) | None => name.to_owned(),
    })
}

/// Which provider it is, by what is written.
pub(super) fn provider(written: Option<&str>) -> Option<String> {
    model(written)?.split_once('/').map(|(provider, _)| provider.to_owned())
}

/// What it has to know of a provider. One that only the environment knows speaks as most do.
fn settings_of(provider: &str, name: &str, turn: &Turn<'_>) -> Value {
    let Endpoint { base_url, key } = &turn.endpoint;
    let mut options = Map::new();
    let mut settings = json!({});
    if let Some(url) = base_url {
        let url = url.trim_end_matches('/');
        let path = match provider {
            "anthropic" => "/v1",
            "google" => "/v1beta",
            "openai" => "",
            _ => {
                settings["npm"] = json!("@ai-sdk/openai-compatible");
                settings["models"] = json!({name: {}});
                ""
            }
        };
        let url = url.strip_suffix(path).unwrap_or(url);
        options.insert("baseURL".to_owned(), json!(format!("{url}{path}")));
    }
    if turn.mode == Mode::Isolated && key.is_some() {
        options.insert("apiKey".to_owned(), json!(format!("{{env:{MODEL_KEY}}}")));
    }
    settings["options"] = Value::Object(options);
    settings
}

/// What it may do by itself. The last that fits holds, and they are told in the order of the alphabet.
fn permission(default: Stance) -> Value {
    let ours = format!("{SERVER}_*");
    match default {
        Stance::Allow => json!({"*": "allow", ours: "allow"}),
        Stance::Ask => json!({ours: "allow"}),
        Stance::Deny => {
            let mut rules = json!({"*": "deny", ours: "allow"});
            for tool in HARMLESS {
                rules[tool] = json!("allow");
            }
            rules
        }
    }
}

/// A tool's name as Claude spells it: events of one team look alike.
fn spelt(tool: &str) -> String {
    match tool.strip_prefix(SERVER).and_then(|tool| tool.strip_prefix('_')) {
        Some(tool) => format!("mcp__{SERVER}__{tool}"),
        None => tool.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_with_its_provider_in_any_spelling() {
        for (written, expected) in [
            ("anthropic/claude-sonnet-4-5", Some("anthropic/claude-sonnet-4-5")),
            ("anthropic:claude-sonnet-4-5", Some("anthropic/claude-sonnet-4-5")),
            ("opencode/openai/gpt-5", Some("openai/gpt-5")),
            ("opencode/big-pickle", Some("opencode/big-pickle")),
            ("openrouter/z-ai/glm:free", Some("openrouter/z-ai/glm:free")),
            ("opencode/auto", None),
            ("auto", None),
            ("sonnet", Some("anthropic/claude-sonnet-5-5")),
            ("large", Some("large")),
        ] {
            assert_eq!(model(Some(written)).as_deref(), expected, "{written}");
        }
        assert_eq!(provider(Some("acme/large")).as_deref(), Some("acme"));
        assert_eq!(provider(Some("large")), None);
    }

    #[test]
    fn rules_are_told_so_that_the_last_that_fits_is_the_one_that_is_meant() {
        let told = permission(Stance::Deny).to_string();
        assert!(told.starts_with("{\"*\":\"deny\","), "{told}");
        assert!(told.ends_with("\"team_*\":\"allow\"}"), "{told}");
    }

    #[test]
    fn what_was_thought_is_counted_once_and_a_price_that_is_not_known_is_none() {
        let tokens = |text| serde_json::from_str::<Tokens>(text).unwrap();
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
