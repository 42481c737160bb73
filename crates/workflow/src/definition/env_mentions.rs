//! Environment variables that the texts of a file name, with their places.

use std::ops::Range;

use crate::{
    template::{FlawedReference, Piece, ReferencePlaces, expression, reference::ReferenceFlaw},
    yaml::{Node, Yaml},
};

/// Keys of a task whose text is an expression, also without `${{ }}`.
const EXPRESSION_KEYS: [&str; 2] = ["if", "for_each"];

/// Environment variable at one place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnvMention {
    pub(crate) name: String,
    /// Byte range in the file.
    pub(crate) at: Range<usize>,
}

/// Returns the variables that the texts in a value name, in any order. A comment is no text; a line of a block that
/// starts with `#` is part of one.
pub(crate) fn env_mentions(node: &Node, source: &str) -> Vec<EnvMention> {
    let mut found = Vec::new();
    collect(node, "", source, &mut found);
    found
}

fn collect(node: &Node, key: &str, source: &str, found: &mut Vec<EnvMention>) {
    match &node.value {
        Yaml::Text(text) => {
            if EXPRESSION_KEYS.contains(&key) {
                of_expression(node, text.trim(), source, found);
            }
            of_text(node, text, source, found);
        }
        Yaml::List(items) => items.iter().for_each(|item| collect(item, "", source, found)),
        Yaml::Map(entries) => {
            for entry in entries {
                collect(&entry.value, &entry.key, source, found);
            }
        }
        Yaml::Null | Yaml::Bool(_) | Yaml::Whole(_) | Yaml::Decimal(_) => {}
    }
}

/// Adds the variables of the expressions in a text.
fn of_text(node: &Node, text: &str, source: &str, found: &mut Vec<EnvMention>) {
    let places = ReferencePlaces::new(&node.at, text, source);
    for piece in expression::split(text).0 {
        let Piece::Reference { inner, nth } = piece else { continue };
        let Ok(expression) = expression::parse_expression(inner.trim()) else { continue };
        for (name, offset) in expression::env_mentions(&expression) {
            let flaw = ReferenceFlaw { offset: Some(offset), ..ReferenceFlaw::new("") };
            let at = places.flaw_range(&FlawedReference { nth, flaw }, source);
            found.push(mention(name, at, source));
        }
    }
}

/// Adds the variables of a text that is an expression itself.
fn of_expression(node: &Node, text: &str, source: &str, found: &mut Vec<EnvMention>) {
    let Ok(expression) = expression::parse_expression(text) else { return };
    let written = source.get(node.at.clone()).and_then(|written| written.find(text));
    for (name, offset) in expression::env_mentions(&expression) {
        let at = match written {
            Some(start) => node.at.start + start + offset..node.at.end,
            None => node.at.clone(),
        };
        found.push(mention(name, at, source));
    }
}

/// Creates a mention; its place is only the name where the file has the name as it is.
fn mention(name: &str, at: Range<usize>, source: &str) -> EnvMention {
    let written = format!("env.{name}");
    let is_written = source.get(at.clone()).is_some_and(|text| text.starts_with(&written));
    let end = if is_written { at.start + written.len() } else { at.end };
    EnvMention { name: name.to_owned(), at: at.start..end }
}
