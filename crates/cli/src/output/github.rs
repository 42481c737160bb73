//! Output for GitHub Actions: annotations and the summary of a step, and the protection against workflow commands in the
//! text of others. [`GithubJob`] is the only part with I/O.
//!
//! The runner of GitHub obeys commands that it finds in the output of a step, such as `::add-mask::`. Invariant: while a
//! step runs, text reaches stdout and stderr through [`CommandGuard`](command_guard::CommandGuard). Our own commands go
//! around it, and their values are escaped.

pub(crate) mod annotation;
pub(crate) mod command_guard;
mod summary;

use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use agent_worker_protocol::api::RunReport;
use agent_worker_workflow as workflow;

use self::annotation::{Annotation, Severity, report_annotations};
use crate::{
    error::{CliError, CliErrorKind},
    input::settings::CliSettings,
    output::console::Console,
};

/// Maximum number of annotations of one severity that GitHub shows for a step.
const MAX_ANNOTATIONS: usize = 10;

/// The step of a GitHub job in which the command runs.
#[derive(Debug)]
pub(crate) struct GithubJob {
    /// Folder of the checkout; annotations name files relative to it.
    workspace: Option<PathBuf>,
    /// File to which the step adds its summary.
    summary: Option<PathBuf>,
}

impl GithubJob {
    /// Returns the step that runs the command, if one does.
    pub(crate) fn detect(settings: &CliSettings) -> Option<Self> {
        let set = |name: &str| settings.env.get(name).filter(|value| !value.is_empty());
        set("GITHUB_ACTIONS").filter(|value| *value == "true")?;
        let workspace = set("GITHUB_WORKSPACE").map(PathBuf::from);
        Some(Self {
            // The paths of runs are canonical.
            workspace: workspace.map(|folder| folder.canonicalize().unwrap_or(folder)),
            summary: set("GITHUB_STEP_SUMMARY").map(PathBuf::from),
        })
    }

    /// Annotates the outcome of a run, and adds the run to the summary of the step.
    pub(crate) fn report_run(
        &self,
        report: &RunReport,
        file: Option<&Path>,
        console: &mut Console,
    ) -> Result<(), CliError> {
        let file = file.map(|file| self.relative(file));
        print_annotations(&report_annotations(report, file.as_deref()), console)?;
        let Some(path) = &self.summary else { return Ok(()) };
        match append(path, &summary::markdown(report)) {
            Ok(()) => Ok(()),
            Err(error) => console.warn(&format!(
                "could not write the summary of the step to {}: {error}",
                path.display()
            )),
        }
    }

    /// Annotates a failure of a command; the mistakes of a workflow file at their lines.
    pub(crate) fn report_error(
        &self,
        error: &CliError,
        console: &mut Console,
    ) -> Result<(), CliError> {
        if error.kind() == CliErrorKind::OutputClosed {
            return Ok(());
        }
        let body = error.to_report_error();
        let general = Annotation::new(Severity::Error, "agent-worker", &body.message);
        let mistakes = error.workflow_error().map(workflow::Error::mistakes).unwrap_or_default();
        let path = error.workflow_error().and_then(workflow::Error::path);
        let found: Vec<Annotation> = match path {
            None => vec![general],
            Some(path) if mistakes.is_empty() => vec![general.in_file(&self.relative(path))],
            Some(path) => {
                let file = self.relative(path);
                let at = |mistake: &workflow::Mistake| {
                    let hint = mistake.hint.as_ref().map(|hint| format!("\nhint: {hint}"));
                    let message = format!("{}{}", mistake.message, hint.unwrap_or_default());
                    Annotation::new(Severity::Error, "agent-worker", &message)
                        .in_file(&file)
                        .at(mistake.line, mistake.column)
                };
                mistakes.iter().map(at).collect()
            }
        };
        print_annotations(&found, console)
    }

    /// Annotates a property of a workflow file that is probably a mistake.
    pub(crate) fn report_warning(
        &self,
        file: &Path,
        message: &str,
        console: &mut Console,
    ) -> Result<(), CliError> {
        let warning = Annotation::new(Severity::Warning, "agent-worker", message);
        print_annotations(&[warning.in_file(&self.relative(file))], console)
    }

    /// Returns the path of a file as GitHub names it.
    fn relative(&self, file: &Path) -> PathBuf {
        let beneath = self.workspace.as_ref().and_then(|folder| file.strip_prefix(folder).ok());
        beneath.unwrap_or(file).to_owned()
    }
}

/// Prints the annotations that GitHub shows; it ignores the others.
fn print_annotations(found: &[Annotation], console: &mut Console) -> Result<(), CliError> {
    for severity in [Severity::Error, Severity::Warning] {
        let shown = found.iter().filter(|one| one.severity() == severity).take(MAX_ANNOTATIONS);
        for one in shown {
            console.print_workflow_command(&one.command())?;
        }
    }
    Ok(())
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    File::options().append(true).create(true).open(path)?.write_all(text.as_bytes())
}
