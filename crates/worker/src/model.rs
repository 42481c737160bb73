//! The seam between an attempt and whatever thinks for it: an LLM, or a script.
//!
//! A model is made with what does not change (its settings, the tools it may offer) and asked with
//! what does: the conversation so far.

use std::io;

use agent_worker_host::is_shortage;
use agent_worker_protocol::{FailureClass, Millis, Usage, WorkerOutcome};
use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::event_reporter::EventReporter;

/// Thinks one step at a time.
#[async_trait]
pub(crate) trait StepModel: Send {
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

/// Why there is no next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnFailure {
    pub(crate) class: FailureClass,
    /// What happened, for people.
    pub(crate) why: String,
    /// When the provider said to come back.
    pub(crate) retry_at: Option<Millis>,
    /// Whether the machine had run out of something: that says nothing about the work.
    pub(crate) is_shortage: bool,
}

impl TurnFailure {
    pub(crate) fn new(class: FailureClass, why: impl Into<String>) -> Self {
        Self { class, why: why.into(), retry_at: None, is_shortage: false }
    }

    /// A failure of the system while the worker was `doing` something.
    pub(crate) fn from_io_error(doing: &str, error: &io::Error) -> Self {
        let failure = Self::new(FailureClass::Fatal, format!("could not {doing}: {error}"));
        Self { is_shortage: is_shortage(error), ..failure }
    }

    /// The outcome it is reported as.
    pub(crate) fn outcome(self) -> WorkerOutcome {
        let Self { class, why, retry_at, is_shortage } = self;
        if is_shortage {
            return WorkerOutcome::Unstarted { why };
        }
        WorkerOutcome::Failed { class, why, retry_at }
    }
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
