//! Reads tasks from YAML: the keys that every task has, the lists, and the names.

use std::{collections::BTreeSet, ops::RangeInclusive};

use agent_worker_protocol::Span;

use super::{TaskDefinition, TaskLoop, TaskProcedure, TaskRetry, order, read_action};
use crate::{
    diagnostics::{diagnostic::Diagnostic, diagnostic::Diagnostics, report::LineIndex},
    template::reference::{NAME_SHAPE, RESERVED, is_name},
    yaml::fields::{AllowedKeys, YamlField, YamlFields},
};

const PROCEDURE_KEYS: [&str; 3] = ["tasks", "finally", "output"];

const TASK_KEYS: AllowedKeys = AllowedKeys {
    known: &[
        "name",
        "as",
        "shell",
        "send",
        "ask",
        "workflow",
        "parallel",
        "then",
        "if",
        "else",
        "needs",
        "for_each",
        "max",
        "retry",
        "timeout",
        "continue_on_error",
        "to",
        "until",
        "format",
        "cwd",
        "env",
        "shell_program",
        "options",
        "params",
    ],
    planned: &["expect"],
};
const RETRY_KEYS: AllowedKeys = AllowedKeys { known: &["max_attempts", "backoff"], planned: &[] };

/// Names that an expression understands already.
const RESERVED_BY_EXPRESSIONS: [&str; 11] = [
    "tasks", "item", "index", "run", "event", "success", "failure", "always", "json", "lines",
    "hash",
];

const MAX_TASKS: usize = 1_000;
const ATTEMPTS: RangeInclusive<u32> = 1..=100;
const ITEMS_AT_ONCE: RangeInclusive<u32> = 1..=100;

/// State of a reading: the names of all lists of the file.
pub(super) struct TaskReader {
    lines: LineIndex,
    names: BTreeSet<String>,
    outputs: BTreeSet<String>,
    count: usize,
}

/// Order of the tasks of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListOrder {
    /// A task without `needs` waits for everything before it.
    Sequence,
    /// A task without `needs` waits for nothing.
    Parallel,
}

pub(super) fn procedure(
    root: &YamlField<'_>,
    source: &str,
    diagnostics: &mut Diagnostics,
) -> TaskProcedure {
    let Some(fields) = diagnostics.ok_or_add(root.fields_unchecked()) else {
        return TaskProcedure::default();
    };
    let mut reader = TaskReader {
        lines: LineIndex::of(source),
        names: BTreeSet::new(),
        outputs: BTreeSet::new(),
        count: 0,
    };
    let [tasks, finally, output] = PROCEDURE_KEYS;
    let mut list = |key: &str, diagnostics: &mut Diagnostics| {
        let field = fields.get(key)?;
        Some(reader.list(&field, ListOrder::Sequence, diagnostics))
    };
    TaskProcedure {
        tasks: list(tasks, diagnostics).unwrap_or_default(),
        finally: list(finally, diagnostics).unwrap_or_default(),
        output: fields.read_with(output, diagnostics, owned_text),
    }
}

impl TaskReader {
    /// Reads a list and the order of its tasks.
    pub(super) fn list(
        &mut self,
        field: &YamlField<'_>,
        order: ListOrder,
        diagnostics: &mut Diagnostics,
    ) -> Vec<TaskDefinition> {
        let items = diagnostics.ok_or_add(field.list()).unwrap_or_default();
        if items.is_empty() {
            diagnostics.add(field.must_be("a list of at least one task"));
        }
        let (mut tasks, mut needs) = (Vec::new(), Vec::new());
        for item in &items {
            self.count += 1;
            if diagnostics.is_full() || self.count > MAX_TASKS {
                break;
            }
            if let Some((task, needed)) = self.task(item, diagnostics) {
                tasks.push(task);
                needs.push(needed);
            }
        }
        if self.count > MAX_TASKS {
            diagnostics.add(field.diagnostic(format!("there are more than {MAX_TASKS} tasks")));
        }
        order::resolve(&mut tasks, &needs, order, diagnostics);
        tasks
    }

    fn task<'y>(
        &mut self,
        field: &YamlField<'y>,
        diagnostics: &mut Diagnostics,
    ) -> Option<(TaskDefinition, Option<Vec<YamlField<'y>>>)> {
        let fields = field.fields(&TASK_KEYS, diagnostics)?;
        let line = self.lines.number(field.node.at.start);
        let name = fields
            .read_with("name", diagnostics, |field| checked_name(field, &mut self.names, "tasks"));
        let output_name = fields.read_with("as", diagnostics, |field| {
            checked_name(field, &mut self.outputs, "outputs")
        });
        let condition = fields.read_with("if", diagnostics, expression);
        let otherwise = fields.get("else");
        if let (Some(field), false) = (&otherwise, fields.has("if")) {
            diagnostics.add(field.diagnostic("`else` needs `if`").with_hint("add `if:`"));
        }
        let otherwise = otherwise.map(|field| self.list(&field, ListOrder::Sequence, diagnostics));
        let needs = fields.get("needs").and_then(|field| diagnostics.ok_or_add(field.list()));
        let for_each = read_loop(&fields, diagnostics);
        let retry = fields.get("retry").and_then(|field| read_retry(&field, diagnostics));
        let everyone = Span::from_millis(1)..=Span::from_secs(7 * 24 * 3600);
        let timeout = fields.read_with("timeout", diagnostics, |field| field.span(everyone));
        let continue_on_error =
            fields.read_with("continue_on_error", diagnostics, YamlField::boolean);
        let action = read_action::action(self, field, &fields, diagnostics)?;
        let task = TaskDefinition {
            name,
            output_name,
            line,
            action,
            condition,
            otherwise: otherwise.unwrap_or_default(),
            after: BTreeSet::new(),
            for_each,
            retry,
            timeout,
            continue_on_error: continue_on_error.unwrap_or_default(),
        };
        Some((task, needs))
    }
}

pub(super) fn owned_text(field: &YamlField<'_>) -> Result<String, Diagnostic> {
    field.text().map(str::to_owned)
}

/// Reads an expression, with or without `${{ }}`.
fn expression(field: &YamlField<'_>) -> Result<String, Diagnostic> {
    use crate::yaml::Yaml;
    let text = match &field.node.value {
        Yaml::Bool(value) => return Ok(value.to_string()),
        _ => field.text()?.trim(),
    };
    let inner = text.strip_prefix("${{").and_then(|rest| rest.strip_suffix("}}")).unwrap_or(text);
    if inner.trim().is_empty() {
        return Err(field.must_be("an expression, such as `${{ x == 'yes' }}`"));
    }
    Ok(inner.trim().to_owned())
}

fn read_loop(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> Option<TaskLoop> {
    let max = fields.read_with("max", diagnostics, |field| field.integer(ITEMS_AT_ONCE));
    if let (Some(field), false) = (fields.get("max"), fields.has("for_each")) {
        let diagnostic = field.diagnostic("`max` of a task needs `for_each`");
        diagnostics.add(diagnostic.with_hint("for a parallel block: `parallel: { max, tasks }`"));
    }
    let items = fields.read_with("for_each", diagnostics, expression)?;
    Some(TaskLoop { items, max: max.unwrap_or(1) })
}

fn read_retry(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> Option<TaskRetry> {
    let fields = field.fields(&RETRY_KEYS, diagnostics)?;
    let backoff = Span::from_millis(1)..=Span::from_secs(3600);
    let max_attempts = fields.require("max_attempts", diagnostics)?;
    let max_attempts = diagnostics.ok_or_add(max_attempts.integer(ATTEMPTS))?;
    let backoff = fields.read_with("backoff", diagnostics, |field| field.span(backoff));
    Some(TaskRetry { max_attempts, backoff: backoff.unwrap_or(Span::from_secs(1)) })
}

fn checked_name(
    field: &YamlField<'_>,
    names: &mut BTreeSet<String>,
    what: &str,
) -> Result<String, Diagnostic> {
    let name = field.text()?;
    if RESERVED.contains(&name) || RESERVED_BY_EXPRESSIONS.contains(&name) {
        return Err(field
            .diagnostic(format!("`{name}` is reserved"))
            .with_hint("choose another name"));
    }
    if !is_name(name) {
        return Err(field
            .diagnostic(format!("`{name}` cannot be a name of {what}"))
            .with_hint(NAME_SHAPE));
    }
    if !names.insert(name.to_owned()) {
        return Err(field.diagnostic(format!("there are two {what} called `{name}`")));
    }
    Ok(name.to_owned())
}
