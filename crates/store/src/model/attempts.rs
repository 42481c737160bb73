//! The life of an attempt: lease, events, finish.

use std::time::Duration;

use agent_worker_protocol::{
    AgentName, AttemptEnd, AttemptId, Finished, Hash, Limits, Message, Millis, PauseCause, RunId,
    RunMode, Seq, Usage,
};
use serde_json::Value;

use super::{Fence, NewMessage, NotBefore};

use crate::time::StoreTime;

/// What an attempt is made from.
#[derive(Clone, Copy, Debug)]
pub struct NewAttempt {
    /// Made by the caller, who has the randomness.
    pub id: AttemptId,
    /// The hash of the token that will prove who it is.
    pub token: Hash,
}

/// What the permission to start one more attempt rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    /// `run` or `start`.
    pub mode: RunMode,
    /// Turns taken.
    pub turns: u32,
    /// Those that ended in the last 24 hours, counted as far as the limit goes.
    pub turns_today: u32,
    /// Attempts that live.
    pub attempts: u32,
    /// Where the run stops by itself.
    pub limits: Limits,
    /// Whose turns and attempts these are.
    pub limit_scope: LimitScope,
}

/// Whom a limit is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// Everybody in the run together.
    Team,
    /// One standalone agent, since it was made or last resumed: those beside it are none of its business.
    Standalone,
}

/// What was decided about one more attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// It starts.
    Start,
    /// It does not, and the run pauses.
    Pause(PauseCause),
    /// It does not, and its agent is woken no more, for this reason.
    Stop(String),
}

/// The rules for starting an attempt: pure functions of the kernel, called inside the store's transaction.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRule {
    /// Decides whether one more attempt may start.
    pub may_start: fn(&LeaseFacts) -> LeaseStep,
    /// The most pending messages that are read for `select_batch`.
    pub max_messages: u32,
    /// Selects and orders the messages of an activation: from the one it is named after and the other pending ones.
    pub select_batch: fn(Vec<ShownMessage>, Vec<ShownMessage>) -> Vec<ShownMessage>,
}

/// What came of asking for a lease.
#[derive(Clone, Debug)]
pub enum LeaseOutcome {
    /// The run does not run, the agent is not free or not due, or no waking mail waits.
    NotReady,
    /// A limit was reached and the run is paused.
    Paused(PauseCause),
    /// A limit was reached and the agent is stopped, for this reason.
    Stopped(String),
    /// An attempt lives.
    Attempt(Box<Lease>),
}

/// A started attempt.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The attempt.
    pub id: AttemptId,
    /// What its writes pass by.
    pub fence: Fence,
    /// Its run.
    pub run: RunId,
    /// The seq of the oldest waking delivery: with the agent's name, the activation's id, stable over attempts.
    pub oldest: Seq,
    /// Which try this is, from 1: the most counted failures among the deliveries, and one.
    pub number: u32,
    /// The most uncounted failures in a row among the deliveries.
    pub setbacks: u32,
    /// What it is shown, waking first, urgent first, then by age.
    pub messages: Vec<ShownMessage>,
    /// What earlier attempts that shared a delivery did, oldest first.
    pub journal: Vec<JournalEntry>,
    /// The agent's settings as JSON.
    pub settings: String,
    /// The conversation its last turn said it can go on with.
    pub session: Option<Value>,
}

/// A message as an attempt is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownMessage {
    /// The message.
    pub message: Message,
    /// Whether it started the turn, or is only read along.
    pub wakes: bool,
}

/// Something an earlier attempt did in the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// The tool that was called.
    pub tool: String,
    /// What it answered, as JSON.
    pub result: String,
}

/// An attempt as stored.
#[derive(Clone, Debug)]
pub struct AttemptRow {
    /// The attempt.
    pub id: AttemptId,
    /// What its writes pass by.
    pub fence: Fence,
    /// Its run.
    pub run: RunId,
    /// The activation's oldest waking delivery.
    pub oldest: Seq,
    /// Which try it is, as its lease said.
    pub number: u32,
    /// Uncounted failures in a row before it, as its lease said.
    pub setbacks: u32,
    /// What it was shown so far, each with its hops.
    pub shown: Vec<(Seq, u32)>,
    /// The highest event number stored.
    pub last_no: i64,
    /// The worker's last word, once it is stored.
    pub finished: Option<Finished>,
    /// When its provider can be asked again, as far as its last word says.
    pub retry_at: Option<StoreTime>,
    /// When it was leased.
    pub started: Millis,
    /// How it ended, once it has.
    pub ended: Option<AttemptEnd>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// What it used so far.
    pub usage: Usage,
}

/// A turn that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    /// By whom.
    pub agent: AgentName,
    /// How long the message it is named after had waited.
    pub waited: Duration,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub end: AttemptEnd,
}

/// How an attempt is to be closed, decided by the kernel's policy.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// How it ended.
    pub end: AttemptEnd,
    /// What its failure means for the deliveries it was shown.
    pub blame: Blame,
    /// Its final text for the channel, if it has one; written only when it ended ok.
    pub answer: Option<NewMessage>,
    /// When its agent may next be leased.
    pub not_before: Option<NotBefore>,
    /// Why its agent is not woken any more in this run.
    pub stop: Option<String>,
    /// Decides the next state of each delivery that the attempt has.
    pub delivery_rule: DeliveryRule,
    /// What a dead letter is told as.
    pub dead_letter_text: DeadLetterText,
}

/// What an attempt's end means for the deliveries it was shown. An end that is ok acks them whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Nothing: they are pending again as they were.
    None,
    /// Tried again together; dead after so many in a row.
    Uncounted {
        /// The most there may be in a row.
        max: u32,
    },
    /// Counted and tried alone from now on; dead at so many.
    Counted {
        /// The most there may be.
        max: u32,
    },
}

/// A delivery that an attempt has.
#[derive(Clone, Copy, Debug)]
pub struct LeasedDelivery {
    /// The message.
    pub seq: Seq,
    /// True for mail that came during the turn.
    pub joined: bool,
    /// The failures of earlier attempts.
    pub counts: DeliveryFailureCounts,
}

/// The failures of the attempts that had a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryFailureCounts {
    /// Counted failures.
    pub failures: u32,
    /// Uncounted failures in a row.
    pub uncounted: u32,
    /// True for a delivery that is tried without others.
    pub alone: bool,
}

/// The next state of a delivery whose attempt has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryVerdict {
    /// It is done.
    Acted,
    /// It waits for another attempt.
    Pending(DeliveryFailureCounts),
    /// Its attempts are used up.
    Dead(DeliveryFailureCounts),
}

/// Decides the next state of a delivery from the end of its attempt: a pure function of the kernel.
pub type DeliveryRule = fn(&LeasedDelivery, &AttemptEnd, Blame) -> DeliveryVerdict;

/// Words the note in the channel that tells of a dead letter: whose, which, why.
pub type DeadLetterText = fn(&AgentName, Seq, &str) -> String;

/// What became of an attempt's deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedAttempt {
    /// Deliveries acked.
    pub acted: Vec<Seq>,
    /// Deliveries that wait again.
    pub pending: Vec<Seq>,
    /// Deliveries whose attempts are used up.
    pub dead: Vec<Seq>,
    /// The answer in the channel.
    pub answer: Option<Seq>,
}
