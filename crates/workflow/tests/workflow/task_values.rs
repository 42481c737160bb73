//! Values that the texts of tasks name: variables of the environment, and lists of references.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use agent_worker_workflow::{Reference, TaskAction, unset_env};

/// File whose tasks name one variable in each place that can name one.
const VARIABLES: &str = "setup: [{ shell: a, as: x, env: { A: '${{ env.OF_SETUP }}' } }]
tasks:
  - { shell: 'echo ${{ env.IN_SCRIPT }}', env: { A_TOKEN: '${{ env.OF_TASK + 1 }}' } }
  - parallel:
      - { send: 'x ${{ [env.IN_TEXT] }}', to: a }
      - { shell: b, if: env.IN_IF == 'x', else: [{ shell: 'echo ${{ env.IN_ELSE }}' }] }
output: ${{ env.IN_OUTPUT }}
";
const VARIABLE_NAMES: [&str; 7] =
    ["IN_ELSE", "IN_IF", "IN_OUTPUT", "IN_SCRIPT", "IN_TEXT", "OF_SETUP", "OF_TASK"];

#[test]
fn a_variable_that_only_a_task_names_is_one_of_the_file() {
    let workflow = crate::read_with_agent(VARIABLES).unwrap();
    assert_eq!(Vec::from_iter(&workflow.env_names), VARIABLE_NAMES);
    for name in VARIABLE_NAMES {
        assert!(workflow.declares_env(name), "{name}");
    }
    assert!(!workflow.declares_env("A_TOKEN"));
    let tag = "t".parse().unwrap();
    let env: BTreeMap<String, String> =
        VARIABLE_NAMES.map(|name| (name.to_owned(), format!("value of {name}"))).into();
    let scope = workflow.scope(&BTreeMap::new(), &env, &tag, Path::new("/")).unwrap();
    let given = |name: &str| format!("env.{name}").parse::<Reference>().unwrap();
    for name in VARIABLE_NAMES {
        let value = scope.typed_value(&given(name)).unwrap();
        assert_eq!(value.as_text(), format!("value of {name}"));
    }
    // Only the command whose `env:` names a variable gets it.
    let TaskAction::Shell(shell) = &workflow.tasks.tasks[1].children()[1].action else { panic!() };
    let env = workflow.setup_env(&shell.command, env, &scope).unwrap();
    assert_eq!(
        env.keys().collect::<Vec<_>>(),
        ["IN_ELSE", "IN_IF", "IN_OUTPUT", "IN_SCRIPT", "IN_TEXT"]
    );
}

#[test]
fn a_variable_that_is_not_set_is_reported_where_a_task_names_it() {
    let workflow = crate::read_with_agent(VARIABLES).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("team.yaml");
    let text = format!("{}{VARIABLES}", crate::AGENTS);
    std::fs::write(&path, &text).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let error = unset_env(file, &path, &workflow, &BTreeMap::new()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let found = error.mistakes().into_iter().map(|one| {
        let rest = &lines[one.line - 1][one.column - 1..];
        let name = one.message.trim_start_matches("the variable ").trim_end_matches(" is not set");
        assert!(rest.starts_with(&format!("env.{name}")), "{name}: {rest}");
        name.to_owned()
    });
    let mut found: Vec<String> = found.collect();
    found.sort();
    assert_eq!(found, VARIABLE_NAMES);
}

#[test]
fn a_task_lists_the_values_that_its_own_texts_need() {
    let procedure = crate::read(
        "setup: [{ shell: a, as: x }]
tasks:
  - { shell: a, name: one, as: y }
  - if: x == 'a' && tasks.one.exit_code == 0
    shell: 'echo ${{ y }} ${{ y.length + 1 }}'
    env: { A: '${{ env.CI }}' }
    else: [{ shell: 'echo ${{ instance }}' }]
  - { then: [{ shell: 'echo ${{ x }}' }], if: y }
",
    )
    .unwrap()
    .tasks;
    let shown = |references: BTreeSet<Reference>| {
        references.iter().map(Reference::to_string).collect::<Vec<_>>()
    };
    let [first, second, group] = procedure.tasks.as_slice() else { panic!() };
    assert_eq!((shown(first.references()), shown(first.reads())), (Vec::new(), Vec::new()));
    assert_eq!(
        shown(second.references()),
        ["y", "env.CI", "x == 'a' && tasks.one.exit_code == 0", "y.length + 1"]
    );
    assert_eq!(shown(second.reads()), ["x", "y", "env.CI", "tasks.one.exit_code"]);
    assert_eq!(
        (shown(group.references()), shown(group.reads())),
        (vec!["y".to_owned()], vec!["y".to_owned()])
    );
    assert_eq!(shown(second.otherwise[0].reads()), ["workflow.tag"]);
    assert_eq!(procedure.walk().count(), 5);
}
