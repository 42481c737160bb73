//! What is known of a run while it goes on. Pure: events in; lines to print above and status lines below out.
//! `told` puts events into words, `status` draws what is at the bottom.
//!
//! Events are hints: the view may miss one and is right again after the next. What a run came to is read from
//! the daemon when it is over, never from here.

mod event_text;
mod replay;
mod status;

use std::collections::BTreeSet;

use agent_worker_protocol::{
    AgentName, AgentState, AttemptEnd, Event, EventKind, InstanceRef, Message, Millis, RunState,
    api::{AgentView, RunView},
};

use self::event_text::{
    agent_notice, cause_of, conflict_notice, is_tool_failure, number_list, text_field,
    tool_call_text, tool_result_text, undelivered_notice, verbose_text,
};
pub(crate) use self::event_text::{message_lines, reply_suffix};
pub(crate) use self::replay::Replay;
use crate::output::{
    styled_line::{StyledLine, Tone},
    text::{self, one_line},
};

/// How much is told besides what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// What a person must know.
    Normal,
    /// Tool calls and attempts too.
    Verbose,
}

/// A line to print above the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TranscriptLine {
    /// Somebody's words: the answer of `run`.
    Message(StyledLine),
    /// What happened beside them.
    Notice(StyledLine),
}

/// A run, as far as it was watched.
#[derive(Debug)]
pub(crate) struct RunProgress {
    instance: InstanceRef,
    detail: Verbosity,
    phase: String,
    started: Option<Millis>,
    turns: usize,
    messages: usize,
    agents: Vec<AgentStatusRow>,
}

#[derive(Debug)]
struct AgentStatusRow {
    name: AgentName,
    activity: AgentActivity,
    since: Millis,
    /// What waits for it.
    pending_messages: BTreeSet<i64>,
    /// What it asked a person and nobody answered.
    open_questions: BTreeSet<i64>,
    /// What its attempt wants to do and nobody has approved or denied.
    open_approvals: BTreeSet<i64>,
}

#[derive(Debug)]
enum AgentActivity {
    Idle,
    Queued,
    Starting,
    Working,
    Calling { tool: String },
    Waiting { until: Millis, why: String },
    Stopped { why: String },
}

impl AgentStatusRow {
    fn new(name: AgentName, since: Millis) -> Self {
        let (pending_messages, open_questions, open_approvals) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self {
            name,
            activity: AgentActivity::Idle,
            since,
            pending_messages,
            open_questions,
            open_approvals,
        }
    }
}

impl RunProgress {
    /// A run nobody has seen anything of yet.
    pub(crate) fn new(instance: InstanceRef, agents: &[AgentName], detail: Verbosity) -> Self {
        let row = |name: &AgentName| AgentStatusRow::new(name.clone(), Millis::default());
        Self {
            instance,
            detail,
            phase: RunState::Setup.to_string(),
            started: None,
            turns: 0,
            messages: 0,
            agents: agents.iter().map(row).collect(),
        }
    }

    /// A run as the daemon knows it, whatever was seen of it.
    pub(crate) fn from_run(run: &RunView, detail: Verbosity) -> Self {
        let row = |agent: &AgentView| {
            let (activity, since) = AgentActivity::from_state(&agent.state);
            let since = since.unwrap_or(run.started);
            let mut row =
                AgentStatusRow { activity, ..AgentStatusRow::new(agent.name.clone(), since) };
            if let AgentState::Waiting { questions, approvals, .. } = &agent.state {
                row.open_questions = questions.iter().map(|id| id.get()).collect();
                row.open_approvals = approvals.iter().map(|id| id.get()).collect();
            }
            row
        };
        Self {
            phase: run.state.to_string(),
            started: Some(run.started),
            turns: run.turns as usize,
            messages: run.messages as usize,
            agents: run.agents.iter().map(row).collect(),
            ..Self::new(run.instance.clone(), &[], detail)
        }
    }

    /// The numbers of what its agents want to do and nobody has approved or denied.
    pub(crate) fn open_approval_ids(&self) -> BTreeSet<i64> {
        self.agents.iter().flat_map(|row| row.open_approvals.iter().copied()).collect()
    }

    /// Takes one event in; what comes out is printed above the status.
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<TranscriptLine> {
        self.started.get_or_insert(event.ts);
        match event.kind {
            EventKind::Message => self.message_added(event),
            EventKind::RunSetup => self.enter_run_state(&RunState::Setup),
            EventKind::RunElecting => self.enter_run_state(&RunState::Electing),
            EventKind::RunRunning => self.enter_run_state(&RunState::Running),
            EventKind::RunPaused => {
                self.phase = format!("paused: {}", cause_of(event));
                vec![TranscriptLine::Notice(StyledLine::new(Tone::Warn, self.phase.clone()))]
            }
            EventKind::RunEnded => {
                self.phase = String::from("ended");
                Vec::new()
            }
            EventKind::AttemptStarting => self.attempt_starting(event),
            EventKind::AttemptRunning => {
                self.change_activity(event, AgentActivity::Working, "works")
            }
            EventKind::AttemptEnded => self.attempt_ended(event),
            EventKind::ToolCall => {
                let tool = one_line(text_field(event, "tool"));
                self.change_activity(event, AgentActivity::Calling { tool }, &tool_call_text(event))
            }
            EventKind::ToolResult => self.tool_finished(event),
            EventKind::RowDamaged => agent_notice(event, Tone::Bad, &verbose_text(event)),
            EventKind::DeliveryDead | EventKind::DeliveryDropped => undelivered_notice(event),
            EventKind::AgentStopped => self.agent_stopped(event),
            EventKind::SetupRan
            | EventKind::Retry
            | EventKind::ChannelCleared
            | EventKind::BallotCast => self.verbose_notice(event, &verbose_text(event)),
            EventKind::ClockJumped => self.clock_jumped(event),
            EventKind::DocumentWritten => self.document_written(event),
            EventKind::DocumentConflict => conflict_notice(event),
            EventKind::SuggestionOpen
            | EventKind::SuggestionAccepted
            | EventKind::SuggestionRejected => self.suggestion_changed(event),
            EventKind::AgentAdded => self.change_activity(event, AgentActivity::Idle, "joined"),
            EventKind::AgentResumed => {
                self.change_activity(event, AgentActivity::Idle, "is woken again")
            }
            EventKind::AgentRemoved => {
                self.agents.retain(|row| Some(&row.name) != event.agent.as_ref());
                self.verbose_notice(event, "left")
            }
            EventKind::QuestionOpen | EventKind::QuestionAnswered => self.question_changed(event),
            EventKind::ApprovalOpen | EventKind::ApprovalAnswered => self.approval_changed(event),
            // The message that tells of it follows.
            EventKind::ProposalActive
            | EventKind::ProposalResolved
            | EventKind::ProposalExpired
            | EventKind::ProposalCancelled
            | EventKind::DeliveryPending
            | EventKind::Usage
            | EventKind::Text
            | EventKind::Heartbeat => Vec::new(),
        }
    }

    fn attempt_starting(&mut self, event: &Event) -> Vec<TranscriptLine> {
        let taken = number_list(event, "seqs");
        self.update_pending_messages(event.agent.as_ref(), |mail| {
            mail.retain(|seq| !taken.contains(seq));
        });
        self.change_activity(event, AgentActivity::Starting, "starts")
    }

    fn tool_finished(&mut self, event: &Event) -> Vec<TranscriptLine> {
        if is_tool_failure(event) {
            self.set_activity(event, AgentActivity::Working);
            return agent_notice(event, Tone::Warn, &tool_result_text(event));
        }
        self.change_activity(event, AgentActivity::Working, &tool_result_text(event))
    }

    /// Keeps every span on the screen: instants seen so far are on the wall clock as it was.
    fn clock_jumped(&mut self, event: &Event) -> Vec<TranscriptLine> {
        let by = event.data["by_ms"].as_i64().unwrap_or_default();
        let shift = |at: &mut Millis| *at = Millis::new(at.get().saturating_add(by));
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
        self.set_activity(event, AgentActivity::Stopped { why: why.clone() });
        agent_notice(event, Tone::Bad, &format!("stopped: {why}"))
    }

    /// The message that tells of it follows.
    fn question_changed(&mut self, event: &Event) -> Vec<TranscriptLine> {
        let row = self.agents.iter_mut().find(|row| Some(&row.name) == event.agent.as_ref());
        if let (Some(row), Some(question)) = (row, event.data["question"].as_i64()) {
            match event.kind {
                EventKind::QuestionOpen => row.open_questions.insert(question),
                _ => row.open_questions.remove(&question),
            };
        }
        Vec::new()
    }

    fn approval_changed(&mut self, event: &Event) -> Vec<TranscriptLine> {
        let number = event.data["approval"].as_i64().unwrap_or_default();
        let row = self.agents.iter_mut().find(|row| Some(&row.name) == event.agent.as_ref());
        if let Some(row) = row {
            match event.kind {
                EventKind::ApprovalOpen => row.open_approvals.insert(number),
                _ => row.open_approvals.remove(&number),
            };
        }
        let tool = one_line(text_field(event, "tool"));
        if event.kind == EventKind::ApprovalOpen {
            let args = one_line(text_field(event, "args"));
            return agent_notice(event, Tone::Warn, &format!("wants #{number}: {tool} {args}"));
        }
        let by = event.by.as_deref().unwrap_or_default();
        let answer = one_line(text_field(event, "answer"));
        agent_notice(event, Tone::Plain, &format!("request #{number} ({tool}) is {answer} by {by}"))
    }

    fn document_written(&self, event: &Event) -> Vec<TranscriptLine> {
        let (path, revision) = (one_line(text_field(event, "path")), &event.data["revision"]);
        self.verbose_notice(event, &format!("wrote {path}, revision {revision}"))
    }

    fn suggestion_changed(&self, event: &Event) -> Vec<TranscriptLine> {
        let does = match event.kind {
            EventKind::SuggestionAccepted => "accepts a suggestion for",
            EventKind::SuggestionRejected => "rejects a suggestion for",
            _ => "suggests a change to",
        };
        let (path, number) = (one_line(text_field(event, "path")), &event.data["suggestion"]);
        self.verbose_notice(event, &format!("{does} {path} (#{number})"))
    }

    fn message_added(&mut self, event: &Event) -> Vec<TranscriptLine> {
        let Ok(message) = serde_json::from_value::<Message>(event.data.clone()) else {
            return Vec::new();
        };
        self.messages += 1;
        for name in &message.to {
            self.update_pending_messages(Some(name), |mail| mail.extend([message.seq.get()]));
        }
        message_lines(&message).into_iter().map(TranscriptLine::Message).collect()
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

    fn attempt_ended(&mut self, event: &Event) -> Vec<TranscriptLine> {
        let end = serde_json::from_value::<AttemptEnd>(event.data.clone()).ok();
        let why = end.as_ref().map_or_else(|| cause_of(event), |end| one_line(&end.to_string()));
        let activity = match event.next {
            Some(until) => AgentActivity::Waiting { until, why: why.clone() },
            None => AgentActivity::Idle,
        };
        self.set_activity(event, activity);
        for row in self.agents.iter_mut().filter(|row| Some(&row.name) == event.agent.as_ref()) {
            row.open_approvals.clear();
        }
        self.update_pending_messages(event.agent.as_ref(), |mail| {
            mail.extend(number_list(event, "pending"));
        });
        match end {
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

    fn update_pending_messages(
        &mut self,
        agent: Option<&AgentName>,
        change: impl FnOnce(&mut BTreeSet<i64>),
    ) {
        let row = self.agents.iter_mut().find(|row| Some(&row.name) == agent);
        if let Some(row) = row {
            change(&mut row.pending_messages);
        }
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

    /// The clock of a turn runs on while its tools come and go.
    fn set_activity(&mut self, event: &Event, activity: AgentActivity) {
        let Some(name) = &event.agent else { return };
        let at = self.agents.iter().position(|row| row.name == *name);
        let Some(row) = at.and_then(|at| self.agents.get_mut(at)) else {
            self.agents
                .push(AgentStatusRow { activity, ..AgentStatusRow::new(name.clone(), event.ts) });
            return;
        };
        if !(row.activity.is_in_turn() && activity.is_in_turn()) {
            row.since = event.ts;
        }
        row.activity = activity;
    }

    fn verbose_notice(&self, event: &Event, words: &str) -> Vec<TranscriptLine> {
        match self.detail {
            Verbosity::Normal => Vec::new(),
            Verbosity::Verbose => agent_notice(event, Tone::Dim, words),
        }
    }
}

impl AgentActivity {
    /// What a state amounts to, and since when where that is known.
    fn from_state(state: &AgentState) -> (Self, Option<Millis>) {
        match state {
            AgentState::Waiting { approvals, asked, .. } if !approvals.is_empty() => {
                (Self::Working, Some(*asked))
            }
            AgentState::Idle | AgentState::Waiting { .. } | AgentState::Paused { .. } => {
                (Self::Idle, None)
            }
            AgentState::Queued => (Self::Queued, None),
            AgentState::Running { since, .. } => (Self::Working, Some(*since)),
            AgentState::BackingOff { until, why } | AgentState::Parked { until, why } => {
                (Self::Waiting { until: *until, why: one_line(why) }, None)
            }
            AgentState::Stopping => (Self::Stopped { why: "its processes leave".into() }, None),
            AgentState::Stopped { why } => (Self::Stopped { why: one_line(why) }, None),
        }
    }

    fn is_in_turn(&self) -> bool {
        match self {
            Self::Starting | Self::Working | Self::Calling { .. } => true,
            Self::Idle | Self::Queued | Self::Waiting { .. } | Self::Stopped { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests;
