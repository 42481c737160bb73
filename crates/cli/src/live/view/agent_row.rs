//! An agent of a live run, as far as its events were received.

use std::collections::BTreeSet;

use agent_worker_protocol::{
    AgentName, AgentState, Millis, ToolCallData, ToolResultData, Usage, api::AgentView,
};

use super::speech::Speech;
use crate::output::{styled_line::Tone, text::one_line};

/// An agent and its current turn.
#[derive(Debug)]
pub(super) struct AgentStatusRow {
    pub(super) name: AgentName,
    /// Number of the agent's colour, which it keeps for the whole following.
    colour: usize,
    pub(super) activity: AgentActivity,
    pub(super) since: Millis,
    /// Tokens and cost that were reported so far in the run.
    pub(super) usage: Usage,
    /// Words of the current turn.
    pub(super) speech: Speech,
    /// Tool calls of the current turn without a result, oldest first.
    calls: Vec<OpenCall>,
    /// Text of the newest call with a result; none once the agent has said something after it.
    finished_call: Option<String>,
    /// Messages that wait for the agent.
    pub(super) pending_messages: BTreeSet<i64>,
    /// Questions to a person without an answer.
    pub(super) open_questions: BTreeSet<i64>,
    /// Approval requests of its attempt without an answer.
    pub(super) open_approvals: BTreeSet<i64>,
    /// Cause of a dead letter or of its stop, as printed during the attempt; the end of the attempt repeats it.
    pub(super) printed_cause: Option<String>,
}

#[derive(Debug)]
struct OpenCall {
    id: String,
    text: String,
}

#[derive(Debug)]
pub(super) enum AgentActivity {
    Idle,
    Queued,
    Starting,
    Working,
    Waiting { until: Millis, why: String },
    Stopped { why: String },
}

impl AgentStatusRow {
    pub(super) fn new(name: AgentName, colour: usize, since: Millis) -> Self {
        let (pending_messages, open_questions, open_approvals) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self {
            name,
            colour,
            activity: AgentActivity::Idle,
            since,
            usage: Usage::default(),
            speech: Speech::default(),
            calls: Vec::new(),
            finished_call: None,
            pending_messages,
            open_questions,
            open_approvals,
            printed_cause: None,
        }
    }

    /// Creates the row of an agent in the daemon's view of a run.
    pub(super) fn from_view(agent: &AgentView, colour: usize, run_started: Millis) -> Self {
        let (activity, since) = AgentActivity::from_state(&agent.state);
        let new = Self::new(agent.name.clone(), colour, since.unwrap_or(run_started));
        let mut row = Self { activity, usage: agent.usage, ..new };
        if let AgentState::Waiting { questions, approvals, .. } = &agent.state {
            row.open_questions = questions.iter().map(|id| id.get()).collect();
            row.open_approvals = approvals.iter().map(|id| id.get()).collect();
        }
        row
    }

    /// Returns the tone of the agent's name.
    pub(super) fn tone(&self) -> Tone {
        Tone::Agent(self.colour)
    }

    /// Sets the activity; the start time of a turn stays the same within the turn.
    pub(super) fn set_activity(&mut self, activity: AgentActivity, now: Millis) {
        if !(self.activity.is_in_turn() && activity.is_in_turn()) {
            self.since = now;
            self.speech = Speech::default();
            self.calls.clear();
            self.finished_call = None;
        }
        self.activity = activity;
    }

    /// Notes a tool call, by its id and as one line.
    pub(super) fn start_call(&mut self, data: &ToolCallData, text: String) {
        self.speech.end_line();
        self.calls.push(OpenCall { id: data.id.clone(), text });
    }

    /// Notes the result of a tool call.
    pub(super) fn finish_call(&mut self, data: &ToolResultData) {
        let at = self.calls.iter().position(|call| call.id == data.id);
        let text = at.map(|at| self.calls.remove(at).text);
        self.finished_call = Some(text.unwrap_or_else(|| one_line(&data.tool)));
    }

    /// Notes words of the model.
    pub(super) fn add_words(&mut self, words: &str) {
        self.speech.push(words);
        if !words.trim().is_empty() {
            self.finished_call = None;
        }
    }

    /// Returns the newest call without a result, and the number of others.
    pub(super) fn current_call(&self) -> Option<(&str, usize)> {
        let newest = self.calls.last()?;
        Some((&newest.text, self.calls.len() - 1))
    }

    /// Returns the last call after which the agent has said nothing.
    pub(super) fn finished_call(&self) -> Option<&str> {
        self.finished_call.as_deref()
    }
}

impl AgentActivity {
    /// Returns the activity for a state, and its start if that is known.
    fn from_state(state: &AgentState) -> (Self, Option<Millis>) {
        match state {
            AgentState::Waiting { approvals, asked, .. } if !approvals.is_empty() => {
                (Self::Working, Some(*asked))
            }
            AgentState::Idle | AgentState::Waiting { .. } | AgentState::Paused { .. } => {
                (Self::Idle, None)
            }
            AgentState::Queued { .. } => (Self::Queued, None),
            AgentState::Running { since, .. } => (Self::Working, Some(*since)),
            AgentState::BackingOff { until, why } | AgentState::Parked { until, why } => {
                (Self::Waiting { until: *until, why: one_line(why) }, None)
            }
            AgentState::Stopping => {
                (Self::Stopped { why: "its processes are ending".into() }, None)
            }
            AgentState::Stopped { why } => (Self::Stopped { why: one_line(why) }, None),
        }
    }

    pub(super) fn is_in_turn(&self) -> bool {
        match self {
            Self::Starting | Self::Working => true,
            Self::Idle | Self::Queued | Self::Waiting { .. } | Self::Stopped { .. } => false,
        }
    }
}
