//! `agent-worker vote`: the user's own vote.

use agent_worker_protocol::{ProposalId, Target, api::VoteRequest};
use uuid::Uuid;

use super::proposals::{parse_proposal_id, show_outcome};
use crate::{
    error::CliError,
    input::context::{CommandContext, OutputArgs},
    output::verdict::RunVerdict,
};

/// Vote on a proposal, or change your vote
///
/// Your vote counts like an agent's; nobody waits for it unless you were named as a voter.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker vote 3 sqlite --reason \"one file less to run\"")]
pub(crate) struct Args {
    /// Which proposal: its number
    #[arg(value_name = "NUMBER", value_parser = parse_proposal_id)]
    id: ProposalId,
    /// Which option
    choice: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
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
    let Args { id, choice, reason, target, output } = args;
    let request = VoteRequest { target, project, choice, reason };
    let outcome = client.vote(&Uuid::now_v7().to_string(), id, &request).await?;
    show_outcome(&outcome, output.format(), ctx)
}
