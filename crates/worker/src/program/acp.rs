//! Agents of the Agent Client Protocol: JSON-RPC on a program's stdin and stdout, one message a line.
//!
//! One process has one conversation and one prompt. What it asks permission for goes to the daemon (`gate.rs`) and is
//! waited for while it goes on talking. The protocol itself is in `client.rs`, pure; what differs between agents is data,
//! in `agents.rs`.

mod agents;
mod call;
mod client;
mod failure;
#[cfg(test)]
mod tests;
mod usage;

use std::{
    pin::pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use agent_worker_protocol::{AcpAgent, FailureClass, WorkerJob};
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt as _,
    process::{ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use self::client::{AcpClient, AcpPermitDecision, AcpPermitQuestion, AcpStep, AcpTurnInput};
use super::{
    BackendInvocation, ModelEndpoint, ProgramExit, ProgramTurn, io_failure,
    line_reader::ProgramLineReader, report_events,
};
use crate::{
    approval_gate::ToolApprovalGate,
    child_env::{OutputTail, PIPE_DRAIN_TIMEOUT},
    event_reporter::EventReporter,
    model::TurnFailure,
    model_table::PricingContext,
    worker_log::WorkerLog,
};

/// How long one that has answered may take to put its things away, once nobody speaks to it any more.
const EXIT_GRACE: Duration = Duration::from_millis(500);

/// What its program is usually called.
pub(super) fn default_program(agent: AcpAgent) -> &'static str {
    agents::preset(agent).program
}

/// Where it reaches its model, and with which key.
pub(super) fn model_endpoint(agent: AcpAgent, job: &WorkerJob) -> ModelEndpoint {
    agents::model_endpoint(agent, job.model.as_deref(), &job.env)
}

/// Who listens, and who is asked.
pub(super) struct AcpContext<'a> {
    pub(super) gate: &'a ToolApprovalGate,
    pub(super) pricing: &'a PricingContext,
    pub(super) report: &'a EventReporter,
    pub(super) log: &'a WorkerLog,
    /// The turn is to end.
    pub(super) stopping: &'a CancellationToken,
}

/// Lets an agent do what the job asks for.
pub(super) async fn run_agent(
    agent: Option<AcpAgent>,
    turn: &ProgramTurn<'_>,
    mut command: Command,
    context: &AcpContext<'_>,
) -> Result<String, TurnFailure> {
    let started = match agent {
        Some(agent) => agents::preset(agent).invocation(agent, turn),
        None => Ok((BackendInvocation::default(), None)),
    };
    let (invocation, servers) = started.map_err(io_failure("write its settings"))?;
    let job = turn.job;
    let cwd = job.cwd.to_string_lossy();
    let client = AcpClient::new(AcpTurnInput {
        preset: agent.map(agents::preset),
        cwd: &cwd,
        tool_server: turn.tool_server,
        tools_file: servers,
        system_prompt: &job.system_prompt,
        prompt: &job.prompt,
        session: turn.session.as_ref(),
    });
    let mut child = command
        .args(&invocation.args)
        .envs(&invocation.env)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(io_failure("start it"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (say, said) = mpsc::unbounded_channel();
    let mut errors = OutputTail::default();
    let ended = {
        // It need not read what it is told, nor say that it has ended.
        let mut pipes = pin!(async {
            tokio::join!(
                write_messages(stdin, said),
                errors.read(stderr, context.report, context.log)
            );
        });
        let mut talk = pin!(AcpConversation::new(client, say, context).run(stdout));
        let ended = tokio::select! {
            ended = &mut talk => ended,
            never = async { (&mut pipes).await; std::future::pending().await } => never,
            // What it wrote itself is in the pipe already.
            _ = child.wait() => timeout(PIPE_DRAIN_TIMEOUT, &mut talk).await.ok().flatten(),
        };
        let parting = async { tokio::join!(pipes, child.wait()).1 };
        match ended {
            Some(ended) => {
                // Whoever does not go by itself is ended with its tree.
                let _ = timeout(EXIT_GRACE, parting).await;
                Ok(ended)
            }
            None => Err(timeout(PIPE_DRAIN_TIMEOUT, parting).await),
        }
    };
    match ended {
        Ok(ended) => ended,
        Err(Ok(status)) => Err(crash_failure(status.map_err(io_failure("wait for it"))?, &errors)),
        Err(Err(_)) => match child.try_wait() {
            Ok(Some(status)) => Err(crash_failure(status, &errors)),
            Ok(None) | Err(_) => {
                Err(TurnFailure::new(FailureClass::Crash, "it has stopped talking"))
            }
        },
    }
}

fn crash_failure(status: ExitStatus, errors: &OutputTail) -> TurnFailure {
    ProgramExit { status, stderr_tail: errors.text() }.crash_failure()
}

/// Writes what it is told, until there is nothing more to tell. One that does not read it shows that by its end.
async fn write_messages(stdin: Option<ChildStdin>, mut said: mpsc::UnboundedReceiver<Value>) {
    let Some(mut stdin) = stdin else { return };
    while let Some(message) = said.recv().await {
        if stdin.write_all(format!("{message}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A conversation that goes on.
struct AcpConversation<'a> {
    client: AcpClient<'a>,
    outgoing: mpsc::UnboundedSender<Value>,
    /// What it waits to be allowed.
    open_permits: JoinSet<(AcpPermitQuestion, AcpPermitDecision)>,
    context: &'a AcpContext<'a>,
}

impl<'a> AcpConversation<'a> {
    fn new(
        client: AcpClient<'a>,
        outgoing: mpsc::UnboundedSender<Value>,
        context: &'a AcpContext<'a>,
    ) -> Self {
        Self { client, outgoing, open_permits: JoinSet::new(), context }
    }

    /// Talks to its end. None if it fell silent before.
    async fn run(mut self, stdout: Option<ChildStdout>) -> Option<Result<String, TurnFailure>> {
        let mut lines = ProgramLineReader::new(stdout);
        let mut is_stopping = false;
        let first = self.client.initialize_request();
        self.send_message(first);
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    self.context.report.touch();
                    for step in self.client.handle_line(&line?) {
                        if let Some(ended) = self.perform_step(step) {
                            return Some(ended);
                        }
                    }
                }
                Some(Ok((question, permit))) = self.open_permits.join_next() => {
                    let answer = self.client.permit_response(question, permit);
                    self.send_message(answer);
                }
                () = self.context.stopping.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    self.open_permits.shutdown().await;
                    let last = self.client.cancel_messages();
                    if last.is_empty() {
                        return Some(Err(TurnFailure::new(FailureClass::Fatal, "it was stopped")));
                    }
                    for message in last {
                        self.send_message(message);
                    }
                }
            }
        }
    }

    fn perform_step(&mut self, step: AcpStep) -> Option<Result<String, TurnFailure>> {
        let AcpContext { gate, pricing, report, log, .. } = self.context;
        match step {
            AcpStep::Report(heard) => {
                report_events(vec![heard], pricing, report, log).err().map(Err)
            }
            AcpStep::Send(message) => {
                self.send_message(message);
                None
            }
            AcpStep::RequestPermit(mut question) => {
                let gate = (*gate).clone();
                // An agent may give the same number twice.
                question.request.call = gate.next_call_id();
                self.open_permits.spawn(async move {
                    let permit = match gate.request_permit(&question.request).await {
                        Ok(()) => AcpPermitDecision::AllowOnce,
                        // The protocol has no words for why.
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
        // Who is gone shows that by its end.
        let _ = self.outgoing.send(message);
    }
}
