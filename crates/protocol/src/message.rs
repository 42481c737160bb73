//! Messages of a channel, their senders and the receipts of their deliveries.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::{
    attachment::Attachment,
    id::{ResourceId, RunId, Seq},
    name::AgentName,
    state::DeliveryState,
    time::Millis,
};

/// An entry of an instance's channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Position in the total order of the instance.
    pub seq: Seq,
    /// Run in which the message was written.
    pub run: RunId,
    /// Time of writing.
    pub ts: Millis,
    /// Author of the message.
    pub from: Sender,
    /// Kind of entry: a message, an answer or a notice of the daemon.
    pub kind: MessageKind,
    /// Text of the message; a preview if `resource` is present.
    pub body: String,
    /// Message to which this one replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Seq>,
    /// Messages that the turn of an answer acted on, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acts_on: Vec<Seq>,
    /// Number of messages in the chain that led to this one.
    pub hops: u32,
    /// Urgency in the inboxes of its recipients.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
    /// Agents that the message wakes.
    pub to: Vec<AgentName>,
    /// Agents that read the message without being woken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<AgentName>,
    /// Resource with the whole text, if it is longer than a message may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceId>,
    /// Files that came with the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

/// Kind of a channel entry.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Text that a user, a client or an agent sent.
    Message,
    /// Final text of an attempt. It wakes the agents to which it hands work, if the run delivers answers.
    Answer,
    /// Notice of the daemon about an occurrence.
    System,
}

/// Urgency of a message, which sorts an inbox and never pre-empts a turn.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Sorted by age among the pending messages.
    #[default]
    Normal,
    /// Delivered before pending messages of normal priority.
    High,
}

impl Priority {
    /// Returns true for the default, which serialization omits.
    pub fn is_normal(&self) -> bool {
        *self == Self::Normal
    }
}

/// Author of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
pub enum Sender {
    /// The person at the keyboard.
    User,
    /// The daemon itself.
    System,
    /// An agent of the same instance.
    Agent(AgentName),
    /// A named client, identified by its token: `client:ci`.
    Client(String),
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.pad("user"),
            Self::System => f.pad("system"),
            Self::Agent(name) => name.fmt(f),
            Self::Client(name) => f.pad(&format!("client:{name}")),
        }
    }
}
impl From<String> for Sender {
    fn from(text: String) -> Self {
        match (text.as_str(), text.strip_prefix("client:"), text.parse()) {
            ("user", _, _) => Self::User,
            ("system", _, _) => Self::System,
            (_, Some(name), _) => Self::Client(name.to_owned()),
            (_, None, Ok(agent)) => Self::Agent(agent),
            (_, None, Err(_)) => Self::Client(text),
        }
    }
}
impl From<Sender> for String {
    fn from(sender: Sender) -> Self {
        sender.to_string()
    }
}

/// One delivery, as shown to the sender of its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// Position of the delivered message.
    pub seq: Seq,
    /// Agent that receives the message.
    pub agent: AgentName,
    /// State of the delivery.
    pub state: DeliveryState,
    /// Number of counted failures.
    pub failures: u32,
    /// Reason for a dead or dropped delivery, and the one who dropped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Final text of the attempt that acted on the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// Tokens and cost of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Number of tokens read by the model.
    pub input_tokens: u64,
    /// Number of tokens written by the model.
    pub output_tokens: u64,
    /// Cost in millionths of a dollar; absent if the cost of any part is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// True if part of the cost was computed here from the vendor's price list, because the program does not report
    /// it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_reckoned: bool,
}

impl Usage {
    /// Returns true if tokens were used and their cost is unknown.
    pub fn has_unknown_cost(&self) -> bool {
        self.cost_micros.is_none() && self.has_tokens()
    }

    /// Returns the sum with a further part; its cost is unknown if that of a part is.
    #[must_use]
    pub fn plus(&self, part: &Self) -> Self {
        let is_unknown = self.has_unknown_cost() || part.has_unknown_cost();
        let cost = match (self.cost_micros, part.cost_micros) {
            (Some(cost), Some(more)) => Some(cost.saturating_add(more)),
            (cost, more) => cost.or(more),
        };
        let cost_micros = cost.filter(|_| !is_unknown);
        Self {
            input_tokens: self.input_tokens.saturating_add(part.input_tokens),
            output_tokens: self.output_tokens.saturating_add(part.output_tokens),
            cost_micros,
            cost_reckoned: cost_micros.is_some() && (self.cost_reckoned || part.cost_reckoned),
        }
    }

    /// Returns true if a model was called at all.
    pub fn has_tokens(&self) -> bool {
        self.input_tokens > 0 || self.output_tokens > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_sum_is_unknown_if_that_of_a_part_is() {
        let used = |input_tokens, cost_micros, cost_reckoned| Usage {
            input_tokens,
            output_tokens: 1,
            cost_micros,
            cost_reckoned,
        };
        let nothing = Usage::default();
        for (one, other, cost, is_reckoned) in [
            (used(5, Some(2), false), used(7, Some(3), false), Some(5), false),
            (used(5, Some(2), true), used(7, Some(3), false), Some(5), true),
            (used(5, Some(2), true), used(7, None, false), None, false),
            (used(5, Some(2), true), nothing, Some(2), true),
            (nothing, used(7, None, false), None, false),
        ] {
            for sum in [one.plus(&other), other.plus(&one)] {
                assert_eq!((sum.cost_micros, sum.cost_reckoned), (cost, is_reckoned), "{one:?}");
                assert_eq!(sum.input_tokens, one.input_tokens + other.input_tokens);
            }
        }
        assert_eq!(nothing.plus(&nothing), nothing);
    }

    #[test]
    fn a_sender_reads_what_it_writes() {
        let coder = Sender::Agent("coder".parse().unwrap());
        for sender in [Sender::User, Sender::System, coder, Sender::Client("ci".into())] {
            assert_eq!(Sender::from(sender.to_string()), sender);
        }
    }
}
