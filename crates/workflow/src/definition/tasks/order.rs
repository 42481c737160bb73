//! The order of the tasks of one list: `needs`, or the order of the list. Pure.

use std::collections::BTreeSet;

use super::{TaskDefinition, read::ListOrder};
use crate::{
    diagnostics::{diagnostic::Diagnostics, spelling::nearest},
    yaml::fields::YamlField,
};

/// Fills in for which tasks each task of a list waits. `needs` are the names as written, by the task's index.
pub(super) fn resolve(
    tasks: &mut [TaskDefinition],
    needs: &[Option<Vec<YamlField<'_>>>],
    order: ListOrder,
    diagnostics: &mut Diagnostics,
) {
    let names: Vec<Option<String>> = tasks.iter().map(|task| task.name.clone()).collect();
    let mut is_complete = true;
    for (index, task) in tasks.iter_mut().enumerate() {
        task.after = match (needs.get(index).and_then(Option::as_ref), order) {
            (None, ListOrder::Sequence) => (0..index).collect(),
            (None, ListOrder::Parallel) => BTreeSet::new(),
            (Some(needed), _) => {
                let found = needed.iter().map(|name| task_index(name, &names, diagnostics));
                let found: Vec<Option<usize>> = found.collect();
                is_complete &= found.iter().all(Option::is_some);
                found.into_iter().flatten().collect()
            }
        };
    }
    if !is_complete {
        return;
    }
    if let Some(circle) = find_circle(tasks) {
        let shown = |index: &usize| {
            let task = &tasks[*index];
            let place = || format!("the task in line {}", task.line);
            task.name.as_ref().map_or_else(place, |name| format!("`{name}`"))
        };
        let text: Vec<String> = circle.iter().chain(circle.first()).map(shown).collect();
        let needed = circle.iter().find_map(|index| needs.get(*index)?.as_ref()?.first());
        if let Some(field) = needed {
            let message = format!("these tasks wait for each other: {}", text.join(" → "));
            let hint = "a task without `needs` waits for every task before it in its list";
            diagnostics.add(field.diagnostic(message).with_hint(hint));
        }
    }
}

fn task_index(
    field: &YamlField<'_>,
    names: &[Option<String>],
    diagnostics: &mut Diagnostics,
) -> Option<usize> {
    let name = diagnostics.ok_or_add(field.text())?;
    let found = names.iter().position(|one| one.as_deref() == Some(name));
    if found.is_none() {
        let near = nearest(name, names.iter().flatten().map(String::as_str));
        let hint = near.map_or_else(
            || "`needs` names tasks of the same list".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        let message = format!("there is no task `{name}` in this list");
        diagnostics.add(field.diagnostic(message).with_hint(hint));
    }
    found
}

/// Returns tasks that wait for each other in a circle, each for the next.
fn find_circle(tasks: &[TaskDefinition]) -> Option<Vec<usize>> {
    let mut is_done = vec![false; tasks.len()];
    for start in 0..tasks.len() {
        let mut path = vec![start];
        let mut next = vec![tasks[start].after.iter().copied().collect::<Vec<_>>()];
        while let Some(choices) = next.last_mut() {
            let Some(choice) = choices.pop() else {
                next.pop();
                if let Some(index) = path.pop() {
                    is_done[index] = true;
                }
                continue;
            };
            if let Some(begin) = path.iter().position(|index| *index == choice) {
                return Some(path.split_off(begin));
            }
            if !is_done[choice] {
                path.push(choice);
                next.push(tasks[choice].after.iter().copied().collect());
            }
        }
    }
    None
}
