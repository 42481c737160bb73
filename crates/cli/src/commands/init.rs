//! `agent-worker init`: writes a commented workflow file that runs as it is.

mod preset;

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use agent_worker_backends::find_backend;
use agent_worker_host::find_program;
use agent_worker_protocol::{BadName, WorkflowName};
use agent_worker_workflow::AgentProblem;
use serde_json::json;

use self::preset::{Choice, Preset, Program, choose};
use crate::{
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        settings::CliSettings,
    },
    output::{styled_line::StyledLine, text::one_line, verdict::RunVerdict},
    programs::check::check_team,
};

/// Write a commented workflow file that runs as it is
///
/// Without a flag the agents are those of an installed program: Claude Code, else Codex, else Gemini CLI; without any, they
/// follow a script and need no key. --review, --office and --ci use the same program. The command asks no questions, and overwrites
/// a file only with --force.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker init team.yaml
  agent-worker init --review
  agent-worker init --ci .github/review.yaml")]
pub(crate) struct Args {
    /// Path of the new file [default: team.yaml; review.yaml, office.yaml or ci.yaml with that flag]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    preset: PresetArgs,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The flags of the presets, of which one may be given.
#[derive(Clone, Copy, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
struct PresetArgs {
    /// Two agents of Claude Code, one of which checks the other
    #[arg(long, group = "preset", help_heading = "Presets")]
    claude: bool,
    /// The same with Codex
    #[arg(long, group = "preset", help_heading = "Presets")]
    codex: bool,
    /// The same with Gemini CLI
    #[arg(long, group = "preset", help_heading = "Presets")]
    gemini: bool,
    /// A team that reviews your changes
    #[arg(long, group = "preset", help_heading = "Presets")]
    review: bool,
    /// A standing team that takes requests and keeps documents
    #[arg(long, group = "preset", help_heading = "Presets")]
    office: bool,
    /// A review for a CI service, which asks no person
    #[arg(long, group = "preset", help_heading = "Presets")]
    ci: bool,
    /// Scripted agents, which need no program and no key
    #[arg(long, group = "preset", help_heading = "Presets")]
    mock: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let choice = choose(args.preset.requested(), &installed_programs(ctx.settings));
    let file = args.file.clone().unwrap_or_else(|| choice.preset.default_file().into());
    let path = ctx.settings.cwd.join(&file);
    let shown = one_line(&file.to_string_lossy());
    let text = choice.text(&shown);
    let workflow = workflow_name(&path, &shown)?;
    let written = if args.force { overwrite(&path, &text) } else { write_new(&path, &text) };
    written.map_err(|error| write_error(&error, &shown))?;
    match args.output.format() {
        Format::Json => {
            let Choice { preset, program, reason } = &choice;
            let (preset, backend) = (preset.word(), program.map_or("mock", Program::backend));
            ctx.console.print_json(&json!({
                "file": path, "workflow": workflow, "preset": preset, "backend": backend, "reason": reason,
            }))?;
        }
        Format::Text => {
            ctx.console.print_line(&StyledLine::plain(shown.as_str()))?;
            ctx.console.note(&choice.reason)?;
            if let Some(problem) = program_problem(&path, ctx) {
                ctx.console.warn(&problem.message)?;
                ctx.console.hint(&problem.hint)?;
            }
            ctx.console.hint(&format!("try it: {}", choice.preset.command(&shown)))?;
        }
    }
    Ok(RunVerdict::Done)
}

impl PresetArgs {
    fn requested(self) -> Option<Preset> {
        let flags = [
            (self.claude, Preset::Pair(Program::Claude)),
            (self.codex, Preset::Pair(Program::Codex)),
            (self.gemini, Preset::Pair(Program::Gemini)),
            (self.review, Preset::Review),
            (self.office, Preset::Office),
            (self.ci, Preset::Ci),
            (self.mock, Preset::Mock),
        ];
        flags.into_iter().find(|(is_given, _)| *is_given).map(|(_, preset)| preset)
    }
}

/// Returns the programs that are installed.
fn installed_programs(settings: &CliSettings) -> Vec<Program> {
    let path = settings.env.get("PATH").map(String::as_str).unwrap_or_default();
    let is_installed = |program: &Program| {
        let names = find_backend(program.backend()).map_or(&[][..], |spec| spec.programs);
        names.iter().any(|name| find_program(name, &settings.cwd, path).is_ok())
    };
    Program::ALL.into_iter().filter(is_installed).collect()
}

/// Returns the problem of the program of the new file. All of its agents have the same program.
fn program_problem(path: &Path, ctx: &CommandContext<'_>) -> Option<AgentProblem> {
    let workflow = agent_worker_workflow::load(path).ok()?;
    let folder = path.parent().unwrap_or(&ctx.settings.cwd);
    let mut problems = check_team(&workflow, folder, &ctx.settings.cwd, ctx.settings);
    problems.drain(..).next().map(|(problem, _)| problem)
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
