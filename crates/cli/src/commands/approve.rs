//! `agent-worker approve` and `deny`: what is said to what an agent wants to do.

use agent_worker_protocol::{
    ApprovalId, Consent, Target,
    api::{ApprovalView, ConsentRequest},
};
use uuid::Uuid;

use super::pending::parse_approval_id;
use crate::{
    error::CliError,
    input::context::{CommandContext, Format, OutputArgs},
    output::{
        styled_line::{StyledLine, Tone},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// Let what an agent asked for happen, once
///
/// Exactly what `pending NUMBER` shows, and nothing else; a run that waited for you goes on.
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

/// Refuse what an agent asked for
///
/// The agent reads the reason and goes on without it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker deny 3
  agent-worker deny 3 -r \"use the staging database\"")]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    which: ApprovalSelector,
    /// Why not; the agent reads it
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, clap::Args)]
struct ApprovalSelector {
    /// Which request: its number
    #[arg(value_name = "NUMBER", value_parser = parse_approval_id)]
    id: ApprovalId,
    /// Whose: `@workflow:tag`; without it this folder's only run
    #[arg(long, short, value_name = "TARGET")]
    target: Option<Target>,
}

/// Runs `approve`.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    decide_approval(args.which, Consent::Approved, None, format, ctx).await
}

/// Runs `deny`.
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
