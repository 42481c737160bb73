//! The progress of a live run. Pure: events in; lines to print above and status lines below out. `event_text` formats
//! events, `agent_row` holds the state of an agent, `status` draws the bottom lines.
//!
//! Events are hints: the view may miss one and is correct again after the next. The conclusion of a run is read from
//! the daemon after its end, never from here.

mod agent_row;
mod event_text;
mod open_items;
mod replay;
mod speech;
mod status;
mod words;

use std::path::{Path, PathBuf};

use agent_worker_protocol::{
    AgentName, AttemptEnd, AttemptEndedData, DocumentPath, Event, EventBody, EventKind,
    InstanceRef, Message, Millis, RunId, RunState, Seq, SuggestionAnsweredData, ToolCallData,
    ToolResultData, Usage, api::RunView,
};

use self::{
    agent_row::{AgentActivity, AgentStatusRow},
    event_text::{
        agent_notice, cause_of, conflict_notice, dead_notice, dropped_notice, grant_use_notice,
        granted_notice, is_tool_failure, message_lines_in_tone, retry_text, revoked_notice,
        setup_text, task_end_notice, task_start_text, tool_call_text, tool_result_text,
        unheard_notice, unsent_notice, verdict_notice, vote_text, written_text,
    },
};
pub(crate) use self::{
    event_text::{attachment_text, message_lines, reply_suffix},
    replay::Replay,
};
use crate::output::{
    call_text::call_text,
    report::ObservedRun,
    styled_line::{StyledLine, Tone},
    text::{self, one_line},
};

/// Words about a mock agent with another script.
const MOCKS_CHANGED: &str = "has another script or other mock tools from its next turn on";

/// The level of detail in addition to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Only events that a person must know.
    Normal,
    /// Tool calls and attempts too.
    Verbose,
}

/// A line to print above the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TranscriptLine {
    /// A message, which is part of the answer of `run`.
    Message(StyledLine),
    /// An event other than a message.
    Notice(StyledLine),
}

/// The progress of a run as far as its events were received.
#[derive(Debug)]
pub(crate) struct RunProgress {
    instance: InstanceRef,
    detail: Verbosity,
    phase: String,
    started: Option<Millis>,
    turns: usize,
    messages: usize,
    /// Tokens and cost that all agents reported so far.
    usage: Usage,
    agents: Vec<AgentStatusRow>,
    /// Number of agents that had a row so far, which is the colour of the next.
    colours: usize,
    /// Paths below this folder are shown relative to it.
    folder: PathBuf,
}

impl RunProgress {
    /// Creates the progress of a run without any event.
    pub(crate) fn new(instance: InstanceRef, agents: &[AgentName], detail: Verbosity) -> Self {
        let row = |(colour, name): (usize, &AgentName)| {
            AgentStatusRow::new(name.clone(), colour, Millis::default())
        };
        Self {
            instance,
            detail,
            phase: RunState::Setup.to_string(),
            started: None,
            turns: 0,
            messages: 0,
            usage: Usage::default(),
            agents: agents.iter().enumerate().map(row).collect(),
            colours: agents.len(),
            folder: PathBuf::new(),
        }
    }

    /// Creates the progress from the daemon's view of a run.
    pub(crate) fn from_run(run: &RunView, detail: Verbosity) -> Self {
        let row = |(colour, agent)| AgentStatusRow::from_view(agent, colour, run.started);
        Self {
            phase: run.state.to_string(),
            started: Some(run.started),
            turns: run.turns as usize,
            messages: run.messages as usize,
            usage: run.usage,
            agents: run.agents.iter().enumerate().map(row).collect(),
            colours: run.agents.len(),
            ..Self::new(run.instance.clone(), &[], detail)
        }
    }

    /// Shows paths below a folder relative to it.
    #[must_use]
    pub(crate) fn in_folder(self, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..self }
    }

    /// Returns the figures of the run so far.
    pub(crate) fn observed_run(&self, run: RunId, now: Millis) -> ObservedRun {
        let lasted = self.started.map(|started| now.since(started)).unwrap_or_default();
        ObservedRun {
            instance: self.instance.clone(),
            run,
            duration_ms: u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX),
            turns: u32::try_from(self.turns).unwrap_or(u32::MAX),
            messages: u32::try_from(self.messages).unwrap_or(u32::MAX),
        }
    }

    /// Applies an event and returns the lines to print above the status.
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<TranscriptLine> {
        self.started.get_or_insert(event.ts);
        let mut lines = self.take_words(event);
        let row = self.row_of(event).map(|row| (row.name.clone(), row.tone()));
        let new_lines = self.apply_body(event);
        lines.extend(new_lines.into_iter().map(|line| match (line, &row) {
            (TranscriptLine::Notice(line), Some((name, tone))) => {
                TranscriptLine::Notice(line.with_prefix_tone(name.as_str(), *tone))
            }
            (line, _) => line,
        }));
        lines
    }

    fn usage_added(&mut self, event: &Event, part: &Usage) -> Vec<TranscriptLine> {
        self.usage = self.usage.plus(part);
        if let Some(row) = self.row_of(event) {
            row.usage = row.usage.plus(part);
        }
        Vec::new()
    }

    fn apply_body(&mut self, event: &Event) -> Vec<TranscriptLine> {
        match &event.body {
            EventBody::Message(message) => self.message_added(message),
            EventBody::RunSetup(_) => self.enter_run_state(&RunState::Setup),
            EventBody::RunElecting(_) => self.enter_run_state(&RunState::Electing),
            EventBody::RunRunning(_) => self.enter_run_state(&RunState::Running),
            EventBody::RunPaused(_) => self.run_paused(event),
            EventBody::RunEnded(_) => self.run_ended(),
            EventBody::RunVerdict(data) => verdict_notice(event, data),
            EventBody::AttemptStarting(data) => self.attempt_starting(event, &data.seqs),
            EventBody::AttemptRunning(_) => self.attempt_running(event),
            EventBody::AttemptEnded(data) => self.attempt_ended(event, Some(data)),
            EventBody::ToolCall(data) => self.tool_called(event, data),
            EventBody::ToolResult(data) => self.tool_finished(event, data),
            EventBody::RowDamaged => agent_notice(event, Tone::Bad, &cause_of(event)),
            EventBody::DeliveryJoined(data) => {
                self.verbose_notice(event, &format!("got #{} during its turn", data.seq))
            }
            EventBody::DeliveryDead(data) => self.delivery_dead(event, Some(data.seq)),
            EventBody::DeliveryDropped(data) => dropped_notice(event, Some(data.seq)),
            EventBody::MentionUnheard(data) => unheard_notice(event, data),
            EventBody::AgentStopped => self.agent_stopped(event),
            EventBody::SetupRan(data) => self.verbose_notice(event, &setup_text(data)),
            EventBody::TaskStarted(data) => self.verbose_notice(event, &task_start_text(data)),
            EventBody::TaskEnded(data) => task_end_notice(event, data),
            EventBody::Retry(_) => self.verbose_notice(event, &retry_text(event)),
            EventBody::Note(data) => self.verbose_notice(event, &one_line(&data.text)),
            EventBody::ChannelCleared(_) => self.verbose_notice(event, "the channel was cleared"),
            EventBody::BallotCast(data) => self.verbose_notice(event, &vote_text(event, data)),
            EventBody::NotificationFailed(data) => unsent_notice(event, data),
            EventBody::ClockJumped(data) => self.clock_jumped(event, data.by_ms),
            EventBody::DocumentWritten(data) => self.verbose_notice(event, &written_text(data)),
            EventBody::DocumentConflict(data) => conflict_notice(event, &data.path),
            EventBody::SuggestionOpen(data) => {
                self.suggestion_changed(event, "suggests a change to", &data.path, data.suggestion)
            }
            EventBody::SuggestionAccepted(data) => self.suggestion_answered(event, "accepts", data),
            EventBody::SuggestionRejected(data) => self.suggestion_answered(event, "rejects", data),
            EventBody::AgentAdded => self.change_activity(event, AgentActivity::Idle, "joined"),
            EventBody::AgentResumed => self.change_activity(event, AgentActivity::Idle, "resumed"),
            EventBody::AgentMockChanged => agent_notice(event, Tone::Plain, MOCKS_CHANGED),
            EventBody::AgentRemoved => self.agent_removed(event),
            EventBody::QuestionOpen(data) => self.question_opened(event, data.question),
            EventBody::QuestionAnswered(data) => self.question_answered(event, data.question),
            EventBody::ApprovalOpen(data) => self.approval_opened(event, data),
            EventBody::ApprovalAnswered(data) => self.approval_answered(event, data),
            EventBody::PermissionGranted(data) => granted_notice(event, data),
            EventBody::PermissionRevoked(data) => revoked_notice(event, data),
            EventBody::PermissionUsed(data) => grant_use_notice(event, data),
            // A message about it follows.
            EventBody::ProposalActive(_)
            | EventBody::ProposalResolved(_)
            | EventBody::ProposalExpired(_)
            | EventBody::ProposalCancelled(_)
            | EventBody::DeliveryPending(_)
            | EventBody::Heartbeat => Vec::new(),
            EventBody::Usage(part) => self.usage_added(event, part),
            EventBody::Text(data) => self.words_added(event, data),
            EventBody::Other { .. } => self.apply_untyped(event),
        }
    }

    /// Applies an event with data of another version: the state follows from its kind, the details are left out. An event of
    /// an unknown kind changes nothing.
    fn apply_untyped(&mut self, event: &Event) -> Vec<TranscriptLine> {
        match event.kind() {
            Some(EventKind::RunSetup) => self.enter_run_state(&RunState::Setup),
            Some(EventKind::RunElecting) => self.enter_run_state(&RunState::Electing),
            Some(EventKind::RunRunning) => self.enter_run_state(&RunState::Running),
            Some(EventKind::RunPaused) => self.run_paused(event),
            Some(EventKind::RunEnded) => self.run_ended(),
            Some(EventKind::AttemptStarting) => self.attempt_starting(event, &[]),
            Some(EventKind::AttemptRunning) => self.attempt_running(event),
            Some(EventKind::AttemptEnded) => self.attempt_ended(event, None),
            Some(EventKind::DeliveryDead) => self.delivery_dead(event, None),
            Some(EventKind::DeliveryDropped) => dropped_notice(event, None),
            _ => Vec::new(),
        }
    }

    fn run_paused(&mut self, event: &Event) -> Vec<TranscriptLine> {
        self.phase = format!("paused: {}", cause_of(event));
        vec![TranscriptLine::Notice(StyledLine::new(Tone::Warn, self.phase.clone()))]
    }

    fn run_ended(&mut self) -> Vec<TranscriptLine> {
        self.phase = String::from("ended");
        Vec::new()
    }

    fn delivery_dead(&mut self, event: &Event, seq: Option<Seq>) -> Vec<TranscriptLine> {
        self.remember_cause(event);
        dead_notice(event, seq)
    }

    fn remember_cause(&mut self, event: &Event) {
        if let Some(row) = self.row_of(event) {
            row.printed_cause = Some(cause_of(event));
        }
    }

    /// Returns true if the cause of the agent's failure has been printed since its attempt started.
    fn is_printed(&mut self, event: &Event, message: &str) -> bool {
        let printed = self.row_of(event).and_then(|row| row.printed_cause.as_deref());
        printed.is_some_and(|cause| cause.contains(&one_line(message)))
    }

    fn attempt_starting(&mut self, event: &Event, taken: &[Seq]) -> Vec<TranscriptLine> {
        if let Some(row) = self.row_of(event) {
            row.pending_messages.retain(|seq| !taken.contains(&Seq::new(*seq)));
            row.printed_cause = None;
        }
        self.change_activity(event, AgentActivity::Starting, "starts")
    }

    fn attempt_running(&mut self, event: &Event) -> Vec<TranscriptLine> {
        self.change_activity(event, AgentActivity::Working, "works")
    }

    fn tool_called(&mut self, event: &Event, data: &ToolCallData) -> Vec<TranscriptLine> {
        let text = one_line(&call_text(&data.tool, &data.args, &self.folder));
        self.set_activity(event, AgentActivity::Working);
        if let Some(row) = self.row_of(event) {
            row.start_call(data, text);
        }
        self.verbose_notice(event, &tool_call_text(data))
    }

    fn tool_finished(&mut self, event: &Event, data: &ToolResultData) -> Vec<TranscriptLine> {
        self.set_activity(event, AgentActivity::Working);
        if let Some(row) = self.row_of(event) {
            row.finish_call(data);
        }
        if is_tool_failure(data) {
            agent_notice(event, Tone::Warn, &tool_result_text(data))
        } else {
            self.verbose_notice(event, &tool_result_text(data))
        }
    }

    /// Shifts every instant by the jump, so that all displayed durations stay the same.
    fn clock_jumped(&mut self, event: &Event, by_ms: i64) -> Vec<TranscriptLine> {
        let shift = |at: &mut Millis| *at = Millis::new(at.get().saturating_add(by_ms));
        self.started.iter_mut().for_each(shift);
        for row in &mut self.agents {
            shift(&mut row.since);
            if let AgentActivity::Waiting { until, .. } = &mut row.activity {
                shift(until);
            }
        }
        agent_notice(event, Tone::Warn, &cause_of(event))
    }

    fn agent_stopped(&mut self, event: &Event) -> Vec<TranscriptLine> {
        let why = cause_of(event);
        self.remember_cause(event);
        self.set_activity(event, AgentActivity::Stopped { why: why.clone() });
        agent_notice(event, Tone::Bad, &format!("stopped: {why}"))
    }

    fn agent_removed(&mut self, event: &Event) -> Vec<TranscriptLine> {
        self.agents.retain(|row| Some(&row.name) != event.agent.as_ref());
        self.verbose_notice(event, "left")
    }

    fn suggestion_answered(
        &self,
        event: &Event,
        answers: &str,
        data: &SuggestionAnsweredData,
    ) -> Vec<TranscriptLine> {
        let does = format!("{answers} a suggestion for");
        self.suggestion_changed(event, &does, &data.path, data.suggestion)
    }

    fn suggestion_changed(
        &self,
        event: &Event,
        does: &str,
        path: &DocumentPath,
        number: Seq,
    ) -> Vec<TranscriptLine> {
        self.verbose_notice(event, &format!("{does} {} (#{number})", one_line(path.as_str())))
    }

    fn message_added(&mut self, message: &Message) -> Vec<TranscriptLine> {
        self.messages += 1;
        for row in self.agents.iter_mut().filter(|row| message.to.contains(&row.name)) {
            row.pending_messages.insert(message.seq.get());
        }
        let sender = message.from.to_string();
        let row = self.agents.iter().find(|row| row.name.as_str() == sender);
        let lines = message_lines_in_tone(message, row.map(AgentStatusRow::tone));
        lines.into_iter().map(TranscriptLine::Message).collect()
    }

    fn enter_run_state(&mut self, state: &RunState) -> Vec<TranscriptLine> {
        self.phase = state.to_string();
        match self.detail {
            Verbosity::Normal => Vec::new(),
            Verbosity::Verbose => {
                vec![TranscriptLine::Notice(StyledLine::new(Tone::Dim, self.phase.clone()))]
            }
        }
    }

    fn attempt_ended(
        &mut self,
        event: &Event,
        data: Option<&AttemptEndedData>,
    ) -> Vec<TranscriptLine> {
        let end = data.map(|data| &data.end);
        let why = end.map_or_else(|| cause_of(event), |end| one_line(&end.to_string()));
        let activity = match event.next {
            Some(until) => AgentActivity::Waiting { until, why: why.clone() },
            None => AgentActivity::Idle,
        };
        self.set_activity(event, activity);
        if let Some(row) = self.row_of(event) {
            row.open_approvals.clear();
            let deliveries = data.and_then(|data| data.deliveries.as_ref());
            let pending = deliveries.into_iter().flat_map(|deliveries| &deliveries.pending);
            row.pending_messages.extend(pending.map(|seq| seq.get()));
        }
        match end {
            Some(AttemptEnd::Failed { why, .. })
                if event.next.is_none() && self.is_printed(event, why) =>
            {
                self.turns += 1;
                Vec::new()
            }
            Some(AttemptEnd::Failed { .. }) => {
                self.turns += 1;
                let next = event.next.map(|next| text::format_age(next.since(event.ts)));
                let next = next.map(|next| format!("; next try in {next}")).unwrap_or_default();
                agent_notice(event, Tone::Warn, &format!("{why}{next}"))
            }
            Some(AttemptEnd::Ok) => {
                self.turns += 1;
                self.verbose_notice(event, "done")
            }
            Some(AttemptEnd::Interrupted { .. } | AttemptEnd::Stopped) | None => {
                self.verbose_notice(event, &why)
            }
        }
    }

    /// Returns the row of the agent that an event is about.
    fn row_of(&mut self, event: &Event) -> Option<&mut AgentStatusRow> {
        self.agents.iter_mut().find(|row| Some(&row.name) == event.agent.as_ref())
    }

    fn change_activity(
        &mut self,
        event: &Event,
        activity: AgentActivity,
        words: &str,
    ) -> Vec<TranscriptLine> {
        self.set_activity(event, activity);
        self.verbose_notice(event, words)
    }

    /// Sets the activity of an agent, which may be new.
    fn set_activity(&mut self, event: &Event, activity: AgentActivity) {
        let Some(name) = &event.agent else { return };
        if self.row_of(event).is_none() {
            self.agents.push(AgentStatusRow::new(name.clone(), self.colours, event.ts));
            self.colours += 1;
        }
        if let Some(row) = self.row_of(event) {
            row.set_activity(activity, event.ts);
        }
    }

    fn verbose_notice(&self, event: &Event, words: &str) -> Vec<TranscriptLine> {
        match self.detail {
            Verbosity::Normal => Vec::new(),
            Verbosity::Verbose => agent_notice(event, Tone::Dim, words),
        }
    }
}

#[cfg(test)]
mod tests;
