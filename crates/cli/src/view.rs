//! What a run looks like while it goes on. Pure: events in; lines to print above and status lines below out.
//!
//! Events are hints: the view may miss one and is right again after the next. What a run came to is read from
//! the daemon when it is over, never from here.

use std::{collections::BTreeSet, time::Duration};

use agent_worker_protocol::{
    AgentName, AttemptEnd, Event, EventKind, InstanceRef, Message, MessageKind, Millis, RunState,
};
use serde_json::Value;

use crate::{
    console::Size,
    line::{Line, Tone},
    text::{self, count, cut, one_line},
};

/// The widest a tool's arguments are shown.
const DETAIL_WIDTH: usize = 160;

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
}

#[derive(Debug)]
enum Doing {
    Idle,
    Starting,
    Working,
    Calling { tool: String },
    Waiting { until: Millis, why: String },
    Stopped { why: String },
}

impl View {
    /// A run nobody has seen anything of yet.
    pub(crate) fn new(instance: InstanceRef, agents: &[AgentName], detail: Detail) -> Self {
        let row = |name: &AgentName| Row {
            name: name.clone(),
            doing: Doing::Idle,
            since: Millis::default(),
            mail: BTreeSet::new(),
        };
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

    /// Takes one event in; what comes out is printed above the status.
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<Above> {
        self.started.get_or_insert(event.ts);
        match event.kind {
            EventKind::Message => self.message(event),
            EventKind::RunSetup => self.enter(&RunState::Setup),
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
                let args = event.data.get("args").map(Value::to_string).unwrap_or_default();
                let told = format!("calls {tool} {}", cut(&one_line(&args), DETAIL_WIDTH));
                self.turn_to(event, Doing::Calling { tool }, &told)
            }
            EventKind::ToolResult => {
                let went = match event.data.get("ok").and_then(Value::as_bool) {
                    Some(false) => "failed",
                    Some(true) | None => "answered",
                };
                let summary = cut(&one_line(field(event, "summary")), DETAIL_WIDTH);
                let told = format!("{} {went}: {summary}", one_line(field(event, "tool")));
                self.turn_to(event, Doing::Working, &told)
            }
            EventKind::DeliveryDead | EventKind::DeliveryDropped => undelivered(event),
            EventKind::AgentStopped => {
                let why = cause_of(event);
                self.set(event, Doing::Stopped { why: why.clone() });
                told(event, Tone::Bad, &format!("stopped: {why}"))
            }
            EventKind::SetupRan => {
                let (line, status) = (&event.data["line"], &event.data["status"]);
                self.in_detail(event, &format!("setup of line {line} ended with status {status}"))
            }
            EventKind::DocumentWritten => {
                let path = one_line(field(event, "path"));
                let revision = &event.data["revision"];
                self.in_detail(event, &format!("wrote {path}, revision {revision}"))
            }
            EventKind::Retry => self.in_detail(event, &format!("tries again: {}", cause_of(event))),
            EventKind::DeliveryPending
            | EventKind::Usage
            | EventKind::Text
            | EventKind::Heartbeat => Vec::new(),
        }
    }

    /// The lines at the bottom of a terminal: the run, then who does what. At most half of the screen.
    pub(crate) fn status(&self, now: Millis, size: Size) -> Vec<Line> {
        let elapsed = self.started.map_or(Duration::ZERO, |started| now.since(started));
        let head = Line::of(Tone::Strong, self.instance.to_string()).and(
            Tone::Dim,
            format!(
                " · {} · {} · {} · {}",
                self.phase,
                text::clock(elapsed),
                count(self.turns, "turn"),
                count(self.messages, "message")
            ),
        );
        let room = (size.height / 2).saturating_sub(1).max(1);
        let mut rows: Vec<&Row> = self.agents.iter().collect();
        if rows.len() > room {
            rows.sort_by_key(|row| matches!(row.doing, Doing::Idle));
            rows.truncate(room - 1);
        }
        let names = rows.iter().map(|row| text::width(row.name.as_str())).max().unwrap_or(0);
        let mut lines = vec![head];
        lines.extend(rows.iter().map(|row| row.line(names, now)));
        let hidden = self.agents.len() - rows.len();
        if hidden > 0 {
            lines.push(Line::of(Tone::Dim, format!("  … and {hidden} more")));
        }
        // One column stays free: a full line would wrap in some terminals.
        lines.into_iter().map(|line| line.cut(size.width.saturating_sub(1))).collect()
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
            let mail = BTreeSet::new();
            self.agents.push(Row { name: name.clone(), doing, since: event.ts, mail });
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

impl Row {
    fn line(&self, names: usize, now: Millis) -> Line {
        let clock = || text::clock(now.since(self.since));
        let (tone, words) = match &self.doing {
            Doing::Idle if !self.mail.is_empty() => (Tone::Plain, "queued".to_owned()),
            Doing::Idle => (Tone::Dim, "idle".to_owned()),
            Doing::Starting => (Tone::Good, format!("starting {}", clock())),
            Doing::Working => (Tone::Good, format!("working {}", clock())),
            Doing::Calling { tool } => (Tone::Good, format!("working {} · {tool}", clock())),
            Doing::Waiting { until, why } => {
                let left = text::clock(until.since(now));
                (Tone::Warn, format!("next try in {left} · {why}"))
            }
            Doing::Stopped { why } => (Tone::Bad, format!("stopped: {why}")),
        };
        let name = format!("  {:names$}  ", self.name.as_str());
        Line::plain(name).and(tone, words)
    }
}

impl Doing {
    fn is_a_turn(&self) -> bool {
        match self {
            Self::Starting | Self::Working | Self::Calling { .. } => true,
            Self::Idle | Self::Waiting { .. } | Self::Stopped { .. } => false,
        }
    }
}

/// A message as `run` and `peek` show it: one line, or a header and its text beneath.
pub(crate) fn message_lines(message: &Message) -> Vec<Line> {
    let to = message.to.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let to = if to.is_empty() { to } else { format!(" → {to}") };
    let cc = message.cc.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let cc = if cc.is_empty() { cc } else { format!(" (cc {cc})") };
    let (tone, kind) = match message.kind {
        MessageKind::Message => (Tone::Strong, ""),
        MessageKind::Answer => (Tone::Strong, " (answer)"),
        MessageKind::System => (Tone::Warn, ""),
    };
    let head = Line::of(Tone::Dim, format!("#{} ", message.seq))
        .and(tone, one_line(&message.from.to_string()))
        .and(Tone::Dim, format!("{to}{cc}{kind}"));
    let body = text::harmless(message.body.trim_end());
    if !body.contains('\n') {
        return vec![head.and(Tone::Plain, format!(": {body}"))];
    }
    let beneath = body.lines().map(|line| Line::plain(format!("  {line}")));
    std::iter::once(head).chain(beneath).collect()
}

/// A list of numbers in an event.
fn numbers(event: &Event, name: &str) -> Vec<i64> {
    let list = event.data.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_i64).collect()
}

fn undelivered(event: &Event) -> Vec<Above> {
    let seq = event.data.get("seq").and_then(Value::as_i64);
    let message = seq.map_or_else(|| "a message".to_owned(), |seq| format!("message #{seq}"));
    let (tone, fate) = match event.kind {
        EventKind::DeliveryDead => (Tone::Bad, "gave up on"),
        _ => (Tone::Warn, "will not get"),
    };
    told(event, tone, &format!("{fate} {message}: {}", cause_of(event)))
}

fn told(event: &Event, tone: Tone, words: &str) -> Vec<Above> {
    let who = event.agent.as_ref().map(|agent| format!("{agent}: ")).unwrap_or_default();
    vec![Above::Told(Line::of(tone, format!("{who}{words}")))]
}

/// Why it happened: the event's own words, else those in its state.
fn cause_of(event: &Event) -> String {
    let paused = || match serde_json::from_value(event.data.clone()) {
        Ok(RunState::Paused { cause }) => Some(cause.to_string()),
        _ => None,
    };
    let why = || Some(field(event, "why").to_owned()).filter(|why| !why.is_empty());
    let cause = event.cause.clone().or_else(paused).or_else(why);
    one_line(&cause.unwrap_or_else(|| "no reason given".to_owned()))
}

fn field<'a>(event: &'a Event, key: &str) -> &'a str {
    event.data.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        line::Colour,
        samples::{at, event, name, said},
    };

    const WIDE: Size = Size { width: 60, height: 24 };

    fn view(detail: Detail) -> View {
        View::new("review:pr-1".parse().unwrap(), &[name("coder"), name("reviewer")], detail)
    }

    fn above(view: &mut View, events: &[Event]) -> String {
        let lines = events.iter().flat_map(|event| view.apply(event));
        lines
            .map(|line| match line {
                Above::Said(line) => format!("out {}\n", line.paint(Colour::Off)),
                Above::Told(line) => format!("err {}\n", line.paint(Colour::Off)),
            })
            .collect()
    }

    fn below(view: &View, seconds: i64, size: Size) -> String {
        let lines = view.status(at(seconds), size);
        lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect()
    }

    fn a_turn() -> Vec<Event> {
        let failed = json!({"end": "failed", "class": "crash", "why": "the worker is\ngone"});
        vec![
            event(0, EventKind::RunRunning, "", Value::Null),
            said(1, "user", &["coder"], "please fix it"),
            event(2, EventKind::AttemptStarting, "coder", Value::Null),
            event(3, EventKind::AttemptRunning, "coder", json!({"pid": 7})),
            event(4, EventKind::ToolCall, "coder", json!({"tool": "bash", "args": {"cmd": "ls"}})),
            event(
                5,
                EventKind::ToolResult,
                "coder",
                json!({"tool": "bash", "ok": false, "summary": "no"}),
            ),
            Event { next: Some(at(8)), ..event(6, EventKind::AttemptEnded, "coder", failed) },
        ]
    }

    #[test]
    fn what_is_said_is_the_answer_and_failures_are_told() {
        insta::assert_snapshot!(above(&mut view(Detail::Usual), &a_turn()), @r"
        out #1 user → coder: please fix it
        err coder: failed (crash): the worker is gone; next try in 2s
        ");
    }

    #[test]
    fn verbose_tells_attempts_and_tool_calls_too() {
        insta::assert_snapshot!(above(&mut view(Detail::Verbose), &a_turn()), @r#"
        err running
        out #1 user → coder: please fix it
        err coder: starts
        err coder: works
        err coder: calls bash {"cmd":"ls"}
        err coder: bash failed: no
        err coder: failed (crash): the worker is gone; next try in 2s
        "#);
    }

    #[test]
    fn a_long_message_is_shown_beneath_its_header_and_harmless() {
        let events = [
            said(1, "coder", &["reviewer", "scribe"], "two\nlines \x1b[2J\n"),
            said(2, "client:ci", &[], "green"),
        ];
        insta::assert_snapshot!(above(&mut view(Detail::Usual), &events), @r"
        out #1 coder → reviewer, scribe
        out   two
        out   lines ␛[2J
        out #2 client:ci: green
        ");
    }

    #[test]
    fn mail_nobody_acts_upon_is_told_with_its_reason() {
        let because = |event: Event| Event { cause: Some("3 failures".into()), ..event };
        let events = [
            because(event(1, EventKind::DeliveryDead, "coder", json!({"seq": 7}))),
            because(event(2, EventKind::DeliveryDropped, "reviewer", Value::Null)),
            because(event(3, EventKind::AgentStopped, "coder", Value::Null)),
            event(
                4,
                EventKind::RunPaused,
                "",
                json!({"state": "paused", "cause": {"cause": "human"}}),
            ),
        ];
        insta::assert_snapshot!(above(&mut view(Detail::Usual), &events), @r"
        err coder: gave up on message #7: 3 failures
        err reviewer: will not get a message: 3 failures
        err coder: stopped: 3 failures
        err paused: waiting for a person
        ");
    }

    #[test]
    fn the_status_says_who_works_on_what_since_when() {
        let mut view = view(Detail::Usual);
        above(&mut view, &a_turn()[..5]);
        insta::assert_snapshot!(below(&view, 83, WIDE), @r"
        review:pr-1 · running · 1:23 · 0 turns · 1 message
          coder     working 1:21 · bash
          reviewer  idle
        ");
    }

    #[test]
    fn after_a_failure_the_status_counts_down_to_the_next_try() {
        let mut view = view(Detail::Usual);
        above(&mut view, &a_turn());
        insta::assert_snapshot!(below(&view, 7, WIDE), @r"
        review:pr-1 · running · 0:07 · 1 turn · 1 message
          coder     next try in 0:01 · failed (crash): the worker …
          reviewer  idle
        ");
    }

    #[test]
    fn verbose_tells_what_was_set_up_and_written() {
        let ok = json!({"end": "ok", "acted": [1], "pending": [], "dead": []});
        let events = [
            event(1, EventKind::SetupRan, "", json!({"line": 4, "status": 0})),
            event(
                2,
                EventKind::DocumentWritten,
                "coder",
                json!({"path": "notes.md", "revision": 2}),
            ),
            event(3, EventKind::Retry, "coder", json!({"why": "overloaded"})),
            event(4, EventKind::AttemptEnded, "coder", ok),
        ];
        let mut view = view(Detail::Verbose);
        insta::assert_snapshot!(above(&mut view, &events), @r"
        err setup of line 4 ended with status 0
        err coder: wrote notes.md, revision 2
        err coder: tries again: overloaded
        err coder: done
        ");
        assert_eq!(view.turns, 1);
    }

    #[test]
    fn the_status_fits_any_terminal_and_shows_who_is_busy_first() {
        let names: Vec<AgentName> = (0..40).map(|n| name(&format!("agent{n}"))).collect();
        let mut view = View::new("review".parse().unwrap(), &names, Detail::Usual);
        above(&mut view, &[event(1, EventKind::AttemptRunning, "agent39", Value::Null)]);
        for (width, height) in [(80, 24), (20, 10), (5, 3), (1, 1)] {
            let shown = below(&view, 9, Size { width, height });
            assert!(shown.lines().all(|line| text::width(line) < width.max(2)), "{shown}");
            assert!(shown.lines().count() <= (height / 2).max(2), "{shown}");
        }
        insta::assert_snapshot!(below(&view, 9, Size { width: 40, height: 8 }), @r"
        review · setting up · 0:08 · 0 turns ·…
          agent39  working 0:08
          agent0   idle
          … and 38 more
        ");
    }
}
