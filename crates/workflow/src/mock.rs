//! `mock:` the script of an agent without a model, for tests and for trying a workflow out.
//!
//! The rules are those of [`MockRule`]; in the file a failure is a word (`fail: crash`), and an
//! exit status is `exit: 3` or `fail: { exit: 3 }`.

use agent_worker_protocol::{MockCall, MockFailure, MockRule, Span};
use serde_json::{Map, Value};

use crate::{
    error::Complaint,
    fields::{Field, Fields, Keys},
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

pub(crate) fn read(field: &Field<'_>) -> Result<Vec<MockRule>, Complaint> {
    field.list()?.iter().map(rule).collect()
}

fn rule(field: &Field<'_>) -> Result<MockRule, Complaint> {
    let fields = field.fields(&RULE)?;
    let text = |key: &str| -> Result<Option<String>, Complaint> {
        Ok(fields.get(key).map(|field| field.text()).transpose()?.map(str::to_owned))
    };
    let longest = Span::from_secs(24 * 60 * 60);
    let sleep = fields.get("sleep").map(|field| field.span(Span::default()..=longest));
    let calls = match fields.get("calls") {
        Some(field) => field.list()?.iter().map(call).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    Ok(MockRule {
        on: text("on")?,
        sleep: sleep.transpose()?,
        calls,
        run: text("run")?,
        say: text("say")?,
        fail: failure(&fields)?,
        times: fields.get("times").map(|field| field.whole(1..=1_000)).transpose()?,
    })
}

fn call(field: &Field<'_>) -> Result<MockCall, Complaint> {
    let fields = field.fields(&CALL)?;
    let tool = fields.need("tool")?.text()?.to_owned();
    let args = match fields.get("args") {
        Some(field) => field.named()?,
        None => Vec::new(),
    };
    let arg =
        |(key, field): (crate::fields::Key<'_>, Field<'_>)| (key.text.to_owned(), json(field.node));
    Ok(MockCall { tool, args: args.into_iter().map(arg).collect() })
}

fn failure(fields: &Fields<'_>) -> Result<Option<MockFailure>, Complaint> {
    match (fields.get("fail"), fields.get("exit")) {
        (None, None) => Ok(None),
        (Some(_), Some(exit)) => Err(exit
            .complaint("a rule has `fail` or `exit`, not both")
            .hint("remove one of the two")),
        (None, Some(exit)) => status(&exit).map(Some),
        (Some(fail), None) if matches!(fail.node.value, Yaml::Map(_)) => {
            status(&fail.fields(&EXIT)?.need("exit")?).map(Some)
        }
        (Some(fail), None) => fail.word(&FAILURES, &[]).map(Some),
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
