//! The scanner and bash agree: a script with the value in a variable prints the same as with the value written out.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use agent_worker_workflow::TemplateScope;
use proptest::prelude::*;

use crate::shell::step;

const WRITTEN_OUT: &str = "zqz";
/// Value that would end any quote, run a command, or be taken for a pattern. It has no blanks, because an author's
/// own `$( )` may split its output.
const HOSTILE: &str = "\"';$(touch${IFS}pwned)`touch${IFS}pwned`\\#&|<pwned>pwned(){}[]!~\"'";
const PRELUDE: &str = "p() { printf '<%s>' \"$@\"; }; ";

fn reference() -> Just<String> {
    Just("${{ x }}".to_owned())
}

/// Generates a word with every kind of quoting around references, and commands inside it.
fn word(command: impl Strategy<Value = String> + Clone + 'static) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => reference(),
        2 => Just("a".to_owned()),
        2 => Just("'it is \" ${{ x }} $( ` # '".to_owned()),
        2 => Just("\"it's ${{ x }} \\\" \\$( # \\` \"".to_owned()),
        1 => Just("\\'\\\"\\#".to_owned()),
        1 => Just("$'it\\'s'".to_owned()),
        1 => Just("\"$((1 << 2))\"".to_owned()),
        1 => Just("${v:-\"it's\"}".to_owned()),
        1 => Just("a#'}'b".to_owned()),
        2 => command.clone().prop_map(|command| format!("\"$({command}\n)\"")),
        1 => command.prop_map(|command| format!("$({command}\n)")),
    ];
    prop::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat())
}

fn command() -> impl Strategy<Value = String> {
    let leaf = Just("p 1 # it's a \"comment $(".to_owned()).boxed();
    leaf.prop_recursive(4, 40, 3, |inner| {
        let word = || word(inner.clone());
        prop_oneof![
            6 => (word(), word()).prop_map(|(a, b)| format!("p {a} {b}")),
            1 => word().prop_map(|a| format!("v={a} w=1; p \"$v\"")),
            1 => word().prop_map(|a| format!("g() {{ p \"$@\"; }}; g {a} b")),
            1 => word().prop_map(|a| format!("cat <<<{a} 2>&1")),
            2 => word().prop_map(|a| format!("cat <<EOF\nit's \" {a} \\$( )\nEOF")),
            1 => word().prop_map(|a| format!("cat <<'A'; cat <<-B\nit's $( `\nA\n\t{a}\n\tB")),
            1 => (word(), inner.clone()).prop_map(|(a, c)| format!("if p {a}; then {c}\nfi")),
            1 => (word(), inner.clone())
                .prop_map(|(a, c)| format!("case {a} in (1) p;; *|b) {c}\n;; esac")),
            1 => (word(), inner.clone())
                .prop_map(|(a, c)| format!("for i in {a} b; do {c}\ndone")),
            1 => (word(), inner.clone())
                .prop_map(|(a, c)| format!("[ -n x{a} ] && [[ -n x && ! ( a > b ) ]] && {c}")),
            1 => inner.clone().prop_map(|c| format!("({c}\n)")),
            1 => inner.clone().prop_map(|c| format!("f() {{ {c}\n}}; f")),
            1 => inner.clone().prop_map(|c| format!("cat <({c}\n)")),
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}\n{b}")),
        ]
        .boxed()
    })
}

/// Returns the output of bash, if bash accepts the script.
fn bash(script: &str, folder: &Path, variables: &[(String, String)]) -> Option<String> {
    let file = folder.join("script");
    fs::write(&file, script).unwrap();
    let mut command = Command::new("bash");
    command.args(["-uo", "pipefail"]).arg(&file).current_dir(folder).stdin(Stdio::null());
    for (variable, value) in variables {
        let path = folder.join(variable);
        fs::write(&path, value).unwrap();
        command.env(variable, path);
    }
    let output = command.output().unwrap();
    let understood = output.status.success() && output.stderr.is_empty();
    understood.then(|| String::from_utf8(output.stdout).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_script_prints_with_a_value_what_it_prints_with_the_value_written_out(script in command()) {
        let Ok(step) = step("bash", &format!("{PRELUDE}{script}")) else { return Ok(()) };
        let folder = tempfile::tempdir().unwrap();
        let plain = format!("{PRELUDE}{}", script.replace("${{ x }}", WRITTEN_OUT));
        let Some(expected) = bash(&plain, folder.path(), &[]) else { return Ok(()) };
        for value in [WRITTEN_OUT, HOSTILE] {
            let mut scope = TemplateScope::default();
            scope.insert_output("x", value);
            let prepared = step.shell.prepare(&scope).unwrap();
            let files: Vec<_> =
                prepared.files.into_iter().map(|file| (file.variable, file.value)).collect();
            let printed = bash(&prepared.script, folder.path(), &files);
            prop_assert_eq!(printed, Some(expected.replace(WRITTEN_OUT, value)), "{}", prepared.script);
            prop_assert!(!folder.path().join("pwned").exists(), "{}", prepared.script);
        }
    }
}
