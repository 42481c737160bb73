//! The tool host of an attempt: one process of our own binary in the agent's sandbox, started by the first call.
//!
//! Invariant: the host ends with this value. A host that ended early fails its open calls, and the next call starts another.

use std::{
    collections::HashMap,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agent_worker_host::own_program;
use agent_worker_protocol::sync;
use agent_worker_sandbox::{SandboxGuard, SandboxLaunch, SandboxStart};
use agent_worker_tools::{HostCall, HostReply, HostRequest, ToolOutput};
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};

use crate::{
    attempt_sandbox::processes_of_worker,
    child_env::{ChildEnv, OutputTail},
    event_reporter::EventReporter,
    worker_log::WorkerLog,
};

/// The hidden subcommand of our binary that serves the calls.
const TOOL_HOST_COMMAND: &str = "tool-host";
/// Maximum size of a reply: that of an image in Base64, or of the longest output with every character escaped. A process of the
/// sandbox that writes to the host's output cannot fill the memory of this one.
const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;
/// Time to read the error output of a host that has ended.
const ERROR_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// The parts that a host starts with.
pub(crate) struct HostLaunch {
    pub(crate) child_env: ChildEnv,
    /// None without a sandbox.
    pub(crate) sandbox: Option<SandboxLaunch>,
    pub(crate) reporter: EventReporter,
    pub(crate) log: WorkerLog,
}

/// Calls the tools of the host.
pub(crate) struct ToolHostClient {
    launch: HostLaunch,
    running: Mutex<Option<RunningHost>>,
    last_id: AtomicU64,
}

/// Connection to a running host.
struct RunningHost {
    connection: HostConnection,
    /// The task that owns the process.
    _task: JoinSet<()>,
}

#[derive(Clone)]
struct HostConnection {
    requests: mpsc::UnboundedSender<HostRequest>,
    waiting: WaitingCalls,
}

/// The calls without a reply. None once the host has ended, with the reason.
type WaitingCalls = Arc<Mutex<UnansweredCalls>>;

#[derive(Default)]
struct UnansweredCalls {
    calls: HashMap<u64, oneshot::Sender<ToolOutput>>,
    ended: Option<String>,
}

/// Cancels a call whose caller no longer waits.
struct CallCancellation {
    id: u64,
    connection: HostConnection,
}

impl Drop for CallCancellation {
    fn drop(&mut self) {
        if sync::lock(&self.connection.waiting).calls.remove(&self.id).is_some() {
            // A host that has ended has no calls.
            let _ = self.connection.requests.send(HostRequest::Cancel(self.id));
        }
    }
}

impl ToolHostClient {
    pub(crate) fn new(launch: HostLaunch) -> Self {
        Self { launch, running: Mutex::default(), last_id: AtomicU64::default() }
    }

    /// Carries out a call. Every failure is a result, which the model reads.
    pub(crate) async fn call(&self, tool: &str, args: Map<String, Value>) -> ToolOutput {
        let connection = match self.connection() {
            Ok(connection) => connection,
            Err(why) => return ToolOutput::Failed(why),
        };
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        let ended = {
            let mut table = sync::lock(&connection.waiting);
            table.calls.insert(id, sender);
            table.ended.is_some()
        };
        let _open = CallCancellation { id, connection: connection.clone() };
        let call = HostRequest::Call(HostCall { id, tool: tool.to_owned(), args });
        if !ended
            && connection.requests.send(call).is_ok()
            && let Ok(output) = reply.await
        {
            return output;
        }
        let why = sync::lock(&connection.waiting).ended.clone().unwrap_or_default();
        ToolOutput::Failed(format!("the process of the tools ended during the call{why}"))
    }

    /// Returns the running host, or starts one.
    fn connection(&self) -> Result<HostConnection, String> {
        let mut running = sync::lock(&self.running);
        if let Some(host) = running.as_ref().filter(|host| host.connection.is_open()) {
            return Ok(host.connection.clone());
        }
        let started = self.command().and_then(|(mut command, guard)| {
            command.spawn().map(|child| (child, guard)).map_err(|error| error.to_string())
        });
        let (child, guard) =
            started.map_err(|why| format!("the process of the tools could not start: {why}"))?;
        let (requests, waiting_requests) = mpsc::unbounded_channel();
        let connection = HostConnection { requests, waiting: WaitingCalls::default() };
        let mut task = JoinSet::new();
        let (reporter, log) = (self.launch.reporter.clone(), self.launch.log.clone());
        let waiting = Arc::clone(&connection.waiting);
        task.spawn(async move {
            let notes = reporter.clone();
            let served = serve_host(child, waiting_requests, &waiting, (reporter, log));
            let ended = match guard {
                Some(guard) => {
                    guard.run(processes_of_worker, |line| notes.record_note(line), served).await
                }
                None => Ok(served.await),
            };
            let why = ended.unwrap_or_else(|excess| format!(": {excess}"));
            let mut table = sync::lock(&waiting);
            table.ended = Some(why);
            table.calls.clear();
        });
        *running = Some(RunningHost { connection: connection.clone(), _task: task });
        Ok(connection)
    }

    fn command(&self) -> Result<(Command, Option<SandboxGuard>), String> {
        let HostLaunch { child_env, sandbox, .. } = &self.launch;
        let mut command = child_env.command(own_program());
        let start = sandbox.as_ref().map(SandboxLaunch::start).transpose();
        let guard =
            start.map_err(|error| error.to_string())?.map(|SandboxStart { args, guard }| {
                command.args(args).arg(own_program());
                guard
            });
        command.arg(TOOL_HOST_COMMAND).stdin(Stdio::piped()).kill_on_drop(true);
        Ok((command, guard))
    }
}

impl HostConnection {
    fn is_open(&self) -> bool {
        sync::lock(&self.waiting).ended.is_none()
    }
}

/// Passes requests to the host and replies to their callers until the host ends. Returns the reason, after a colon.
async fn serve_host(
    mut child: Child,
    mut requests: mpsc::UnboundedReceiver<HostRequest>,
    waiting: &Mutex<UnansweredCalls>,
    (reporter, log): (EventReporter, WorkerLog),
) -> String {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return String::new();
    };
    let mut errors = OutputTail::default();
    let errors_read = errors.read(child.stderr.take(), &reporter, &log);
    let write = async {
        while let Some(request) = requests.recv().await {
            let mut line = serde_json::to_vec(&request).unwrap_or_default();
            line.push(b'\n');
            if input.write_all(&line).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let read = async {
        let mut output = BufReader::new(output);
        while let Some(line) = read_reply(&mut output, MAX_REPLY_BYTES).await? {
            if let Ok(HostReply { id, output }) = serde_json::from_slice(&line)
                && let Some(caller) = sync::lock(waiting).calls.remove(&id)
            {
                // The caller may have stopped waiting.
                let _ = caller.send(output);
            }
        }
        Ok(())
    };
    let ended: Result<(), String> = {
        let mut errors_read = std::pin::pin!(errors_read);
        let mut work = std::pin::pin!(async {
            tokio::select! {
                read = read => read,
                () = write => Ok(()),
            }
        });
        tokio::select! {
            done = &mut work => {
                // Its last words name the cause.
                let _ = timeout(ERROR_DRAIN_TIMEOUT, errors_read).await;
                done
            }
            () = &mut errors_read => work.await,
        }
    };
    let text = errors.text();
    match (ended, text.trim()) {
        (Err(why), _) => format!(": {why}"),
        (Ok(()), "") => String::new(),
        (Ok(()), words) => format!(": {words}"),
    }
}

/// Reads one line of at most `most` bytes; none at the end.
async fn read_reply(
    output: &mut (impl AsyncBufRead + Unpin),
    most: usize,
) -> Result<Option<Vec<u8>>, String> {
    let mut line = Vec::new();
    let mut limited = output.take(u64::try_from(most).unwrap_or(u64::MAX));
    match limited.read_until(b'\n', &mut line).await {
        Ok(0) | Err(_) => Ok(None),
        Ok(read) if read >= most => {
            Err(format!("it wrote a reply of more than {most} bytes, and was ended"))
        }
        Ok(_) => Ok(Some(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reply_without_an_end_is_an_error_and_fills_no_memory() {
        let mut endless = BufReader::new(tokio::io::repeat(b'x'));
        let why = read_reply(&mut endless, 1000).await.unwrap_err();
        assert_eq!(why, "it wrote a reply of more than 1000 bytes, and was ended");
        let mut lines: &[u8] = b"one\ntwo\n";
        assert_eq!(read_reply(&mut lines, 1000).await, Ok(Some(b"one\n".to_vec())));
        assert_eq!(read_reply(&mut lines, 1000).await, Ok(Some(b"two\n".to_vec())));
        assert_eq!(read_reply(&mut lines, 1000).await, Ok(None));
    }
}
