//! `agents:` section of the file. This code fills in every default and checks the range of every number.

pub(crate) mod agent_file;
pub(crate) mod api;
pub(crate) mod backend;
pub(crate) mod builtin_tools;
pub(crate) mod mock;
pub(crate) mod mock_tools;
pub(crate) mod output_schema;
pub(crate) mod permissions;
pub(crate) mod prompt;
pub(crate) mod sandbox;
pub(crate) mod standalone;
pub(crate) mod team_parts;
pub(crate) mod tool_list;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use agent_worker_backends::{
    BackendCapabilities, BackendKind, BackendSpec, CapabilitySupport, available_backends,
};
use agent_worker_protocol::{
    AgentName, AgentSettings, Effort, Keyword as _, RetryPolicy, RunDefaults, Span, ToolName,
};

use crate::{
    agents::{
        agent_file::AgentFileUse, backend::BackendSources, builtin_tools::ToolKeys,
        prompt::PromptFolder,
    },
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    template::reference::is_name,
    yaml::fields::{AllowedKeys, YamlField, YamlFields, YamlKey},
    yaml::{Node, Yaml},
};

const AGENT_KEYS: AllowedKeys = AllowedKeys {
    known: &[
        "use",
        "backend",
        "agent",
        "model",
        "fallback",
        "system_prompt",
        "max_tokens",
        "max_steps",
        "output_schema",
        "effort",
        "timeout",
        "silence",
        "retry",
        "cwd",
        "env",
        "requires",
        "permissions",
        "sandbox",
        "command",
        "args",
        "mode",
        "session",
        "provider",
        "context_window",
        "temperature",
        "extra",
        "tools",
        "mock_tools",
        "mock",
    ],
    planned: &["mcp_servers", "skills", "schedule"],
};
const RETRY_KEYS: AllowedKeys =
    AllowedKeys { known: &["max_attempts", "backoff", "multiplier"], planned: &[] };

pub(crate) const DEFAULT_TIMEOUT: Span = Span::from_secs(30 * 60);
pub(crate) const DEFAULT_SILENCE: Span = Span::from_secs(5 * 60);
const MIN_SPAN: Span = Span::from_millis(1);
const MAX_SPAN: Span = Span::from_secs(7 * 24 * 60 * 60);

/// The sources of an agent's settings apart from its own keys.
#[derive(Clone, Copy)]
pub(crate) struct AgentSources<'a> {
    /// Folder of the prompts and the agent files.
    pub(crate) folder: PromptFolder<'a>,
    /// Defaults of the user.
    pub(crate) defaults: &'a RunDefaults,
}

/// Reads every agent; a mistake in one agent does not hide mistakes in the next.
pub(crate) fn read(
    field: &YamlField<'_>,
    sources: AgentSources<'_>,
    diagnostics: &mut Diagnostics,
) -> Vec<AgentSettings> {
    let Some(entries) = diagnostics.ok_or_add(field.named_entries()) else { return Vec::new() };
    if entries.is_empty() {
        diagnostics.add(field.diagnostic("a workflow needs at least one agent"));
    }
    let mut agents = Vec::new();
    let mut names = BTreeSet::new();
    for (key, field) in entries {
        if diagnostics.is_full() {
            break;
        }
        let name = diagnostics.ok_or_add(checked_name(&key, &mut names));
        agents.extend(read_agent(name, &key, &field, sources, diagnostics));
    }
    agents
}

fn checked_name(
    key: &YamlKey<'_>,
    names: &mut BTreeSet<AgentName>,
) -> Result<AgentName, Diagnostic> {
    let name: AgentName = key.text.parse().map_err(|bad| key.diagnostic(format!("{bad}")))?;
    if !names.insert(name.clone()) {
        return Err(key
            .diagnostic(format!("there are two agents called `{name}`"))
            .with_hint("names of agents are not case-sensitive"));
    }
    Ok(name)
}

fn read_agent(
    name: Option<AgentName>,
    key: &YamlKey<'_>,
    field: &YamlField<'_>,
    sources: AgentSources<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<AgentSettings> {
    let default = backend::default_spec(sources.defaults);
    let empty = Node { at: field.node.at.clone(), value: Yaml::Map(Vec::new()) };
    let field = &diagnostics.ok_or_add(or_default_agent(key, field, &empty, default))?;
    let folder = sources.folder;
    let fields = field.fields(&AGENT_KEYS, diagnostics)?;
    let span = |field: &YamlField<'_>| field.span(MIN_SPAN..=MAX_SPAN);
    let file = agent_file::read(&fields, folder, diagnostics);
    let (backend, spec) =
        backend::read(key, &fields, BackendSources { file: &file, default }, diagnostics);
    let model = fields.read_with("model", diagnostics, |field| field.text().map(str::to_owned));
    let fallback = fields.read_with("fallback", diagnostics, |field| read_fallback(field, spec));
    let system_prompt =
        fields.read_with("system_prompt", diagnostics, |field| prompt::read(field, folder));
    let (max_tokens, max_steps) = read_maxima(&fields, spec, diagnostics);
    let output_schema =
        fields.read_with("output_schema", diagnostics, |field| output_schema::read(field, folder));
    let effort = fields.read_with("effort", diagnostics, |field| read_effort(field, spec));
    let timeout = fields.read_with("timeout", diagnostics, span);
    let silence = fields.read_with("silence", diagnostics, span);
    let retry = fields.get("retry").map(|field| read_retry(&field, diagnostics));
    let cwd = fields.read_with("cwd", diagnostics, folder_name);
    let env = fields.get("env").map(|field| read_env_names(&field, diagnostics));
    let rules = fields.get("permissions");
    let form = permissions::written_form(rules.as_ref(), spec);
    let permissions = rules.map(|field| permissions::read_form(&field, form, spec, diagnostics));
    let tools = fields.get("tools").map(|field| builtin_tools::read(&field, spec, diagnostics));
    let mock_tools =
        fields.get("mock_tools").map(|field| mock_tools::read(&field, spec, diagnostics));
    let sandbox = fields.get("sandbox").map(|field| sandbox::read(&field, spec, diagnostics));
    let requires = fields.get("requires").map(|field| read_required_gates(&field, diagnostics));
    let mut settings = AgentSettings {
        name: name?,
        backend,
        model,
        fallback: fallback.unwrap_or_default(),
        system_prompt,
        max_tokens,
        max_steps,
        output_schema,
        effort,
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        silence: silence.unwrap_or(DEFAULT_SILENCE),
        retry: retry.unwrap_or_default(),
        cwd,
        env: env.unwrap_or_default(),
        requires: requires.unwrap_or_default(),
        permissions: permissions.unwrap_or_default(),
        sandbox: sandbox.unwrap_or_default(),
        mock_tools: mock_tools.unwrap_or_default(),
    };
    if let (AgentFileUse::Read(file), Some(spec)) = (file, spec) {
        file.fill(&mut settings, spec, &fields, diagnostics);
    }
    let (tools, has_sandbox) = (tools.as_deref(), fields.has("sandbox"));
    builtin_tools::complete(&mut settings, ToolKeys { tools, permissions: form, has_sandbox });
    let default_model = || sources.defaults.models.get(spec?.name).cloned();
    settings.model = settings.model.or_else(default_model);
    Some(settings)
}

/// Returns the keys of an agent. An agent without any has the default backend, if there is one.
fn or_default_agent<'a>(
    key: &YamlKey<'_>,
    field: &YamlField<'a>,
    empty: &'a Node,
    default: Option<&BackendSpec>,
) -> Result<YamlField<'a>, Diagnostic> {
    match (&field.node.value, default) {
        (Yaml::Null, None) => Err(backend::missing_backend(key)),
        (Yaml::Null, Some(_)) => Ok(field.with_node(empty)),
        _ => Ok(field.clone()),
    }
}

/// Reads the name of an agent of the team, whose names are as written in the file. The reader of the agents reports a
/// name that is invalid; it is none here.
pub(crate) fn read_member(
    field: &YamlField<'_>,
    team: &[&str],
) -> Result<Option<AgentName>, Diagnostic> {
    let text = field.text()?;
    if let Some(name) = team.iter().find(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(name.parse().ok());
    }
    let diagnostic = field.diagnostic(format!("there is no agent `{text}`"));
    Err(match nearest(text, team.iter().copied()) {
        Some(name) => diagnostic.with_hint(format!("did you mean `{name}`?")),
        None => diagnostic.with_hint(format!("the agents are: {}", team.join(", "))),
    })
}

/// Returns the backends that can enforce a limit.
pub(crate) fn limiting_backends(
    support: fn(BackendCapabilities) -> CapabilitySupport,
) -> Vec<&'static str> {
    let has_it = |spec: &&BackendSpec| support(spec.can) != CapabilitySupport::No;
    available_backends().filter(has_it).map(|spec| spec.name).collect()
}

/// Reads the models for a turn whose own model is overloaded, for a vendor's program.
fn read_fallback(
    field: &YamlField<'_>,
    backend: Option<&BackendSpec>,
) -> Result<Vec<String>, Diagnostic> {
    if let Some(backend) = backend.filter(|spec| spec.kind != BackendKind::Program) {
        return Err(field
            .diagnostic(format!("`fallback` is not supported by backend `{}`", backend.name))
            .with_hint("it is supported by claude, codex, gemini, opencode and cursor"));
    }
    field.list()?.iter().map(|item| item.text().map(str::to_owned)).collect()
}

/// Reads an effort that the backend can select.
fn read_effort(field: &YamlField<'_>, backend: Option<&BackendSpec>) -> Result<Effort, Diagnostic> {
    require_support("effort", |can| can.effort, backend, field)?;
    let text = field.text()?;
    let known = backend.map_or(&[][..], |backend| backend.efforts);
    if let Some(effort) = known.iter().find(|effort| effort.word() == text) {
        return Ok(*effort);
    }
    let words: Vec<_> = known.iter().map(|effort| effort.word()).collect();
    let name = backend.map_or("", |backend| backend.name);
    let diagnostic = field.diagnostic(format!("backend `{name}` has no effort `{text}`"));
    Err(match nearest(text, words.iter().copied()) {
        Some(near) => diagnostic.with_hint(format!("did you mean `{near}`?")),
        None => diagnostic.with_hint(format!("it has: {}", words.join(", "))),
    })
}

/// Reads the maximum numbers of tokens of an answer and of steps of a turn.
fn read_maxima(
    fields: &YamlFields<'_>,
    spec: Option<&BackendSpec>,
    diagnostics: &mut Diagnostics,
) -> (Option<u32>, Option<u32>) {
    let max_tokens = fields.read_with("max_tokens", diagnostics, |field| {
        require_support("max_tokens", |can| can.max_tokens, spec, field)?;
        field.integer(1..=10_000_000)
    });
    let max_steps = fields.read_with("max_steps", diagnostics, |field| {
        require_support("max_steps", |can| can.max_steps, spec, field)?;
        field.integer(1..=10_000)
    });
    (max_tokens, max_steps)
}

/// Refuses a setting that the backend cannot apply. An unknown backend has its own diagnostic.
fn require_support(
    key: &str,
    support: fn(BackendCapabilities) -> CapabilitySupport,
    backend: Option<&BackendSpec>,
    field: &YamlField<'_>,
) -> Result<(), Diagnostic> {
    let Some(backend) = backend.filter(|spec| support(spec.can) == CapabilitySupport::No) else {
        return Ok(());
    };
    let names = limiting_backends(support).into_iter().map(|name| format!("`{name}`"));
    let names: Vec<_> = names.collect();
    let rest =
        if ["effort", "sandbox"].contains(&key) { "" } else { "; `timeout` limits every backend" };
    Err(field
        .diagnostic(format!("`{key}` is not supported by backend `{}`", backend.name))
        .with_hint(format!("it is supported by {}{rest}", names.join(", "))))
}

/// Reads the tools that stay locked until a vote opens their gate.
fn read_required_gates(
    field: &YamlField<'_>,
    diagnostics: &mut Diagnostics,
) -> BTreeMap<String, String> {
    let mut gates = BTreeMap::new();
    for (key, gate) in diagnostics.ok_or_add(field.named_entries()).unwrap_or_default() {
        let tool = diagnostics.ok_or_add(gated_tool(&key));
        let gate = diagnostics.ok_or_add(gate.text().map(str::to_owned));
        if let (Some(tool), Some(gate)) = (tool, gate) {
            gates.insert(tool.word().to_owned(), gate);
        }
    }
    gates
}

fn gated_tool(key: &YamlKey<'_>) -> Result<ToolName, Diagnostic> {
    let writes = || ToolName::ALL.iter().filter(|tool| tool.writes()).map(|tool| tool.word());
    let found = ToolName::ALL.iter().find(|tool| tool.writes() && tool.word() == key.text);
    found.copied().ok_or_else(|| {
        let diagnostic =
            key.diagnostic(format!("`{}` is not a tool that a gate can lock", key.text));
        match nearest(key.text, writes()) {
            Some(near) => diagnostic.with_hint(format!("did you mean `{near}`?")),
            None => diagnostic
                .with_hint(format!("a gate can lock: {}", writes().collect::<Vec<_>>().join(", "))),
        }
    })
}

fn read_retry(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> RetryPolicy {
    let default = RetryPolicy::default();
    let Some(fields) = field.fields(&RETRY_KEYS, diagnostics) else { return default };
    let max_attempts =
        fields.read_with("max_attempts", diagnostics, |field| field.integer(1..=100));
    let backoff =
        fields.read_with("backoff", diagnostics, |field| field.span(Span::default()..=MAX_SPAN));
    let multiplier =
        fields.read_with("multiplier", diagnostics, |field| field.decimal(1.0..=100.0));
    RetryPolicy {
        max_attempts: max_attempts.unwrap_or(default.max_attempts),
        backoff: backoff.unwrap_or(default.backoff),
        multiplier: multiplier.unwrap_or(default.multiplier),
    }
}

fn read_env_names(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> Vec<String> {
    let mut names = Vec::new();
    for item in diagnostics.ok_or_add(field.list()).unwrap_or_default() {
        if diagnostics.is_full() {
            break;
        }
        names.extend(diagnostics.ok_or_add(env_name(&item)));
    }
    names
}

fn env_name(field: &YamlField<'_>) -> Result<String, Diagnostic> {
    let name = field.text()?;
    if is_name(name) {
        return Ok(name.to_owned());
    }
    Err(field
        .diagnostic(format!("`{name}` is not the name of an environment variable"))
        .with_hint("write names alone, such as `GITHUB_TOKEN`; their values come from the caller"))
}

/// Reads a working folder, relative to the folder of the file.
pub(crate) fn folder_name(field: &YamlField<'_>) -> Result<PathBuf, Diagnostic> {
    let text = field.literal_text()?;
    if text.is_empty() || text.contains('\0') {
        return Err(field.must_be("the path of a folder"));
    }
    Ok(PathBuf::from(text))
}
