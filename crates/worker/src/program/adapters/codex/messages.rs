//! Messages to the running turn of Codex: a `turn/steer` for each. The response accepts it; an item of the turn with the
//! same client id shows that the model has it.

use std::collections::{HashMap, VecDeque};

use agent_worker_protocol::{Seq, TurnMessage};

use crate::program::conversation::{MessageStep, ProgramStep};

/// Start of the client id of a message; its number follows.
const CLIENT_ID_PREFIX: &str = "message-";

/// The messages of one turn.
#[derive(Default)]
pub(super) struct CodexMessages {
    /// Messages that arrived before the turn had started.
    pub(super) waiting: VecDeque<TurnMessage>,
    /// Messages that the program has not answered, by the id of the request.
    pub(super) sent: HashMap<u64, Seq>,
}

impl CodexMessages {
    /// Interprets the success of a request.
    pub(super) fn accept(&mut self, request: u64) -> Option<ProgramStep> {
        let seq = self.sent.remove(&request)?;
        Some(ProgramStep::Message(MessageStep::Accepted(seq)))
    }

    /// Interprets the error of a request.
    pub(super) fn refuse(&mut self, request: u64) -> Option<ProgramStep> {
        let seq = self.sent.remove(&request)?;
        Some(ProgramStep::Message(MessageStep::Refused(seq)))
    }
}

/// Interprets the client id of an item that contains a message.
pub(super) fn joined(client_id: &str) -> Option<ProgramStep> {
    let number = client_id.strip_prefix(CLIENT_ID_PREFIX)?.parse().ok()?;
    Some(ProgramStep::Message(MessageStep::Joined(Seq::new(number))))
}

/// Returns the client id of a message.
pub(super) fn client_id(seq: Seq) -> String {
    format!("{CLIENT_ID_PREFIX}{seq}")
}
