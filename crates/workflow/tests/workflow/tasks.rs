//! Tasks: the loader of a later version, and the refusal in this one.

use std::path::Path;

use agent_worker_workflow::{
    Error, SendEnd, TaskAction, TaskDefinition, TaskFormat, TaskProcedure, read_tasks,
};

fn tasks(yaml: &str) -> Result<TaskProcedure, Error> {
    read_tasks(yaml, Path::new("team.yaml"))
}

/// Formats the action and the order of each task, groups in brackets.
fn shown(tasks: &[TaskDefinition]) -> String {
    let one = |task: &TaskDefinition| {
        let action = match &task.action {
            TaskAction::Shell(shell) => format!("shell {}", shell.script),
            TaskAction::Send(send) => format!("send to {}", send.to.join("+")),
            TaskAction::Ask(ask) => format!("ask {}", ask.question),
            TaskAction::Workflow(child) => format!("workflow {}", child.file),
            TaskAction::Parallel(group) => format!("parallel [{}]", shown(&group.tasks)),
            TaskAction::Sequence(list) => format!("sequence [{}]", shown(list)),
        };
        let condition =
            task.condition.as_ref().map(|text| format!("if {text}: ")).unwrap_or_default();
        let otherwise = match task.otherwise.as_slice() {
            [] => String::new(),
            list => format!(" else [{}]", shown(list)),
        };
        let after: Vec<String> = task.after.iter().map(ToString::to_string).collect();
        format!("{condition}{action}{otherwise} ({})", after.join(","))
    };
    tasks.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[test]
fn every_form_of_a_task_is_read_with_its_order() {
    let procedure = tasks(
        "tasks:
  - { shell: git diff, as: diff, name: changes, timeout: 5m, cwd: src, env: { A: b } }
  - { send: 'Review ${{ diff }}', to: reviewer, as: review, until: idle, retry: { max_attempts: 3 } }
  - if: ${{ review.contains('security') }}
    send: Deep review
    to: [security, lead]
    else:
      - shell: echo none
  - { if: 'x == 1', then: [{ shell: a }, { shell: b }] }
  - parallel:
      max: 2
      fail_fast: true
      tasks: [{ name: a, shell: a }, { name: b, shell: b, needs: [a] }, { shell: c }]
  - parallel: [{ parallel: [{ shell: d }] }]
  - { ask: 'Deploy?', options: [yes!, no!], needs: [changes] }
  - { workflow: other.yaml, params: { target: '${{ diff }}' }, needs: [] }
  - { shell: wc, for_each: lines(diff), max: 4, format: json, continue_on_error: true }
finally:
  - shell: rm -f x
output: ${{ review }}
",
    )
    .unwrap();
    assert_eq!(
        shown(&procedure.tasks),
        "shell git diff (); send to reviewer (0); \
         if review.contains('security'): send to security+lead else [shell echo none ()] (0,1); \
         if x == 1: sequence [shell a (); shell b (0)] (0,1,2); \
         parallel [shell a (); shell b (0); shell c ()] (0,1,2,3); \
         parallel [parallel [shell d ()] ()] (0,1,2,3,4); \
         ask Deploy? (0); workflow other.yaml (); shell wc (0,1,2,3,4,5,6,7)"
    );
    assert_eq!(shown(&procedure.finally), "shell rm -f x ()");
    assert_eq!(procedure.output.as_deref(), Some("${{ review }}"));
    let lines: Vec<usize> = procedure.tasks.iter().map(|task| task.line).collect();
    assert_eq!(lines, [2, 3, 4, 9, 10, 14, 15, 16, 17]);
    let [.., last] = procedure.tasks.as_slice() else { panic!() };
    let each = last.for_each.as_ref().unwrap();
    assert_eq!((each.items.as_str(), each.max, last.continue_on_error), ("lines(diff)", 4, true));
    let TaskAction::Shell(shell) = &last.action else { panic!() };
    assert_eq!(shell.format, TaskFormat::Json);
    let TaskAction::Send(send) = &procedure.tasks[1].action else { panic!() };
    assert_eq!(send.until, SendEnd::Idle);
    assert_eq!(procedure.tasks[1].retry.unwrap().max_attempts, 3);
}

/// Files with one mistake each, its place, and a part of the message.
const MISTAKES: [(&str, &str, &str); 24] = [
    ("tasks: []\n", "1:8", "a list of at least one task"),
    ("tasks:\n  - { as: x }\n", "2:5", "this task has no action"),
    ("tasks:\n  - { shell: a, send: b, to: c }\n", "2:5", "not `shell` and `send`"),
    ("tasks:\n  - { shel: a }\n", "2:7", "unknown key `tasks[0].shel`"),
    ("tasks:\n  - { shell: a, to: b }\n", "2:21", "`to` does not belong to a task with `shell`"),
    ("tasks:\n  - { send: a }\n", "2:5", "needs `to`"),
    ("tasks:\n  - { send: a, to: [] }\n", "2:20", "at least one text"),
    ("tasks:\n  - { shell: a, else: [{ shell: b }] }\n", "2:23", "`else` needs `if`"),
    ("tasks:\n  - { shell: a, if: '${{ }}' }\n", "2:21", "must be an expression"),
    ("tasks:\n  - { shell: a, max: 2 }\n", "2:22", "`max` of a task needs `for_each`"),
    (
        "tasks:\n  - { shell: a, name: x }\n  - { shell: b, name: x }\n",
        "3:23",
        "two tasks called `x`",
    ),
    (
        "tasks:\n  - { shell: a, as: x }\n  - parallel: [{ shell: b, as: x }]\n",
        "3:32",
        "two outputs called `x`",
    ),
    ("tasks:\n  - { shell: a, name: tasks }\n", "2:23", "`tasks` is reserved"),
    ("tasks:\n  - { shell: a, name: a-b }\n", "2:23", "cannot be a name"),
    (
        "tasks:\n  - { shell: a, name: one }\n  - { shell: b, needs: [on] }\n",
        "3:25",
        "no task `on`",
    ),
    (
        "tasks:\n  - parallel: [{ shell: a, name: one }]\n  - { shell: b, needs: [one] }\n",
        "3:25",
        "no task `one` in this list",
    ),
    (
        "tasks:\n  - { shell: a, name: a, needs: [b] }\n  - { shell: b, name: b, needs: [a] }\n",
        "2:34",
        "wait for each other: `a` → `b` → `a`",
    ),
    ("tasks:\n  - { shell: a, name: a, needs: [a] }\n", "2:34", "`a` → `a`"),
    (
        "tasks:\n  - { shell: a, needs: [c] }\n  - { shell: b }\n  - { shell: c, name: c }\n",
        "2:25",
        "wait for each other",
    ),
    (
        "tasks:\n  - parallel: [{ shell: a, name: a, needs: [b] }, { shell: b, name: b, needs: [a] }]\n",
        "2:45",
        "wait for each other",
    ),
    ("finally:\n  - { shell: 5 }\n", "2:14", "must be text"),
    ("tasks:\n  - { parallel: { max: 0, tasks: [{ shell: a }] } }\n", "2:24", "between 1 and 100"),
    ("tasks:\n  - { shell: a, retry: { backoff: 1s } }\n", "2:24", "needs `max_attempts`"),
    ("tasks:\n  - { shell: a, expect: [] }\n", "2:17", "is not in this version"),
];

#[test]
fn a_mistake_in_a_task_is_reported_at_its_place() {
    for (yaml, place, part) in MISTAKES {
        let error = tasks(yaml).unwrap_err();
        let found: Vec<String> = error
            .mistakes()
            .iter()
            .map(|one| format!("{}:{} {}", one.line, one.column, one.message))
            .collect();
        assert_eq!(found.len(), 1, "{yaml}: {found:?}");
        assert!(
            found[0].starts_with(&format!("{place} ")) && found[0].contains(part),
            "{yaml}: {found:?}"
        );
    }
}

#[test]
fn a_thousand_tasks_are_read_and_more_are_refused() {
    let many = |count: usize| format!("tasks:\n{}", "  - shell: a\n".repeat(count));
    assert_eq!(tasks(&many(1_000)).unwrap().tasks.len(), 1_000);
    let error = tasks(&many(1_001)).unwrap_err();
    assert!(error.summary().contains("more than 1000 tasks"), "{error}");
}

#[test]
fn a_workflow_with_tasks_is_refused_until_they_run() {
    let error = crate::read_with_agent("tasks:\n  - shell: a\n").unwrap_err();
    assert_eq!(error.summary(), "team.yaml:3:1: `tasks` is not in this version");
}
