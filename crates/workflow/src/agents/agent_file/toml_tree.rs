//! TOML as the same tree as YAML, in which every node has its position. No other file uses the TOML parser.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    diagnostics::diagnostic::Diagnostic,
    yaml::{Node, Yaml, YamlEntry},
};

/// Parses a TOML document.
pub(crate) fn read(text: &str) -> Result<Node, Diagnostic> {
    match DeTable::parse(text) {
        Ok(table) => Ok(Node { at: table.span(), value: map(table.get_ref()) }),
        Err(error) => {
            let at: Range<usize> = error.span().unwrap_or_default();
            Err(Diagnostic::new(at, format!("not valid TOML: {}", error.message())))
        }
    }
}

fn map(table: &DeTable<'_>) -> Yaml {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| YamlEntry {
            key: key.get_ref().clone().into_owned(),
            key_at: key.span(),
            value: node(value),
        })
        .collect();
    // The parser sorts the keys by name.
    entries.sort_by_key(|entry| entry.key_at.start);
    Yaml::Map(entries)
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    Node { at: value.span(), value: tree(value.get_ref()) }
}

fn tree(value: &DeValue<'_>) -> Yaml {
    match value {
        DeValue::String(text) => Yaml::Text(text.clone().into_owned()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Yaml::Whole(number),
            Err(_) => Yaml::Text(number.to_string()),
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => Yaml::Decimal(number),
            Err(_) => Yaml::Text(number.to_string()),
        },
        DeValue::Boolean(value) => Yaml::Bool(*value),
        DeValue::Datetime(time) => Yaml::Text(time.to_string()),
        DeValue::Array(items) => Yaml::List(items.iter().map(node).collect()),
        DeValue::Table(table) => map(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::fields::YamlField;

    #[test]
    fn a_value_of_toml_is_the_same_in_yaml_and_has_its_place() {
        let text =
            "b = 7\na = \"\"\"\nYou.\n\"\"\"\nlist = [1, true]\n[table]\nx = 1.5\nt = 2026-01-01\n";
        let root = read(text).unwrap();
        let fields = YamlField::root(&root).fields_unchecked().unwrap();
        let keys: Vec<_> = fields.iter().map(|(key, _)| key.text).collect();
        assert_eq!(keys, ["b", "a", "list", "table"]);
        let value = fields.get("a").unwrap();
        assert_eq!((value.text().unwrap(), value.node.at.start), ("You.\n", 10));
        assert_eq!(fields.get("b").unwrap().integer(1..=9).unwrap(), 7);
        assert_eq!(fields.get("list").unwrap().list().unwrap().len(), 2);
        let table = fields.get("table").unwrap().fields_unchecked().unwrap();
        assert_eq!(table.get("t").unwrap().text().unwrap(), "2026-01-01");
    }

    #[test]
    fn what_is_no_toml_is_refused_at_its_place() {
        for (text, at) in [("a = 1\nb = \n", 10), ("a = 1\na = 2\n", 6)] {
            let error = read(text).unwrap_err();
            assert!(error.message.starts_with("not valid TOML: "), "{}", error.message);
            assert_eq!(error.at.start, at, "{text:?}");
        }
        let deep = format!("a = {}", "[".repeat(100_000));
        assert!(read(&deep).is_err());
    }
}
