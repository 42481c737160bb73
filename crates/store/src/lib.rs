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
    AgentRow, Approval, ApprovalAnswer, ApprovalQuery, AttemptRow, BaseNumber, BindingEffect,
    Blame, ChangeCursor, DeadLetterText, DeadlineStatus, DeliveryFailureCounts, DeliveryRule,
    DeliveryVerdict, Document, DocumentBase, DocumentConflict, DocumentEdit, DocumentInfo,
    DocumentWrite, EndRecipients, EventQuery, ExchangeMode, Fence, FileBase, FileImport,
    FileIntent, FileSlot, FileState, FileStep, FinishedAttempt, HopContext, ImportOutcome,
    Instance, InstanceQuery, IntegrityReport, JournalEntry, Lease, LeaseFacts, LeaseOutcome,
    LeaseRule, LeaseStep, LeasedDelivery, LimitScope, LiveAttempt, MessageOrder, MessageQuery,
    NewAgent, NewApproval, NewAttempt, NewBallot, NewCancellation, NewMessage, NewProposal,
    NewQuestion, NewRun, NewSuggestion, NotBefore, Once, OutSlot, PendingConflictFile,
    ProposalAuthority, ProposalQuery, ProposalStep, QuestionQuery, QuestionRow, ReadyAgent,
    Recipient, ResourceInfo, ResourcePart, Retention, RunBlockers, RunFacts, RunQuery, RunRow,
    RunRule, RunSnapshot, RunStep, Settlement, ShownMessage, StoreFault, SuggestionAnswer,
    SuggestionVerdict, TallyRule, TurnRow, WaitReason, Wake, WriteActor, WriteContext,
};
pub use multi_store::MultiStore;
pub use store::{
    AdminStore, AttemptStore, DecisionStore, DocumentStore, MessageStore, RunStore, Store,
};
pub use time::{Now, StoreTime};
