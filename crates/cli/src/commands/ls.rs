//! `agent-worker ls`: lists agents and their states.

use std::path::Path;

use agent_worker_protocol::{InstanceRef, Target, api::AgentView};

use crate::{
    client::daemon_client::ScopeReach,
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        settings::CliSettings,
        target_args::{LIST_TARGET_HELP, TargetArgs},
    },
    output::{
        clock, state_text,
        table::Column::{Figure, Name, State, Text},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// List agents and their states
///
/// Lists standalone agents and the live runs of this folder; with --all every folder and ended runs.
#[derive(Debug, clap::Args)]
#[command(mut_arg("target", |arg| arg.help(LIST_TARGET_HELP)), visible_alias = "list", after_help = "Example: agent-worker ls @review:pr-123")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Include every folder and ended runs
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let reach = if args.all { ScopeReach::AllProjects } else { ScopeReach::CurrentProject };
    let target = args.target.for_list(reach, ctx)?;
    let scope = ctx.scope(target, reach);
    let daemon = ctx.connect_if_history().await?;
    let agents = match &daemon {
        Some(client) => client.agents(&scope).await?,
        None if scope.target.is_some() => return Err(CommandContext::no_history_error()),
        None => Vec::new(),
    };
    match (args.output.format(), &daemon) {
        (Format::Json, _) => ctx.console.print_json_list(&agents),
        (Format::Text, None) => ctx.console.note("no daemon is running, so no agent is running"),
        (Format::Text, Some(_)) if agents.is_empty() => ctx
            .console
            .note("no live agents here; start a team with `agent-worker run`, or use --all"),
        (Format::Text, Some(_)) => show(&agents, ctx),
    }?;
    Ok(RunVerdict::Done)
}

/// Prints agents as a table.
pub(crate) fn show(agents: &[AgentView], ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let now = clock::now();
    let rows: Vec<_> = agents
        .iter()
        .map(|agent| {
            [
                Target::agent(agent.name.clone(), &agent.instance).to_string(),
                source_folder(&agent.instance, &agent.project, ctx.settings),
                state_text::agent_state_text(&agent.state, now),
                agent.waiting.to_string(),
                agent.turns.to_string(),
                agent.messages.to_string(),
            ]
        })
        .collect();
    let head = [
        Name("NAME"),
        Text("SOURCE"),
        State("STATUS"),
        Figure("WAITING"),
        Figure("TURNS"),
        Figure("MESSAGES"),
    ];
    ctx.console.print_table(head, &rows)
}

/// Formats the folder of an instance's workflow, as short as possible from the caller's folder.
pub(super) fn source_folder(
    instance: &InstanceRef,
    project: &Path,
    settings: &CliSettings,
) -> String {
    if instance.is_global() {
        return "(standalone)".to_owned();
    }
    let home = settings.env.get("HOME").map(Path::new);
    let shown = match (project.strip_prefix(&settings.cwd), home) {
        (Ok(beneath), _) => Path::new(".").join(beneath),
        (Err(_), Some(home)) => match project.strip_prefix(home) {
            Ok(beneath) => Path::new("~").join(beneath),
            Err(_) => project.to_owned(),
        },
        (Err(_), None) => project.to_owned(),
    };
    one_line(shown.to_string_lossy().trim_end_matches('/'))
}
