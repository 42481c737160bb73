//! Recipients of a text: the only grammar of `@name`, as a pure function.
//!
//! Invariant: only the author's own words address an agent. Mentions in code spans, fenced blocks, quoted lines and
//! interpolated data are ignored.

pub(crate) mod answer;
pub(crate) mod kickoff_check;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use agent_worker_protocol::AgentName;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

/// Recipients that a text mentions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// Mentioned agents, in the order of their first mention.
    pub agents: Vec<AgentName>,
    /// True if the text mentions `@all`.
    pub everyone: bool,
    /// Mentions that match no agent, each once, as written.
    pub unknown: Vec<String>,
}

/// Parses the mentions of `text`. The byte ranges `data` are not the author's words, and `team` has all existing
/// agents.
pub fn mentions(text: &str, data: &[Range<usize>], team: &[AgentName]) -> Mentions {
    let mut found = Mentions::default();
    if !text.contains('@') {
        return found;
    }
    // Team and findings are indexed by name, because a text may be one long list of mentions.
    let index = TeamIndex::new(team);
    let mut seen = BTreeSet::new();
    for (_, token) in mention_tokens(text, data) {
        match index.resolve(token) {
            MentionedName::Agent(agent) if seen.insert(agent.folded()) => {
                found.agents.push(agent.clone());
            }
            MentionedName::All => found.everyone = true,
            MentionedName::Unknown(written) if seen.insert(format!("@{written}")) => {
                found.unknown.push(written.to_owned());
            }
            MentionedName::Agent(_) | MentionedName::NoAgent | MentionedName::Unknown(_) => {}
        }
    }
    found
}

/// Returns the position and the word of each mention in the author's own words.
fn mention_tokens<'t>(
    text: &'t str,
    data: &[Range<usize>],
) -> impl Iterator<Item = (usize, &'t str)> {
    tokens_outside(text, ignored_ranges(text, data))
}

/// Returns the position and the word of each mention outside `ignored`, whose ranges are sorted and disjoint.
fn tokens_outside(text: &str, ignored: Vec<Range<usize>>) -> impl Iterator<Item = (usize, &str)> {
    let mut last_end = None;
    text.match_indices('@').map(|(at, _)| (at, token_after(text, at))).filter(move |(at, token)| {
        let (before, whole) = (&text[..*at], *at..at + 1 + token.len());
        // In `@b/@c` the slash separates two mentions; in `a/@b` it is part of a path.
        let is_listed = before.strip_suffix('/').is_some_and(|rest| last_end == Some(rest.len()));
        let is_mention = !token.is_empty()
            && (is_listed || may_precede(before))
            && !overlaps_any(&ignored, &whole);
        if is_mention {
            last_end = Some(whole.end);
        }
        is_mention
    })
}

/// The bearer of a mentioned name.
enum MentionedName<'a> {
    Agent(&'a AgentName),
    All,
    /// A person, the daemon, or no name at all.
    NoAgent,
    /// A name that matches no agent, as written.
    Unknown(&'a str),
}

/// The agents of a team by their names in lower case.
struct TeamIndex<'a>(BTreeMap<String, &'a AgentName>);

impl<'a> TeamIndex<'a> {
    fn new(team: &'a [AgentName]) -> Self {
        Self(team.iter().map(|agent| (agent.folded(), agent)).collect())
    }

    fn resolve<'t>(&'t self, token: &'t str) -> MentionedName<'t> {
        // `_@reviewer_` and `@reviewer--` mean the reviewer, unless an agent has exactly that name.
        let mut name = token.to_ascii_lowercase();
        loop {
            if let Some(agent) = self.0.get(&name).copied() {
                return MentionedName::Agent(agent);
            }
            match name.as_str() {
                "all" => return MentionedName::All,
                // A mention of a person or of the daemon wakes no agent.
                "" | "user" | "system" => return MentionedName::NoAgent,
                _ => {}
            }
            if !name.ends_with(['-', '_']) {
                return MentionedName::Unknown(&token[..name.len()]);
            }
            name.pop();
        }
    }
}

fn token_after(text: &str, at: usize) -> &str {
    let rest = &text[at + 1..];
    let end = rest.find(|c: char| !is_name_character(c));
    &rest[..end.unwrap_or(rest.len())]
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns true if an `@` after this text is a mention, not part of an address, a path or an escape.
fn may_precede(before: &str) -> bool {
    let last = before.chars().next_back();
    !last.is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '@' | '/' | '\\'))
}

/// Returns true if `wanted` overlaps any of `ranges`, which are sorted and disjoint.
fn overlaps_any(ranges: &[Range<usize>], wanted: &Range<usize>) -> bool {
    let next = ranges.partition_point(|range| range.end <= wanted.start);
    ranges.get(next).is_some_and(|range| range.start < wanted.end)
}

fn ignored_ranges(text: &str, data: &[Range<usize>]) -> Vec<Range<usize>> {
    let own = mask_data(text, data);
    let mut ignored = data.to_vec();
    ignored.extend(Parser::new(&own).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Code(_) | Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => Some(range),
        _ => None,
    }));
    let mut start = 0;
    for line in own.split_inclusive('\n') {
        // Line by line, unlike the lazy quotes of CommonMark: `@coder` on the line below a quote is the author's
        // again.
        if is_quoted_line(line) {
            ignored.push(start..start + line.len());
        }
        start += line.len();
    }
    merge_ranges(ignored)
}

/// Returns true for a line of a block quote.
fn is_quoted_line(line: &str) -> bool {
    let indent = line.len() - line.trim_start_matches(' ').len();
    indent <= 3 && line[indent..].starts_with('>')
}

/// Merges ranges into sorted ranges that do not touch.
fn merge_ranges(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// Replaces data by neutral characters, so that a stray fence in a diff cannot hide the text after it.
fn mask_data(text: &str, data: &[Range<usize>]) -> String {
    let mut own = String::with_capacity(text.len());
    let mut from = 0;
    for range in data {
        own.push_str(&text[from..range.start]);
        own.extend(text[range.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { '.' }));
        from = range.end;
    }
    own.push_str(&text[from..]);
    own
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn team() -> Vec<AgentName> {
        ["reviewer", "coder", "a_b", "a-b", "Lead", "x-"].map(|name| name.parse().unwrap()).into()
    }

    /// Formats a result as `coder reviewer @all ?codr`.
    fn mentions_text(found: &Mentions) -> String {
        let mut words: Vec<String> = found.agents.iter().map(ToString::to_string).collect();
        words.extend(found.everyone.then(|| "@all".to_owned()));
        words.extend(found.unknown.iter().map(|unknown| format!("?{unknown}")));
        words.join(" ")
    }

    const TABLE: [(&str, &str); 73] = [
        // Mentions in plain text.
        ("@reviewer", "reviewer"),
        ("@reviewer please look", "reviewer"),
        ("please look @reviewer", "reviewer"),
        ("@coder and @reviewer", "coder reviewer"),
        ("@reviewer @reviewer", "reviewer"),
        ("@REVIEWER", "reviewer"),
        ("@lead", "Lead"),
        ("nobody here", ""),
        ("", ""),
        ("@", ""),
        ("@ reviewer", ""),
        // Characters that may surround a mention.
        ("请@reviewer看", "reviewer"),
        ("(@reviewer)", "reviewer"),
        ("_@reviewer_", "reviewer"),
        ("**@reviewer**", "reviewer"),
        ("@reviewer,", "reviewer"),
        ("@reviewer.", "reviewer"),
        ("@reviewer: fix", "reviewer"),
        ("@reviewer's", "reviewer"),
        ("@reviewer!", "reviewer"),
        ("\"@reviewer\"", "reviewer"),
        ("[@reviewer](x)", "reviewer"),
        ("-@reviewer", "reviewer"),
        ("@reviewer/@coder", "reviewer coder"),
        ("@codr/@coder/@reviewer", "coder reviewer ?codr"),
        ("@reviewer\n@coder", "reviewer coder"),
        ("\t@coder", "coder"),
        ("…@coder…", "coder"),
        // Texts that are no mention.
        ("bob@reviewer.com", ""),
        ("bob@reviewer", ""),
        ("a.@reviewer", ""),
        ("@@reviewer", ""),
        ("path/@reviewer", ""),
        ("path/@reviewer/@coder", ""),
        ("a/@scope/pkg", ""),
        ("@scope/pkg/@coder", "?scope"),
        ("`@reviewer`/@coder", ""),
        ("\\@reviewer", ""),
        ("9@reviewer", ""),
        // Only whole tokens are names.
        ("@reviewers", "?reviewers"),
        ("@review", "?review"),
        ("@a_b", "a_b"),
        ("@a-b", "a-b"),
        ("@a_b_", "a_b"),
        ("@a-b--", "a-b"),
        ("@x-", "x-"),
        ("@x--", "x-"),
        ("@x", "?x"),
        ("@reviewer-", "reviewer"),
        ("@reviewer_x", "?reviewer_x"),
        ("@codr and @codr", "?codr"),
        ("@--", ""),
        // The name `@all`, and people.
        ("@all", "@all"),
        ("@ALL hands", "@all"),
        ("@all_ @coder", "coder @all"),
        ("@user done", ""),
        ("@system", ""),
        // Mentions inside code spans and blocks.
        ("`@reviewer`", ""),
        ("``a ` @reviewer``", ""),
        ("`open @reviewer", "reviewer"),
        ("```\n@reviewer\n```", ""),
        ("```\n@reviewer\n```\n@coder", "coder"),
        ("~~~ text\n@reviewer\n~~~\n@coder", "coder"),
        ("```\n@reviewer", ""),
        ("````\n```\n@reviewer\n````\n@coder", "coder"),
        ("- ```\n  @reviewer\n  ```\n\n@coder", "coder"),
        ("    @reviewer", "reviewer"),
        ("`a` @reviewer `b`", "reviewer"),
        // Mentions in quoted lines.
        ("> @reviewer", ""),
        (">@reviewer", ""),
        ("   > @reviewer", ""),
        ("> said @reviewer\n@coder answer", "coder"),
        ("a > b @reviewer", "reviewer"),
    ];

    #[test]
    fn a_text_addresses_the_agents_that_its_author_mentions() {
        for (text, expected) in TABLE {
            assert_eq!(mentions_text(&mentions(text, &[], &team())), expected, "{text:?}");
        }
    }

    /// Parses a text in which `⟨` and `⟩` delimit data.
    fn with_data(marked: &str) -> Mentions {
        let (mut text, mut data, mut start) = (String::new(), Vec::new(), 0);
        for c in marked.chars() {
            match c {
                '⟨' => start = text.len(),
                '⟩' => data.push(start..text.len()),
                c => text.push(c),
            }
        }
        mentions(&text, &data, &team())
    }

    #[test]
    fn data_wakes_no_agent_and_hides_no_mention() {
        for (text, expected) in [
            ("⟨+@reviewer\n⟩@coder please", "coder"),
            ("⟨```\n⟩\n@coder please", "coder"),
            ("⟨`⟩ @coder ⟨`⟩", "coder"),
            ("⟨> ⟩@coder", "coder"),
            ("⟨bob⟩@coder", ""),
            ("@⟨coder⟩", ""),
            ("@cod⟨er⟩", ""),
            ("@coder⟨x⟩", ""),
            ("@coder ⟨x⟩", "coder"),
            ("```\n⟨```\n@reviewer⟩\n```\n@coder", "coder"),
            ("⟨请⟩@coder", "coder"),
        ] {
            assert_eq!(mentions_text(&with_data(text)), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic_and_data_alone_addresses_no_agent(text in "(?s).{0,200}") {
            let whole = 0..text.len();
            prop_assert_eq!(mentions(&text, &[whole], &team()), Mentions::default());
            mentions(&text, &[], &team());
        }
    }
}
