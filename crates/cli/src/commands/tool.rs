//! `agent-worker tool`: the tools of agents.

mod call;
mod file_agent;
mod host_call;
mod list;
mod mock;

use crate::{
    error::CliError,
    input::context::{CommandContext, Format},
    output::verdict::RunVerdict,
};

/// List the tools of agents, mock one, or call one by hand
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker tool list coder@review")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ToolCommand {
    #[command(visible_alias = "ls")]
    List(list::Args),
    Mock(mock::Args),
    Call(call::Args),
}

impl Args {
    /// Returns the format of a failure.
    pub(super) fn format(&self) -> Format {
        match &self.command {
            ToolCommand::List(args) => args.output.format(),
            ToolCommand::Mock(args) => args.output.format(),
            ToolCommand::Call(args) => args.output.format(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    match args.command {
        ToolCommand::List(args) => list::run(args, ctx).await,
        ToolCommand::Mock(args) => mock::run(args, ctx).await,
        ToolCommand::Call(args) => call::run(&args, ctx).await,
    }
}
