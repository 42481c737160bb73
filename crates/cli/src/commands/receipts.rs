//! `agent-worker receipts`: prints the delivery state of a message for each recipient.

use agent_worker_protocol::{Receipt, Seq, Target};

use crate::{
    client::daemon_client::ScopeReach,
    error::CliError,
    input::{
        argument_values,
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
    },
    output::{
        table::Column::{Figure, Name, State, Text},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// Show the delivery state of a message for each recipient
///
/// States: pending (waiting), leased (shown to a turn in progress), acted (a turn that was shown it succeeded), dead
/// (attempts used up), dropped (given up, with a reason).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker receipts 12 @review:pr-123")]
pub(crate) struct Args {
    /// Number of the message, as printed by `peek`
    #[arg(value_name = "NUMBER", value_parser = parse_seq)]
    seq: Seq,
    /// Channel: `@workflow:tag`, or one of its agents
    target: Option<Target>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Parses a message's number as it is displayed: `12` or `#12`.
pub(super) fn parse_seq(text: &str) -> Result<Seq, String> {
    argument_values::parse_positive_number(text)
        .map(Seq::new)
        .ok_or_else(|| "a message's number is a whole number from 1, as `peek` shows it".into())
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let scope = ctx.scope(args.target, ScopeReach::CurrentProject);
    resolve_run::require_agent_exists(&client, &scope).await?;
    let reply = client.receipts(&scope, args.seq).await?;
    match args.output.format() {
        Format::Json => ctx.console.print_json(&reply)?,
        Format::Text if reply.receipts.is_empty() => {
            ctx.console.note(&format!("#{} has no recipients", args.seq))?;
        }
        Format::Text => show(&reply.receipts, ctx)?,
    }
    Ok(RunVerdict::Done)
}

/// Prints receipts as a table.
pub(super) fn show(receipts: &[Receipt], ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let row = |receipt: &Receipt| {
        let more = receipt.why.as_deref().or(receipt.answer.as_deref()).unwrap_or_default();
        [
            format!("#{}", receipt.seq),
            receipt.agent.to_string(),
            receipt.state.to_string(),
            receipt.failures.to_string(),
            one_line(more),
        ]
    };
    let rows: Vec<_> = receipts.iter().map(row).collect();
    ctx.console.print_table(
        [Name("MESSAGE"), Name("AGENT"), State("STATE"), Figure("FAILURES"), Text("WHY OR ANSWER")],
        &rows,
    )
}
