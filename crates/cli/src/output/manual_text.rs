//! Renders a section of the documentation for a terminal: headings, paragraphs, lists, tables and code.
//!
//! The documentation is the only source of these texts, so that help and documentation cannot differ.

use crate::output::{
    styled_line::{StyledLine, Tone},
    text::wrap_words,
};

const INDENT: &str = "    ";

/// Returns the part of a page that begins with a heading and ends before the next heading of the same level. Without a
/// heading it is the page up to its first section.
pub(crate) fn section<'a>(page: &'a str, heading: Option<&str>) -> Option<&'a str> {
    let mut starts = headings(page);
    let from = match heading {
        None => 0,
        Some(heading) => {
            let is_it = |at: &usize| first_line(&page[*at..]) == format!("## {heading}");
            starts.by_ref().find(is_it)?
        }
    };
    let end = starts.find(|at| *at > from && page[*at..].starts_with("## "));
    Some(&page[from..end.unwrap_or(page.len())])
}

/// Returns the positions of the headings outside of code blocks.
fn headings(page: &str) -> impl Iterator<Item = usize> {
    let mut is_code = false;
    let mut at = 0;
    page.split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        is_code ^= line.starts_with("```");
        (!is_code && line.starts_with('#')).then_some(start)
    })
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Renders Markdown as lines of at most `width` columns; lines of code keep their length.
pub(crate) fn render(markdown: &str, width: usize) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    let mut titles: Vec<String> = Vec::new();
    let mut source = markdown.lines().peekable();
    while let Some(line) = source.next() {
        if line.starts_with("```") {
            let code = source.by_ref().take_while(|line| !line.starts_with("```"));
            lines.extend(code.map(|line| StyledLine::plain(format!("{INDENT}{line}"))));
        } else if let Some(title) = line.strip_prefix('#') {
            let title = plain(title.trim_start_matches('#').trim());
            lines.push(StyledLine::new(Tone::Strong, title));
        } else if line.starts_with('|') {
            let cells = cells(line);
            if source.peek().is_some_and(|next| next.starts_with("|-") || next.starts_with("| -")) {
                source.next();
                titles = cells;
            } else {
                lines.extend(table_row(&titles, &cells, width));
            }
        } else if line.is_empty() {
            lines.push(StyledLine::default());
        } else {
            let mut text = line.to_owned();
            while let Some(next) = source.next_if(|next| continues(next)) {
                text.push(' ');
                text.push_str(next.trim_start());
            }
            lines.extend(paragraph(&text, width));
        }
    }
    while lines.last().is_some_and(|line| *line == StyledLine::default()) {
        lines.pop();
    }
    lines
}

/// Returns true for a line that continues the paragraph before it.
fn continues(line: &str) -> bool {
    !line.is_empty() && !["#", "|", "```", "- ", "1. "].iter().any(|start| line.starts_with(start))
}

fn paragraph(text: &str, width: usize) -> Vec<StyledLine> {
    let indent = if text.starts_with("- ") { "  " } else { "" };
    let wrapped = wrap_words(&plain(text), width.saturating_sub(indent.len()));
    let indented = wrapped.into_iter().enumerate().map(|(at, line)| {
        let indent = if at == 0 { "" } else { indent };
        StyledLine::plain(format!("{indent}{line}"))
    });
    indented.collect()
}

/// Renders a row as its first cell, and the other cells below it.
fn table_row(titles: &[String], cells: &[String], width: usize) -> Vec<StyledLine> {
    let Some((name, rest)) = cells.split_first() else { return Vec::new() };
    let described: Vec<String> = rest
        .iter()
        .enumerate()
        .filter(|(_, cell)| !cell.is_empty())
        .map(|(at, cell)| match titles.get(at + 1) {
            Some(title) if rest.len() > 1 && !title.is_empty() => format!("{title}: {cell}"),
            Some(_) | None => cell.clone(),
        })
        .collect();
    let text = wrap_words(&described.join("; "), width.saturating_sub(2 * INDENT.len()));
    let head = StyledLine::plain("  ").with(Tone::Strong, name.clone());
    let body = text.into_iter().map(|line| StyledLine::plain(format!("{INDENT}{INDENT}{line}")));
    std::iter::once(head).chain(body).collect()
}

/// Returns the cells of a row as plain text; `\|` is a character of a cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|');
    let line = line.strip_suffix('|').unwrap_or(line).replace("\\|", "\u{0}");
    line.split('|').map(|cell| plain(cell.trim()).replace('\u{0}', "|")).collect()
}

/// Removes the marks of links and emphasis. Names in backticks keep them.
fn plain(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('[') {
        let (before, link) = rest.split_at(start);
        let linked = link.find("](").and_then(|middle| {
            let end = link[middle..].find(')')? + middle;
            Some((&link[1..middle], &link[end + 1..]))
        });
        shown.push_str(before);
        if let Some((label, after)) = linked.filter(|(label, _)| !label.contains('[')) {
            shown.push_str(label);
            rest = after;
        } else {
            shown.push('[');
            rest = &link[1..];
        }
    }
    shown.push_str(rest);
    shown.replace("**", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::styled_line::Colour;

    const PAGE: &str = "# Page\n\nIntro.\n\n```sh\n## no heading\n```\n\n## One\n\n| key | value |\n|---|---|\n| `a` | see [b](c.md), \
                        **twice** |\n\n- an item that\n  goes over lines\n\n### Sub\n\nlast\n\n## Two\n\n| | x | y |\n|---|---|---|\n| n | 1 | 2 |\n";

    fn shown(heading: Option<&str>, width: usize) -> String {
        let lines = render(section(PAGE, heading).unwrap(), width);
        lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect()
    }

    #[test]
    fn a_section_is_rendered_without_marks() {
        assert_eq!(shown(None, 80), "Page\n\nIntro.\n\n    ## no heading\n");
        let one = "One\n\n  `a`\n        see\n        b,\n        twice\n\n- an item\n  that goes\n  over lines\n\n\
                   Sub\n\nlast\n";
        assert_eq!(shown(Some("One"), 12), one);
        assert_eq!(shown(Some("Two"), 80), "Two\n\n  n\n        x: 1; y: 2\n");
        assert!(
            section(PAGE, Some("Three")).is_none() && section(PAGE, Some("no heading")).is_none()
        );
    }
}
