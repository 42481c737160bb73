//! `agent-worker run`: runs a workflow once and waits for its end.

use agent_worker_protocol::RunMode;

use crate::{
    client::launch::{LaunchArgs, LaunchCommand, launch},
    error::CliError,
    input::context::CommandContext,
    output::verdict::RunVerdict,
};

/// Run a workflow once and wait for its end
///
/// The command shows the activity of the agents, and prints messages to stdout. Ctrl-C stops the run.
#[derive(Debug, clap::Args)]
#[command(mut_arg("detach", |arg| arg.help("Return once the run exists")), after_help = "\
Example: agent-worker run review.yaml --tag pr-123 --target main

Exit codes: 0 done, 1 failed, 2 the file or the arguments are invalid, the kickoff wakes no agent,
or a program is missing or logged out, 3 limit reached, 4 waiting for a person, 5 interrupted,
130 stopped. With --json, `outcome` names the exit code.")]
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
    launch(args.launch, LaunchCommand { command: "run", mode: RunMode::Run }, ctx).await
}
