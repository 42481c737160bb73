//! `agent-worker tool list`: the tools of an agent of a workflow file, without a daemon.

use std::path::PathBuf;

use agent_worker_protocol::{AgentName, AgentSettings};
use agent_worker_workflow::{AgentTool, Workflow, agent_tools};
use serde::Serialize;

use crate::{
    client::launch::{file_of_source, load_source, load_workflow, read_source},
    error::{CliError, CliErrorKind},
    input::{
        config_file::ConfigFile,
        context::{CommandContext, Format, OutputArgs},
    },
    output::{
        table::Column::{Figure, Name, State, Text},
        verdict::RunVerdict,
    },
};

/// List the tools of an agent of a workflow file
///
/// SOURCE is `team` (the daemon's tools), `built-in` or `mock`. A tool that `changes` something runs alone. SCHEMA is the size of the
/// schema in bytes; `-` for tools of the team. PERMISSION is that of all calls; with `by arguments` the arguments decide.
/// API NAME is the name in requests to the model where it differs. Programs such as `claude` have further tools of their own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker tool list team.yaml coder")]
pub(crate) struct Args {
    /// Path of the workflow file, or of a folder with a `workflow.yaml`; `-` reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the agent [default: the only agent of the file]
    #[arg(value_name = "NAME")]
    agent: Option<AgentName>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The document that `tool list --json` prints.
#[derive(Serialize)]
struct ToolListReport<'a> {
    agent: &'a AgentName,
    backend: &'a str,
    tools: Vec<AgentTool>,
}

/// Runs the command.
pub(super) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let file: PathBuf = file_of_source(ctx.settings.cwd.join(&args.file)).components().collect();
    let config = ConfigFile::read(ctx.settings)?;
    let workflow = match read_source(&args.file)? {
        Some(text) => load_source(&text, &file, &config),
        None => load_workflow(&file, &args.file, &config),
    }?;
    let agent = chosen_agent(&workflow, args.agent.as_ref())?;
    let tools = agent_tools(agent);
    match args.output.format() {
        Format::Json => {
            let backend = agent.backend.word();
            ctx.console.print_json(&ToolListReport { agent: &agent.name, backend, tools })?;
        }
        Format::Text => {
            let head = [
                Name("TOOL"),
                Text("SOURCE"),
                Text("EFFECT"),
                Figure("SCHEMA"),
                State("PERMISSION"),
                Text("API NAME"),
            ];
            let rows: Vec<_> = tools.into_iter().map(row).collect();
            ctx.console.print_table(head, &rows)?;
        }
    }
    Ok(RunVerdict::Done)
}

/// Returns the agent of that name, or the only one.
fn chosen_agent<'a>(
    workflow: &'a Workflow,
    name: Option<&AgentName>,
) -> Result<&'a AgentSettings, CliError> {
    let names: Vec<_> = workflow.agents.iter().map(|agent| agent.name.to_string()).collect();
    let hint = format!("the agents are: {}", names.join(", "));
    match (name, workflow.agents.as_slice()) {
        (None, [only]) => Ok(only),
        (None, _) => {
            let why = "the file has several agents: name one after the file";
            Err(CliError::new(CliErrorKind::Usage, why).with_hint(hint))
        }
        (Some(name), agents) => agents.iter().find(|agent| agent.name == *name).ok_or_else(|| {
            CliError::new(CliErrorKind::Usage, format!("there is no agent `{name}` in the file"))
                .with_hint(hint)
        }),
    }
}

fn row(tool: AgentTool) -> [String; 6] {
    let unknown = || "-".to_owned();
    [
        tool.name,
        tool.source.word().to_owned(),
        tool.effect.word().to_owned(),
        tool.schema_bytes.map_or_else(unknown, |bytes| bytes.to_string()),
        tool.permission.words().to_owned(),
        tool.api_name.unwrap_or_default(),
    ]
}
