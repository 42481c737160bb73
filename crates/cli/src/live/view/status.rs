//! Draws a run at the bottom of a terminal: the run, then the activity of its agents.

use std::time::Duration;

use agent_worker_protocol::Millis;

use super::{AgentActivity, AgentStatusRow, RunProgress};
use crate::output::{
    console::TerminalSize,
    styled_line::{StyledLine, Tone},
    text::{self, pluralize},
};

impl RunProgress {
    /// Returns the status lines: the run, then the activity of its agents; at most half of the screen.
    pub(crate) fn status_lines(&self, now: Millis, size: TerminalSize) -> Vec<StyledLine> {
        let elapsed = self.started.map_or(Duration::ZERO, |started| now.since(started));
        let head = StyledLine::new(Tone::Strong, self.instance.to_string()).with(
            Tone::Dim,
            format!(
                " · {} · {} · {} · {}",
                self.phase,
                text::format_clock(elapsed),
                pluralize(self.turns, "turn"),
                pluralize(self.messages, "message")
            ),
        );
        let max_rows = (size.height / 2).saturating_sub(1).max(1);
        let mut rows: Vec<&AgentStatusRow> = self.agents.iter().collect();
        if rows.len() > max_rows {
            rows.sort_by_key(|row| {
                matches!(row.activity, AgentActivity::Idle) && row.open_questions.is_empty()
            });
            rows.truncate(max_rows - 1);
        }
        let names = rows.iter().map(|row| text::width(row.name.as_str())).max().unwrap_or(0);
        let mut lines = vec![head];
        lines.extend(rows.iter().map(|row| row.status_line(names, now)));
        let hidden = self.agents.len() - rows.len();
        if hidden > 0 {
            lines.push(StyledLine::new(Tone::Dim, format!("  … and {hidden} more")));
        }
        // One column stays free: a full line would wrap in some terminals.
        lines.into_iter().map(|line| line.cut(size.width.saturating_sub(1))).collect()
    }
}

impl AgentStatusRow {
    fn status_line(&self, names: usize, now: Millis) -> StyledLine {
        let clock = || text::format_clock(now.since(self.since));
        let (tone, words) = match &self.activity {
            AgentActivity::Starting | AgentActivity::Working | AgentActivity::Calling { .. }
                if !self.open_approvals.is_empty() =>
            {
                let numbers: Vec<_> =
                    self.open_approvals.iter().map(|id| format!("#{id}")).collect();
                (Tone::Warn, format!("waiting for approval ({})", numbers.join(", ")))
            }
            AgentActivity::Queued => (Tone::Plain, "queued".to_owned()),
            AgentActivity::Idle if !self.pending_messages.is_empty() => {
                (Tone::Plain, "queued".to_owned())
            }
            AgentActivity::Idle if self.open_questions.is_empty() => (Tone::Dim, "idle".to_owned()),
            AgentActivity::Idle => {
                let numbers: Vec<_> =
                    self.open_questions.iter().map(|id| format!("#{id}")).collect();
                (Tone::Warn, format!("waiting for an answer ({})", numbers.join(", ")))
            }
            AgentActivity::Starting => (Tone::Good, format!("starting {}", clock())),
            AgentActivity::Working => (Tone::Good, format!("working {}", clock())),
            AgentActivity::Calling { tool } => {
                (Tone::Good, format!("working {} · {tool}", clock()))
            }
            AgentActivity::Waiting { until, why } => {
                let left = text::format_clock(until.since(now));
                (Tone::Warn, format!("next try in {left} · {why}"))
            }
            AgentActivity::Stopped { why } => (Tone::Bad, format!("stopped: {why}")),
        };
        let name = format!("  {:names$}  ", self.name.as_str());
        StyledLine::plain(name).with(tone, words)
    }
}
