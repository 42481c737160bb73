//! `agent-worker approve` and `deny`: answer an agent's approval request.

use agent_worker_protocol::{
    ApprovalId, Consent,
    api::{ApprovalView, ConsentRequest},
};
use uuid::Uuid;

use super::pending::parse_approval_id;
use crate::{
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        styled_line::{StyledLine, Tone},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// Approve a request of an agent, once
///
/// Allows exactly the call that `pending NUMBER` shows. A run that was paused for you continues.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker approve 3
  agent-worker approve 3 --target @review:pr-123")]
pub(crate) struct Args {
    #[command(flatten)]
    which: ApprovalSelector,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Deny a request of an agent
///
/// The agent receives the reason and continues without the call.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker deny 3
  agent-worker deny 3 -r \"use the staging database\"")]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    which: ApprovalSelector,
    /// Reason, which the agent receives
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, clap::Args)]
struct ApprovalSelector {
    /// Number of the request, as listed by `pending`
    #[arg(value_name = "NUMBER", value_parser = parse_approval_id)]
    id: ApprovalId,
    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the `approve` command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    decide_approval(args.which, Consent::Approved, None, format, ctx).await
}

/// Runs the `deny` command.
pub(crate) async fn deny(
    args: DenyArgs,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    decide_approval(args.which, Consent::Denied, args.reason, format, ctx).await
}

async fn decide_approval(
    ApprovalSelector { id, target }: ApprovalSelector,
    consent: Consent,
    reason: Option<String>,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let target = target.or_selected(TargetEffect::Change, ctx)?;
    let client = ctx.connect_or_start().await?;
    let request = ConsentRequest { target, project: Some(ctx.settings.cwd.clone()), reason };
    let key = Uuid::now_v7().to_string();
    let answered = client.approval_decide(&key, id, consent, &request).await?;
    match format {
        Format::Json => ctx.console.print_json(&answered)?,
        Format::Text => ctx.console.print_line(&decision_line(&answered, consent))?,
    }
    Ok(RunVerdict::Done)
}

fn decision_line(answered: &ApprovalView, consent: Consent) -> StyledLine {
    let ApprovalView { id, agent, tool, args, .. } = answered;
    let what =
        format!(" is {consent}: {agent} · {} {}", one_line(tool), one_line(&args.to_string()));
    StyledLine::new(Tone::Strong, format!("request #{id}")).with(Tone::Plain, what)
}
