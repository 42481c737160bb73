//! The scripted model of a `mock` agent.
//!
//! Carries out one rule in this order: sleep, calls, run, fail, say. Its failures are real: a crash kills the
//! worker.

use std::time::Duration;

use agent_worker_protocol::{FailureClass, MockFailure, MockRule, SHELL_TOOL, WorkerJob};
use async_trait::async_trait;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Map, Value};
use tokio::time::sleep;

use crate::{
    clocks::time_of_day,
    event_reporter::EventReporter,
    model::{Model, ModelConversation, ModelStep, ModelToolCall, ToolResult},
    turn::TurnFailure,
};

/// A rule and the progress of its execution.
pub(crate) struct MockModel {
    rule: MockRule,
    /// The failure of this attempt, if the rule makes this attempt fail.
    fail: Option<MockFailure>,
    stage: MockStage,
}

#[derive(Clone, Copy)]
enum MockStage {
    Calls,
    Run,
    Finish,
}

impl MockModel {
    /// Selects the first rule whose `on` occurs in the messages that woke the agent. Without one the model does
    /// nothing.
    pub(crate) fn new(rules: &[MockRule], job: &WorkerJob) -> Self {
        let applies = |rule: &&MockRule| {
            rule.on.as_ref().is_none_or(|text| job.woken_by.contains(text.as_str()))
        };
        let rule = rules.iter().find(applies).cloned().unwrap_or_default();
        let fail = rule.fail.filter(|_| rule.times.is_none_or(|times| job.number <= times));
        Self { rule, fail, stage: MockStage::Calls }
    }
}

#[async_trait]
impl Model for MockModel {
    async fn step(
        &mut self,
        so_far: &ModelConversation,
        report: &EventReporter,
    ) -> Result<ModelStep, TurnFailure> {
        if let MockStage::Calls = self.stage {
            if let Some(span) = self.rule.sleep {
                sleep(span.duration()).await;
            }
            self.stage = MockStage::Run;
            let calls = self.calls();
            if !calls.is_empty() {
                return Ok(ModelStep { calls, ..ModelStep::default() });
            }
        }
        if let MockStage::Run = self.stage {
            self.stage = MockStage::Finish;
            if let Some(command) = &self.rule.run {
                return Ok(ModelStep { calls: vec![shell_call(command)], ..ModelStep::default() });
            }
        }
        let output = self.command_output(so_far)?;
        if let Some(failure) = self.fail {
            return Err(fail_as_scripted(failure).await);
        }
        let text = self.rule.say.clone().unwrap_or(output);
        if !text.is_empty() {
            report.stream_text(&text);
        }
        Ok(ModelStep { text, ..ModelStep::default() })
    }
}

impl MockModel {
    fn calls(&self) -> Vec<ModelToolCall> {
        let calls = self.rule.calls.iter().zip(1..).map(|(call, n)| ModelToolCall {
            id: format!("call-{n}"),
            tool: call.tool.clone(),
            args: call.args.clone().into_iter().collect(),
        });
        calls.collect()
    }

    /// Returns the output of the rule's command. A failed command fails the turn.
    fn command_output(&self, so_far: &ModelConversation) -> Result<String, TurnFailure> {
        let last = so_far.exchanges.last().and_then(|exchange| exchange.results.last());
        match (&self.rule.run, last) {
            (None, _) | (Some(_), None) => Ok(String::new()),
            (Some(_), Some(ToolResult::Done(output) | ToolResult::Image(output, _))) => {
                Ok(output.trim().to_owned())
            }
            (Some(command), Some(ToolResult::Failed(why))) => {
                Err(TurnFailure::new(FailureClass::Fatal, format!("`{command}`: {why}")))
            }
        }
    }
}

fn shell_call(command: &str) -> ModelToolCall {
    let args = Map::from_iter([("command".to_owned(), Value::String(command.to_owned()))]);
    ModelToolCall { id: "run".to_owned(), tool: SHELL_TOOL.to_owned(), args }
}

/// Fails as scripted. Returns only for failures that a worker survives.
async fn fail_as_scripted(failure: MockFailure) -> TurnFailure {
    let scripted = |class| TurnFailure::new(class, "scripted");
    match failure {
        MockFailure::Transient => scripted(FailureClass::Transient),
        MockFailure::Fatal => scripted(FailureClass::Fatal),
        MockFailure::RateLimited => {
            let retry_at = Some(time_of_day().plus(Duration::from_secs(1)));
            TurnFailure { retry_at, ..scripted(FailureClass::RateLimited) }
        }
        MockFailure::Hang => std::future::pending().await,
        MockFailure::Exit(status) => std::process::exit(status.into()),
        MockFailure::Crash => {
            let _ = kill_process(getpid(), Signal::KILL);
            std::future::pending().await
        }
    }
}
