//! `agent-worker proposals`: lists the votes of a team and their results.

use agent_worker_protocol::{
    Ballot, Proposal, ProposalId, ResolvedBy,
    api::{ProposalOutcome, ProposalView},
};

use crate::{
    client::daemon_client::{ProposalSelection, ScopeReach},
    error::CliError,
    input::{
        argument_values,
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{ArgOrTarget, TargetArgs, TargetEffect, parse_arg_or_target},
    },
    output::{
        clock, state_text,
        styled_line::{StyledLine, Tone},
        table::Column::{Figure, Name, State, Text},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// List proposals, or show one with its votes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker proposals
  agent-worker proposals 3 --target @review:pr-123
  agent-worker proposals --all")]
pub(crate) struct Args {
    /// Number of the proposal [default: list all open proposals]
    #[arg(value_name = "NUMBER", value_parser = parse_arg_or_target(parse_proposal_id))]
    id: Option<ArgOrTarget<ProposalId>>,
    #[command(flatten)]
    target: TargetArgs,
    /// Include closed proposals
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Parses a proposal's number as it is displayed: `3` or `#3`.
pub(super) fn parse_proposal_id(text: &str) -> Result<ProposalId, String> {
    argument_values::parse_positive_number(text)
        .map(ProposalId::new)
        .ok_or_else(|| "a proposal's number is a whole number from 1".into())
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let which = if args.all { ProposalSelection::All } else { ProposalSelection::Open };
    let format = args.output.format();
    let (id, target) = args.target.split(args.id)?;
    let target = target.or_selected(TargetEffect::Read, ctx)?;
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    let scope = resolve_run::readable_scope(&client, &scope, format, ctx).await?;
    if let Some(id) = id {
        let proposal = client.proposal(&scope, id).await?;
        match format {
            Format::Json => ctx.console.print_json(&proposal)?,
            Format::Text => show(&proposal.proposal, ctx)?,
        }
        return Ok(RunVerdict::Done);
    }
    let reply = client.proposals(&scope, which).await?;
    match format {
        Format::Json => ctx.console.print_json(&reply)?,
        Format::Text if reply.items.is_empty() => ctx.console.note(if args.all {
            "no proposals yet"
        } else {
            "no open proposals; --all shows closed ones"
        })?,
        Format::Text => list(&reply.items, ctx)?,
    }
    Ok(RunVerdict::Done)
}

fn list(proposals: &[ProposalView], ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let row = |ProposalView { proposal, .. }: &ProposalView| {
        let electorate = &proposal.terms.electorate;
        let voted = electorate.len() - proposal.missing_voters().len();
        // The vote of the user counts, although no proposal waits for it.
        let others = proposal.ballots.iter().map(|ballot| &ballot.voter);
        let others = others.filter(|voter| !electorate.contains(voter));
        let others: Vec<String> = others.map(|voter| one_line(&voter.to_string())).collect();
        let voted = format!("{voted} of {}", electorate.len());
        let voted = [vec![voted], others].concat().join(" + ");
        [
            format!("#{}", proposal.id),
            one_line(&proposal.state.to_string()),
            proposal.terms.kind.to_string(),
            voted,
            one_line(&proposal.terms.title),
        ]
    };
    let rows: Vec<_> = proposals.iter().map(row).collect();
    ctx.console.print_table(
        [Name("PROPOSAL"), State("STATE"), Text("KIND"), Figure("VOTED"), Text("WHAT")],
        &rows,
    )
}

fn show(proposal: &Proposal, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let terms = &proposal.terms;
    let head =
        StyledLine::new(Tone::Strong, format!("#{} {}", proposal.id, one_line(&terms.title)));
    ctx.console.print_line(
        &head.with(Tone::Plain, format!("  {}", one_line(&proposal.state.to_string()))),
    )?;
    let binding = if terms.binding { "binding" } else { "advisory" };
    let made = format!(
        "{}, {}, {binding}; made by {} {}",
        terms.kind,
        terms.rule,
        one_line(&proposal.created_by.to_string()),
        state_text::time_ago(proposal.created, clock::now())
    );
    ctx.console.print_line(&StyledLine::plain(made))?;
    if let Some(effect) = proposal.state.effect() {
        ctx.console.print_line(&StyledLine::plain(one_line(effect)))?;
    }
    if let Some(resolved_by) = proposal.resolved_by {
        ctx.console.print_line(&StyledLine::plain(resolution_text(resolved_by)))?;
    }
    if proposal.ended.is_none() {
        ctx.console.print_line(&StyledLine::plain(format!("until {}", proposal.deadline)))?;
    }
    if let Some(description) = &terms.description {
        ctx.console.print_line(&StyledLine::plain(one_line(description)))?;
    }
    let rows: Vec<_> = proposal
        .vote_counts()
        .into_iter()
        .map(|(id, votes)| [one_line(id), votes.to_string()])
        .collect();
    ctx.console.print_table([Name("OPTION"), Figure("VOTES")], &rows)?;
    let row = |ballot: &Ballot| {
        let why = ballot.reason.as_deref().unwrap_or_default();
        [one_line(&ballot.voter.to_string()), one_line(&ballot.choice), one_line(why)]
    };
    let rows: Vec<_> = proposal.ballots.iter().map(row).collect();
    if !rows.is_empty() {
        ctx.console.print_table([Name("VOTER"), Name("CHOICE"), Text("REASON")], &rows)?;
    }
    Ok(())
}

/// Describes the event that ended a proposal; `resolved_by` in JSON.
fn resolution_text(resolved_by: ResolvedBy) -> &'static str {
    match resolved_by {
        ResolvedBy::Quorum => "decided: enough voters have voted",
        ResolvedBy::AllVoted => "decided: every voter has voted",
        ResolvedBy::Decided => "decided: the missing votes could not change the winner",
        ResolvedBy::Deadline => "closed: the time for voting is over",
        ResolvedBy::Cancelled => "cancelled before a decision",
    }
}

/// Prints the state of a proposal after an action.
pub(super) fn show_outcome(
    outcome: &ProposalOutcome,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    match format {
        Format::Json => ctx.console.print_json(outcome)?,
        Format::Text => {
            let line = StyledLine::new(Tone::Strong, format!("proposal #{}", outcome.proposal));
            let effect = outcome.state.effect().map(|effect| format!(" ({effect})"));
            let state = format!(" is {}{}", outcome.state, effect.unwrap_or_default());
            ctx.console.print_line(&line.with(Tone::Plain, leading_space_one_line(&state)))?;
        }
    }
    Ok(RunVerdict::Done)
}

fn leading_space_one_line(text: &str) -> String {
    format!(" {}", one_line(text.trim_start()))
}
