//! Types that cross a process boundary or the store, and the only definition of their wire format.
//!
//! Names, ids, states, messages, events, the worker's job, the HTTP bodies, the error format, the table of
//! the team's tools, and the list of commands that run other commands. This crate has no
//! I/O, no async code, no clock and no randomness. A value of these types has already been validated.

mod agent;
pub mod api;
mod approval;
mod attachment;
mod backend;
mod command_job;
mod display_text;
mod effect;
mod event;
mod event_line;
mod history;
mod id;
mod job;
mod keyword;
pub mod mcp_wire;
mod message;
mod mock;
mod mock_tool;
mod name;
mod network_host;
mod notify;
mod problem;
mod problem_details;
mod proposal;
mod run_predicates;
mod sandbox;
mod scope;
mod secret_filter;
pub mod shell_words;
mod span;
mod state;
mod suspension;
pub mod sync;
mod target;
mod task;
pub mod team_tools;
mod time;
mod tool;

pub use agent::{AgentSettings, Effort, Limits, RetryPolicy, SpendLimits};
pub use approval::{
    ArgumentPattern, BadToolPattern, Consent, ConsentScope, OnAsk, PermissionAction,
    PermissionMode, Permissions, ToolPattern,
};
pub use attachment::{
    Attachment, AttachmentName, BadAttachmentName, Base64Bytes, MAX_ATTACHMENT_BYTES,
    MAX_ATTACHMENTS, MAX_ATTACHMENTS_BYTES, attachments_line, is_binary, is_image, media_type_of,
    size_text,
};
pub use backend::{Acp, AcpAgent, Api, Backend, CredentialMode, Native, SessionPolicy, VendorCli};
pub use command_job::{
    CommandEnded, CommandJob, CommandResult, CommandValue, JobLine, LeftProcess,
};
pub use display_text::{plain_line, sanitize_for_display};
pub use effect::{EffectKey, Hash, canonical_json, hash, hmac};
pub use event::{
    ApprovalAnsweredData, ApprovalOpenData, AttemptDeliveries, AttemptEndedData,
    AttemptRunningData, AttemptStartingData, BallotCastData, ChannelClearedData, ClockJumpedData,
    ConflictRevisions, DeliveryData, DocumentConflictData, DocumentWrittenData, Event, EventBody,
    EventKind, MentionUnheardData, NoteData, NotificationFailedData, PermissionGrantData,
    PermissionUsedData, ProposalActiveData, ProposalEndedData, QuestionData, RetryData,
    RunElectingData, RunEndedData, RunPausedData, RunRunningData, RunSetupData, RunVerdictData,
    SetupRanData, SuggestionAnsweredData, SuggestionOpenData, TaskEndedData, TaskStartedData,
    TextData, ToolCallData, ToolResultData,
};
pub use event_line::BadEventLine;
pub use history::{
    HistoryMode, HistoryState, HistoryText, MAX_HISTORY_RUN_BYTES, MAX_HISTORY_TEXT_BYTES,
    MAX_SHORT_TEXT_BYTES, TextState,
};
pub use id::{
    ApprovalId, AttemptId, Epoch, GrantId, Position, ProposalId, QuestionId, ResourceId, Revision,
    RunId, Seq, WorkflowId,
};
pub use job::{
    BASE_ENV, EventsReply, EventsRequest, Finished, JobAttachment, JobLimits, LiveEvent,
    MailNotice, NumberedEvent, Order, SpendReply, SpendRequest, TurnMessage, TurnMessagesReply,
    TurnMessagesRequest, WorkerEvent, WorkerJob, WorkerOutcome,
};
pub use keyword::Keyword;
pub use message::{Message, MessageKind, Priority, Receipt, Sender, Usage};
pub use mock::{MockCall, MockFailure, MockRule};
pub use mock_tool::{MockTool, MockToolResult};
pub use name::{AgentName, BadName, DocumentPath, Tag, WorkflowName};
pub use network_host::{BadHost, HostListing, NetworkHost, NetworkTarget, TargetHost};
pub use notify::{
    LimitDefaults, Notification, NotifyChannel, NotifyFailure, NotifyFailures, NotifyOccasion,
    NotifySettings, NotifyWhen, RunDefaults,
};
pub use problem::{Code, DAMAGED_HEADER, Problem, ProblemBody};
pub use problem_details::ProblemDetails;
pub use proposal::{
    APPROVE, Ballot, Proposal, ProposalKind, ProposalOption, ProposalState, REJECT, ResolvedBy,
    Rule, Terms, TieBreaker, VoteOutcome,
};
pub use sandbox::{
    BadMemoryLimit, JobSandbox, MemoryLimit, SandboxInForce, SandboxLevel, SandboxMode,
    SandboxNetwork, SandboxSettings,
};
pub use scope::{
    BadPattern, FolderScope, InstancePattern, NoSuchPermission, Permission, Scopes,
    has_parent_component,
};
pub use secret_filter::SecretFilter;
pub use span::{BadSpan, Span};
pub use state::{
    AgentState, AttemptEnd, AttemptState, DeliveryState, FailureClass, LimitKind, Outcome,
    PauseCause, Role, RunMode, RunState, SuggestionState, VerdictOutcome, WorkerLimit,
};
pub use suspension::SuspensionDetector;
pub use target::{BadTarget, InstanceRef, Target, is_ancestor_or_descendant};
pub use task::{TaskPath, TaskState};
pub use time::Millis;
pub use tool::{SHELL_TOOL, ToolName};
