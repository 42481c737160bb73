//! `agent-worker providers`: lists the model providers.

use serde_json::Value;

use crate::{
    error::CliError,
    input::context::{CommandContext, Format, OutputArgs},
    output::verdict::RunVerdict,
};

/// List model providers
///
/// This version calls no provider; each agent's program uses its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker providers --json")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    match args.output.format() {
        Format::Json => ctx.console.print_json_list::<Value>(&[]),
        Format::Text => ctx.console.note(
            "this version calls no provider; each agent's program uses its own, with its own login or key",
        ),
    }?;
    Ok(RunVerdict::Done)
}
