//! `agent-worker up`: starts a workflow in the background.

use agent_worker_protocol::RunMode;

use crate::{
    client::launch::{LaunchArgs, LaunchCommand, launch},
    error::CliError,
    input::context::CommandContext,
    output::verdict::RunVerdict,
};

/// Start a workflow in the background
///
/// Same as `start --background`: returns once its agents are awake. The agents stay until `down`, also after a restart
/// of the daemon.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("detach", |arg| arg.help("No effect: `up` always returns once its agents are awake")),
    after_help = "Example: agent-worker up review.yaml --tag pr-123"
)]
pub(crate) struct Args {
    #[command(flatten)]
    launch: LaunchArgs,
}

impl Args {
    /// Adds a request for the list of the file's parameters.
    pub(super) fn with_help_requested(self) -> Self {
        Self { launch: self.launch.with_help_requested() }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let manner = LaunchCommand { command: "up", mode: RunMode::Start };
    launch(args.launch.with_detach(), manner, ctx).await
}
