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
mod procedure;
mod runs;
mod scheduling;
mod views;
mod voting;

pub use access::{instance_resolution::InstanceSelector, tokens::Tokens};
pub use agent_worker_store::{
    ChangeCursor, DocumentBase, ExchangeMode, FileIntent, FileSlot, FileState, PendingConflictFile,
};
pub use agent_worker_workflow::{PreparedScript, TeamParts, ValueFile, webhook_problem};
pub use approvals::{
    Approvals,
    attention::{Attention, AttentionNeed, DeadLetterAction, PendingAttention},
    notices::{NotifyPlan, PersonNotice, PersonNotices, notify_occasion},
    questions::Questions,
};
pub use clock::{Clock, RandomSource, VirtualClock};
pub use documents::{
    DECISIONS_FILE, DocumentLibrary,
    document_files::{CONFLICT_SUFFIX, DocumentFiles, RunFiles, RunStage},
    file_merge::FoundText,
    resources::Resources,
    suggestions::Suggestions,
    transcript::{Transcript, TranscriptChunk},
};
pub use error::Error;
pub use kernel::{AgentPrincipal, Kernel, KernelParts, Principal};
pub use messaging::{
    channel::{ChannelPosition, ChannelQuery, Messages},
    inbox::{InboxAckResult, InboxMessages, Inboxes},
};
pub use runs::{
    Runs,
    instances::{FeedbackEntries, Instances},
    members::Agents,
};
pub use scheduling::{
    Options, RecoverySummary,
    attempts::Attempts,
    runner::{
        AttemptPaths, EventTail, ProcessMark, ProcessOrigin, Runner, ShellCommand, ShellOutcome,
        TaskCommandEnd, TaskProcess, WorkerExit, WorkerLiveness,
    },
};
pub use views::{
    ActivityCounts, KernelHealth, ListingScope,
    agent_detail::{AgentExplanation, WakeCondition},
    events::{EventSubscription, WatchSubject},
    page::PageRequest,
    turns::Turns,
};
pub use voting::proposals::{ProposalFilter, Proposals};
