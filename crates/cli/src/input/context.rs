//! What every command has at hand: the settings, the console, and the way to the daemon.

use agent_worker_protocol::{Code, Target};

use crate::{
    client::{
        daemon_client::{CommandScope, DaemonClient, ScopeReach},
        discovery::{self, DiscoveredDaemon},
        local_state::LocalState,
    },
    error::{CliError, CliErrorKind},
    input::settings::CliSettings,
    output::console::Console,
};

/// A command's surroundings.
pub(crate) struct CommandContext<'a> {
    /// What `main` read.
    pub(crate) settings: &'a CliSettings,
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
pub(crate) struct OutputArgs {
    /// Answer with one JSON document on stdout, failures included
    #[arg(long)]
    json: bool,
}

impl OutputArgs {
    /// This, and the same flag given at another place.
    #[must_use]
    pub(crate) fn merge(self, other: Self) -> Self {
        Self { json: self.json || other.json }
    }

    /// What the flag means.
    pub(crate) fn format(self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

impl CommandContext<'_> {
    /// The daemon of our own version, started if there is none: for commands that make something.
    pub(crate) async fn connect_or_start(&self) -> Result<DaemonClient, CliError> {
        discovery::connect_or_start(self.settings).await
    }

    /// The daemon, for commands that only look. Where one has ever been, it is started to tell what is true: what a dead
    /// one left may still run. Another version is worth a warning.
    pub(crate) async fn connect_if_history(&mut self) -> Result<Option<DaemonClient>, CliError> {
        let DiscoveredDaemon { client, health } = match discovery::find_daemon(self.settings)
            .await?
        {
            Some(found) => found,
            None if self.settings.has_history() => return self.connect_or_start().await.map(Some),
            None => return Ok(None),
        };
        if let Some(other) = discovery::version_mismatch(self.settings, &health) {
            self.console.warn(&other.message)?;
            self.console.hint(other.hint)?;
        }
        Ok(Some(client))
    }

    /// The daemon of our own version, for commands that change what is there: where nothing has ever been, none is
    /// started.
    pub(crate) async fn connect_existing(&self) -> Result<DaemonClient, CliError> {
        let is_empty =
            !self.settings.has_history() && discovery::find_daemon(self.settings).await?.is_none();
        if is_empty { Err(Self::no_history_error()) } else { self.connect_or_start().await }
    }

    /// Whom commands in this folder mean when they name nobody; an agent's commands mean nobody by themselves.
    pub(crate) fn default_agent(&self) -> Option<Target> {
        LocalState::open(self.settings).default_agent(&self.settings.cwd)
    }

    /// What is near the caller.
    pub(crate) fn scope(&self, target: Option<Target>, reach: ScopeReach) -> CommandScope {
        CommandScope { target, project: self.settings.cwd.clone(), reach }
    }

    /// The failure of a command that needs something to be there, in a home where nothing has ever been.
    pub(crate) fn no_history_error() -> CliError {
        CliError::new(CliErrorKind::Refused(Code::NotFound), "nothing has ever run here").with_hint(
            "`agent-worker run FILE` starts a team, `agent-worker init` writes a first one",
        )
    }
}
