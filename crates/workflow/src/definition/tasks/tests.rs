//! The forms of tasks that repeat or end a procedure, and those that are read, checked and refused.

use agent_worker_expressions::ValueContent;

use super::*;
use crate::{
    diagnostics::diagnostic::Diagnostics,
    template::{
        reference::KnownNames,
        scope::{ScopeValue, TemplateScope},
    },
    yaml::{self, fields::YamlField},
};

/// Reads the tasks of a file; returns every mistake but the refusal of such a form, with the text at its place.
fn read_all(text: &str) -> (TaskProcedure, Vec<String>) {
    let root = yaml::read(text).unwrap();
    let fields = YamlField::root(&root).fields_unchecked().unwrap();
    let mut diagnostics = Diagnostics::default();
    let procedure = read(&fields, text, KnownNames::default(), &mut diagnostics);
    let mistakes = diagnostics.into_sorted().into_iter();
    let mistakes = mistakes.filter(|mistake| !mistake.message.contains("cannot be used yet"));
    let shown = mistakes.map(|mistake| format!("{}: {}", &text[mistake.at], mistake.message));
    (procedure, shown.collect())
}

/// Reads tasks without a mistake.
fn read_tasks(text: &str) -> TaskProcedure {
    let (procedure, mistakes) = read_all(text);
    assert_eq!(mistakes, Vec::<String>::new(), "{text}");
    procedure
}

#[test]
fn a_form_that_cannot_be_used_yet_is_read() {
    let procedure = read_tasks(
        "tasks:
  - { shell: git diff, as: diff, name: changes, retry: { max_attempts: 3 } }
  - { ask: 'Deploy?', options: [yes!, no!], needs: [changes] }
  - { workflow: other.yaml, params: { target: '${{ diff }}' } }
  - { shell: wc, for_each: lines(diff), max: 4 }
finally:
  - { shell: 'echo ${{ tasks.changes.state }}' }
",
    );
    let [first, ask, child, each] = procedure.tasks.as_slice() else { panic!() };
    assert_eq!(first.retry.unwrap().max_attempts, 3);
    let TaskAction::Ask(ask) = &ask.action else { panic!() };
    assert_eq!(ask.options, ["yes!", "no!"]);
    let TaskAction::Workflow(child) = &child.action else { panic!() };
    assert_eq!((child.file.as_str(), child.params.len()), ("other.yaml", 1));
    let each = each.for_each.as_ref().unwrap();
    assert_eq!((each.items.source(), each.max), ("lines(diff)", 4));
    assert_eq!(procedure.finally[0].path.as_str(), "finally/1");
}

#[test]
fn a_mistake_in_a_form_that_cannot_be_used_yet_is_reported() {
    for (text, place, part) in [
        ("tasks: [{ shell: a, max: 2 }]\n", "2", "`max` of a task needs `for_each`"),
        ("tasks: [{ shell: a, retry: { backoff: 1s } }]\n", "{", "needs `max_attempts`"),
        ("tasks: [{ shell: a }]\nfinally: [{ shell: 5 }]\n", "5", "must be text"),
        ("tasks: [{ shell: a, for_each: x }]\n", "x", "unknown name `x`"),
        ("tasks: [{ shell: a, for_each: item }]\n", "item", "only in the texts of a task with"),
        (
            "tasks: [{ shell: a, for_each: '[1]', if: item > 1 }]\n",
            "item > 1",
            "`item` has a value",
        ),
        ("tasks: [{ shell: a, if: index > 1 }]\n", "index > 1", "`index` has a value only in"),
        (
            "tasks: [{ shell: a, for_each: '[1]' }, { shell: 'b ${{ item.x }}' }]\n",
            "item.x }}",
            "`item` has a value only in",
        ),
        (
            "tasks: [{ parallel: [{ shell: a }], for_each: '[1]' }]\n",
            "'[1]'",
            "`for_each` does not belong to a task with `parallel`",
        ),
    ] {
        let (_, mistakes) = read_all(text);
        let [mistake] = mistakes.as_slice() else { panic!("{text}{mistakes:?}") };
        assert!(mistake.starts_with(&format!("{place}: ")), "{text}{mistake}");
        assert!(mistake.contains(part), "{text}{mistake}");
    }
}

#[test]
fn the_texts_of_a_task_with_for_each_use_the_item_and_its_position() {
    let procedure = read_tasks(
        "tasks:
  - shell: 'echo ${{ item.path }} ${{ index + 1 }} ${{ item }} $((${{ int(index) }}))'
    for_each: '[1]'
    env: { NAME: '${{ item }}', PLACE: '${{ [1].map(item => item.x) }}' }
",
    );
    let task = &procedure.tasks[0];
    assert_eq!(task.reads(), [Reference::Item, Reference::ItemIndex].into());
    let mut scope = TemplateScope::default();
    scope.set_item(ScopeValue::Json("{\"path\":\"a\"}".to_owned()), 7);
    let TaskAction::Shell(shell) = &task.action else { panic!() };
    let expression = shell.command.shell.references().find_map(|reference| match reference {
        Reference::Expression(expression) if expression.source() == "item.path" => Some(expression),
        _ => None,
    });
    let bound = scope.bindings(expression.unwrap()).unwrap();
    let [item] = bound.as_slice() else { panic!("{bound:?}") };
    assert_eq!(item.path, ["item"]);
    assert_eq!(item.content, ValueContent::Json("{\"path\":\"a\"}"));
    assert_eq!(scope.value(&Reference::ItemIndex).unwrap(), "7");
}

#[test]
fn an_item_and_an_output_of_its_name_are_stored_as_two_values() {
    for reference in [
        Reference::Item,
        Reference::ItemIndex,
        Reference::Output("item".to_owned()),
        Reference::Output("index".to_owned()),
    ] {
        let stored = serde_json::to_string(&reference).unwrap();
        assert_eq!(serde_json::from_str::<Reference>(&stored).unwrap(), reference, "{stored}");
    }
}
