//! `agent-worker propose`: let a team vote.

use agent_worker_protocol::{
    ProposalKind, ProposalOption, Role, Rule, Sender, Seq, Span, Target, TieBreaker,
    api::ProposalRequest,
};
use uuid::Uuid;

use super::{proposals::show_outcome, receipts::parse_seq};
use crate::{
    error::CliError,
    input::context::{CommandContext, OutputArgs},
    output::verdict::RunVerdict,
};

/// Let a team vote on something
///
/// Without options it is approved or rejected; where an agent is wanted (--role, --work), the agents are the options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker propose \"Which database?\" --option sqlite --option postgres
  agent-worker propose \"Who coordinates?\" --role coordinator --binding
  agent-worker propose \"Release it?\" --gate release --binding --deadline 1h")]
pub(crate) struct Args {
    /// What is asked
    title: String,
    /// Whose team: `@workflow:tag`; without it this folder's only run
    #[arg(long, short, value_name = "TARGET")]
    target: Option<Target>,
    /// Something to vote for; once for each
    #[arg(long = "option", value_name = "TEXT")]
    options: Vec<String>,
    /// More about it
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// election, decision, approval or assignment
    #[arg(long, value_parser = parse_keyword(ProposalKind::from_word, "election, decision, approval, assignment"))]
    kind: Option<ProposalKind>,
    /// plurality, majority or unanimous
    #[arg(long, value_parser = parse_keyword(Rule::from_word, "plurality, majority, unanimous"))]
    rule: Option<Rule>,
    /// So many votes are enough when the time is up; without it, everybody's
    #[arg(long, value_name = "COUNT")]
    quorum: Option<u32>,
    /// `first`, `random` or `creator_decides`
    #[arg(long, value_parser = parse_keyword(TieBreaker::from_word, "first, random, creator_decides"))]
    tie_breaker: Option<TieBreaker>,
    /// The daemon enforces what is decided
    #[arg(long)]
    binding: bool,
    /// How long votes are taken; without it, 10m
    #[arg(long, value_name = "TIME")]
    deadline: Option<Span>,
    /// The role an election gives: `document_owner` or `coordinator`
    #[arg(long, value_parser = parse_keyword(Role::from_word, "document_owner, coordinator"))]
    role: Option<Role>,
    /// The message an assignment gives to the winner: its number
    #[arg(long, value_name = "NUMBER", value_parser = parse_seq)]
    work: Option<Seq>,
    /// The gate an approval opens
    #[arg(long, value_name = "NAME")]
    gate: Option<String>,
    /// Who votes; once for each. Without it, every agent
    #[arg(long = "voter", value_name = "NAME")]
    voters: Vec<String>,
    /// The option that holds if the time is up before it is decided
    #[arg(long, value_name = "OPTION")]
    fallback: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Reads one word of a list of words.
fn parse_keyword<T>(
    read: fn(&str) -> Option<T>,
    words: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| read(&text.replace('-', "_")).ok_or_else(|| format!("it is one of {words}"))
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let client = ctx.connect_or_start().await?;
    let format = args.output.format();
    let some = |list: Vec<String>| Some(list).filter(|list| !list.is_empty());
    let options = some(args.options);
    let request = ProposalRequest {
        target: args.target,
        project: Some(ctx.settings.cwd.clone()),
        title: args.title,
        description: args.description,
        options: options.map(|list| list.into_iter().map(ProposalOption::new).collect()),
        kind: args.kind,
        rule: args.rule,
        quorum: args.quorum,
        tie_breaker: args.tie_breaker,
        binding: args.binding,
        deadline: args.deadline,
        role: args.role,
        work: args.work,
        gate: args.gate,
        electorate: some(args.voters).map(|list| list.into_iter().map(Sender::from).collect()),
        fallback: args.fallback,
    };
    let outcome = client.propose(&Uuid::now_v7().to_string(), &request).await?;
    show_outcome(&outcome, format, ctx)
}
