//! `agent-worker schema`: prints the JSON Schema of a workflow file, for editors.

use crate::{
    error::CliError,
    input::context::{CommandContext, Format, OutputArgs},
    output::{styled_line::StyledLine, verdict::RunVerdict},
};

/// Print the JSON Schema of a workflow file
///
/// With the schema an editor completes keys and marks mistakes while you type. Save it, and name it in the first line
/// of a workflow file.
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
