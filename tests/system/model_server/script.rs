//! What a scripted model answers: the prompt is its program, one directive a line. Pure.
//!
//! | line | meaning |
//! |---|---|
//! | `CALL tool {json}` | call this tool; the n-th is answered with after n-1 results; `mcp__…` whether it is offered or not |
//! | `SAY text`, `ECHO` | the last answer: this text, or what the last tool said |
//! | `HOLD` | the next of these waits in the middle of its answer until the test lets it go on |
//! | `FAIL status [n]` | refuse the request, or only the first n of them |
//! | `RETRY_AFTER s` | what a refusal says about when to come again |
//! | `DELAY ms`, `DRIP ms` | before an answer; between the parts of one |
//! | `CUT` | hang up in the middle of an answer |
//! | `USAGE in out` | the tokens of each answer (100 10) |

use std::{collections::HashMap, time::Duration};

use serde_json::Value;

/// One entry of a conversation, whatever wire it came over.
#[derive(Debug, PartialEq)]
pub(super) enum Item {
    User(String),
    /// What a tool answered.
    Result(String),
}

/// A tool that is offered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tool {
    /// Some wires have drawers for them.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// What a request says.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) items: Vec<Item>,
    pub(super) tools: Vec<Tool>,
}

/// What it is answered with.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) what: What,
    pub(super) pace: Pace,
    pub(super) usage: Tokens,
}

#[derive(Debug, PartialEq)]
pub(super) enum What {
    Call { tool: Tool, args: Value },
    Say(String),
    Fail { status: u16, retry_after: Option<String> },
}

/// How an answer comes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) delay: Duration,
    pub(super) drip: Duration,
    pub(super) middle: Middle,
}

/// What happens in the middle of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Middle {
    #[default]
    Nothing,
    Held,
    Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

/// How often each program was refused so far.
pub(super) type Refused = HashMap<String, u32>;

const DIRECTIVES: [&str; 10] =
    ["CALL", "SAY", "ECHO", "HOLD", "FAIL", "RETRY_AFTER", "DELAY", "DRIP", "CUT", "USAGE"];

/// Answers by the newest message of the user that is a program.
pub(super) fn plan(asked: &Asked, refused: &mut Refused) -> Plan {
    let newest = asked.items.iter().enumerate().rev().find_map(|(at, item)| match item {
        Item::User(text) if !directives(text).is_empty() => Some((at, text)),
        Item::User(_) | Item::Result(_) => None,
    });
    let (at, text) = newest.map_or((0, ""), |(at, text)| (at, text));
    let results: Vec<&str> = asked.items[at..]
        .iter()
        .filter_map(|item| match item {
            Item::Result(text) => Some(text.as_str()),
            Item::User(_) => None,
        })
        .collect();
    let program = directives(text);
    let one = |name: &str| program.iter().find(|line| line.0 == name).map(|line| line.1);
    let millis = |name| one(name).map_or(Duration::ZERO, |ms| Duration::from_millis(number(ms)));
    let usage = one("USAGE").and_then(|text| text.split_once(' '));
    let usage = usage.map_or(Tokens { input: 100, output: 10 }, |(input, output)| Tokens {
        input: number(input),
        output: number(output),
    });
    let (what, is_held) = match refusal(one("FAIL"), text, refused) {
        Some(status) => {
            (What::Fail { status, retry_after: one("RETRY_AFTER").map(str::to_owned) }, false)
        }
        None => step(&program, &results, &asked.tools),
    };
    let middle = match one("CUT") {
        Some(_) => Middle::Cut,
        None if is_held => Middle::Held,
        None => Middle::Nothing,
    };
    Plan { what, pace: Pace { delay: millis("DELAY"), drip: millis("DRIP"), middle }, usage }
}

/// The directives of a text, in their order.
fn directives(text: &str) -> Vec<(&str, &str)> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim();
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            DIRECTIVES.contains(&name).then_some((name, rest.trim()))
        })
        .collect()
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

/// The status a request is refused with, if it is.
fn refusal(fail: Option<&str>, program: &str, refused: &mut Refused) -> Option<u16> {
    let mut words = fail?.split_whitespace();
    let status = words.next()?.parse().ok()?;
    let so_far = refused.entry(program.to_owned()).or_default();
    *so_far += 1;
    words.next().is_none_or(|most| u64::from(*so_far) <= number(most)).then_some(status)
}

/// What comes after these results, and whether it is held.
fn step(program: &[(&str, &str)], results: &[&str], tools: &[Tool]) -> (What, bool) {
    let mut done = 0;
    let mut is_held = false;
    for (name, rest) in program {
        match *name {
            "HOLD" => is_held = true,
            // Those who ask on the side, for a title, offer no tools.
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
    let text = match (find("ECHO"), find("SAY")) {
        (Some(_), _) => results.last().copied().unwrap_or("no tool was called"),
        (None, Some((_, text))) => text,
        (None, None) => "done",
    };
    (What::Say(text.to_owned()), is_held)
}

fn call(rest: &str, tools: &[Tool]) -> What {
    let (name, args) = rest.split_once(' ').unwrap_or((rest, "{}"));
    let ends_so = |tool: &&Tool| {
        let before = tool.name.strip_suffix(name);
        before.is_some_and(|before| before.is_empty() || before.ends_with(['_', '-']))
    };
    let tool = tools.iter().filter(ends_so).min_by_key(|tool| tool.name.len());
    match (tool, serde_json::from_str(args)) {
        (Some(tool), Ok(args)) => What::Call { tool: tool.clone(), args },
        // Models call what nobody offers them, too.
        (None, Ok(args)) if name.starts_with("mcp__") => {
            What::Call { tool: Tool { namespace: None, name: name.to_owned() }, args }
        }
        // One that is found by a search can be called without it.
        (None, Ok(args)) if tools.iter().any(|tool| tool.name == "tool_search") => {
            What::Call { tool: Tool { namespace: None, name: format!("mcp__team__{name}") }, args }
        }
        (None, _) => What::Say(format!("there is no tool {name} among {tools:?}")),
        (_, Err(error)) => What::Say(format!("{name}: {error}: {args}")),
    }
}
