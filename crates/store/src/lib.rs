//! Persistent storage, and the only crate with SQL.
//!
//! Invariant: every method of [`Store`] is one atomic operation; no transaction leaves this crate.
//! Invariant: every operation that changes an instance's rows locks the instance's own row first and saves it last.
//! Invariant: a row that does not match its checksum is never returned as data; `damage.rs` describes the
//! replacement.
//! Invariant: the store has no randomness and no policy; the caller passes the time and the decisions. The store
//! keeps the clock that the caller reads ([`AdminStore::now`]).

mod changes;
mod clock;
mod damage;
mod database;
mod db;
mod engine;
mod error;
mod link_check;
mod model;
mod multi_store;
mod read_cache;
mod sql;
mod store;
mod time;

pub use damage::{DamagedRow, observe_damage};
pub use database::Database;
pub use error::Error;
pub use model::{
    AgentRow, AnswerDraft, AnswerFacts, AnswerRule, AnswerStep, Approval, ApprovalAnswer,
    ApprovalDecision, ApprovalQuery, AttemptKey, AttemptRow, BaseNumber, BindingEffect, Blame,
    ChangeCursor, DeadLetterText, DeadlineStatus, DeliveryFailureCounts, DeliveryRule,
    DeliveryVerdict, Document, DocumentBase, DocumentConflict, DocumentEdit, DocumentInfo,
    DocumentWrite, EndRecipients, EventQuery, ExchangeMode, ExpiringSpend, FeedbackKey,
    FeedbackRow, Fence, FileBase, FileImport, FileIntent, FileSlot, FileState, FileStep,
    FinishedAttempt, GrantQuery, HistoryContent, HistoryEntry, HistoryKey, HistoryPart, HopContext,
    ImportOutcome, InboxKey, Instance, InstanceQuery, IntegrityReport, JournalEntry, Lease,
    LeaseFacts, LeaseOutcome, LeaseRule, LeaseStep, LeasedDelivery, LimitScope, LimitUse,
    ListRange, LiveAttempt, MessageOrder, MessageQuery, NewAgent, NewApproval, NewAttachment,
    NewAttempt, NewBallot, NewCancellation, NewGrant, NewMessage, NewProposal, NewQuestion, NewRun,
    NewSuggestion, NewTask, NewVerdict, NotBefore, Once, OutSlot, OutputContent, OutputFormat,
    PendingConflictFile, PermissionGrant, ProposalAuthority, ProposalQuery, ProposalStep,
    QuestionQuery, QuestionRow, ReadyAgent, Recipient, ReserveFacts, ReserveRule, ReserveStep,
    ResourceInfo, ResourceKey, ResourcePart, Retention, RunBlockers, RunClock, RunClockSwitch,
    RunFacts, RunKey, RunQuery, RunRow, RunRule, RunSnapshot, RunSpend, RunStep,
    SessionAfterFailure, Settlement, ShownMessage, SpendFacts, StoreFault, StoredVerdict,
    SuggestionAnswer, SuggestionVerdict, TallyRule, TaskEnd, TaskKey, TaskOutput, TaskResend,
    TaskRow, TurnRow, UnheardAgent, UnreportedCall, WaitReason, Wake, WakingMessage, WriteActor,
    WriteContext,
};
pub use multi_store::MultiStore;
pub use store::{
    AdminStore, AttemptStore, DecisionStore, DocumentStore, MessageStore, RunStore, Store,
    TaskStore,
};
pub use time::{Now, StoreTime};
