//! Agents of the Agent Client Protocol: JSON-RPC on a program's stdin and stdout, one message per line.
//!
//! One process has one conversation and one prompt. Permission requests go to the daemon (`approval_gate.rs`); the
//! agent may continue to write while they are open. `client.rs` implements the protocol, as pure code; the
//! differences between agents are data, in the registry and in `preset.rs`.

mod call;
mod client;
mod failure;
mod message;
mod notice;
mod permit;
mod preset;
#[cfg(test)]
mod tests;
mod turn_input;
mod usage;

use std::{
    io,
    path::Path,
    pin::pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use agent_worker_protocol::{Acp, FailureClass};
use async_trait::async_trait;
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, error::Elapsed, sleep_until, timeout},
};

use self::{
    client::{AcpClient, AcpStep},
    permit::{AcpPermitDecision, AcpPermitQuestion},
    preset::AcpPreset,
    turn_input::AcpTurnInput,
};
use super::{
    ModelEndpoint, ProgramExit, ProgramInvocation, ProgramTurn,
    event_recorder::EventRecorder,
    io_failure,
    launch::{ProgramLaunch, open_tool_server, serve_tools, start_failure},
    line_reader::ProgramLineReader,
    stream_errors::{StreamErrorStep, StreamErrors},
    unknown_backend,
};
use crate::{
    attachments::{attachment_folder, inline_images},
    backend::AgentBackend,
    child_env::{OutputTail, PIPE_DRAIN_TIMEOUT},
    pricing::PricingContext,
    turn::{TurnAnswer, TurnContext, TurnFailure},
};

/// Maximum length of a line of the log that is interpreted.
const MAX_LOG_LINE_BYTES: usize = 64 * 1024;
/// Grace period for an agent to exit by itself after its answer.
const EXIT_GRACE: Duration = Duration::from_millis(500);

/// Runs an agent of the Agent Client Protocol as one process per turn.
pub(crate) struct AcpBackend {
    launch: ProgramLaunch,
    /// The preset, for an agent with a row in the registry.
    preset: Option<AcpPreset>,
}

impl AcpBackend {
    /// Returns the backend of an agent. Fails for a name that this version does not know.
    pub(crate) fn new(acp: &Acp) -> Result<Self, TurnFailure> {
        let Acp { agent, command, mode, session } = acp;
        let preset = match agent {
            Some(agent) => {
                Some(AcpPreset::find(agent.word()).ok_or_else(|| unknown_backend(agent.word()))?)
            }
            None => None,
        };
        let usual = preset.map(|preset| preset.spec.program);
        let launch = ProgramLaunch::new(command, usual.as_slice(), *mode, *session)
            .with_agent(preset.map(|preset| preset.spec.name));
        Ok(Self { launch, preset })
    }

    async fn run(&self, context: &TurnContext) -> Result<TurnAnswer, TurnFailure> {
        let path = self.launch.resolve_path(&context.child_env)?;
        let tools = context.until_cancelled(open_tool_server(context)).await?;
        let (tool_server, gate) = (tools.endpoint.clone(), tools.gate_endpoint.clone());
        let spec = self.preset.map(|preset| preset.spec);
        let model = spec.and_then(|spec| spec.model_name(context.request.model.as_deref()));
        let variables = spec.map(|spec| spec.endpoint.variables(model.as_deref()));
        let endpoint =
            ModelEndpoint::from_env(&variables.unwrap_or_default(), &context.child_env.env);
        let turn = ProgramTurn {
            context,
            model,
            mode: self.launch.mode_for(&endpoint),
            endpoint,
            tool_server: &tool_server,
            gate: &gate,
            session: self.launch.session(context),
        };
        let (command, sandbox) = self.launch.sandboxed_command(&path, &turn)?;
        let work = async {
            let run = run_agent(self.preset, &turn, command);
            let answer = match sandbox {
                Some(sandbox) => Box::pin(sandbox.run(&context.reporter, run)).await,
                None => run.await,
            };
            answer.map(TurnAnswer::from)
        };
        let served = serve_tools(tools, context, work).await;
        served.require_tool_listing(self.launch.name())
    }
}

#[async_trait]
impl AgentBackend for AcpBackend {
    /// Runs one turn. A cancelled agent gets `session/cancel` and may still report its usage.
    async fn turn(&mut self, turn: TurnContext) -> Result<TurnAnswer, TurnFailure> {
        self.run(&turn).await
    }
}

/// Starts the agent, holds the conversation and waits for the process.
async fn run_agent(
    preset: Option<AcpPreset>,
    turn: &ProgramTurn<'_>,
    mut command: Command,
) -> Result<String, TurnFailure> {
    let started = match preset {
        Some(preset) => preset.invocation(turn),
        None => Ok((ProgramInvocation::default(), None)),
    };
    let (invocation, servers) = started.map_err(io_failure("write the agent's settings"))?;
    let TurnContext { request, child_env, .. } = turn.context;
    let cwd = child_env.cwd.to_string_lossy();
    let images =
        inline_images(&request.attachments).map_err(io_failure("read an attached image"))?;
    let folder = attachment_folder(&request.attachments).map(Path::to_string_lossy);
    let client = AcpClient::new(AcpTurnInput {
        preset,
        cwd: &cwd,
        tool_server: turn.tool_server,
        tools_file: servers,
        system_prompt: &request.system_prompt,
        prompt: &request.prompt,
        images: &images,
        attachment_folder: folder.as_deref(),
        session: turn.session.as_ref(),
    });
    command.args(&invocation.args).envs(&invocation.env).stdin(Stdio::piped());
    let mut child = command.spawn().map_err(start_failure(&command))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (say, said) = mpsc::unbounded_channel();
    let mut errors = OutputTail::default();
    let (send_log, log) = mpsc::unbounded_channel();
    let is_watched = preset.is_some_and(|preset| preset.hooks.logs_stream_errors);
    let ended = {
        // The agent may ignore its input and may leave stderr open after its end.
        let mut pipes = pin!(async {
            tokio::join!(
                write_messages(stdin, said),
                errors.read_and_watch(stderr, &turn.context.reporter, &turn.context.log, |piece| {
                    // A conversation that has ended needs no log.
                    let _ = if is_watched { send_log.send(piece.to_vec()) } else { Ok(()) };
                })
            );
        });
        let mut conversation =
            pin!(AcpConversation::new(client, say, log, turn.context).run(stdout));
        let ended = tokio::select! {
            ended = &mut conversation => ended,
            never = async { (&mut pipes).await; std::future::pending().await } => never,
            // The pipe already holds everything that the agent itself wrote.
            _ = child.wait() => timeout(PIPE_DRAIN_TIMEOUT, &mut conversation).await.ok().flatten(),
        };
        let parting = async { tokio::join!(pipes, child.wait()).1 };
        match ended {
            Some(ended) => {
                // An agent that does not exit by itself is ended with its process tree.
                let _ = timeout(EXIT_GRACE, parting).await;
                Ok(ended)
            }
            None => Err(timeout(PIPE_DRAIN_TIMEOUT, parting).await),
        }
    };
    ended.unwrap_or_else(|exited| Err(exit_failure(exited, &mut child, &errors)))
}

/// Returns the failure of an agent whose output ended before its turn.
fn exit_failure(
    exited: Result<io::Result<ExitStatus>, Elapsed>,
    child: &mut Child,
    errors: &OutputTail,
) -> TurnFailure {
    match exited {
        Ok(Ok(status)) => crash_failure(status, errors),
        Ok(Err(error)) => io_failure("wait for the agent")(error),
        Err(_) => match child.try_wait() {
            Ok(Some(status)) => crash_failure(status, errors),
            Ok(None) | Err(_) => output_closed(),
        },
    }
}

fn output_closed() -> TurnFailure {
    TurnFailure::new(FailureClass::Crash, "the agent closed its output before the end of its turn")
}

fn crash_failure(status: ExitStatus, errors: &OutputTail) -> TurnFailure {
    let stderr_tail = errors.text();
    ProgramExit { status, stderr_tail, ended_after_result: false }.crash_failure()
}

/// Writes messages until the channel closes. An agent that does not read them shows that by its outcome.
async fn write_messages(stdin: Option<ChildStdin>, mut said: mpsc::UnboundedReceiver<Value>) {
    let Some(mut stdin) = stdin else { return };
    while let Some(message) = said.recv().await {
        if stdin.write_all(format!("{message}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A conversation with a running agent.
struct AcpConversation<'a> {
    client: AcpClient<'a>,
    outgoing: mpsc::UnboundedSender<Value>,
    /// Permission requests that are not decided yet.
    open_permits: JoinSet<(AcpPermitQuestion, AcpPermitDecision)>,
    context: &'a TurnContext,
    recorder: EventRecorder<'a>,
    /// Pieces of the agent's log, if it must be watched, and the incomplete last line.
    log: mpsc::UnboundedReceiver<Vec<u8>>,
    log_rest: Vec<u8>,
    stream_errors: StreamErrors,
}

impl<'a> AcpConversation<'a> {
    fn new(
        client: AcpClient<'a>,
        outgoing: mpsc::UnboundedSender<Value>,
        log: mpsc::UnboundedReceiver<Vec<u8>>,
        context: &'a TurnContext,
    ) -> Self {
        // Events of this protocol never need a list price.
        let recorder = EventRecorder::new(context, PricingContext::default());
        Self {
            client,
            outgoing,
            open_permits: JoinSet::new(),
            context,
            recorder,
            log,
            log_rest: Vec::new(),
            stream_errors: StreamErrors::default(),
        }
    }

    /// Runs the conversation to its end. Returns `None` if the output ended before that.
    async fn run(mut self, stdout: Option<ChildStdout>) -> Option<Result<String, TurnFailure>> {
        let mut lines = ProgramLineReader::new(stdout);
        let mut is_stopping = false;
        let first = self.client.initialize_request();
        self.send_message(first);
        loop {
            let limit = self.stream_errors.wait_limit();
            let until = limit.as_ref().map_or_else(Instant::now, |(until, _)| *until);
            tokio::select! {
                line = lines.next_line() => {
                    self.context.reporter.touch();
                    self.stream_errors.reset();
                    for step in self.client.handle_line(&line?) {
                        if let Some(ended) = self.perform_step(step) {
                            return Some(ended);
                        }
                    }
                }
                Some(Ok((question, permit))) = self.open_permits.join_next() => {
                    let permitted = self.client.permitted_call(&question, permit);
                    let failed = permitted.and_then(|call| self.recorder.record(call).err());
                    if let Some(failure) = failed {
                        return Some(Err(failure));
                    }
                    let answer = self.client.permit_response(question, permit);
                    self.send_message(answer);
                }
                Some(piece) = self.log.recv() => {
                    if let Err(failure) = self.read_log(&piece) {
                        return Some(Err(failure));
                    }
                }
                () = sleep_until(until), if limit.is_some() => {
                    return limit.map(|(_, failure)| Err(failure));
                }
                () = self.context.cancelled.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    self.open_permits.shutdown().await;
                    let last = self.client.cancel_messages();
                    if last.is_empty() {
                        return Some(Err(TurnFailure::cancelled()));
                    }
                    for message in last {
                        self.send_message(message);
                    }
                }
            }
        }
    }

    /// Interprets the complete lines of the log.
    fn read_log(&mut self, piece: &[u8]) -> Result<(), TurnFailure> {
        self.log_rest.extend_from_slice(piece);
        while let Some(end) = self.log_rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.log_rest.drain(..=end).collect();
            match self.stream_errors.note_line(String::from_utf8_lossy(&line).trim_end()) {
                Some(StreamErrorStep::Retry(event)) => self.recorder.record(event)?,
                Some(StreamErrorStep::GiveUp(failure)) => return Err(failure),
                Some(StreamErrorStep::First) | None => {}
            }
        }
        // No line of interest is longer.
        if self.log_rest.len() > MAX_LOG_LINE_BYTES {
            self.log_rest.clear();
        }
        Ok(())
    }

    fn perform_step(&mut self, step: AcpStep) -> Option<Result<String, TurnFailure>> {
        match step {
            AcpStep::Report(event) => self.recorder.record(event).err().map(Err),
            AcpStep::Send(message) => {
                self.send_message(message);
                None
            }
            AcpStep::RequestPermit(mut question) => {
                let gate = self.context.approvals.clone();
                // An agent may give two calls the same id.
                question.request.call = gate.next_call_id();
                self.open_permits.spawn(async move {
                    let permit = match gate.request_permit(&question.request).await {
                        Ok(()) => AcpPermitDecision::AllowOnce,
                        // The protocol has no field for the reason.
                        Err(_) => AcpPermitDecision::Reject,
                    };
                    (question, permit)
                });
                None
            }
            AcpStep::End(ended) => Some(ended),
        }
    }

    fn send_message(&self, message: Value) {
        // An agent that is gone shows that by its exit.
        let _ = self.outgoing.send(message);
    }
}
