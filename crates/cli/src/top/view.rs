//! Draws the full screen. Pure: state in, a frame out. It is complete at 80×24, and shows one list in a low terminal.

mod detail;
mod paint;

use std::ops::Range;

use agent_worker_protocol::{Millis, Usage};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    widgets::Paragraph,
};

use self::paint::Painter;
use super::{
    entries::EntryKey,
    state::{TopMode, TopPane, TopState},
};
use crate::output::{
    state_text::cost_text,
    styled_line::{Colour, StyledLine, Tone},
    text::{self, pluralize},
};

/// Smallest height for all three lists.
const MIN_HEIGHT_WITH_LISTS: u16 = 12;
/// Largest number of rows for the items that need attention.
const MAX_ATTENTION_ROWS: u16 = 5;
const SELECTED: &str = "▸ ";
const UNSELECTED: &str = "  ";
const SEPARATOR: &str = " · ";
const LIST_KEYS: [&str; 8] =
    ["? help", "q quit", "Enter detail", "Tab list", "a answer", "s send", "/ filter", "↑↓ move"];
const DETAIL_KEYS: [&str; 2] = ["Esc back", "↑↓ scroll"];
const ITEM_KEYS: [&str; 1] = ["Esc back"];

/// Draws the screen.
pub(super) fn draw(state: &mut TopState, frame: &mut Frame<'_>, now: Millis, colour: Colour) {
    let painter = Painter { colour };
    let area = frame.area();
    let rows = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
    let [head, body, foot] = Layout::vertical(rows).areas(area);
    let width = usize::from(area.width);
    draw_lines(frame, head, &[head_line(state, width)], painter);
    match state.mode.clone() {
        TopMode::List | TopMode::Filter(_) | TopMode::Compose(..) => {
            draw_lists(state, frame, body, now, painter);
        }
        TopMode::Detail(key, line) => {
            let lines = detail::lines(state, &key, line, body, now);
            draw_lines(frame, body, &lines, painter);
        }
        TopMode::Help => draw_lines(frame, body, &detail::help_lines(width), painter),
    }
    draw_lines(frame, foot, &[foot_line(state, width)], painter);
}

fn draw_lines(frame: &mut Frame<'_>, area: Rect, lines: &[StyledLine], painter: Painter) {
    let lines = lines.iter().map(|line| painter.line(line)).collect::<Vec<_>>();
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns the first line: the sums of all runs.
fn head_line(state: &TopState, width: usize) -> StyledLine {
    let agents = state.runs.iter().map(|run| run.progress.agent_names().count()).sum();
    let usage =
        state.runs.iter().fold(Usage::default(), |sum, run| sum.plus(&run.progress.usage()));
    let hidden = (state.hidden_runs > 0).then(|| format!("{} more not shown", state.hidden_runs));
    let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
    let figures = [
        Some(pluralize(state.runs.len(), "run")),
        hidden,
        Some(pluralize(agents, "agent")),
        (tokens > 0).then(|| format!("{} tok", text::format_count(tokens))),
        cost_text(&usage).filter(|_| usage.cost_micros.is_some()),
        (!state.filter.is_empty()).then(|| format!("filter: {}", text::one_line(&state.filter))),
    ];
    let head = StyledLine::new(Tone::Strong, "agent-worker top");
    let figures = figures.into_iter().flatten().map(|figure| format!("{SEPARATOR}{figure}"));
    figures.fold(head, |line, figure| line.with(Tone::Dim, figure)).cut(width)
}

/// Returns the last line: the keys, a notice, or the text that is being typed.
fn foot_line(state: &TopState, width: usize) -> StyledLine {
    let line = match (&state.mode, &state.notice) {
        (TopMode::Filter(editor), _) => editor.draw("filter: ", width),
        (TopMode::Compose(run, editor), _) => {
            let instance = state.run(*run).map(|run| run.instance.to_string());
            editor.draw(&format!("to @{}: ", instance.unwrap_or_default()), width)
        }
        (_, Some(notice)) => notice.clone(),
        (TopMode::List, None) => keys_line(&LIST_KEYS, width),
        (TopMode::Detail(EntryKey::Item(..), _), None) => keys_line(&ITEM_KEYS, width),
        (TopMode::Detail(..) | TopMode::Help, None) => keys_line(&DETAIL_KEYS, width),
    };
    line.cut(width)
}

/// Returns as many keys as fit, the most important first.
fn keys_line(keys: &[&str], width: usize) -> StyledLine {
    let mut line = String::new();
    for key in keys {
        let separator = if line.is_empty() { "" } else { SEPARATOR };
        if text::width(&line) + text::width(separator) + text::width(key) <= width {
            line = format!("{line}{separator}{key}");
        }
    }
    StyledLine::new(Tone::Dim, line)
}

fn draw_lists(state: &TopState, frame: &mut Frame<'_>, area: Rect, now: Millis, painter: Painter) {
    let lists: Vec<(TopPane, Vec<ListRow>)> = TopPane::ALL
        .into_iter()
        .filter(|pane| area.height >= MIN_HEIGHT_WITH_LISTS || *pane == state.pane)
        .map(|pane| (pane, list_rows(state, pane, usize::from(area.width), now)))
        .collect();
    let heights = lists.iter().map(|(pane, rows)| {
        // A list has a title, and at least one row.
        let wanted = u16::try_from(rows.len().max(1)).unwrap_or(u16::MAX).saturating_add(1);
        match (pane, lists.len()) {
            (_, 1) | (TopPane::Channel, _) => Constraint::Min(0),
            (TopPane::Agents, _) => Constraint::Length(wanted.min(area.height / 2)),
            (TopPane::Attention, _) => Constraint::Length(wanted.min(MAX_ATTENTION_ROWS + 1)),
        }
    });
    let areas = Layout::vertical(heights.collect::<Vec<_>>()).split(area);
    for ((pane, rows), area) in lists.iter().zip(areas.iter()) {
        draw_list(state, *pane, rows, (frame, *area), painter);
    }
}

/// A row of a list; a heading cannot be selected.
struct ListRow {
    key: Option<EntryKey>,
    line: StyledLine,
}

fn draw_list(
    state: &TopState,
    pane: TopPane,
    rows: &[ListRow],
    (frame, area): (&mut Frame<'_>, Rect),
    painter: Painter,
) {
    let [title, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    draw_lines(frame, title, &[title_line(state, pane, usize::from(area.width))], painter);
    let keys = state.keys_of(pane);
    let selected = keys.get(state.selected_index(pane, &keys));
    let at = rows.iter().position(|row| row.key.is_some() && row.key.as_ref() == selected);
    let visible = visible_rows(rows.len(), at.unwrap_or(0), usize::from(body.height));
    let width = usize::from(area.width);
    let shown = rows[visible].iter().map(|row| {
        let is_selected = pane == state.pane && row.key.is_some() && row.key.as_ref() == selected;
        let line = match row.key {
            Some(_) if is_selected => row.line.clone().with_prefix(Tone::Strong, SELECTED),
            Some(_) => row.line.clone().with_prefix(Tone::Plain, UNSELECTED),
            None => row.line.clone(),
        };
        line.cut(width)
    });
    let lines = match rows {
        [] => vec![StyledLine::new(Tone::Dim, format!("{UNSELECTED}{}", empty_text(pane)))],
        _ => shown.collect(),
    };
    draw_lines(frame, body, &lines, painter);
}

fn title_line(state: &TopState, pane: TopPane, width: usize) -> StyledLine {
    let title = match pane {
        TopPane::Agents => "Agents".to_owned(),
        TopPane::Attention => match state.attention.len() {
            0 => "Attention".to_owned(),
            number => format!("Attention ({number})"),
        },
        TopPane::Channel => "Channel".to_owned(),
    };
    let rule = "─".repeat(width.saturating_sub(text::width(&title) + 1));
    let tone = if pane == state.pane { Tone::Strong } else { Tone::Dim };
    StyledLine::new(tone, title).with(Tone::Dim, format!(" {rule}")).cut(width)
}

fn empty_text(pane: TopPane) -> &'static str {
    match pane {
        TopPane::Agents => "no agent of a live run",
        TopPane::Attention => "nothing needs you",
        TopPane::Channel => "no messages",
    }
}

/// Returns the rows of a list that pass the filter, without the marks of the selection.
fn list_rows(state: &TopState, pane: TopPane, width: usize, now: Millis) -> Vec<ListRow> {
    let width = width.saturating_sub(text::width(SELECTED));
    let keys = state.keys_of(pane);
    match pane {
        TopPane::Agents => agent_rows(state, &keys, width, now),
        TopPane::Attention => {
            let shown = state.attention.iter().filter(|item| keys.contains(&item.key()));
            shown.map(|item| ListRow { key: Some(item.key()), line: item.line() }).collect()
        }
        TopPane::Channel => {
            let label = state.instance_label();
            let shown = state.channel.iter().filter(|entry| keys.contains(&entry.key()));
            shown.map(|entry| ListRow { key: Some(entry.key()), line: entry.line(label) }).collect()
        }
    }
}

/// Returns a heading for each run, and its agents below it.
fn agent_rows(state: &TopState, keys: &[EntryKey], width: usize, now: Millis) -> Vec<ListRow> {
    let mut rows = Vec::new();
    for run in &state.runs {
        let agents: Vec<ListRow> = run
            .progress
            .agent_names()
            .filter_map(|agent| {
                let key = EntryKey::Agent(run.run, agent.clone());
                let line = run.progress.agent_line(agent, now, width + UNSELECTED.len())?;
                // The mark of the selection replaces the indentation.
                let line = line.slice(&(UNSELECTED.len()..line.text().len()));
                keys.contains(&key).then_some(ListRow { key: Some(key), line })
            })
            .collect();
        if !agents.is_empty() {
            rows.push(ListRow { key: None, line: run.progress.run_line(now, width) });
            rows.extend(agents);
        }
    }
    rows
}

/// Returns the rows around the selected one that fit.
fn visible_rows(rows: usize, selected: usize, height: usize) -> Range<usize> {
    let last_start = rows.saturating_sub(height);
    let start = selected.saturating_sub(height / 2).min(last_start);
    start..rows.min(start + height)
}

#[cfg(test)]
mod tests;
