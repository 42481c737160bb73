//! Proposals, votes, and questions to a person.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    id::{ProposalId, QuestionId, RunId, Seq},
    message::Sender,
    name::AgentName,
    proposal::{Proposal, ProposalKind, ProposalOption, ProposalState, Rule, TieBreaker},
    span::Span,
    state::Role,
    target::{InstanceRef, Target},
    time::Millis,
};

/// `POST /proposals`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposalRequest {
    /// Which instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// What is asked.
    pub title: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What can be voted for. Absent: the agents, where one of them is wanted, else `approve` and `reject`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<ProposalOption>>,
    /// What it is about; absent: what `role`, `work` or `gate` say, else a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProposalKind>,
    /// What it takes to win. Absent: `majority` for an approval, else `plurality`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// So many votes are enough when the time is up; absent: everybody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
    /// What decides between equals; absent: `first`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_breaker: Option<TieBreaker>,
    /// Whether the daemon enforces what is decided.
    #[serde(default)]
    pub binding: bool,
    /// How long votes are taken; absent: ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// The role an election gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The message an assignment gives to the winner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Seq>,
    /// The gate an approval opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Whose votes are waited for; absent: every agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub electorate: Option<Vec<Sender>>,
    /// The option that holds if the time is up before it is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// `POST /proposals/{id}/vote`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VoteRequest {
    /// Which instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Which option.
    pub choice: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /proposals/{id}/cancel`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Which instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What making, voting on or cancelling a proposal came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Outcome")]
pub struct ProposalOutcome {
    /// Which proposal.
    pub proposal: ProposalId,
    /// Where it stands.
    #[serde(flatten)]
    pub state: ProposalState,
    /// Whether an earlier call with the same key had done it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// `GET /proposals`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProposalsReply {
    /// Where.
    pub instance: InstanceRef,
    /// Oldest first.
    pub proposals: Vec<Proposal>,
}

/// `ask_human`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskRequest {
    /// What an agent wants to know.
    pub question: String,
    /// What can be answered; absent: anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<String>>,
}

/// What `ask_human` gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskReply {
    /// The question's number.
    pub question: QuestionId,
    /// What happens now.
    pub note: String,
    /// Whether an earlier call with the same key had asked it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// `GET /questions`: something an agent wants to know from a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionView {
    /// Where.
    pub instance: InstanceRef,
    /// Its number there.
    pub id: QuestionId,
    /// In which run.
    pub run: RunId,
    /// Who asked.
    pub agent: AgentName,
    /// What.
    pub question: String,
    /// What can be answered; empty: anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// When.
    pub asked: Millis,
    /// The answer, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// `POST /questions/{id}/answer`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// Which instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// What to tell the agent.
    pub answer: String,
}
