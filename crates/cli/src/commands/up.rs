//! `agent-worker up`: start a team in the background.

use agent_worker_protocol::RunMode;

use crate::{
    context::Context,
    error::CliError,
    launch::{LaunchArgs, Manner, launch},
    verdict::Verdict,
};

/// Start a workflow in the background
///
/// The same as `start --background`: returns once its agents are awake. They stay until `down`, and go on after a
/// restart of the daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker up review.yaml --tag pr-123")]
pub(crate) struct Args {
    #[command(flatten)]
    launch: LaunchArgs,
}

impl Args {
    /// The same words, with the wish to know what may stand behind the file.
    pub(super) fn asking_for_help(self) -> Self {
        Self { launch: self.launch.asking_for_help() }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let manner = Manner { command: "up", mode: RunMode::Start };
    launch(args.launch.detached(), manner, ctx).await
}
