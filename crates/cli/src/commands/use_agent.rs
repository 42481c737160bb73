//! `agent-worker use`: choose whom commands in this folder mean when they name nobody.

use agent_worker_protocol::Target;
use serde_json::json;

use crate::{
    client::Reach,
    context::{Context, Format, Output},
    error::{CliError, Kind},
    line::Line,
    memory::Memory,
    verdict::Verdict,
};

/// Choose whom commands in this folder mean when they name nobody
///
/// For `send`, `ask` and `peek`. Without a target it prints the one that is chosen, and exits 1 when none is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker use coder@review
  agent-worker send \"and now the tests\"
  agent-worker use --none")]
pub(crate) struct Args {
    /// Whom: `agent`, `agent@workflow:tag` or `@workflow:tag`
    target: Option<Target>,
    /// Choose nobody
    #[arg(long, conflicts_with = "target")]
    none: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let memory = Memory::of(ctx.settings);
    let forgetful =
        |error| CliError::because(Kind::BadHome, "could not write the choice down", error);
    let chosen = match (args.target, args.none) {
        (None, false) => memory.default_agent(&ctx.settings.cwd),
        (None, true) => {
            memory.choose_nobody(&ctx.settings.cwd).map_err(forgetful)?;
            return told(None, args.output.format(), ctx).map(|()| Verdict::Done);
        }
        (Some(target), _) => {
            warn_of_strangers(&target, ctx).await?;
            memory.choose(&ctx.settings.cwd, &target).map_err(forgetful)?;
            Some(target)
        }
    };
    let verdict = if chosen.is_some() { Verdict::Done } else { Verdict::Failed };
    told(chosen, args.output.format(), ctx)?;
    Ok(verdict)
}

fn told(chosen: Option<Target>, format: Format, ctx: &mut Context<'_>) -> Result<(), CliError> {
    match (format, chosen) {
        (Format::Json, chosen) => ctx.console.json(&json!({ "default": chosen })),
        (Format::Text, Some(target)) => ctx.console.answer(&Line::plain(target.to_string())),
        (Format::Text, None) => ctx.console.note("nobody is chosen in this folder"),
    }
}

/// Somebody who is not there may come; a slip of the pen should be seen now.
async fn warn_of_strangers(target: &Target, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let Some(client) = ctx.daemon_if_any().await? else { return Ok(()) };
    let scope = ctx.scope(Some(target.clone()), Reach::Here);
    match client.agents(&scope).await {
        Ok(_) => Ok(()),
        Err(error) => {
            let why = CliError::from(error).body();
            ctx.console.warn(&why.message)
        }
    }
}
