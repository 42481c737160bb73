//! MEMORY: what the system remembers. The only room that speaks SQL.
//!
//! Invariant: every method of [`Store`] is one atomic operation; no transaction leaves the room.
//! Invariant: every operation that changes an instance's rows locks the instance's own row first and saves it last.
//! Invariant: a row that does not match its checksum is never returned as data; `damage.rs` says what is.
//! Invariant: the store has no randomness and no policy; the caller passes the time and the decisions. The store keeps the
//! clock that the caller reads ([`Store::now`]).

mod cabinet;
mod damage;
mod error;
mod model;
mod sqlite;
mod store;
mod time;

pub use cabinet::Cabinet;
pub use damage::{DamagedRow, observe_damage};
pub use error::Error;
pub use model::{
    AgentRow, Approval, ApprovalAnswer, ApprovalQuery, AttemptRow, Base, BaseNumber, Blame, By,
    Change, DeadNote, Deadline, Decide, Deciding, Document, DocumentConflict, DocumentInfo,
    DocumentWrite, Edit, EventQuery, ExchangeMode, Fence, FileBase, FileIntent, FileSlot,
    FileState, FileStep, FileTake, FinishedAttempt, Hindrances, Instance, InstanceQuery, Integrity,
    JournalEntry, Keep, Lease, LeaseFacts, LeaseRule, LeaseStep, Leased, LiveAttempt, MessageQuery,
    NewAgent, NewApproval, NewAttempt, NewBallot, NewCancel, NewMessage, NewProposal, NewQuestion,
    NewRun, NewSuggestion, NotBefore, Once, Order, OutSlot, PendingAside, ProposalQuery,
    ProposalStep, Question, QuestionQuery, ReadyAgent, Recipient, ResourceInfo, ResourcePart,
    Right, RunFacts, RunQuery, RunRow, RunSnapshot, RunStep, Said, Settlement, ShownMessage,
    StoreFault, SuggestionAnswer, SuggestionVerdict, TakeOutcome, Turn, Wait, Wake, Who, Whose,
};

pub use sqlite::Sqlite;
pub use store::Store;
pub use time::{Now, StoreTime};
