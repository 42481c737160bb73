//! `agent-worker revoke`: end a grant, which `approve --for-run` made.

use agent_worker_protocol::{
    GrantId,
    api::{GrantView, RevokeRequest},
};
use uuid::Uuid;

use crate::{
    error::CliError,
    input::{
        argument_values,
        context::{CommandContext, Format, OutputArgs},
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        styled_line::{StyledLine, Tone},
        text::escape_invisible,
        verdict::RunVerdict,
    },
};

/// End what `approve --for-run` allowed
///
/// The agent asks again. A call that has started continues.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker pending --grants
  agent-worker revoke 1
  agent-worker revoke 1 --target @review:pr-123")]
pub(crate) struct Args {
    /// Number of the grant, as listed by `pending`
    #[arg(value_name = "NUMBER", value_parser = parse_grant_id)]
    id: GrantId,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

fn parse_grant_id(text: &str) -> Result<GrantId, String> {
    argument_values::parse_positive_number(text)
        .map(GrantId::new)
        .ok_or_else(|| "a grant's number is a whole number from 1".into())
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let target = args.target.or_selected(TargetEffect::Change, ctx)?;
    let client = ctx.connect_or_start().await?;
    let request = RevokeRequest { target, project: Some(ctx.settings.cwd.clone()) };
    let key = Uuid::now_v7().to_string();
    let revoked = client.grant_revoke(&key, args.id, &request).await?;
    match args.output.format() {
        Format::Json => ctx.console.print_json(&revoked)?,
        Format::Text => ctx.console.print_line(&revoked_line(&revoked))?,
    }
    Ok(RunVerdict::Done)
}

fn revoked_line(GrantView { id, agent, pattern, .. }: &GrantView) -> StyledLine {
    let what =
        format!(" is revoked: {agent} asks again about {}", escape_invisible(&pattern.to_string()));
    StyledLine::new(Tone::Strong, format!("grant #{id}")).with(Tone::Plain, what)
}
