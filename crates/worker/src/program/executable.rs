//! Any executable: the turn as JSON on its stdin, the team's tools at a URL in its environment.
//!
//! The executable may write anything. Lines in the worker's event format are events; the last of the other lines is
//! the answer, unless the executable writes `finished` itself.

use std::{io, path::Path};

use agent_worker_protocol::{
    AgentName, FailureClass, Finished, InstanceRef, Millis, Usage, WorkerOutcome,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ProgramAdapter, ProgramEvent, ProgramExit, ProgramInvocation, ProgramOutcome, ProgramTurn,
    private_files,
};
use crate::{
    attachments::AttachedFile,
    truncation::truncate,
    turn::{TurnContext, TurnFailure, TurnIdentity, TurnRequest},
};

const TOOLS_URL: &str = "AGENT_WORKER_MCP_URL";
/// Variable with the path of the file that contains the token: every process of the user can read an environment for as long
/// as the program runs.
const TOOLS_TOKEN_FILE: &str = "AGENT_WORKER_MCP_TOKEN_FILE";
/// Exit status for "try again later" (`EX_TEMPFAIL`).
const EXIT_TEMPFAIL: i32 = 75;

/// State of reading the program's output.
#[derive(Default)]
pub(super) struct Executable {
    last_line: String,
    finished: Option<Finished>,
}

/// The input on stdin.
#[derive(Serialize)]
struct ExecutableInput<'a> {
    agent: &'a AgentName,
    instance: &'a InstanceRef,
    /// The activation, the same for every attempt: a key for effects outside the daemon.
    activation: &'a str,
    /// Number of the attempt, from 1.
    attempt: u32,
    system_prompt: &'a str,
    prompt: &'a str,
    /// The bodies of the messages that woke the agent, without the rest of the prompt.
    woken_by: &'a str,
    model: Option<&'a str>,
    /// The session that the executable wrote in its last successful turn.
    session: Option<&'a Value>,
    /// JSON Schema of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a Value>,
    /// Files that came with the messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<ExecutableAttachment<'a>>,
}

/// A file that came with a message.
#[derive(Serialize)]
struct ExecutableAttachment<'a> {
    name: &'a str,
    media_type: &'a str,
    path: &'a Path,
}

impl<'a> From<&'a AttachedFile> for ExecutableAttachment<'a> {
    fn from(file: &'a AttachedFile) -> Self {
        let AttachedFile { name, media_type, path, .. } = file;
        Self { name, media_type, path }
    }
}

/// The events that an executable may write.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum ExecutableEvent {
    Text { text: String },
    Usage(Usage),
    Session { session: Value },
    Retry { why: String },
    Finished(ExecutableFinished),
}

/// Values of `kind` in these events.
const EVENT_KINDS: [&str; 5] = ["text", "usage", "session", "retry", "finished"];

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ExecutableOutcome {
    Ok,
    Failed,
}

/// The final event. Without an outcome the turn succeeded.
#[derive(Deserialize)]
struct ExecutableFinished {
    #[serde(default)]
    text: String,
    #[serde(default)]
    outcome: Option<ExecutableOutcome>,
    class: Option<FailureClass>,
    #[serde(default)]
    why: String,
    retry_at: Option<Millis>,
}

impl ProgramAdapter for Executable {
    fn invocation(&mut self, turn: &ProgramTurn<'_>) -> io::Result<ProgramInvocation> {
        let TurnContext { identity, request, folders, .. } = turn.context;
        let TurnIdentity { agent, instance, activation, attempt, attempt_id: _ } = identity;
        let TurnRequest { system_prompt, prompt, woken_by, model, attachments, .. } = request;
        let task = ExecutableInput {
            agent,
            instance,
            activation,
            attempt: *attempt,
            system_prompt,
            prompt,
            woken_by,
            model: model.as_deref(),
            session: turn.session.as_ref(),
            output_schema: turn.context.answer_schema.as_ref().map(|it| it.schema()),
            attachments: attachments.iter().map(ExecutableAttachment::from).collect(),
        };
        let stdin = serde_json::to_string(&task)? + "\n";
        let mut invocation = ProgramInvocation { stdin, ..ProgramInvocation::default() };
        invocation.env(TOOLS_URL, &turn.tool_server.url);
        let file = private_files::write_private_file(
            &folders.attempt,
            "mcp.token",
            &turn.tool_server.token,
        )?;
        invocation.env(TOOLS_TOKEN_FILE, &file);
        Ok(invocation)
    }

    fn parse_line(&mut self, line: &str) -> Vec<ProgramEvent> {
        let event = serde_json::from_str::<Value>(line).ok();
        let Some(event) =
            event.filter(|event| EVENT_KINDS.iter().any(|kind| event["kind"] == *kind))
        else {
            if !line.trim().is_empty() {
                line.clone_into(&mut self.last_line);
            }
            return vec![ProgramEvent::Text(format!("{line}\n"))];
        };
        match serde_json::from_value(event) {
            Ok(ExecutableEvent::Text { text }) => vec![ProgramEvent::Text(text)],
            Ok(ExecutableEvent::Usage(usage)) => vec![ProgramEvent::Usage(usage)],
            Ok(ExecutableEvent::Session { session }) => vec![ProgramEvent::Session(session)],
            Ok(ExecutableEvent::Retry { why }) => vec![ProgramEvent::Retry(why)],
            Ok(ExecutableEvent::Finished(last)) => {
                self.finished = Some(last.into_finished());
                Vec::new()
            }
            // An event that cannot be parsed may be a failure, which must not count as an answer.
            Err(error) => {
                let why =
                    format!("the program wrote an invalid event: {error}: {}", truncate(line, 200));
                vec![ProgramEvent::GaveUp(TurnFailure::new(FailureClass::Fatal, why))]
            }
        }
    }

    fn outcome(&mut self, exit: &ProgramExit) -> ProgramOutcome {
        let failed = |class, why| ProgramOutcome::Failed(TurnFailure::new(class, why));
        match (self.finished.take(), exit.status.code()) {
            (Some(Finished { text, outcome: WorkerOutcome::Ok, .. }), Some(0)) => {
                ProgramOutcome::Answered(text)
            }
            (Some(Finished { outcome: WorkerOutcome::Failed { class, why, retry_at }, .. }), _) => {
                ProgramOutcome::Failed(TurnFailure { retry_at, ..TurnFailure::new(class, why) })
            }
            (None, Some(0)) => ProgramOutcome::Answered(std::mem::take(&mut self.last_line)),
            (_, Some(EXIT_TEMPFAIL)) => failed(FailureClass::Transient, exit.description()),
            (_, _) => failed(FailureClass::Fatal, exit.description()),
        }
    }
}

impl ExecutableFinished {
    fn into_finished(self) -> Finished {
        let Self { text, outcome, class, why, retry_at } = self;
        let outcome = match outcome {
            None | Some(ExecutableOutcome::Ok) => WorkerOutcome::Ok,
            Some(ExecutableOutcome::Failed) => WorkerOutcome::Failed {
                class: class.unwrap_or(FailureClass::Fatal),
                why: if why.is_empty() { text.clone() } else { why },
                retry_at,
            },
        };
        Finished { text, outcome, session: None }
    }
}
