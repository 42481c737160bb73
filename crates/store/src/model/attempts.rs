//! The life of an attempt: lease, events, finish.

use std::{fmt, sync::Arc, time::Duration};

use agent_worker_protocol::{
    AgentName, AttemptEnd, AttemptId, Finished, Hash, HistoryState, Limits, Message, MessageKind,
    Millis, PauseCause, Priority, RunId, RunMode, Sender, Seq, Usage,
};
use serde_json::Value;

use super::{Fence, NewMessage, NotBefore, SpendFacts};

use crate::time::{Now, StoreTime};

/// The parameters of a new attempt.
#[derive(Clone, Copy, Debug)]
pub struct NewAttempt {
    /// Random id, made by the caller.
    pub id: AttemptId,
    /// The hash of the token that identifies the attempt.
    pub token: Hash,
}

/// The facts for the decision whether one more attempt may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    /// Mode `run` or `start`.
    pub mode: RunMode,
    /// Number of turns taken.
    pub turns: u32,
    /// Turns that ended in the last 24 hours, counted up to the limit.
    pub turns_today: u32,
    /// Number of live attempts.
    pub attempts: u32,
    /// Limits of the run.
    pub limits: Limits,
    /// Time at which a `start` whose turns fill the limit has a turn again.
    pub turn_expires: Option<StoreTime>,
    /// What counts for the limits of cost and tokens.
    pub spend: SpendFacts,
    /// Scope in which turns, attempts and spend are counted.
    pub limit_scope: LimitScope,
    /// Time of the decision.
    pub now: Now,
}

/// The scope of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// All agents of the run together.
    Team,
    /// One standalone agent, since it was made or last resumed; other agents do not count.
    Standalone,
}

/// The decision about one more attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// Starts the attempt.
    Start,
    /// Does not start the attempt, and pauses the run.
    Pause(PauseCause),
    /// Does not start the attempt, and stops its agent for this reason.
    Stop(String),
}

/// The rules for starting an attempt: pure functions of the kernel, called inside the store's transaction.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRule {
    /// Decides if one more attempt may start.
    pub may_start: fn(&LeaseFacts) -> LeaseStep,
    /// The most pending messages that are read for `select_batch`.
    pub max_messages: u32,
    /// Selects and orders the messages of an activation: from the message it is named after and the other pending
    /// ones.
    pub select_batch: fn(Vec<ShownMessage>, Vec<ShownMessage>) -> Vec<ShownMessage>,
}

/// The outcome of a request for a lease.
#[derive(Clone, Debug)]
pub enum LeaseOutcome {
    /// The run is not running, the agent is not free or not due, or no waking delivery is pending.
    NotReady,
    /// A limit was reached and the run is paused.
    Paused(PauseCause),
    /// A limit was reached and the agent is stopped, for this reason.
    Stopped(String),
    /// An attempt has started.
    Attempt(Box<Lease>),
}

/// A started attempt.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Id of the attempt.
    pub id: AttemptId,
    /// Fence for the writes of the attempt.
    pub fence: Fence,
    /// Run of the attempt.
    pub run: RunId,
    /// The seq of the oldest waking delivery: with the agent's name, the activation's id, stable over attempts.
    pub oldest: Seq,
    /// Number of the try, from 1: the most counted failures among the deliveries, plus one.
    pub number: u32,
    /// The most uncounted failures in a row among the deliveries.
    pub setbacks: u32,
    /// Messages that the attempt is shown, waking first, urgent first, then by age.
    pub messages: Vec<ShownMessage>,
    /// Effects of earlier attempts that shared a delivery, oldest first.
    pub journal: Vec<JournalEntry>,
    /// Settings of the agent as JSON.
    pub settings: String,
    /// The conversation that the agent can continue, as its last turn reported.
    pub session: Option<Value>,
}

/// A message that an attempt is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownMessage {
    /// The message itself.
    pub message: Message,
    /// True if the message started the turn; false if it is only read along.
    pub wakes: bool,
}

/// An effect of an earlier attempt in the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// The tool that was called.
    pub tool: String,
    /// Essential arguments of the call; none if an earlier version stored the effect.
    pub arguments: Option<String>,
    /// Result of the call, as JSON.
    pub result: String,
}

/// An attempt as stored.
#[derive(Clone, Debug)]
pub struct AttemptRow {
    /// Id of the attempt.
    pub id: AttemptId,
    /// Fence for the writes of the attempt.
    pub fence: Fence,
    /// Run of the attempt.
    pub run: RunId,
    /// Oldest waking delivery of the activation.
    pub oldest: Seq,
    /// Number of the try, as in the lease.
    pub number: u32,
    /// Uncounted failures in a row before the attempt, as in the lease.
    pub setbacks: u32,
    /// Messages that the attempt was shown so far, each with its hops.
    pub shown: Vec<(Seq, u32)>,
    /// The highest event number stored.
    pub last_no: i64,
    /// The worker's final report, once it is stored.
    pub finished: Option<Finished>,
    /// Time at which the provider accepts requests again, if the final report names one.
    pub retry_at: Option<StoreTime>,
    /// Time of the lease.
    pub started: Millis,
    /// End of the attempt, once it has ended.
    pub ended: Option<AttemptEnd>,
    /// Time of the end.
    pub ended_at: Option<Millis>,
    /// Usage of the attempt so far.
    pub usage: Usage,
    /// Conversation that the attempt's program reported last.
    pub session: Option<Value>,
    /// State of the attempt's history.
    pub history: HistoryState,
    /// Store time of the lease.
    pub store_started: StoreTime,
}

/// A finished turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    /// Agent that took the turn.
    pub agent: AgentName,
    /// Time that the oldest message of the activation had waited.
    pub waited: Duration,
    /// Duration of the turn.
    pub took: Duration,
    /// End of the attempt.
    pub end: AttemptEnd,
}

/// The final text of an attempt, for the channel.
#[derive(Clone)]
pub struct AnswerDraft {
    /// The message, without recipients.
    pub message: NewMessage,
    /// Decides the recipients; none if the text mentions no name.
    pub rule: Option<AnswerRule>,
}

/// A pure decision about an answer, called inside the store's transaction.
pub type AnswerRule = Arc<dyn Fn(&AnswerFacts) -> AnswerStep + Send + Sync>;

/// The facts for the decision about an answer, at the end of its attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerFacts {
    /// Agents of the run.
    pub team: Vec<AgentName>,
    /// Agents that a message of this attempt wakes, or one of an earlier attempt that was shown the same messages.
    pub messaged: Vec<AgentName>,
    /// Waking messages that the attempt acted on, oldest first.
    pub woken_by: Vec<WakingMessage>,
}

/// A message that woke an attempt, or joined its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakingMessage {
    /// Author of the message.
    pub from: Sender,
    /// Kind of the message.
    pub kind: MessageKind,
}

/// The decision about an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerStep {
    /// Agents that the answer is delivered to and wakes.
    pub recipients: Vec<AgentName>,
    /// Mentioned agents that get neither the answer nor a message: an event is written for each.
    pub unheard: Vec<UnheardAgent>,
    /// Priority of the message, if it is higher than that of its text.
    pub priority: Priority,
    /// Cause for which the run is paused, if the answer exceeds a limit.
    pub pause: Option<PauseCause>,
}

/// A mentioned agent that does not get an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnheardAgent {
    /// The mentioned agent, also a name that no agent has.
    pub agent: AgentName,
    /// Cause for which a hand-off to the agent is not delivered; none if the mention is no hand-off.
    pub cause: Option<String>,
}

impl From<NewMessage> for AnswerDraft {
    fn from(message: NewMessage) -> Self {
        Self { message, rule: None }
    }
}

impl fmt::Debug for AnswerDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerDraft").field("message", &self.message).finish_non_exhaustive()
    }
}

/// The kernel's decision about the end of an attempt.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// End of the attempt.
    pub end: AttemptEnd,
    /// Consequence of a failure for the deliveries that the attempt was shown.
    pub blame: Blame,
    /// The final text for the channel, if there is one; written only if the attempt ended ok.
    pub answer: Option<AnswerDraft>,
    /// Time before which the agent is not leased again, if there is one.
    pub not_before: Option<NotBefore>,
    /// Reason why the agent is stopped in this run, if it is.
    pub stop: Option<String>,
    /// Conversation of the agent after a counted failure.
    pub session: SessionAfterFailure,
    /// Decides the next state of each delivery that the attempt has.
    pub delivery_rule: DeliveryRule,
    /// Words the note about a dead letter.
    pub dead_letter_text: DeadLetterText,
}

/// The conversation of an agent after a counted failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionAfterFailure {
    /// The next turn begins a new conversation: the program keeps it, and it may have failed because of it.
    Dropped,
    /// The next turn continues the conversation of the last attempt that ended ok.
    Kept,
}

/// The consequence of an attempt's end for the deliveries it was shown. An ok end acks them in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// No consequence: the deliveries are pending again, unchanged.
    None,
    /// The deliveries are tried again together, and are dead after `max` failures in a row.
    Uncounted {
        /// Maximum of uncounted failures in a row.
        max: u32,
    },
    /// The failure is counted and each delivery is tried alone from now on, and is dead at `max` failures.
    Counted {
        /// Maximum of counted failures.
        max: u32,
    },
}

/// A delivery that is leased to an attempt.
#[derive(Clone, Copy, Debug)]
pub struct LeasedDelivery {
    /// Seq of the message.
    pub seq: Seq,
    /// True for mail that joined during the turn.
    pub joined: bool,
    /// Failures of earlier attempts.
    pub counts: DeliveryFailureCounts,
}

/// The failures of the attempts that had a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryFailureCounts {
    /// Number of counted failures.
    pub failures: u32,
    /// Uncounted failures in a row.
    pub uncounted: u32,
    /// True for a delivery that is tried without others.
    pub alone: bool,
}

/// The next state of a delivery whose attempt has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryVerdict {
    /// The delivery is done.
    Acted,
    /// The delivery waits for another attempt.
    Pending(DeliveryFailureCounts),
    /// The attempts of the delivery are used up.
    Dead(DeliveryFailureCounts),
}

/// Decides the next state of a delivery from the end of its attempt: a pure function of the kernel.
pub type DeliveryRule = fn(&LeasedDelivery, &AttemptEnd, Blame) -> DeliveryVerdict;

/// Words the note in the channel about a dead letter, from its agent, its message and the reason.
pub type DeadLetterText = fn(&AgentName, Seq, &str) -> String;

/// The next states of an attempt's deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedAttempt {
    /// Deliveries that are acted.
    pub acted: Vec<Seq>,
    /// Deliveries that are pending again.
    pub pending: Vec<Seq>,
    /// Deliveries whose attempts are used up.
    pub dead: Vec<Seq>,
    /// The answer in the channel, if there is one.
    pub answer: Option<Seq>,
}
