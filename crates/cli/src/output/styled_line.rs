//! A line for people: text segments, each with a tone. Measured and cut as text, coloured last.

use std::ops::Range;

use anstyle::{AnsiColor, Style};

use crate::output::text;

/// The meaning of a text segment; its colour follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Text without emphasis.
    Plain,
    /// Text of minor importance.
    Dim,
    /// A name or a heading.
    Strong,
    /// A successful result.
    Good,
    /// A result that needs attention.
    Warn,
    /// A failed result.
    Bad,
    /// The name of an agent, in the colour of this number.
    Agent(usize),
}

/// The colours of agents. Green, yellow and red have a meaning of their own.
const AGENT_COLOURS: [AnsiColor; 6] = [
    AnsiColor::Cyan,
    AnsiColor::Magenta,
    AnsiColor::BrightBlue,
    AnsiColor::BrightCyan,
    AnsiColor::BrightMagenta,
    AnsiColor::Blue,
];

/// The use of colours on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// A terminal with colours and a user who did not set `NO_COLOR`.
    On,
    /// A pipe, a file, or a user who disabled colours.
    Off,
}

/// One line without its line break.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StyledLine(Vec<(Tone, String)>);

impl StyledLine {
    /// Creates a line in one tone.
    pub(crate) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self(vec![(tone, text.into())])
    }

    /// Creates a line without emphasis.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(Tone::Plain, text)
    }

    /// Appends a text segment.
    #[must_use]
    pub(crate) fn with(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.push((tone, text.into()));
        self
    }

    /// Inserts a text segment at the start.
    #[must_use]
    pub(crate) fn with_prefix(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.insert(0, (tone, text.into()));
        self
    }

    /// Appends the segments of another line.
    #[must_use]
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns the text segments with their tones.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (Tone, &str)> {
        self.0.iter().map(|(tone, text)| (*tone, text.as_str()))
    }

    /// Returns the bare text.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Returns the part between two positions in bytes of [`Self::text`], which lie between characters.
    pub(crate) fn slice(&self, range: &Range<usize>) -> Self {
        let (mut part, mut at) = (Self::default(), 0);
        for (tone, text) in &self.0 {
            let (start, end) = (range.start.max(at), range.end.min(at + text.len()));
            if start < end {
                part = part.with(*tone, text.get(start - at..end - at).unwrap_or_default());
            }
            at += text.len();
        }
        part
    }

    /// Gives a prefix of the text a tone of its own; a line without that prefix stays the same.
    #[must_use]
    pub(crate) fn with_prefix_tone(self, prefix: &str, tone: Tone) -> Self {
        let text = self.text();
        if !text.starts_with(prefix) {
            return self;
        }
        Self::new(tone, prefix).join(self.slice(&(prefix.len()..text.len())))
    }

    /// Returns the width in columns.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text::width(text)).sum()
    }

    /// Cuts the line to `columns`, with `…` in place of the rest.
    #[must_use]
    pub(crate) fn cut(self, columns: usize) -> Self {
        let Some(mut remaining) = columns.checked_sub(1) else { return Self::default() };
        if self.width() <= columns {
            return self;
        }
        let mut kept = Self::default();
        for (tone, text) in self.0 {
            let beginning = text::fitting_prefix(&text, remaining);
            remaining -= text::width(beginning);
            if beginning.len() < text.len() {
                return kept.with(tone, format!("{beginning}…"));
            }
            kept = kept.with(tone, text);
        }
        kept
    }

    /// Returns the line with escape sequences for a terminal, or as bare text.
    pub(crate) fn paint(&self, colour: Colour) -> String {
        self.0.iter().map(|(tone, text)| paint_segment(*tone, text, colour)).collect()
    }
}

fn paint_segment(tone: Tone, text: &str, colour: Colour) -> String {
    let style = match tone {
        Tone::Plain => Style::new(),
        Tone::Dim => Style::new().dimmed(),
        Tone::Strong => Style::new().bold(),
        Tone::Good => AnsiColor::Green.on_default(),
        Tone::Warn => AnsiColor::Yellow.on_default(),
        Tone::Bad => AnsiColor::Red.on_default().bold(),
        Tone::Agent(number) => {
            let colour = AGENT_COLOURS.get(number % AGENT_COLOURS.len());
            colour.copied().unwrap_or(AnsiColor::Cyan).on_default().bold()
        }
    };
    match colour {
        Colour::On => format!("{style}{text}{style:#}"),
        Colour::Off => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> StyledLine {
        StyledLine::new(Tone::Bad, "error: ").with(Tone::Plain, "no daemon")
    }

    #[test]
    fn colours_are_there_only_for_those_who_see_them() {
        assert_eq!(line().paint(Colour::Off), "error: no daemon");
        assert_eq!(line().paint(Colour::On), "\x1b[1m\x1b[31merror: \x1b[0mno daemon");
    }

    #[test]
    fn a_part_of_a_line_keeps_its_tones() {
        for (range, expected) in [
            (0..16, line()),
            (5..9, StyledLine::new(Tone::Bad, ": ").with(Tone::Plain, "no")),
            (7..9, StyledLine::plain("no")),
            (16..16, StyledLine::default()),
        ] {
            assert_eq!(line().slice(&range), expected, "{range:?}");
        }
        let named = StyledLine::new(Tone::Bad, "coder: stopped");
        let painted = StyledLine::new(Tone::Agent(1), "coder").with(Tone::Bad, ": stopped");
        assert_eq!(named.clone().with_prefix_tone("coder", Tone::Agent(1)), painted);
        assert_eq!(named.clone().with_prefix_tone("lead", Tone::Agent(1)), named);
    }

    #[test]
    fn a_line_is_cut_as_text_whatever_its_tones() {
        for (columns, kept) in [
            (16, "error: no daemon"),
            (12, "error: no d…"),
            (8, "error: …"),
            (7, "error:…"),
            (4, "err…"),
            (0, ""),
        ] {
            let cut = line().cut(columns);
            assert_eq!(cut.paint(Colour::Off), kept);
        }
    }
}
