//! `agent-worker schema`: the workflow file as a JSON Schema, for editors.

use crate::{
    context::{Context, Format, Output},
    error::CliError,
    line::Line,
    verdict::Verdict,
};

/// Print the JSON Schema of a workflow file
///
/// With it an editor completes keys and underlines mistakes as they are typed. Save it, and let the first line of a
/// workflow name it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  agent-worker schema > ~/.agent-worker.schema.json
  # yaml-language-server: $schema=/home/you/.agent-worker.schema.json")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) output: Output,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let schema = agent_worker_workflow::schema();
    match args.output.format() {
        Format::Json => ctx.console.json(&schema)?,
        Format::Text => ctx.console.answer(&Line::plain(format!("{schema:#}")))?,
    }
    Ok(Verdict::Done)
}
