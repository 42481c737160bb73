//! `agent-worker providers`: which model providers there are.

use serde_json::json;

use crate::{
    context::{Context, Format, Output},
    error::CliError,
    verdict::Verdict,
};

/// List the model providers that can be used
///
/// This version has none: the programs that its agents run ask their own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker providers --json")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    match args.output.format() {
        Format::Json => ctx.console.json(&json!([])),
        Format::Text => ctx.console.note(
            "this version asks no provider itself: the programs that its agents run do, with their own logins or keys",
        ),
    }?;
    Ok(Verdict::Done)
}
