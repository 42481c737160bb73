//! `agent-worker vote`: casts the user's own vote.

use agent_worker_protocol::{ProposalId, api::VoteRequest};
use uuid::Uuid;

use super::proposals::{parse_proposal_id, show_outcome};
use crate::{
    error::CliError,
    input::{
        context::{CommandContext, OutputArgs},
        target_args::{TargetArgs, TargetEffect},
    },
    output::verdict::RunVerdict,
};

/// Vote on a proposal, or change your vote
///
/// Your vote counts like an agent's; the proposal does not wait for it unless you are a named voter.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker vote 3 sqlite --reason \"one file less to run\"")]
pub(crate) struct Args {
    /// Number of the proposal
    #[arg(value_name = "NUMBER", value_parser = parse_proposal_id)]
    id: ProposalId,
    /// Option to vote for
    choice: String,
    /// Reason for the vote
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let Args { id, choice, reason, target, output } = args;
    let (choice, target) =
        target.split_required_text(choice, "option", &format!("vote {id}"), ctx.console)?;
    let choice = choice.trim_end().to_owned();
    let client = ctx.connect_or_start().await?;
    let project = Some(ctx.settings.cwd.clone());
    let target = target.or_selected(TargetEffect::Change, ctx)?;
    let request = VoteRequest { target, project, choice, reason };
    let outcome = client.vote(&Uuid::now_v7().to_string(), id, &request).await?;
    show_outcome(&outcome, output.format(), ctx)
}
