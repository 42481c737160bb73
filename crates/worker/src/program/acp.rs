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

use self::client::{Brief, Client, Permit, Question, Step};
use super::{Endpoint, Exit, Invocation, Turn, broken, lines::Lines, pass_on};
use crate::{
    gate::Gate,
    log::Log,
    model::Failure,
    models::Bill,
    report::Report,
    surroundings::{LINGER, Tail},
};

/// How long one that has answered may take to put its things away, once nobody speaks to it any more.
const PARTING: Duration = Duration::from_millis(500);

/// What its program is usually called.
pub(super) fn program_of(agent: AcpAgent) -> &'static str {
    agents::preset(agent).program
}

/// Where it reaches its model, and with which key.
pub(super) fn endpoint_of(agent: AcpAgent, job: &WorkerJob) -> Endpoint {
    agents::reached(agent, job.model.as_deref(), &job.env)
}

/// Who listens, and who is asked.
pub(super) struct Company<'a> {
    pub(super) gate: &'a Gate,
    pub(super) bill: &'a Bill,
    pub(super) report: &'a Report,
    pub(super) log: &'a Log,
    /// The turn is to end.
    pub(super) stopping: &'a CancellationToken,
}

/// Lets an agent do what the job asks for.
pub(super) async fn converse(
    agent: Option<AcpAgent>,
    turn: &Turn<'_>,
    mut command: Command,
    company: &Company<'_>,
) -> Result<String, Failure> {
    let started = match agent {
        Some(agent) => agents::preset(agent).invocation(agent, turn),
        None => Ok((Invocation::default(), None)),
    };
    let (invocation, servers) = started.map_err(broken("write its settings"))?;
    let job = turn.job;
    let cwd = job.cwd.to_string_lossy();
    let client = Client::new(Brief {
        preset: agent.map(agents::preset),
        cwd: &cwd,
        door: turn.door,
        servers,
        system_prompt: &job.system_prompt,
        prompt: &job.prompt,
        session: turn.session.as_ref(),
    });
    let mut child = command
        .args(&invocation.args)
        .envs(&invocation.env)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(broken("start it"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (say, said) = mpsc::unbounded_channel();
    let mut errors = Tail::default();
    let ended = {
        // It need not read what it is told, nor say that it has ended.
        let mut pipes = pin!(async {
            tokio::join!(write(stdin, said), errors.read(stderr, company.report, company.log));
        });
        let mut talk = pin!(Talk::new(client, say, company).run(stdout));
        let ended = tokio::select! {
            ended = &mut talk => ended,
            never = async { (&mut pipes).await; std::future::pending().await } => never,
            // What it wrote itself is in the pipe already.
            _ = child.wait() => timeout(LINGER, &mut talk).await.ok().flatten(),
        };
        let parting = async { tokio::join!(pipes, child.wait()).1 };
        match ended {
            Some(ended) => {
                // Whoever does not go by itself is ended with its tree.
                let _ = timeout(PARTING, parting).await;
                Ok(ended)
            }
            None => Err(timeout(LINGER, parting).await),
        }
    };
    match ended {
        Ok(ended) => ended,
        Err(Ok(status)) => Err(wordless(status.map_err(broken("wait for it"))?, &errors)),
        Err(Err(_)) => match child.try_wait() {
            Ok(Some(status)) => Err(wordless(status, &errors)),
            Ok(None) | Err(_) => Err(Failure::new(FailureClass::Crash, "it has stopped talking")),
        },
    }
}

fn wordless(status: ExitStatus, errors: &Tail) -> Failure {
    Exit { status, complaint: errors.text() }.wordless()
}

/// Writes what it is told, until there is nothing more to tell. One that does not read it shows that by its end.
async fn write(stdin: Option<ChildStdin>, mut said: mpsc::UnboundedReceiver<Value>) {
    let Some(mut stdin) = stdin else { return };
    while let Some(message) = said.recv().await {
        if stdin.write_all(format!("{message}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A conversation that goes on.
struct Talk<'a> {
    client: Client<'a>,
    say: mpsc::UnboundedSender<Value>,
    /// What it waits to be allowed.
    asked: JoinSet<(Question, Permit)>,
    company: &'a Company<'a>,
}

impl<'a> Talk<'a> {
    fn new(
        client: Client<'a>,
        say: mpsc::UnboundedSender<Value>,
        company: &'a Company<'a>,
    ) -> Self {
        Self { client, say, asked: JoinSet::new(), company }
    }

    /// Talks to its end. None if it fell silent before.
    async fn run(mut self, stdout: Option<ChildStdout>) -> Option<Result<String, Failure>> {
        let mut lines = Lines::new(stdout);
        let mut is_stopping = false;
        let first = self.client.begin();
        self.tell(first);
        loop {
            tokio::select! {
                line = lines.next() => {
                    self.company.report.touch();
                    for step in self.client.hear(&line?) {
                        if let Some(ended) = self.take(step) {
                            return Some(ended);
                        }
                    }
                }
                Some(Ok((question, permit))) = self.asked.join_next() => {
                    let answer = self.client.decided(question, permit);
                    self.tell(answer);
                }
                () = self.company.stopping.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    self.asked.shutdown().await;
                    let last = self.client.cancel();
                    if last.is_empty() {
                        return Some(Err(Failure::new(FailureClass::Fatal, "it was stopped")));
                    }
                    for message in last {
                        self.tell(message);
                    }
                }
            }
        }
    }

    fn take(&mut self, step: Step) -> Option<Result<String, Failure>> {
        let Company { gate, bill, report, log, .. } = self.company;
        match step {
            Step::Pass(heard) => pass_on(vec![heard], bill, report, log).err().map(Err),
            Step::Write(message) => {
                self.tell(message);
                None
            }
            Step::Ask(mut question) => {
                let gate = (*gate).clone();
                // An agent may give the same number twice.
                question.request.call = gate.next_call();
                self.asked.spawn(async move {
                    let permit = match gate.permit(&question.request).await {
                        Ok(()) => Permit::Once,
                        // The protocol has no words for why.
                        Err(_) => Permit::No,
                    };
                    (question, permit)
                });
                None
            }
            Step::End(ended) => Some(ended),
        }
    }

    fn tell(&self, message: Value) {
        // Who is gone shows that by its end.
        let _ = self.say.send(message);
    }
}
