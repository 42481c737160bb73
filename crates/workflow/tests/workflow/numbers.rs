//! Values of type number: checked, and then anywhere in a script.

use std::{collections::BTreeMap, path::Path};

use agent_worker_protocol::Tag;
use agent_worker_workflow::{Error, PreparedScript, TemplateScope, Workflow};

use crate::read_with_agent;

/// Positions in which a text is refused.
const CODE_POSITIONS: [&str; 12] = [
    "echo $((@ + 1))",
    "((n = @))",
    "for ((i = 0; i < @; i++)); do :; done",
    "[[ @ -gt 1 ]]",
    "a[@]=1",
    "declare -i n=@",
    "let n=@",
    "exit @",
    "sh -c 'exit @'",
    "cat <<'EOF'\n@\nEOF",
    "echo \"${HOME:@}\" `echo @` $'@' # @",
    "echo @ | bash",
];

fn scoped(workflow: &Workflow, value: &str) -> Result<TemplateScope, Error> {
    let tag: Tag = "t".parse().unwrap();
    let params = BTreeMap::from([("n".to_owned(), value.to_owned())]);
    workflow.scope(&params, &BTreeMap::new(), &tag, Path::new("/project"))
}

fn workflow(script: &str, program: &str) -> Result<Workflow, Error> {
    let script = serde_json::to_string(script).unwrap();
    read_with_agent(&format!(
        "params: [{{ name: n, type: number, default: 3 }}]\nsetup:\n  - {{ shell: 'true', as: x }}\n  \
         - {{ shell: {script}, shell_program: {program} }}\n"
    ))
}

fn prepared(script: &str, value: &str) -> Result<PreparedScript, Error> {
    let workflow = workflow(script, "bash")?;
    let mut scope = scoped(&workflow, value)?;
    scope.insert_output("x", value);
    workflow.setup[1].shell.prepare(&scope)
}

#[test]
fn a_number_is_written_into_the_script_wherever_it_is() {
    for position in CODE_POSITIONS {
        for reference in ["${{ int(x) }}", "${{ params.n }}", "${{ int(params.n) }}"] {
            let ready = prepared(&position.replace('@', reference), " 007\n").unwrap();
            assert_eq!(ready.script, position.replace('@', "7"), "{position}");
            assert!(ready.files.is_empty());
        }
    }
    let python = workflow("print(${{ params.n }} + ${{ int(x) }})", "python3").unwrap();
    let mut scope = scoped(&python, "1.5").unwrap();
    scope.insert_output("x", "-2");
    assert_eq!(python.setup[1].shell.prepare(&scope).unwrap().script, "print(1.5 + -2)");
}

#[test]
fn other_text_is_refused_before_the_script_runs() {
    for value in ["", "a[$(touch pwned)]", "1; touch pwned", "1\n2", "0x1", "1.5"] {
        let error = prepared("echo $((${{ int(x) }}))", if value == "1.5" { value } else { "1" });
        assert_eq!(error.is_ok(), value != "1.5", "{value}");
        let workflow = workflow("echo $((${{ int(x) }}))", "bash").unwrap();
        let mut scope = scoped(&workflow, "1").unwrap();
        scope.insert_output("x", value);
        let error = workflow.setup[1].shell.prepare(&scope).unwrap_err();
        assert_eq!(error.summary(), "the value of `x` must be a whole number", "{value}");
    }
    let error = scoped(&workflow("true", "bash").unwrap(), "$(touch pwned)").unwrap_err();
    assert_eq!(error.summary(), "the value of `params.n` must be a number");
    assert_eq!(error.hint().as_deref(), Some("give a number: `--n 5`"));
}

#[test]
fn a_number_beside_a_text_does_not_hide_the_text() {
    for script in [
        "v${{ int(x) }}=${{ x }}; echo $((v1))",
        "f${{ int(x) }}() { eval \"$1\"; }; f1 ${{ x }}",
        "n=${{ x }}; echo $((n${{ int(x) }}))",
        "cat <<${{ int(x) }}\n${{ x }}\n1\n",
        "cat <<1\n${{ int(x) }}\n${{ x }}\n1\n",
        "python${{ int(x) }} -c ${{ x }}",
        "echo $((${{ int(x) }} + ${{ x }}))",
    ] {
        assert!(prepared(script, "1").is_err(), "{script}");
    }
    assert!(prepared("head -n ${{ int(x) }} ${{ x.file }} >f${{ params.n }}", "1").is_ok());
}

#[test]
fn a_parameter_that_is_a_number_has_a_number_or_is_required() {
    for (param, part) in [
        ("{ name: n, type: number }", "a number has no empty value"),
        ("{ name: n, type: number, default: many }", "`params[0].default` must be a number"),
        ("{ name: n, type: int, default: 1 }", "or `json`, not `int`"),
        ("{ name: n, default: 1 }", "must be text, not a number"),
    ] {
        let error = read_with_agent(&format!("params: [{param}]\n")).unwrap_err();
        assert!(error.summary().contains(part), "{param}: {error}");
    }
    for param in
        ["{ name: n, type: number, required: true }", "{ name: n, type: number, default: '1.5' }"]
    {
        assert!(read_with_agent(&format!("params: [{param}]\n")).is_ok(), "{param}");
    }
    let kickoff = read_with_agent("kickoff: '@a ${{ int(instance) }}'\n").unwrap_err();
    assert!(kickoff.summary().contains("`int( )` is for commands"), "{kickoff}");
}
