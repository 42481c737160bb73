//! `agent-worker session`: the former name of `agent`, with the same effect and a warning.

use agent_worker_protocol::{AgentName, Target};

use crate::{
    commands::{agent, ls, new, status, use_agent},
    error::CliError,
    input::context::{CommandContext, Format},
    output::verdict::RunVerdict,
};

/// Former name of `agent`
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = "Example: agent-worker agent ls")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SessionCommand {
    New(Box<SessionNewArgs>),
    Ls(ls::Args),
    Status(status::Args),
    Use(use_agent::Args),
    End(agent::AgentEndArgs),
}

/// Add an agent; accepts its name also with -n
#[derive(Debug, clap::Args)]
struct SessionNewArgs {
    /// Name of the agent
    #[arg(long = "name", short = 'n', value_name = "NAME", conflicts_with = "name")]
    called: Option<AgentName>,
    #[command(flatten)]
    new: new::Args,
}

impl Args {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        match &self.command {
            SessionCommand::New(args) => args.new.output.format(),
            SessionCommand::Ls(args) => args.output.format(),
            SessionCommand::Status(args) => args.output.format(),
            SessionCommand::Use(args) => args.output.format(),
            SessionCommand::End(args) => args.output.format(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    ctx.console.warn("`session` is deprecated and will be removed: use `agent`")?;
    match args.command {
        SessionCommand::New(args) => {
            new::run(args.new.with_name(args.called.map(standalone_target)), ctx).await
        }
        SessionCommand::Ls(args) => ls::run(args, ctx).await,
        SessionCommand::Status(args) => status::run(args, ctx).await,
        SessionCommand::Use(args) => use_agent::run(args, ctx).await,
        SessionCommand::End(args) => agent::end_agent(args, ctx).await,
    }
}

fn standalone_target(agent: AgentName) -> Target {
    Target { agent: Some(agent), workflow: None, tag: None }
}
