//! A model behind the API of a provider.
//!
//! Keeps the conversation of the attempt in the form that the wire shapes write, with the reasoning that an API wants back.
//! Entries are only appended, so that each request begins with the bytes of the previous one.

use agent_worker_models::{
    AnswerDelta, AnswerPart, CallResult, CallStatus, ConversationEntry, ImageData, ModelAnswer,
    ModelClient, ModelFailure, ModelPrompt, ProviderEndpoint, RequestSettings, StopReason,
    UserPart, wire_of,
};
use agent_worker_protocol::{FailureClass, Usage, WorkerEvent};
use async_trait::async_trait;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    api_compaction::ConversationSize,
    api_conversation::{CONVERSATION_TYPE, SavedConversation, complete_answer},
    api_tools::ApiTools,
    clocks::time_of_day,
    compaction::{MeasuredTokens, PromptPlace, TokenSource},
    event_reporter::EventReporter,
    model::{Model, ModelConversation, ModelStep, ModelToolCall, ToolExchange, ToolResult},
    model_retries::{DEFAULT_LIMIT_DELAY, RetryStep, next_retry},
    model_spend::{CallBound, CallProgress, SpendGuard, answer_bound},
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
    pub(crate) tools: ApiTools,
    pub(crate) settings: RequestSettings,
    pub(crate) pricing: PricingContext,
    pub(crate) spend: SpendGuard,
    /// Images of the messages of the prompt.
    pub(crate) images: Vec<ImageData>,
    pub(crate) entries: Vec<ConversationEntry>,
    pub(crate) earlier: EarlierEntries,
    /// Place of the prompt of this turn.
    pub(crate) prompt: PromptPlace,
    /// Tokens of the entries, as the provider counted them last.
    pub(crate) measured: Option<MeasuredTokens>,
    pub(crate) size: ConversationSize,
    /// The conversation of the earlier turns, which this turn extends.
    pub(crate) saved: SavedConversation,
    /// Number of exchanges of the loop that are in the entries.
    pub(crate) exchanges_read: usize,
    /// Number of calls so far, for ids of calls that have none.
    pub(crate) call_count: u32,
}

/// The entries of earlier turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EarlierEntries {
    /// This number of entries is stored, and is sent as it is.
    Stored(usize),
    /// A compaction has replaced the stored entries.
    Replaced,
}

/// The observers of the text of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerAudience {
    /// Everybody who follows the agent.
    Observers,
    /// Only the worker.
    Worker,
}

/// A request for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelQuestion<'a> {
    pub(crate) prompt: ModelPrompt<'a>,
    pub(crate) audience: AnswerAudience,
    /// Maximum number of tokens of the input.
    pub(crate) input_bound: u64,
}

#[async_trait]
impl Model for ProviderModel {
    async fn step(
        &mut self,
        so_far: &ModelConversation,
        report: &EventReporter,
    ) -> Result<ModelStep, TurnFailure> {
        self.append_entries(so_far);
        let mut answer = self.ask_in_window(&so_far.system_prompt, report).await?;
        check_stop(&answer, self.settings.max_tokens)?;
        self.name_calls(&mut answer);
        let text = answer.text();
        let calls = answer.calls().map(|call| ModelToolCall {
            id: call.id.clone(),
            tool: self.tools.tool_of(&call.tool).to_owned(),
            args: call.args.clone(),
        });
        let calls = calls.collect();
        complete_answer(&mut answer.parts);
        self.entries.push(ConversationEntry::Model(answer.parts));
        let tokens = answer.tokens.input + answer.tokens.output;
        let source = TokenSource::Counted;
        let measured = MeasuredTokens { tokens, entries: self.entries.len(), source };
        self.measured = (tokens > 0).then_some(measured);
        Ok(ModelStep { text, calls })
    }
}

impl ProviderModel {
    /// Stores the entries of this turn, and returns the value for the next turn. None if the daemon refuses them.
    pub(crate) async fn save(mut self, tools: &ToolSet, report: &EventReporter) -> Option<Value> {
        let new = match self.earlier {
            EarlierEntries::Stored(count) => &self.entries[count..],
            EarlierEntries::Replaced => {
                self.saved.parts.clear();
                &self.entries[..]
            }
        };
        let entries = serde_json::to_string(new).unwrap_or_default();
        self.saved.tokens = self.measured.map(|measured| measured.tokens);
        match tools.store_text(&entries, Some(CONVERSATION_TYPE)).await {
            Ok(id) => {
                self.saved.parts.push(id);
                serde_json::to_value(self.saved).ok()
            }
            Err(why) => {
                let why = format!(
                    "the conversation was not stored, and the next turn begins a new one: {why}"
                );
                report.record_note(why);
                None
            }
        }
    }

    /// Appends the prompt, or the results and messages since the last step.
    fn append_entries(&mut self, so_far: &ModelConversation) {
        if self.prompt == PromptPlace::Entry(self.entries.len()) {
            let text = std::iter::once(UserPart::Text(so_far.prompt.clone()));
            let images = self.images.drain(..).map(UserPart::Image);
            self.entries.push(ConversationEntry::User(text.chain(images).collect()));
        }
        for exchange in &so_far.exchanges[self.exchanges_read..] {
            self.entries.push(ConversationEntry::User(user_parts(exchange, &self.tools)));
        }
        self.exchanges_read = so_far.exchanges.len();
    }

    /// Asks until the provider answers or a retry is no use.
    pub(crate) async fn ask_with_retries(
        &self,
        question: ModelQuestion<'_>,
        spend: &mut SpendGuard,
        report: &EventReporter,
    ) -> Result<ModelAnswer, TurnFailure> {
        let ModelQuestion { prompt, audience, input_bound } = question;
        let call = CallBound { input: input_bound, output: answer_bound(prompt.settings) };
        let mut failed = 0;
        loop {
            spend.reserve(call, &self.pricing, report).await?;
            let mut progress = CallProgress::NotBegun;
            let failure = match self.ask(prompt, audience, report, &mut progress).await {
                Ok(answer) => {
                    spend.record_usage(call, self.usage(&answer), report).await?;
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            spend.record_failure(call, progress, report).await?;
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

    async fn ask(
        &self,
        prompt: ModelPrompt<'_>,
        audience: AnswerAudience,
        report: &EventReporter,
        progress: &mut CallProgress,
    ) -> Result<ModelAnswer, ModelFailure> {
        let request = wire_of(self.endpoint.shape).write_request(&prompt);
        let show = |delta| match (delta, audience) {
            (AnswerDelta::Begun, _) => *progress = CallProgress::Begun,
            (AnswerDelta::Text(text), AnswerAudience::Observers) => report.stream_text(&text),
            (AnswerDelta::Text(_), AnswerAudience::Worker) | (AnswerDelta::Thinking, _) => {
                report.touch();
            }
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

fn user_parts(exchange: &ToolExchange, tools: &ApiTools) -> Vec<UserPart> {
    let results = exchange.calls.iter().zip(&exchange.results).map(|(call, result)| {
        let status = match result {
            ToolResult::Done(_) | ToolResult::Image(..) => CallStatus::Done,
            ToolResult::Failed(_) => CallStatus::Failed,
        };
        UserPart::Result(CallResult {
            call: call.id.clone(),
            tool: tools.name_of(&call.tool).to_owned(),
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
