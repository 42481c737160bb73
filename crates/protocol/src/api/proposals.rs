//! Proposals, votes, and questions to a person.

use std::{collections::BTreeMap, path::PathBuf};

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

/// Body of `POST /proposals`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposalRequest {
    /// Instance of the proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Question that the voters answer.
    pub title: String,
    /// Further explanation of the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Options to vote for; absent: the agents if the vote chooses one of them, else `approve` and `reject`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<ProposalOption>>,
    /// Subject of the vote; absent: derived from `role`, `work` or `gate`, else a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProposalKind>,
    /// Number of votes that an option needs to win; absent: `majority` for an approval, else `plurality`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// Number of votes that suffices at the deadline; absent: the votes of the whole electorate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
    /// True if the proposal is counted as soon as the quorum is reached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub close_at_quorum: bool,
    /// Method that chooses between tied options; absent: `first`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_breaker: Option<TieBreaker>,
    /// True if the daemon enforces the decision.
    #[serde(default)]
    pub binding: bool,
    /// Duration of the vote; absent: ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// Role that an election gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Message that an assignment gives to the winner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Seq>,
    /// Gate that an approval opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Voters whose votes the proposal waits for; absent: every agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub electorate: Option<Vec<Sender>>,
    /// Option that takes effect if the proposal expires undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// Body of `POST /proposals/{id}/vote`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VoteRequest {
    /// Instance of the proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Id of the chosen option.
    pub choice: String,
    /// Reason for the choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of `POST /proposals/{id}/cancel`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Instance of the proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Reason for the cancellation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Reply to creating, voting on or cancelling a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProposalOutcome {
    pub proposal: ProposalId,
    /// State of the proposal after the call.
    #[serde(flatten)]
    pub state: ProposalState,
    /// True if an earlier call with the same key had done it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// A proposal with the counts of its votes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Proposal")]
pub struct ProposalView {
    #[serde(flatten)]
    pub proposal: Proposal,
    /// Number of counted votes for each option.
    #[serde(default)]
    pub counts: BTreeMap<String, u32>,
}

impl From<Proposal> for ProposalView {
    fn from(proposal: Proposal) -> Self {
        let counts = proposal.vote_counts().into_iter();
        let counts = counts.map(|(option, votes)| (option.to_owned(), votes)).collect();
        Self { proposal, counts }
    }
}

/// Reply of `GET /proposals`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProposalsReply {
    pub instance: InstanceRef,
    /// Proposals of the instance, oldest first.
    pub items: Vec<ProposalView>,
    /// Cursor of the next page, for `after`; null on the last page.
    #[serde(default)]
    pub next: Option<String>,
}

/// Arguments of the tool `ask_human`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskRequest {
    /// Question of the agent.
    pub question: String,
    /// Permitted answers; absent: any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<String>>,
}

/// Result of the tool `ask_human`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskReply {
    /// Number of the question.
    pub question: QuestionId,
    /// Explanation of the next step.
    pub note: String,
    /// True if an earlier call with the same key had asked it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// One question of an agent to a person; `GET /questions` returns a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionView {
    pub instance: InstanceRef,
    /// Project of the instance.
    #[serde(default)]
    pub project: PathBuf,
    /// Number of the question in its instance.
    pub id: QuestionId,
    pub run: RunId,
    /// Agent that asked the question.
    pub agent: AgentName,
    pub question: String,
    /// Permitted answers; empty: any text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Time of the question.
    pub asked: Millis,
    /// Answer of a person, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// Body of `POST /questions/{id}/answer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// Instance of the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Text for the agent.
    pub answer: String,
}
