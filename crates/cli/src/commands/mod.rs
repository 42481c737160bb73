//! The commands, one file each: its `Args` are its help, its `run` is what it does.

pub(crate) mod daemon;
mod ls;
mod overview;
mod peek;
mod run;
mod send;
mod start;
mod stop;
mod token;
mod validate;

use crate::{
    context::{Context, Format},
    error::CliError,
    verdict::Verdict,
};

/// A command this room carries out.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Commands {
    Run(run::Args),
    Start(start::Args),
    Send(send::Args),
    Peek(peek::Args),
    Ls(ls::Args),
    Stop(stop::Args),
    Validate(validate::Args),
    Token(token::Args),
    /// No command at all.
    #[command(skip)]
    Overview,
    /// A question to the daemon that runs.
    #[command(skip)]
    Daemon(daemon::Ask),
}

impl Commands {
    /// How its failure is told. `run` and `start` tell their own in their envelope.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Run(_) | Self::Start(_) | Self::Overview => Format::Text,
            Self::Send(args) => args.output.format(),
            Self::Peek(args) => args.output.format(),
            Self::Ls(args) => args.output.format(),
            Self::Stop(args) => args.output.format(),
            Self::Validate(args) => args.output.format(),
            Self::Token(args) => args.format(),
            Self::Daemon(ask) => ask.format(),
        }
    }

    /// Carries it out.
    pub(crate) async fn run(self, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
        match self {
            Self::Run(args) => run::run(args, ctx).await,
            Self::Start(args) => start::run(args, ctx).await,
            Self::Send(args) => send::run(args, ctx).await,
            Self::Peek(args) => peek::run(args, ctx).await,
            Self::Ls(args) => ls::run(args, ctx).await,
            Self::Stop(args) => stop::run(args, ctx).await,
            Self::Validate(args) => validate::run(&args, ctx),
            Self::Token(args) => token::run(args, ctx).await,
            Self::Overview => overview::run(ctx).await,
            Self::Daemon(ask) => daemon::run(ask, ctx).await,
        }
    }
}
