//! What goes in and out of [`crate::Store`], beside the words of `protocol`. One file per noun.

mod approvals;
mod attempts;
mod files;
mod integrity;
mod library;
mod messages;
mod proposals;
mod runs;

pub use approvals::{Approval, ApprovalAnswer, ApprovalQuery, NewApproval};
pub use attempts::{
    AttemptRow, Blame, DeadNote, FinishedAttempt, JournalEntry, Lease, LeaseFacts, LeaseRule,
    LeaseStep, Leased, NewAttempt, Settlement, ShownMessage, Turn, Whose,
};
pub use files::{
    BaseNumber, ExchangeMode, FileBase, FileIntent, FileSlot, FileState, FileStep, FileTake,
    OutSlot, PendingAside, TakeOutcome,
};
pub use integrity::Integrity;
pub use library::{
    Base, Document, DocumentConflict, DocumentInfo, DocumentWrite, Edit, EventQuery, NewSuggestion,
    ResourceInfo, ResourcePart, SuggestionAnswer, SuggestionVerdict,
};
pub use messages::{MessageQuery, NewMessage, Once, Order, Recipient, Wake};
pub use proposals::{
    Deadline, Deciding, NewBallot, NewCancel, NewProposal, NewQuestion, ProposalQuery,
    ProposalStep, Question, QuestionQuery, Right, Said,
};
pub use runs::{
    AgentRow, Decide, Hindrances, Instance, InstanceQuery, Keep, LiveAttempt, NewAgent, NewRun,
    NotBefore, ReadyAgent, RunFacts, RunQuery, RunRow, RunSnapshot, RunStep, Wait,
};

use std::path::PathBuf;

use agent_worker_protocol::{AgentName, EffectKey, Epoch, Sender, WorkflowId};

/// Names one attempt; a write passes only while that attempt is its agent's live one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The instance.
    pub workflow: WorkflowId,
    /// The agent.
    pub agent: AgentName,
    /// The attempt.
    pub epoch: Epoch,
}

/// A database that refuses writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFault {
    /// The file of a team; none for the daemon's own database.
    pub database: Option<PathBuf>,
    /// The reason.
    pub why: String,
    /// The copy that was made of a database whose files were taken away.
    pub copy: Option<PathBuf>,
}

/// Who writes, and under what key.
#[derive(Clone, Debug)]
pub struct By {
    /// Who.
    pub who: Who,
    /// What makes it once. Without a key each request is a new effect.
    pub key: Option<EffectKey>,
}

/// Who writes.
#[derive(Clone, Debug)]
pub enum Who {
    /// A live attempt.
    Agent(Fence),
    /// The person at the keyboard.
    User,
    /// A client, by the name of its token.
    Client(String),
    /// The daemon itself.
    System,
}

/// How far an instance's changes were seen. A fresh one is behind everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(pub(crate) u64);

impl By {
    /// Writes as `who`, each time anew.
    pub fn new(who: Who) -> Self {
        Self { who, key: None }
    }

    /// Writes as the daemon.
    pub fn system() -> Self {
        Self::new(Who::System)
    }
}

impl Who {
    /// The name a message of theirs carries.
    pub fn sender(&self) -> Sender {
        match self {
            Self::Agent(fence) => Sender::Agent(fence.agent.clone()),
            Self::User => Sender::User,
            Self::Client(name) => Sender::Client(name.clone()),
            Self::System => Sender::System,
        }
    }
}
