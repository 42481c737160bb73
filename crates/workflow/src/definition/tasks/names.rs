//! The second pass over a procedure: fills in the paths, and checks that every value of a task exists when the task
//! starts. Pure.
//!
//! A task may use the outputs of setup steps, and what the tasks made for which it waits: directly, through another
//! task, or because its group waits for them. All tasks inside such a task have ended too. Tasks in `finally` may use
//! every task of `tasks`.

use std::collections::BTreeSet;

use agent_worker_protocol::TaskPath;

use super::{TaskAction, TaskDefinition, TaskProcedure, ValueUse};
use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    template::reference::Reference,
};

/// Names of values.
#[derive(Clone, Debug, Default)]
pub(super) struct MadeNames {
    pub(super) outputs: BTreeSet<String>,
    pub(super) tasks: BTreeSet<String>,
}

impl MadeNames {
    /// Returns what a task and the tasks in it make.
    fn of(task: &TaskDefinition) -> Self {
        let tasks = task.walk();
        let outputs = tasks.iter().filter_map(|task| task.output_name.clone());
        let names = tasks.iter().filter_map(|task| task.name.clone());
        Self { outputs: outputs.collect(), tasks: names.collect() }
    }

    fn extend(&mut self, others: &Self) {
        self.outputs.extend(others.outputs.iter().cloned());
        self.tasks.extend(others.tasks.iter().cloned());
    }

    fn has(&self, reference: &Reference) -> bool {
        match reference {
            Reference::Output(name) => self.outputs.contains(name),
            Reference::Task { name, .. } => self.tasks.contains(name),
            Reference::Param(_)
            | Reference::Env(_)
            | Reference::WorkflowName
            | Reference::Tag
            | Reference::ChannelFile
            | Reference::DocumentFile
            | Reference::Item
            | Reference::ItemIndex
            | Reference::Expression(_) => true,
        }
    }
}

/// Completes a procedure. `setup` are the outputs of the setup steps, `output` the values of `output:`.
pub(super) fn complete(
    procedure: &mut TaskProcedure,
    setup: BTreeSet<String>,
    output: &[ValueUse],
    diagnostics: &mut Diagnostics,
) {
    let mut made = MadeNames { outputs: setup, tasks: BTreeSet::new() };
    complete_list(&mut procedure.tasks, &TaskPath::default(), &made, diagnostics);
    for task in &procedure.tasks {
        made.extend(&MadeNames::of(task));
    }
    complete_list(&mut procedure.finally, &TaskPath::new("finally"), &made, diagnostics);
    // The result is made before `finally`, so that these tasks may use it up.
    check_uses(output, &made, diagnostics);
}

fn complete_list(
    tasks: &mut [TaskDefinition],
    parent: &TaskPath,
    made: &MadeNames,
    diagnostics: &mut Diagnostics,
) {
    let makes: Vec<MadeNames> = tasks.iter().map(MadeNames::of).collect();
    for (index, ended) in ended_before(tasks).into_iter().enumerate() {
        let Some(task) = tasks.get_mut(index) else { continue };
        let mut made = made.clone();
        // Most tasks of a long list use nothing.
        if task.walk().iter().any(|task| !task.uses.is_empty()) {
            let is_ended = |other: usize| {
                let word = ended.iter().flatten().nth(other / 64);
                word.is_some_and(|word| word >> (other % 64) & 1 == 1)
            };
            makes.iter().enumerate().filter(|(other, _)| is_ended(*other)).for_each(
                |(_, makes)| {
                    made.extend(makes);
                },
            );
        }
        let made = &made;
        task.path = match &task.name {
            Some(name) => parent.join(name),
            None => parent.join(index + 1),
        };
        check_uses(&std::mem::take(&mut task.uses), made, diagnostics);
        let path = task.path.clone();
        match &mut task.action {
            TaskAction::Parallel(group) => {
                complete_list(&mut group.tasks, &path, made, diagnostics);
            }
            TaskAction::Sequence(list) => complete_list(list, &path, made, diagnostics),
            TaskAction::Shell(_)
            | TaskAction::Send(_)
            | TaskAction::Ask(_)
            | TaskAction::Workflow(_) => {}
        }
        complete_list(&mut task.otherwise, &path.join("else"), made, diagnostics);
    }
}

/// For each task of a list: the tasks that have ended when it starts, one bit for each task of the list.
type EndedBefore = Vec<Option<Vec<u64>>>;

/// Returns the tasks of a list that have ended when one starts. The list has no circle.
fn ended_before(tasks: &[TaskDefinition]) -> EndedBefore {
    let mut found: EndedBefore = vec![None; tasks.len()];
    for index in 0..tasks.len() {
        let mut open = vec![index];
        while let Some(next) = open.last().copied() {
            let after = tasks.get(next).map(|task| &task.after);
            let after = || after.into_iter().flatten().copied();
            let missing = after().find(|needed| found.get(*needed).is_some_and(Option::is_none));
            if let Some(missing) = missing.filter(|_| found[next].is_none()) {
                open.push(missing);
                continue;
            }
            open.pop();
            let mut bits = vec![0; tasks.len().div_ceil(64)];
            for needed in after() {
                bits[needed / 64] |= 1 << (needed % 64);
                let theirs = found.get(needed).and_then(Option::as_ref);
                for (bits, theirs) in bits.iter_mut().zip(theirs.into_iter().flatten()) {
                    *bits |= theirs;
                }
            }
            found[next] = Some(bits);
        }
    }
    found
}

fn check_uses(uses: &[ValueUse], made: &MadeNames, diagnostics: &mut Diagnostics) {
    for ValueUse { reference, at } in uses {
        if made.has(reference) {
            continue;
        }
        let message = format!("`{reference}` has no value here: this task does not wait for it");
        let hint = match reference {
            Reference::Task { name, .. } => format!("move the task down, or add `needs: [{name}]`"),
            _ => "move the task down, or name the task that makes it in `needs`".to_owned(),
        };
        diagnostics.add(Diagnostic::new(at.clone(), message).with_hint(hint));
    }
}
