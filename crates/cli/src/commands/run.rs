//! `agent-worker run`: run a team once and wait for its end.

use agent_worker_protocol::RunMode;

use crate::{
    client::launch::{LaunchArgs, LaunchCommand, launch},
    error::CliError,
    input::context::CommandContext,
    output::verdict::RunVerdict,
};

/// Run a workflow once and wait for its end
///
/// Shows who works on what; what is said goes to stdout. Ctrl-C stops the run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: agent-worker run review.yaml --tag pr-123 --target main

Exit codes: 0 done, 1 failed, 2 bad file or usage, or nobody was woken, 3 a limit was reached,
4 a person is needed, 5 interrupted, 130 stopped. With --json the outcome is that word.")]
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
    launch(args.launch, LaunchCommand { command: "run", mode: RunMode::Run }, ctx).await
}
