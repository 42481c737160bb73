//! Draws a request or a question for the live view, with the keys that answer it. Pure.

use agent_worker_protocol::{
    ToolPattern,
    api::{ApprovalView, QuestionView},
};

use super::{
    attention_panel::{Extent, MAX_ANSWER_KEYS, OpenItem, is_typed},
    line_editor::LineEditor,
};
use crate::output::{
    console::TerminalSize,
    request_text::{RequestLine, request_lines},
    styled_line::{StyledLine, Tone},
    text::{self, one_line, sanitize_for_display},
    wrapped_line::wrap_line,
};

/// Prefix of every row of a request or a question, which no text can imitate.
const ITEM_PREFIX: &str = "  │ ";
/// Prefix of every row of the pattern that a key allows for the run.
const PATTERN_PREFIX: &str = "  for this run │ ";
const INDENT: &str = "  ";
const KEY_SEPARATOR: &str = " · ";
/// Smallest number of columns in which a request can be read.
const MIN_READABLE_WIDTH: usize = 12;

/// An item on the screen.
pub(super) struct DrawnItem {
    pub(super) lines: Vec<StyledLine>,
    pub(super) extent: Extent,
}

/// Draws an item within `size`; `editor` is the line that is being typed about it, `others` the number of further items.
pub(super) fn draw(
    item: &OpenItem,
    others: usize,
    size: TerminalSize,
    editor: Option<&LineEditor>,
) -> DrawnItem {
    // One column stays free: a full line would wrap in some terminals.
    let frame = Frame { width: size.width.saturating_sub(1), height: size.height, others, editor };
    let drawn = match item {
        OpenItem::Approval(request) => frame.draw_request(request),
        OpenItem::Question(question) => frame.draw_question(question),
    };
    let lines = drawn.lines.into_iter().map(|line| line.cut(frame.width));
    DrawnItem { lines: lines.collect(), ..drawn }
}

/// The place for an item.
struct Frame<'a> {
    width: usize,
    height: usize,
    others: usize,
    editor: Option<&'a LineEditor>,
}

impl Frame<'_> {
    fn draw_request(&self, request: &ApprovalView) -> DrawnItem {
        let ApprovalView { id, agent, tool, args, exact_pattern, .. } = request;
        let head = StyledLine::new(Tone::Warn, format!("  #{id} {agent} wants {}", one_line(tool)));
        let mut rows = rows_behind(ITEM_PREFIX, &request_lines(args), self.width);
        let is_readable = head.width() <= self.width
            && self.width >= text::width(ITEM_PREFIX) + MIN_READABLE_WIDTH;
        let pattern = exact_pattern.clone().map(|pattern| {
            let rows = rows_behind(PATTERN_PREFIX, &[pattern_line(&pattern)], self.width);
            (rows, pattern)
        });
        let (once, deny) = ("y once", ["n deny", "r deny with a reason"]);
        if let Some((shown, pattern)) = pattern {
            let foot = self.foot("reason", &[&[once, "a for this run"][..], &deny].concat());
            if is_readable && self.fits(rows.len() + shown.len(), &foot) {
                rows.extend(shown);
                return drawn(head, rows, foot, Extent::WithPattern(pattern));
            }
        }
        let foot = self.foot("reason", &[&[once][..], &deny].concat());
        if is_readable && self.fits(rows.len(), &foot) {
            return drawn(head, rows, foot, Extent::Whole);
        }
        let read = format!("too long for here: agent-worker pending {id}");
        let foot = self.foot("reason", &[&[read.as_str()][..], &deny].concat());
        self.truncate(&mut rows, &foot);
        drawn(head, rows, foot, Extent::Part)
    }

    fn draw_question(&self, question: &QuestionView) -> DrawnItem {
        let QuestionView { id, agent, question, options, .. } = question;
        let head = StyledLine::new(Tone::Warn, format!("  question #{id} of {agent}"));
        let columns = self.width.saturating_sub(text::width(ITEM_PREFIX));
        let body = sanitize_for_display(question);
        let mut rows: Vec<StyledLine> = body
            .lines()
            .flat_map(|line| wrap_line(&StyledLine::plain(line), columns))
            .map(|row| row.with_prefix(Tone::Dim, ITEM_PREFIX))
            .collect();
        let keys = options.iter().take(MAX_ANSWER_KEYS).zip(1..);
        let answers = keys.map(|(option, key)| {
            let line = StyledLine::new(Tone::Strong, format!("{INDENT}{key} "));
            wrap_line(&line.with(Tone::Plain, one_line(option)), self.width)
        });
        rows.extend(answers.flatten());
        let choice = match options.len().min(MAX_ANSWER_KEYS) {
            0 => None,
            1 => Some("1 answers".to_owned()),
            last => Some(format!("1–{last} answers")),
        };
        let typed = is_typed(options).then_some("t types an answer");
        let keys: Vec<&str> = choice.as_deref().into_iter().chain(typed).collect();
        let foot = self.foot("answer", &keys);
        let is_readable = head.width() <= self.width && columns >= MIN_READABLE_WIDTH;
        if is_readable && self.fits(rows.len(), &foot) {
            return drawn(head, rows, foot, Extent::Answers(options.clone()));
        }
        let read = format!("too long for here: agent-worker answer {id} \"…\"");
        let foot = self.foot("answer", &[&read]);
        self.truncate(&mut rows, &foot);
        drawn(head, rows, foot, Extent::Part)
    }

    /// Returns the rows below an item: its keys, or the line that is being typed.
    fn foot(&self, label: &str, keys: &[&str]) -> Vec<StyledLine> {
        if let Some(editor) = self.editor {
            let line = editor.draw(&format!("{INDENT}{label}: "), self.width);
            return vec![line, key_rows(&["Enter sends", "Esc goes back"], self.width).remove(0)];
        }
        let others = match self.others {
            0 => None,
            others => Some(format!("{others} more")),
        };
        let keys: Vec<&str> = keys.iter().copied().chain(others.as_deref()).collect();
        key_rows(&keys, self.width)
    }

    fn fits(&self, rows: usize, foot: &[StyledLine]) -> bool {
        1 + rows + foot.len() <= self.height && foot.iter().all(|row| row.width() <= self.width)
    }

    fn truncate(&self, rows: &mut Vec<StyledLine>, foot: &[StyledLine]) {
        rows.truncate(self.height.saturating_sub(1 + foot.len()));
    }
}

fn drawn(
    head: StyledLine,
    rows: Vec<StyledLine>,
    foot: Vec<StyledLine>,
    extent: Extent,
) -> DrawnItem {
    DrawnItem { lines: std::iter::once(head).chain(rows).chain(foot).collect(), extent }
}

/// Returns lines as rows behind a prefix.
fn rows_behind(prefix: &str, lines: &[RequestLine], width: usize) -> Vec<StyledLine> {
    let columns = width.saturating_sub(text::width(prefix)).max(1);
    let rows = lines.iter().flat_map(|line| line.rows(columns));
    rows.map(|row| row.with_prefix(Tone::Dim, prefix)).collect()
}

fn pattern_line(pattern: &ToolPattern) -> RequestLine {
    RequestLine::new("", Tone::Plain, &pattern.to_string())
}

/// Returns the keys on as many rows as they need.
fn key_rows(keys: &[&str], width: usize) -> Vec<StyledLine> {
    let mut rows: Vec<String> = Vec::new();
    for key in keys {
        let needed = text::width(KEY_SEPARATOR) + text::width(key);
        match rows.last_mut() {
            Some(row) if text::width(row) + needed <= width => {
                row.push_str(KEY_SEPARATOR);
                row.push_str(key);
            }
            _ => rows.push(format!("{INDENT}{key}")),
        }
    }
    rows.into_iter().map(|row| StyledLine::new(Tone::Strong, row)).collect()
}
