//! `agent-worker veto`: cancels a proposal of any creator, as the user.

use agent_worker_protocol::{ProposalId, api::CancelRequest};
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

/// Cancel an open proposal of any creator
///
/// A decided proposal stays decided; start a new vote to change the decision.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker veto 3 --why \"not before the release\"")]
pub(crate) struct Args {
    /// Number of the proposal
    #[arg(value_name = "NUMBER", value_parser = parse_proposal_id)]
    id: ProposalId,
    /// Reason, shown to the team
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let client = ctx.connect_or_start().await?;
    let project = Some(ctx.settings.cwd.clone());
    let Args { id, why, target, output } = args;
    let target = target.or_selected(TargetEffect::Change, ctx)?;
    let request = CancelRequest { target, project, why };
    let outcome = client.proposal_cancel(&Uuid::now_v7().to_string(), id, &request).await?;
    show_outcome(&outcome, output.format(), ctx)
}
