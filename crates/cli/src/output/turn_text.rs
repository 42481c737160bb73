//! A turn and the entries of its history as text. Pure.
//!
//! Invariant: the texts are those of agents and programs; they are sanitized here, and every line of them is indented or
//! quoted by the caller, so that none of them can be mistaken for a heading.

use std::{collections::BTreeSet, path::Path, time::Duration};

use agent_worker_protocol::{
    AttemptEnd, AttemptId, HistoryState, HistoryText, TextState,
    api::{TurnEntryBody, TurnView},
    size_text,
};
use serde_json::Value;

use crate::output::{
    state_text,
    text::{format_elapsed, one_line, sanitize_for_display},
};

/// Length of a short id, which has the whole time of an id that begins with the time.
const SHORT_ID: usize = 13;

/// An entry of a history as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryText {
    /// Kind of the entry, on one line.
    pub(crate) title: String,
    /// Content of the entry, sanitized; possibly empty, possibly of several lines.
    pub(crate) text: String,
    /// The reason for which the content is not whole.
    pub(crate) mark: Option<String>,
}

/// Returns an id as lists show it: its beginning, if no other one of the list begins so.
pub(crate) fn short_id(id: AttemptId, all: &[AttemptId]) -> String {
    let id = id.to_string();
    let others: BTreeSet<_> =
        all.iter().map(ToString::to_string).filter(|other| *other != id).collect();
    let is_unique = |length: &usize| {
        id.get(..*length).is_some_and(|start| !others.iter().any(|other| other.starts_with(start)))
    };
    // A hyphen at the end of a short id would look like a mistake.
    let lengths = [SHORT_ID, 18, 23];
    let length = lengths.into_iter().find(is_unique).unwrap_or(id.len());
    id[..length].to_owned()
}

/// Returns the state of a turn, on one line.
pub(crate) fn turn_state(view: &TurnView) -> String {
    one_line(&view.ended.as_ref().map_or_else(|| "running".to_owned(), AttemptEnd::to_string))
}

/// Returns the message that woke the agent, on one line.
pub(crate) fn cause_text(view: &TurnView) -> String {
    match &view.woken_by {
        Some(cause) => one_line(&format!("#{} from {}: {}", cause.seq, cause.from, cause.text)),
        None => view.messages.first().map_or_else(String::new, |seq| format!("#{seq}")),
    }
}

/// Returns the facts about a turn, one line each.
pub(crate) fn turn_facts(view: &TurnView, log: Option<&Path>) -> Vec<(&'static str, String)> {
    let seqs: Vec<_> = view.messages.iter().map(|seq| format!("#{seq}")).collect();
    let lasted = format_elapsed(Duration::from_millis(view.lasted_ms));
    let mut facts = vec![
        ("turn", view.turn.to_string()),
        ("try", view.number.to_string()),
        ("woken by", cause_text(view)),
        ("shown", seqs.join(", ")),
        ("started", format!("{}, lasted {lasted}", view.started)),
        ("state", turn_state(view)),
        ("usage", state_text::usage_text(&view.usage)),
        ("history", history_text(view.history).to_owned()),
    ];
    facts.extend(log.map(|path| ("log", one_line(&path.to_string_lossy()))));
    facts
}

fn history_text(state: HistoryState) -> &'static str {
    match state {
        HistoryState::None => "none: nothing is reported yet, or an earlier version ran the turn",
        HistoryState::Full => "full",
        HistoryState::Short => "short: only the beginnings of texts are kept (`history: short`)",
        HistoryState::Off => "off: neither prompts nor words are kept (`history: off`)",
        HistoryState::Limit => "short from a point on: the texts of the run reached 64 MiB",
        HistoryState::Lost => "incomplete: a part could not be stored",
        HistoryState::Expired => "deleted because of its age",
    }
}

/// Returns an entry as text.
pub(crate) fn entry_text(body: &TurnEntryBody) -> EntryText {
    let of_text = |title: &str, text: &HistoryText| EntryText {
        title: title.to_owned(),
        text: sanitize_for_display(text.text.as_deref().unwrap_or_default().trim_end()),
        mark: mark(text.state, text.text.as_deref().unwrap_or_default().len(), Some(text.bytes)),
    };
    let without_text =
        |title: String| EntryText { title: one_line(&title), text: String::new(), mark: None };
    match body {
        TurnEntryBody::System(text) => of_text("system prompt", text),
        TurnEntryBody::Prompt(text) => of_text("prompt", text),
        TurnEntryBody::Words(text) => of_text("words", text),
        TurnEntryBody::ToolCall { tool, args, bytes, state, .. } => EntryText {
            title: one_line(&format!("→ {tool}")),
            text: arguments_text(args),
            mark: call_mark(*state, args.to_string().len(), *bytes),
        },
        TurnEntryBody::ToolResult { tool, ok, text, bytes, state, .. } => EntryText {
            title: one_line(&format!("← {tool}: {}", if *ok { "ok" } else { "failed" })),
            text: sanitize_for_display(text.trim_end()),
            mark: call_mark(*state, text.len(), *bytes),
        },
        TurnEntryBody::Usage(usage) => {
            without_text(format!("usage: {}", state_text::usage_text(usage)))
        }
        TurnEntryBody::Joined { seq } => without_text(format!("message #{seq} joined the turn")),
        TurnEntryBody::Retry { why } => without_text(format!("retry: {why}")),
        TurnEntryBody::Note { text } => without_text(format!("note: {text}")),
        TurnEntryBody::Damaged => without_text("damaged: this entry cannot be read".to_owned()),
    }
}

/// Returns the mark of a call or a result, of which the event has a short form.
fn call_mark(state: TextState, present: usize, bytes: Option<u64>) -> Option<String> {
    match (state, bytes) {
        (TextState::Off, None) => Some("possibly only the beginning".to_owned()),
        _ => mark(state, present, bytes),
    }
}

/// Returns the mark of a text that is not whole: how much is present, and why.
fn mark(state: TextState, present: usize, bytes: Option<u64>) -> Option<String> {
    let why = match state {
        TextState::Whole => return None,
        TextState::Cut => "a text is kept up to 256 KiB",
        TextState::Short => "`history: short`",
        TextState::Limit => "the texts of the run reached 64 MiB",
        TextState::Off => "`history: off`",
        TextState::Lost => "it could not be stored",
        TextState::Expired => "deleted because of its age",
        TextState::Damaged => "the stored text is damaged",
    };
    let present = size_text(present as u64);
    let of = bytes.map(|bytes| format!(" of {}", size_text(bytes))).unwrap_or_default();
    Some(format!("{present}{of}: {why}"))
}

/// Returns the arguments of a call: a line for each, and texts as they are.
fn arguments_text(args: &Value) -> String {
    let text = match args {
        Value::Object(fields) => {
            let line = |(name, value): (&String, &Value)| match value {
                Value::String(text) if text.contains('\n') => {
                    let lines: Vec<_> = text.lines().map(|line| format!("  {line}")).collect();
                    format!("{}:\n{}", one_line(name), lines.join("\n"))
                }
                Value::String(text) => format!("{}: {text}", one_line(name)),
                other => format!("{}: {other}", one_line(name)),
            };
            fields.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    sanitize_for_display(text.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(text: &str) -> AttemptId {
        text.parse().unwrap()
    }

    #[test]
    fn a_short_id_is_unique_in_its_list() {
        let one = id("0197a3b2-7c1e-7000-8000-000000000001");
        let soon = id("0197a3b2-7c1e-7001-8000-000000000001");
        let later = id("0197a3b2-7c1f-7000-8000-000000000001");
        let twin = id("0197a3b2-7c1e-7000-8000-000000000002");
        for (all, expected) in [
            (vec![one], "0197a3b2-7c1e"),
            (vec![one, later], "0197a3b2-7c1e"),
            (vec![one, soon], "0197a3b2-7c1e-7000"),
            (vec![one, twin], "0197a3b2-7c1e-7000-8000-000000000001"),
        ] {
            assert_eq!(short_id(one, &all), expected);
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_visible_in_every_entry() {
        let evil = "\u{1b}]0;x\u{7}\u{202e}";
        let text = || HistoryText { text: Some(evil.into()), bytes: 9, state: TextState::Cut };
        let (id, tool, result) = (evil.to_owned(), evil.to_owned(), evil.to_owned());
        let state = TextState::Off;
        for body in [
            TurnEntryBody::System(text()),
            TurnEntryBody::Prompt(text()),
            TurnEntryBody::Words(text()),
            TurnEntryBody::ToolCall {
                id: id.clone(),
                tool: tool.clone(),
                args: json!({ evil: [evil], "text": format!("a\n{evil}"), "b": evil }),
                bytes: None,
                state,
            },
            TurnEntryBody::ToolResult { id, tool, ok: false, text: result, bytes: None, state },
            TurnEntryBody::Retry { why: evil.to_owned() },
        ] {
            let EntryText { title, text, mark } = entry_text(&body);
            let all = format!("{title}{text}{}", mark.unwrap_or_default());
            let is_obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!all.contains(is_obeyed) && !title.contains('\n'), "{all:?}");
        }
    }

    #[test]
    fn an_incomplete_text_says_how_much_is_there_and_why() {
        let text = |state| HistoryText { text: Some("x".repeat(2048)), bytes: 300_000, state };
        for (state, expected) in [
            (TextState::Whole, None),
            (TextState::Cut, Some("2 KiB of 293 KiB: a text is kept up to 256 KiB")),
            (TextState::Short, Some("2 KiB of 293 KiB: `history: short`")),
            (TextState::Limit, Some("2 KiB of 293 KiB: the texts of the run reached 64 MiB")),
            (TextState::Lost, Some("2 KiB of 293 KiB: it could not be stored")),
        ] {
            let entry = entry_text(&TurnEntryBody::Words(text(state)));
            assert_eq!(entry.mark.as_deref(), expected);
        }
    }

    #[test]
    fn arguments_are_readable() {
        let args = json!({"command": "git diff", "n": 3, "content": "two\nlines"});
        assert_eq!(arguments_text(&args), "command: git diff\ncontent:\n  two\n  lines\nn: 3");
        assert_eq!(arguments_text(&json!("{\"cut")), "{\"cut");
    }
}
