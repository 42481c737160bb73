//! A model behind the API of a provider.
//!
//! Keeps the conversation of the attempt in the form that the wire shapes write, with the reasoning that an API wants back.
//! Entries are only appended, so that each request begins with the bytes of the previous one.

use agent_worker_models::{
    AnswerDelta, AnswerPart, CallResult, CallStatus, ConversationEntry, ImageData, ModelAnswer,
    ModelClient, ModelFailure, ModelPrompt, ProviderEndpoint, RequestSettings, StopReason,
    ToolDefinition, UserPart, wire_of,
};
use agent_worker_protocol::{FailureClass, Usage, WorkerEvent};
use async_trait::async_trait;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    api_conversation::{CONVERSATION_TYPE, SavedConversation, complete_answer},
    clocks::time_of_day,
    event_reporter::EventReporter,
    model::{Model, ModelConversation, ModelStep, ModelToolCall, ToolExchange, ToolResult},
    model_retries::{DEFAULT_LIMIT_DELAY, RetryStep, next_retry},
    pricing::{ModelTokenUsage, PricingContext},
    tool_set::ToolSet,
    turn::TurnFailure,
};

/// The model and its conversation.
pub(crate) struct ProviderModel {
    pub(crate) client: ModelClient,
    pub(crate) endpoint: ProviderEndpoint,
    /// Name of the model, as the provider spells it.
    pub(crate) model: String,
    pub(crate) tools: Vec<ToolDefinition>,
    pub(crate) settings: RequestSettings,
    pub(crate) pricing: PricingContext,
    /// Images of the messages of the prompt.
    pub(crate) images: Vec<ImageData>,
    pub(crate) entries: Vec<ConversationEntry>,
    /// Number of entries of earlier turns.
    pub(crate) earlier: usize,
    /// The conversation of the earlier turns, which this turn extends.
    pub(crate) saved: SavedConversation,
    /// Number of exchanges of the loop that are in the entries.
    pub(crate) exchanges_read: usize,
    /// Number of calls so far, for ids of calls that have none.
    pub(crate) call_count: u32,
}

#[async_trait]
impl Model for ProviderModel {
    async fn step(
        &mut self,
        so_far: &ModelConversation,
        report: &EventReporter,
    ) -> Result<ModelStep, TurnFailure> {
        self.append_entries(so_far);
        let mut answer = self.ask_with_retries(&so_far.system_prompt, report).await?;
        let usage = self.usage(&answer);
        if usage != Usage::default() {
            report.record(WorkerEvent::Usage(usage));
        }
        check_stop(&answer, self.settings.max_tokens)?;
        self.name_calls(&mut answer);
        let text = answer.text();
        let calls = answer.calls().map(|call| ModelToolCall {
            id: call.id.clone(),
            tool: call.tool.clone(),
            args: call.args.clone(),
        });
        let calls = calls.collect();
        complete_answer(&mut answer.parts);
        self.entries.push(ConversationEntry::Model(answer.parts));
        Ok(ModelStep { text, calls })
    }
}

impl ProviderModel {
    /// Stores the entries of this turn, and returns the value for the next turn. None if the daemon refuses them.
    pub(crate) async fn save(mut self, tools: &ToolSet, report: &EventReporter) -> Option<Value> {
        let entries = serde_json::to_string(&self.entries[self.earlier..]).unwrap_or_default();
        match tools.store_text(&entries, Some(CONVERSATION_TYPE)).await {
            Ok(id) => {
                self.saved.parts.push(id);
                serde_json::to_value(self.saved).ok()
            }
            Err(why) => {
                let why = format!(
                    "the conversation was not stored, and the next turn begins a new one: {why}"
                );
                report.record(WorkerEvent::Retry { why });
                None
            }
        }
    }

    /// Appends the prompt, or the results and messages since the last step.
    fn append_entries(&mut self, so_far: &ModelConversation) {
        if self.entries.len() == self.earlier {
            let text = std::iter::once(UserPart::Text(so_far.prompt.clone()));
            let images = self.images.drain(..).map(UserPart::Image);
            self.entries.push(ConversationEntry::User(text.chain(images).collect()));
        }
        for exchange in &so_far.exchanges[self.exchanges_read..] {
            self.entries.push(ConversationEntry::User(user_parts(exchange)));
        }
        self.exchanges_read = so_far.exchanges.len();
    }

    /// Asks until the provider answers or a retry is no use.
    async fn ask_with_retries(
        &mut self,
        system: &str,
        report: &EventReporter,
    ) -> Result<ModelAnswer, TurnFailure> {
        let mut failed = 0;
        loop {
            let failure = match self.ask(system, report).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            // A model without structured answers refuses the field; the prompt has the schema too.
            if failure.class == FailureClass::Fatal && self.settings.output_schema.take().is_some()
            {
                let why = format!("{}; asking without the schema in the request", failure.why);
                report.record(WorkerEvent::Retry { why });
                continue;
            }
            match next_retry(&failure, failed) {
                RetryStep::Wait(delay) => {
                    failed += 1;
                    let why = format!("{}; asking again in {} s", failure.why, delay.as_secs());
                    report.record(WorkerEvent::Retry { why });
                    let _paused = report.pause_clocks();
                    sleep(delay).await;
                }
                RetryStep::GiveUp => return Err(turn_failure(failure)),
            }
        }
    }

    async fn ask(&self, system: &str, report: &EventReporter) -> Result<ModelAnswer, ModelFailure> {
        let prompt = ModelPrompt {
            model: &self.model,
            system,
            tools: &self.tools,
            entries: &self.entries,
            settings: &self.settings,
        };
        let request = wire_of(self.endpoint.shape).write_request(&prompt);
        let show = |delta| match delta {
            AnswerDelta::Text(text) => report.stream_text(&text),
            AnswerDelta::Thinking => report.touch(),
        };
        self.client.ask(&self.endpoint, request, show).await
    }

    fn usage(&self, answer: &ModelAnswer) -> Usage {
        let tokens = answer.tokens;
        self.pricing.usage(&[ModelTokenUsage {
            model: None,
            input: tokens.input,
            from_cache: tokens.from_cache,
            into_cache: tokens.into_cache,
            output: tokens.output,
        }])
    }

    /// Gives an id to each call that has none.
    fn name_calls(&mut self, answer: &mut ModelAnswer) {
        for part in &mut answer.parts {
            if let AnswerPart::Call(call) = part {
                self.call_count += 1;
                if call.id.is_empty() {
                    call.id = format!("call-{}", self.call_count);
                }
            }
        }
    }
}

fn user_parts(exchange: &ToolExchange) -> Vec<UserPart> {
    let results = exchange.calls.iter().zip(&exchange.results).map(|(call, result)| {
        let status = match result {
            ToolResult::Done(_) | ToolResult::Image(..) => CallStatus::Done,
            ToolResult::Failed(_) => CallStatus::Failed,
        };
        UserPart::Result(CallResult {
            call: call.id.clone(),
            tool: call.tool.clone(),
            status,
            text: result.text().to_owned(),
            images: result.images(),
        })
    });
    let messages = exchange.messages.iter().cloned().map(UserPart::Text);
    results.chain(messages).collect()
}

/// Refuses an answer that is not complete.
fn check_stop(answer: &ModelAnswer, max_tokens: Option<u32>) -> Result<(), TurnFailure> {
    let why = match answer.stop {
        StopReason::Complete => return Ok(()),
        StopReason::Refusal => "the model refused to answer".to_owned(),
        StopReason::MaxTokens => match max_tokens {
            Some(most) => format!("the answer reached {most} tokens; raise `max_tokens`"),
            None => "the answer reached the maximum number of tokens; set `max_tokens`".to_owned(),
        },
    };
    Err(TurnFailure::new(FailureClass::Fatal, why))
}

fn turn_failure(failure: ModelFailure) -> TurnFailure {
    let ModelFailure { class, why, retry_after } = failure;
    let retry_at = (class == FailureClass::RateLimited)
        .then(|| time_of_day().plus(retry_after.unwrap_or(DEFAULT_LIMIT_DELAY)));
    TurnFailure { retry_at, ..TurnFailure::new(class, why) }
}
