//! `agent-worker start`: start a team that stays.

use agent_worker_protocol::RunMode;

use crate::{
    client::launch::{LaunchArgs, LaunchCommand, launch},
    error::CliError,
    input::context::CommandContext,
    output::verdict::RunVerdict,
};

/// Start a workflow that stays until it is stopped
///
/// It goes on after a restart of the daemon, with nothing lost. Follows it; Ctrl-C only stops following, and `attach`
/// comes back.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker start review.yaml --tag pr-123 --background")]
pub(crate) struct Args {
    #[command(flatten)]
    launch: LaunchArgs,
}

impl Args {
    /// The same words, with the wish to know what may stand behind the file.
    pub(super) fn with_help_requested(self) -> Self {
        Self { launch: self.launch.with_help_requested() }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    launch(args.launch, LaunchCommand { command: "start", mode: RunMode::Start }, ctx).await
}
