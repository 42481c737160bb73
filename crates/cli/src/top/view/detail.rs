//! The details of a row: an agent, an item with its keys, a dead letter, a message; and the help.

use agent_worker_protocol::{AgentName, Millis, RunId, Target};
use ratatui::layout::Rect;

use super::super::{
    entries::{AttentionEntry, EntryKey},
    state::TopState,
};
use crate::{
    live::{attention_panel::OpenItem, view::message_lines},
    output::{
        console::TerminalSize,
        styled_line::{StyledLine, Tone},
        text::one_line,
        wrapped_line::wrap_line,
    },
};

/// Number of messages of an agent in its details.
const AGENT_MESSAGES: usize = 10;

const HELP: [(&str, &str); 11] = [
    ("↑ ↓, j k", "move in a list; Page Up, Page Down, Home and End too"),
    ("Tab", "next list: agents, attention, channel"),
    ("Enter", "details of the selected row"),
    ("a", "the oldest item that needs you"),
    ("y a n r", "in a request: once, for this run, deny, deny with a reason"),
    ("1–9 t", "in a question: an answer, a typed answer"),
    ("s", "message to the team of the selected row"),
    ("/", "filter of all lists; Escape removes it"),
    ("Esc, Enter", "back to the lists"),
    ("q, Ctrl-C", "quit; the agents continue"),
    ("?", "this help"),
];

/// Returns the lines of the details of a row, from `line` on.
pub(super) fn lines(
    state: &mut TopState,
    key: &EntryKey,
    line: usize,
    area: Rect,
    now: Millis,
) -> Vec<StyledLine> {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let size = TerminalSize { width, height };
    let lines = match key {
        EntryKey::Item(..) => {
            let open = state.attention_entry(key).cloned();
            let Some(AttentionEntry::Open(item)) = open else {
                state.panel.hide();
                return vec![StyledLine::new(Tone::Dim, "the item has been answered")];
            };
            return item_lines(state, item, size, now);
        }
        EntryKey::Agent(run, agent) => agent_lines(state, *run, agent, width, now),
        EntryKey::DeadLetter(..) => match state.attention_entry(key) {
            Some(AttentionEntry::Dead(letter)) => {
                let target = Target::instance(&letter.instance);
                let hint = |text: String| StyledLine::new(Tone::Dim, text);
                let seq = letter.receipt.seq;
                let mut lines =
                    vec![state.attention_entry(key).map(AttentionEntry::line).unwrap_or_default()];
                lines.extend(message_lines(&letter.message));
                lines.push(hint(format!("try again: agent-worker dead redrive {seq} {target}")));
                lines.push(hint(format!("give up: agent-worker dead drop {seq} {target}")));
                lines
            }
            Some(AttentionEntry::Open(_)) | None => {
                vec![StyledLine::new(Tone::Dim, "the dead letter is gone")]
            }
        },
        EntryKey::Message(run, seq) => {
            let found =
                state.channel.iter().find(|entry| entry.run == *run && entry.message.seq == *seq);
            found.map(|entry| message_lines(&entry.message)).unwrap_or_default()
        }
    };
    let rows: Vec<StyledLine> = lines.iter().flat_map(|line| wrap_line(line, width)).collect();
    let start = line.min(rows.len().saturating_sub(height));
    rows.into_iter().skip(start).take(height).collect()
}

fn item_lines(
    state: &mut TopState,
    item: OpenItem,
    size: TerminalSize,
    now: Millis,
) -> Vec<StyledLine> {
    let (agent, instance) = match &item {
        OpenItem::Approval(request) => (&request.agent, &request.instance),
        OpenItem::Question(question) => (&question.agent, &question.instance),
    };
    let target = Target::agent(agent.clone(), instance);
    let height = size.height.saturating_sub(1);
    let mut lines = vec![StyledLine::new(Tone::Strong, target.to_string()).cut(size.width)];
    lines.extend(state.panel.draw(&[item], TerminalSize { height, ..size }, now));
    lines
}

fn agent_lines(
    state: &TopState,
    run: RunId,
    agent: &AgentName,
    width: usize,
    now: Millis,
) -> Vec<StyledLine> {
    let Some(shown) = state.run(run) else {
        return vec![StyledLine::new(Tone::Dim, "the run has ended")];
    };
    let target = shown.target_of(agent);
    let mut lines = vec![StyledLine::new(Tone::Strong, target.to_string())];
    lines.extend(shown.progress.agent_line(agent, now, width));
    let name = agent.as_str();
    let own = state.channel.iter().filter(|entry| {
        let message = &entry.message;
        entry.run == run && (message.from.to_string() == name || message.to.contains(agent))
    });
    let own: Vec<_> = own.collect();
    for entry in &own[own.len().saturating_sub(AGENT_MESSAGES)..] {
        lines.extend(message_lines(&entry.message));
    }
    lines.push(StyledLine::new(Tone::Dim, format!("more: agent-worker status {target}")));
    lines.push(StyledLine::new(Tone::Dim, format!("talk: agent-worker chat {target}")));
    lines
}

/// Returns the keys and their effects.
pub(super) fn help_lines(width: usize) -> Vec<StyledLine> {
    let keys = HELP.iter().map(|(key, effect)| {
        let line = StyledLine::new(Tone::Strong, format!("  {key:12}"));
        line.with(Tone::Plain, one_line(effect))
    });
    keys.flat_map(|line| wrap_line(&line, width)).collect()
}
