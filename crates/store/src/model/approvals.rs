//! What agents ask a person for before they do it, and what is said to that.

use agent_worker_protocol::{
    AgentName, ApprovalId, AttemptId, Consent, Hash, Millis, OnAsk, RunId, Sender, canonical_json,
    hash,
};
use serde_json::Value;

/// A request on its way in.
#[derive(Clone, Debug)]
pub struct NewApproval {
    /// What tells the call from the others of its attempt.
    pub call: String,
    /// Which tool.
    pub tool: String,
    /// With what, exactly.
    pub args: Value,
    /// What becomes of it while nobody is there.
    pub on_ask: OnAsk,
}

/// A request as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Its number.
    pub id: ApprovalId,
    /// In which run it was asked.
    pub run: RunId,
    /// By whom.
    pub agent: AgentName,
    /// The attempt that asked last.
    pub attempt: AttemptId,
    /// Which tool.
    pub tool: String,
    /// With what, exactly.
    pub args: Value,
    /// When it was first asked.
    pub asked: Millis,
    /// What was said to it.
    pub answer: Option<ApprovalAnswer>,
}

/// What was said to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalAnswer {
    /// Yes or no.
    pub consent: Consent,
    /// Why.
    pub reason: Option<String>,
    /// By whom.
    pub by: Sender,
}

/// Which requests to list, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalQuery {
    /// Those of the live run that wait for an answer somebody can still use.
    Open,
    /// This one, whatever became of it.
    One(ApprovalId),
}

impl NewApproval {
    /// What is equal for equal calls.
    pub fn hash(&self) -> Hash {
        hash(&[self.tool.as_bytes(), canonical_json(&self.args).as_bytes()])
    }
}
