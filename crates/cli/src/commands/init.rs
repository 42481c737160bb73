//! `agent-worker init`: writes a commented workflow file that runs as it is.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use agent_worker_protocol::{BadName, WorkflowName};
use serde_json::json;

use crate::{
    error::{CliError, CliErrorKind},
    input::context::{CommandContext, Format, OutputArgs},
    output::{styled_line::StyledLine, text::one_line, verdict::RunVerdict},
};

const TEAM_TEMPLATE: &str = include_str!("team.yaml");

/// Write a commented workflow file that runs as it is
///
/// The command asks no questions, and overwrites a file only with --force.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker init review.yaml")]
pub(crate) struct Args {
    /// Path of the new file
    #[arg(value_name = "FILE", default_value = "team.yaml")]
    file: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let path = ctx.settings.cwd.join(&args.file);
    let shown = one_line(&args.file.to_string_lossy());
    let text = TEAM_TEMPLATE.replace("FILE", &shown);
    let workflow = workflow_name(&path, &shown)?;
    let written = if args.force { overwrite(&path, &text) } else { write_new(&path, &text) };
    written.map_err(|error| write_error(&error, &shown))?;
    match args.output.format() {
        Format::Json => {
            ctx.console.print_json(&json!({ "file": path, "workflow": workflow }))?;
        }
        Format::Text => {
            ctx.console.print_line(&StyledLine::plain(shown.as_str()))?;
            ctx.console.hint(&format!("try it: agent-worker run {shown}"))?;
        }
    }
    Ok(RunVerdict::Done)
}

/// Returns the workflow's name, which is that of the file and may be invalid.
fn workflow_name(path: &Path, shown: &str) -> Result<WorkflowName, CliError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.parse().map_err(|bad: BadName| {
        CliError::new(CliErrorKind::Usage, format!("a workflow is named after its file, and {bad}"))
            .with_hint(format!("choose another name than {shown}, such as team.yaml"))
    })
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text)
}

fn write_error(error: &io::Error, shown: &str) -> CliError {
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            CliError::new(CliErrorKind::Failed, format!("{shown} already exists")).with_hint(
                format!("choose another name, or overwrite it: agent-worker init {shown} --force"),
            )
        }
        _ => CliError::new(CliErrorKind::Failed, format!("could not write {shown}: {error}")),
    }
}
