//! `agent-worker top`: agents, items that need attention and the channel on a full screen.

use std::io::IsTerminal as _;

use agent_worker_protocol::Target;

use crate::{
    error::{CliError, CliErrorKind},
    input::{
        context::CommandContext,
        target_args::{TargetArgs, TargetEffect},
    },
    output::verdict::RunVerdict,
    top::TopSession,
};

/// Show agents, requests and messages on a full screen
///
/// The screen shows the live runs: each agent with its tool, tokens, cost and time, what needs you, and the messages. Keys
/// answer requests and questions and send messages; `?` lists them, `q` quits.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("target", |arg| arg.help(
        "Target: `agent`, `agent@workflow:tag` or `@workflow:tag` [default: the target selected with `use`, else all live runs]"
    )),
    after_help = "\
Examples:
  agent-worker top
  agent-worker top @review:pr-123"
)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Show all live runs, also with a selected target
    #[arg(long, conflicts_with_all = ["target", "target_option"])]
    all: bool,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let has_terminal = ctx.console.is_stdout_drawable() && std::io::stdin().is_terminal();
    if !has_terminal {
        let what = "`top` needs a terminal that it can draw on";
        return Err(CliError::new(CliErrorKind::Usage, what).with_hint(
            "without one: agent-worker ls, agent-worker pending, agent-worker peek --follow",
        ));
    }
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let target = if args.all { None } else { args.target.or_selected(TargetEffect::Read, ctx)? };
    // A screen shows the team of an agent.
    let target = target.map(|target| match target.workflow {
        Some(_) => Target { agent: None, ..target },
        None => target,
    });
    Box::pin(TopSession::new(client, target, ctx).run()).await
}
