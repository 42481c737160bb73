//! The seam between the tool loop and what it asks for the next step: an LLM, or a script.
//!
//! A model is made with what does not change (its settings, the tools it may offer) and asked with
//! what does: the conversation so far.

use agent_worker_protocol::Usage;
use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::{event_reporter::EventReporter, turn::TurnFailure};

/// Thinks one step at a time.
#[async_trait]
pub(crate) trait Model: Send {
    /// Takes the next step. Words are shown through `report` as they come; so are its own retries.
    async fn step(
        &mut self,
        so_far: &ModelConversation,
        report: &EventReporter,
    ) -> Result<ModelStep, TurnFailure>;
}

/// Everything said in this attempt.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "a script reads only the results; an LLM reads all of it")]
pub(crate) struct ModelConversation {
    /// Who the agent is told it is.
    pub(crate) system_prompt: String,
    /// What it is told to do.
    pub(crate) prompt: String,
    /// What followed.
    pub(crate) exchanges: Vec<ToolExchange>,
}

/// A step that called tools, and what they answered.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "a script reads only the results; an LLM reads all of it")]
pub(crate) struct ToolExchange {
    /// What the model said beside its calls.
    pub(crate) text: String,
    /// What it called.
    pub(crate) calls: Vec<ModelToolCall>,
    /// One result for each call, in the same order.
    pub(crate) results: Vec<ToolResult>,
}

/// What a model wants next. Without calls, it is done and `text` is its last word.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelStep {
    pub(crate) text: String,
    pub(crate) calls: Vec<ModelToolCall>,
    pub(crate) usage: Usage,
}

/// One tool call.
#[derive(Clone, Debug)]
pub(crate) struct ModelToolCall {
    /// The model's own name for it.
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) args: Map<String, Value>,
}

/// What a tool answered. A tool that failed has answered too: its model reads why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolResult {
    Done(String),
    Failed(String),
}

impl ToolResult {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Done(text) | Self::Failed(text) => text,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Done(_) => true,
            Self::Failed(_) => false,
        }
    }
}
