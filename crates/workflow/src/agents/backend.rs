//! Backend of an agent: from its `backend` key, or derived from the other keys.

use agent_worker_backends::{
    ACP_AGENTS, AcpAgentSpec, BACKENDS, BackendKind, BackendSpec, PROVIDERS, api_model,
    available_backends, find_backend, model_names,
};
use agent_worker_protocol::{
    Acp, Backend, CredentialMode, Keyword as _, MockRule, Native, RunDefaults, SessionPolicy,
};

use crate::{
    agents::{
        agent_file::AgentFileUse,
        api,
        mock::{self, CallableTools},
        mock_tools,
    },
    definition::user_config::is_default_backend,
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    yaml::fields::{YamlField, YamlFields, YamlKey},
};

/// Error message about a word, and a suggestion.
pub(crate) type BackendChoiceError = (String, String);

/// The reason why no backend is the default.
pub const NO_DEFAULT: &str = "there is no default";

/// Returns the list of available backends as a sentence.
pub fn backend_choices() -> String {
    format!(
        "this version has {}",
        backend_words().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    )
}

/// Returns the words of the backends in this version, as written in a file.
pub(crate) fn backend_words() -> impl Iterator<Item = &'static str> {
    available_backends().map(|spec| spec.name)
}

/// Returns the backend that a word means.
pub(crate) fn backend_of_word(word: &str) -> Result<&'static BackendSpec, BackendChoiceError> {
    match find_backend(word) {
        Some(spec) if spec.is_available() => Ok(spec),
        Some(_) => Err((format!("the backend `{word}` is not in this version"), backend_choices())),
        None => {
            let others = BACKENDS.iter().filter(|spec| !spec.is_available());
            let others =
                others.flat_map(|spec| [spec.name].into_iter().chain(spec.aliases.iter().copied()));
            let hint = match nearest(word, backend_words().chain(others)) {
                Some(word) => format!("did you mean `{word}`?"),
                None => backend_choices(),
            };
            Err((format!("there is no backend `{word}`"), hint))
        }
    }
}

/// Returns the words before `/` or `:` in the name of a model that imply a backend.
pub(crate) fn words_of_models() -> impl Iterator<Item = &'static str> {
    let specs = available_backends().filter(|spec| is_implied_by_model(spec));
    specs.flat_map(|spec| [spec.name].into_iter().chain(spec.aliases.iter().copied()))
}

/// Returns the pattern of the names of models that imply a backend, without its anchors.
pub(crate) fn model_pattern() -> String {
    let backends = words_of_models().collect::<Vec<_>>().join("|");
    let providers = PROVIDERS.each_ref().map(|row| row.name).join("|");
    let names: Vec<_> = model_names().map(|name| name.replace('.', "\\.")).collect();
    let date = "(-[0-9]{8}|-[0-9]{4}-[0-9]{2}-[0-9]{2})?";
    format!("({backends})([/:].*)?|({providers})[/:].+|({}){date}", names.join("|"))
}

fn is_implied_by_model(spec: &BackendSpec) -> bool {
    [BackendKind::Program, BackendKind::Mock].contains(&spec.kind)
}

/// Returns the backend that a model's name implies: `claude/opus` and `claude:opus` are models of Claude Code.
pub(crate) fn backend_of_model(model: &str) -> Result<&'static BackendSpec, BackendChoiceError> {
    let word = model.split(['/', ':']).next().unwrap_or_default();
    match backend_of_word(word) {
        Ok(spec) if is_implied_by_model(spec) => Ok(spec),
        // A model of a provider, or a bare name of one, is for direct access to the provider.
        Ok(_) | Err(_) if api_model(None, model).is_some() => Ok(of_kind(BackendKind::Api)),
        Ok(_) | Err(_) => {
            let message = format!("the model `{model}` does not imply a backend");
            let words = words_of_models().chain(PROVIDERS.each_ref().map(|row| row.name));
            let help = match nearest(word, words).filter(|_| word.len() < model.len()) {
                Some(meant) => format!("did you mean `{meant}{}`?", &model[word.len()..]),
                None => format!("add a backend; {}", backend_choices()),
            };
            Err((message, help))
        }
    }
}

/// Keys that only programs have.
const PROGRAM_KEYS: [&str; 3] = ["command", "mode", "session"];

/// The parts of a backend that a caller gives.
pub(crate) struct BackendInputs {
    pub(crate) rules: Vec<MockRule>,
    /// Model, as written by the user.
    pub(crate) model: Option<String>,
    /// Known agent of the backend `acp`.
    pub(crate) agent: Option<String>,
    /// Program and its arguments.
    pub(crate) command: Vec<String>,
}

/// Returns a backend with these parts and default settings.
pub(crate) fn with_defaults(
    spec: &BackendSpec,
    inputs: BackendInputs,
) -> Result<Backend, BackendChoiceError> {
    let BackendInputs { rules, model, agent, command } = inputs;
    let (mode, session) = (None, SessionPolicy::default());
    if agent.is_some() && spec.kind != BackendKind::Acp {
        let message = "`agent` is for the backend `acp`".to_owned();
        return Err((message, "omit it, or use `acp`".to_owned()));
    }
    match spec.kind {
        BackendKind::Mock | BackendKind::Api if !command.is_empty() => {
            let hint = "omit it, or use the backend `command`";
            Err((format!("backend `{}` takes no command", spec.name), hint.to_owned()))
        }
        BackendKind::Mock => Ok(Backend::Mock { rules }),
        BackendKind::Api => api::with_defaults(model.as_deref()).map(Backend::Api),
        BackendKind::Program => {
            let args = Vec::new();
            Ok(Backend::Native(Native { cli: spec.name.into(), command, args, mode, session }))
        }
        BackendKind::Acp => match agent {
            None if command.is_empty() => {
                Err(("`acp` needs an agent or a command".to_owned(), known_acp_agents()))
            }
            Some(word) if !ACP_AGENTS.iter().any(|known| known.name == word) => {
                Err((format!("there is no known agent `{word}`"), known_acp_agents()))
            }
            agent => {
                let agent = agent.as_deref().map(Into::into);
                Ok(Backend::Acp(Acp { agent, command, mode, session }))
            }
        },
        BackendKind::Command if command.is_empty() => Err((
            "backend `command` needs a program".to_owned(),
            "give the program and its arguments, such as `./agent.py --fast`".to_owned(),
        )),
        BackendKind::Command => Ok(Backend::Command { command }),
        BackendKind::Planned => {
            Err((format!("the backend `{}` is not in this version", spec.name), backend_choices()))
        }
    }
}

fn read_mode(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> Option<CredentialMode> {
    let modes = [CredentialMode::Isolated, CredentialMode::Login].map(|mode| (mode.word(), mode));
    fields.read_with("mode", diagnostics, |field| one_of(field, &modes))
}

pub(crate) fn read_session(
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<SessionPolicy> {
    let policies = [SessionPolicy::Continue, SessionPolicy::Fresh].map(|one| (one.word(), one));
    fields.read_with("session", diagnostics, |field| one_of(field, &policies))
}

/// The sources of a backend apart from the agent's keys.
#[derive(Clone, Copy)]
pub(crate) struct BackendSources<'a> {
    /// The agent file that the agent uses.
    pub(crate) file: &'a AgentFileUse<'a>,
    /// The default backend of the user.
    pub(crate) default: Option<&'static BackendSpec>,
}

/// Returns the default backend of the user.
pub(crate) fn default_spec(defaults: &RunDefaults) -> Option<&'static BackendSpec> {
    let spec = backend_of_word(defaults.backend.as_deref()?).ok()?;
    is_default_backend(spec).then_some(spec)
}

/// Reads the backend of an agent from its keys, with its row. Without a row the backend is unknown, which has a
/// diagnostic, and stands for any.
pub(crate) fn read(
    key: &YamlKey<'_>,
    fields: &YamlFields<'_>,
    sources: BackendSources<'_>,
    diagnostics: &mut Diagnostics,
) -> (Backend, Option<&'static BackendSpec>) {
    let spec = diagnostics.ok_or_add(read_spec(key, fields, sources)).flatten();
    if let Some(spec) = spec {
        check_kind_of_keys(spec.kind, fields, diagnostics);
    }
    (read_parts(spec, key, fields, diagnostics), spec)
}

/// Reports keys of other kinds of backends.
fn check_kind_of_keys(kind: BackendKind, fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) {
    let vendors = "a vendor's program; other commands take arguments in `command`";
    for (name, of, what) in
        [("agent", BackendKind::Acp, "`backend: acp`"), ("args", BackendKind::Program, vendors)]
    {
        if let Some(field) = fields.get(name).filter(|_| kind != of) {
            diagnostics.add(field.diagnostic(format!("`{name}` is for {what}")));
        }
    }
    for name in api::API_KEYS {
        if let Some(field) = fields.get(name).filter(|_| kind != BackendKind::Api) {
            diagnostics.add(field.diagnostic(format!("`{name}` is for `backend: api`")));
        }
    }
}

/// Reads the script of a mock agent, which may call the team's tools and its own mock tools.
fn read_mock_rules(
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<MockRule>> {
    let own = mock_tools::written_names(fields);
    let callable = CallableTools::TeamAnd(&own);
    fields.get("mock").map(|field| mock::read(&field, callable, diagnostics))
}

fn read_parts(
    spec: Option<&'static BackendSpec>,
    key: &YamlKey<'_>,
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Backend {
    let kind = spec.map(|spec| spec.kind);
    let rules = read_mock_rules(fields, diagnostics);
    let command = fields.get("command").map(|field| read_command(&field, diagnostics));
    let mode = read_mode(fields, diagnostics);
    let session = read_session(fields, diagnostics);
    let agent = fields.read_with("agent", diagnostics, |field| {
        let agents: Vec<_> = ACP_AGENTS.iter().map(|agent| (agent.name, agent)).collect();
        one_of::<&AcpAgentSpec>(field, &agents)
    });
    let needless = |name: &str, what: &str, diagnostics: &mut Diagnostics| {
        if let Some(field) = fields.get(name) {
            diagnostics.add(field.diagnostic(format!("`{name}` is for {what}")));
        }
    };
    match spec.map(|spec| (spec.kind, spec.name)) {
        Some((BackendKind::Acp, _)) => {
            needless("mock", "`backend: mock`", diagnostics);
            if agent.is_none() && !fields.has("agent") {
                // The worker cannot pass settings to an unknown agent.
                needless("mode", "an `agent` whose settings are known", diagnostics);
                needless("model", "an `agent` that is known", diagnostics);
                if command.is_none() {
                    diagnostics.add(missing_acp_agent(key));
                }
            }
            let (command, session) = (command.unwrap_or_default(), session.unwrap_or_default());
            let agent = agent.map(|agent| agent.name.into());
            Backend::Acp(Acp { agent, command, mode, session })
        }
        Some((BackendKind::Api, _)) => {
            needless("mock", "`backend: mock`", diagnostics);
            for name in ["command", "mode"] {
                needless(name, "programs", diagnostics);
            }
            Backend::Api(api::read(key, fields, diagnostics))
        }
        Some((BackendKind::Program, name)) => {
            needless("mock", "`backend: mock`", diagnostics);
            let (command, session) = (command.unwrap_or_default(), session.unwrap_or_default());
            let args = read_args(fields, spec, diagnostics);
            Backend::Native(Native { cli: name.into(), command, args, mode, session })
        }
        Some((BackendKind::Command, _)) => {
            needless("mock", "`backend: mock`", diagnostics);
            needless("mode", "agents with settings of their own", diagnostics);
            if command.is_none() {
                diagnostics.add(
                    key.diagnostic(format!("`{}` needs a `command`", key.text))
                        .with_hint("such as `command: [./agent.py]`"),
                );
            }
            Backend::Command { command: command.unwrap_or_default() }
        }
        Some((BackendKind::Mock | BackendKind::Planned, _)) | None => {
            for name in PROGRAM_KEYS.iter().filter(|_| kind.is_some()) {
                needless(name, "programs", diagnostics);
            }
            Backend::Mock { rules: rules.unwrap_or_default() }
        }
    }
}

/// Reads the row, or derives it from the other keys: only a mock has a script, and an agent file is for one program. None if
/// another diagnostic explains why the row is unknown.
fn read_spec(
    key: &YamlKey<'_>,
    fields: &YamlFields<'_>,
    sources: BackendSources<'_>,
) -> Result<Option<&'static BackendSpec>, Diagnostic> {
    let strange = |field: &YamlField<'_>, (message, hint): BackendChoiceError| {
        field.diagnostic(message).with_hint(hint)
    };
    if let Some(field) = fields.get("backend") {
        return backend_of_word(field.text()?).map(Some).map_err(|why| strange(&field, why));
    }
    if fields.get("mock").is_some() {
        return Ok(Some(of_kind(BackendKind::Mock)));
    }
    if fields.has_unknown_keys {
        return Ok(None);
    }
    if fields.get("provider").is_some() && !matches!(sources.file, AgentFileUse::Read(_)) {
        return Ok(Some(of_kind(BackendKind::Api)));
    }
    let by_model = match fields.get("model") {
        None => Err(missing_backend(key)),
        // The reader of `model` reports a value that is not text.
        Some(field) => match field.text() {
            Ok(model) => backend_of_model(model).map(Some).map_err(|why| strange(&field, why)),
            Err(_) => Ok(None),
        },
    };
    match sources.file {
        AgentFileUse::Absent => {}
        AgentFileUse::Invalid => return Ok(by_model.ok().flatten()),
        // The name of the model may select another program.
        file @ AgentFileUse::Read(_) => {
            let by_model = by_model.ok().flatten().filter(|spec| spec.kind != BackendKind::Api);
            return Ok(by_model.or_else(|| file.implied_backend()));
        }
    }
    // With `model: claude/opus`, a command is the path of that program.
    let by_command = fields.get("command").map(|_| of_kind(BackendKind::Command));
    let by_default = sources.default.filter(|_| !fields.has("model"));
    by_model.or_else(|why| by_command.or(by_default).map(Some).ok_or(why))
}

/// Returns the backend of a kind that has only one.
pub(crate) fn of_kind(kind: BackendKind) -> &'static BackendSpec {
    BACKENDS.iter().find(|spec| spec.kind == kind).unwrap_or(&BACKENDS[0])
}

/// Creates the diagnostic for an agent without a backend.
pub(crate) fn missing_backend(key: &YamlKey<'_>) -> Diagnostic {
    key.diagnostic(format!("`{}` needs a `backend`", key.text)).with_hint(backend_choices())
}

/// Creates the diagnostic for an ACP backend with neither `agent` nor `command`.
fn missing_acp_agent(key: &YamlKey<'_>) -> Diagnostic {
    key.diagnostic(format!("`{}` needs an `agent` or a `command`", key.text))
        .with_hint(known_acp_agents())
}

fn known_acp_agents() -> String {
    let agents: Vec<_> = ACP_AGENTS.iter().map(|agent| format!("`{}`", agent.name)).collect();
    format!("known agents are {}", agents.join(", "))
}

/// Reads a program with its arguments: a list, or one word.
fn read_command(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> Vec<String> {
    if let Ok(word) = field.text() {
        return vec![word.to_owned()];
    }
    let mut words = Vec::new();
    for item in diagnostics.ok_or_add(field.list()).unwrap_or_default() {
        words.extend(diagnostics.ok_or_add(item.text().map(str::to_owned)));
    }
    if words.first().is_none_or(String::is_empty) {
        diagnostics
            .add(field.must_be("a program and its arguments, such as `[./agent.py, --fast]`"));
    }
    words
}

/// Reads the further arguments of a vendor's program. Those that the worker sets itself are refused.
fn read_args(
    fields: &YamlFields<'_>,
    spec: Option<&BackendSpec>,
    diagnostics: &mut Diagnostics,
) -> Vec<String> {
    let Some(field) = fields.get("args") else { return Vec::new() };
    let reserved = spec.map_or(&[][..], |spec| spec.reserved_args);
    let mut args = Vec::new();
    for item in diagnostics.ok_or_add(field.list()).unwrap_or_default() {
        let Some(text) = diagnostics.ok_or_add(item.text()) else { continue };
        let flag = text.split_once('=').map_or(text, |(flag, _)| flag);
        if reserved.contains(&flag) {
            let what = format!("`{flag}` is set by agent-worker, or has no effect in a turn");
            let hint = "use the key for it (model, effort, max_steps, permissions, mode, session), or omit it";
            diagnostics.add(item.diagnostic(what).with_hint(hint));
        }
        args.push(text.to_owned());
    }
    args
}

/// Reads one of these words.
pub(crate) fn one_of<T: Copy>(field: &YamlField<'_>, known: &[(&str, T)]) -> Result<T, Diagnostic> {
    let text = field.text()?;
    let found = known.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<_> = known.iter().map(|(word, _)| format!("`{word}`")).collect();
        field.must_be(words.join(" or "))
    })
}
