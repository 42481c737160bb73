//! `agents:` who takes part. Every default is filled in here, every number is within bounds.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use agent_worker_protocol::{AgentName, AgentSettings, Retry, Span, ToolName};

use crate::{
    backend,
    complaint::{Complaint, Complaints},
    fields::{Field, Key, Keys},
    permissions, prompt,
    reference::is_name,
    suggest::nearest,
    tree::Yaml,
};

const AGENT: Keys = Keys {
    known: &[
        "backend",
        "agent",
        "model",
        "system_prompt",
        "max_tokens",
        "max_steps",
        "timeout",
        "silence",
        "retry",
        "cwd",
        "env",
        "requires",
        "permissions",
        "command",
        "mode",
        "session",
        "mock",
    ],
    later: &["provider", "tools", "mcp_servers", "skills", "schedule"],
};
const RETRY: Keys = Keys { known: &["max_attempts", "backoff", "multiplier"], later: &[] };

pub(crate) const DEFAULT_STEPS: u32 = 30;
pub(crate) const DEFAULT_TIMEOUT: Span = Span::from_secs(30 * 60);
pub(crate) const DEFAULT_SILENCE: Span = Span::from_secs(5 * 60);
const SHORTEST: Span = Span::from_millis(1);
const LONGEST: Span = Span::from_secs(7 * 24 * 60 * 60);

/// Reads every agent; one that is wrong does not hide what is wrong with the next.
pub(crate) fn read(
    field: &Field<'_>,
    folder: &Path,
    complaints: &mut Complaints,
) -> Vec<AgentSettings> {
    let Some(entries) = complaints.keep(field.named()) else { return Vec::new() };
    if entries.is_empty() {
        complaints.add(field.complaint("a workflow needs at least one agent"));
    }
    let mut agents = Vec::new();
    let mut names = BTreeSet::new();
    for (key, field) in entries {
        if complaints.is_full() {
            break;
        }
        let name = complaints.keep(checked_name(&key, &mut names));
        agents.extend(agent(name, &key, &field, folder, complaints));
    }
    agents
}

fn checked_name(key: &Key<'_>, names: &mut BTreeSet<AgentName>) -> Result<AgentName, Complaint> {
    let name: AgentName = key.text.parse().map_err(|bad| key.complaint(format!("{bad}")))?;
    if !names.insert(name.clone()) {
        return Err(key
            .complaint(format!("there are two agents called `{name}`"))
            .hint("upper and lower case do not tell agents apart"));
    }
    Ok(name)
}

fn agent(
    name: Option<AgentName>,
    key: &Key<'_>,
    field: &Field<'_>,
    folder: &Path,
    complaints: &mut Complaints,
) -> Option<AgentSettings> {
    if matches!(field.node.value, Yaml::Null) {
        complaints.add(backend::missing(key));
        return None;
    }
    let fields = field.fields(&AGENT, complaints)?;
    let span = |field: &Field<'_>| field.span(SHORTEST..=LONGEST);
    let backend = backend::read(key, &fields, complaints);
    let model = fields.take("model", complaints, |field| field.text().map(str::to_owned));
    let system_prompt =
        fields.take("system_prompt", complaints, |field| prompt::read(field, folder));
    let max_tokens = fields.take("max_tokens", complaints, |field| field.whole(1..=10_000_000));
    let max_steps = fields.take("max_steps", complaints, |field| field.whole(1..=10_000));
    let timeout = fields.take("timeout", complaints, span);
    let silence = fields.take("silence", complaints, span);
    let retry = fields.get("retry").map(|field| retry(&field, complaints));
    let cwd = fields.take("cwd", complaints, folder_name);
    let env = fields.get("env").map(|field| env(&field, complaints));
    let permissions =
        fields.get("permissions").map(|field| permissions::read(&field, &backend, complaints));
    let requires = fields.get("requires").map(|field| requires(&field, complaints));
    Some(AgentSettings {
        name: name?,
        backend,
        model,
        system_prompt,
        max_tokens,
        max_steps: max_steps.unwrap_or(DEFAULT_STEPS),
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        silence: silence.unwrap_or(DEFAULT_SILENCE),
        retry: retry.unwrap_or_default(),
        cwd,
        env: env.unwrap_or_default(),
        requires: requires.unwrap_or_default(),
        permissions: permissions.unwrap_or_default(),
    })
}

/// Tools that wait until a vote opens their gate.
fn requires(field: &Field<'_>, complaints: &mut Complaints) -> BTreeMap<String, String> {
    let mut gates = BTreeMap::new();
    for (key, gate) in complaints.keep(field.named()).unwrap_or_default() {
        let tool = complaints.keep(gated(&key));
        let gate = complaints.keep(gate.text().map(str::to_owned));
        if let (Some(tool), Some(gate)) = (tool, gate) {
            gates.insert(tool.word().to_owned(), gate);
        }
    }
    gates
}

fn gated(key: &Key<'_>) -> Result<ToolName, Complaint> {
    let writes = || ToolName::ALL.iter().filter(|tool| tool.writes()).map(|tool| tool.word());
    let found = ToolName::ALL.iter().find(|tool| tool.writes() && tool.word() == key.text);
    found.copied().ok_or_else(|| {
        let complaint = key.complaint(format!("no gate can stand before `{}`", key.text));
        match nearest(key.text, writes()) {
            Some(near) => complaint.hint(format!("did you mean `{near}`?")),
            None => complaint
                .hint(format!("one can before: {}", writes().collect::<Vec<_>>().join(", "))),
        }
    })
}

fn retry(field: &Field<'_>, complaints: &mut Complaints) -> Retry {
    let default = Retry::default();
    let Some(fields) = field.fields(&RETRY, complaints) else { return default };
    let max_attempts = fields.take("max_attempts", complaints, |field| field.whole(1..=100));
    let backoff = fields.take("backoff", complaints, |field| field.span(Span::default()..=LONGEST));
    let multiplier = fields.take("multiplier", complaints, |field| field.decimal(1.0..=100.0));
    Retry {
        max_attempts: max_attempts.unwrap_or(default.max_attempts),
        backoff: backoff.unwrap_or(default.backoff),
        multiplier: multiplier.unwrap_or(default.multiplier),
    }
}

fn env(field: &Field<'_>, complaints: &mut Complaints) -> Vec<String> {
    let mut names = Vec::new();
    for item in complaints.keep(field.list()).unwrap_or_default() {
        if complaints.is_full() {
            break;
        }
        names.extend(complaints.keep(env_name(&item)));
    }
    names
}

fn env_name(field: &Field<'_>) -> Result<String, Complaint> {
    let name = field.text()?;
    if is_name(name) {
        return Ok(name.to_owned());
    }
    Err(field
        .complaint(format!("`{name}` is not the name of an environment variable"))
        .hint("write names alone, such as `GITHUB_TOKEN`; their values come from the caller"))
}

/// A working folder, relative to the run's.
pub(crate) fn folder_name(field: &Field<'_>) -> Result<PathBuf, Complaint> {
    let text = field.text_as_is()?;
    if text.is_empty() || text.contains('\0') {
        return Err(field.must("the path of a folder"));
    }
    Ok(PathBuf::from(text))
}
