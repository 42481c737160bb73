//! `agent-worker tool list`: the tools of an agent of a workflow file, without a daemon.

use std::path::PathBuf;

use agent_worker_protocol::AgentName;
use agent_worker_workflow::{AgentTool, agent_tools};
use serde::Serialize;

use super::file_agent::{FileAgent, read_agent};
use crate::{
    error::CliError,
    input::context::{CommandContext, Format, OutputArgs},
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
    let FileAgent { agent, .. } = read_agent(&args.file, args.agent.as_ref(), ctx)?;
    let tools = agent_tools(&agent);
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
