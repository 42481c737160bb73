//! `agent-worker veto`: the user takes a proposal back, whoever made it.

use agent_worker_protocol::{ProposalId, Target, api::CancelRequest};
use uuid::Uuid;

use super::proposals::{parse_proposal_id, show_outcome};
use crate::{
    error::CliError,
    input::context::{CommandContext, OutputArgs},
    output::verdict::RunVerdict,
};

/// Cancel a proposal that is voted on, whoever made it
///
/// What is decided stays so: propose anew to change it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker veto 3 --why \"not before the release\"")]
pub(crate) struct Args {
    /// Which proposal: its number
    #[arg(value_name = "NUMBER", value_parser = parse_proposal_id)]
    id: ProposalId,
    /// Why, for the team
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// Whose: `@workflow:tag`; without it this folder's only run
    #[arg(long, short, value_name = "TARGET")]
    target: Option<Target>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let client = ctx.connect_or_start().await?;
    let project = Some(ctx.settings.cwd.clone());
    let Args { id, why, target, output } = args;
    let request = CancelRequest { target, project, why };
    let outcome = client.proposal_cancel(&Uuid::now_v7().to_string(), id, &request).await?;
    show_outcome(&outcome, output.format(), ctx)
}
