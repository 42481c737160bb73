//! Finds commands in code of other programs, and expands braces. Pure.

/// Maximum number of places that are searched in one word.
const MAX_PLACES: usize = 32;
/// Maximum number of words that the braces of one line make.
const MAX_EXPANSIONS: usize = 64;

/// Returns the texts in an argument of `program` that the program gives to a shell.
pub(super) fn embedded_commands<'a>(program: &str, word: &'a str) -> Vec<&'a str> {
    match program {
        "sed" | "gsed" => sed_commands(word),
        "ed" | "ex" | "gvim" | "nvim" | "vi" | "view" | "vim" | "vimdiff" => {
            word.match_indices('!').take(MAX_PLACES).map(|(at, _)| &word[at + 1..]).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the commands of `e`, and the replacements of `s` with the flag `e`.
fn sed_commands(script: &str) -> Vec<&str> {
    let begins_command = |at: usize| {
        let before = script[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphabetic())
    };
    let mut commands: Vec<_> = script
        .match_indices('e')
        .filter(|(at, _)| begins_command(*at))
        .take(MAX_PLACES)
        .map(|(at, _)| &script[at + 1..])
        .filter(|rest| rest.starts_with(char::is_whitespace))
        .collect();
    let is_delimiter = |c: char| c.is_ascii_punctuation() && c != '-' && c != '.';
    let runs_replacement = script.split(is_delimiter).any(|flags| {
        flags.ends_with('e') && flags.chars().all(|c| "egpiImM0123456789".contains(c))
    });
    if runs_replacement {
        commands.extend(script.split(is_delimiter).take(MAX_PLACES));
    }
    commands
}

/// Returns a line with its brace expansions: `rm -rf x` for `{rm,-rf,x}`. None if it has none.
pub(super) fn expand_braces(line: &str) -> Option<String> {
    if !line.contains('{') || !line.contains(',') {
        return None;
    }
    let words = line.split(' ').map(|word| {
        let mut left = vec![word.to_owned()];
        let mut done = Vec::new();
        while let Some(word) = left.pop() {
            match alternatives(&word).filter(|_| left.len() + done.len() < MAX_EXPANSIONS) {
                Some(mut words) => {
                    words.reverse();
                    left.append(&mut words);
                }
                None => done.push(word),
            }
        }
        done.join(" ")
    });
    Some(words.collect::<Vec<_>>().join(" "))
}

/// Returns the words of the first innermost braces with a comma.
fn alternatives(word: &str) -> Option<Vec<String>> {
    let end = word
        .match_indices('}')
        .map(|(at, _)| at)
        .find(|end| word[..*end].rfind('{').is_some_and(|begin| word[begin..*end].contains(',')))?;
    let begin = word[..end].rfind('{')?;
    let (before, after) = (&word[..begin], &word[end + 1..]);
    let quote = before.chars().next_back().filter(|c| matches!(c, '\'' | '"'));
    let quote =
        quote.filter(|quote| after.starts_with(*quote)).map(String::from).unwrap_or_default();
    let (before, after) =
        if quote.is_empty() { (before, after) } else { (&before[..before.len() - 1], &after[1..]) };
    let words = word[begin + 1..end].split(',');
    Some(words.map(|one| format!("{before}{quote}{one}{quote}{after}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_become_words() {
        for (line, expected) in [
            ("{rm,-rf,x}", Some("rm -rf x")),
            ("{r,}m x", Some("rm m x")),
            ("a{b,c}d e", Some("abd acd e")),
            ("a {} b,c", Some("a {} b,c")),
            ("a b", None),
        ] {
            assert_eq!(expand_braces(line).as_deref(), expected, "{line}");
        }
        let nested = "{a,b}".repeat(20);
        assert!(expand_braces(&nested).unwrap().len() < 64 * 1024);
    }
}
