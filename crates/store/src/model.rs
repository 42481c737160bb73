//! What goes in and out of [`crate::Store`], beside the words of `protocol`. One file per noun.

mod approvals;
mod attempts;
mod documents;
mod files;
mod integrity;
mod messages;
mod proposals;
mod runs;

pub use approvals::{Approval, ApprovalAnswer, ApprovalQuery, NewApproval};
pub use attempts::{
    AttemptRow, Blame, DeadLetterText, DeliveryFailureCounts, DeliveryRule, DeliveryVerdict,
    FinishedAttempt, JournalEntry, Lease, LeaseFacts, LeaseOutcome, LeaseRule, LeaseStep,
    LeasedDelivery, LimitScope, NewAttempt, Settlement, ShownMessage, TurnRow,
};
pub use documents::{
    Document, DocumentBase, DocumentConflict, DocumentEdit, DocumentInfo, DocumentWrite,
    EventQuery, NewSuggestion, ResourceInfo, ResourcePart, SuggestionAnswer, SuggestionVerdict,
};
pub use files::{
    BaseNumber, ExchangeMode, FileBase, FileImport, FileIntent, FileSlot, FileState, FileStep,
    ImportOutcome, OutSlot, PendingConflictFile,
};
pub use integrity::IntegrityReport;
pub use messages::{MessageOrder, MessageQuery, NewMessage, Once, Recipient, Wake};
pub use proposals::{
    BindingEffect, DeadlineStatus, EndRecipients, HopContext, NewBallot, NewCancellation,
    NewProposal, NewQuestion, ProposalAuthority, ProposalQuery, ProposalStep, QuestionQuery,
    QuestionRow, TallyRule,
};
pub use runs::{
    AgentRow, Instance, InstanceQuery, LiveAttempt, NewAgent, NewRun, NotBefore, ReadyAgent,
    Retention, RunBlockers, RunFacts, RunQuery, RunRow, RunRule, RunSnapshot, RunStep, WaitReason,
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
pub struct WriteContext {
    /// Who.
    pub actor: WriteActor,
    /// What makes it once. Without a key each request is a new effect.
    pub key: Option<EffectKey>,
}

/// Who writes.
#[derive(Clone, Debug)]
pub enum WriteActor {
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
pub struct ChangeCursor(pub(crate) u64);

impl WriteContext {
    /// Writes as `who`, each time anew.
    pub fn new(actor: WriteActor) -> Self {
        Self { actor, key: None }
    }

    /// Writes as the daemon.
    pub fn system() -> Self {
        Self::new(WriteActor::System)
    }
}

impl WriteActor {
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
