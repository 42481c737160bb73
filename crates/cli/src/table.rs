//! A table for people: columns as wide as they need to be, the widest cut until the whole fits. And facts: a label and a
//! value on each line.

use crate::{
    line::{Line, Tone},
    text::{self, one_line},
};

const GAP: usize = 2;

/// Lays out `rows` beneath `head`. Cells are one line each; without `width` nothing is cut.
pub(crate) fn table<const N: usize>(
    head: [&str; N],
    rows: &[[String; N]],
    width: Option<usize>,
) -> Vec<Line> {
    let mut columns: [usize; N] = head.map(text::width);
    for row in rows {
        for (column, cell) in columns.iter_mut().zip(row) {
            *column = (*column).max(text::width(cell));
        }
    }
    if let Some(width) = width {
        squeeze(&mut columns, width);
    }
    let head = head.map(str::to_owned);
    let titles = std::iter::once(laid_out(&head, &columns, Tone::Dim));
    titles.chain(rows.iter().map(|row| laid_out(row, &columns, Tone::Plain))).collect()
}

/// Lays out values beneath each other, behind their labels. A value is one line; without `width` nothing is cut.
pub(crate) fn facts(facts: &[(&str, String)], width: Option<usize>) -> Vec<Line> {
    let column = facts.iter().map(|(label, _)| text::width(label)).max().unwrap_or(0);
    let line = |(label, value): &(&str, String)| {
        let padding = " ".repeat(column - text::width(label) + GAP);
        let line = Line::of(Tone::Dim, format!("  {label}{padding}"));
        let line = line.and(Tone::Plain, one_line(value));
        width.map_or_else(|| line.clone(), |width| line.clone().cut(width))
    };
    facts.iter().map(line).collect()
}

/// Takes one column at a time from the widest, so that short columns stay whole.
fn squeeze<const N: usize>(columns: &mut [usize; N], width: usize) {
    let room = width.saturating_sub(GAP * N.saturating_sub(1)).max(N);
    while columns.iter().sum::<usize>() > room {
        let Some(widest) = columns.iter_mut().max() else { return };
        *widest -= 1;
    }
}

fn laid_out<const N: usize>(cells: &[String; N], columns: &[usize; N], tone: Tone) -> Line {
    let mut text = String::new();
    for (cell, column) in cells.iter().zip(columns) {
        let cell = text::cut(cell, *column);
        let padding = column - text::width(&cell) + GAP;
        text.push_str(&cell);
        text.extend(std::iter::repeat_n(' ', padding));
    }
    Line::of(tone, text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Colour;

    fn shown(width: Option<usize>) -> String {
        let rows = [
            ["coder@review".into(), "running".into()],
            ["审稿人".into(), "backing off: 429 from the provider".into()],
        ];
        let lines = table(["NAME", "STATUS"], &rows, width);
        lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect()
    }

    #[test]
    fn columns_line_up_whatever_the_script() {
        insta::assert_snapshot!(shown(None), @r"
        NAME          STATUS
        coder@review  running
        审稿人        backing off: 429 from the provider
        ");
    }

    #[test]
    fn facts_line_up_and_fit_their_terminal() {
        let rows = [("run", "since 10:05".into()), ("wakes when", "somebody\n mentions it".into())];
        let shown = |width| {
            let lines = facts(&rows, width);
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
    fn a_table_fits_its_terminal_and_short_columns_stay_whole() {
        insta::assert_snapshot!(shown(Some(30)), @r"
        NAME          STATUS
        coder@review  running
        审稿人        backing off: 42…
        ");
        for width in 1..60 {
            let widest = shown(Some(width)).lines().map(text::width).max();
            assert!(widest <= Some(width.max(4)), "{width}");
        }
    }
}
