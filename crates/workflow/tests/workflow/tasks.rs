//! `tasks:` section.

use std::{collections::BTreeMap, path::Path};

use agent_worker_workflow::{
    Error, Reference, ScopeValue, SendEnd, ShellTask, TaskAction, TaskDefinition, TaskFact,
    TaskFormat, TaskProcedure, Template, TemplateScope, Workflow,
};

fn tasks(yaml: &str) -> Result<TaskProcedure, Error> {
    crate::read(yaml).map(|workflow| workflow.tasks)
}

fn script(shell: &ShellTask) -> String {
    shell.command.shell.prepare(&TemplateScope::default()).unwrap().script
}

/// Formats the action and the order of each task, groups in brackets.
fn shown(tasks: &[TaskDefinition]) -> String {
    let one = |task: &TaskDefinition| {
        let action = match &task.action {
            TaskAction::Shell(shell) => format!("shell {}", script(shell)),
            TaskAction::Send(send) => format!("send to {}", send.to.join("+")),
            TaskAction::Ask(_) => "ask".to_owned(),
            TaskAction::Workflow(child) => format!("workflow {}", child.file),
            TaskAction::Parallel(group) => format!("parallel [{}]", shown(&group.tasks)),
            TaskAction::Sequence(list) => format!("sequence [{}]", shown(list)),
        };
        let condition = task.condition.as_ref().map(|one| format!("if {}: ", one.source()));
        let condition = condition.unwrap_or_default();
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
        "agents: { reviewer: { mock: [] }, security: { mock: [] }, lead: { mock: [] } }
tasks:
  - { shell: git diff, as: diff, name: changes, timeout: 5m, cwd: src, env: { A_B: b } }
  - { send: 'Review ${{ diff }}', to: reviewer, as: review, until: idle }
  - if: ${{ review.contains('security') }}
    send: Deep review
    to: [security, lead]
    else:
      - shell: echo none
  - { if: 'diff == 1', then: [{ shell: a }, { shell: b }] }
  - parallel:
      max: 2
      fail_fast: true
      tasks: [{ name: a, shell: a }, { name: b, shell: b, needs: [a] }, { shell: c }]
  - parallel: [{ parallel: [{ shell: d }] }]
  - { shell: date, needs: [] }
  - { shell: wc, needs: [changes], format: json, continue_on_error: true }
output: ${{ review }}
",
    )
    .unwrap();
    assert_eq!(
        shown(&procedure.tasks),
        "shell git diff (); send to reviewer (0); \
         if review.contains('security'): send to security+lead else [shell echo none ()] (0,1); \
         if diff == 1: sequence [shell a (); shell b (0)] (0,1,2); \
         parallel [shell a (); shell b (0); shell c ()] (0,1,2,3); \
         parallel [parallel [shell d ()] ()] (0,1,2,3,4); \
         shell date (); shell wc (0)"
    );
    let output: Vec<String> =
        procedure.output.iter().flat_map(Template::references).map(Reference::to_string).collect();
    assert_eq!(output, ["review"]);
    let lines: Vec<usize> = procedure.tasks.iter().map(|task| task.line).collect();
    assert_eq!(lines, [3, 4, 5, 10, 11, 15, 16, 17]);
    let [.., last] = procedure.tasks.as_slice() else { panic!() };
    assert!(last.continue_on_error);
    let TaskAction::Shell(shell) = &last.action else { panic!() };
    assert_eq!(shell.format, TaskFormat::Json);
    let TaskAction::Send(send) = &procedure.tasks[1].action else { panic!() };
    assert_eq!(send.until, SendEnd::Idle);
}

/// Files with one mistake each, its place, and a part of the message.
const MISTAKES: [(&str, &str, &str); 55] = [
    ("tasks: []\n", "1:8", "a list of at least one task"),
    ("tasks:\n  - { as: x }\n", "2:5", "this task has no action"),
    ("tasks:\n  - { shell: a, send: b, to: c }\n", "2:5", "not `shell` and `send`"),
    ("tasks:\n  - { shel: a }\n", "2:7", "unknown key `tasks[0].shel`"),
    ("tasks:\n  - { shell: a, to: b }\n", "2:21", "`to` does not belong to a task with `shell`"),
    ("tasks:\n  - { send: a }\n", "2:5", "needs `to`"),
    ("tasks:\n  - { send: a, to: [] }\n", "2:20", "at least one text"),
    ("tasks:\n  - { shell: a, else: [{ shell: b }] }\n", "2:23", "`else` needs `if`"),
    ("tasks:\n  - { shell: a, if: '${{ }}' }\n", "2:21", "must be an expression"),
    ("tasks:\n  - { shell: a, retry: { backoff: 1s } }\n", "2:24", "needs `max_attempts`"),
    ("tasks:\n  - { shell: a, max: 2 }\n", "2:22", "`max` of a task needs `for_each`"),
    ("tasks:\n  - { ask: a }\n", "2:7", "`tasks[0].ask` cannot be used yet"),
    ("tasks:\n  - { workflow: a.yaml }\n", "2:7", "`tasks[0].workflow` cannot be used yet"),
    ("agents: { a: { mock: [] } }\nfinally: [{ shell: a }]\n", "2:10", "`finally` needs `tasks`"),
    ("agents: { a: { mock: [] } }\noutput: x\n", "2:9", "`output` needs `tasks`"),
    (
        "tasks:\n  - { parallel: [{ shell: a }], as: x }\n",
        "2:37",
        "`as` does not belong to a task with `parallel`",
    ),
    ("tasks:\n  - { then: [{ shell: a }], as: x }\n", "2:33", "`as` does not belong"),
    ("setup: [{ shell: a, as: item }]\ntasks: [{ shell: b }]\n", "1:25", "`item` is reserved"),
    ("setup: [{ shell: a, as: json }]\ntasks: [{ shell: b }]\n", "1:25", "`json` is reserved"),
    ("setup: [{ shell: a, as: env }]\ntasks: [{ shell: b }]\n", "1:25", "`env` is reserved"),
    ("tasks:\n  - { shell: a, if: 3 }\n", "2:21", "true or false, not a number"),
    ("tasks:\n  - { shell: a, if: '${{ 3 }}' }\n", "2:21", "true or false, not a number"),
    ("tasks:\n  - { shell: a, if: \"'x'\" }\n", "2:21", "true or false, not text"),
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
    ("tasks:\n  - { parallel: { max: 0, tasks: [{ shell: a }] } }\n", "2:24", "between 1 and 100"),
    ("tasks:\n  - { shell: a, expect: [] }\n", "2:17", "`tasks[0].expect` cannot be used yet"),
    ("tasks:\n  - { shell: 'echo ${{ dif }}' }\n", "2:20", "unknown name `dif`"),
    ("tasks:\n  - { shell: 'echo ${{ 1 + dif }}' }\n", "2:28", "unknown name `dif`"),
    ("tasks:\n  - { shell: a, if: 'x == 1' }\n", "2:22", "unknown name `x`"),
    ("tasks:\n  - { shell: a, if: '${{ 1 == x }}' }\n", "2:31", "unknown name `x`"),
    ("tasks:\n  - { shell: a, if: 'a ==' , as: b }\n", "2:22", "unknown name `a`"),
    ("tasks:\n  - { shell: a, if: '(1' }\n", "2:22", "never closed"),
    ("tasks:\n  - { shell: 'x ${{ ) }}' }\n", "2:21", "nothing is open here"),
    ("tasks:\n  - { shell: 'x ${{ y' }\n", "2:17", "this `${{` is never closed"),
    ("tasks:\n  - { shell: 'x ${{ x + 1 }}', as: x }\n", "2:21", "does not wait for it"),
    (
        "tasks:\n  - { shell: 'x ${{ x }}' }\n  - { shell: a, as: x }\n",
        "2:17",
        "does not wait for it",
    ),
    (
        "tasks:\n  - parallel: [{ shell: a, as: x }, { shell: 'b ${{ x }}' }]\n",
        "2:49",
        "`x` has no value here",
    ),
    (
        "tasks:\n  - { shell: a, name: x }\n  - { shell: b, if: tasks.y.state == 'done' }\n",
        "3:21",
        "there is no task `y`",
    ),
    (
        "tasks:\n  - { shell: a, name: x }\n  - { shell: b, if: tasks.x.stat == 'done' }\n",
        "3:21",
        "a task has no `stat`",
    ),
    ("tasks:\n  - { shell: a, name: x, if: tasks.x.ms > 1 }\n", "2:30", "does not wait for it"),
    ("tasks:\n  - { shell: a, if: Object.keys(tasks) == 1 }\n", "2:33", "`tasks` needs the name"),
    ("tasks:\n  - { shell: a, if: env.API_KEY == 1 }\n", "2:21", "secret by its name"),
    ("tasks:\n  - { shell: a, if: \"env['A' + 1] == 1\" }\n", "2:22", "`env` needs a name"),
    ("tasks:\n  - { shell: a, if: item == 1 }\n", "2:21", "`item`"),
    ("tasks:\n  - { send: a, to: bob }\n", "2:20", "there is no agent `bob`"),
    (
        "tasks:\n  - { shell: 'echo ${{ 1 + 1 }} $((${{ 1 + 1 }}))' }\n",
        "2:36",
        "a value cannot be placed here",
    ),
];

#[test]
fn a_mistake_in_a_task_is_reported_at_its_place() {
    let mut wrong = Vec::new();
    for (yaml, place, part) in MISTAKES {
        let mistakes = tasks(yaml).map_or_else(|error| error.mistakes(), |_| Vec::new());
        let found: Vec<String> = mistakes
            .iter()
            .map(|one| format!("{}:{} {}", one.line, one.column, one.message))
            .collect();
        let is_expected =
            |one: &String| one.starts_with(&format!("{place} ")) && one.contains(part);
        if found.len() != 1 || !found.iter().all(is_expected) {
            wrong.push(format!("{yaml}expected {place} {part}\nfound {found:?}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_mistake_in_a_task_says_what_to_do() {
    for (yaml, hint) in [
        (
            "tasks:\n  - { shell: a, name: a, needs: [b] }\n  - { shell: b, name: b, needs: [a] }\n",
            "a task without `needs` waits for every task before it in its list",
        ),
        (
            "tasks:\n  - { shell: a, name: one }\n  - { shell: b, needs: [on] }\n",
            "did you mean `one`?",
        ),
        ("tasks:\n  - { shell: a, needs: [x] }\n", "`needs` names tasks of the same list"),
        (
            "tasks:\n  - { shell: 'x ${{ x }}' }\n  - { shell: a, as: x }\n",
            "move the task down, or name the task that makes it in `needs`",
        ),
        ("tasks:\n  - { shell: a, if: 3 }\n", "write a comparison, such as `if: x == 'true'`"),
        ("tasks:\n  - { send: a, to: bob }\n", "add it to `agents:`"),
        (
            "agents: { bobby: { mock: [] } }\ntasks:\n  - { send: a, to: boby }\n",
            "did you mean `bobby`?",
        ),
        ("tasks:\n  - { shell: a, expect: [] }\n", "remove it"),
        ("tasks:\n  - { then: [{ shell: a }], as: x }\n", "write it at the tasks in the group"),
        ("tasks:\n  - { name: x }\n", "add one of `shell`, `send`, `parallel`, `then`"),
    ] {
        let mistakes = tasks(yaml).unwrap_err().mistakes();
        let hints: Vec<Option<&str>> = mistakes.iter().map(|one| one.hint.as_deref()).collect();
        assert_eq!(hints, [Some(hint)], "{yaml}");
    }
}

#[test]
fn an_output_of_setup_may_have_a_name_of_expressions_in_a_file_without_tasks() {
    let yaml = "setup: [{ shell: a, as: item }]\nkickoff: '@a ${{ item }}'\n";
    let workflow = crate::read_with_agent(yaml).unwrap();
    let stored = serde_json::to_string(&workflow).unwrap();
    let stored: Workflow = serde_json::from_str(&stored).unwrap();
    let mut scope = TemplateScope::default();
    scope.insert_output("item", "x");
    assert_eq!(stored.kickoff.unwrap().render(&scope).unwrap().text, "@a x");
}

#[test]
fn a_thousand_tasks_are_read_and_more_are_refused() {
    let many = |count: usize| format!("tasks:\n{}", "  - shell: a\n".repeat(count));
    assert_eq!(tasks(&many(1_000)).unwrap().tasks.len(), 1_000);
    let error = tasks(&many(1_001)).unwrap_err();
    assert!(error.summary().contains("more than 1000 tasks"), "{error}");
}

#[test]
fn a_file_with_tasks_needs_no_agents_and_no_kickoff() {
    let workflow = crate::read("tasks:\n  - shell: make\n").unwrap();
    assert_eq!((workflow.agents.len(), workflow.kickoff, workflow.tasks.tasks.len()), (0, None, 1));
    for without in ["name: x\n", "tasks:\n"] {
        let error = crate::read(without).unwrap_err();
        assert!(error.summary().contains("`agents` is missing"), "{without}: {error}");
    }
}

#[test]
fn a_variable_that_a_task_names_is_a_value_in_every_script() {
    let script = "tasks:\n  - shell: eval \"$CI\"\n";
    tasks(script).unwrap();
    for naming in [
        "shell: 'echo ${{ env.CI }}'",
        "shell: 'echo ${{ [env.CI] }}'",
        "{ shell: a, if: env.CI == 'x' }",
    ] {
        let error = tasks(&format!("{script}  - {naming}\n")).unwrap_err();
        let places: Vec<usize> = error.mistakes().iter().map(|mistake| mistake.line).collect();
        assert_eq!(places, [2], "{naming}: {error}");
    }
}

/// Returns the places of a procedure, in the order of the file.
fn paths(tasks: &[TaskDefinition]) -> Vec<&str> {
    tasks.iter().flat_map(TaskDefinition::walk).map(|task| task.path.as_str()).collect()
}

#[test]
fn a_path_has_names_or_positions_and_no_two_tasks_share_one() {
    let procedure = tasks(
        "tasks:
  - shell: a
  - { name: b, shell: b, if: 'true', else: [{ shell: c }, { name: d, shell: d }] }
  - { name: e, parallel: [{ shell: f }, { then: [{ shell: g }], if: 'true', else: [{ shell: h }] }] }
",
    )
    .unwrap();
    let expected = ["1", "b", "b/else/1", "b/else/d", "e", "e/1", "e/2", "e/2/1", "e/2/else/1"];
    assert_eq!(paths(&procedure.tasks), expected);
    let stored = serde_json::to_string(&procedure).unwrap();
    assert_eq!(serde_json::from_str::<TaskProcedure>(&stored).unwrap(), procedure);
}

#[test]
fn a_task_uses_the_values_of_the_tasks_for_which_it_waits() {
    tasks(
        "params: [{ name: n, type: number, required: true }]
setup:
  - { shell: a, as: start }
tasks:
  - { name: one, shell: 'echo ${{ start }} ${{ params.n + 1 }}', as: x }
  - parallel:
      - { shell: 'echo ${{ x.trim() }}', as: y }
      - { name: two, then: [{ shell: b, as: z }, { shell: 'echo ${{ z }} ${{ tasks.one.output }}' }] }
      - { shell: 'echo ${{ z + tasks.two.state }}', needs: [two] }
  - { if: lines(y).map(y => y.length).length > 0, then: [{ shell: 'echo ${{ [x, y, z] }}' }] }
output: ${{ x }} ${{ z.length }}
",
    )
    .unwrap();
}

/// Texts that a shell would change, run or split.
const HOSTILE: [&str; 6] =
    ["$(touch x)", "`touch x`", "'; touch x; '", "\"; touch x; \"", "a\n\n", "${{ env.HOME }}"];

#[test]
fn the_result_of_an_expression_is_in_a_script_what_the_value_of_a_name_is() {
    for place in ["echo \"@\" > f", "printf '%s' @", "cat <<E\n@\nE", "echo 'a @ b'", "wc @.file"] {
        let script = |source: &str| {
            // Only a name has a file.
            let source = if place.contains("@.file") { "x" } else { source };
            let text = place
                .replace("@.file", "${{ x.file }}")
                .replace('@', &format!("${{{{ {source} }}}}"));
            let text = serde_json::to_string(&text).unwrap();
            let yaml = format!("setup: [{{ shell: a, as: x }}]\ntasks:\n  - shell: {text}\n");
            let procedure = tasks(&yaml).unwrap();
            let TaskAction::Shell(shell) = &procedure.tasks[0].action else { panic!() };
            shell.command.shell.clone()
        };
        for value in HOSTILE {
            let mut scope = TemplateScope::default();
            scope.insert_output("x", value);
            let (name, expression) = (script("x"), script("x.slice(0) + ''"));
            for reference in expression.references() {
                if let Reference::Expression(one) = reference {
                    scope.insert_result(one, value);
                }
            }
            let prepared = expression.prepare(&scope).unwrap();
            assert_eq!(prepared, name.prepare(&scope).unwrap(), "{place}");
            assert!(!prepared.script.contains(value), "{place}");
        }
    }
}

#[test]
fn an_expression_gets_the_values_that_it_names_with_their_types() {
    let procedure = tasks(
        "params: [{ name: n, type: number, required: true }]
setup: [{ shell: a, as: x }, { shell: a, as: unused }]
tasks:
  - { name: one, shell: a, as: list }
  - { shell: b, if: '[x, x].map(v => v + params.n + list[0] + tasks.one.exit_code + instance).length > 1' }
",
    )
    .unwrap();
    let mut scope = TemplateScope::default();
    scope.insert_output("x", "1");
    scope.insert_output("unused", "2");
    let condition = procedure.tasks[1].condition.clone().unwrap();
    let missing = scope.bindings(&condition).unwrap_err().to_string();
    assert!(missing.contains("has no value yet"), "{missing}");
    scope.insert_task_output("list", ScopeValue::Json("[1]".to_owned()));
    scope.insert_task_fact("one", TaskFact::ExitCode, ScopeValue::Null);
    let workflow =
        crate::read_with_agent("params: [{ name: n, type: number, default: 1 }]\n").unwrap();
    let given = [("n".to_owned(), "007".to_owned())].into();
    let of_run = workflow.scope(&given, &BTreeMap::new(), &"t".parse().unwrap(), Path::new("/"));
    let of_run = of_run.unwrap();
    for name in ["params.n", "instance"] {
        let reference: Reference = name.parse().unwrap();
        scope.insert_value(reference.clone(), of_run.typed_value(&reference).unwrap().clone());
    }
    let bound: Vec<String> = scope
        .bindings(&condition)
        .unwrap()
        .into_iter()
        .map(|value| format!("{}={:?}", value.path.join("."), value.content))
        .collect();
    assert_eq!(
        bound,
        [
            "list=Json(\"[1]\")",
            "x=Text(\"1\")",
            "params.n=Json(\"7\")",
            "workflow.tag=Text(\"t\")",
            "workflow.instance=Text(\"t\")",
            "instance=Text(\"t\")",
            "tasks.one.exit_code=Json(\"null\")",
        ]
    );
}
