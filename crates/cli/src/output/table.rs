//! Tables for people: columns have their natural width, and in a narrow terminal the least important ones are cut
//! first. Also facts: a label and a value on each line.

use crate::output::{
    styled_line::{StyledLine, Tone},
    text::{self, one_line},
};

const COLUMN_GAP: usize = 2;
/// Minimum width of free text before other columns are cut.
const MIN_TEXT_WIDTH: usize = 8;

/// A column's title and its kind of content.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column<'a> {
    /// The subject of a row; cut last.
    Name(&'a str),
    /// A state, with a reason behind its colon; the reason is cut, the state stays.
    State(&'a str),
    /// A number or a time; its title is cut before the figure.
    Figure(&'a str),
    /// A source, a message or a reason; cut first.
    Text(&'a str),
}

/// Lays out `rows` below `head`; each cell is one line, and without `width` nothing is cut.
pub(crate) fn layout_table<const N: usize>(
    head: [Column<'_>; N],
    rows: &[[String; N]],
    width: Option<usize>,
) -> Vec<StyledLine> {
    let titles = head.map(|column| column.title().to_owned());
    let mut widths: [usize; N] = head.map(|column| text::width(column.title()));
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(text::width(cell));
        }
    }
    if let Some(width) = width {
        shrink_columns(&mut widths, &head, rows, width);
    }
    let titles = std::iter::once(layout_row(&titles, &widths, Tone::Dim));
    titles.chain(rows.iter().map(|row| layout_row(row, &widths, Tone::Plain))).collect()
}

impl Column<'_> {
    fn title(&self) -> &str {
        match self {
            Self::Name(title) | Self::State(title) | Self::Figure(title) | Self::Text(title) => {
                title
            }
        }
    }
}

/// The stages of shrinking a table, in order.
#[derive(Clone, Copy, Debug)]
enum ShrinkStage {
    /// Free texts, down to `MIN_TEXT_WIDTH`.
    Texts,
    /// Reasons behind a state.
    Reasons,
    /// Titles of figures.
    Titles,
    /// The rest of the texts.
    RemainingTexts,
    /// Columns of every kind.
    All,
}

impl ShrinkStage {
    /// Returns the minimum width of a column in this stage, or `None` if the stage does not shrink it.
    fn min_width(self, column: Column<'_>, cells: &[&str]) -> Option<usize> {
        let widest =
            |part: fn(&str) -> &str| cells.iter().map(|cell| text::width(part(cell))).max();
        match (self, column) {
            (Self::Texts, Column::Text(_)) => Some(MIN_TEXT_WIDTH),
            (Self::Reasons, Column::State(_)) => widest(state_word_with_ellipsis),
            (Self::Titles, Column::Figure(_)) => widest(|cell| cell),
            (Self::RemainingTexts, Column::Text(_)) | (Self::All, _) => Some(1),
            (Self::Texts | Self::Reasons | Self::Titles | Self::RemainingTexts, _) => None,
        }
    }
}

/// Returns a state up to its colon, whose place the `…` takes.
fn state_word_with_ellipsis(cell: &str) -> &str {
    cell.find(':').map_or(cell, |colon| &cell[..=colon])
}

/// Shrinks the widest column of the current stage by one until the table fits.
fn shrink_columns<const N: usize>(
    widths: &mut [usize; N],
    head: &[Column<'_>; N],
    rows: &[[String; N]],
    width: usize,
) {
    let available = width.saturating_sub(COLUMN_GAP * N.saturating_sub(1)).max(N);
    for turn in [
        ShrinkStage::Texts,
        ShrinkStage::Reasons,
        ShrinkStage::Titles,
        ShrinkStage::RemainingTexts,
        ShrinkStage::All,
    ] {
        let floors: Vec<Option<usize>> = (0..N)
            .map(|at| {
                let cells: Vec<&str> = rows.iter().map(|row| row[at].as_str()).collect();
                turn.min_width(head[at], &cells).map(|floor| floor.max(1))
            })
            .collect();
        while widths.iter().sum::<usize>() > available {
            let spare = widths.iter_mut().zip(&floors);
            let spare = spare.filter(|(width, floor)| floor.is_some_and(|floor| **width > floor));
            let Some((widest, _)) = spare.max_by_key(|(width, _)| **width) else { break };
            *widest -= 1;
        }
    }
}

/// Lays out values below each other, behind their labels; each value is one line, and without `width` nothing is cut.
pub(crate) fn layout_facts(facts: &[(&str, String)], width: Option<usize>) -> Vec<StyledLine> {
    let column = facts.iter().map(|(label, _)| text::width(label)).max().unwrap_or(0);
    let line = |(label, value): &(&str, String)| {
        let padding = " ".repeat(column - text::width(label) + COLUMN_GAP);
        let line = StyledLine::new(Tone::Dim, format!("  {label}{padding}"));
        let line = line.with(Tone::Plain, one_line(value));
        width.map_or_else(|| line.clone(), |width| line.clone().cut(width))
    };
    facts.iter().map(line).collect()
}

fn layout_row<const N: usize>(cells: &[String; N], columns: &[usize; N], tone: Tone) -> StyledLine {
    let mut text = String::new();
    for (cell, column) in cells.iter().zip(columns) {
        let cell = text::cut(cell, *column);
        let padding = column - text::width(&cell) + COLUMN_GAP;
        text.push_str(&cell);
        text.extend(std::iter::repeat_n(' ', padding));
    }
    StyledLine::new(tone, text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::styled_line::Colour;

    fn shown(width: Option<usize>) -> String {
        let rows = [
            ["coder@review", "/srv/somewhere/the/reviews", "running", "3", "hello, how are you?"],
            ["审稿人", "(standalone)", "backing off: 429 from the provider", "12", "fine"],
        ]
        .map(|row| row.map(str::to_owned));
        let head = [
            Column::Name("NAME"),
            Column::Text("SOURCE"),
            Column::State("STATUS"),
            Column::Figure("WAITING"),
            Column::Text("LAST"),
        ];
        let lines = layout_table(head, &rows, width);
        lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect()
    }

    #[test]
    fn columns_line_up_whatever_the_script() {
        insta::assert_snapshot!(shown(None), @r"
        NAME          SOURCE                      STATUS                              WAITING  LAST
        coder@review  /srv/somewhere/the/reviews  running                             3        hello, how are you?
        审稿人        (standalone)                backing off: 429 from the provider  12       fine
        ");
    }

    #[test]
    fn facts_line_up_and_fit_their_terminal() {
        let rows = [("run", "since 10:05".into()), ("wakes when", "somebody\n mentions it".into())];
        let shown = |width| {
            let lines = layout_facts(&rows, width);
            lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect::<String>()
        };
        insta::assert_snapshot!(shown(None), @r"
          run         since 10:05
          wakes when  somebody mentions it
        ");
        insta::assert_snapshot!(shown(Some(24)), @r"
          run         since 10:…
          wakes when  somebody …
        ");
    }

    #[test]
    fn a_table_that_is_too_wide_cuts_texts_then_reasons_then_titles_and_names_last() {
        insta::assert_snapshot!(shown(Some(80)), @r"
        NAME          SOURCE      STATUS                              WAITING  LAST
        coder@review  /srv/some…  running                             3        hello, h…
        审稿人        (standalo…  backing off: 429 from the provider  12       fine
        ");
        insta::assert_snapshot!(shown(Some(60)), @r"
        NAME          SOURCE    STATUS             WAITING  LAST
        coder@review  /srv/so…  running            3        hello, …
        审稿人        (standa…  backing off: 429…  12       fine
        ");
        insta::assert_snapshot!(shown(Some(40)), @r"
        NAME          SO…  STATUS        W…  LA…
        coder@review  /s…  running       3   he…
        审稿人        (s…  backing off…  12  fi…
        ");
    }

    #[test]
    fn no_table_is_wider_than_its_terminal() {
        for width in 1..120 {
            let widest = shown(Some(width)).lines().map(text::width).max();
            assert!(widest <= Some(width.max(13)), "{width}");
        }
    }
}
