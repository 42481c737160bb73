//! `agent-worker receipts`: prints the delivery state of a message for each recipient.

use agent_worker_protocol::{Receipt, Seq};

use crate::{
    client::daemon_client::ScopeReach,
    error::CliError,
    input::{
        argument_values,
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        table::Column::{Figure, Name, State, Text},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// Show the delivery state of a message for each recipient
///
/// States: pending (waiting), leased (shown to a turn in progress), acted (a turn received it and succeeded), dead
/// (attempts used up), dropped (given up, with a reason).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker receipts 12 @review:pr-123")]
pub(crate) struct Args {
    /// Number of the message, as printed by `peek`
    #[arg(value_name = "NUMBER", value_parser = parse_seq)]
    seq: Seq,
    #[command(flatten)]
    target: TargetArgs,
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
    let target = args.target.or_selected(TargetEffect::Read, ctx)?;
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    let format = args.output.format();
    let scope = match &scope.target {
        // The daemon prefers live runs, also those of other folders.
        Some(_) => {
            resolve_run::require_agent_exists(&client, &scope).await?;
            scope
        }
        None => resolve_run::readable_scope(&client, &scope, format, ctx).await?,
    };
    let receipts = client.receipts(&scope, args.seq).await?;
    match format {
        Format::Json => ctx.console.print_json_list(&receipts)?,
        Format::Text if receipts.is_empty() => {
            ctx.console.note(&format!("#{} has no recipients", args.seq))?;
        }
        Format::Text => show(&receipts, ctx)?,
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
