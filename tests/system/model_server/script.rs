//! The answers of the scripted model: the prompt is its script, one directive per line. Pure.
//!
//! | line | meaning |
//! |---|---|
//! | `CALL tool {json}` | call this tool; the n-th call follows n-1 results; `mcp__…` and `shell` also if not offered |
//! | `SAY text`, `ECHO` | the final answer: this text, or the result of the last tool |
//! | `CORRECTED text` | the final answer after a message that asks for a corrected one |
//! | `HOLD` | the next of these pauses in the middle of its answer until the test releases it |
//! | `FAIL status [n]` | refuse every request, or only the first n |
//! | `FAIL_SUMMARY status` | refuse every request without tools |
//! | `THEN_FAIL status` | refuse every request after the calls |
//! | `RETRY_AFTER s` | the retry delay in a refusal |
//! | `DELAY ms`, `DRIP ms` | the pause before an answer; the pause between its parts |
//! | `CUT` | close the connection in the middle of an answer |
//! | `USAGE in out` | the tokens of each answer (100 10) |
//! | `USAGE SIZE` | the input tokens of each answer are a fourth of the bytes of its request |
//! | `UNTIL text` | call no further tool once a line of the conversation begins with this text |
//!
//! `$ATTACHED` is the path of the first file that came with the prompt's messages.

use std::{collections::HashMap, time::Duration};

use serde_json::Value;

/// One entry of a conversation, independent of the API.
#[derive(Debug, PartialEq)]
pub(super) enum ConversationItem {
    User(String),
    /// The result of a tool.
    Result(String),
}

/// A tool that the request offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OfferedTool {
    /// The namespace of the tool, in APIs that have namespaces.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// The parsed content of a request.
#[derive(Debug, Default)]
pub(super) struct ModelInput {
    pub(super) items: Vec<ConversationItem>,
    pub(super) tools: Vec<OfferedTool>,
}

/// The planned answer to a request.
#[derive(Debug, PartialEq)]
pub(super) struct AnswerPlan {
    pub(super) content: AnswerContent,
    pub(super) pace: AnswerTiming,
    pub(super) usage: Tokens,
}

#[derive(Debug, PartialEq)]
pub(super) enum AnswerContent {
    Call { tool: OfferedTool, args: Value },
    Say(String),
    Fail { status: u16, retry_after: Option<String> },
}

/// The timing of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerTiming {
    pub(super) delay: Duration,
    pub(super) chunk_delay: Duration,
    pub(super) interruption: Interruption,
}

/// An event in the middle of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Interruption {
    #[default]
    None,
    Hold,
    Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

/// Number of refusals so far, by script.
pub(super) type RefusalCounts = HashMap<String, u32>;

/// The words of a message that asks for a corrected answer.
const CORRECTION: &str = "Answer again with only the corrected JSON value";
const DIRECTIVES: [&str; 14] = [
    "CORRECTED",
    "CALL",
    "SAY",
    "ECHO",
    "HOLD",
    "FAIL",
    "FAIL_SUMMARY",
    "THEN_FAIL",
    "RETRY_AFTER",
    "DELAY",
    "DRIP",
    "CUT",
    "USAGE",
    "UNTIL",
];

impl Tokens {
    /// Stands for a count by the size of the request.
    pub(super) const OF_SIZE: Self = Self { input: 0, output: 10 };
}

/// Plans the answer by the newest user message that is a script.
pub(super) fn plan_answer(asked: &ModelInput, refused: &mut RefusalCounts) -> AnswerPlan {
    let newest = asked.items.iter().enumerate().rev().find_map(|(at, item)| match item {
        ConversationItem::User(text) if !directives(text).is_empty() => Some((at, text)),
        ConversationItem::User(_) | ConversationItem::Result(_) => None,
    });
    let (at, text) = newest.map_or((0, ""), |(at, text)| (at, text));
    let text = &text.replace("$ATTACHED", attached_path(text));
    let results: Vec<&str> = asked.items[at..]
        .iter()
        .filter_map(|item| match item {
            ConversationItem::Result(text) => Some(text.as_str()),
            ConversationItem::User(_) => None,
        })
        .collect();
    let program = directives(text);
    let one = |name: &str| program.iter().find(|line| line.0 == name).map(|line| line.1);
    let millis = |name| one(name).map_or(Duration::ZERO, |ms| Duration::from_millis(number(ms)));
    let usage = match one("USAGE") {
        Some("SIZE") => Tokens::OF_SIZE,
        usage => usage.and_then(|text| text.split_once(' ')).map_or(
            Tokens { input: 100, output: 10 },
            |(input, output)| Tokens { input: number(input), output: number(output) },
        ),
    };
    let program = match one("UNTIL").filter(|word| has_line(&asked.items, word)) {
        Some(_) => program.iter().copied().filter(|(name, _)| *name != "CALL").collect(),
        None => program.clone(),
    };
    let one = |name: &str| program.iter().find(|line| line.0 == name).map(|line| line.1);
    let is_secondary = asked.tools.is_empty();
    let fail = one("FAIL").or_else(|| one("FAIL_SUMMARY").filter(|_| is_secondary));
    let (what, is_held) = match refusal(fail, text, refused) {
        Some(status) => (
            AnswerContent::Fail { status, retry_after: one("RETRY_AFTER").map(str::to_owned) },
            false,
        ),
        None => match one("CORRECTED").filter(|_| asks_for_correction(&asked.items[at..])) {
            Some(text) => (AnswerContent::Say(text.to_owned()), false),
            None => step(&program, &results, &asked.tools),
        },
    };
    let middle = match one("CUT") {
        Some(_) => Interruption::Cut,
        None if is_held => Interruption::Hold,
        None => Interruption::None,
    };
    AnswerPlan {
        content: what,
        pace: AnswerTiming {
            delay: millis("DELAY"),
            chunk_delay: millis("DRIP"),
            interruption: middle,
        },
        usage,
    }
}

fn asks_for_correction(items: &[ConversationItem]) -> bool {
    items.iter().any(|item| match item {
        ConversationItem::User(text) => text.contains(CORRECTION),
        ConversationItem::Result(_) => false,
    })
}

/// Returns the path of the first attached file that a text names.
fn attached_path(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("File attached to message "));
    let path = line.and_then(|line| line.split_once(": ")?.1.split_once(" ("));
    path.map_or("", |(path, _)| path)
}

/// Returns the directives of a text, in order.
fn directives(text: &str) -> Vec<(&str, &str)> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim();
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            DIRECTIVES.contains(&name).then_some((name, rest.trim()))
        })
        .collect()
}

/// Returns true if a line of the user's texts begins with `start`.
fn has_line(items: &[ConversationItem], start: &str) -> bool {
    items.iter().any(|item| match item {
        ConversationItem::User(text) => text.lines().any(|line| line.starts_with(start)),
        ConversationItem::Result(_) => false,
    })
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

/// Returns the status of a refusal, if the request is refused.
fn refusal(fail: Option<&str>, program: &str, refused: &mut RefusalCounts) -> Option<u16> {
    let mut words = fail?.split_whitespace();
    let status = words.next()?.parse().ok()?;
    let so_far = refused.entry(program.to_owned()).or_default();
    *so_far += 1;
    words.next().is_none_or(|most| u64::from(*so_far) <= number(most)).then_some(status)
}

/// Returns the next answer after these results, and true if it is held.
fn step(
    program: &[(&str, &str)],
    results: &[&str],
    tools: &[OfferedTool],
) -> (AnswerContent, bool) {
    let mut done = 0;
    let mut is_held = false;
    for (name, rest) in program {
        match *name {
            // Secondary requests, such as for a title, offer no tools.
            "HOLD" => is_held = !tools.is_empty(),
            "CALL" if !tools.is_empty() => {
                if done == results.len() {
                    return (call(rest, tools), is_held);
                }
                done += 1;
                is_held = false;
            }
            _ => {}
        }
    }
    let find = |name: &str| program.iter().find(|line| line.0 == name);
    if let Some((_, status)) = find("THEN_FAIL").filter(|_| !tools.is_empty()) {
        let status = u16::try_from(number(status)).unwrap();
        return (AnswerContent::Fail { status, retry_after: None }, false);
    }
    let text = match (find("ECHO"), find("SAY")) {
        (Some(_), _) => results.last().copied().unwrap_or("no tool was called"),
        (None, Some((_, text))) => text,
        (None, None) => "done",
    };
    (AnswerContent::Say(text.to_owned()), is_held)
}

fn call(rest: &str, tools: &[OfferedTool]) -> AnswerContent {
    let (name, args) = rest.split_once(' ').unwrap_or((rest, "{}"));
    let ends_so = |tool: &&OfferedTool| {
        let before = tool.name.strip_suffix(name);
        before.is_some_and(|before| before.is_empty() || before.ends_with(['_', '-']))
    };
    let tool = tools.iter().filter(ends_so).min_by_key(|tool| tool.name.len());
    match (tool, serde_json::from_str(args)) {
        (Some(tool), Ok(args)) => AnswerContent::Call { tool: tool.clone(), args },
        // Models also call tools that are not offered.
        (None, Ok(args)) if name.starts_with("mcp__") || name == "shell" => AnswerContent::Call {
            tool: OfferedTool { namespace: None, name: name.to_owned() },
            args,
        },
        // A tool that a search would find can be called without the search.
        (None, Ok(args)) if tools.iter().any(|tool| tool.name == "tool_search") => {
            AnswerContent::Call {
                tool: OfferedTool { namespace: None, name: format!("mcp__team__{name}") },
                args,
            }
        }
        (None, _) => AnswerContent::Say(format!("there is no tool {name} among {tools:?}")),
        (_, Err(error)) => AnswerContent::Say(format!("{name}: {error}: {args}")),
    }
}
