//! `agent-worker start`: starts a workflow that runs until it is stopped.

use agent_worker_protocol::RunMode;

use crate::{
    client::launch::{LaunchArgs, LaunchCommand, launch},
    error::CliError,
    input::context::CommandContext,
    output::verdict::RunVerdict,
};

/// Start a workflow that runs until it is stopped
///
/// The run continues after a restart of the daemon without loss. The command follows the run; Ctrl-C only stops
/// following, and `attach` follows it again.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("detach", |arg| arg.help("Return once its agents are awake")),
    after_help = "Example: agent-worker start review.yaml --tag pr-123 --background"
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
    launch(args.launch, LaunchCommand { command: "start", mode: RunMode::Start }, ctx).await
}
