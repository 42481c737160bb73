//! How a run is drawn at the bottom of a terminal: the run, then who does what.

use std::time::Duration;

use agent_worker_protocol::Millis;

use super::{Doing, Row, View};
use crate::{
    console::Size,
    line::{Line, Tone},
    text::{self, count},
};

impl View {
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
            rows.sort_by_key(|row| matches!(row.doing, Doing::Idle) && row.asked.is_empty());
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
}

impl Row {
    fn line(&self, names: usize, now: Millis) -> Line {
        let clock = || text::clock(now.since(self.since));
        let (tone, words) = match &self.doing {
            Doing::Starting | Doing::Working | Doing::Calling { .. } if !self.wanted.is_empty() => {
                let numbers: Vec<_> = self.wanted.iter().map(|id| format!("#{id}")).collect();
                (Tone::Warn, format!("waiting for approval ({})", numbers.join(", ")))
            }
            Doing::Queued => (Tone::Plain, "queued".to_owned()),
            Doing::Idle if !self.mail.is_empty() => (Tone::Plain, "queued".to_owned()),
            Doing::Idle if self.asked.is_empty() => (Tone::Dim, "idle".to_owned()),
            Doing::Idle => {
                let numbers: Vec<_> = self.asked.iter().map(|id| format!("#{id}")).collect();
                (Tone::Warn, format!("waiting for an answer ({})", numbers.join(", ")))
            }
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
