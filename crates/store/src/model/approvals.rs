//! Requests of agents for a person's approval, and their answers.

use agent_worker_protocol::{
    AgentName, ApprovalId, AttemptId, Consent, Hash, Millis, OnAsk, RunId, Sender, canonical_json,
    hash,
};
use serde_json::Value;

/// A new request for approval.
#[derive(Clone, Debug)]
pub struct NewApproval {
    /// Distinguishes the call from the other calls of its attempt.
    pub call: String,
    /// Name of the tool.
    pub tool: String,
    /// Exact arguments of the call.
    pub args: Value,
    /// Handling of the request while no person is present.
    pub on_ask: OnAsk,
}

/// A request for approval as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Number of the request.
    pub id: ApprovalId,
    /// Run of the request.
    pub run: RunId,
    /// Agent that asked.
    pub agent: AgentName,
    /// The attempt that asked last.
    pub attempt: AttemptId,
    /// Name of the tool.
    pub tool: String,
    /// Exact arguments of the call.
    pub args: Value,
    /// Time of the first request.
    pub asked: Millis,
    /// Answer of a person, if there is one.
    pub answer: Option<ApprovalAnswer>,
}

/// The answer to a request for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalAnswer {
    /// Approved or denied.
    pub consent: Consent,
    /// Reason of the answer, if given.
    pub reason: Option<String>,
    /// Sender of the answer.
    pub by: Sender,
}

/// Selects the requests to list, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalQuery {
    /// Requests of the live run that wait for an answer and whose answer can still be used.
    Open,
    /// The request with this number, in any state.
    One(ApprovalId),
}

impl NewApproval {
    /// Returns a hash that is equal for equal calls.
    pub fn hash(&self) -> Hash {
        hash(&[self.tool.as_bytes(), canonical_json(&self.args).as_bytes()])
    }
}
