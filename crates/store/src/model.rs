//! Inputs and outputs of [`crate::Store`] that are not types of `protocol`. One file per noun.

mod approvals;
mod attempts;
mod documents;
mod files;
mod history;
mod integrity;
mod list_range;
mod messages;
mod proposals;
mod runs;
mod spend;
mod tasks;

pub use approvals::{
    Approval, ApprovalAnswer, ApprovalDecision, ApprovalQuery, GrantQuery, NewApproval, NewGrant,
    PermissionGrant,
};
pub use attempts::{
    AnswerDraft, AnswerFacts, AnswerRule, AnswerStep, AttemptRow, Blame, DeadLetterText,
    DeliveryFailureCounts, DeliveryRule, DeliveryVerdict, FinishedAttempt, JournalEntry, Lease,
    LeaseFacts, LeaseOutcome, LeaseRule, LeaseStep, LeasedDelivery, LimitScope, NewAttempt,
    SessionAfterFailure, Settlement, ShownMessage, TurnRow, UnheardAgent, WakingMessage,
};
pub use documents::{
    Document, DocumentBase, DocumentConflict, DocumentEdit, DocumentInfo, DocumentWrite,
    EventQuery, NewSuggestion, ResourceInfo, ResourcePart, SuggestionAnswer, SuggestionVerdict,
};
pub use files::{
    BaseNumber, ExchangeMode, FileBase, FileImport, FileIntent, FileSlot, FileState, FileStep,
    ImportOutcome, OutSlot, PendingConflictFile,
};
pub use history::{AttemptKey, HistoryContent, HistoryEntry, HistoryKey, HistoryPart};
pub use integrity::IntegrityReport;
pub use list_range::{FeedbackKey, FeedbackRow, InboxKey, ListRange, ResourceKey, RunKey};
pub use messages::{MessageOrder, MessageQuery, NewAttachment, NewMessage, Once, Recipient, Wake};
pub use proposals::{
    BindingEffect, DeadlineStatus, EndRecipients, HopContext, NewBallot, NewCancellation,
    NewProposal, NewQuestion, ProposalAuthority, ProposalQuery, ProposalStep, QuestionQuery,
    QuestionRow, TallyRule,
};
pub use runs::{
    AgentRow, Instance, InstanceQuery, LiveAttempt, NewAgent, NewRun, NewVerdict, NotBefore,
    ReadyAgent, Retention, RunBlockers, RunClock, RunClockSwitch, RunFacts, RunQuery, RunRow,
    RunRule, RunSnapshot, RunStep, StoredVerdict, WaitReason,
};

pub use spend::{
    ExpiringSpend, LimitUse, ReserveFacts, ReserveRule, ReserveStep, RunSpend, SpendFacts,
    UnreportedCall,
};
pub use tasks::{
    NewTask, OutputContent, OutputFormat, TaskEnd, TaskKey, TaskOutput, TaskResend, TaskRow,
};

use std::path::PathBuf;

use agent_worker_protocol::{AgentName, EffectKey, Epoch, Sender, WorkflowId};

/// Identifies one attempt; a write passes only while that attempt is its agent's live one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Instance of the attempt.
    pub workflow: WorkflowId,
    /// Agent of the attempt.
    pub agent: AgentName,
    /// Epoch of the attempt.
    pub epoch: Epoch,
}

/// A database that refuses writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFault {
    /// The file of a team; none for the daemon's own database.
    pub database: Option<PathBuf>,
    /// Reason of the refusal.
    pub why: String,
    /// The copy that was made of a lost database.
    pub copy: Option<PathBuf>,
}

/// The author of a write, and its idempotency key.
#[derive(Clone, Debug)]
pub struct WriteContext {
    /// Author of the write.
    pub actor: WriteActor,
    /// Makes the effect happen once. Without a key each request is a new effect.
    pub key: Option<EffectKey>,
}

/// The author of a write.
#[derive(Clone, Debug)]
pub enum WriteActor {
    /// An agent, as a live attempt.
    Agent(Fence),
    /// The person at the keyboard.
    User,
    /// A client, by the name of its token.
    Client(String),
    /// The daemon itself.
    System,
}

/// A position in an instance's changes. A new cursor is behind every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeCursor(pub(crate) u64);

impl WriteContext {
    /// Makes a context without a key.
    pub fn new(actor: WriteActor) -> Self {
        Self { actor, key: None }
    }

    /// Makes the context of the daemon, without a key.
    pub fn system() -> Self {
        Self::new(WriteActor::System)
    }
}

impl WriteActor {
    /// Returns the sender of the author's messages.
    pub fn sender(&self) -> Sender {
        match self {
            Self::Agent(fence) => Sender::Agent(fence.agent.clone()),
            Self::User => Sender::User,
            Self::Client(name) => Sender::Client(name.clone()),
            Self::System => Sender::System,
        }
    }
}
