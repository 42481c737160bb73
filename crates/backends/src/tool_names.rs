//! Names of tools in requests: every API of a model accepts them. Pure.
//!
//! Invariant: the names are unique, and a name that is valid stays as it is.

use std::collections::HashSet;

const MAX_NAME_LENGTH: usize = 64;

/// Returns the names of tools in the requests to a model, in the same order.
pub fn request_tool_names(tools: &[&str]) -> Vec<String> {
    let mut used: HashSet<String> =
        tools.iter().filter(|tool| is_valid(tool)).map(|tool| (*tool).to_owned()).collect();
    let mut name = |tool: &&str| {
        if is_valid(tool) {
            return (*tool).to_owned();
        }
        let name = free_name(tool, &used);
        used.insert(name.clone());
        name
    };
    tools.iter().map(&mut name).collect()
}

fn is_valid(name: &str) -> bool {
    (1..=MAX_NAME_LENGTH).contains(&name.len()) && name.chars().all(is_valid_character)
}

fn is_valid_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || ['_', '-'].contains(&character)
}

/// Returns a valid name for a tool that no other tool has.
fn free_name(tool: &str, used: &HashSet<String>) -> String {
    let name: String = tool
        .chars()
        .map(|character| if is_valid_character(character) { character } else { '_' })
        .take(MAX_NAME_LENGTH)
        .collect();
    let name = if name.is_empty() { "tool".to_owned() } else { name };
    let numbered = (2_u32..).map(|number| {
        let number = format!("_{number}");
        format!("{}{number}", &name[..name.len().min(MAX_NAME_LENGTH - number.len())])
    });
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| !used.contains(name)).unwrap_or_default()
}
