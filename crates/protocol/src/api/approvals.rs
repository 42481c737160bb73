//! What an agent asks for before it does it, and what is said to that.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    approval::Consent,
    id::{ApprovalId, RunId},
    name::AgentName,
    target::{InstanceRef, Target},
    time::Millis,
};

/// `POST /attempts/{id}/approvals`: a worker asks whether a call may happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermitRequest {
    /// What tells this call from the others of its attempt: asked again, it is the same request.
    pub call: String,
    /// Which tool.
    pub tool: String,
    /// With what, exactly.
    pub args: Value,
}

/// What is said to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "permit", rename_all = "snake_case")]
pub enum PermitReply {
    /// It may happen, once.
    Allow,
    /// It may not.
    Deny {
        /// What to tell the agent.
        why: String,
    },
    /// It may not, and the turn has failed.
    Fail {
        /// What to tell of it.
        why: String,
    },
    /// Nobody has answered yet: ask again.
    Open {
        /// The request's number.
        approval: ApprovalId,
    },
}

/// `GET /approvals`: something an agent wants to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalView {
    /// Where.
    pub instance: InstanceRef,
    /// Its number there.
    pub id: ApprovalId,
    /// In which run.
    pub run: RunId,
    /// Who asks.
    pub agent: AgentName,
    /// Which tool it wants to call.
    pub tool: String,
    /// With what, exactly.
    pub args: Value,
    /// When it was first asked.
    pub asked: Millis,
    /// What was said to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Consent>,
}

/// `POST /approvals/{id}/approve` and `/deny`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsentRequest {
    /// Which instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Why; an agent that is refused reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
