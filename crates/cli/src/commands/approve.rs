//! `agent-worker approve` and `deny`: what is said to what an agent wants to do.

use agent_worker_protocol::{
    ApprovalId, Consent, Target,
    api::{ApprovalView, ConsentRequest},
};
use uuid::Uuid;

use super::pending::number;
use crate::{
    context::{Context, Format, Output},
    error::CliError,
    line::{Line, Tone},
    text::one_line,
    verdict::Verdict,
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
    which: Which,
    #[command(flatten)]
    pub(super) output: Output,
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
    which: Which,
    /// Why not; the agent reads it
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Which request: its number
    #[arg(value_name = "NUMBER", value_parser = number)]
    id: ApprovalId,
    /// Whose: `@workflow:tag`; without it this folder's only run
    #[arg(long, short, value_name = "TARGET")]
    target: Option<Target>,
}

/// Runs `approve`.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let format = args.output.format();
    answer(args.which, Consent::Approved, None, format, ctx).await
}

/// Runs `deny`.
pub(crate) async fn deny(args: DenyArgs, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let format = args.output.format();
    answer(args.which, Consent::Denied, args.reason, format, ctx).await
}

async fn answer(
    Which { id, target }: Which,
    consent: Consent,
    reason: Option<String>,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    let client = ctx.daemon().await?;
    let request = ConsentRequest { target, project: Some(ctx.settings.cwd.clone()), reason };
    let key = Uuid::now_v7().to_string();
    let answered = client.consent(&key, id, consent, &request).await?;
    match format {
        Format::Json => ctx.console.json(&answered)?,
        Format::Text => ctx.console.answer(&told(&answered, consent))?,
    }
    Ok(Verdict::Done)
}

fn told(answered: &ApprovalView, consent: Consent) -> Line {
    let ApprovalView { id, agent, tool, args, .. } = answered;
    let what =
        format!(" is {consent}: {agent} · {} {}", one_line(tool), one_line(&args.to_string()));
    Line::of(Tone::Strong, format!("request #{id}")).and(Tone::Plain, what)
}
