//! Positions of the hand-offs in an answer, as a pure function.
//!
//! A hand-off is the first word of a paragraph or of a list item. Rules:
//!
//! - Markup, emoji and bullets before a mention are no words; quotation marks, brackets and a dash before it are. So is
//!   a `+` or `-` directly before it: such a line is part of a diff. A bullet has a blank after it.
//! - Mentions at the start that only commas, `and`, `&`, `/` or `+` separate are all hand-offs: `@b, @c: please …`.
//! - A line break within a paragraph starts a paragraph if it is a hard one, if the line before it ends a sentence, or if
//!   that line starts with a hand-off. Wrapped prose does none of these.
//! - Headings, tables, HTML, block quotes with their lazy continuations, and indented code contain no hand-off. A mention
//!   after an HTML tag is not the first word.
//! - The lines of a diff after the header of a hunk (`@@ -1,3 +1,3 @@`) contain no hand-off.
//! - A checked task and the items in it contain no hand-off; an unchecked task in it does.
//! - Text that is struck out is no text.
//! - `@b's`, `@b/pkg`, `@b.js`, `@b@2.0` and `@b=x` are about b or about something else, so they are no hand-offs.

use std::{collections::BTreeSet, ops::Range};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::super::{merge_ranges, overlaps_any, token_after};

/// Characters that open an aside or a quotation: a mention after them is not the first word.
const ASIDE_CHARACTERS: &str = "\"'`“”„‘’«»(<{|\\—";
/// Characters between two mentions that are addressed together. A model may repeat the character without width that
/// precedes the mentions in its prompt.
const LIST_SEPARATORS: &str = ",;&/+、，*_~[]\u{200b}";
/// Words between two mentions that are addressed together.
const LIST_WORDS: [&str; 2] = ["and", "和"];
/// Characters that end a sentence.
const SENTENCE_ENDS: &str = ".!?:…。！？：";
/// Characters without a letter that end no sentence, unlike emoji.
const CONTINUATIONS: &str = "，、；—–“‘«（";

/// The inline content of a block that the scan has reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanState {
    /// The next word is the first one.
    AtStart,
    /// The line has words; `handed_off` is true if the first one is a hand-off.
    InLine { handed_off: bool },
    /// The block contains no hand-off.
    Outside,
}

/// Returns the positions of the mentions that are hand-offs.
pub(super) fn hand_off_positions(answer: &str) -> BTreeSet<usize> {
    let own = blank_diff_lines(answer);
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS | Options::ENABLE_STRIKETHROUGH;
    let mut scan = HandOffScan::new(&own);
    for (event, range) in Parser::new_ext(&own, options).into_offset_iter() {
        scan.state = scan.state_after(&event, range);
    }
    let struck = merge_ranges(scan.struck);
    let mut positions = scan.positions;
    positions.retain(|at| !overlaps_any(&struck, &(*at..at + 1)));
    positions
}

/// A pass over the events of a Markdown parser.
struct HandOffScan<'t> {
    text: &'t str,
    state: ScanState,
    /// Number of block quotes around the position.
    quotes: usize,
    /// One entry for each list item around the position; true if the item is done.
    items: Vec<bool>,
    /// Number of struck-out ranges around the position.
    strikes: usize,
    /// Start of the current line of the block.
    line_start: usize,
    /// True if the last line with a word ended a sentence.
    ended_sentence: bool,
    struck: Vec<Range<usize>>,
    positions: BTreeSet<usize>,
}

impl<'t> HandOffScan<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            state: ScanState::Outside,
            quotes: 0,
            items: Vec::new(),
            strikes: 0,
            line_start: 0,
            ended_sentence: false,
            struck: Vec::new(),
            positions: BTreeSet::new(),
        }
    }

    /// Returns the state after an event.
    fn state_after(&mut self, event: &Event<'_>, range: Range<usize>) -> ScanState {
        match event {
            Event::Start(Tag::BlockQuote(_)) => {
                self.quotes += 1;
                ScanState::Outside
            }
            Event::End(TagEnd::BlockQuote(_)) => {
                self.quotes = self.quotes.saturating_sub(1);
                ScanState::Outside
            }
            Event::Start(Tag::Item) => {
                self.items.push(self.is_done());
                self.state_at_block(range.start)
            }
            Event::End(TagEnd::Item) => {
                self.items.pop();
                ScanState::Outside
            }
            Event::TaskListMarker(done) => {
                if let Some(item) = self.items.last_mut() {
                    *item = *done;
                }
                self.state_at_block(range.start)
            }
            Event::Start(Tag::Paragraph) => self.state_at_block(range.start),
            Event::HardBreak | Event::SoftBreak => self.state_at_break(event, range),
            Event::Start(Tag::Strikethrough) => {
                self.strikes += 1;
                self.struck.push(range);
                self.state
            }
            Event::End(TagEnd::Strikethrough) => {
                self.strikes = self.strikes.saturating_sub(1);
                self.state
            }
            Event::Text(_) | Event::Start(Tag::Strong | Tag::Emphasis | Tag::Link { .. }) => {
                self.state_at_word(range.start)
            }
            Event::Code(_) | Event::InlineHtml(_) if self.strikes > 0 => self.state,
            Event::Code(_) | Event::InlineHtml(_) if self.state == ScanState::AtStart => {
                ScanState::InLine { handed_off: false }
            }
            Event::Code(_)
            | Event::InlineHtml(_)
            | Event::End(TagEnd::Strong | TagEnd::Emphasis | TagEnd::Link) => self.state,
            _ => ScanState::Outside,
        }
    }

    fn is_done(&self) -> bool {
        self.items.last().is_some_and(|done| *done)
    }

    fn state_at_block(&mut self, start: usize) -> ScanState {
        (self.line_start, self.ended_sentence, self.strikes) = (start, false, 0);
        if self.quotes > 0 || self.is_done() { ScanState::Outside } else { ScanState::AtStart }
    }

    /// Returns the state after text, whose mentions at the start of a line are hand-offs.
    fn state_at_word(&mut self, start: usize) -> ScanState {
        if self.state != ScanState::AtStart || self.strikes > 0 {
            return self.state;
        }
        let found = leading_mentions(self.text, start);
        let handed_off = !found.is_empty();
        self.positions.extend(found);
        ScanState::InLine { handed_off }
    }

    /// Returns the state after a line break. The time depends on the line before it, not on the whole text.
    fn state_at_break(&mut self, event: &Event<'_>, range: Range<usize>) -> ScanState {
        let line = &self.text[self.line_start.min(range.start)..range.start];
        self.line_start = range.end;
        if self.state == ScanState::Outside || self.strikes > 0 {
            return self.state;
        }
        // A line of markup alone continues the line before it.
        self.ended_sentence = ends_sentence(line).unwrap_or(self.ended_sentence);
        match self.state {
            ScanState::InLine { handed_off: false }
                if !self.ended_sentence && *event == Event::SoftBreak =>
            {
                self.state
            }
            ScanState::AtStart | ScanState::InLine { .. } => ScanState::AtStart,
            ScanState::Outside => ScanState::Outside,
        }
    }
}

/// Returns true if the last word of a line ends a sentence; none if the line has no word.
fn ends_sentence(line: &str) -> Option<bool> {
    let markup = |c: char| c.is_whitespace() || "*_~)]\"”’»\u{fe0f}\u{200d}".contains(c);
    let last = line.trim_end_matches(markup).chars().next_back()?;
    let is_symbol = !last.is_ascii() && !last.is_alphanumeric() && !CONTINUATIONS.contains(last);
    Some(SENTENCE_ENDS.contains(last) || is_symbol)
}

/// Returns the positions of the mentions with which the line at `start` begins.
fn leading_mentions(text: &str, start: usize) -> Vec<usize> {
    let line = text[start..].split('\n').next().unwrap_or_default();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = line[at..].chars().next() {
        let rest = &line[at..];
        let word = LIST_WORDS.iter().find(|word| starts_with_word(rest, word));
        let separates = c.is_whitespace() || LIST_SEPARATORS.contains(c);
        let is_diff = rest.starts_with("+@") || rest.starts_with("-@");
        let decorates = !c.is_alphanumeric() && !ASIDE_CHARACTERS.contains(c) && !is_diff;
        if c == '@' {
            let token = token_after(line, at);
            let after = &line[at + 1 + token.len()..];
            if token.is_empty() || is_part_of_word(after) {
                break;
            }
            found.push(start + at);
            at += 1 + token.len();
        } else if found.is_empty() && decorates || !found.is_empty() && separates {
            at += c.len_utf8();
        } else if let Some(word) = word.filter(|_| !found.is_empty()) {
            at += word.len();
        } else {
            break;
        }
    }
    found
}

/// Returns true if the text starts with `word`, followed by a space or a mention.
fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '@']))
}

/// Returns true if a mention before this text is a possessive (`@b's`), or starts a path (`@b/pkg`), the name of a file
/// (`@b.js`), a package with its version (`@b@2`) or an assignment (`@b=x`).
fn is_part_of_word(after: &str) -> bool {
    let possessive = after.strip_prefix("'s").or_else(|| after.strip_prefix("’s"));
    possessive.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        || after.starts_with('=')
        || after
            .strip_prefix(['/', '.', '@'])
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Replaces the lines of a diff by empty ones of the same length. The lines of a hunk follow its header.
fn blank_diff_lines(text: &str) -> String {
    let mut own = String::with_capacity(text.len());
    let mut in_hunk = false;
    for line in text.split_inclusive('\n') {
        in_hunk = is_hunk_header(line) || in_hunk && line.starts_with(['+', '-', ' ', '\\']);
        if in_hunk {
            let words = line.trim_end_matches('\n').len();
            own.push_str(&" ".repeat(words));
            own.push_str(&line[words..]);
        } else {
            own.push_str(line);
        }
    }
    own
}

/// Returns true for the header of a hunk: `@@ -1,3 +1,3 @@`.
fn is_hunk_header(line: &str) -> bool {
    let numbers = line.strip_prefix("@@ -");
    numbers
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains(" +"))
}
