//! The context of every command: the settings, the console and the connection to the daemon.

use agent_worker_protocol::{Code, Target, api::HealthStatus};

use crate::{
    client::{
        daemon_client::{CommandScope, DaemonClient, ScopeReach},
        discovery::{self, DiscoveredDaemon},
        local_state::LocalState,
    },
    error::{CliError, CliErrorKind},
    input::{settings::CliSettings, target_args::TargetEffect},
    output::console::Console,
};

/// The settings and the console of one command.
pub(crate) struct CommandContext<'a> {
    /// Settings that `main` read.
    pub(crate) settings: &'a CliSettings,
    /// Output for answers and messages.
    pub(crate) console: &'a mut Console,
}

/// The output format of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text for people.
    Text,
    /// One JSON document.
    Json,
}

/// The `--json` flag of every command that prints data.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON document to stdout, also for failures
    #[arg(long)]
    json: bool,
}

impl OutputArgs {
    /// Combines the flag with the same flag given at another position.
    #[must_use]
    pub(crate) fn merge(self, other: Self) -> Self {
        Self { json: self.json || other.json }
    }

    /// Returns the output format.
    pub(crate) fn format(self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

impl CommandContext<'_> {
    /// Connects to a daemon of this version and starts one if none runs; for commands that create something.
    pub(crate) async fn connect_or_start(&self) -> Result<DaemonClient, CliError> {
        discovery::connect_or_start(self.settings).await
    }

    /// Connects to the daemon for commands that only read. If a daemon has ever used this home, one is started to
    /// report the true state: processes of a dead daemon may still run. Another version only causes a warning.
    pub(crate) async fn connect_if_history(&mut self) -> Result<Option<DaemonClient>, CliError> {
        let DiscoveredDaemon { client, health } =
            match discovery::find_daemon(self.settings).await? {
                Some(found) => found,
                None if self.settings.has_history() => {
                    discovery::discover_or_start(self.settings).await?
                }
                None => return Ok(None),
            };
        if let Some(other) = discovery::version_mismatch(self.settings, &health) {
            self.console.warn(&other.message)?;
            self.console.hint(other.hint)?;
        }
        if health.status == HealthStatus::Held {
            self.note_hold()?;
        }
        Ok(Some(client))
    }

    /// Says that the daemon is held, and names the command that ends the hold.
    pub(crate) fn note_hold(&mut self) -> Result<(), CliError> {
        self.console.note(discovery::HELD_TEXT)?;
        self.console.hint(discovery::START_HINT)
    }

    /// Connects to a daemon of this version for commands that change existing state; an unused home gets no daemon.
    pub(crate) async fn connect_existing(&self) -> Result<DaemonClient, CliError> {
        let is_empty =
            !self.settings.has_history() && discovery::find_daemon(self.settings).await?.is_none();
        if is_empty { Err(Self::no_history_error()) } else { self.connect_or_start().await }
    }

    /// Returns the target that `use` selected in this folder, and says so where the user might not expect it. Commands
    /// of an agent have none.
    pub(crate) fn selected_target(
        &mut self,
        effect: TargetEffect,
    ) -> Result<Option<Target>, CliError> {
        let selected = LocalState::open(self.settings).default_agent(&self.settings.cwd);
        match (&selected, effect) {
            (None, _) | (Some(_), TargetEffect::Read) => {}
            (Some(target), TargetEffect::List) => self.console.note(&format!(
                "showing only {target}, selected with `use`; --all ignores the selection"
            ))?,
            (Some(target), TargetEffect::Change) => {
                self.console.note(&format!("using {target}, selected with `use`"))?;
            }
        }
        Ok(selected)
    }

    /// Builds a scope from the target and the caller's folder.
    pub(crate) fn scope(&self, target: Option<Target>, reach: ScopeReach) -> CommandScope {
        CommandScope { target, project: self.settings.cwd.clone(), reach }
    }

    /// Returns the error of a command that needs existing state in a home that has never been used.
    pub(crate) fn no_history_error() -> CliError {
        CliError::new(CliErrorKind::Refused(Code::NotFound), "nothing has ever run here").with_hint(
            "`agent-worker run FILE` starts a team, `agent-worker init` writes a first one",
        )
    }
}
