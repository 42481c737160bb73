//! `agent-worker start`: start a team that stays.

use agent_worker_protocol::RunMode;

use crate::{
    context::Context,
    error::CliError,
    launch::{LaunchArgs, launch},
    verdict::Verdict,
};

/// Start a workflow that stays until it is stopped
///
/// Follows it; Ctrl-C only stops following.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker start review.yaml --tag pr-123 --background")]
pub(crate) struct Args {
    #[command(flatten)]
    launch: LaunchArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    launch(args.launch, RunMode::Start, ctx).await
}
