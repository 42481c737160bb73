//! `agent-worker agent`: the commands about agents under one name.

use agent_worker_protocol::{Target, api::AgentStopped};

use crate::{
    client::Reach,
    commands::{ls, new, status, use_agent},
    context::{Context, Format, Output},
    error::{CliError, Kind},
    line::Line,
    verdict::Verdict,
};

/// Let agents join, look at them, choose one, end one
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker agent end parrot")]
pub(crate) struct Args {
    #[command(subcommand)]
    ask: Ask,
}

#[derive(Debug, clap::Subcommand)]
enum Ask {
    New(Box<new::Args>),
    Ls(ls::Args),
    Status(status::Args),
    Use(use_agent::Args),
    End(End),
}

/// Take an agent out of its run
///
/// Its worker's processes are ended, and what waited for it is dropped. What it said stays.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "rm", after_help = "Example: agent-worker agent end parrot")]
pub(super) struct End {
    /// Whom: `agent` or `agent@workflow:tag`
    target: Target,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Args {
    /// How to answer.
    pub(crate) fn format(&self) -> Format {
        match &self.ask {
            Ask::New(args) => args.output.format(),
            Ask::Ls(args) => args.output.format(),
            Ask::Status(args) => args.output.format(),
            Ask::Use(args) => args.output.format(),
            Ask::End(args) => args.output.format(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    match args.ask {
        Ask::New(args) => new::run(*args, ctx).await,
        Ask::Ls(args) => ls::run(args, ctx).await,
        Ask::Status(args) => status::run(args, ctx).await,
        Ask::Use(args) => use_agent::run(args, ctx).await,
        Ask::End(args) => end(args, ctx).await,
    }
}

/// Ends an agent.
pub(super) async fn end(args: End, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    if args.target.agent.is_none() {
        let what = format!("`{}` is a team, and `end` takes one agent out", args.target);
        return Err(CliError::new(Kind::Usage, what)
            .hint("name one: agent-worker agent end agent@workflow; a whole run ends by `stop`"));
    }
    let Some(client) = ctx.daemon_if_any().await? else { return Err(Context::nothing_yet()) };
    let scope = ctx.scope(Some(args.target.clone()), Reach::Here);
    let gone = client.agent_remove(&args.target, &scope).await?;
    match args.output.format() {
        Format::Json => ctx.console.json(&gone)?,
        Format::Text => ctx.console.answer(&told(&gone))?,
    }
    Ok(Verdict::Done)
}

fn told(gone: &AgentStopped) -> Line {
    let target = Target::agent(gone.agent.clone(), &gone.instance);
    let processes = match gone.processes {
        0 => String::new(),
        1 => ", and 1 process with it".to_owned(),
        ended => format!(", and {ended} processes with it"),
    };
    Line::plain(format!("{target} is gone{processes}"))
}
