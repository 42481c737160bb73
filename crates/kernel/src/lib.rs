//! Decisions about teams, and the loops that carry them out.
//!
//! Pure functions decide (`recipients`, `limits`, `run_step`, `retry_policy`, `tally`, `target`), simple loops
//! carry the decisions out (`scheduling`), and [`Kernel`] is the one object that every interface calls.
//! Not here: HTTP, MCP, SQL, processes. Time and randomness are parameters.

mod access;
mod approvals;
mod clock;
mod documents;
mod error;
mod handles;
mod kernel;
mod messaging;
mod runs;
mod scheduling;
mod views;
mod voting;

pub use access::instance_resolution::InstanceSelector;
pub use agent_worker_store::{
    ChangeCursor, DocumentBase, ExchangeMode, FileIntent, FileSlot, FileState, PendingConflictFile,
};
pub use approvals::attention::{Attention, AttentionNeed, DeadLetterAction};
pub use clock::{Clock, RandomSource, VirtualClock};
pub use documents::DECISIONS_FILE;
pub use documents::document_files::{CONFLICT_SUFFIX, DocumentFiles, RunFiles, RunStage};
pub use documents::file_merge::FoundText;
pub use documents::transcript::{Transcript, TranscriptChunk};
pub use error::Error;
pub use kernel::{AgentPrincipal, Kernel, KernelParts, Principal};
pub use messaging::channel::ChannelQuery;
pub use messaging::inbox::{InboxAckResult, InboxMessages};
pub use scheduling::runner::{
    AttemptPaths as AttemptPlace, EventTail, ProcessMark, ProcessOrigin, Runner, ShellCommand,
    ShellOutcome, WorkerExit, WorkerLiveness,
};
pub use scheduling::{Options, RecoverySummary};
pub use views::agent_detail::{AgentExplanation, WakeCondition};
pub use views::events::{EventSubscription, WatchSubject};
pub use views::{ActivityCounts, ListingScope};
pub use voting::proposals::ProposalFilter;

pub use access::tokens::Tokens;
pub use approvals::Approvals;
pub use approvals::attention::PendingAttention;
pub use approvals::questions::Questions;
pub use documents::DocumentLibrary;
pub use documents::resources::Resources;
pub use documents::suggestions::Suggestions;
pub use messaging::channel::Messages;
pub use messaging::inbox::Inboxes;
pub use runs::Runs;
pub use runs::instances::FeedbackEntries;
pub use runs::instances::Instances;
pub use runs::members::Agents;
pub use scheduling::attempts::Attempts;
pub use views::KernelHealth;
pub use voting::proposals::Proposals;
