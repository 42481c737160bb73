//! One entry of the event log, as `run`, the page and every other reader receive it.
//!
//! `body` lists the kinds of events, `data` has the data of each kind. Not here: how the store keeps an event.
//!
//! Invariant: an event that is read and written again is the same JSON, whichever version wrote it. On the wire the keys of
//! `data` are in alphabetical order, as in every `serde_json::Value`.

mod body;
mod data;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use self::{
    body::{EventBody, EventKind},
    data::{
        ApprovalAnsweredData, ApprovalOpenData, AttemptDeliveries, AttemptEndedData,
        AttemptRunningData, AttemptStartingData, BallotCastData, ChannelClearedData,
        ClockJumpedData, ConflictRevisions, DeliveryData, DocumentConflictData,
        DocumentWrittenData, MentionUnheardData, NoteData, NotificationFailedData,
        PermissionGrantData, PermissionUsedData, ProposalActiveData, ProposalEndedData,
        QuestionData, RetryData, RunElectingData, RunEndedData, RunPausedData, RunRunningData,
        RunSetupData, RunVerdictData, SetupRanData, SuggestionAnsweredData, SuggestionOpenData,
        TaskEndedData, TaskStartedData, TextData, ToolCallData, ToolResultData,
    },
};
use crate::{
    id::{AttemptId, Position, RunId},
    name::AgentName,
    target::InstanceRef,
    time::Millis,
};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
pub struct Event {
    /// Its place in its instance's log; absent for what is live only (text, heartbeat).
    pub pos: Option<Position>,
    /// Wall-clock time of the event.
    pub ts: Millis,
    /// The instance of the event.
    pub instance: InstanceRef,
    /// The run of the event.
    pub run: Option<RunId>,
    /// The agent that the event is about.
    pub agent: Option<AgentName>,
    /// The attempt that the event is about.
    pub attempt: Option<AttemptId>,
    /// The reason, as text.
    pub cause: Option<String>,
    /// On whose behalf: `user`, `system`, an agent, `client:name`.
    pub by: Option<String>,
    /// Time of the next automatic step.
    pub next: Option<Millis>,
    /// The kind and its data: `kind` and `data` on the wire.
    #[schemars(flatten)]
    pub body: EventBody,
    /// The data as it was received, if another version wrote more into it than `body` holds.
    #[schemars(skip)]
    pub received: Option<Box<Value>>,
}

impl Event {
    /// Makes an event that names only an instance.
    pub fn new(ts: Millis, instance: InstanceRef, body: EventBody) -> Self {
        Self {
            pos: None,
            ts,
            instance,
            run: None,
            agent: None,
            attempt: None,
            cause: None,
            by: None,
            next: None,
            body,
            received: None,
        }
    }

    /// Replaces the body by a kind and its data as another process or the store wrote them.
    #[must_use]
    pub fn with_data(self, kind: &str, data: Value) -> Self {
        let (body, received) = EventBody::parse(kind, data);
        Self { body, received: received.map(Box::new), ..self }
    }

    /// The kind, if this version knows it. The data need not fit: see [`EventBody::Other`].
    pub fn kind(&self) -> Option<EventKind> {
        self.body.kind()
    }

    /// The data as on the wire; null for a kind without data.
    pub fn data(&self) -> Cow<'_, Value> {
        match (&self.received, &self.body) {
            (Some(received), _) => Cow::Borrowed(received),
            (None, EventBody::Other { data, .. }) => Cow::Borrowed(data),
            (None, body) => Cow::Owned(body.data()),
        }
    }
}

/// The fields of an event in the order of the wire.
#[derive(Serialize, Deserialize)]
struct EventFields<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pos: Option<Position>,
    ts: Millis,
    instance: Cow<'a, InstanceRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    kind: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<Cow<'a, AgentName>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<AttemptId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_null")]
    data: Cow<'a, Value>,
}

fn is_null(data: &Value) -> bool {
    data.is_null()
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = EventFields {
            pos: self.pos,
            ts: self.ts,
            instance: Cow::Borrowed(&self.instance),
            run: self.run,
            kind: Cow::Borrowed(self.body.kind_word()),
            agent: self.agent.as_ref().map(Cow::Borrowed),
            attempt: self.attempt,
            cause: self.cause.as_deref().map(Cow::Borrowed),
            by: self.by.as_deref().map(Cow::Borrowed),
            next: self.next,
            data: self.data(),
        };
        fields.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = EventFields::deserialize(deserializer)?;
        let (body, received) = EventBody::parse(&fields.kind, fields.data.into_owned());
        Ok(Self {
            pos: fields.pos,
            ts: fields.ts,
            instance: fields.instance.into_owned(),
            run: fields.run,
            agent: fields.agent.map(Cow::into_owned),
            attempt: fields.attempt,
            cause: fields.cause.map(Cow::into_owned),
            by: fields.by.map(Cow::into_owned),
            next: fields.next,
            body,
            received: received.map(Box::new),
        })
    }
}
