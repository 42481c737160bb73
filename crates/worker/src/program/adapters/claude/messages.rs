//! Messages to the running turn of Claude Code: a line of its input stream for each, with an id. The program reports for
//! that id that the message is queued, and later that the model has it: in the running turn while the model still calls
//! tools, else in a further turn of the same process, which has a result of its own.

use std::collections::HashMap;

use agent_worker_protocol::{AttemptId, Seq};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::program::conversation::{MessageStep, ProgramStep};

/// The messages to one process.
#[derive(Default)]
pub(super) struct ClaudeMessages {
    /// The attempt, which makes ids unique: the program may ignore an id that its conversation has.
    attempt: Uuid,
    /// Messages that the model does not have yet, by their ids.
    open: HashMap<Uuid, Seq>,
}

impl ClaudeMessages {
    pub(super) fn new(attempt: AttemptId) -> Self {
        Self { attempt: attempt.get(), open: HashMap::new() }
    }

    /// Returns the line for a message.
    pub(super) fn send(&mut self, seq: Seq, content: &Value) -> ProgramStep {
        let id = Uuid::from_u128(self.attempt.as_u128() ^ u128::from(seq.get().unsigned_abs()));
        self.open.insert(id, seq);
        ProgramStep::Send(user_line(Some(id), content))
    }

    /// Interprets a report about the message with this id.
    pub(super) fn handle_report(&mut self, id: Uuid, state: &str) -> Option<ProgramStep> {
        let step = match state {
            "queued" => MessageStep::Accepted(*self.open.get(&id)?),
            "started" => MessageStep::Joined(self.open.remove(&id)?),
            "cancelled" => MessageStep::Refused(self.open.remove(&id)?),
            _ => return None,
        };
        Some(ProgramStep::Message(step))
    }

    /// Returns true if the program has a message that its model does not have.
    pub(super) fn is_any_open(&self) -> bool {
        !self.open.is_empty()
    }
}

/// Returns a line of the program's input stream.
pub(super) fn user_line(id: Option<Uuid>, content: &Value) -> Value {
    let mut line = json!({"type": "user", "message": {"role": "user", "content": content}});
    if let Some(id) = id {
        line["uuid"] = json!(id);
    }
    line
}
