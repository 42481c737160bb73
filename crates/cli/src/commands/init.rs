//! `agent-worker init`: writes a commented workflow file that runs as it is.

mod preset;

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use agent_worker_backends::{ApiModel, api_model, find_backend, find_provider};
use agent_worker_host::find_program;
use agent_worker_models::{ProviderEndpoint, ProviderOverrides};
use agent_worker_protocol::{BadName, WorkflowName};
use agent_worker_workflow::AgentProblem;
use serde_json::json;

use self::preset::{ModelChoice, Preset, Program, choose};
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
/// call the API of the first provider that has a key in the environment; without a key, they follow a script. --review,
/// --office and --ci use a program. The command asks no questions, and overwrites a file only with --force.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker init team.yaml
  agent-worker init --review
  agent-worker init --api --model groq/MODEL
  agent-worker init --ci .github/review.yaml")]
pub(crate) struct Args {
    /// Path of the new file [default: team.yaml; review.yaml, office.yaml or ci.yaml with that flag]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    preset: PresetArgs,
    /// Model of the agents of --api, as PROVIDER/MODEL [default: one of the first provider with a key]
    #[arg(long, short = 'm', value_name = "MODEL", requires = "api")]
    model: Option<String>,
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
    /// The same with the API of a model, which needs a key and no program
    #[arg(long, group = "preset", help_heading = "Presets")]
    api: bool,
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
    let model = choose_model(args.model.as_deref(), ctx.settings)?;
    let choice = choose(args.preset.requested(), &installed_programs(ctx.settings), &model);
    let file = args.file.clone().unwrap_or_else(|| choice.preset.default_file().into());
    let path = ctx.settings.cwd.join(&file);
    let shown = one_line(&file.to_string_lossy());
    let text = choice.text(&shown);
    let workflow = workflow_name(&path, &shown)?;
    let written = if args.force { overwrite(&path, &text) } else { write_new(&path, &text) };
    written.map_err(|error| write_error(&error, &shown))?;
    match args.output.format() {
        Format::Json => {
            let (preset, backend) = (choice.preset.word(), choice.backend());
            let reason = &choice.reason;
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
            (self.api, Preset::Api),
            (self.review, Preset::Review),
            (self.office, Preset::Office),
            (self.ci, Preset::Ci),
            (self.mock, Preset::Mock),
        ];
        flags.into_iter().find(|(is_given, _)| *is_given).map(|(_, preset)| preset)
    }
}

/// Models of `--api`, the first choice first.
const MODELS: [&str; 3] =
    ["anthropic/claude-sonnet-5-5", "openai/gpt-6.1-sol", "google/gemini-3.5-flash"];

/// Returns the model that was named, else one of the first provider that can be called.
fn choose_model(named: Option<&str>, settings: &CliSettings) -> Result<ModelChoice, CliError> {
    if let Some(named) = named {
        let ApiModel { provider, model } = api_model(None, named).ok_or_else(|| {
            let message = format!("the provider of the model `{named}` is not known");
            let hint = "name it as PROVIDER/MODEL; see agent-worker providers";
            CliError::new(CliErrorKind::Usage, message).with_hint(hint)
        })?;
        return Ok(model_choice(&format!("{provider}/{model}"), &provider, settings));
    }
    let provider_of = |model: &'static str| model.split_once('/').map_or(model, |(name, _)| name);
    let mut choices =
        MODELS.into_iter().map(|model| model_choice(model, provider_of(model), settings));
    let usable = choices.clone().find(|choice| choice.is_usable);
    let first = usable.or_else(|| choices.next());
    first.ok_or_else(|| CliError::new(CliErrorKind::Failed, "no model is known"))
}

/// Returns the facts about a model in this environment.
fn model_choice(model: &str, provider: &str, settings: &CliSettings) -> ModelChoice {
    let is_set = |name: &&&str| settings.env.get(**name).is_some_and(|value| !value.is_empty());
    let names = find_provider(provider).map_or(&[][..], |row| row.key_variables);
    let usual = provider.to_ascii_uppercase();
    let own = names.iter().find(|name| name.starts_with(&usual)).or(names.first());
    let set = names.iter().find(is_set);
    let variable = set.or(own).copied().unwrap_or_default().to_owned();
    let found = ProviderEndpoint::resolve(provider, &ProviderOverrides::default(), &settings.env);
    let why = match (set, &found) {
        (Some(name), Ok(_)) => format!("{name} is set"),
        (None, Ok(_)) => "its server needs no key".to_owned(),
        (Some(_), Err(error)) => error.to_string(),
        (None, Err(_)) => format!("{variable} is not set"),
    };
    ModelChoice { model: model.to_owned(), variable, why, is_usable: found.is_ok() }
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
