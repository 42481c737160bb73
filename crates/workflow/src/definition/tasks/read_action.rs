//! The work of one task: exactly one of the keys that name an action, with the keys that belong to it.

use std::collections::BTreeMap;

use super::{
    AskTask, ChildWorkflowTask, MessageTask, ParallelTasks, SendEnd, ShellTask, TaskAction,
    TaskFormat,
    read::{ListOrder, TaskReader, owned_text},
};
use crate::{
    agents::folder_name,
    diagnostics::diagnostic::Diagnostics,
    yaml::{
        Yaml,
        fields::{AllowedKeys, YamlField, YamlFields},
    },
};

/// Keys that name an action, each with the keys that belong to it.
const ACTIONS: [(&str, &[&str]); 6] = [
    ("shell", &["format", "cwd", "env", "shell_program", "timeout", "retry"]),
    ("send", &["to", "until", "format", "timeout", "retry"]),
    ("ask", &["options", "timeout", "retry"]),
    ("workflow", &["params", "timeout", "retry"]),
    ("parallel", &[]),
    ("then", &[]),
];

const PARALLEL_KEYS: AllowedKeys =
    AllowedKeys { known: &["max", "tasks", "fail_fast"], planned: &[] };

/// Reads the action; none if a diagnostic was added.
pub(super) fn action(
    reader: &mut TaskReader,
    task: &YamlField<'_>,
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<TaskAction> {
    let (key, own) = chosen_action(task, fields, diagnostics)?;
    let others = ACTIONS.iter().flat_map(|(_, keys)| *keys).filter(|other| !own.contains(other));
    for (foreign, field) in fields.iter() {
        if others.clone().any(|other| *other == foreign.text) {
            let message = format!("`{}` does not belong to a task with `{key}`", foreign.text);
            diagnostics.add(field.diagnostic(message));
        }
    }
    let field = fields.require(key, diagnostics)?;
    let map = |key: &str, diagnostics: &mut Diagnostics| {
        fields.get(key).map(|field| read_texts(&field, diagnostics)).unwrap_or_default()
    };
    let formats =
        [("text", TaskFormat::Text), ("json", TaskFormat::Json), ("lines", TaskFormat::Lines)];
    let format = fields.read_with("format", diagnostics, |field| field.one_of(&formats, &[]));
    let format = format.unwrap_or_default();
    Some(match key {
        "shell" => TaskAction::Shell(ShellTask {
            script: diagnostics.ok_or_add(owned_text(&field))?,
            program: fields.read_with("shell_program", diagnostics, owned_text),
            cwd: fields.read_with("cwd", diagnostics, folder_name),
            env: map("env", diagnostics),
            format,
        }),
        "send" => {
            let ends = [("answer", SendEnd::Answer), ("idle", SendEnd::Idle)];
            let until = fields.read_with("until", diagnostics, |field| field.one_of(&ends, &[]));
            let text = diagnostics.ok_or_add(owned_text(&field));
            let to = fields.require("to", diagnostics)?;
            let to = read_names(&to, diagnostics)?;
            TaskAction::Send(MessageTask {
                text: text?,
                to,
                until: until.unwrap_or_default(),
                format,
            })
        }
        "ask" => TaskAction::Ask(AskTask {
            question: diagnostics.ok_or_add(owned_text(&field))?,
            options: match fields.get("options") {
                Some(field) => read_names(&field, diagnostics)?,
                None => Vec::new(),
            },
        }),
        "workflow" => TaskAction::Workflow(ChildWorkflowTask {
            file: diagnostics.ok_or_add(field.literal_text())?.to_owned(),
            params: map("params", diagnostics),
        }),
        "parallel" => TaskAction::Parallel(read_parallel(reader, &field, diagnostics)?),
        _ => TaskAction::Sequence(reader.list(&field, ListOrder::Sequence, diagnostics)),
    })
}

fn chosen_action(
    task: &YamlField<'_>,
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<(&'static str, &'static [&'static str])> {
    let mut found = ACTIONS.iter().filter(|(key, _)| fields.has(key));
    let names = ACTIONS.map(|(key, _)| format!("`{key}`")).join(", ");
    match (found.next(), found.next()) {
        (Some(one), None) => Some(*one),
        (Some((first, _)), Some((second, _))) => {
            let message = format!("a task has one action, not `{first}` and `{second}`");
            diagnostics.add(task.diagnostic(message).with_hint("write two tasks"));
            None
        }
        (None, _) if fields.has_unknown_keys => None,
        (None, _) => {
            let diagnostic = task.diagnostic("this task has no action");
            diagnostics.add(diagnostic.with_hint(format!("add one of {names}")));
            None
        }
    }
}

fn read_parallel(
    reader: &mut TaskReader,
    field: &YamlField<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<ParallelTasks> {
    if let Yaml::List(_) = field.node.value {
        let tasks = reader.list(field, ListOrder::Parallel, diagnostics);
        return Some(ParallelTasks { max: None, fail_fast: false, tasks });
    }
    let fields = field.fields(&PARALLEL_KEYS, diagnostics)?;
    let max = fields.read_with("max", diagnostics, |field| field.integer(1..=100));
    let fail_fast = fields.read_with("fail_fast", diagnostics, YamlField::boolean);
    let tasks = fields.require("tasks", diagnostics)?;
    let tasks = reader.list(&tasks, ListOrder::Parallel, diagnostics);
    Some(ParallelTasks { max, fail_fast: fail_fast.unwrap_or_default(), tasks })
}

/// Reads one name or a list of names.
fn read_names(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> Option<Vec<String>> {
    if let Yaml::Text(text) = &field.node.value {
        return Some(vec![text.clone()]);
    }
    let items = diagnostics.ok_or_add(field.list())?;
    if items.is_empty() {
        diagnostics.add(field.must_be("a list of at least one text"));
    }
    let names = items.iter().map(|item| diagnostics.ok_or_add(owned_text(item)));
    names.collect::<Vec<_>>().into_iter().collect()
}

/// Reads a mapping from names to texts.
fn read_texts(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> BTreeMap<String, String> {
    let entries = diagnostics.ok_or_add(field.named_entries()).unwrap_or_default();
    let mut texts = BTreeMap::new();
    for (key, value) in entries {
        let text = diagnostics.ok_or_add(owned_text(&value));
        texts.extend(text.map(|text| (key.text.to_owned(), text)));
    }
    texts
}
