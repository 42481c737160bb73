//! `agent-worker approve` and `deny`: answer an agent's approval request.

use agent_worker_protocol::{
    ApprovalId, Consent, ConsentScope, ToolPattern,
    api::{ApprovalView, ConsentRequest, GivenGrant},
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
        text::{escape_invisible, one_line},
        verdict::RunVerdict,
    },
};

/// Approve a request of an agent
///
/// Allows exactly the call that `pending NUMBER` shows, once. With `--for-run` the agent may also make the same call
/// again without asking, until its run ends or you revoke it. A run that was paused for you continues.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker approve 3
  agent-worker approve 3 --for-run
  agent-worker approve 3 --for-run --pattern 'Bash(git diff*)'
  agent-worker approve 3 --target @review:pr-123")]
pub(crate) struct Args {
    #[command(flatten)]
    which: ApprovalSelector,
    /// Allow the same call for the rest of the run
    #[arg(long)]
    for_run: bool,
    /// Calls to allow for the rest of the run, as a rule of `permissions` [default: exactly this call]
    #[arg(long, value_name = "PATTERN", requires = "for_run")]
    pattern: Option<ToolPattern>,
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
    let scope = if args.for_run { ConsentScope::Run } else { ConsentScope::Call };
    let request = ConsentRequest { scope, pattern: args.pattern, ..ConsentRequest::default() };
    decide_approval(args.which, Consent::Approved, request, format, ctx).await
}

/// Runs the `deny` command.
pub(crate) async fn deny(
    args: DenyArgs,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    let request = ConsentRequest { reason: args.reason, ..ConsentRequest::default() };
    decide_approval(args.which, Consent::Denied, request, format, ctx).await
}

async fn decide_approval(
    ApprovalSelector { id, target }: ApprovalSelector,
    consent: Consent,
    request: ConsentRequest,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let target = target.or_selected(TargetEffect::Change, ctx)?;
    let client = ctx.connect_or_start().await?;
    let project = Some(ctx.settings.cwd.clone());
    let request = ConsentRequest { target, project, ..request };
    let key = Uuid::now_v7().to_string();
    let answered = client.approval_decide(&key, id, consent, &request).await?;
    match format {
        Format::Json => ctx.console.print_json(&answered)?,
        Format::Text => {
            ctx.console.print_line(&decision_line(&answered, consent))?;
            if let Some(grant) = &answered.grant {
                ctx.console.print_line(&grant_line(&answered, grant))?;
                ctx.console.note(&format!("to end that: agent-worker revoke {}", grant.id))?;
            }
        }
    }
    Ok(RunVerdict::Done)
}

fn decision_line(answered: &ApprovalView, consent: Consent) -> StyledLine {
    let ApprovalView { id, agent, tool, args, .. } = answered;
    let what =
        format!(" is {consent}: {agent} · {} {}", one_line(tool), one_line(&args.to_string()));
    StyledLine::new(Tone::Strong, format!("request #{id}")).with(Tone::Plain, what)
}

/// Returns the line that shows all that a grant allows.
fn grant_line(answered: &ApprovalView, GivenGrant { id, pattern }: &GivenGrant) -> StyledLine {
    let pattern = escape_invisible(&pattern.to_string());
    let what = format!(" allows {} for the rest of the run: {pattern}", answered.agent);
    StyledLine::new(Tone::Strong, format!("grant #{id}")).with(Tone::Plain, what)
}
