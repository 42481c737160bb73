//! Draws a run at the bottom of a terminal: the run, then a row for each agent.

use std::time::Duration;

use agent_worker_protocol::{AgentName, Millis, Usage};

use super::{
    RunProgress,
    agent_row::{AgentActivity, AgentStatusRow},
};
use crate::output::{
    console::TerminalSize,
    state_text::cost_text,
    styled_line::{StyledLine, Tone},
    text::{self, pluralize},
};

const SEPARATOR: &str = " · ";
/// Smallest number of columns for the activity of an agent next to its clock.
const MIN_WIDTH_WITH_CLOCK: usize = 12;
/// Smallest number of columns for the activity of an agent next to its tokens and its cost.
const MIN_WIDTH_WITH_USAGE: usize = 20;
/// Smallest number of columns for the last words of an agent.
const MIN_DETAIL_WIDTH: usize = 12;

impl RunProgress {
    /// Returns the status lines: the run, then a row for each agent; at most half of the screen.
    pub(crate) fn status_lines(&self, now: Millis, size: TerminalSize) -> Vec<StyledLine> {
        // One column stays free: a full line would wrap in some terminals.
        let width = size.width.saturating_sub(1);
        let max_rows = (size.height / 2).saturating_sub(1).max(1);
        let mut rows: Vec<&AgentStatusRow> = self.agents.iter().collect();
        if rows.len() > max_rows {
            rows.sort_by_key(|row| {
                matches!(row.activity, AgentActivity::Idle) && row.open_questions.is_empty()
            });
            rows.truncate(max_rows - 1);
        }
        let names = rows.iter().map(|row| text::width(row.name.as_str())).max().unwrap_or(0);
        let mut lines = vec![self.head_line(now, width)];
        lines.extend(rows.iter().map(|row| row.status_line(names, now, width)));
        let hidden = self.agents.len() - rows.len();
        if hidden > 0 {
            lines.push(StyledLine::new(Tone::Dim, format!("  … and {hidden} more")));
        }
        lines.into_iter().map(|line| line.cut(width)).collect()
    }

    /// Returns the names of the agents, in the order of their rows.
    pub(crate) fn agent_names(&self) -> impl Iterator<Item = &AgentName> {
        self.agents.iter().map(|row| &row.name)
    }

    /// Returns the line of the run with its figures.
    pub(crate) fn run_line(&self, now: Millis, columns: usize) -> StyledLine {
        self.head_line(now, columns).cut(columns)
    }

    /// Returns the tokens and cost of the run.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the row of one agent.
    pub(crate) fn agent_line(
        &self,
        agent: &AgentName,
        now: Millis,
        columns: usize,
    ) -> Option<StyledLine> {
        let names = self.agents.iter().map(|row| text::width(row.name.as_str())).max();
        let row = self.agents.iter().find(|row| row.name == *agent)?;
        Some(row.status_line(names.unwrap_or(0), now, columns).cut(columns))
    }

    /// Returns the line of the run, with as many of its figures as fit.
    fn head_line(&self, now: Millis, width: usize) -> StyledLine {
        let elapsed = self.started.map_or(Duration::ZERO, |started| now.since(started));
        let (tokens, cost) = usage_texts(&self.usage);
        let figures = [
            Some(pluralize(self.turns, "turn")),
            Some(pluralize(self.messages, "message")),
            tokens,
            cost,
        ];
        let name = self.instance.to_string();
        let fixed = [name.as_str(), &self.phase, &text::format_clock(elapsed)].join(SEPARATOR);
        let mut free = width.saturating_sub(text::width(&fixed));
        // The cost is the figure that a person misses first.
        let mut is_kept = [false; 4];
        for index in [3, 0, 2, 1] {
            let needed = figures.get(index).and_then(Option::as_ref).map_or(0, |it| needed(it));
            if let Some(rest) = free.checked_sub(needed) {
                (free, is_kept[index]) = (rest, true);
            }
        }
        let kept =
            figures.into_iter().zip(is_kept).filter_map(|(figure, kept)| figure.filter(|_| kept));
        let rest =
            fixed[name.len()..].to_owned() + &kept.map(|it| separated(&it)).collect::<String>();
        StyledLine::new(Tone::Strong, name).with(Tone::Dim, rest)
    }
}

impl AgentStatusRow {
    fn status_line(&self, names: usize, now: Millis, width: usize) -> StyledLine {
        let name = format!("{:names$}", self.name.as_str());
        let start = StyledLine::plain("  ").with(self.tone(), name).with(Tone::Plain, "  ");
        let (tone, activity) = self.activity_text(now);
        let is_in_turn = self.activity.is_in_turn();
        let clock = is_in_turn.then(|| text::format_clock(now.since(self.since)));
        let (tokens, cost) = usage_texts(&self.usage);
        let detail = if is_in_turn { self.detail() } else { None };
        let free = width.saturating_sub(start.width());
        let row = RowTexts { activity, detail, figures: [tokens, cost, clock] }.fit(free);
        let line = start.with(tone, row.activity);
        let detail = row.detail.map(|detail| separated(&detail)).unwrap_or_default();
        line.with(Tone::Plain, detail).with(Tone::Dim, row.figures)
    }

    fn activity_text(&self, now: Millis) -> (Tone, String) {
        let numbers = |ids: &std::collections::BTreeSet<i64>| {
            ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(", ")
        };
        match &self.activity {
            AgentActivity::Starting | AgentActivity::Working if !self.open_approvals.is_empty() => {
                (Tone::Warn, format!("waiting for approval ({})", numbers(&self.open_approvals)))
            }
            AgentActivity::Queued => (Tone::Plain, "queued".to_owned()),
            AgentActivity::Idle if !self.pending_messages.is_empty() => {
                (Tone::Plain, "queued".to_owned())
            }
            AgentActivity::Idle if self.open_questions.is_empty() => (Tone::Dim, "idle".to_owned()),
            AgentActivity::Idle => {
                (Tone::Warn, format!("waiting for an answer ({})", numbers(&self.open_questions)))
            }
            AgentActivity::Starting => (Tone::Good, "starting".to_owned()),
            AgentActivity::Working => match self.current_call() {
                Some((call, 0)) => (Tone::Good, call.to_owned()),
                Some((call, more)) => (Tone::Good, format!("{call} (+{more})")),
                None => (Tone::Good, "working".to_owned()),
            },
            AgentActivity::Waiting { until, why } => {
                let left = text::format_clock(until.since(now));
                (Tone::Warn, format!("next try in {left} · {why}"))
            }
            AgentActivity::Stopped { why } => (Tone::Bad, format!("stopped: {why}")),
        }
    }

    /// Returns the last words, or the call after which the agent has said nothing.
    fn detail(&self) -> Option<String> {
        let finished = self.finished_call().map(|call| format!("after {call}"));
        finished.filter(|_| self.current_call().is_none()).or_else(|| self.speech.last_words())
    }
}

/// The texts of a row behind the name of its agent.
struct RowTexts {
    activity: String,
    /// Less important than the figures, and cut at its start.
    detail: Option<String>,
    /// Tokens, cost and clock.
    figures: [Option<String>; 3],
}

/// The texts of a row that fit.
struct FittedRow {
    activity: String,
    detail: Option<String>,
    figures: String,
}

impl RowTexts {
    /// Fits the texts into `columns`: the clock is kept longest, then the cost, the tokens and the detail.
    fn fit(self, columns: usize) -> FittedRow {
        let (wanted, mut free) = (text::width(&self.activity), columns);
        let [tokens, cost, clock] = self.figures;
        let mut keep = |figure: Option<String>, least: usize| {
            let left = |figure: &String| free.checked_sub(needed(figure) + wanted.min(least));
            let kept = figure.filter(|figure| left(figure).is_some())?;
            free -= needed(&kept);
            Some(separated(&kept))
        };
        let clock = keep(clock, MIN_WIDTH_WITH_CLOCK);
        let cost = keep(cost, MIN_WIDTH_WITH_USAGE);
        let tokens = keep(tokens, MIN_WIDTH_WITH_USAGE);
        let activity = text::cut(&self.activity, free);
        free -= text::width(&activity);
        let available = free.saturating_sub(text::width(SEPARATOR));
        let detail = self.detail.filter(|_| available >= MIN_DETAIL_WIDTH);
        FittedRow {
            activity,
            detail: detail.map(|detail| text::cut_start(&detail, available)),
            figures: [tokens, cost, clock].into_iter().flatten().collect(),
        }
    }
}

/// Returns the tokens and the cost, as far as they are known.
fn usage_texts(usage: &Usage) -> (Option<String>, Option<String>) {
    let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
    let tokens = (tokens > 0).then(|| format!("{} tok", text::format_count(tokens)));
    (tokens, cost_text(usage).filter(|_| usage.cost_micros.is_some()))
}

fn separated(figure: &str) -> String {
    format!("{SEPARATOR}{figure}")
}

/// Returns the number of columns that a figure needs with its separator.
fn needed(figure: &str) -> usize {
    text::width(SEPARATOR) + text::width(figure)
}
