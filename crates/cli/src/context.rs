//! What every command has at hand: the settings, the console, and the way to the daemon.

use agent_worker_protocol::{Code, Target};

use crate::{
    client::{Client, Reach, Scope},
    console::Console,
    discovery::{self, Found},
    error::{CliError, Kind},
    memory::Memory,
    settings::Settings,
};

/// A command's surroundings.
pub(crate) struct Context<'a> {
    /// What `main` read.
    pub(crate) settings: &'a Settings,
    /// Where answers and talk go.
    pub(crate) console: &'a mut Console,
}

/// How a command answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON document.
    Json,
}

/// The flag every command with data has.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Output {
    /// Answer with one JSON document on stdout, failures included
    #[arg(long)]
    json: bool,
}

impl Output {
    /// This, and the same flag given at another place.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self { json: self.json || other.json }
    }

    /// What the flag means.
    pub(crate) fn format(self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

impl Context<'_> {
    /// The daemon of our own version, started if there is none: for commands that make something.
    pub(crate) async fn daemon(&self) -> Result<Client, CliError> {
        discovery::open(self.settings).await
    }

    /// The daemon, for commands that only look. Where one has ever been, it is started to tell what is true: what a dead
    /// one left may still run. Another version is worth a warning.
    pub(crate) async fn daemon_if_any(&mut self) -> Result<Option<Client>, CliError> {
        let Found { client, health } = match discovery::look(self.settings).await? {
            Some(found) => found,
            None if self.settings.has_history() => return self.daemon().await.map(Some),
            None => return Ok(None),
        };
        if let Some(other) = discovery::mismatch(self.settings, &health) {
            self.console.warn(&other.what)?;
            self.console.hint(other.hint)?;
        }
        Ok(Some(client))
    }

    /// The daemon of our own version, for commands that change what is there: where nothing has ever been, none is
    /// started.
    pub(crate) async fn daemon_of_something(&self) -> Result<Client, CliError> {
        let is_empty =
            !self.settings.has_history() && discovery::look(self.settings).await?.is_none();
        if is_empty { Err(Self::nothing_yet()) } else { self.daemon().await }
    }

    /// Whom commands in this folder mean when they name nobody; an agent's commands mean nobody by themselves.
    pub(crate) fn default_agent(&self) -> Option<Target> {
        Memory::of(self.settings).default_agent(&self.settings.cwd)
    }

    /// What is near the caller.
    pub(crate) fn scope(&self, target: Option<Target>, reach: Reach) -> Scope {
        Scope { target, project: self.settings.cwd.clone(), reach }
    }

    /// The failure of a command that needs something to be there, in a home where nothing has ever been.
    pub(crate) fn nothing_yet() -> CliError {
        CliError::new(Kind::Refused(Code::NotFound), "nothing has ever run here")
            .hint("`agent-worker run FILE` starts a team, `agent-worker init` writes a first one")
    }
}
