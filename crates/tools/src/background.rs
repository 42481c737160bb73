//! Commands in the background: `bash_output` and `bash_kill`. They end with the tool host.

use std::{
    collections::BTreeMap,
    mem,
    process::ExitStatus,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_protocol::sync;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    bash::status_text,
    captured_output::CapturedOutput,
    command_process::CommandProcess,
    tool_output::{ToolStep, read_arguments},
};

/// Maximum number of commands that run at the same time.
const MAX_RUNNING: usize = 32;
const MAX_WAIT_SECS: u64 = 600;

/// The commands in the background of a turn.
#[derive(Default)]
pub(crate) struct BackgroundCommands(Mutex<CommandTable>);

#[derive(Default)]
struct CommandTable {
    commands: BTreeMap<String, Arc<BackgroundCommand>>,
    started: u32,
    /// Readers of the outputs. They end with this value, and so do the commands.
    readers: JoinSet<()>,
}

struct BackgroundCommand {
    /// Output since the last call.
    unread: Mutex<CapturedOutput>,
    state: watch::Sender<CommandState>,
    killed: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandState {
    Running,
    Ended(Option<ExitStatus>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputArguments {
    id: String,
    #[serde(default)]
    wait: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KillArguments {
    id: String,
}

impl BackgroundCommands {
    /// Takes over a command, and returns its id for the model.
    pub(crate) fn adopt(&self, process: CommandProcess) -> ToolStep<String> {
        let mut table = sync::lock(&self.0);
        let running = table.commands.values().filter(|command| command.is_running()).count();
        if running >= MAX_RUNNING {
            let why =
                format!("{MAX_RUNNING} commands run in the background; end one with bash_kill");
            return Err(why.into());
        }
        table.started += 1;
        let id = format!("bash-{}", table.started);
        let command = Arc::new(BackgroundCommand {
            unread: Mutex::default(),
            state: watch::Sender::new(CommandState::Running),
            killed: CancellationToken::new(),
        });
        table.commands.insert(id.clone(), Arc::clone(&command));
        table.readers.spawn(async move { command.read_output(process).await });
        Ok(format!("started in the background as {id}; read its output with bash_output"))
    }

    /// Returns the new output of a command and its state.
    pub(crate) async fn read(&self, args: Map<String, Value>) -> ToolStep<String> {
        let OutputArguments { id, wait } = read_arguments(args)?;
        if wait > MAX_WAIT_SECS {
            return Err(format!("`wait` must be 0 to {MAX_WAIT_SECS} seconds").into());
        }
        let command = self.find(&id)?;
        command.wait_ended(Duration::from_secs(wait)).await;
        Ok(command.report(&id))
    }

    /// Ends a command, and returns its last output.
    pub(crate) async fn kill(&self, args: Map<String, Value>) -> ToolStep<String> {
        let KillArguments { id } = read_arguments(args)?;
        let command = self.find(&id)?;
        command.killed.cancel();
        command.wait_ended(Duration::from_secs(MAX_WAIT_SECS)).await;
        Ok(command.report(&id))
    }

    fn find(&self, id: &str) -> ToolStep<Arc<BackgroundCommand>> {
        let table = sync::lock(&self.0);
        let ids = || table.commands.keys().cloned().collect::<Vec<_>>().join(", ");
        match table.commands.get(id) {
            Some(command) => Ok(Arc::clone(command)),
            None if table.commands.is_empty() => {
                Err("no command was started in the background in this turn".into())
            }
            None => Err(format!("there is no command `{id}`; there are {}", ids()).into()),
        }
    }
}

impl BackgroundCommand {
    fn is_running(&self) -> bool {
        *self.state.borrow() == CommandState::Running
    }

    async fn read_output(&self, mut process: CommandProcess) {
        let piece = |piece: &[u8]| sync::lock(&self.unread).push(piece);
        let status = tokio::select! {
            status = process.wait(piece) => status.ok(),
            () = self.killed.cancelled() => None,
        };
        if status.is_some() {
            process.release();
        } else {
            process.end(piece).await;
        }
        self.state.send_replace(CommandState::Ended(status));
    }

    async fn wait_ended(&self, most: Duration) {
        let mut state = self.state.subscribe();
        let ended = state.wait_for(|state| *state != CommandState::Running);
        let _ = timeout(most, ended).await;
    }

    fn report(&self, id: &str) -> String {
        let state = match *self.state.borrow() {
            CommandState::Running => "running".to_owned(),
            CommandState::Ended(Some(status)) => status_text(status),
            CommandState::Ended(None) => "killed".to_owned(),
        };
        let unread = mem::take(&mut *sync::lock(&self.unread));
        format!("[{id}: {state}]\n{}", unread.text())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;
    use crate::{bash::run_bash, tool_output::ToolError};

    fn arguments(args: Value) -> Map<String, Value> {
        serde_json::from_value(args).unwrap()
    }

    async fn start(commands: &BackgroundCommands, line: &str) -> String {
        let args = arguments(json!({"command": line, "run_in_background": true}));
        run_bash(args, &std::env::temp_dir(), commands).await.unwrap()
    }

    #[tokio::test]
    async fn the_output_of_a_command_in_the_background_is_returned_once() {
        let commands = BackgroundCommands::default();
        let started = start(&commands, "echo one; exit 2").await;
        assert!(started.contains(" bash-1;"), "{started}");
        let read = || commands.read(arguments(json!({"id": "bash-1", "wait": 60})));
        assert_eq!(read().await.unwrap(), "[bash-1: exit code 2]\none\n");
        assert_eq!(read().await.unwrap(), "[bash-1: exit code 2]\n");
    }

    #[tokio::test]
    async fn a_killed_command_takes_its_children_with_it() {
        let commands = BackgroundCommands::default();
        let line = "sleep 1000 & echo $!; wait";
        start(&commands, line).await;
        let id = || arguments(json!({"id": "bash-1"}));
        let mut output = String::new();
        while !output.ends_with('\n') || output.lines().count() < 2 {
            output = commands.read(id()).await.unwrap();
            tokio::task::yield_now().await;
        }
        let child = output.lines().last().unwrap().to_owned();
        assert_eq!(commands.kill(id()).await.unwrap(), "[bash-1: killed]\n");
        // A zombie waits for its parent, which is not this process.
        let is_gone = || match std::fs::read_to_string(format!("/proc/{child}/stat")) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_gone() {
            assert!(Instant::now() < deadline, "{child} still runs");
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn an_unknown_id_is_refused_with_the_known_ones() {
        let commands = BackgroundCommands::default();
        let args = || arguments(json!({"id": "x"}));
        let ToolError(why) = commands.read(args()).await.unwrap_err();
        assert!(why.starts_with("no command was started"), "{why}");
        start(&commands, "true").await;
        let ToolError(why) = commands.kill(args()).await.unwrap_err();
        assert_eq!(why, "there is no command `x`; there are bash-1");
    }
}
