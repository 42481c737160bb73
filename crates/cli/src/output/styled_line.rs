//! A line for people: text segments, each with a tone. Measured and cut as text, coloured last.

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
}

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
