//! The seam between the tool loop and its model: an LLM, or a script.
//!
//! A model is constructed with the constant parts (its settings, the tools it may offer) and called with the
//! conversation so far.

use agent_worker_models::ImageData;
use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::{event_reporter::EventReporter, turn::TurnFailure};

/// Produces one step at a time.
#[async_trait]
pub(crate) trait Model: Send {
    /// Takes the next step. Streams text through `report` as it arrives, and records its tokens and retries there.
    async fn step(
        &mut self,
        so_far: &ModelConversation,
        report: &EventReporter,
    ) -> Result<ModelStep, TurnFailure>;
}

/// The whole conversation of this attempt.
#[derive(Clone, Debug)]
pub(crate) struct ModelConversation {
    /// Instructions that describe the agent's identity.
    pub(crate) system_prompt: String,
    /// The task of the turn.
    pub(crate) prompt: String,
    /// The exchanges that followed the prompt.
    pub(crate) exchanges: Vec<ToolExchange>,
}

/// A step of the model, and what it gets for the next one. The model itself keeps the text of its step.
#[derive(Clone, Debug)]
pub(crate) struct ToolExchange {
    /// The calls of this step.
    pub(crate) calls: Vec<ModelToolCall>,
    /// One result for each call, in the same order.
    pub(crate) results: Vec<ToolResult>,
    /// Messages that joined the turn after this step.
    pub(crate) messages: Vec<String>,
}

impl ToolExchange {
    /// Returns an exchange without calls, after which the model gets a message.
    pub(crate) fn of_message(message: String) -> Self {
        Self { calls: Vec::new(), results: Vec::new(), messages: vec![message] }
    }
}

/// The next step of a model. Without calls the model is done and `text` is its answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelStep {
    pub(crate) text: String,
    pub(crate) calls: Vec<ModelToolCall>,
}

/// One tool call of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelToolCall {
    /// The id that the model gave to the call.
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) args: Map<String, Value>,
}

/// The result of a tool. A failure is a result too: the model reads the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolResult {
    Done(String),
    /// A description with its image.
    Image(String, ImageData),
    Failed(String),
}

impl ToolResult {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Done(text) | Self::Image(text, _) | Self::Failed(text) => text,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Done(_) | Self::Image(..) => true,
            Self::Failed(_) => false,
        }
    }

    /// Returns the images for the model.
    pub(crate) fn images(&self) -> Vec<ImageData> {
        match self {
            Self::Image(_, image) => vec![image.clone()],
            Self::Done(_) | Self::Failed(_) => Vec::new(),
        }
    }
}
