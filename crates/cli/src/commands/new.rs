//! `agent-worker new`: let an agent join, alone or in a team that runs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use agent_worker_backends::backend_variables;
use agent_worker_host::DialError;
use agent_worker_protocol::{
    AgentName, AgentSettings, BASE_ENV, InstanceRef, MockRule, Tag, Target,
    api::{AgentRequest, AgentView},
};
use agent_worker_workflow::{self as workflow, AgentDraft};
use uuid::Uuid;

use crate::{
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        settings::CliSettings,
    },
    output::{styled_line::StyledLine, verdict::RunVerdict},
};

const EXAMPLE: &str = "such as: agent-worker new -b mock --say \"Hello.\"";

/// Let an agent join, alone or in a team that runs
///
/// Prints what it is called: without a name the first of a0, a1, … that is free. It stays until `agent end`, and is
/// woken by what is sent to it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker new parrot -b mock --say \"Polly.\"
  agent-worker new judge@review:pr-123 -b mock --mock '[{ on: guilty, say: No. }, { say: Yes. }]'
  agent-worker new -b mock -f prompts/helper.md --mock script.yaml")]
pub(crate) struct Args {
    /// What it is called, and where it joins: `name`, `name@workflow:tag` or `@workflow:tag`
    #[arg(value_name = "NAME")]
    name: Option<Target>,
    /// The model it asks
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// How it reaches that: a program such as `claude`, or `mock`
    #[arg(long, short, value_name = "BACKEND")]
    backend: Option<String>,
    /// A file that says who it is
    #[arg(long, short = 'f', value_name = "FILE", conflicts_with = "system")]
    prompt_file: Option<PathBuf>,
    /// Who it is
    #[arg(
        long,
        short,
        value_name = "TEXT",
        visible_alias = "system-prompt",
        allow_hyphen_values = true
    )]
    system: Option<String>,
    /// What a mock agent answers to everything
    #[arg(long, value_name = "TEXT", conflicts_with = "mock", allow_hyphen_values = true)]
    say: Option<String>,
    /// The script of a mock agent, as behind `mock:` in a workflow: a file, or the list itself
    #[arg(long, value_name = "FILE|RULES", allow_hyphen_values = true)]
    mock: Option<String>,
    /// The workflow it joins, `name` or `name:tag`; it must run
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<InstanceRef>,
    /// Which instance of it, such as `pr-123`
    #[arg(long, visible_alias = "instance", value_name = "TAG")]
    tag: Option<Tag>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl Args {
    /// The same, with a name that was said elsewhere.
    pub(super) fn with_name(self, name: Option<Target>) -> Self {
        Self { name: self.name.or(name), ..self }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    let request = request(args, ctx.settings)?;
    let agent = create_agent(&request, ctx).await?;
    let target = Target::agent(agent.name.clone(), &agent.instance);
    match format {
        Format::Json => ctx.console.print_json(&agent)?,
        Format::Text => {
            ctx.console.print_line(&StyledLine::plain(target.to_string()))?;
            ctx.console.hint(&format!("say something to it: agent-worker ask {target} \"…\""))?;
        }
    }
    Ok(RunVerdict::Done)
}

/// Asks for it. When the answer was lost it is asked for again: the key makes that one agent.
async fn create_agent(
    request: &AgentRequest,
    ctx: &CommandContext<'_>,
) -> Result<AgentView, CliError> {
    let key = Uuid::now_v7().to_string();
    let client = match request.target {
        Some(_) => ctx.connect_existing().await?,
        None => ctx.connect_or_start().await?,
    };
    match client.agent_create(&key, request).await {
        Err(DialError::Lost { .. }) => {
            Ok(ctx.connect_or_start().await?.agent_create(&key, request).await?)
        }
        other => Ok(other?),
    }
}

/// What is asked for. What is wrong with it is said before a daemon is started for it.
fn request(args: Args, settings: &CliSettings) -> Result<AgentRequest, CliError> {
    let mock = load_mock_rules(args.say, args.mock, &settings.cwd)?;
    let system = match args.prompt_file {
        Some(file) => Some(read_text_file(&settings.cwd.join(&file), &file)?),
        None => args.system,
    };
    let (name, target) = resolve_name_and_instance(args.name, args.workflow, args.tag)?;
    if name.is_none() && args.backend.is_none() && args.model.is_none() && mock.is_empty() {
        return Err(CliError::new(CliErrorKind::Usage, "an agent needs a backend")
            .with_hint(format!("{}, {EXAMPLE}", agent_worker_workflow::backend_choice())));
    }
    let agent = validate_draft(AgentDraft {
        name: name.clone().map_or_else(first_free_name, Ok)?,
        backend: args.backend.clone(),
        model: args.model.clone(),
        system_prompt: None,
        mock: mock.clone(),
        cwd: None,
    })?;
    Ok(AgentRequest {
        name,
        backend: args.backend,
        model: args.model,
        system,
        mock,
        target,
        project: Some(settings.cwd.clone()),
        cwd: None,
        env: settings.filtered_env(|name| {
            BASE_ENV.contains(&name) || backend_variables(&agent.backend).contains(&name)
        }),
    })
}

/// What it is called, and what it joins. `judge@review` and `judge --workflow review` mean the same; a tag by itself is
/// the instance that has it.
fn resolve_name_and_instance(
    name: Option<Target>,
    workflow: Option<InstanceRef>,
    tag: Option<Tag>,
) -> Result<(Option<AgentName>, Option<Target>), CliError> {
    let twice = || {
        CliError::new(CliErrorKind::Usage, "where it joins is said twice")
            .with_hint("write it once: agent-worker new name@workflow:tag")
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
    draft.into_settings().map_err(|bad| {
        let hint = match bad.hint.strip_prefix("did you mean") {
            Some(_) => bad.hint,
            None => format!("{}, {EXAMPLE}", bad.hint),
        };
        CliError::new(CliErrorKind::Usage, bad.message).with_hint(hint)
    })
}

/// The script: one answer to everything, a list, or a file with one.
fn load_mock_rules(
    say: Option<String>,
    mock: Option<String>,
    cwd: &Path,
) -> Result<Vec<MockRule>, CliError> {
    let always = say.map(|say| MockRule { say: Some(say), ..MockRule::default() });
    let Some(mock) = mock else { return Ok(always.into_iter().collect()) };
    // A list begins with a bracket or a dash, and no file that anybody has does.
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
