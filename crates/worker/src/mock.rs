//! The scripted model: what a `mock` agent does instead of thinking.
//!
//! One rule, acted out in order: sleep, calls, run, fail, say. Its failures are real: a crash kills
//! the worker.

use std::time::Duration;

use agent_worker_protocol::{FailureClass, MockFailure, MockRule, SHELL_TOOL, WorkerJob};
use async_trait::async_trait;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Map, Value};
use tokio::time::sleep;

use crate::{
    clocks::time_of_day,
    model::{Call, Conversation, Failure, Model, Step, ToolResult},
    report::Report,
};

/// A rule, and how far it is acted out.
pub(crate) struct Mock {
    rule: MockRule,
    /// How it fails, if this attempt is one that fails.
    fail: Option<MockFailure>,
    act: Act,
}

#[derive(Clone, Copy)]
enum Act {
    Calls,
    Run,
    Last,
}

impl Mock {
    /// The first rule whose `on` occurs in what woke the agent. Without one, nothing is done.
    pub(crate) fn new(rules: &[MockRule], job: &WorkerJob) -> Self {
        let applies = |rule: &&MockRule| {
            rule.on.as_ref().is_none_or(|text| job.woken_by.contains(text.as_str()))
        };
        let rule = rules.iter().find(applies).cloned().unwrap_or_default();
        let fail = rule.fail.filter(|_| rule.times.is_none_or(|times| job.number <= times));
        Self { rule, fail, act: Act::Calls }
    }
}

#[async_trait]
impl Model for Mock {
    async fn step(&mut self, so_far: &Conversation, report: &Report) -> Result<Step, Failure> {
        if let Act::Calls = self.act {
            if let Some(span) = self.rule.sleep {
                sleep(span.duration()).await;
            }
            self.act = Act::Run;
            let calls = self.calls();
            if !calls.is_empty() {
                return Ok(Step { calls, ..Step::default() });
            }
        }
        if let Act::Run = self.act {
            self.act = Act::Last;
            if let Some(command) = &self.rule.run {
                return Ok(Step { calls: vec![shell(command)], ..Step::default() });
            }
        }
        let output = self.output(so_far)?;
        if let Some(failure) = self.fail {
            return Err(act_out(failure).await);
        }
        let text = self.rule.say.clone().unwrap_or(output);
        if !text.is_empty() {
            report.say(&text);
        }
        Ok(Step { text, ..Step::default() })
    }
}

impl Mock {
    fn calls(&self) -> Vec<Call> {
        let calls = self.rule.calls.iter().zip(1..).map(|(call, n)| Call {
            id: format!("call-{n}"),
            tool: call.tool.clone(),
            args: call.args.clone().into_iter().collect(),
        });
        calls.collect()
    }

    /// What its command wrote. One that failed is a failure of the agent.
    fn output(&self, so_far: &Conversation) -> Result<String, Failure> {
        let last = so_far.exchanges.last().and_then(|exchange| exchange.results.last());
        match (&self.rule.run, last) {
            (None, _) | (Some(_), None) => Ok(String::new()),
            (Some(_), Some(ToolResult::Done(output))) => Ok(output.trim().to_owned()),
            (Some(command), Some(ToolResult::Failed(why))) => {
                Err(Failure::new(FailureClass::Fatal, format!("`{command}`: {why}")))
            }
        }
    }
}

fn shell(command: &str) -> Call {
    let args = Map::from_iter([("command".to_owned(), Value::String(command.to_owned()))]);
    Call { id: "run".to_owned(), tool: SHELL_TOOL.to_owned(), args }
}

/// Fails as told. Returns only from failures that a worker survives.
async fn act_out(failure: MockFailure) -> Failure {
    let scripted = |class| Failure::new(class, "scripted");
    match failure {
        MockFailure::Transient => scripted(FailureClass::Transient),
        MockFailure::Fatal => scripted(FailureClass::Fatal),
        MockFailure::RateLimited => {
            let retry_at = Some(time_of_day().plus(Duration::from_secs(1)));
            Failure { retry_at, ..scripted(FailureClass::RateLimited) }
        }
        MockFailure::Hang => std::future::pending().await,
        MockFailure::Exit(status) => std::process::exit(status.into()),
        MockFailure::Crash => {
            let _ = kill_process(getpid(), Signal::KILL);
            std::future::pending().await
        }
    }
}
