//! How an agent reaches its model: as its `backend` says, or as the rest shows.

use agent_worker_protocol::{Acp, AcpAgent, Backend, Cli, MockRule, Mode, Native, Session};

use crate::{
    complaint::{Complaint, Complaints},
    fields::{Field, Fields, Key},
    mock,
    suggest::nearest,
};

/// Backends that are known and not there yet.
const LATER: [&str; 2] = ["api", "sdk"];
const ACP: &str = "acp";
const MOCK: &str = "mock";
const COMMAND: &str = "command";

/// What is wrong with a word, and what to do about it.
pub(crate) type Strange = (String, String);

/// Which kind it is, before its settings are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mock,
    Native(Cli),
    Acp,
    Command,
}

/// What there is to choose from.
pub fn choice() -> String {
    format!(
        "this version has {}",
        words().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    )
}

/// The words this version has, as a file has them.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    Cli::ALL.into_iter().map(Cli::word).chain([ACP, COMMAND, MOCK])
}

impl Kind {
    /// What a word means.
    pub(crate) fn of(word: &str) -> Result<Self, Strange> {
        match word {
            MOCK => return Ok(Self::Mock),
            COMMAND => return Ok(Self::Command),
            ACP => return Ok(Self::Acp),
            _ => {}
        }
        if let Some(cli) = Cli::from_word(word) {
            return Ok(Self::Native(cli));
        }
        if LATER.contains(&word) {
            return Err((format!("the backend `{word}` is not in this version"), choice()));
        }
        let hint = match nearest(word, words().chain(LATER)) {
            Some(word) => format!("did you mean `{word}`?"),
            None => choice(),
        };
        Err((format!("there is no backend `{word}`"), hint))
    }

    /// What a model's name says, when nothing else does: `claude/opus` and `claude:opus` are models of Claude Code.
    pub(crate) fn of_model(model: &str) -> Result<Self, Strange> {
        let word = model.split(['/', ':']).next().unwrap_or_default();
        match Self::of(word) {
            Ok(kind) if ![Self::Command, Self::Acp].contains(&kind) => Ok(kind),
            Ok(_) | Err(_) => {
                let message = format!("the model `{model}` does not say by which backend");
                Err((message, format!("add a backend; {}", choice())))
            }
        }
    }

    /// The backend, with the usual settings.
    pub(crate) fn plain(self, rules: Vec<MockRule>) -> Result<Backend, Strange> {
        match self {
            Self::Mock => Ok(Backend::Mock { rules }),
            Self::Native(cli) => {
                let (command, mode, session) = (Vec::new(), None, Session::default());
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

/// Reads what an agent says of its backend.
pub(crate) fn read(key: &Key<'_>, fields: &Fields<'_>, complaints: &mut Complaints) -> Backend {
    let kind = complaints.keep(kind(key, fields));
    let rules = fields.get("mock").map(|field| mock::read(&field, complaints));
    let command = fields.get("command").map(|field| command(&field, complaints));
    let mode = fields.take("mode", complaints, |field| {
        word(field, &[Mode::Isolated, Mode::Login].map(|mode| (mode.word(), mode)))
    });
    let session = fields.take("session", complaints, |field| {
        word(field, &[Session::Continue, Session::Fresh].map(|kind| (kind.word(), kind)))
    });
    let agent = fields.take("agent", complaints, |field| {
        word(field, &AcpAgent::ALL.map(|agent| (agent.word(), agent)))
    });
    let needless = |name: &str, what: &str, complaints: &mut Complaints| {
        if let Some(field) = fields.get(name) {
            complaints.add(field.complaint(format!("`{name}` is for {what}")));
        }
    };
    if kind.is_some_and(|kind| kind != Kind::Acp) {
        needless("agent", "`backend: acp`", complaints);
    }
    match kind {
        Some(Kind::Acp) => {
            needless("mock", "`backend: mock`", complaints);
            if agent.is_none() && !fields.has("agent") {
                // Nobody knows how to tell it.
                needless("mode", "an `agent` whose settings are known", complaints);
                needless("model", "an `agent` that is known", complaints);
                if command.is_none() {
                    complaints.add(agentless(key));
                }
            }
            let (command, session) = (command.unwrap_or_default(), session.unwrap_or_default());
            Backend::Acp(Acp { agent, command, mode, session })
        }
        Some(Kind::Native(cli)) => {
            needless("mock", "`backend: mock`", complaints);
            let (command, session) = (command.unwrap_or_default(), session.unwrap_or_default());
            Backend::Native(Native { cli, command, mode, session })
        }
        Some(Kind::Command) => {
            needless("mock", "`backend: mock`", complaints);
            needless("mode", "agents with settings of their own", complaints);
            if command.is_none() {
                complaints.add(
                    key.complaint(format!("`{}` needs a `command`", key.text))
                        .hint("such as `command: [./agent.py]`"),
                );
            }
            Backend::Command { command: command.unwrap_or_default() }
        }
        Some(Kind::Mock) | None => {
            if kind.is_some() {
                needless("command", "programs", complaints);
                needless("mode", "programs", complaints);
                needless("session", "programs", complaints);
            }
            Backend::Mock { rules: rules.unwrap_or_default() }
        }
    }
}

/// As written, or known from the rest: a script can only be a mock's.
fn kind(key: &Key<'_>, fields: &Fields<'_>) -> Result<Kind, Complaint> {
    let strange = |field: &Field<'_>, (message, hint): Strange| field.complaint(message).hint(hint);
    if let Some(field) = fields.get("backend") {
        return Kind::of(field.text()?).map_err(|why| strange(&field, why));
    }
    if fields.get("mock").is_some() || fields.has_strangers {
        return Ok(Kind::Mock);
    }
    let by_model = match fields.get("model") {
        None => Err(missing(key)),
        // One that is not text is complained about where it is read.
        Some(field) => match field.text() {
            Ok(model) => Kind::of_model(model).map_err(|why| strange(&field, why)),
            Err(_) => Ok(Kind::Mock),
        },
    };
    // `model: claude/opus` with a command says where that program is.
    by_model.or_else(|why| fields.get("command").map(|_| Kind::Command).ok_or(why))
}

/// An agent that says nothing of it.
pub(crate) fn missing(key: &Key<'_>) -> Complaint {
    key.complaint(format!("`{}` needs a `backend`", key.text)).hint(choice())
}

/// One that says neither which agent it is nor how it is started.
fn agentless(key: &Key<'_>) -> Complaint {
    let agents = AcpAgent::ALL.map(|agent| format!("`{agent}`")).join(", ");
    key.complaint(format!("`{}` needs an `agent` or a `command`", key.text))
        .hint(format!("known agents are {agents}"))
}

/// A program and its arguments: a list, or one word.
fn command(field: &Field<'_>, complaints: &mut Complaints) -> Vec<String> {
    if let Ok(word) = field.text() {
        return vec![word.to_owned()];
    }
    let mut words = Vec::new();
    for item in complaints.keep(field.list()).unwrap_or_default() {
        words.extend(complaints.keep(item.text().map(str::to_owned)));
    }
    if words.first().is_none_or(String::is_empty) {
        complaints.add(field.must("a program and its arguments, such as `[./agent.py, --fast]`"));
    }
    words
}

/// One of these words.
pub(crate) fn word<T: Copy>(field: &Field<'_>, known: &[(&str, T)]) -> Result<T, Complaint> {
    let text = field.text()?;
    let found = known.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<_> = known.iter().map(|(word, _)| format!("`{word}`")).collect();
        field.must(words.join(" or "))
    })
}
