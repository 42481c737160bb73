//! `agent-worker tool call`: one call of a built-in tool or a mock tool by hand, without a daemon.
//!
//! A built-in tool runs as in a turn: in a tool host in the agent's sandbox and working folder. The call itself is the approval of the
//! person; a call that the rules deny, or may deny by its arguments, is refused.

use std::path::{Path, PathBuf};

use agent_worker_backends::{BuiltinTool, BuiltinToolSpec, find_builtin_tool};
use agent_worker_protocol::{
    AgentName, AgentSettings, PermissionAction, PermissionMode, ToolName,
    api::{ToolPermission, ToolSource},
};
use agent_worker_tools::{PageFetcher, ToolOutput};
use agent_worker_workflow::nearest;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    file_agent::{FileAgent, read_agent},
    host_call::call_in_host,
};
use crate::{
    error::{CliError, CliErrorKind},
    input::context::{CommandContext, Format, OutputArgs},
    output::verdict::RunVerdict,
};

/// Call a built-in tool or a mock tool of an agent by hand
///
/// The tool acts in the agent's working folder and in the sandbox that the file says. Prints the result; exits with 1 if the call
/// fails. Needs no daemon. The call needs no approval; one that the agent's rules may deny is refused. Before `write_file` and
/// `edit_file` the file is read, as an agent must do.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: agent-worker tool call team.yaml coder read_file '{\"path\": \"README.md\"}'"
)]
pub(crate) struct Args {
    /// Path of the workflow file, or of a folder with a `workflow.yaml`; `-` reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the agent
    #[arg(value_name = "NAME")]
    agent: AgentName,
    /// Name of the tool, as in `tool list`
    #[arg(value_name = "TOOL")]
    tool: String,
    /// Arguments as a JSON object
    #[arg(value_name = "ARGS", default_value = "{}")]
    arguments: String,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The document that `tool call --json` prints.
#[derive(Serialize)]
struct ToolCallReport {
    agent: AgentName,
    tool: String,
    text: String,
    /// Media type of an image.
    media_type: Option<String>,
    /// Content of an image.
    base64: Option<String>,
}

/// Runs the command.
pub(super) async fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let call_args = parse_args(&args.arguments)?;
    let owner = read_agent(&args.file, &args.agent, ctx)?;
    let tool = checked_tool(&owner, &args.tool)?;
    let output = carry_out(&owner, &tool, call_args, ctx).await?;
    let (text, image) = match output {
        ToolOutput::Done(text) => (text, None),
        ToolOutput::Image(image) => (image.text, Some((image.media_type, image.base64))),
        ToolOutput::Failed(why) => return Err(CliError::new(CliErrorKind::Failed, why)),
    };
    match args.output.format() {
        Format::Text => {
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            ctx.console.print_chunk(&format!("{text}{end}"))?;
        }
        Format::Json => {
            let (media_type, base64) = image.unzip();
            let agent = owner.agent.name.clone();
            ctx.console.print_json(&ToolCallReport { agent, tool, text, media_type, base64 })?;
        }
    }
    Ok(RunVerdict::Done)
}

fn usage(why: impl Into<String>) -> CliError {
    CliError::new(CliErrorKind::Usage, why.into())
}

fn parse_args(text: &str) -> Result<Map<String, Value>, CliError> {
    serde_json::from_str(text).map_err(|error| {
        usage(format!("the arguments are not a JSON object: {error}"))
            .with_hint("write them as one word: '{\"path\": \"README.md\"}'")
    })
}

/// Returns the name of a tool that the agent may call.
fn checked_tool(owner: &FileAgent, word: &str) -> Result<String, CliError> {
    let agent = &owner.agent;
    if ToolName::find(word).is_some() {
        return Err(usage(format!("`{word}` is a tool of the team, which the daemon carries out"))
            .with_hint(
                "call it through `agent-worker mcp`, or use a command such as `agent-worker send`",
            ));
    }
    let tools = owner.tools().tools;
    let own = || tools.iter().filter(|tool| tool.source != ToolSource::Team);
    let name = find_builtin_tool(word).map_or(word, |row| row.name);
    let Some(tool) = own().find(|tool| tool.name == name) else {
        let hint = match nearest(word, own().map(|tool| tool.name.as_str())) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("list its tools: agent-worker tool list FILE {}", agent.name),
        };
        return Err(usage(format!("`{}` has no tool `{word}`", agent.name)).with_hint(hint));
    };
    match tool.permission {
        ToolPermission::NotOffered => {
            Err(usage(format!("`{name}` is not offered to `{}`", agent.name))
                .with_hint("name it in `tools` of the agent"))
        }
        ToolPermission::Denied => {
            Err(usage(format!("the rules of `{}` deny `{name}`", agent.name))
                .with_hint("change `permissions` of the agent"))
        }
        ToolPermission::ByArguments if may_deny(agent, name) => {
            let why = format!("the rules of `{}` may deny this call of `{name}`", agent.name);
            Err(usage(why)
                .with_hint("the daemon decides by the arguments: let the agent make the call"))
        }
        ToolPermission::Allowed | ToolPermission::Ask | ToolPermission::ByArguments => {
            Ok(name.to_owned())
        }
    }
}

/// Returns true if the rules can deny a call of the tool by its arguments.
fn may_deny(agent: &AgentSettings, tool: &str) -> bool {
    let rules = &agent.permissions;
    let mut denied = rules.deny.iter();
    rules.mode == Some(PermissionMode::Plan)
        || rules.default == Some(PermissionAction::Deny)
        || denied.any(|pattern| agent_worker_backends::names_same_tool(pattern.tool(), tool))
}

async fn carry_out(
    owner: &FileAgent,
    tool: &str,
    args: Map<String, Value>,
    ctx: &CommandContext<'_>,
) -> Result<ToolOutput, CliError> {
    if let Some(mock) = owner.agent.mock_tools.iter().find(|mock| mock.name == tool) {
        return Ok(match mock.call(&args) {
            Ok(text) => ToolOutput::Done(text),
            Err(why) => ToolOutput::Failed(why),
        });
    }
    match find_builtin_tool(tool) {
        Some(BuiltinToolSpec { tool: BuiltinTool::FetchUrl, .. }) => {
            let settings = &owner.agent.sandbox;
            let hosts = settings.network.hosts().filter(|_| !settings.is_off());
            Ok(PageFetcher::new(std::iter::empty(), hosts).fetch(args).await)
        }
        Some(row) => call_in_host(owner, row, args, ctx.settings).await,
        None => Ok(ToolOutput::Failed(format!("there is no tool `{tool}`"))),
    }
}

/// Returns the folder in which an agent of a file works.
pub(super) fn working_folder(owner: &FileAgent, cwd: &Path) -> PathBuf {
    let folder = owner.file.parent().unwrap_or(cwd);
    owner.agent.cwd.as_ref().map_or_else(|| cwd.to_owned(), |own| folder.join(own))
}
