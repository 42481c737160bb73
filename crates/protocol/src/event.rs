//! One entry of the event log: what `run`, the page and every other watcher show.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    id::{AttemptId, Position, RunId},
    name::AgentName,
    target::InstanceRef,
    time::Millis,
};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its place in its instance's log; absent for what is live only (text, heartbeat).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pos: Option<Position>,
    /// When.
    pub ts: Millis,
    /// Where.
    pub instance: InstanceRef,
    /// In which run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// What.
    pub kind: EventKind,
    /// To whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// In which attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// On whose behalf: `user`, `system`, an agent, `client:name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Millis>,
    /// The rest: the message, the tool call, the state.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $arm:ident => $word:literal),* $(,)?) => {
        /// What happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum EventKind {
            $($(#[$doc])* #[serde(rename = $word)] $arm),*
        }
        impl EventKind {
            /// Its spelling in the log and on the wire.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$arm => $word),* }
            }
            /// Reads the spelling back.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$arm),)* _ => None }
            }
        }
    };
}
kinds! {
    /// A run was made and its setup begins.
    RunSetup => "run.setup",
    /// Its agents are woken from now on.
    RunRunning => "run.running",
    /// Nothing is leased until it is resumed.
    RunPaused => "run.paused",
    /// It is over.
    RunEnded => "run.ended",
    /// An attempt was leased.
    AttemptStarting => "attempt.starting",
    /// Its worker reported.
    AttemptRunning => "attempt.running",
    /// It is over.
    AttemptEnded => "attempt.ended",
    /// A delivery's attempts are used up.
    DeliveryDead => "delivery.dead",
    /// A delivery was given up.
    DeliveryDropped => "delivery.dropped",
    /// A dead delivery was made pending again.
    DeliveryPending => "delivery.pending",
    /// An agent joined the run.
    AgentAdded => "agent.added",
    /// An agent that was stopped is woken again.
    AgentResumed => "agent.resumed",
    /// An agent left the run.
    AgentRemoved => "agent.removed",
    /// The event at this position is damaged and cannot be shown; `cause` names it.
    RowDamaged => "row.damaged",
    /// The channel is shown only from here on.
    ChannelCleared => "channel.cleared",
    /// An agent is not woken any more in this run.
    AgentStopped => "agent.stopped",
    /// A document has a new revision.
    DocumentWritten => "document.written",
    /// What a person wrote into a document's file could not be merged.
    DocumentConflict => "document.conflict",
    /// Somebody suggested a change to a document.
    SuggestionOpen => "suggestion.open",
    /// It was agreed to.
    SuggestionAccepted => "suggestion.accepted",
    /// It was refused.
    SuggestionRejected => "suggestion.rejected",
    /// A setup command ran.
    SetupRan => "setup.ran",
    /// Its agents elect who owns the documents, before the kickoff.
    RunElecting => "run.electing",
    /// A proposal was made.
    ProposalActive => "proposal.active",
    /// Somebody voted, or changed their vote.
    BallotCast => "ballot.cast",
    /// A proposal was decided, or everybody voted and nothing won.
    ProposalResolved => "proposal.resolved",
    /// A proposal's time was up.
    ProposalExpired => "proposal.expired",
    /// A proposal was taken back.
    ProposalCancelled => "proposal.cancelled",
    /// An agent asked a person something.
    QuestionOpen => "question.open",
    /// A person answered.
    QuestionAnswered => "question.answered",
    /// An agent wants to do something that a person has to approve.
    ApprovalOpen => "approval.open",
    /// It was approved or denied.
    ApprovalAnswered => "approval.answered",
    /// The wall clock was set, by `by_ms` milliseconds; no timer depends on it.
    ClockJumped => "clock.jumped",
    /// A message was written; `data` is the message.
    Message => "message",
    /// A worker called a tool.
    ToolCall => "tool_call",
    /// A tool answered.
    ToolResult => "tool_result",
    /// Tokens were used.
    Usage => "usage",
    /// A worker tries something again by itself.
    Retry => "retry",
    /// A model's words as they come. Live only.
    Text => "text",
    /// A worker is still there. Live only.
    Heartbeat => "heartbeat",
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
