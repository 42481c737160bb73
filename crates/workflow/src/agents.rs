//! `agents:` who takes part. Every default is filled in here, every number is within bounds.

use std::path::{Path, PathBuf};

use agent_worker_protocol::{AgentName, AgentSettings, Backend, Retry, Span};

use crate::{
    error::Complaint,
    fields::{Field, Fields, Key, Keys},
    mock, prompt,
    reference::is_name,
    suggest::nearest,
};

const AGENT: Keys = Keys {
    known: &[
        "backend",
        "model",
        "system_prompt",
        "max_tokens",
        "max_steps",
        "timeout",
        "silence",
        "retry",
        "cwd",
        "env",
        "mock",
    ],
    later: &["provider", "tools", "mcp_servers", "skills", "schedule", "permissions", "session"],
};
const RETRY: Keys = Keys { known: &["max_attempts", "backoff", "multiplier"], later: &[] };

const LATER_BACKENDS: [&str; 9] =
    ["api", "sdk", "claude", "codex", "cursor", "opencode", "gemini", "acp", "command"];

const ONLY_MOCK: &str = "this version has `backend: mock`";

const DEFAULT_STEPS: u32 = 30;
const DEFAULT_TIMEOUT: Span = Span::from_secs(30 * 60);
const DEFAULT_SILENCE: Span = Span::from_secs(5 * 60);
const SHORTEST: Span = Span::from_millis(1);
const LONGEST: Span = Span::from_secs(7 * 24 * 60 * 60);

/// Reads every agent; one that is wrong does not hide what is wrong with the next.
pub(crate) fn read(field: &Field<'_>, folder: &Path) -> Result<Vec<AgentSettings>, Vec<Complaint>> {
    let entries = field.named().map_err(|complaint| vec![complaint])?;
    if entries.is_empty() {
        return Err(vec![field.complaint("a workflow needs at least one agent")]);
    }
    let mut agents: Vec<AgentSettings> = Vec::new();
    let mut complaints = Vec::new();
    for (key, field) in entries {
        match agent(&key, &field, folder) {
            Ok(agent) if agents.iter().any(|other| other.name == agent.name) => {
                let name = agent.name;
                complaints.push(
                    key.complaint(format!("there are two agents called `{name}`"))
                        .hint("upper and lower case do not tell agents apart"),
                );
            }
            Ok(agent) => agents.push(agent),
            Err(complaint) => complaints.push(complaint),
        }
    }
    if complaints.is_empty() { Ok(agents) } else { Err(complaints) }
}

fn agent(key: &Key<'_>, field: &Field<'_>, folder: &Path) -> Result<AgentSettings, Complaint> {
    let name: AgentName = key.text.parse().map_err(|bad| key.complaint(format!("{bad}")))?;
    if matches!(field.node.value, crate::tree::Yaml::Null) {
        return Err(key.complaint(format!("`{name}` needs a `backend`")).hint(ONLY_MOCK));
    }
    let fields = field.fields(&AGENT)?;
    let text = |key: &str| fields.get(key).map(|field| field.text()).transpose();
    let span = |key: &str, default: Span| {
        fields.get(key).map_or(Ok(default), |field| field.span(SHORTEST..=LONGEST))
    };
    let cwd = fields.get("cwd").map(|field| folder_name(&field)).transpose()?;
    Ok(AgentSettings {
        backend: backend(key, &fields)?,
        model: text("model")?.map(str::to_owned),
        system_prompt: fields
            .get("system_prompt")
            .map(|field| prompt::read(&field, folder))
            .transpose()?,
        max_tokens: fields
            .get("max_tokens")
            .map(|field| field.whole(1..=10_000_000))
            .transpose()?,
        max_steps: fields
            .get("max_steps")
            .map_or(Ok(DEFAULT_STEPS), |field| field.whole(1..=10_000))?,
        timeout: span("timeout", DEFAULT_TIMEOUT)?,
        silence: span("silence", DEFAULT_SILENCE)?,
        retry: fields.get("retry").map_or(Ok(Retry::default()), |field| retry(&field))?,
        cwd,
        env: fields.get("env").map_or(Ok(Vec::new()), |field| env(&field))?,
        name,
    })
}

/// As written, or known from the rest: a script can only be a mock's.
fn backend(key: &Key<'_>, fields: &Fields<'_>) -> Result<Backend, Complaint> {
    let rules = fields.get("mock");
    let model = fields.get("model");
    match fields.get("backend") {
        Some(field) if field.text()? != "mock" => return Err(strange_backend(&field)?),
        Some(_) => {}
        None if rules.is_some() => {}
        None => match model {
            Some(model) if matches!(model.text()?.split('/').next(), Some("mock")) => {}
            Some(model) => {
                let text = model.text()?;
                return Err(model.not_yet(format_args!("the model `{text}`")).hint(ONLY_MOCK));
            }
            None => {
                let message = format!("`{}` needs a `backend`", key.text);
                return Err(key.complaint(message).hint(ONLY_MOCK));
            }
        },
    }
    let rules = rules.map_or(Ok(Vec::new()), |field| mock::read(&field))?;
    Ok(Backend::Mock { rules })
}

fn strange_backend(field: &Field<'_>) -> Result<Complaint, Complaint> {
    let word = field.text()?;
    if LATER_BACKENDS.contains(&word) {
        return Ok(field.not_yet(format_args!("the backend `{word}`")).hint(ONLY_MOCK));
    }
    let complaint = field.complaint(format!("there is no backend `{word}`"));
    let words = LATER_BACKENDS.iter().copied().chain(["mock"]);
    Ok(match nearest(word, words) {
        Some(word) => complaint.hint(format!("did you mean `{word}`?")),
        None => complaint.hint(ONLY_MOCK),
    })
}

fn retry(field: &Field<'_>) -> Result<Retry, Complaint> {
    let fields = field.fields(&RETRY)?;
    let default = Retry::default();
    Ok(Retry {
        max_attempts: fields
            .get("max_attempts")
            .map_or(Ok(default.max_attempts), |field| field.whole(1..=100))?,
        backoff: fields
            .get("backoff")
            .map_or(Ok(default.backoff), |field| field.span(Span::default()..=LONGEST))?,
        multiplier: fields
            .get("multiplier")
            .map_or(Ok(default.multiplier), |field| field.decimal(1.0..=100.0))?,
    })
}

fn env(field: &Field<'_>) -> Result<Vec<String>, Complaint> {
    let mut names = Vec::new();
    for item in field.list()? {
        let name = item.text()?;
        if !is_name(name) {
            return Err(item
                .complaint(format!("`{name}` is not the name of an environment variable"))
                .hint(
                    "write names alone, such as `GITHUB_TOKEN`; their values come from the caller",
                ));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// A working folder, relative to the run's.
pub(crate) fn folder_name(field: &Field<'_>) -> Result<PathBuf, Complaint> {
    let text = field.text_as_is()?;
    if text.is_empty() || text.contains('\0') {
        return Err(field.must("the path of a folder"));
    }
    Ok(PathBuf::from(text))
}
