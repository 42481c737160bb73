//! `agent-worker tool list`: the tools of agents of a live team, or of a workflow file without a daemon.

use std::path::{Path, PathBuf};

use agent_worker_protocol::{
    AgentName, Target,
    api::{AgentTool, AgentTools},
};

use super::file_agent::{FileAgent, read_agent, read_agents};
use crate::{
    client::daemon_client::ScopeReach,
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{TargetEffect, same_target},
    },
    output::{
        styled_line::{StyledLine, Tone},
        table::Column::{Figure, Name, State, Text},
        text::pluralize,
        verdict::RunVerdict,
    },
};

/// List the tools of agents, of a live team or of a workflow file
///
/// SOURCE is `team` (the daemon's tools), `built-in` or `mock`; `mock, changed` has other results than the file, see `tool mock`. A
/// tool that `changes` something runs alone. SCHEMA is the size of the schema in bytes, which the model gets with every request. PERMISSION is
/// that of all calls; with `by arguments` the arguments decide. WHY is its reason. API NAME is the name in requests to the model where it
/// differs. Programs such as `claude` have further tools of their own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker tool list coder@review:pr-123
  agent-worker tool list @review
  agent-worker tool list team.yaml coder")]
pub(crate) struct Args {
    /// Agent (`agent@workflow:tag`), all agents of an instance (`@workflow:tag`), or a workflow file or its folder; `-` reads a file
    /// from stdin [default: the target selected with `use`, else the only run of this folder]
    #[arg(value_name = "TARGET|FILE")]
    source: Option<String>,
    /// Name of an agent of the FILE [default: all agents of the file]
    #[arg(value_name = "NAME")]
    agent: Option<AgentName>,
    /// Same as TARGET; never a file
    #[arg(long = "target", visible_alias = "to", short = 't', value_name = "TARGET")]
    target_option: Option<Target>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The place of the agents.
enum AgentSource {
    File(PathBuf),
    Live(Option<Target>),
}

/// Runs the command.
pub(super) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.output.format();
    let agents = match (agent_source(args.source, args.target_option, ctx)?, args.agent) {
        (AgentSource::File(file), None) => {
            read_agents(&file, ctx)?.iter().map(FileAgent::tools).collect()
        }
        (AgentSource::File(file), Some(name)) => vec![read_agent(&file, &name, ctx)?.tools()],
        (AgentSource::Live(target), None) => live_agents(target, format, ctx).await?,
        (AgentSource::Live(_), Some(name)) => {
            let why = format!("`{name}` is not expected: only a file has a second argument");
            return Err(CliError::new(CliErrorKind::Usage, why)
                .with_hint(format!("name a live agent in one word: {name}@workflow:tag")));
        }
    };
    match format {
        Format::Json => ctx.console.print_json_list(&agents)?,
        Format::Text => {
            for (place, one) in agents.into_iter().enumerate() {
                if place > 0 {
                    ctx.console.print_line(&StyledLine::default())?;
                }
                show(one, ctx)?;
            }
        }
    }
    Ok(RunVerdict::Done)
}

/// Decides if a word is a file or a target. A word that is both is the file: `--target` names the agent.
fn agent_source(
    source: Option<String>,
    option: Option<Target>,
    ctx: &CommandContext<'_>,
) -> Result<AgentSource, CliError> {
    let Some(word) = source else { return Ok(AgentSource::Live(option)) };
    let is_path = word == "-" || word.contains('/') || is_workflow_name(&word);
    if !word.starts_with('@') && (is_path || ctx.settings.cwd.join(&word).exists()) {
        return match option {
            None => Ok(AgentSource::File(word.into())),
            Some(target) => Err(CliError::new(
                CliErrorKind::Usage,
                format!("a file and a target are given, `{word}` and `{target}`"),
            )
            .with_hint("give one of the two")),
        };
    }
    let target = word.parse::<Target>().map_err(|bad| {
        CliError::with_source(
            CliErrorKind::Usage,
            format!("`{word}` is neither a target nor a file"),
            bad,
        )
        .with_hint("list the live agents: agent-worker ls")
    })?;
    same_target(Some(target), option).map(AgentSource::Live)
}

fn is_workflow_name(word: &str) -> bool {
    let extension = Path::new(word).extension();
    extension.is_some_and(|extension| ["yaml", "yml"].iter().any(|known| extension == *known))
}

/// Asks the daemon for the tools of live agents.
async fn live_agents(
    typed: Option<Target>,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<Vec<AgentTools>, CliError> {
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error()
            .with_hint("for the agents of a file: agent-worker tool list FILE"));
    };
    let target = match typed {
        Some(target) => Some(target),
        None => ctx.selected_target(TargetEffect::Read)?,
    };
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    let scope = if scope.target.is_some() {
        resolve_run::readable_scope(&client, &scope, format, ctx).await?
    } else {
        let run = resolve_run::resolve_run(&client, &scope, format, ctx).await?;
        ctx.scope(Some(Target::instance(&run.instance)), ScopeReach::CurrentProject)
    };
    match &scope.target {
        Some(target) => Ok(client.agent_tools(target, &scope).await?),
        None => Ok(Vec::new()),
    }
}

fn show(agent: AgentTools, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let AgentTools { agent: name, instance, backend, tools, schema_bytes } = agent;
    let who = instance.map_or_else(
        || name.to_string(),
        |instance| Target::agent(name.clone(), &instance).to_string(),
    );
    let count = pluralize(tools.len(), "tool");
    let facts = format!("  {backend}, {count}, {schema_bytes} bytes of schemas in each request");
    ctx.console.print_line(&StyledLine::new(Tone::Strong, who).with(Tone::Plain, facts))?;
    let head = [
        Name("TOOL"),
        Text("SOURCE"),
        Text("EFFECT"),
        Figure("SCHEMA"),
        State("PERMISSION"),
        Text("WHY"),
        Text("API NAME"),
    ];
    let rows: Vec<_> = tools.into_iter().map(row).collect();
    ctx.console.print_table(head, &rows)
}

fn row(tool: AgentTool) -> [String; 7] {
    let changed = if tool.changed { ", changed" } else { "" };
    [
        tool.name,
        format!("{}{changed}", tool.source.word()),
        tool.effect.word().to_owned(),
        tool.schema_bytes.to_string(),
        tool.permission.words().to_owned(),
        tool.why,
        tool.api_name.unwrap_or_default(),
    ]
}
