//! Approval requests of agents and the answers to them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    approval::{Consent, ConsentScope, ToolPattern},
    id::{ApprovalId, GrantId, RunId},
    name::AgentName,
    target::{InstanceRef, Target},
    time::Millis,
};

/// Body of `POST /attempts/{id}/approvals`: a worker asks for permission to make a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermitRequest {
    /// Id of the call within its attempt; the same id again is the same request.
    pub call: String,
    /// Name of the tool.
    pub tool: String,
    /// Exact arguments of the call.
    pub args: Value,
}

/// Reply to [`PermitRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "permit", rename_all = "snake_case")]
pub enum PermitReply {
    /// The call may happen, once.
    Allow,
    /// The call may not happen.
    Deny {
        /// Reason for the agent.
        why: String,
    },
    /// The call may not happen, and the turn has failed.
    Fail {
        /// Reason of the failure.
        why: String,
    },
    /// No answer has been given yet, and the worker asks again.
    Open {
        /// Number of the request.
        approval: ApprovalId,
    },
}

/// One approval request of an agent; `GET /approvals` returns a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalView {
    pub instance: InstanceRef,
    /// Project of the instance.
    #[serde(default)]
    pub project: PathBuf,
    /// Number of the request in its instance.
    pub id: ApprovalId,
    pub run: RunId,
    /// Agent that asks for the approval.
    pub agent: AgentName,
    /// Tool that the agent wants to call.
    pub tool: String,
    /// Exact arguments of the call.
    pub args: Value,
    /// Time of the first request.
    pub asked: Millis,
    /// Answer of a person, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Consent>,
    /// The pattern that `for: run` allows by default. Absent for an answered request, and if no pattern names exactly
    /// this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_pattern: Option<ToolPattern>,
    /// The grant that the answer made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GivenGrant>,
}

/// The grant that an answer made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GivenGrant {
    /// Number of the grant in its instance.
    pub id: GrantId,
    /// Calls that the agent may make without asking until its run ends.
    pub pattern: ToolPattern,
}

/// Calls that a person allows one agent for the rest of a run; `GET /grants` returns a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrantView {
    pub instance: InstanceRef,
    /// Project of the instance.
    #[serde(default)]
    pub project: PathBuf,
    /// Number of the grant in its instance.
    pub id: GrantId,
    pub run: RunId,
    /// Agent that may make the calls.
    pub agent: AgentName,
    /// Calls that the agent may make without asking.
    pub pattern: ToolPattern,
    /// The request that was approved with it.
    pub approval: ApprovalId,
    /// Sender of the approval.
    pub by: String,
    pub granted: Millis,
}

/// Body of `POST /grants/{id}/revoke`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// Instance of the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
}

/// Body of `POST /approvals/{id}/approve` and `/deny`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsentRequest {
    /// Instance of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Reason for the answer, which the agent reads after a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Calls that an approval allows: `call` this one, once; `run` also the later calls of the agent that `pattern`
    /// covers.
    #[serde(default, rename = "for", skip_serializing_if = "ConsentScope::is_call")]
    pub scope: ConsentScope,
    /// With `for: run`: the calls to allow. It must cover the requested call. Default: exactly this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<ToolPattern>,
}
