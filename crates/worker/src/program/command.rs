//! Any executable: the turn as JSON on its stdin, the team's tools at a URL in its environment.
//!
//! It writes what it likes. Lines that are events of ours are taken as such; of the others the last one is its answer,
//! unless it says `finished` itself.

use std::io;

use agent_worker_protocol::{
    AgentName, FailureClass, Finished, InstanceRef, Millis, Usage, WorkerJob, WorkerOutcome,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Exit, Heard, Invocation, Turn, Vendor, Verdict};
use crate::{model::Failure, text::start};

const TOOLS_URL: &str = "AGENT_WORKER_MCP_URL";
const TOOLS_TOKEN: &str = "AGENT_WORKER_MCP_TOKEN";
/// What programs exit with when it may work later (`EX_TEMPFAIL`).
const LATER: i32 = 75;

/// What it has said so far.
#[derive(Default)]
pub(super) struct Executable {
    last_line: String,
    finished: Option<Finished>,
}

/// What it reads.
#[derive(Serialize)]
struct Task<'a> {
    agent: &'a AgentName,
    instance: &'a InstanceRef,
    /// The same for every try: a key for what it does outside.
    activation: &'a str,
    /// From 1.
    attempt: u32,
    system_prompt: &'a str,
    prompt: &'a str,
    /// What woke it, alone.
    woken_by: &'a str,
    model: Option<&'a str>,
    /// What it said itself in its last turn that ended well.
    session: Option<&'a Value>,
}

/// What it may write.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Text { text: String },
    Usage(Usage),
    Session { session: Value },
    Retry { why: String },
    Finished(Last),
}

/// The kinds of these.
const KINDS: [&str; 5] = ["text", "usage", "session", "retry", "finished"];

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ok,
    Failed,
}

/// Its last word. Without an outcome it is done.
#[derive(Deserialize)]
struct Last {
    #[serde(default)]
    text: String,
    #[serde(default)]
    outcome: Option<Outcome>,
    class: Option<FailureClass>,
    #[serde(default)]
    why: String,
    retry_at: Option<Millis>,
}

impl Vendor for Executable {
    fn invocation(&self, turn: &Turn<'_>) -> io::Result<Invocation> {
        let WorkerJob {
            agent,
            instance,
            activation,
            number,
            system_prompt,
            prompt,
            woken_by,
            model,
            ..
        } = turn.job;
        let task = Task {
            agent,
            instance,
            activation,
            attempt: *number,
            system_prompt,
            prompt,
            woken_by,
            model: model.as_deref(),
            session: turn.session.as_ref(),
        };
        let stdin = serde_json::to_string(&task)? + "\n";
        let mut invocation = Invocation { stdin, ..Invocation::default() };
        invocation.env(TOOLS_URL, &turn.door.url);
        invocation.env(TOOLS_TOKEN, &turn.door.token);
        Ok(invocation)
    }

    fn hear(&mut self, line: &str) -> Vec<Heard> {
        let event = serde_json::from_str::<Value>(line).ok();
        let Some(event) = event.filter(|event| KINDS.iter().any(|kind| event["kind"] == *kind))
        else {
            if !line.trim().is_empty() {
                line.clone_into(&mut self.last_line);
            }
            return vec![Heard::Text(format!("{line}\n"))];
        };
        match serde_json::from_value(event) {
            Ok(Line::Text { text }) => vec![Heard::Text(text)],
            Ok(Line::Usage(usage)) => vec![Heard::Usage(usage)],
            Ok(Line::Session { session }) => vec![Heard::Session(session)],
            Ok(Line::Retry { why }) => vec![Heard::Retry(why)],
            Ok(Line::Finished(last)) => {
                self.finished = Some(last.finished());
                Vec::new()
            }
            // A failure that is not understood must not pass for an answer.
            Err(error) => {
                let why =
                    format!("an event it wrote was not understood: {error}: {}", start(line, 200));
                vec![Heard::GaveUp(Failure::new(FailureClass::Fatal, why))]
            }
        }
    }

    fn verdict(&mut self, exit: &Exit) -> Verdict {
        let failed = |class, why| Verdict::Failed(Failure::new(class, why));
        match (self.finished.take(), exit.status.code()) {
            (Some(Finished { text, outcome: WorkerOutcome::Ok }), Some(0)) => {
                Verdict::Answered(text)
            }
            (Some(Finished { outcome: WorkerOutcome::Failed { class, why, retry_at }, .. }), _) => {
                Verdict::Failed(Failure { retry_at, ..Failure::new(class, why) })
            }
            (None, Some(0)) => Verdict::Answered(std::mem::take(&mut self.last_line)),
            (_, Some(LATER)) => failed(FailureClass::Transient, exit.words()),
            (_, _) => failed(FailureClass::Fatal, exit.words()),
        }
    }

    fn needs_tools(&self) -> bool {
        false
    }
}

impl Last {
    fn finished(self) -> Finished {
        let Self { text, outcome, class, why, retry_at } = self;
        let outcome = match outcome {
            None | Some(Outcome::Ok) => WorkerOutcome::Ok,
            Some(Outcome::Failed) => WorkerOutcome::Failed {
                class: class.unwrap_or(FailureClass::Fatal),
                why: if why.is_empty() { text.clone() } else { why },
                retry_at,
            },
        };
        Finished { text, outcome }
    }
}
