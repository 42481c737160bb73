//! The answer of a model, and the reader that makes it of a stream.

use agent_worker_protocol::FailureClass;
use serde_json::Value;

use crate::{
    conversation::{AnswerPart, ModelCall},
    failure::{ModelFailure, RequestSecrets},
};

/// Maximum number of characters of a stream that a failure repeats.
const MAX_QUOTED: usize = 200;

/// Reads the events of one response. Pure.
pub trait AnswerReader: Send {
    /// Reads the data of one event, and returns the text that it adds.
    fn read_event(&mut self, data: &str) -> Result<Option<AnswerDelta>, ModelFailure>;
    /// Returns the answer after the last event. Fails if the stream ended early.
    fn finish(self: Box<Self>) -> Result<ModelAnswer, ModelFailure>;
}

/// Text that an event adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerDelta {
    /// The provider has accepted the request.
    Begun,
    /// Text of the answer.
    Text(String),
    /// Reasoning, which no one but the model reads.
    Thinking,
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// Its parts in order.
    pub parts: Vec<AnswerPart>,
    /// The reason that the model stopped.
    pub stop: StopReason,
    /// Tokens of the request and of the answer.
    pub tokens: TokenCounts,
}

/// The reason that a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The answer is complete, or the model waits for the results of its calls.
    Complete,
    /// The answer reached the maximum number of tokens.
    MaxTokens,
    /// The model or the provider refused to answer.
    Refusal,
}

/// Tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// All input tokens, including the cached ones below.
    pub input: u64,
    /// Tokens read from the provider's cache.
    pub from_cache: u64,
    /// Tokens written into the provider's cache.
    pub into_cache: u64,
    /// Tokens that the model wrote.
    pub output: u64,
}

/// Maximum number of tokens of one kind that is believed; sums of such counts fit.
const MAX_TOKENS: u64 = 1 << 40;

/// Reads a count of tokens; none if the provider reports no number.
pub(crate) fn token_count(value: &Value) -> Option<u64> {
    value.as_u64().map(|count| count.min(MAX_TOKENS))
}

impl ModelAnswer {
    /// Returns the text without reasoning and calls.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            AnswerPart::Text { text, .. } => Some(text.as_str()),
            AnswerPart::Thinking(_) | AnswerPart::Call(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the calls in order.
    pub fn calls(&self) -> impl Iterator<Item = &ModelCall> {
        self.parts.iter().filter_map(|part| match part {
            AnswerPart::Call(call) => Some(call),
            AnswerPart::Text { .. } | AnswerPart::Thinking(_) => None,
        })
    }
}

/// Returns the failure of a stream that ended before its last event.
pub(crate) fn cut_stream() -> ModelFailure {
    ModelFailure::new(FailureClass::Transient, "the response ended early")
}

/// Returns the failure of an answer that ended for a reason without a meaning of its own. The answer may be a part.
pub(crate) fn unknown_stop(reason: &str, secrets: &RequestSecrets) -> ModelFailure {
    let start = secrets.remove_and_cut(reason, MAX_QUOTED);
    let why = format!("the provider ended the answer with `{start}`");
    ModelFailure::new(FailureClass::Transient, why)
}

/// Returns the failure of an event that is not understood.
pub(crate) fn malformed(data: &str, secrets: &RequestSecrets) -> ModelFailure {
    let start = secrets.remove_and_cut(data, MAX_QUOTED);
    ModelFailure::new(FailureClass::Transient, format!("the response is malformed at `{start}`"))
}
