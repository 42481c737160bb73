//! `agent-worker providers`: lists the model providers.

use serde_json::json;

use crate::{
    error::CliError,
    input::context::{CommandContext, Format, OutputArgs},
    output::verdict::RunVerdict,
};

/// List model providers
///
/// This version has none: the programs that its agents run use their own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker providers --json")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    match args.output.format() {
        Format::Json => ctx.console.print_json(&json!([])),
        Format::Text => ctx.console.note(
            "this version calls no provider itself: the programs that its agents run call them, with their own logins or keys",
        ),
    }?;
    Ok(RunVerdict::Done)
}
