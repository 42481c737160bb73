//! `agent-worker dead`: lists dead letters, and redrives or drops them.

use agent_worker_protocol::{
    AgentName, DeliveryState, Seq, Target,
    api::{DeadLetter, DeadReply, DeadRequest},
};
use uuid::Uuid;

use super::receipts::parse_seq;
use crate::{
    client::daemon_client::{CommandScope, DaemonClient, ScopeReach},
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        target_args::{
            ArgOrTarget, LIST_TARGET_HELP, TargetArgs, TargetEffect, parse_arg_or_target,
        },
    },
    output::{
        restart_method::RestartMethod,
        styled_line::{StyledLine, Tone},
        table::Column::{Figure, Name, Text},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// List, redrive or drop dead letters
///
/// A message is dead for an agent when its attempts are used up.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  agent-worker dead
  agent-worker dead redrive 12 @review:pr-123
  agent-worker dead drop @review:pr-123 --agent coder --why \"done by hand\""
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<DeadLetterCommand>,
    #[command(flatten)]
    list: DeadListArgs,
}

#[derive(Debug, clap::Subcommand)]
enum DeadLetterCommand {
    /// List dead letters
    #[command(after_help = "Example: agent-worker dead list --all")]
    List(DeadListArgs),
    /// Deliver dead letters again, with a full set of attempts
    ///
    /// The run must be live.
    #[command(after_help = "Example: agent-worker dead redrive 12 @review:pr-123")]
    Redrive(DeadLetterArgs),
    /// Drop dead letters
    ///
    /// Without NUMBER it drops all dead letters of the instance, and needs a typed target.
    #[command(
        after_help = "Example: agent-worker dead drop 12 @review:pr-123 --why \"done by hand\""
    )]
    Drop {
        #[command(flatten)]
        letters: DeadLetterArgs,
        /// Reason, stored with the message
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
#[command(mut_arg("target", |arg| arg.help(LIST_TARGET_HELP)))]
struct DeadListArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Include every folder and ended runs
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Args)]
struct DeadLetterArgs {
    /// Number of the message, as listed by `dead` [default: all of the instance]
    #[arg(value_name = "NUMBER", value_parser = parse_arg_or_target(parse_seq))]
    first: Option<ArgOrTarget<Seq>>,
    #[command(flatten)]
    target: TargetArgs,
    /// Only dead letters for this recipient
    #[arg(long, value_name = "NAME")]
    agent: Option<AgentName>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Args {
    /// Returns the output format.
    pub(super) fn format(&self) -> Format {
        match &self.command {
            None => self.list.output.format(),
            Some(DeadLetterCommand::List(list)) => list.output.format(),
            Some(DeadLetterCommand::Redrive(letters) | DeadLetterCommand::Drop { letters, .. }) => {
                letters.output.format()
            }
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    match args.command {
        None => list(args.list, ctx).await,
        Some(DeadLetterCommand::List(args)) => list(args, ctx).await,
        Some(DeadLetterCommand::Redrive(letters)) => {
            let (key, format) = (Uuid::now_v7().to_string(), letters.output.format());
            let request = letters.request(LetterEffect::Redrive, ctx)?;
            let reply = ctx.connect_existing().await?.dead_redrive(&key, &request).await?;
            print_reply(&reply, format, ctx)
        }
        Some(DeadLetterCommand::Drop { letters, why }) => {
            let (key, format) = (Uuid::now_v7().to_string(), letters.output.format());
            let request = letters.request(LetterEffect::Drop { why }, ctx)?;
            let reply = ctx.connect_existing().await?.dead_drop(&key, &request).await?;
            print_reply(&reply, format, ctx)
        }
    }
}

/// The change of dead letters.
enum LetterEffect {
    Redrive,
    Drop { why: Option<String> },
}

impl DeadLetterArgs {
    /// Builds the request. All dead letters of an instance are dropped only if the user typed the instance.
    fn request(
        self,
        effect: LetterEffect,
        ctx: &mut CommandContext<'_>,
    ) -> Result<DeadRequest, CliError> {
        let (seq, target) = self.target.split(self.first)?;
        let target = match (&effect, seq) {
            (LetterEffect::Drop { .. }, None) => {
                Some(target.required("agent-worker dead drop @workflow:tag")?)
            }
            (LetterEffect::Drop { .. }, Some(_)) | (LetterEffect::Redrive, _) => {
                target.or_selected(TargetEffect::Change, ctx)?
            }
        };
        let why = match effect {
            LetterEffect::Redrive => None,
            LetterEffect::Drop { why } => why,
        };
        let named = target.as_ref().and_then(|target| target.agent.clone());
        let agent = self.agent.or(named);
        let project = Some(ctx.settings.cwd.clone());
        Ok(DeadRequest { target, project, seq, agent, why })
    }
}

async fn list(args: DeadListArgs, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    let reach = if args.all { ScopeReach::AllProjects } else { ScopeReach::CurrentProject };
    let target = args.target.for_list(reach, ctx)?;
    let named = target.is_some();
    let scope = ctx.scope(target, reach);
    let client = ctx.connect_if_history().await?;
    let letters = match &client {
        Some(client) => fetch_dead_letters(client, &scope).await?,
        None if named => return Err(CommandContext::no_history_error()),
        None => Vec::new(),
    };
    match format {
        Format::Json => ctx.console.print_json_list(&letters)?,
        Format::Text if letters.is_empty() => ctx.console.note(match (args.all, named) {
            (true, _) | (_, true) => "no dead letters",
            (false, false) => "no dead letters in live runs; --all includes ended runs",
        })?,
        Format::Text => {
            show(&letters, ctx)?;
            show_steps(&letters, client.as_ref(), ctx).await?;
        }
    }
    Ok(RunVerdict::Done)
}

/// Returns the dead letters in scope, only those of the agent if one is named; an unknown agent is an error.
async fn fetch_dead_letters(
    client: &DaemonClient,
    scope: &CommandScope,
) -> Result<Vec<DeadLetter>, CliError> {
    let mut letters = client.dead_letters(scope).await?;
    let Some(agent) = &scope.target.as_ref().and_then(|target| target.agent.as_ref()) else {
        return Ok(letters);
    };
    letters.retain(|letter| letter.receipt.agent == **agent);
    if letters.is_empty() {
        client.agents(scope).await?;
    }
    Ok(letters)
}

fn show(letters: &[DeadLetter], ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let row = |letter: &DeadLetter| {
        [
            format!("#{}", letter.receipt.seq),
            Target::agent(letter.receipt.agent.clone(), &letter.instance).to_string(),
            letter.receipt.failures.to_string(),
            one_line(letter.receipt.why.as_deref().unwrap_or("no reason given")),
            one_line(&format!("{}: {}", letter.message.from, letter.message.body)),
        ]
    };
    let rows: Vec<_> = letters.iter().map(row).collect();
    ctx.console.print_table(
        [Name("MESSAGE"), Name("FOR"), Figure("FAILURES"), Text("WHY"), Text("WHAT")],
        &rows,
    )
}

/// Prints the next step for the first letter of a live run, else for an ended run.
async fn show_steps(
    letters: &[DeadLetter],
    client: Option<&DaemonClient>,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let Some(first) = letters.iter().find(|letter| letter.live) else {
        let (Some(letter), Some(client)) = (letters.first(), client) else { return Ok(()) };
        // The list is printed already, so a failed lookup only omits the hint.
        let Ok(run) = client.run(letter.run).await else { return Ok(()) };
        let step = RestartMethod::of(&run).after_fix();
        return ctx.console.hint(&format!("their runs have ended: {step}"));
    };
    let (seq, target) = (first.receipt.seq, Target::instance(&first.instance));
    ctx.console.hint(&format!("retry one: agent-worker dead redrive {seq} {target}"))?;
    ctx.console.hint(&format!("drop it: agent-worker dead drop {seq} {target}"))
}

fn print_reply(
    reply: &DeadReply,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    if format == Format::Json {
        ctx.console.print_json(reply)?;
        return Ok(RunVerdict::Done);
    }
    for receipt in &reply.receipts {
        let who = Target::agent(receipt.agent.clone(), &reply.instance);
        let what = match receipt.state {
            DeliveryState::Dropped => "is dropped".to_owned(),
            DeliveryState::Pending => "will be retried".to_owned(),
            // The message may have been leased or acted on before the reply.
            DeliveryState::Leased | DeliveryState::Acted | DeliveryState::Dead => {
                format!("is {}", receipt.state)
            }
        };
        let line = StyledLine::new(Tone::Strong, format!("#{} for {who}", receipt.seq));
        ctx.console.print_line(&line.with(Tone::Plain, format!(" {what}")))?;
    }
    Ok(RunVerdict::Done)
}
