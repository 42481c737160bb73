//! The kinds of events and the typed data of each, as one table.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

use super::data::{
    ApprovalAnsweredData, ApprovalOpenData, AttemptEndedData, AttemptRunningData,
    AttemptStartingData, BallotCastData, ChannelClearedData, ClockJumpedData, DeliveryData,
    DocumentConflictData, DocumentWrittenData, MentionUnheardData, NoteData,
    NotificationFailedData, PermissionGrantData, PermissionUsedData, ProposalActiveData,
    ProposalEndedData, QuestionData, RetryData, RunElectingData, RunEndedData, RunPausedData,
    RunRunningData, RunSetupData, RunVerdictData, SetupRanData, SuggestionAnsweredData,
    SuggestionOpenData, TaskEndedData, TaskStartedData, TextData, ToolCallData, ToolResultData,
};
use crate::message::{Message, Usage};

macro_rules! event_kinds {
    (
        with data { $($(#[doc = $doc:literal])* $kind:ident($data:ty) => $word:literal),* $(,)? }
        without data { $($(#[doc = $unit_doc:literal])* $unit:ident => $unit_word:literal),* $(,)? }
    ) => {
        /// The kind of an event, without its data.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventKind {
            $($(#[doc = $doc])* $kind,)*
            $($(#[doc = $unit_doc])* $unit,)*
        }

        impl EventKind {
            /// Every kind that this version knows.
            pub const ALL: &[Self] = &[$(Self::$kind,)* $(Self::$unit,)*];

            /// Its spelling in the log and on the wire.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                    $(Self::$unit => $unit_word,)*
                }
            }

            /// Reads the spelling back.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$kind),)*
                    $($unit_word => Some(Self::$unit),)*
                    _ => None,
                }
            }
        }

        /// The kind of an event and the data of that kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum EventBody {
            $($(#[doc = $doc])* $kind($data),)*
            $($(#[doc = $unit_doc])* $unit,)*
            /// A kind that this version does not know, or data that does not fit its kind: another version wrote it, or
            /// the row that it names is missing. Every reader passes it on as it is.
            Other {
                /// The kind as it is spelt on the wire.
                kind: String,
                /// The data as it is on the wire.
                data: Value,
            },
        }

        impl EventBody {
            /// The spelling of the kind in the log and on the wire.
            pub fn kind_word(&self) -> &str {
                match self {
                    $(Self::$kind(_) => $word,)*
                    $(Self::$unit => $unit_word,)*
                    Self::Other { kind, .. } => kind,
                }
            }

            /// The data as it is stored and sent; null for a kind without data.
            pub fn data(&self) -> Value {
                match self {
                    // Plain data with text keys always has a JSON form.
                    $(Self::$kind(data) => serde_json::to_value(data).unwrap_or_default(),)*
                    $(Self::$unit => Value::Null,)*
                    Self::Other { data, .. } => data.clone(),
                }
            }

            /// Reads the data of a kind; none if the kind is not known or the data does not fit.
            fn typed(kind: &str, data: &Value) -> Option<Self> {
                match kind {
                    $($word => <$data>::deserialize(data).ok().map(Self::$kind),)*
                    $($unit_word => Some(Self::$unit),)*
                    _ => None,
                }
            }
        }

        impl JsonSchema for EventBody {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                "EventBody".into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let mut kinds = vec![
                    $(kind_schema($word, concat!($($doc),*), Some(generator.subschema_for::<$data>())),)*
                    $(kind_schema($unit_word, concat!($($unit_doc),*), None),)*
                ];
                kinds.push(other_schema());
                json_schema!({ "anyOf": kinds })
            }
        }
    };
}

event_kinds! {
    with data {
        /// A run was created and its setup begins.
        RunSetup(RunSetupData) => "run.setup",
        /// The agents of the run elect the owner of the documents, before the kickoff.
        RunElecting(RunElectingData) => "run.electing",
        /// The agents of the run are woken from now on.
        RunRunning(RunRunningData) => "run.running",
        /// The run is paused: no attempt is leased until it is resumed.
        RunPaused(RunPausedData) => "run.paused",
        /// The run ended.
        RunEnded(RunEndedData) => "run.ended",
        /// An agent set the verdict of the run.
        RunVerdict(RunVerdictData) => "run.verdict",
        /// An attempt was leased.
        AttemptStarting(AttemptStartingData) => "attempt.starting",
        /// The worker of an attempt reported.
        AttemptRunning(AttemptRunningData) => "attempt.running",
        /// An attempt ended.
        AttemptEnded(AttemptEndedData) => "attempt.ended",
        /// A message reached a running turn: its program has given it to the model.
        DeliveryJoined(DeliveryData) => "delivery.joined",
        /// A delivery used up its attempts.
        DeliveryDead(DeliveryData) => "delivery.dead",
        /// A delivery was given up.
        DeliveryDropped(DeliveryData) => "delivery.dropped",
        /// A dead delivery was made pending again.
        DeliveryPending(DeliveryData) => "delivery.pending",
        /// An answer mentions an agent that the answer's turn did not message.
        MentionUnheard(MentionUnheardData) => "mention.unheard",
        /// The messages so far are hidden from the channel.
        ChannelCleared(ChannelClearedData) => "channel.cleared",
        /// A document has a new revision.
        DocumentWritten(DocumentWrittenData) => "document.written",
        /// A person's edit of a document's file could not be merged.
        DocumentConflict(DocumentConflictData) => "document.conflict",
        /// A change to a document was suggested.
        SuggestionOpen(SuggestionOpenData) => "suggestion.open",
        /// A suggestion was accepted.
        SuggestionAccepted(SuggestionAnsweredData) => "suggestion.accepted",
        /// A suggestion was rejected.
        SuggestionRejected(SuggestionAnsweredData) => "suggestion.rejected",
        /// A setup command ended.
        SetupRan(SetupRanData) => "setup.ran",
        /// A task started, or started again.
        TaskStarted(TaskStartedData) => "task.started",
        /// A task ended, or will not start.
        TaskEnded(TaskEndedData) => "task.ended",
        /// A proposal was made.
        ProposalActive(ProposalActiveData) => "proposal.active",
        /// A vote was cast or changed.
        BallotCast(BallotCastData) => "ballot.cast",
        /// A proposal was decided, or all voters voted and no option won.
        ProposalResolved(ProposalEndedData) => "proposal.resolved",
        /// A proposal reached its deadline.
        ProposalExpired(ProposalEndedData) => "proposal.expired",
        /// A proposal was cancelled.
        ProposalCancelled(ProposalEndedData) => "proposal.cancelled",
        /// An agent asked a person a question.
        QuestionOpen(QuestionData) => "question.open",
        /// A person answered a question.
        QuestionAnswered(QuestionData) => "question.answered",
        /// An agent waits for a person's approval of a tool call.
        ApprovalOpen(ApprovalOpenData) => "approval.open",
        /// A tool call was approved or denied.
        ApprovalAnswered(ApprovalAnsweredData) => "approval.answered",
        /// A person allowed an agent the calls of a pattern for the rest of its run.
        PermissionGranted(PermissionGrantData) => "permission.granted",
        /// A grant was revoked.
        PermissionRevoked(PermissionGrantData) => "permission.revoked",
        /// A grant allowed a tool call without a question.
        PermissionUsed(PermissionUsedData) => "permission.used",
        /// A notification for a person could not be delivered.
        NotificationFailed(NotificationFailedData) => "notification.failed",
        /// The wall clock was set, by `by_ms` milliseconds; no timer depends on it.
        ClockJumped(ClockJumpedData) => "clock.jumped",
        /// A message was written; `data` is the message.
        Message(Box<Message>) => "message",
        /// A worker called a tool.
        ToolCall(ToolCallData) => "tool_call",
        /// A tool call returned.
        ToolResult(ToolResultData) => "tool_result",
        /// Tokens were used.
        Usage(Usage) => "usage",
        /// A worker tries something again by itself.
        Retry(RetryData) => "retry",
        /// A worker reports a fact about its turn, such as a conversation that it has compacted.
        Note(NoteData) => "note",
        /// A model wrote more text. Live only.
        Text(TextData) => "text",
    }
    without data {
        /// An agent joined the run.
        AgentAdded => "agent.added",
        /// An agent is no longer woken in this run.
        AgentStopped => "agent.stopped",
        /// An agent that was stopped is woken again.
        AgentResumed => "agent.resumed",
        /// An agent has another script or other mock tools from its next turn on.
        AgentMockChanged => "agent.mock_changed",
        /// An agent left the run.
        AgentRemoved => "agent.removed",
        /// The event at this position is damaged and cannot be shown; `cause` names it.
        RowDamaged => "row.damaged",
        /// A worker is alive. Live only.
        Heartbeat => "heartbeat",
    }
}

impl EventBody {
    /// Reads a kind and its data, and never fails: see [`Self::Other`]. The second value is the data itself, if it has more
    /// than the body holds.
    pub fn parse(kind: &str, data: Value) -> (Self, Option<Value>) {
        match Self::typed(kind, &data) {
            Some(body) => {
                let received = (body.data() != data).then_some(data);
                (body, received)
            }
            None => (Self::Other { kind: kind.to_owned(), data }, None),
        }
    }

    /// The kind, if this version knows it.
    pub fn kind(&self) -> Option<EventKind> {
        EventKind::from_word(self.kind_word())
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Describes one kind with its data.
fn kind_schema(word: &str, about: &str, data: Option<Schema>) -> Schema {
    let mut schema = json_schema!({
        "description": about.trim(),
        "type": "object",
        "properties": {"kind": {"type": "string", "const": word}},
        "required": ["kind"],
    });
    if let Some(data) = data {
        schema.insert("required".to_owned(), serde_json::json!(["kind", "data"]));
        if let Some(properties) = schema.pointer_mut("/properties") {
            properties["data"] = data.to_value();
        }
    }
    schema
}

/// Returns the schema of [`EventBody::Other`].
fn other_schema() -> Schema {
    json_schema!({
        "description": "A kind or data of another version, or a kind whose data is missing; `cause` says why.",
        "type": "object",
        "properties": {"kind": {"type": "string"}, "data": true},
        "required": ["kind"],
    })
}
