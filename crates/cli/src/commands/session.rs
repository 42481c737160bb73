//! `agent-worker session`: what `agent` was once called. It does the same, and says so.

use agent_worker_protocol::{AgentName, Target};

use crate::{
    commands::{agent, ls, new, status, use_agent},
    context::{Context, Format},
    error::CliError,
    verdict::Verdict,
};

/// The old name of `agent`
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = "Example: agent-worker agent list")]
pub(crate) struct Args {
    #[command(subcommand)]
    ask: Ask,
}

#[derive(Debug, clap::Subcommand)]
enum Ask {
    New(Box<New>),
    Ls(ls::Args),
    Status(status::Args),
    Use(use_agent::Args),
    End(agent::End),
}

/// Let an agent join; its name may also stand behind -n
#[derive(Debug, clap::Args)]
struct New {
    /// What it is called
    #[arg(long = "name", short = 'n', value_name = "NAME", conflicts_with = "name")]
    called: Option<AgentName>,
    #[command(flatten)]
    new: new::Args,
}

impl Args {
    /// How to answer.
    pub(crate) fn format(&self) -> Format {
        match &self.ask {
            Ask::New(args) => args.new.output.format(),
            Ask::Ls(args) => args.output.format(),
            Ask::Status(args) => args.output.format(),
            Ask::Use(args) => args.output.format(),
            Ask::End(args) => args.output.format(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    ctx.console.warn("`session` is now called `agent`, and will be gone one day")?;
    match args.ask {
        Ask::New(args) => new::run(args.new.called(args.called.map(alone)), ctx).await,
        Ask::Ls(args) => ls::run(args, ctx).await,
        Ask::Status(args) => status::run(args, ctx).await,
        Ask::Use(args) => use_agent::run(args, ctx).await,
        Ask::End(args) => agent::end(args, ctx).await,
    }
}

fn alone(agent: AgentName) -> Target {
    Target { agent: Some(agent), workflow: None, tag: None }
}
