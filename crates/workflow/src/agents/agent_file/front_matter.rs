//! Markdown with front matter: YAML between two lines `---` at the beginning of a file; the rest is the body. Pure.
//!
//! Programs accept front matter that is not valid YAML, most often a description with `: ` in it. As they do, a second
//! attempt quotes such values.

use std::ops::Range;

use crate::{
    diagnostics::{diagnostic::Diagnostic, report::LineIndex},
    yaml::{self, LIMITS_EXCEEDED, Node, Yaml},
};

const FENCE: &str = "---";
/// Characters with which a plain value may be read as something else than text.
const SYNTAX: [char; 12] = ['{', '}', '[', ']', '*', '&', '#', '!', '|', '>', '%', '@'];

/// A Markdown file.
#[derive(Debug)]
pub(super) struct MarkdownParts<'a> {
    /// The front matter.
    pub(super) root: Node,
    pub(super) body: &'a str,
}

/// Reads a Markdown file. Positions are those in the whole text; after a second attempt, those of lines.
pub(super) fn read(text: &str) -> Result<MarkdownParts<'_>, Diagnostic> {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == FENCE) else {
        return Err(Diagnostic::new(0..0, "the file has no front matter").with_hint(
            "begin it with a line `---`, the keys and a line `---`; for a prompt alone use `system_prompt:`",
        ));
    };
    let start = first.len();
    let mut end = start;
    for line in lines {
        if line.trim_end() != FENCE {
            end += line.len();
            continue;
        }
        let body = &text[end + line.len()..];
        let yaml = &text[start..end];
        if yaml.trim().is_empty() {
            let root = Node { value: Yaml::Map(Vec::new()), at: 0..start };
            return Ok(MarkdownParts { root, body });
        }
        let mut root = parse(yaml).map_err(|mut diagnostic| {
            diagnostic.at = moved(&diagnostic.at, &|at| at + start);
            diagnostic
        })?;
        move_node(&mut root, &|at| at + start);
        return Ok(MarkdownParts { root, body });
    }
    Err(Diagnostic::new(0..FENCE.len(), "the front matter has no end")
        .with_hint("add a line `---` after the last key"))
}

fn parse(yaml: &str) -> Result<Node, Diagnostic> {
    yaml::read(yaml).or_else(|error| {
        if error.message.starts_with(LIMITS_EXCEEDED) {
            return Err(error);
        }
        let quoted = quote_plain_values(yaml);
        let mut root = yaml::read(&quoted).map_err(|_| error)?;
        let (lines, quoted_lines) = (LineIndex::of(yaml), LineIndex::of(&quoted));
        move_node(&mut root, &|at| lines.start(quoted_lines.number(at)));
        Ok(root)
    })
}

/// Quotes the values of lines `key: value` that are plain text with YAML syntax in it. Each line stays at its place.
fn quote_plain_values(yaml: &str) -> String {
    let quoted = yaml.split_inclusive('\n').map(|line| {
        let (line, end) = line.split_at(line.trim_end().len());
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        let plain = value.trim();
        let is_key = !key.is_empty()
            && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let has_syntax = plain.contains(SYNTAX) || plain.contains(": ") || plain.contains('`');
        if !is_key || !value.starts_with([' ', '\t']) || !has_syntax || !is_plain(plain) {
            return format!("{line}{end}");
        }
        let escaped = plain.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{key}: \"{escaped}\"{end}")
    });
    quoted.collect()
}

/// Returns true for a value without quotes that is neither a list, a mapping nor the head of a block.
fn is_plain(value: &str) -> bool {
    let is_between = |open, close| value.starts_with(open) && value.ends_with(close);
    !(is_between('"', '"') || is_between('\'', '\'') || value.starts_with(['[', '{', '|', '>']))
}

/// Moves the positions of a tree.
fn move_node(node: &mut Node, to: &dyn Fn(usize) -> usize) {
    node.at = moved(&node.at, to);
    match &mut node.value {
        Yaml::List(items) => items.iter_mut().for_each(|item| move_node(item, to)),
        Yaml::Map(entries) => {
            for entry in entries {
                entry.key_at = moved(&entry.key_at, to);
                move_node(&mut entry.value, to);
            }
        }
        Yaml::Null | Yaml::Bool(_) | Yaml::Whole(_) | Yaml::Decimal(_) | Yaml::Text(_) => {}
    }
}

fn moved(at: &Range<usize>, to: &dyn Fn(usize) -> usize) -> Range<usize> {
    to(at.start)..to(at.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::fields::YamlField;

    #[test]
    fn front_matter_ends_at_the_second_fence() {
        for (text, name, body) in [
            ("---\nname: a\n---\nYou review.\n", Some("a"), "You review.\n"),
            ("---\r\nname: a\r\n---\r\nYou.\r\n", Some("a"), "You.\r\n"),
            ("--- \nname: a\n--- \nYou.\n---\nMore.", Some("a"), "You.\n---\nMore."),
            ("---\nname: a\n---", Some("a"), ""),
            ("---\n---\nYou.", None, "You."),
            ("---\n \n---\nYou.", None, "You."),
        ] {
            let parts = read(text).unwrap();
            let fields = YamlField::root(&parts.root).fields_unchecked().unwrap();
            let read_name = fields.get("name").map(|field| field.text().unwrap().to_owned());
            assert_eq!((read_name.as_deref(), parts.body), (name, body), "{text:?}");
        }
    }

    #[test]
    fn a_description_that_is_no_yaml_is_text_as_for_the_programs() {
        for (line, expected) in [
            ("description: Use it when: a, b", "Use it when: a, b"),
            (r#"description: Say "x": y\nz"#, r#"Say "x": y\nz"#),
            ("description: @name is `here`", "@name is `here`"),
            ("description: * star", "* star"),
        ] {
            let text = format!("---\nname: a\n{line}\ntools: [Read]\n---\n");
            let parts = read(&text).unwrap();
            let fields = YamlField::root(&parts.root).fields_unchecked().unwrap();
            assert_eq!(fields.get("description").unwrap().text().unwrap(), expected, "{line}");
            let tools = fields.get("tools").unwrap();
            assert_eq!(tools.list().unwrap().len(), 1, "{line}");
            assert_eq!(LineIndex::of(&text).number(tools.node.at.start), 4, "{line}");
        }
    }

    #[test]
    fn a_mistake_is_reported_at_its_place_in_the_whole_file() {
        for (text, at, message) in [
            ("---\nname: a\n", 0, "the front matter has no end"),
            ("You review.", 0, "the file has no front matter"),
            // A restriction in it would have no effect.
            ("\n---\ntools: Read\n---\n", 0, "the file has no front matter"),
            ("", 0, "the file has no front matter"),
            ("---\na: 1\na: 2\n---\n", 9, "the key `a` is written twice"),
            ("---\n- a\n  b: [\n---\n", 8, "not valid YAML"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message.starts_with(message), "{text:?}: {}", error.message);
            assert!(error.at.start >= at, "{text:?}: {:?}", error.at);
        }
    }
}
