//! How an agent reaches its model: as its `backend` says, or as the rest shows.

use agent_worker_protocol::{
    Acp, AcpAgent, Backend, CredentialMode, MockRule, Native, SessionPolicy, VendorCli,
};

use crate::{
    agents::mock,
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    yaml::fields::{YamlField, YamlFields, YamlKey},
};

/// Backends that are known and not there yet.
const PLANNED_BACKENDS: [&str; 2] = ["api", "sdk"];
const ACP: &str = "acp";
const MOCK: &str = "mock";
const COMMAND: &str = "command";

/// What is wrong with a word, and what to do about it.
pub(crate) type BackendChoiceError = (String, String);

/// Which kind it is, before its settings are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendKind {
    Mock,
    Native(VendorCli),
    Acp,
    Command,
}

/// What there is to choose from.
pub fn backend_choices() -> String {
    format!(
        "this version has {}",
        backend_words().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    )
}

/// The words this version has, as a file has them.
pub(crate) fn backend_words() -> impl Iterator<Item = &'static str> {
    VendorCli::ALL.into_iter().map(VendorCli::word).chain([ACP, COMMAND, MOCK])
}

impl BackendKind {
    /// What a word means.
    pub(crate) fn from_word(word: &str) -> Result<Self, BackendChoiceError> {
        match word {
            MOCK => return Ok(Self::Mock),
            COMMAND => return Ok(Self::Command),
            ACP => return Ok(Self::Acp),
            _ => {}
        }
        if let Some(cli) = VendorCli::from_word(word) {
            return Ok(Self::Native(cli));
        }
        if PLANNED_BACKENDS.contains(&word) {
            return Err((
                format!("the backend `{word}` is not in this version"),
                backend_choices(),
            ));
        }
        let hint = match nearest(word, backend_words().chain(PLANNED_BACKENDS)) {
            Some(word) => format!("did you mean `{word}`?"),
            None => backend_choices(),
        };
        Err((format!("there is no backend `{word}`"), hint))
    }

    /// What a model's name says, when nothing else does: `claude/opus` and `claude:opus` are models of Claude Code.
    pub(crate) fn from_model(model: &str) -> Result<Self, BackendChoiceError> {
        let word = model.split(['/', ':']).next().unwrap_or_default();
        match Self::from_word(word) {
            Ok(kind) if ![Self::Command, Self::Acp].contains(&kind) => Ok(kind),
            Ok(_) | Err(_) => {
                let message = format!("the model `{model}` does not say by which backend");
                Err((message, format!("add a backend; {}", backend_choices())))
            }
        }
    }

    /// The backend, with the usual settings.
    pub(crate) fn with_defaults(self, rules: Vec<MockRule>) -> Result<Backend, BackendChoiceError> {
        match self {
            Self::Mock => Ok(Backend::Mock { rules }),
            Self::Native(cli) => {
                let (command, mode, session) = (Vec::new(), None, SessionPolicy::default());
                Ok(Backend::Native(Native { cli, command, mode, session }))
            }
            Self::Acp => Err((
                "`acp` needs to know which agent".to_owned(),
                "write it in a file: `backend: acp` and `agent: gemini`".to_owned(),
            )),
            Self::Command => Err((
                "`command` needs to know which one".to_owned(),
                "write it in a file: `backend: command` and `command: [./agent.py]`".to_owned(),
            )),
        }
    }
}

fn read_mode(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> Option<CredentialMode> {
    let modes = [CredentialMode::Isolated, CredentialMode::Login].map(|mode| (mode.word(), mode));
    fields.read_with("mode", diagnostics, |field| one_of(field, &modes))
}

fn read_session(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> Option<SessionPolicy> {
    let policies = [SessionPolicy::Continue, SessionPolicy::Fresh].map(|one| (one.word(), one));
    fields.read_with("session", diagnostics, |field| one_of(field, &policies))
}

/// Reads the backend of an agent.
pub(crate) fn read(
    key: &YamlKey<'_>,
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Backend {
    let kind = diagnostics.ok_or_add(read_kind(key, fields));
    let rules = fields.get("mock").map(|field| mock::read(&field, diagnostics));
    let command = fields.get("command").map(|field| read_command(&field, diagnostics));
    let mode = read_mode(fields, diagnostics);
    let session = read_session(fields, diagnostics);
    let agent = fields.read_with("agent", diagnostics, |field| {
        one_of(field, &AcpAgent::ALL.map(|agent| (agent.word(), agent)))
    });
    let needless = |name: &str, what: &str, diagnostics: &mut Diagnostics| {
        if let Some(field) = fields.get(name) {
            diagnostics.add(field.diagnostic(format!("`{name}` is for {what}")));
        }
    };
    if kind.is_some_and(|kind| kind != BackendKind::Acp) {
        needless("agent", "`backend: acp`", diagnostics);
    }
    match kind {
        Some(BackendKind::Acp) => {
            needless("mock", "`backend: mock`", diagnostics);
            if agent.is_none() && !fields.has("agent") {
                // Nobody knows how to tell it.
                needless("mode", "an `agent` whose settings are known", diagnostics);
                needless("model", "an `agent` that is known", diagnostics);
                if command.is_none() {
                    diagnostics.add(missing_acp_agent(key));
                }
            }
            let (command, session) = (command.unwrap_or_default(), session.unwrap_or_default());
            Backend::Acp(Acp { agent, command, mode, session })
        }
        Some(BackendKind::Native(cli)) => {
            needless("mock", "`backend: mock`", diagnostics);
            let (command, session) = (command.unwrap_or_default(), session.unwrap_or_default());
            Backend::Native(Native { cli, command, mode, session })
        }
        Some(BackendKind::Command) => {
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
        Some(BackendKind::Mock) | None => {
            if kind.is_some() {
                needless("command", "programs", diagnostics);
                needless("mode", "programs", diagnostics);
                needless("session", "programs", diagnostics);
            }
            Backend::Mock { rules: rules.unwrap_or_default() }
        }
    }
}

/// As written, or known from the rest: a script can only be a mock's.
fn read_kind(key: &YamlKey<'_>, fields: &YamlFields<'_>) -> Result<BackendKind, Diagnostic> {
    let strange = |field: &YamlField<'_>, (message, hint): BackendChoiceError| {
        field.diagnostic(message).with_hint(hint)
    };
    if let Some(field) = fields.get("backend") {
        return BackendKind::from_word(field.text()?).map_err(|why| strange(&field, why));
    }
    if fields.get("mock").is_some() || fields.has_unknown_keys {
        return Ok(BackendKind::Mock);
    }
    let by_model = match fields.get("model") {
        None => Err(missing_backend(key)),
        // One that is not text is complained about where it is read.
        Some(field) => match field.text() {
            Ok(model) => BackendKind::from_model(model).map_err(|why| strange(&field, why)),
            Err(_) => Ok(BackendKind::Mock),
        },
    };
    // `model: claude/opus` with a command says where that program is.
    by_model.or_else(|why| fields.get("command").map(|_| BackendKind::Command).ok_or(why))
}

/// An agent that says nothing of it.
pub(crate) fn missing_backend(key: &YamlKey<'_>) -> Diagnostic {
    key.diagnostic(format!("`{}` needs a `backend`", key.text)).with_hint(backend_choices())
}

/// One that says neither which agent it is nor how it is started.
fn missing_acp_agent(key: &YamlKey<'_>) -> Diagnostic {
    let agents = AcpAgent::ALL.map(|agent| format!("`{agent}`")).join(", ");
    key.diagnostic(format!("`{}` needs an `agent` or a `command`", key.text))
        .with_hint(format!("known agents are {agents}"))
}

/// A program and its arguments: a list, or one word.
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

/// One of these words.
pub(crate) fn one_of<T: Copy>(field: &YamlField<'_>, known: &[(&str, T)]) -> Result<T, Diagnostic> {
    let text = field.text()?;
    let found = known.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<_> = known.iter().map(|(word, _)| format!("`{word}`")).collect();
        field.must_be(words.join(" or "))
    })
}
