//! A call of a built-in tool in a tool host of its own, in the sandbox of an agent.

use std::{collections::BTreeMap, process::Stdio};

use agent_worker_backends::{BuiltinTool, BuiltinToolSpec, builtin_tool};
use agent_worker_protocol::BASE_ENV;
use agent_worker_sandbox::{
    SandboxGuard, SandboxLaunch, SandboxRequest, SandboxStart, SandboxSupport,
};
use agent_worker_tools::{HostCall, HostReply, HostRequest, ToolOutput};
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
};

use super::{call::working_folder, file_agent::FileAgent};
use crate::{
    commands::sandbox::{PrivateFolder, process_tree, refused},
    error::{CliError, CliErrorKind},
    input::settings::CliSettings,
};

/// The hidden subcommand of our binary that serves the calls.
const TOOL_HOST_COMMAND: &str = "tool-host";

/// Carries out a call. The host ends with it.
pub(super) async fn call_in_host(
    owner: &FileAgent,
    row: &BuiltinToolSpec,
    args: Map<String, Value>,
    settings: &CliSettings,
) -> Result<ToolOutput, CliError> {
    let private = PrivateFolder::create()?;
    let (mut command, sandbox) = host_command(owner, &private, settings)?;
    let failed =
        |error| CliError::with_source(CliErrorKind::Failed, "could not call the tool", error);
    let mut child = command.spawn().map_err(failed)?;
    let tree = process_tree(&child);
    let work = exchange_lines(&mut child, row, args);
    match sandbox {
        // The result names the host that was refused.
        Some((_launch, guard)) => {
            let done = guard.run(tree, |_| (), work).await;
            done.map_err(|excess| CliError::new(CliErrorKind::Failed, excess.to_string()))?
        }
        None => work.await,
    }
}

/// Writes the calls to a host and reads their results until the host ends.
async fn exchange_lines(
    child: &mut Child,
    row: &BuiltinToolSpec,
    args: Map<String, Value>,
) -> Result<ToolOutput, CliError> {
    let failed =
        |error| CliError::with_source(CliErrorKind::Failed, "could not call the tool", error);
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(CliError::new(CliErrorKind::Failed, "the process of the tools has no pipes"));
    };
    let mut replies = BufReader::new(output).lines();
    let reads_first = [BuiltinTool::WriteFile, BuiltinTool::EditFile].contains(&row.tool);
    let first = builtin_tool("read_file").filter(|_| reads_first).map(|read| {
        let path = args.get("path").cloned().into_iter().map(|path| ("path".to_owned(), path));
        HostCall { id: 0, tool: read.name.to_owned(), args: path.collect() }
    });
    let last = HostCall { id: 1, tool: row.name.to_owned(), args };
    let mut result = None;
    for call in first.into_iter().chain([last]) {
        let mut line = serde_json::to_vec(&HostRequest::Call(call)).unwrap_or_default();
        line.push(b'\n');
        // The end of its output says that the host has ended.
        let _ = input.write_all(&line).await;
        let reply = replies.next_line().await.map_err(failed)?;
        result = reply.and_then(|line| serde_json::from_str::<HostReply>(&line).ok());
    }
    drop(input);
    child.wait().await.map_err(failed)?;
    let no_result =
        || CliError::new(CliErrorKind::Failed, "the process of the tools ended during the call");
    Ok(result.ok_or_else(no_result)?.output)
}

fn host_command(
    owner: &FileAgent,
    private: &PrivateFolder,
    settings: &CliSettings,
) -> Result<(Command, Option<(SandboxLaunch, SandboxGuard)>), CliError> {
    let work = working_folder(owner, &settings.cwd);
    let is_passed =
        |name: &String| BASE_ENV.contains(&name.as_str()) || owner.agent.env.contains(name);
    let env = settings.env.clone().into_iter().filter(|(name, _)| is_passed(name));
    let env: BTreeMap<String, String> = env.collect();
    let support = SandboxSupport::detect();
    let level = support.level_for(owner.agent.sandbox.mode).map_err(refused)?;
    let mut command = Command::new(&settings.exe);
    command.current_dir(&work).env_clear().envs(&env);
    let mut guarded = None;
    if let Some(level) = level {
        let request = SandboxRequest {
            work,
            private: private.path().to_owned(),
            env,
            settings: owner.agent.sandbox.clone(),
            read: settings.exe.canonicalize().ok().into_iter().collect(),
            read_only: vec![owner.file.clone()],
            hidden: vec![settings.home.clone()],
            ..SandboxRequest::default()
        };
        let launch = SandboxLaunch::prepare(&request, level, &support).map_err(refused)?;
        let SandboxStart { args, guard } = launch.start().map_err(refused)?;
        command.args(args).arg(&settings.exe);
        guarded = Some((launch, guard));
    }
    command.arg(TOOL_HOST_COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    Ok((command, guarded))
}
