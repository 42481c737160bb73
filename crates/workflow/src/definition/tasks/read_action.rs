//! The work of one task: exactly one of the keys that name an action, with the keys that belong to it.

use std::collections::BTreeMap;

use super::{
    AskTask, ChildWorkflowTask, MessageTask, ParallelTasks, SendEnd, ShellTask, TaskAction,
    TaskFormat,
    read::{ListOrder, TASK_KEYS, TaskReader},
};
use crate::{
    definition::setup,
    diagnostics::{diagnostic::Diagnostics, spelling::nearest},
    template::Template,
    yaml::{
        Yaml,
        fields::{AllowedKeys, YamlField, YamlFields},
    },
};

/// Keys that name an action, each with the keys that belong to it.
const ACTIONS: [(&str, &[&str]); 6] = [
    (
        "shell",
        &["as", "format", "cwd", "env", "shell_program", "timeout", "retry", "for_each", "max"],
    ),
    ("send", &["as", "to", "until", "format", "timeout", "retry", "for_each", "max"]),
    ("ask", &["as", "options", "timeout", "retry", "for_each", "max"]),
    ("workflow", &["as", "params", "timeout", "retry", "for_each", "max"]),
    ("parallel", &[]),
    ("then", &[]),
];

const PARALLEL_KEYS: AllowedKeys =
    AllowedKeys { known: &["max", "tasks", "fail_fast"], planned: &[] };

/// Reads the action; none if a diagnostic was added.
pub(super) fn action(
    reader: &mut TaskReader<'_>,
    task: &YamlField<'_>,
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<TaskAction> {
    let (key, own) = chosen_action(task, fields, diagnostics)?;
    refuse_foreign_keys(key, own, fields, diagnostics);
    let field = fields.require(key, diagnostics)?;
    let formats =
        [("text", TaskFormat::Text), ("json", TaskFormat::Json), ("lines", TaskFormat::Lines)];
    let format = fields.read_with("format", diagnostics, |field| field.one_of(&formats, &[]));
    let format = format.unwrap_or_default();
    Some(match key {
        "shell" => {
            let (line, source) = (reader.line(task), reader.source);
            let known = &mut reader.known;
            let command = setup::read_command(fields, line, source, known, diagnostics);
            reader.known.step_env.clear();
            let command = command?;
            reader.record_uses(&field);
            let env = fields.get("env").and_then(|env| env.named_entries().ok());
            for (_, value) in env.unwrap_or_default() {
                reader.record_uses(&value);
            }
            TaskAction::Shell(ShellTask { command, format })
        }
        "send" => {
            let ends = [("answer", SendEnd::Answer), ("idle", SendEnd::Idle)];
            let until = fields.read_with("until", diagnostics, |field| field.one_of(&ends, &[]));
            let text = reader.template(&field, diagnostics);
            let to = fields.require("to", diagnostics)?;
            let to = read_agents(reader, &to, diagnostics)?;
            TaskAction::Send(MessageTask {
                text: text?,
                to,
                until: until.unwrap_or_default(),
                format,
            })
        }
        "ask" => TaskAction::Ask(AskTask {
            question: reader.template(&field, diagnostics)?,
            options: match fields.get("options") {
                Some(field) => read_names(&field, diagnostics)?,
                None => Vec::new(),
            },
        }),
        "workflow" => TaskAction::Workflow(ChildWorkflowTask {
            file: diagnostics.ok_or_add(field.literal_text())?.to_owned(),
            params: match fields.get("params") {
                Some(field) => read_texts(reader, &field, diagnostics),
                None => BTreeMap::new(),
            },
        }),
        "parallel" => TaskAction::Parallel(read_parallel(reader, &field, diagnostics)?),
        _ => TaskAction::Sequence(reader.list(&field, ListOrder::Sequence, diagnostics)),
    })
}

/// Refuses the keys that belong to other actions only.
fn refuse_foreign_keys(
    key: &str,
    own: &[&str],
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) {
    let others = ACTIONS.iter().flat_map(|(_, keys)| *keys).filter(|other| !own.contains(other));
    for (foreign, field) in fields.iter() {
        if others.clone().any(|other| *other == foreign.text) {
            let message = format!("`{}` does not belong to a task with `{key}`", foreign.text);
            let diagnostic = field.diagnostic(message);
            diagnostics.add(match own {
                [] => diagnostic.with_hint("write it at the tasks in the group"),
                _ => diagnostic,
            });
        }
    }
}

fn chosen_action(
    task: &YamlField<'_>,
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<(&'static str, &'static [&'static str])> {
    let mut found = ACTIONS.iter().filter(|(key, _)| fields.has(key));
    let usable = ACTIONS.iter().filter(|(key, _)| TASK_KEYS.known.contains(key));
    let names: Vec<String> = usable.map(|(key, _)| format!("`{key}`")).collect();
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
            diagnostics.add(diagnostic.with_hint(format!("add one of {}", names.join(", "))));
            None
        }
    }
}

fn read_parallel(
    reader: &mut TaskReader<'_>,
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
    let text = |item: &YamlField<'_>| item.literal_text().map(str::to_owned);
    let names = items.iter().map(|item| diagnostics.ok_or_add(text(item)));
    names.collect::<Vec<_>>().into_iter().collect()
}

/// Reads the names of agents of the file.
fn read_agents(
    reader: &TaskReader<'_>,
    field: &YamlField<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<String>> {
    let names = read_names(field, diagnostics)?;
    for name in &names {
        if reader.team.contains(name) {
            continue;
        }
        let diagnostic = field.diagnostic(format!("there is no agent `{name}`"));
        let team = reader.team.iter().map(String::as_str);
        diagnostics.add(match nearest(name, team.clone()) {
            Some(near) => diagnostic.with_hint(format!("did you mean `{near}`?")),
            None if reader.team.is_empty() => diagnostic.with_hint("add it to `agents:`"),
            None => {
                let names: Vec<&str> = team.collect();
                diagnostic.with_hint(format!("the agents are: {}", names.join(", ")))
            }
        });
    }
    Some(names)
}

/// Reads a mapping from names to texts.
fn read_texts(
    reader: &mut TaskReader<'_>,
    field: &YamlField<'_>,
    diagnostics: &mut Diagnostics,
) -> BTreeMap<String, Template> {
    let entries = diagnostics.ok_or_add(field.named_entries()).unwrap_or_default();
    let mut texts = BTreeMap::new();
    for (key, value) in entries {
        let text = reader.template(&value, diagnostics);
        texts.extend(text.map(|text| (key.text.to_owned(), text)));
    }
    texts
}
