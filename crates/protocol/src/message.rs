//! What is said in a channel, by whom, and where it is.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    id::{ResourceId, RunId, Seq},
    name::AgentName,
    state::DeliveryState,
    time::Millis,
};

/// An entry of an instance's channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Its place in the order.
    pub seq: Seq,
    /// The run it was written in.
    pub run: RunId,
    /// When it was written.
    pub ts: Millis,
    /// Who wrote it.
    pub from: Sender,
    /// What it is.
    pub kind: MessageKind,
    /// What it says; a preview when `resource` is there.
    pub body: String,
    /// The message it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Seq>,
    /// How many messages led to it.
    pub hops: u32,
    /// How urgent it is.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
    /// Whom it wakes.
    pub to: Vec<AgentName>,
    /// Who reads it without being woken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<AgentName>,
    /// Its whole text, when that is longer than a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceId>,
}

/// What kind of entry it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Somebody said something.
    Message,
    /// The final text of an attempt. It wakes nobody.
    Answer,
    /// The daemon tells what happened.
    System,
}

/// How urgent a message is. It sorts an inbox and never pre-empts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// As usual.
    #[default]
    Normal,
    /// Before the others.
    High,
}

impl Priority {
    /// Whether it need not be mentioned.
    pub fn is_normal(&self) -> bool {
        *self == Self::Normal
    }
}

/// Who wrote a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
pub enum Sender {
    /// The person at the keyboard.
    User,
    /// The daemon.
    System,
    /// An agent of the same instance.
    Agent(AgentName),
    /// A named client, by its token: `client:ci`.
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

/// One delivery, as its sender sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// The message.
    pub seq: Seq,
    /// The recipient.
    pub agent: AgentName,
    /// Where it stands.
    pub state: DeliveryState,
    /// Failures that count.
    pub failures: u32,
    /// Why it is dead or dropped, and by whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The answer, once it is acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// What an attempt used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Millionths of a dollar; absent when not known of all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Whether some of that was reckoned here, by the vendor's list of prices, because the program does not say it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_reckoned: bool,
}

impl Usage {
    /// Whether it cost something that nobody knows.
    pub fn has_unknown_cost(&self) -> bool {
        self.cost_micros.is_none() && self.has_tokens()
    }

    /// Whether a model was asked at all.
    pub fn has_tokens(&self) -> bool {
        self.input_tokens > 0 || self.output_tokens > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_reads_what_it_writes() {
        let coder = Sender::Agent("coder".parse().unwrap());
        for sender in [Sender::User, Sender::System, coder, Sender::Client("ci".into())] {
            assert_eq!(Sender::from(sender.to_string()), sender);
        }
    }
}
