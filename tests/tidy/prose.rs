//! The wording of comments, texts and docs.

use std::{collections::BTreeMap, fs};

use crate::source::{root, rust_files, text_files};

/// Words that the style guide rules out, as they appear in text.
const BANNED_WORDS: [&str; 7] = ["anew", "whoever", "whom", "besides", "lest", "mend", "of late"];

/// Words that make a comment a riddle when it starts with them.
const WH_WORDS: [&str; 11] =
    ["What", "Who", "Whose", "Whom", "Which", "When", "Where", "Why", "How", "Whether", "Whatever"];
/// The largest share of documentation lines that may start with one of them, in percent of a crate's lines.
const MAX_WH_PERCENT: usize = 3;

#[test]
fn few_doc_lines_start_with_a_wh_word() {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for file in rust_files() {
        let (all, wh) = counts.entry(file.crate_name().to_owned()).or_default();
        for (_, doc) in file.doc_lines().filter(|(_, doc)| !doc.is_empty()) {
            *all += 1;
            let first = doc.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            *wh += usize::from(WH_WORDS.contains(&first));
        }
    }
    for (name, (all, wh)) in counts {
        assert!(wh * 100 <= all * MAX_WH_PERCENT, "{name}: {wh} of {all} doc lines");
    }
}

#[test]
fn code_comments_texts_and_docs_contain_no_banned_words() {
    let mut problems = Vec::new();
    for file in rust_files().iter().filter(|file| file.path != "tests/tidy/prose.rs") {
        // Tests may contain any text as data, so only their comments are checked.
        let text = if file.is_product() { file.code() } else { "" };
        problems.extend(banned_words(&file.path, text, |_| true));
        let rest = &file.text[text.len()..];
        problems.extend(banned_words(&file.path, rest, |line| line.trim_start().starts_with("//")));
    }
    for path in text_files() {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        problems.extend(banned_words(&path, &text, |_| true));
    }
    assert!(problems.is_empty(), "{} places\n{}", problems.len(), problems.join("\n"));
}

/// Returns the banned words in the lines that `is_checked` selects.
fn banned_words(path: &str, text: &str, is_checked: fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| is_checked(line)) {
        let words = line.to_lowercase().replace(|c: char| !c.is_alphanumeric(), " ");
        let padded = format!(" {words} ");
        for word in BANNED_WORDS.iter().filter(|word| padded.contains(&format!(" {word} "))) {
            found.push(format!("{path}: {word}: {}", line.trim()));
        }
    }
    found
}

#[test]
fn a_doc_comment_has_more_than_two_words() {
    let mut problems = Vec::new();
    // Help texts of commands may be as short as `List documents`.
    let is_help = |path: &str| path.contains("/commands/");
    for file in rust_files().iter().filter(|file| !is_help(&file.path)) {
        let mut previous = 0;
        let lines: Vec<_> = file.doc_lines().collect();
        for (index, (line, doc)) in lines.iter().enumerate() {
            let follows = previous + 1 == *line;
            let is_followed = lines.get(index + 1).is_some_and(|(next, _)| *next == line + 1);
            previous = *line;
            if !follows && !is_followed && doc.split_whitespace().count() <= 2 {
                problems.push(format!("{}:{line}: {doc}", file.path));
            }
        }
    }
    assert!(problems.is_empty(), "{} comments\n{}", problems.len(), problems.join("\n"));
}
