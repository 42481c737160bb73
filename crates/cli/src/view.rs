//! What is known of a run while it goes on. Pure: events in; lines to print above and status lines below out.
//! `told` puts events into words, `status` draws what is at the bottom.
//!
//! Events are hints: the view may miss one and is right again after the next. What a run came to is read from
//! the daemon when it is over, never from here.

mod replay;
mod status;
mod told;

use std::collections::BTreeSet;

use agent_worker_protocol::{
    AgentName, AgentState, AttemptEnd, Event, EventKind, InstanceRef, Message, Millis, RunState,
    api::{AgentView, RunView},
};

pub(crate) use self::replay::Replay;
use self::told::{
    aside, call, cause_of, conflict, failed, field, numbers, result, told, undelivered,
};
pub(crate) use self::told::{message_lines, replies};
use crate::{
    line::{Line, Tone},
    text::{self, one_line},
};

/// How much is told besides what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What a person must know.
    Usual,
    /// Tool calls and attempts too.
    Verbose,
}

/// A line to print above the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Above {
    /// Somebody's words: the answer of `run`.
    Said(Line),
    /// What happened beside them.
    Told(Line),
}

/// A run, as far as it was watched.
#[derive(Debug)]
pub(crate) struct View {
    instance: InstanceRef,
    detail: Detail,
    phase: String,
    started: Option<Millis>,
    turns: usize,
    messages: usize,
    agents: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: AgentName,
    doing: Doing,
    since: Millis,
    /// What waits for it.
    mail: BTreeSet<i64>,
    /// What it asked a person and nobody answered.
    asked: BTreeSet<i64>,
    /// What its attempt wants to do and nobody has approved or denied.
    wanted: BTreeSet<i64>,
}

#[derive(Debug)]
enum Doing {
    Idle,
    Queued,
    Starting,
    Working,
    Calling { tool: String },
    Waiting { until: Millis, why: String },
    Stopped { why: String },
}

impl Row {
    fn new(name: AgentName, since: Millis) -> Self {
        let (mail, asked, wanted) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { name, doing: Doing::Idle, since, mail, asked, wanted }
    }
}

impl View {
    /// A run nobody has seen anything of yet.
    pub(crate) fn new(instance: InstanceRef, agents: &[AgentName], detail: Detail) -> Self {
        let row = |name: &AgentName| Row::new(name.clone(), Millis::default());
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
    pub(crate) fn known(run: &RunView, detail: Detail) -> Self {
        let row = |agent: &AgentView| {
            let (doing, since) = Doing::of(&agent.state);
            let since = since.unwrap_or(run.started);
            let mut row = Row { doing, ..Row::new(agent.name.clone(), since) };
            if let AgentState::Waiting { questions, approvals, .. } = &agent.state {
                row.asked = questions.iter().map(|id| id.get()).collect();
                row.wanted = approvals.iter().map(|id| id.get()).collect();
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
    pub(crate) fn requests(&self) -> BTreeSet<i64> {
        self.agents.iter().flat_map(|row| row.wanted.iter().copied()).collect()
    }

    /// Takes one event in; what comes out is printed above the status.
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<Above> {
        self.started.get_or_insert(event.ts);
        match event.kind {
            EventKind::Message => self.message(event),
            EventKind::RunSetup => self.enter(&RunState::Setup),
            EventKind::RunElecting => self.enter(&RunState::Electing),
            EventKind::RunRunning => self.enter(&RunState::Running),
            EventKind::RunPaused => {
                self.phase = format!("paused: {}", cause_of(event));
                vec![Above::Told(Line::of(Tone::Warn, self.phase.clone()))]
            }
            EventKind::RunEnded => {
                self.phase = String::from("ended");
                Vec::new()
            }
            EventKind::AttemptStarting => {
                let taken = numbers(event, "seqs");
                self.mail_of(event.agent.as_ref(), |mail| mail.retain(|seq| !taken.contains(seq)));
                self.turn_to(event, Doing::Starting, "starts")
            }
            EventKind::AttemptRunning => self.turn_to(event, Doing::Working, "works"),
            EventKind::AttemptEnded => self.attempt_ended(event),
            EventKind::ToolCall => {
                let tool = one_line(field(event, "tool"));
                self.turn_to(event, Doing::Calling { tool }, &call(event))
            }
            EventKind::ToolResult if failed(event) => {
                self.set(event, Doing::Working);
                told(event, Tone::Warn, &result(event))
            }
            EventKind::ToolResult => self.turn_to(event, Doing::Working, &result(event)),
            EventKind::RowDamaged => told(event, Tone::Bad, &aside(event)),
            EventKind::DeliveryDead | EventKind::DeliveryDropped => undelivered(event),
            EventKind::AgentStopped => self.stopped(event),
            EventKind::SetupRan
            | EventKind::Retry
            | EventKind::ChannelCleared
            | EventKind::BallotCast => self.in_detail(event, &aside(event)),
            EventKind::ClockJumped => self.clock_jumped(event),
            EventKind::DocumentWritten => self.written(event),
            EventKind::DocumentConflict => conflict(event),
            EventKind::SuggestionOpen
            | EventKind::SuggestionAccepted
            | EventKind::SuggestionRejected => self.suggestion(event),
            EventKind::AgentAdded => self.turn_to(event, Doing::Idle, "joined"),
            EventKind::AgentResumed => self.turn_to(event, Doing::Idle, "is woken again"),
            EventKind::AgentRemoved => {
                self.agents.retain(|row| Some(&row.name) != event.agent.as_ref());
                self.in_detail(event, "left")
            }
            EventKind::QuestionOpen | EventKind::QuestionAnswered => self.asked(event),
            EventKind::ApprovalOpen | EventKind::ApprovalAnswered => self.wanted(event),
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

    /// Keeps every span on the screen: instants seen so far are on the wall clock as it was.
    fn clock_jumped(&mut self, event: &Event) -> Vec<Above> {
        let by = event.data["by_ms"].as_i64().unwrap_or_default();
        let shift = |at: &mut Millis| *at = Millis::new(at.get().saturating_add(by));
        self.started.iter_mut().for_each(shift);
        for row in &mut self.agents {
            shift(&mut row.since);
            if let Doing::Waiting { until, .. } = &mut row.doing {
                shift(until);
            }
        }
        told(event, Tone::Warn, &cause_of(event))
    }

    fn stopped(&mut self, event: &Event) -> Vec<Above> {
        let why = cause_of(event);
        self.set(event, Doing::Stopped { why: why.clone() });
        told(event, Tone::Bad, &format!("stopped: {why}"))
    }

    /// The message that tells of it follows.
    fn asked(&mut self, event: &Event) -> Vec<Above> {
        let row = self.agents.iter_mut().find(|row| Some(&row.name) == event.agent.as_ref());
        if let (Some(row), Some(question)) = (row, event.data["question"].as_i64()) {
            match event.kind {
                EventKind::QuestionOpen => row.asked.insert(question),
                _ => row.asked.remove(&question),
            };
        }
        Vec::new()
    }

    fn wanted(&mut self, event: &Event) -> Vec<Above> {
        let number = event.data["approval"].as_i64().unwrap_or_default();
        let row = self.agents.iter_mut().find(|row| Some(&row.name) == event.agent.as_ref());
        if let Some(row) = row {
            match event.kind {
                EventKind::ApprovalOpen => row.wanted.insert(number),
                _ => row.wanted.remove(&number),
            };
        }
        let tool = one_line(field(event, "tool"));
        if event.kind == EventKind::ApprovalOpen {
            let args = one_line(field(event, "args"));
            return told(event, Tone::Warn, &format!("wants #{number}: {tool} {args}"));
        }
        let by = event.by.as_deref().unwrap_or_default();
        let answer = one_line(field(event, "answer"));
        told(event, Tone::Plain, &format!("request #{number} ({tool}) is {answer} by {by}"))
    }

    fn written(&self, event: &Event) -> Vec<Above> {
        let (path, revision) = (one_line(field(event, "path")), &event.data["revision"]);
        self.in_detail(event, &format!("wrote {path}, revision {revision}"))
    }

    fn suggestion(&self, event: &Event) -> Vec<Above> {
        let does = match event.kind {
            EventKind::SuggestionAccepted => "accepts a suggestion for",
            EventKind::SuggestionRejected => "rejects a suggestion for",
            _ => "suggests a change to",
        };
        let (path, number) = (one_line(field(event, "path")), &event.data["suggestion"]);
        self.in_detail(event, &format!("{does} {path} (#{number})"))
    }

    fn message(&mut self, event: &Event) -> Vec<Above> {
        let Ok(message) = serde_json::from_value::<Message>(event.data.clone()) else {
            return Vec::new();
        };
        self.messages += 1;
        for name in &message.to {
            self.mail_of(Some(name), |mail| mail.extend([message.seq.get()]));
        }
        message_lines(&message).into_iter().map(Above::Said).collect()
    }

    fn enter(&mut self, state: &RunState) -> Vec<Above> {
        self.phase = state.to_string();
        match self.detail {
            Detail::Usual => Vec::new(),
            Detail::Verbose => vec![Above::Told(Line::of(Tone::Dim, self.phase.clone()))],
        }
    }

    fn attempt_ended(&mut self, event: &Event) -> Vec<Above> {
        let end = serde_json::from_value::<AttemptEnd>(event.data.clone()).ok();
        let why = end.as_ref().map_or_else(|| cause_of(event), |end| one_line(&end.to_string()));
        let doing = match event.next {
            Some(until) => Doing::Waiting { until, why: why.clone() },
            None => Doing::Idle,
        };
        self.set(event, doing);
        for row in self.agents.iter_mut().filter(|row| Some(&row.name) == event.agent.as_ref()) {
            row.wanted.clear();
        }
        self.mail_of(event.agent.as_ref(), |mail| mail.extend(numbers(event, "pending")));
        match end {
            Some(AttemptEnd::Failed { .. }) => {
                self.turns += 1;
                let next = event.next.map(|next| text::age(next.since(event.ts)));
                let next = next.map(|next| format!("; next try in {next}")).unwrap_or_default();
                told(event, Tone::Warn, &format!("{why}{next}"))
            }
            Some(AttemptEnd::Ok) => {
                self.turns += 1;
                self.in_detail(event, "done")
            }
            Some(AttemptEnd::Interrupted { .. } | AttemptEnd::Stopped) | None => {
                self.in_detail(event, &why)
            }
        }
    }

    fn mail_of(&mut self, agent: Option<&AgentName>, change: impl FnOnce(&mut BTreeSet<i64>)) {
        let row = self.agents.iter_mut().find(|row| Some(&row.name) == agent);
        if let Some(row) = row {
            change(&mut row.mail);
        }
    }

    fn turn_to(&mut self, event: &Event, doing: Doing, words: &str) -> Vec<Above> {
        self.set(event, doing);
        self.in_detail(event, words)
    }

    /// The clock of a turn runs on while its tools come and go.
    fn set(&mut self, event: &Event, doing: Doing) {
        let Some(name) = &event.agent else { return };
        let at = self.agents.iter().position(|row| row.name == *name);
        let Some(row) = at.and_then(|at| self.agents.get_mut(at)) else {
            self.agents.push(Row { doing, ..Row::new(name.clone(), event.ts) });
            return;
        };
        if !(row.doing.is_a_turn() && doing.is_a_turn()) {
            row.since = event.ts;
        }
        row.doing = doing;
    }

    fn in_detail(&self, event: &Event, words: &str) -> Vec<Above> {
        match self.detail {
            Detail::Usual => Vec::new(),
            Detail::Verbose => told(event, Tone::Dim, words),
        }
    }
}

impl Doing {
    /// What a state amounts to, and since when where that is known.
    fn of(state: &AgentState) -> (Self, Option<Millis>) {
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

    fn is_a_turn(&self) -> bool {
        match self {
            Self::Starting | Self::Working | Self::Calling { .. } => true,
            Self::Idle | Self::Queued | Self::Waiting { .. } | Self::Stopped { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests;
