//! `agent-worker propose`: starts a vote of a team.

use std::str::FromStr;

use agent_worker_protocol::{
    ProposalKind, ProposalOption, Role, Rule, Sender, Seq, Span, TieBreaker, api::ProposalRequest,
};
use uuid::Uuid;

use super::{proposals::show_outcome, receipts::parse_seq};
use crate::{
    error::CliError,
    input::{
        context::{CommandContext, OutputArgs},
        target_args::{TargetArgs, TargetEffect},
    },
    output::verdict::RunVerdict,
};

/// Start a vote of a team
///
/// Without --option the options are `approve` and `reject`; with --role or --work the options are the agents.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker propose \"Which database?\" --option sqlite --option postgres
  agent-worker propose \"Who coordinates?\" --role coordinator --binding
  agent-worker propose \"Release it?\" --gate release --binding --deadline 1h")]
pub(crate) struct Args {
    /// Title of the proposal
    title: String,
    #[command(flatten)]
    target: TargetArgs,
    /// Option to vote for; repeatable
    #[arg(long = "option", value_name = "TEXT")]
    options: Vec<String>,
    /// Description of the proposal
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Kind: election, decision, approval or assignment [default: decision, or as --role, --work or --gate require]
    #[arg(
        long,
        value_parser = parse_keyword::<ProposalKind>("election, decision, approval, assignment"),
        help_heading = "Rules"
    )]
    kind: Option<ProposalKind>,
    /// Rule: plurality, majority or unanimous [default: majority for an approval, else plurality]
    #[arg(
        long,
        value_parser = parse_keyword::<Rule>("plurality, majority, unanimous"),
        help_heading = "Rules"
    )]
    rule: Option<Rule>,
    /// Quorum at the deadline [default: all voters]
    #[arg(long, value_name = "COUNT", help_heading = "Rules")]
    quorum: Option<u32>,
    /// Count the votes as soon as the quorum is reached
    #[arg(long, requires = "quorum", help_heading = "Rules")]
    close_at_quorum: bool,
    /// Tie breaker: `first`, `random` or `creator_decides` [default: first]
    #[arg(
        long,
        value_parser = parse_keyword::<TieBreaker>("first, random, creator_decides"),
        help_heading = "Rules"
    )]
    tie_breaker: Option<TieBreaker>,
    /// Let the daemon enforce the result
    #[arg(long, help_heading = "Effect")]
    binding: bool,
    /// Time limit for votes [default: 10m]
    #[arg(long, value_name = "TIME", help_heading = "Rules")]
    deadline: Option<Span>,
    /// Role that an election assigns: `document_owner`, `coordinator` or `finisher`
    #[arg(long, value_parser = parse_keyword::<Role>("document_owner, coordinator, finisher"), help_heading = "Effect")]
    role: Option<Role>,
    /// Number of the message that an assignment gives to the winner
    #[arg(long, value_name = "NUMBER", value_parser = parse_seq, help_heading = "Effect")]
    work: Option<Seq>,
    /// Gate that an approval opens
    #[arg(long, value_name = "NAME", help_heading = "Effect")]
    gate: Option<String>,
    /// Name of a voter; repeatable [default: every agent]
    #[arg(long = "voter", value_name = "NAME", help_heading = "Rules")]
    voters: Vec<String>,
    /// Option that wins if the deadline passes without a decision
    #[arg(long, value_name = "OPTION", help_heading = "Rules")]
    fallback: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Parses one of a list of keywords.
fn parse_keyword<T: FromStr>(words: &'static str) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| text.replace('-', "_").parse().map_err(|_| format!("expected one of {words}"))
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let (title, target) =
        args.target.split_required_text(args.title, "title", "propose", ctx.console)?;
    let target = target.or_selected(TargetEffect::Change, ctx)?;
    let client = ctx.connect_or_start().await?;
    let format = args.output.format();
    let some = |list: Vec<String>| Some(list).filter(|list| !list.is_empty());
    let options = some(args.options);
    let request = ProposalRequest {
        target,
        project: Some(ctx.settings.cwd.clone()),
        title: title.trim_end().to_owned(),
        description: args.description,
        options: options.map(|list| list.into_iter().map(ProposalOption::new).collect()),
        kind: args.kind,
        rule: args.rule,
        quorum: args.quorum,
        close_at_quorum: args.close_at_quorum,
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
