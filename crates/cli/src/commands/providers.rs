//! `agent-worker providers`: which model providers there are.

use serde_json::json;

use crate::{
    context::{Context, Format, Output},
    error::CliError,
    verdict::Verdict,
};

/// List the model providers that can be used
///
/// This version has none: its agents follow scripts and ask no model.
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
            "this version has no model providers: its agents follow scripts (`backend: mock`), ask no model, and need no key",
        ),
    }?;
    Ok(Verdict::Done)
}
