//! `mock:` the script of an agent without a model, for tests and for trying a workflow out.
//!
//! The rules are those of [`MockRule`]; in the file a failure is a word (`fail: crash`), and an
//! exit status is `exit: 3` or `fail: { exit: 3 }`.

use agent_worker_protocol::{MockCall, MockFailure, MockRule, SHELL_TOOL, Span, ToolName};
use serde_json::{Map, Value};

use crate::{
    complaint::{Complaint, Complaints},
    fields::{Field, Fields, Keys},
    suggest::nearest,
    tree::{Node, Yaml},
};

const RULE: Keys =
    Keys { known: &["on", "sleep", "calls", "run", "say", "fail", "exit", "times"], later: &[] };
const CALL: Keys = Keys { known: &["tool", "args"], later: &[] };
const EXIT: Keys = Keys { known: &["exit"], later: &[] };

const FAILURES: [(&str, MockFailure); 5] = [
    ("transient", MockFailure::Transient),
    ("rate_limited", MockFailure::RateLimited),
    ("fatal", MockFailure::Fatal),
    ("crash", MockFailure::Crash),
    ("hang", MockFailure::Hang),
];

pub(crate) fn read(field: &Field<'_>, complaints: &mut Complaints) -> Vec<MockRule> {
    each(field, complaints, rule)
}

/// What `read` makes of each item of a list, as far as looking on makes sense.
fn each<T>(
    list: &Field<'_>,
    complaints: &mut Complaints,
    read: impl Fn(&Field<'_>, &mut Complaints) -> Option<T>,
) -> Vec<T> {
    let mut items = Vec::new();
    for item in complaints.keep(list.list()).unwrap_or_default() {
        if complaints.is_full() {
            break;
        }
        items.extend(read(&item, complaints));
    }
    items
}

fn rule(field: &Field<'_>, complaints: &mut Complaints) -> Option<MockRule> {
    let fields = field.fields(&RULE, complaints)?;
    let text = |field: &Field<'_>| field.text().map(str::to_owned);
    let longest = Span::from_secs(24 * 60 * 60);
    let calls = fields.get("calls").map(|field| each(&field, complaints, call));
    Some(MockRule {
        on: fields.take("on", complaints, text),
        sleep: fields.take("sleep", complaints, |field| field.span(Span::default()..=longest)),
        calls: calls.unwrap_or_default(),
        run: fields.take("run", complaints, text),
        say: fields.take("say", complaints, text),
        fail: failure(&fields, complaints),
        times: fields.take("times", complaints, |field| field.whole(1..=1_000)),
    })
}

fn call(field: &Field<'_>, complaints: &mut Complaints) -> Option<MockCall> {
    let fields = field.fields(&CALL, complaints)?;
    let tool = fields.need("tool", complaints);
    let tool = tool.and_then(|field| complaints.keep(known(&field)));
    let args = fields.take("args", complaints, Field::named).unwrap_or_default();
    let args = args.into_iter().map(|(key, field)| (key.text.to_owned(), json(field.node)));
    Some(MockCall { tool: tool?.to_owned(), args: args.collect() })
}

/// The name of a tool there is.
fn known<'a>(field: &Field<'a>) -> Result<&'a str, Complaint> {
    let word = field.text()?;
    match strange_tool(word) {
        None => Ok(word),
        Some((message, hint)) => Err(field.complaint(message).hint(hint)),
    }
}

/// What is wrong with the name of a tool, and what to write instead; none if there is such a tool.
pub(crate) fn strange_tool(word: &str) -> Option<(String, String)> {
    if word == SHELL_TOOL || ToolName::find(word).is_some() {
        return None;
    }
    let words = || ToolName::ALL.iter().map(|tool| tool.word()).chain([SHELL_TOOL]);
    let hint = match nearest(word, words()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", words().collect::<Vec<_>>().join(", ")),
    };
    Some((format!("there is no tool `{word}`"), hint))
}

fn failure(fields: &Fields<'_>, complaints: &mut Complaints) -> Option<MockFailure> {
    match (fields.get("fail"), fields.get("exit")) {
        (None, None) => None,
        (Some(_), Some(exit)) => {
            complaints.add(
                exit.complaint("a rule has `fail` or `exit`, not both")
                    .hint("remove one of the two"),
            );
            None
        }
        (None, Some(exit)) => complaints.keep(status(&exit)),
        (Some(fail), None) if matches!(fail.node.value, Yaml::Map(_)) => {
            let exit = fail.fields(&EXIT, complaints)?.need("exit", complaints)?;
            complaints.keep(status(&exit))
        }
        (Some(fail), None) => complaints.keep(fail.word(&FAILURES, &[])),
    }
}

fn status(field: &Field<'_>) -> Result<MockFailure, Complaint> {
    let status = field.whole(0..=u32::from(u8::MAX))?;
    u8::try_from(status).map(MockFailure::Exit).map_err(|_| field.must("between 0 and 255"))
}

fn json(node: &Node) -> Value {
    match &node.value {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => (*value).into(),
        Yaml::Whole(value) => (*value).into(),
        Yaml::Decimal(value) => (*value).into(),
        Yaml::Text(value) => value.as_str().into(),
        Yaml::List(items) => items.iter().map(json).collect(),
        Yaml::Map(entries) => {
            let pairs = entries.iter().map(|entry| (entry.key.clone(), json(&entry.value)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
    }
}
