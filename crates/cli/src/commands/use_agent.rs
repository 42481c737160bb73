//! `agent-worker use`: selects the target of commands in this folder that name none.

use agent_worker_protocol::Target;
use serde_json::json;

use crate::{
    client::{daemon_client::ScopeReach, local_state::LocalState},
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        target_args::TargetArgs,
    },
    output::{styled_line::StyledLine, verdict::RunVerdict},
};

/// Select the target of commands in this folder that name none
///
/// A command without a target acts as if you had typed the selected one; `rm` and `agent end` always need a typed target,
/// and --all ignores the selection. Without a target, the command prints the selected one, and exits with 1 if there is
/// none.
#[derive(Debug, clap::Args)]
#[command(mut_arg("target", |arg| arg.help(
    "Target to select: `agent`, `agent@workflow:tag` or `@workflow:tag` [default: print the selected one]"
)), after_help = "\
Examples:
  agent-worker use coder@review
  agent-worker send \"and now the tests\"
  agent-worker use --none")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Clear the selection
    #[arg(long, conflicts_with_all = ["target", "target_option"])]
    none: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let memory = LocalState::open(ctx.settings);
    let forgetful = |error| {
        CliError::with_source(CliErrorKind::BadHome, "could not save the selected target", error)
    };
    let chosen = match (args.target.typed()?, args.none) {
        (None, false) => memory.default_agent(&ctx.settings.cwd),
        (None, true) => {
            memory.clear_default_agent(&ctx.settings.cwd).map_err(forgetful)?;
            return print_default_agent(None, args.output.format(), ctx).map(|()| RunVerdict::Done);
        }
        (Some(target), _) => {
            warn_if_unknown(&target, ctx).await?;
            memory.set_default_agent(&ctx.settings.cwd, &target).map_err(forgetful)?;
            Some(target)
        }
    };
    let verdict = if chosen.is_some() { RunVerdict::Done } else { RunVerdict::Failed };
    print_default_agent(chosen, args.output.format(), ctx)?;
    Ok(verdict)
}

fn print_default_agent(
    chosen: Option<Target>,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    match (format, chosen) {
        (Format::Json, chosen) => ctx.console.print_json(&json!({ "default": chosen })),
        (Format::Text, Some(target)) => {
            ctx.console.print_line(&StyledLine::plain(target.to_string()))
        }
        (Format::Text, None) => ctx.console.note("no target is selected in this folder"),
    }
}

/// Warns about an unknown target: it may appear later, but a typing error should be visible now.
async fn warn_if_unknown(target: &Target, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let Some(client) = ctx.connect_if_history().await? else { return Ok(()) };
    let scope = ctx.scope(Some(target.clone()), ScopeReach::CurrentProject);
    match client.agents(&scope).await {
        Ok(_) => Ok(()),
        Err(error) => {
            let why = CliError::from(error).to_report_error();
            ctx.console.warn(&why.message)?;
            why.hint.map_or(Ok(()), |hint| ctx.console.hint(&hint))
        }
    }
}
