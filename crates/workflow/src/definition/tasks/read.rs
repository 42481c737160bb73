//! Reads tasks from YAML: the keys that every task has, the lists, and the names.

use std::{collections::BTreeSet, ops::RangeInclusive};

use agent_worker_expressions::{Expression, is_reserved};
use agent_worker_protocol::{Span, TaskPath};

use super::{
    TaskDefinition, TaskLoop, TaskProcedure, TaskRetry, ValueUse, names, order, read_action,
};
use crate::{
    diagnostics::{diagnostic::Diagnostic, diagnostic::Diagnostics, report::LineIndex},
    template::{
        self, Template, expression,
        reference::{KnownNames, NAME_SHAPE, RESERVED, ReferenceFlaw, TextOwner, is_name},
    },
    yaml::{
        Yaml,
        fields::{AllowedKeys, YamlField, YamlFields},
    },
};

const PROCEDURE_KEYS: [&str; 3] = ["tasks", "finally", "output"];

pub(super) const TASK_KEYS: AllowedKeys = AllowedKeys {
    known: &[
        "name",
        "as",
        "shell",
        "send",
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
    ],
    planned: &["ask", "options", "workflow", "params", "expect"],
};
const RETRY_KEYS: AllowedKeys = AllowedKeys { known: &["max_attempts", "backoff"], planned: &[] };

const MAX_TASKS: usize = 1_000;
const ATTEMPTS: RangeInclusive<u32> = 1..=100;
const ITEMS_AT_ONCE: RangeInclusive<u32> = 1..=100;

/// State of a reading: the names of all lists of the file.
pub(super) struct TaskReader<'s> {
    pub(super) source: &'s str,
    pub(super) known: KnownNames,
    /// Names of the agents.
    pub(super) team: Vec<String>,
    /// Values that the task that is being read uses.
    pub(super) uses: Vec<ValueUse>,
    lines: LineIndex,
    names: BTreeSet<String>,
    outputs: BTreeSet<String>,
    count: usize,
    /// Number of diagnostics about keys that cannot be used yet. The rest of their tasks is complete.
    planned_keys: usize,
}

/// Order of the tasks of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListOrder {
    /// A task without `needs` waits for everything before it.
    Sequence,
    /// A task without `needs` waits for nothing.
    Parallel,
}

/// Reads the procedure from the sections of a file. `known` are the names of all other sections.
pub(crate) fn procedure(
    fields: &YamlFields<'_>,
    source: &str,
    mut known: KnownNames,
    diagnostics: &mut Diagnostics,
) -> TaskProcedure {
    refuse_without_tasks(fields, diagnostics);
    refuse_reserved_outputs(fields, diagnostics);
    let earlier_mistakes = diagnostics.len();
    let setup = known.outputs.clone();
    for list in [fields.get("tasks"), fields.get("finally")].iter().flatten() {
        declare_names(list, &mut known);
    }
    known.all_outputs.extend(known.outputs.iter().cloned());
    known.owner = TextOwner::Task;
    let agents = fields.get("agents").and_then(|agents| agents.named_entries().ok());
    let team = agents.unwrap_or_default().iter().map(|(key, _)| key.text.to_owned()).collect();
    let mut reader = TaskReader {
        source,
        known,
        team,
        uses: Vec::new(),
        lines: LineIndex::of(source),
        names: BTreeSet::new(),
        outputs: setup.clone(),
        count: 0,
        planned_keys: 0,
    };
    let [tasks, finally, output] = PROCEDURE_KEYS;
    let mut list = |key: &str, diagnostics: &mut Diagnostics| {
        let field = fields.get(key)?;
        Some(reader.list(&field, ListOrder::Sequence, diagnostics))
    };
    let mut procedure = TaskProcedure {
        tasks: list(tasks, diagnostics).unwrap_or_default(),
        finally: list(finally, diagnostics).unwrap_or_default(),
        output: None,
    };
    let output = fields.get(output);
    procedure.output = output.and_then(|field| reader.template(&field, diagnostics));
    let uses = std::mem::take(&mut reader.uses);
    // The order of an incomplete list is not known.
    if diagnostics.len() == earlier_mistakes + reader.planned_keys {
        names::complete(&mut procedure, setup, &uses, diagnostics);
    }
    procedure
}

/// Adds the names and outputs of a list of tasks and of the lists in it.
fn declare_names(list: &YamlField<'_>, known: &mut KnownNames) {
    for item in list.list().unwrap_or_default() {
        let Ok(fields) = item.fields_unchecked() else { continue };
        let text = |key: &str| Some(fields.get(key)?.text().ok()?.to_owned());
        known.tasks.extend(text("name"));
        known.outputs.extend(text("as"));
        let block = fields.get("parallel").and_then(|block| block.fields_unchecked().ok());
        let inner = block.and_then(|block| block.get("tasks"));
        let lists = ["parallel", "then", "else"].map(|key| fields.get(key));
        for list in lists.iter().flatten().chain(&inner) {
            declare_names(list, known);
        }
    }
}

impl TaskReader<'_> {
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
        let mistakes = diagnostics.len();
        let fields = field.fields(&TASK_KEYS, diagnostics)?;
        if !fields.has_unknown_keys {
            self.planned_keys += diagnostics.len() - mistakes;
        }
        let line = self.lines.number(field.node.at.start);
        let name = fields
            .read_with("name", diagnostics, |field| checked_name(field, &mut self.names, "tasks"));
        let output_name = fields.read_with("as", diagnostics, |field| {
            checked_name(field, &mut self.outputs, "outputs")
        });
        let condition = fields.get("if");
        let condition = condition.and_then(|field| self.condition(&field, diagnostics));
        let otherwise = fields.get("else");
        if let (Some(field), false) = (&otherwise, fields.has("if")) {
            diagnostics.add(field.diagnostic("`else` needs `if`").with_hint("add `if:`"));
        }
        let uses = std::mem::take(&mut self.uses);
        let otherwise = otherwise.map(|field| self.list(&field, ListOrder::Sequence, diagnostics));
        self.uses = uses;
        let needs = fields.get("needs").and_then(|field| diagnostics.ok_or_add(field.list()));
        let for_each = self.read_loop(&fields, diagnostics);
        let retry = fields.get("retry").and_then(|field| read_retry(&field, diagnostics));
        let everyone = Span::from_millis(1)..=Span::from_secs(7 * 24 * 3600);
        let timeout = fields.read_with("timeout", diagnostics, |field| field.span(everyone));
        let continue_on_error =
            fields.read_with("continue_on_error", diagnostics, YamlField::boolean);
        if fields.has("for_each") {
            self.known.owner = TextOwner::TaskWithItem;
        }
        let action = read_action::action(self, field, &fields, diagnostics);
        self.known.owner = TextOwner::Task;
        let uses = std::mem::take(&mut self.uses);
        let action = action?;
        let task = TaskDefinition {
            path: TaskPath::default(),
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
            uses,
        };
        Some((task, needs))
    }

    /// Reads a text for people or agents.
    pub(super) fn template(
        &mut self,
        field: &YamlField<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Template> {
        let text = diagnostics.ok_or_add(field.text())?;
        let at = &field.node.at;
        match Template::read(text, &self.known) {
            Ok(template) => {
                self.record_uses(field);
                Some(template)
            }
            Err(flaws) => {
                diagnostics.add_all(template::locate_flaws(at, text, self.source, flaws));
                None
            }
        }
    }

    /// Records the values that a text uses, which was read without a flaw.
    pub(super) fn record_uses(&mut self, field: &YamlField<'_>) {
        let Ok(text) = field.text() else { return };
        let used = template::used_values(&field.node.at, text, self.source, &self.known);
        self.uses.extend(used.into_iter().map(|(reference, at)| ValueUse { reference, at }));
    }

    /// Reads an expression that must give true or false.
    fn condition(
        &mut self,
        field: &YamlField<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Expression> {
        let kind = match &field.node.value {
            Yaml::Whole(_) | Yaml::Decimal(_) => Some("a number"),
            _ => None,
        };
        let expression = match kind {
            Some(_) => None,
            None => Some(self.expression(field, diagnostics)?),
        };
        let kind = kind.or_else(|| literal_type(expression.as_ref()?.source()));
        if let Some(kind) = kind {
            let must_be =
                field.must_be(format_args!("an expression that is true or false, not {kind}"));
            diagnostics.add(must_be.with_hint("write a comparison, such as `if: x == 'true'`"));
        }
        expression
    }

    /// Reads an expression, with or without `${{ }}`.
    fn expression(
        &mut self,
        field: &YamlField<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Expression> {
        let source = diagnostics.ok_or_add(expression_source(field))?;
        let whole = field.node.at.clone();
        let written = self.source.get(whole.clone()).unwrap_or_default();
        let start = written.find(&source).map(|start| whole.start + start);
        let place = |offset: Option<usize>| match (start, offset) {
            (Some(start), Some(offset)) => start + offset..whole.end.max(start + offset + 1),
            _ => whole.clone(),
        };
        match expression::parse_condition(&source, &self.known) {
            Ok(expression) => {
                let values = expression::condition_values(&expression);
                let uses = values.map(|(reference, offset)| {
                    let at = place(Some(offset));
                    ValueUse { reference, at }
                });
                self.uses.extend(uses);
                Some(expression)
            }
            Err(ReferenceFlaw { message, hint, offset }) => {
                diagnostics.add(Diagnostic { at: place(offset), message, hint });
                None
            }
        }
    }

    fn read_loop(
        &mut self,
        fields: &YamlFields<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<TaskLoop> {
        let max = fields.read_with("max", diagnostics, |field| field.integer(ITEMS_AT_ONCE));
        if let (Some(field), false) = (fields.get("max"), fields.has("for_each")) {
            let diagnostic = field.diagnostic("`max` of a task needs `for_each`");
            let hint = "for a parallel block: `parallel: { max, tasks }`";
            diagnostics.add(diagnostic.with_hint(hint));
        }
        let items = self.expression(&fields.get("for_each")?, diagnostics)?;
        Some(TaskLoop { items, max: max.unwrap_or(1) })
    }

    /// Returns the line number of a value.
    pub(super) fn line(&self, field: &YamlField<'_>) -> usize {
        self.lines.number(field.node.at.start)
    }
}

/// Returns the source of an expression that is written with or without `${{ }}`.
fn expression_source(field: &YamlField<'_>) -> Result<String, Diagnostic> {
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

/// Returns the type of an expression that is only a literal, and neither `true` nor `false`.
fn literal_type(source: &str) -> Option<&'static str> {
    let inner = |quote: char| source.strip_prefix(quote)?.strip_suffix(quote);
    let is_text = |quote: char| inner(quote).is_some_and(|inner| !inner.contains([quote, '\\']));
    match source {
        "null" | "undefined" => Some("nothing"),
        number if number.parse::<f64>().is_ok() => Some("a number"),
        text if text.len() > 1 && ['\'', '"'].into_iter().any(is_text) => Some("text"),
        _ => None,
    }
}

/// Refuses the sections that belong to `tasks` in a file without tasks.
fn refuse_without_tasks(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) {
    let [tasks, others @ ..] = PROCEDURE_KEYS;
    for (key, field) in others.iter().filter_map(|key| Some((key, fields.get(key)?))) {
        if !fields.has(tasks) {
            let diagnostic = field.diagnostic(format!("`{key}` needs `{tasks}`"));
            diagnostics.add(diagnostic.with_hint(format!("add `{tasks}:`, or remove `{key}`")));
        }
    }
}

/// Refuses outputs of setup steps whose names mean something else in expressions. A file without tasks has none.
fn refuse_reserved_outputs(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) {
    let steps = fields.get("setup").filter(|_| fields.has("tasks"));
    for step in steps.and_then(|steps| steps.list().ok()).unwrap_or_default() {
        let Some(field) = step.fields_unchecked().ok().and_then(|step| step.get("as")) else {
            continue;
        };
        let Ok(name) = field.text() else { continue };
        // The reader of the step has refused the other reserved names.
        if is_reserved(name) && !RESERVED.contains(&name) {
            let message = format!("`{name}` is reserved in a file with `tasks`");
            diagnostics.add(field.diagnostic(message).with_hint("choose another name"));
        }
    }
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
    if is_reserved(name) {
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
