//! `agent-worker new`: adds an agent, standalone or to a live run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use agent_worker_backends::{backend_programs, find_backend, takes_variable};
use agent_worker_host::DialError;
use agent_worker_protocol::{
    AgentName, AgentSettings, BASE_ENV, InstanceRef, MockRule, RunDefaults, Tag, Target,
    api::{AgentRequest, AgentView},
};
use agent_worker_workflow::{self as workflow, AgentDraft};
use uuid::Uuid;

use crate::{
    client::launch::{load_workflow, resolve_workflow_file},
    error::{CliError, CliErrorKind},
    input::{
        config_file::ConfigFile,
        context::{CommandContext, Format, OutputArgs},
        settings::CliSettings,
    },
    output::{styled_line::StyledLine, verdict::RunVerdict},
    programs::check::{AgentFolders, ProgramProblem, check_agent, check_presence},
};

const EXAMPLE: &str = "such as: agent-worker new -b mock --say \"Hello.\"";

/// Add an agent, standalone or to a live run
///
/// The command prints the name of the agent; without NAME it is the first free one of a0, a1, …. The agent stays until `agent end`,
/// and messages wake it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker new parrot -b mock --say \"Polly.\"
  agent-worker new helper --instance research -b claude
  agent-worker new -b command --command './agent.py --fast'
  agent-worker new judge@review:pr-123 -b mock --mock '[{ on: guilty, say: No. }, { say: Yes. }]'
  agent-worker new -b mock -f prompts/helper.md --mock script.yaml")]
pub(crate) struct Args {
    /// Name and instance: `name`, `name@workflow:tag` or `@workflow:tag`
    #[arg(value_name = "NAME")]
    name: Option<Target>,
    /// Name of the model
    #[arg(long, short, value_name = "MODEL", help_heading = "Backend")]
    model: Option<String>,
    /// Backend: a program such as `claude`, or `mock`
    #[arg(long, short, value_name = "BACKEND", help_heading = "Backend")]
    backend: Option<String>,
    /// Program of the agent, with its arguments
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true, help_heading = "Backend")]
    command: Option<String>,
    /// Known agent of the backend `acp`, such as `gemini`
    #[arg(long, value_name = "AGENT", help_heading = "Backend")]
    agent: Option<String>,
    /// File with the system prompt
    #[arg(
        long,
        short = 'f',
        value_name = "FILE",
        conflicts_with = "system",
        help_heading = "Prompt"
    )]
    prompt_file: Option<PathBuf>,
    /// Text of the system prompt
    #[arg(
        long,
        short,
        value_name = "TEXT",
        visible_alias = "system-prompt",
        allow_hyphen_values = true,
        help_heading = "Prompt"
    )]
    system: Option<String>,
    /// Answer of a mock agent to every message
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "mock",
        allow_hyphen_values = true,
        help_heading = "Backend"
    )]
    say: Option<String>,
    /// Script of a mock agent, as in `mock:` of a workflow: a file or the list itself
    #[arg(long, value_name = "FILE|RULES", allow_hyphen_values = true, help_heading = "Backend")]
    mock: Option<String>,
    /// Workflow to join: `name` or `name:tag`; must have a live run
    #[arg(long, value_name = "WORKFLOW", help_heading = "Instance")]
    workflow: Option<InstanceRef>,
    /// Tag of the instance, such as `pr-123`; without a workflow, creates the instance if it does not exist
    #[arg(long, visible_alias = "instance", value_name = "TAG", help_heading = "Instance")]
    tag: Option<Tag>,
    /// Workflow file of the team to join. Without FILE it has no effect: every agent already has a channel and documents
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        conflicts_with = "workflow",
        help_heading = "Instance"
    )]
    #[expect(clippy::option_option, reason = "the option may be given without its value")]
    context: Option<Option<PathBuf>>,
    /// Create the agent although its program is missing or logged out
    #[arg(long)]
    allow_missing: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl Args {
    /// Sets the name if the arguments have none.
    pub(super) fn with_name(self, name: Option<Target>) -> Self {
        Self { name: self.name.or(name), ..self }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    let allow_missing = args.allow_missing;
    let (request, settings) = request(args, ctx.settings)?;
    if let Some(problem) = find_problem(&request, &settings, ctx.settings) {
        if !allow_missing {
            let hint = format!("{}; or create the agent anyway: --allow-missing", problem.hint);
            return Err(
                CliError::new(CliErrorKind::UnusableProgram, problem.message).with_hint(hint)
            );
        }
        if format == Format::Text {
            ctx.console.warn(&problem.message)?;
            ctx.console.hint(&problem.hint)?;
        }
    }
    let agent = create_agent(&request, ctx).await?;
    let target = Target::agent(agent.name.clone(), &agent.instance);
    match format {
        Format::Json => ctx.console.print_json(&agent)?,
        Format::Text => {
            ctx.console.print_line(&StyledLine::plain(target.to_string()))?;
            ctx.console.hint(&format!("ask it something: agent-worker ask {target} \"…\""))?;
        }
    }
    Ok(RunVerdict::Done)
}

/// Checks the program of the agent. An agent that joins a run may get the key of the run, and its relative program and `PATH`
/// start at the folder of the run, which are not known here.
fn find_problem(
    request: &AgentRequest,
    agent: &AgentSettings,
    settings: &CliSettings,
) -> Option<ProgramProblem> {
    let folder = request.project.as_ref().unwrap_or(&settings.cwd);
    let folders = AgentFolders { programs: folder, work: folder };
    if request.target.is_none() || request.create_instance {
        return check_agent(agent, folders, settings);
    }
    let is_relative = |name: &&str| name.contains('/') && !name.starts_with('/');
    let has_relative = backend_programs(&agent.backend).iter().any(is_relative);
    let is_known = !has_relative && settings.env.contains_key("PATH");
    is_known.then(|| check_presence(&agent.backend, folders, settings)).flatten()
}

/// Requests the agent; repeats a lost request with the same key, which creates only one agent.
async fn create_agent(
    request: &AgentRequest,
    ctx: &CommandContext<'_>,
) -> Result<AgentView, CliError> {
    let key = Uuid::now_v7().to_string();
    let client = match request.target {
        Some(_) if !request.create_instance => ctx.connect_existing().await?,
        Some(_) | None => ctx.connect_or_start().await?,
    };
    match client.agent_create(&key, request).await {
        Err(DialError::Lost { .. }) => {
            Ok(ctx.connect_or_start().await?.agent_create(&key, request).await?)
        }
        other => Ok(other?),
    }
}

/// Builds the request and its settings; reports errors in it before a daemon is started for it.
fn request(args: Args, settings: &CliSettings) -> Result<(AgentRequest, AgentSettings), CliError> {
    let config = ConfigFile::read(settings)?;
    let mock = load_mock_rules(args.say, args.mock, &settings.cwd)?;
    let system = match args.prompt_file {
        Some(file) => Some(read_text_file(&settings.cwd.join(&file), &file)?),
        None => args.system,
    };
    let (workflow, project) = match args.context.flatten() {
        Some(file) => {
            let (instance, folder) = instance_of_file(&file, &settings.cwd, &config)?;
            (Some(instance), folder)
        }
        None => (args.workflow, settings.cwd.clone()),
    };
    let is_tag_alone = args.tag.is_some() && workflow.is_none();
    let (name, target) = resolve_name_and_instance(args.name, workflow, args.tag)?;
    let create_instance = is_tag_alone && target.as_ref().is_some_and(|it| it.tag.is_none());
    let command = args.command.map(|text| split_command(&text)).transpose()?.unwrap_or_default();
    let implied = match (mock.is_empty(), command.is_empty()) {
        (true, true) => ImpliedBackend::None,
        (_, _) => ImpliedBackend::Some,
    };
    let chosen = (args.backend, args.model);
    let (backend, model) = choose_backend(chosen, implied, &config.content.defaults);
    let has_backend = backend.is_some() || model.is_some() || !command.is_empty();
    if name.is_none() && !has_backend && mock.is_empty() {
        let message =
            format!("an agent needs a backend: {}", agent_worker_workflow::NO_DEFAULT_BACKEND);
        return Err(CliError::new(CliErrorKind::Usage, message)
            .with_hint(format!("{}, {EXAMPLE}", agent_worker_workflow::backend_choice())));
    }
    let agent = validate_draft(AgentDraft {
        name: name.clone().map_or_else(first_free_name, Ok)?,
        backend: backend.clone(),
        model: model.clone(),
        system_prompt: None,
        mock: mock.clone(),
        agent: args.agent.clone(),
        command: command.clone(),
        cwd: None,
    })?;
    let env = settings.filtered_env(|name| {
        BASE_ENV.contains(&name) || takes_variable(&agent.backend, name, &settings.env)
    });
    let request = AgentRequest {
        name,
        backend,
        model,
        system,
        mock,
        agent: args.agent,
        command,
        target,
        create_instance,
        project: Some(project),
        connection_folder: None,
        cwd: None,
        env,
    };
    Ok((request, agent))
}

/// The backend that arguments other than `--backend` and `--model` imply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImpliedBackend {
    /// No argument implies one.
    None,
    /// A script or a command implies one.
    Some,
}

/// Completes the backend and the model of the arguments with the defaults of the user.
fn choose_backend(
    (backend, model): (Option<String>, Option<String>),
    implied: ImpliedBackend,
    defaults: &RunDefaults,
) -> (Option<String>, Option<String>) {
    let is_open = model.is_none() && implied == ImpliedBackend::None;
    let backend = backend.or_else(|| defaults.backend.clone().filter(|_| is_open));
    let spec = backend.as_deref().and_then(find_backend);
    let of_backend = spec.and_then(|spec| defaults.models.get(spec.name).cloned());
    (backend, model.or(of_backend))
}

/// Returns the instance of a workflow file and the folder of the file, which identifies its project.
fn instance_of_file(
    typed: &Path,
    cwd: &Path,
    config: &ConfigFile,
) -> Result<(InstanceRef, PathBuf), CliError> {
    let file = resolve_workflow_file(cwd, typed)?;
    let workflow = load_workflow(&file, typed, config)?;
    let folder = file.parent().unwrap_or(cwd).to_owned();
    Ok((InstanceRef { name: workflow.name, tag: Tag::default() }, folder))
}

/// Splits a command into words at blanks; quotes keep a word together.
fn split_command(text: &str) -> Result<Vec<String>, CliError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (Some(_) | None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    match (quote, words.is_empty()) {
        (None, false) => Ok(words),
        (Some(open), _) => {
            Err(CliError::new(CliErrorKind::Usage, format!("the command has an open {open}")))
        }
        (None, true) => Err(CliError::new(CliErrorKind::Usage, "the command is empty")),
    }
}

/// Resolves the name and the instance to join. `judge@review` and `judge --workflow review` are equivalent; a tag alone
/// is the instance that has it.
fn resolve_name_and_instance(
    name: Option<Target>,
    workflow: Option<InstanceRef>,
    tag: Option<Tag>,
) -> Result<(Option<AgentName>, Option<Target>), CliError> {
    let twice = || {
        CliError::new(CliErrorKind::Usage, "the workflow or tag to join is given twice")
            .with_hint("give it once: agent-worker new name@workflow:tag")
    };
    let (agent, mut joins) = match name {
        Some(Target { agent, workflow: Some(name), tag }) => {
            (agent, Some(Target { agent: None, workflow: Some(name), tag }))
        }
        Some(Target { agent, .. }) => (agent, None),
        None => (None, None),
    };
    if let Some(instance) = workflow {
        let tag = Some(instance.tag).filter(|tag| *tag != Tag::default());
        let named = Target { agent: None, workflow: Some(instance.name), tag };
        if joins.replace(named).is_some() {
            return Err(twice());
        }
    }
    match (&mut joins, tag) {
        (_, None) => {}
        (Some(Target { tag: place @ None, .. }), Some(tag)) => *place = Some(tag),
        (Some(_), Some(_)) => return Err(twice()),
        (None, Some(tag)) => {
            let instance = format!("@{tag}").parse();
            joins = Some(instance.map_err(|bad| CliError::new(CliErrorKind::Usage, bad))?);
        }
    }
    Ok((agent, joins))
}

fn first_free_name() -> Result<AgentName, CliError> {
    "a0".parse().map_err(|bad| CliError::new(CliErrorKind::Usage, bad))
}

fn validate_draft(draft: AgentDraft) -> Result<AgentSettings, CliError> {
    let backend = draft.backend.clone();
    draft.into_settings().map_err(|bad| {
        let hint = match (backend.as_deref(), bad.message.contains("command")) {
            _ if bad.hint.contains("this version has") => format!("{}, {EXAMPLE}", bad.hint),
            (Some("command"), true) => "add it: --command './agent.py --fast'".to_owned(),
            (Some("mock"), true) => "omit --command, or use `-b command`".to_owned(),
            _ => bad.hint,
        };
        CliError::new(CliErrorKind::Usage, bad.message).with_hint(hint)
    })
}

/// Loads the script: one answer to everything, a list, or a file with a list.
fn load_mock_rules(
    say: Option<String>,
    mock: Option<String>,
    cwd: &Path,
) -> Result<Vec<MockRule>, CliError> {
    let always = say.map(|say| MockRule { say: Some(say), ..MockRule::default() });
    let Some(mock) = mock else { return Ok(always.into_iter().collect()) };
    // A list begins with a bracket or a dash, which no usual file name does.
    if mock.trim_start().starts_with(['[', '-']) {
        return Ok(workflow::parse_mock_script(&mock, Path::new("--mock"))?);
    }
    let file = Path::new(&mock);
    Ok(workflow::parse_mock_script(&read_text_file(&cwd.join(file), file)?, file)?)
}

fn read_text_file(path: &Path, shown: &Path) -> Result<String, CliError> {
    fs::read_to_string(path).map_err(|error| {
        CliError::with_source(
            CliErrorKind::Usage,
            format!("cannot read {}", shown.display()),
            error,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_user_fill_what_the_arguments_leave_open() {
        let defaults = RunDefaults {
            backend: Some("claude".to_owned()),
            models: [("claude".to_owned(), "opus".to_owned())].into(),
            ..RunDefaults::default()
        };
        for (backend, model, implied, expected) in [
            (None, None, ImpliedBackend::None, (Some("claude"), Some("opus"))),
            (None, None, ImpliedBackend::Some, (None, None)),
            (Some("codex"), None, ImpliedBackend::None, (Some("codex"), None)),
            (Some("claude"), Some("haiku"), ImpliedBackend::None, (Some("claude"), Some("haiku"))),
            (None, Some("gemini/pro"), ImpliedBackend::None, (None, Some("gemini/pro"))),
        ] {
            let typed = (backend.map(str::to_owned), model.map(str::to_owned));
            let (backend, model) = choose_backend(typed, implied, &defaults);
            assert_eq!((backend.as_deref(), model.as_deref()), expected);
        }
    }

    #[test]
    fn a_command_is_split_at_blanks_outside_quotes() {
        for (text, expected) in [
            ("./agent.py", Some(vec!["./agent.py"])),
            ("  a  b ", Some(vec!["a", "b"])),
            ("a 'b c' \"d 'e\" f''", Some(vec!["a", "b c", "d 'e", "f"])),
            ("a ''", Some(vec!["a", ""])),
            ("a 'b", None),
            (" ", None),
        ] {
            let words = split_command(text).ok();
            let expected =
                expected.map(|words| words.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(words, expected, "{text}");
        }
    }

    #[test]
    fn a_name_and_a_place_are_read_in_every_spelling() {
        for (name, workflow, tag, expected) in [
            (None, None, None, Some((None, None))),
            (Some("judge"), None, None, Some((Some("judge"), None))),
            (Some("judge@review:x"), None, None, Some((Some("judge"), Some("@review:x")))),
            (Some("@review"), None, None, Some((None, Some("@review")))),
            (Some("judge"), Some("review"), None, Some((Some("judge"), Some("@review")))),
            (None, Some("review:x"), None, Some((None, Some("@review:x")))),
            (None, Some("review"), Some("x"), Some((None, Some("@review:x")))),
            (Some("judge@review"), None, Some("x"), Some((Some("judge"), Some("@review:x")))),
            (None, None, Some("x"), Some((None, Some("@x")))),
            (Some("judge@review"), Some("review"), None, None),
            (None, Some("review:x"), Some("y"), None),
        ] {
            let parsed = resolve_name_and_instance(
                name.map(|text| text.parse().unwrap()),
                workflow.map(|text| text.parse().unwrap()),
                tag.map(|text| text.parse().unwrap()),
            );
            let parsed = parsed.ok().map(|(name, place)| {
                (name.map(|name| name.to_string()), place.map(|place| place.to_string()))
            });
            let expected = expected.map(|(name, place): (Option<&str>, Option<&str>)| {
                (name.map(str::to_owned), place.map(str::to_owned))
            });
            assert_eq!(parsed, expected, "{name:?} {workflow:?} {tag:?}");
        }
    }
}
