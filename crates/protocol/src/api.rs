//! Request and reply bodies of the HTTP API, one file per noun.

#![expect(missing_docs, reason = "the names of plain data fields say what they hold")]

mod agents;
mod approvals;
mod documents;
mod health;
mod instances;
mod messages;
mod page;
mod proposals;
mod report;
mod runs;
mod tokens;
mod tools;
mod turns;

pub use agents::{
    AgentDetail, AgentFailure, AgentInterrupted, AgentRequest, AgentSession, AgentStopped,
    AgentView, AttemptView, LastFailure, LogReply, Mail,
};
pub use approvals::{
    ApprovalView, ConsentRequest, GivenGrant, GrantView, PermitReply, PermitRequest, RevokeRequest,
};
pub use documents::{
    DocumentDiff, DocumentEntry, DocumentMode, DocumentNamed, DocumentRequest, DocumentText,
    DocumentWritten, ResourceEncoding, ResourceEntry, ResourceKept, ResourceRequest, ResourceText,
    SuggestReply, SuggestRequest, SuggestionRequest, SuggestionView,
};
pub use health::{
    Health, HealthDetail, HealthStatus, ProcessTracking, ShutdownMode, ShutdownRequest, StoreReport,
};
pub use instances::{
    FeedbackRequest, FeedbackView, InstanceCleared, InstanceRemoved, InstanceRequest, InstanceView,
};
pub use messages::{
    AckReply, AckRequest, AttachmentRequest, DeadLetter, DeadReply, DeadRequest, InboxReply,
    MessagesReply, NowOutcome, NowReceipt, SendReply, SendRequest, UnknownMention,
};
pub use page::{DEFAULT_PAGE_ITEMS, ListPage, MAX_PAGE_ITEMS};
pub use proposals::{
    AnswerRequest, AskReply, AskRequest, CancelRequest, ProposalOutcome, ProposalRequest,
    ProposalView, ProposalsReply, QuestionView, VoteRequest,
};
pub use report::{AgentReport, ReportError, RunReport, RunVerdict};
pub use runs::{
    ActivityStats, AgentStats, AnswerView, AttentionItem, AttentionKind, DurationPercentiles,
    FinishReply, FinishRequest, ImminentChange, ResumeRequest, RunError, RunErrorCode, RunRequest,
    RunStarted, RunStopped, RunView, StatsView, TeamVerdict, UnheardMention, usd_text,
};
pub use tokens::{TokenCreated, TokenRequest, TokenView};
pub use tools::{
    AgentMockTool, AgentMocks, AgentTool, AgentToolEffect, AgentTools, MockRequest, ToolPermission,
    ToolSource,
};
pub use turns::{TurnCause, TurnDetail, TurnEntry, TurnEntryBody, TurnView};
