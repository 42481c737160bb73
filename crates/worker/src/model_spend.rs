//! Calls of a model within the limits of cost and tokens of the run: the worker asks the daemon before each call.
//!
//! Invariant: while the run has a limit, no call begins without a reservation of the most that it can use, and none before the
//! daemon has stored the usage of the previous one.

use std::time::Duration;

use agent_worker_host::{DaemonSocket, DialError};
use agent_worker_models::RequestSettings;
use agent_worker_protocol::{
    AttemptId, FailureClass, SpendLimits, SpendReply, SpendRequest, Usage, WorkerEvent,
};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{event_reporter::EventReporter, pricing::PricingContext, turn::TurnFailure};

const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of one request; the daemon holds a request for less.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum number of tokens of an answer under a limit, if the workflow file sets none.
const DEFAULT_ANSWER_TOKENS: u64 = 16_000;

/// Asks the daemon before each call.
#[derive(Clone)]
pub(crate) struct SpendGuard {
    daemon: DaemonSocket,
    path: String,
    limits: SpendLimits,
    /// Number of the event with the usage of the last call.
    last_usage: Option<i64>,
    has_named_price: bool,
}

/// The most that a call can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallBound {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// The progress of a call that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallProgress {
    /// The provider has refused it, or was not reached.
    NotBegun,
    /// The provider has begun its answer, and may charge for it.
    Begun,
}

impl CallBound {
    fn tokens(self) -> u64 {
        self.input.saturating_add(self.output).max(1)
    }
}

impl SpendGuard {
    pub(crate) fn new(daemon: DaemonSocket, attempt: AttemptId, limits: SpendLimits) -> Self {
        let path = format!("/attempts/{attempt}/spend");
        Self { daemon, path, limits, last_usage: None, has_named_price: false }
    }

    /// Records the usage of a call. A call without usage counts with all that it could use.
    pub(crate) async fn record_usage(
        &mut self,
        call: CallBound,
        usage: Usage,
        report: &EventReporter,
    ) -> Result<(), TurnFailure> {
        if usage == Usage::default() {
            return self.record_failure(call, CallProgress::Begun, report).await;
        }
        self.last_usage = Some(report.record(WorkerEvent::Usage(usage)));
        Ok(())
    }

    /// Ends the reservation of a call that reports no usage. If its answer had begun, the provider may charge for it.
    pub(crate) async fn record_failure(
        &self,
        call: CallBound,
        progress: CallProgress,
        report: &EventReporter,
    ) -> Result<(), TurnFailure> {
        if self.limits == SpendLimits::NONE {
            return Ok(());
        }
        let lost = progress == CallProgress::Begun;
        if lost {
            let most = call.tokens();
            report.record_note(format!(
                "the provider reported no usage of a call: {most} tokens, the most that it can have used, count against \
                 the limits of the run"
            ));
        }
        self.post(SpendRequest { cost_micros: None, tokens: 0, lost }, report).await
    }

    /// Reserves a call. Does not return if the daemon refuses it: the daemon then ends the attempt.
    pub(crate) async fn reserve(
        &mut self,
        call: CallBound,
        pricing: &PricingContext,
        report: &EventReporter,
    ) -> Result<(), TurnFailure> {
        if self.limits == SpendLimits::NONE {
            return Ok(());
        }
        if let Some(no) = self.last_usage.take() {
            report.wait_acknowledged(no).await;
        }
        let cost_micros = pricing.maximum_cost(call.input, call.output);
        if cost_micros.is_none() && self.limits.cost_micros.is_some() && !self.has_named_price {
            self.has_named_price = true;
            let model = pricing.model.as_deref().unwrap_or("the model");
            report.record_note(format!(
                "the price of a call of {model} is not known: `limits.cost_usd` does not limit it, `limits.tokens` does"
            ));
        }
        let request = SpendRequest { cost_micros, tokens: call.tokens(), lost: false };
        self.post(request, report).await
    }

    async fn post(&self, request: SpendRequest, report: &EventReporter) -> Result<(), TurnFailure> {
        // Waiting for other agents is no silence of this one.
        let _paused = report.pause_clocks();
        loop {
            match timeout(REQUEST_TIMEOUT, self.daemon.post(&self.path, &request)).await {
                Ok(Ok(SpendReply::Reserved)) => return Ok(()),
                Ok(Ok(SpendReply::Wait)) => {}
                Ok(Ok(SpendReply::Refused)) => std::future::pending().await,
                Ok(Err(DialError::Refused(problem))) if problem.code.status() < 500 => {
                    let why = format!("the daemon reserved no call of the model: {problem}");
                    return Err(TurnFailure::new(FailureClass::Transient, why));
                }
                Ok(Err(_)) | Err(_) => sleep(RETRY_INTERVAL).await,
            }
        }
    }
}

/// Returns the settings of requests under limits: without `max_tokens`, an answer has a maximum all the same.
pub(crate) fn bounded_settings(
    mut settings: RequestSettings,
    limits: SpendLimits,
    pricing: &PricingContext,
    window: u64,
) -> RequestSettings {
    let counts = limits.tokens.is_some()
        || limits.cost_micros.is_some() && pricing.maximum_cost(1, 1).is_some();
    if counts && settings.max_tokens.is_none() {
        let most = DEFAULT_ANSWER_TOKENS.min(window / 4);
        settings.max_tokens = Some(u32::try_from(most).unwrap_or(u32::MAX));
    }
    settings
}

/// Returns the maximum number of tokens of the answers to one request, also if `extra` raises it.
pub(crate) fn answer_bound(settings: &RequestSettings) -> u64 {
    let extra = &settings.extra;
    let generation = extra.get("generationConfig").unwrap_or(&Value::Null);
    let raised = ["max_completion_tokens", "max_output_tokens"].map(|name| extra.get(name));
    let raised = raised.into_iter().flatten().chain([&generation["maxOutputTokens"]]);
    let raised = raised.filter_map(Value::as_u64).max().unwrap_or_default();
    let most = settings.max_tokens.map_or(DEFAULT_ANSWER_TOKENS, u64::from).max(raised);
    let counts = [extra.get("n"), generation.get("candidateCount")];
    let count = counts.into_iter().flatten().filter_map(Value::as_u64).max().unwrap_or(1);
    most.saturating_mul(count.max(1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(max_tokens: Option<u32>, extra: &Value) -> RequestSettings {
        let extra = extra.as_object().cloned().unwrap_or_default();
        RequestSettings { max_tokens, extra, ..RequestSettings::default() }
    }

    #[test]
    fn an_answer_is_bounded_also_if_further_fields_raise_its_length() {
        for (max_tokens, extra, expected) in [
            (None, json!({}), 16_000),
            (Some(50), json!({}), 50),
            (Some(50), json!({"max_completion_tokens": 70}), 70),
            (Some(50), json!({"max_output_tokens": 40}), 50),
            (
                Some(50),
                json!({"generationConfig": {"maxOutputTokens": 80, "candidateCount": 2}}),
                160,
            ),
            (Some(50), json!({"n": 3}), 150),
            (Some(50), json!({"n": 0}), 50),
        ] {
            assert_eq!(answer_bound(&settings(max_tokens, &extra)), expected, "{extra}");
        }
    }

    #[test]
    fn an_answer_gets_a_maximum_only_under_a_limit_that_counts_it() {
        let priced = |model: &str| PricingContext {
            backend: "api",
            model: Some(model.to_owned()),
            has_default_settings: false,
        };
        let (known, unknown) = (priced("anthropic/claude-sonnet-5-5"), priced("acme/large"));
        let cost = SpendLimits { cost_micros: Some(1), tokens: None };
        let tokens = SpendLimits { cost_micros: None, tokens: Some(1) };
        for (max_tokens, limits, pricing, window, expected) in [
            (None, SpendLimits::NONE, &known, 1_000_000, None),
            (None, cost, &known, 1_000_000, Some(16_000)),
            (None, cost, &unknown, 1_000_000, None),
            (None, tokens, &unknown, 32_000, Some(8_000)),
            (Some(5), cost, &known, 1_000_000, Some(5)),
        ] {
            let given = settings(max_tokens, &json!({}));
            let bounded = bounded_settings(given, limits, pricing, window);
            assert_eq!(bounded.max_tokens, expected, "{limits:?}");
        }
    }
}
