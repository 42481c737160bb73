//! `agent-worker man`: the manual, one page per command.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap_mangen::Man;

use crate::{
    error::{CliError, CliErrorKind},
    input::{context::CommandContext, invocation},
    output::{text::pluralize, verdict::RunVerdict},
};

/// Print the manual page, or write all pages to a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker man | man -l -
  agent-worker man ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Folder for the pages [default: print to stdout]
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let grammar = invocation::full_clap_command();
    match &args.folder {
        None => {
            let mut page = Vec::new();
            let rendered = Man::new(grammar).render(&mut page);
            rendered.map_err(CliError::print_failed)?;
            ctx.console.print_raw(&String::from_utf8_lossy(&page))?;
        }
        Some(folder) => {
            let written = write(grammar, &ctx.settings.cwd.join(folder)).map_err(|error| {
                let what = format!("could not write the pages to {}", folder.display());
                CliError::with_source(CliErrorKind::Failed, what, error)
            })?;
            ctx.console.note(&format!(
                "{} in {}; with that folder's parent in MANPATH, `man agent-worker` finds them",
                pluralize(written, "page"),
                folder.display()
            ))?;
        }
    }
    Ok(RunVerdict::Done)
}

fn write(grammar: clap::Command, folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(grammar, folder)?;
    let names = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.file_name()));
    Ok(names.filter(|name| name.to_string_lossy().starts_with("agent-worker")).count())
}
