//! `agent-worker schema`: the workflow file as a JSON Schema, for editors.

use crate::{
    error::CliError,
    input::context::{CommandContext, Format, OutputArgs},
    output::{styled_line::StyledLine, verdict::RunVerdict},
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
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let schema = agent_worker_workflow::schema();
    match args.output.format() {
        Format::Json => ctx.console.print_json(&schema)?,
        Format::Text => ctx.console.print_line(&StyledLine::plain(format!("{schema:#}")))?,
    }
    Ok(RunVerdict::Done)
}
