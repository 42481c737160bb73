//! The texts of the demo. Pure: facts in, lines out, at most as wide as the terminal.
//!
//! A test compares these texts with the recorded picture in `docs/demo.svg`.

use std::borrow::Cow;

use super::evidence::TeamCheck;
use crate::output::{
    styled_line::{StyledLine, Tone},
    text::wrap_words,
};

/// A paragraph in one tone, wrapped at the width of the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caption {
    tone: Tone,
    /// Number of columns in front of each line.
    indent: usize,
    text: Cow<'static, str>,
}

/// Title and subtitle.
pub(super) const INTRODUCTION: [Caption; 2] = [
    Caption::constant(Tone::Strong, "A team of agents that survives kill -9"),
    Caption::constant(
        Tone::Dim,
        "Scripted agents, real processes. No key, no model, no file of yours.",
    ),
];
/// Headings of the scenes, in their order.
pub(super) const HEADINGS: [&str; 5] = [
    "You hand a task to the lead, and the lead hands out work",
    "An agent crashes, and the daemon tries again",
    "kill -9 for the daemon, while agents work and you send",
    "An agent asks you",
    "The work is done",
];
pub(super) const NO_KEY_INPUT: &str = "No key is read, so the demo answers by itself:";
pub(super) const NO_KEY_PRESSED: &str = "No key was pressed, so the demo answers by itself:";
pub(super) const NEXT_STEP: [Caption; 2] = [
    Caption::constant(Tone::Plain, ""),
    Caption::constant(Tone::Strong, "Your own agents next: agent-worker init"),
];
pub(super) const CHECK_FAILED: [Caption; 2] = [
    Caption::constant(Tone::Plain, ""),
    Caption::constant(
        Tone::Bad,
        "A check failed; keep the folder of the demo: agent-worker demo --keep",
    ),
];
pub(super) const STOPPED: &str = "the demo was stopped, and its processes have ended";

/// Width of the column with the names of agents.
const NAME_WIDTH: usize = 10;
/// Number of columns in front of everything below a heading.
const INDENT: usize = 3;
/// Smallest width that a text is wrapped at.
const MIN_TEXT_WIDTH: usize = 16;

impl Caption {
    /// Returns a caption in the first column.
    const fn constant(tone: Tone, text: &'static str) -> Self {
        Self { tone, indent: 0, text: Cow::Borrowed(text) }
    }

    /// Returns a caption below a heading.
    pub(super) fn new(tone: Tone, text: impl Into<Cow<'static, str>>) -> Self {
        Self { tone, indent: INDENT, text: text.into() }
    }

    /// Returns the caption as lines of at most `columns` columns, if its words are not longer.
    pub(super) fn wrap(&self, columns: usize) -> Vec<StyledLine> {
        if self.text.is_empty() {
            return vec![StyledLine::default()];
        }
        hang(StyledLine::plain(" ".repeat(self.indent)), self.tone, &self.text, columns)
    }
}

/// Formats the heading of a scene with its number.
pub(super) fn heading_lines(number: usize, heading: &str, columns: usize) -> Vec<StyledLine> {
    let label = StyledLine::new(Tone::Strong, format!("{number:<INDENT$}"));
    let mut lines = vec![StyledLine::default()];
    lines.extend(hang(label, Tone::Strong, heading, columns));
    lines
}

/// Formats a line about an agent: its name, and a text in a column of its own.
pub(super) fn agent_lines(name: &str, tone: Tone, text: &str, columns: usize) -> Vec<StyledLine> {
    let label =
        StyledLine::plain(" ".repeat(INDENT)).with(Tone::Strong, format!("{name:<NAME_WIDTH$}"));
    hang(label, tone, text, columns)
}

/// Formats a check, with its result in front.
pub(super) fn check_lines(check: &TeamCheck, columns: usize) -> Vec<StyledLine> {
    let (mark, mark_tone, tone) = if check.holds() {
        ("✓ ", Tone::Good, Tone::Plain)
    } else {
        ("✗ ", Tone::Bad, Tone::Bad)
    };
    let label = StyledLine::plain(" ".repeat(INDENT)).with(mark_tone, mark);
    hang(label, tone, &check.to_string(), columns)
}

/// Wraps a text behind a label; the further lines start below the text.
fn hang(label: StyledLine, tone: Tone, text: &str, columns: usize) -> Vec<StyledLine> {
    let indent = label.width();
    let available = columns.saturating_sub(indent).max(MIN_TEXT_WIDTH);
    let mut label = Some(label);
    let lines = wrap_words(text, available).into_iter().map(|words| {
        let start = label.take().unwrap_or_else(|| StyledLine::plain(" ".repeat(indent)));
        start.with(tone, words)
    });
    lines.collect()
}

/// Formats the keys that answer a question: `Press 1 for today, 2 for tomorrow.`
pub(super) fn keys_text(options: &[String]) -> String {
    let keys = options.iter().zip(1..).map(|(option, key)| format!("{key} for {option}"));
    format!("Press {}.", keys.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{styled_line::Colour, text::width};

    fn shown(lines: &[StyledLine]) -> Vec<String> {
        lines.iter().map(|line| line.paint(Colour::Off)).collect()
    }

    #[test]
    fn texts_are_wrapped_beneath_themselves_at_every_width() {
        let text = "@coder please fix the session cookie of the login page.";
        for columns in [40, 60, 80, 120] {
            let lines = agent_lines("lead", Tone::Plain, text, columns);
            assert!(lines.iter().all(|line| line.width() <= columns), "{columns}: {lines:?}");
        }
        assert_eq!(
            shown(&agent_lines("lead", Tone::Plain, text, 40)),
            [
                "   lead      @coder please fix the",
                "             session cookie of the login",
                "             page."
            ]
        );
        assert_eq!(
            shown(&check_lines(
                &TeamCheck::new(2, 3, "turns continue, with a long explanation"),
                40
            )),
            ["   ✗ 2 of 3 turns continue, with a long", "     explanation"]
        );
    }

    #[test]
    fn every_option_of_a_question_has_a_key() {
        let options = ["today", "tomorrow"].map(str::to_owned);
        assert_eq!(keys_text(&options), "Press 1 for today, 2 for tomorrow.");
    }

    #[test]
    fn no_constant_text_is_wider_than_a_recorded_line() {
        for heading in HEADINGS {
            assert!(width(heading) + INDENT <= 80, "{heading}");
        }
    }
}
