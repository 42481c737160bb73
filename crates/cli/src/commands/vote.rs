//! `agent-worker vote`: the user's own vote.

use agent_worker_protocol::{ProposalId, Target, api::VoteRequest};
use uuid::Uuid;

use super::proposals::{number, told};
use crate::{
    context::{Context, Output},
    error::CliError,
    verdict::Verdict,
};

/// Vote on a proposal, or change your vote
///
/// Your vote counts like an agent's; nobody waits for it unless you were named as a voter.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker vote 3 sqlite --reason \"one file less to run\"")]
pub(crate) struct Args {
    /// Which proposal: its number
    #[arg(value_name = "NUMBER", value_parser = number)]
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
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let client = ctx.daemon().await?;
    let project = Some(ctx.settings.cwd.clone());
    let Args { id, choice, reason, target, output } = args;
    let request = VoteRequest { target, project, choice, reason };
    let outcome = client.vote(&Uuid::now_v7().to_string(), id, &request).await?;
    told(&outcome, output.format(), ctx)
}
