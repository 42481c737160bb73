//! Records the events of a program in the report of the attempt and in the worker's log.

use agent_worker_protocol::{FailureClass, WorkerEvent};

use super::{MAX_FAILURE_DETAIL_BYTES, ProgramEvent, session_opener::SessionOpener};
use crate::{
    event_reporter::EventReporter,
    pricing::PricingContext,
    tool_server::TEAM_SERVER_NAME,
    truncation::truncate,
    turn::{TurnContext, TurnFailure},
    worker_log::WorkerLog,
};

/// Maximum size of a session that a turn may leave for the next one: every later job contains it.
const MAX_SESSION_BYTES: usize = 64 * 1024;

/// Stands for the running tools of a program that reports a call only with its result. No program uses an empty id.
const UNREPORTED_CALLS: &str = "";

/// Records the events of one turn.
pub(super) struct EventRecorder<'a> {
    context: &'a TurnContext,
    pub(super) reporter: &'a EventReporter,
    pub(super) log: &'a WorkerLog,
    pricing: PricingContext,
    opener: Option<SessionOpener>,
}

impl<'a> EventRecorder<'a> {
    pub(super) fn new(context: &'a TurnContext, pricing: PricingContext) -> Self {
        Self { context, reporter: &context.reporter, log: &context.log, pricing, opener: None }
    }

    /// Adds to each session the command that opens it.
    pub(super) fn with_opener(self, opener: Option<SessionOpener>) -> Self {
        Self { opener, ..self }
    }

    /// Records events in order, up to the first that fails the turn.
    pub(super) fn record_all(&self, events: Vec<ProgramEvent>) -> Result<(), TurnFailure> {
        events.into_iter().try_for_each(|event| self.record(event))
    }

    pub(super) fn record(&self, event: ProgramEvent) -> Result<(), TurnFailure> {
        match event {
            ProgramEvent::Text(text) => {
                self.log.write_output(text.as_bytes());
                self.reporter.stream_text(&text);
            }
            // The tool set records calls to the team's tools itself.
            ProgramEvent::ToolCalled { tool, .. } | ProgramEvent::ToolAnswered { tool, .. }
                if is_team_tool(&tool) => {}
            ProgramEvent::ToolCalled { id, tool, args } => {
                self.reporter.record_tool_call(&id, &tool, args);
            }
            ProgramEvent::ToolAnswered { id, tool, result } => {
                self.reporter.record_tool_result(&id, &tool, &result);
            }
            ProgramEvent::ToolsStarted => self.reporter.open_call(UNREPORTED_CALLS),
            ProgramEvent::ToolsEnded => self.reporter.close_call(UNREPORTED_CALLS),
            ProgramEvent::Usage(usage) => {
                self.reporter.record(WorkerEvent::Usage(usage));
            }
            ProgramEvent::UsageByModel(shares) => {
                self.reporter.record(WorkerEvent::Usage(self.pricing.usage(&shares)));
            }
            ProgramEvent::Retry(why) => {
                let why = truncate(&why, MAX_FAILURE_DETAIL_BYTES);
                self.reporter.record(WorkerEvent::Retry { why });
            }
            ProgramEvent::Session(mut session) => {
                if let Some(opener) = &self.opener {
                    opener.add_command(&mut session);
                }
                if session.to_string().len() > MAX_SESSION_BYTES {
                    let why = "the session data of the program is longer than 64 KiB";
                    return Err(TurnFailure::new(FailureClass::Fatal, why));
                }
                self.context.keep_session(&session);
                self.reporter.record(WorkerEvent::Session { session });
            }
            ProgramEvent::GaveUp(failure) => return Err(failure),
        }
        Ok(())
    }
}

/// Returns true if a program's name for a tool means one of the team's tools.
fn is_team_tool(tool: &str) -> bool {
    tool.strip_prefix("mcp__").is_some_and(|tool| {
        tool.strip_prefix(TEAM_SERVER_NAME).is_some_and(|tool| tool.starts_with("__"))
    })
}
