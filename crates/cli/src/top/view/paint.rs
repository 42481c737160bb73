//! Styles of the full screen: a tone of a line becomes a style of a cell.

use ratatui::{
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use crate::output::styled_line::{Colour, StyledLine, Tone};

/// The colours of agents, as in the live view.
const AGENT_COLOURS: [Color; 6] = [
    Color::Cyan,
    Color::Magenta,
    Color::LightBlue,
    Color::LightCyan,
    Color::LightMagenta,
    Color::Blue,
];

/// Gives lines their styles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Painter {
    pub(super) colour: Colour,
}

impl Painter {
    /// Returns the line for a frame. A tab would move the cursor of the terminal.
    pub(super) fn line(self, line: &StyledLine) -> Line<'static> {
        let spans = line
            .segments()
            .map(|(tone, text)| Span::styled(text.replace(['\t', '\n'], " "), self.style(tone)));
        Line::from(spans.collect::<Vec<_>>())
    }

    fn style(self, tone: Tone) -> Style {
        match (self.colour, tone) {
            (Colour::Off, _) | (Colour::On, Tone::Plain) => Style::new(),
            (Colour::On, Tone::Dim) => Style::new().add_modifier(Modifier::DIM),
            (Colour::On, Tone::Strong) => Style::new().add_modifier(Modifier::BOLD),
            (Colour::On, Tone::Good) => Style::new().fg(Color::Green),
            (Colour::On, Tone::Warn) => Style::new().fg(Color::Yellow),
            (Colour::On, Tone::Bad) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            (Colour::On, Tone::Agent(number)) => {
                Style::new().fg(AGENT_COLOURS[number % AGENT_COLOURS.len()])
            }
        }
    }
}
