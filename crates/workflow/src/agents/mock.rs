//! `mock:` script of an agent without a model, for tests and for trying out a workflow.
//!
//! The rules are those of [`MockRule`]; in the file a failure is a word (`fail: crash`), and an exit status is
//! `exit: 3` or `fail: { exit: 3 }`.

use agent_worker_protocol::{
    Keyword as _, MockCall, MockFailure, MockRule, SHELL_TOOL, Span, ToolName,
};

use crate::{
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    yaml::Yaml,
    yaml::fields::{AllowedKeys, YamlField, YamlFields},
};

const RULE_KEYS: AllowedKeys = AllowedKeys {
    known: &["on", "sleep", "calls", "run", "say", "fail", "exit", "times"],
    planned: &[],
};
const CALL_KEYS: AllowedKeys = AllowedKeys { known: &["tool", "args"], planned: &[] };
const EXIT_KEYS: AllowedKeys = AllowedKeys { known: &["exit"], planned: &[] };

const FAILURES: [(&str, MockFailure); 5] = [
    ("transient", MockFailure::Transient),
    ("rate_limited", MockFailure::RateLimited),
    ("fatal", MockFailure::Fatal),
    ("crash", MockFailure::Crash),
    ("hang", MockFailure::Hang),
];

/// The tools that a script can call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallableTools<'a> {
    /// Those of the team, and these mock tools of the agent.
    TeamAnd(&'a [&'a str]),
    /// The mock tools of the agent are not known, so that every name passes.
    Any,
}

pub(crate) fn read(
    field: &YamlField<'_>,
    callable: CallableTools<'_>,
    diagnostics: &mut Diagnostics,
) -> Vec<MockRule> {
    read_each(field, diagnostics, |rule, diagnostics| read_rule(rule, callable, diagnostics))
}

/// Applies `read` to each item of a list, until the list of diagnostics is full.
fn read_each<T>(
    list: &YamlField<'_>,
    diagnostics: &mut Diagnostics,
    read: impl Fn(&YamlField<'_>, &mut Diagnostics) -> Option<T>,
) -> Vec<T> {
    let mut items = Vec::new();
    for item in diagnostics.ok_or_add(list.list()).unwrap_or_default() {
        if diagnostics.is_full() {
            break;
        }
        items.extend(read(&item, diagnostics));
    }
    items
}

fn read_rule(
    field: &YamlField<'_>,
    callable: CallableTools<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<MockRule> {
    let fields = field.fields(&RULE_KEYS, diagnostics)?;
    let text = |field: &YamlField<'_>| field.text().map(str::to_owned);
    let longest = Span::from_secs(24 * 60 * 60);
    let read_call = |call: &YamlField<'_>, diagnostics: &mut Diagnostics| {
        read_call(call, callable, diagnostics)
    };
    let calls = fields.get("calls").map(|field| read_each(&field, diagnostics, read_call));
    Some(MockRule {
        on: fields.read_with("on", diagnostics, text),
        sleep: fields
            .read_with("sleep", diagnostics, |field| field.span(Span::default()..=longest)),
        calls: calls.unwrap_or_default(),
        run: fields.read_with("run", diagnostics, text),
        say: fields.read_with("say", diagnostics, text),
        fail: read_failure(&fields, diagnostics),
        times: fields.read_with("times", diagnostics, |field| field.integer(1..=1_000)),
    })
}

fn read_call(
    field: &YamlField<'_>,
    callable: CallableTools<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<MockCall> {
    let fields = field.fields(&CALL_KEYS, diagnostics)?;
    let tool = fields.require("tool", diagnostics);
    let tool = tool.and_then(|field| diagnostics.ok_or_add(known_tool(&field, callable)));
    let args = fields.read_with("args", diagnostics, YamlField::named_entries).unwrap_or_default();
    let args = args.into_iter().map(|(key, field)| (key.text.to_owned(), field.node.to_json()));
    Some(MockCall { tool: tool?.to_owned(), args: args.collect() })
}

/// Reads the name of an existing tool.
fn known_tool<'a>(
    field: &YamlField<'a>,
    callable: CallableTools<'_>,
) -> Result<&'a str, Diagnostic> {
    let word = field.text()?;
    match unknown_tool(word, callable) {
        None => Ok(word),
        Some((message, hint)) => Err(field.diagnostic(message).with_hint(hint)),
    }
}

/// Returns an error message and a suggestion for an unknown tool; none if the tool exists.
pub(crate) fn unknown_tool(word: &str, callable: CallableTools<'_>) -> Option<(String, String)> {
    let own = match callable {
        CallableTools::TeamAnd(own) => own,
        CallableTools::Any => return None,
    };
    if word == SHELL_TOOL || ToolName::find(word).is_some() || own.contains(&word) {
        return None;
    }
    let team = ToolName::ALL.iter().map(|tool| tool.word());
    let words = || team.clone().chain([SHELL_TOOL]).chain(own.iter().copied());
    let hint = match nearest(word, words()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", words().collect::<Vec<_>>().join(", ")),
    };
    Some((format!("there is no tool `{word}`"), hint))
}

fn read_failure(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> Option<MockFailure> {
    match (fields.get("fail"), fields.get("exit")) {
        (None, None) => None,
        (Some(_), Some(exit)) => {
            diagnostics.add(
                exit.diagnostic("a rule has `fail` or `exit`, not both")
                    .with_hint("remove one of the two"),
            );
            None
        }
        (None, Some(exit)) => diagnostics.ok_or_add(read_exit_status(&exit)),
        (Some(fail), None) if matches!(fail.node.value, Yaml::Map(_)) => {
            let exit = fail.fields(&EXIT_KEYS, diagnostics)?.require("exit", diagnostics)?;
            diagnostics.ok_or_add(read_exit_status(&exit))
        }
        (Some(fail), None) => diagnostics.ok_or_add(fail.one_of(&FAILURES, &[])),
    }
}

fn read_exit_status(field: &YamlField<'_>) -> Result<MockFailure, Diagnostic> {
    let status = field.integer(0..=u32::from(u8::MAX))?;
    u8::try_from(status).map(MockFailure::Exit).map_err(|_| field.must_be("between 0 and 255"))
}
