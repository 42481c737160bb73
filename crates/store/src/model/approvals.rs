//! Requests of agents for a person's approval, and their answers.

use agent_worker_protocol::{
    AgentName, ApprovalId, AttemptId, Consent, GrantId, Hash, Millis, OnAsk, RunId, Sender,
    ToolPattern, canonical_json, hash,
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
    /// A grant that covers the call. It answers the request if it is still in force.
    pub grant: Option<GrantId>,
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

/// Decision of a person about a request.
#[derive(Clone, Debug)]
pub enum ApprovalDecision {
    /// The call may happen, once.
    ApproveCall,
    /// The call may happen, and later calls of its agent without a request.
    ApproveForRun(NewGrant),
    /// The call may not happen.
    Deny,
}

/// A new grant, which the answer to a request makes.
#[derive(Clone, Debug)]
pub struct NewGrant {
    /// Calls that the agent may make without asking.
    pub pattern: ToolPattern,
    /// Other requests that the pattern covers. Those of the same agent that are still open are approved, too.
    pub covers: Vec<ApprovalId>,
}

/// A grant: calls that a person allows one agent for the rest of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionGrant {
    /// Number of the grant.
    pub id: GrantId,
    /// Run of the grant, which is live.
    pub run: RunId,
    /// Agent that may make the calls.
    pub agent: AgentName,
    /// Calls that the agent may make without asking.
    pub pattern: ToolPattern,
    /// The request whose answer made the grant.
    pub approval: ApprovalId,
    /// Sender of the answer.
    pub by: Sender,
    /// Time of the answer.
    pub granted: Millis,
}

/// Selects the grants of the live run to list, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantQuery {
    /// Grants that are not revoked.
    InForce,
    /// The grant with this number, revoked or not.
    One(GrantId),
}

/// Selects the requests to list, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalQuery {
    /// Requests of the live run that wait for an answer and whose answer can still be used.
    Open,
    /// The request with this number, in any state.
    One(ApprovalId),
}

impl ApprovalDecision {
    /// Returns the answer to the request.
    pub fn consent(&self) -> Consent {
        match self {
            Self::ApproveCall | Self::ApproveForRun(_) => Consent::Approved,
            Self::Deny => Consent::Denied,
        }
    }
}

impl NewApproval {
    /// Returns a hash that is equal for equal calls.
    pub fn hash(&self) -> Hash {
        hash(&[self.tool.as_bytes(), canonical_json(&self.args).as_bytes()])
    }
}
